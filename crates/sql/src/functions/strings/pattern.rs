//! POSIX advanced regular expressions, translated to those of the crate `regex`.
//!
//! Invariants: a pattern that is not valid in PostgreSQL is 2201B; look-around and back-references, which cannot be
//! matched in linear time, are refused with 0A000. Of several alternatives the first that matches wins, where POSIX
//! takes the longest. Compiled patterns are kept for each thread.

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::sync::Arc;

use hashbrown::HashMap;
use regex::{Regex, RegexBuilder};

use crate::error::{Result, SqlError, SqlState};

/// How many compiled patterns a thread keeps.
const CACHED_PATTERNS_MAX: usize = 128;
/// How large a compiled pattern may be, in bytes.
const COMPILED_SIZE_MAX: usize = 8 << 20;

/// What the letters of a flags argument say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Flags {
    /// `g`
    pub is_global: bool,
    /// `i`
    ignores_case: bool,
    /// `q`
    is_literal: bool,
    /// `x`
    is_expanded: bool,
    /// `p` and `n`: a newline is matched by neither `.` nor `[^…]`.
    stops_at_newline: bool,
    /// `w` and `n`: `^` and `$` match at newlines.
    has_lines: bool,
}

impl Flags {
    /// For `~*`.
    pub(super) fn ignoring_case() -> Flags {
        Flags { ignores_case: true, ..Flags::default() }
    }

    /// Reads the letters.
    pub(super) fn parse(text: &str) -> Result<Flags> {
        let mut flags = Flags::default();
        for letter in text.chars() {
            if letter == 'g' {
                flags.is_global = true;
            } else if !flags.set(letter) {
                let message = format!("invalid regular expression option: \"{letter}\"");
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
            }
        }
        Ok(flags)
    }

    fn set(&mut self, letter: char) -> bool {
        match letter {
            'i' => self.ignores_case = true,
            'c' => self.ignores_case = false,
            'q' => self.is_literal = true,
            'x' => self.is_expanded = true,
            't' => self.is_expanded = false,
            'n' | 'm' => (self.stops_at_newline, self.has_lines) = (true, true),
            'p' => (self.stops_at_newline, self.has_lines) = (true, false),
            'w' => (self.stops_at_newline, self.has_lines) = (false, true),
            's' => (self.stops_at_newline, self.has_lines) = (false, false),
            'e' => {}
            _ => return false,
        }
        true
    }
}

thread_local! {
    static COMPILED: RefCell<HashMap<(String, Flags), Arc<Regex>>> = RefCell::new(HashMap::new());
}

/// The compiled form of a pattern.
pub(super) fn compile(pattern: &str, flags: Flags) -> Result<Arc<Regex>> {
    let key = (pattern.to_string(), flags);
    let known = COMPILED.with_borrow(|compiled| compiled.get(&key).cloned());
    if let Some(known) = known {
        return Ok(known);
    }
    let made = Arc::new(build(pattern, flags)?);
    COMPILED.with_borrow_mut(|compiled| {
        if compiled.len() >= CACHED_PATTERNS_MAX {
            compiled.clear();
        }
        compiled.insert(key, made.clone());
    });
    Ok(made)
}

fn invalid(reason: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_REGULAR_EXPRESSION, format!("invalid regular expression: {reason}"))
}

fn unsupported(what: &str) -> SqlError {
    let error = SqlError::unsupported(format!("{what} in regular expressions are not supported"));
    error.with_hint("Regular expressions are matched in linear time: rewrite the pattern without them.")
}

fn build(pattern: &str, mut flags: Flags) -> Result<Regex> {
    let mut body = pattern;
    if let Some(literal) = body.strip_prefix("***=") {
        flags.is_literal = true;
        body = literal;
    } else if let Some(rest) = body.strip_prefix("***:") {
        body = rest;
    }
    let is_option = |c: char| c.is_ascii_lowercase();
    if let Some((letters, rest)) = body.strip_prefix("(?").and_then(|rest| rest.split_once(')'))
        && !letters.is_empty()
        && letters.chars().all(is_option)
        && !flags.is_literal
    {
        if !letters.chars().all(|letter| flags.set(letter)) {
            return Err(invalid("invalid embedded option"));
        }
        body = rest;
    }
    let source =
        if flags.is_literal { regex::escape(body) } else { Translator::new(body, flags).translate()? };
    let mut builder = RegexBuilder::new(&source);
    builder.case_insensitive(flags.ignores_case).multi_line(flags.has_lines);
    builder.dot_matches_new_line(!flags.stops_at_newline).size_limit(COMPILED_SIZE_MAX);
    builder.build().map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => {
            SqlError::new(SqlState::INVALID_REGULAR_EXPRESSION, "regular expression is too complex")
        }
        _ => invalid(reason_of(&source)),
    })
}

/// A guess at what PostgreSQL would say.
fn reason_of(source: &str) -> &'static str {
    let count = |c: char| source.matches(c).count();
    if count('(') != count(')') {
        "parentheses () not balanced"
    } else if count('[') != count(']') {
        "brackets [] not balanced"
    } else {
        "quantifier operand invalid"
    }
}

struct Translator<'p> {
    rest: std::iter::Peekable<std::str::Chars<'p>>,
    flags: Flags,
    out: String,
}

impl<'p> Translator<'p> {
    fn new(pattern: &'p str, flags: Flags) -> Translator<'p> {
        Translator { rest: pattern.chars().peekable(), flags, out: String::new() }
    }

    fn translate(mut self) -> Result<String> {
        let mut depth = 0i32;
        while let Some(character) = self.rest.next() {
            match character {
                '\\' => self.escape()?,
                '[' => self.bracket()?,
                '(' => {
                    depth += 1;
                    self.group()?;
                }
                // A closing parenthesis without a partner is an error; PostgreSQL's message, too.
                ')' if depth == 0 => return Err(invalid("parentheses () not balanced")),
                ')' => {
                    depth -= 1;
                    self.out.push(')');
                }
                '{' => self.bound()?,
                '}' => self.out.push_str("\\}"),
                ']' => self.out.push_str("\\]"),
                '#' if self.flags.is_expanded => while self.rest.next_if(|c| *c != '\n').is_some() {},
                blank if self.flags.is_expanded && blank.is_ascii_whitespace() => {}
                '*' | '+' | '?' => self.quantifier(character)?,
                plain => self.out.push(plain),
            }
        }
        if depth != 0 {
            return Err(invalid("parentheses () not balanced"));
        }
        Ok(self.out)
    }

    /// What may be repeated ends neither an alternative's start nor another quantifier.
    fn check_operand(&self) -> Result<()> {
        let last = self.out.chars().next_back();
        let before = self.out.chars().rev().nth(1);
        let is_escaped = before == Some('\\');
        match last {
            None => Err(invalid("quantifier operand invalid")),
            Some('(' | '|' | '^') if !is_escaped => Err(invalid("quantifier operand invalid")),
            Some(':') if self.out.ends_with("(?:") => Err(invalid("quantifier operand invalid")),
            Some('*' | '+' | '?') if !is_escaped => Err(invalid("quantifier operand invalid")),
            _ => Ok(()),
        }
    }

    fn quantifier(&mut self, symbol: char) -> Result<()> {
        self.check_operand()?;
        self.out.push(symbol);
        if self.rest.next_if_eq(&'?').is_some() {
            self.out.push('?');
        }
        if matches!(self.rest.peek(), Some('*' | '+' | '?')) {
            return Err(invalid("quantifier operand invalid"));
        }
        Ok(())
    }

    /// `{m,n}`, or a brace that stands for itself.
    fn bound(&mut self) -> Result<()> {
        if !self.rest.peek().is_some_and(char::is_ascii_digit) {
            self.out.push_str("\\{");
            return Ok(());
        }
        self.check_operand()?;
        let mut inside = String::new();
        loop {
            match self.rest.next() {
                Some('}') => break,
                Some(c) if c.is_ascii_digit() || c == ',' => inside.push(c),
                _ => return Err(invalid("braces {} not balanced")),
            }
        }
        let (low, high) = inside.split_once(',').unwrap_or((&inside, &inside));
        let number = |digits: &str| digits.parse::<u32>().ok().filter(|it| *it <= 255);
        let low = number(low).ok_or_else(|| invalid("invalid repetition count(s)"))?;
        if !high.is_empty() && number(high).is_none_or(|high| high < low) {
            return Err(invalid("invalid repetition count(s)"));
        }
        self.out.push_str(&format!("{{{inside}}}"));
        if self.rest.next_if_eq(&'?').is_some() {
            self.out.push('?');
        }
        Ok(())
    }

    fn group(&mut self) -> Result<()> {
        self.out.push('(');
        if self.rest.next_if_eq(&'?').is_none() {
            return Ok(());
        }
        match self.rest.next() {
            Some(':') => self.out.push_str("?:"),
            Some('=' | '!' | '<') => return Err(unsupported("look-ahead and look-behind constraints")),
            Some('#') => {
                while self.rest.next_if(|c| *c != ')').is_some() {}
                self.out.push_str("?:");
            }
            _ => return Err(invalid("quantifier operand invalid")),
        }
        Ok(())
    }

    fn escape(&mut self) -> Result<()> {
        let Some(character) = self.rest.next() else { return Err(invalid("invalid escape \\ sequence")) };
        let made = match character {
            'd' => "[0-9]",
            'D' => "[^0-9]",
            'w' => "[\\p{Alphabetic}\\p{N}_]",
            'W' => "[^\\p{Alphabetic}\\p{N}_]",
            's' => "\\s",
            'S' => "\\S",
            'm' => "\\b{start}",
            'M' => "\\b{end}",
            'y' => "\\b",
            'Y' => "\\B",
            'A' => "\\A",
            'Z' => "\\z",
            '1'..='9' => return Err(unsupported("back-references")),
            other => {
                let literal = self.escaped_character(other)?;
                self.out.push_str(&regex::escape(&literal.to_string()));
                return Ok(());
            }
        };
        self.out.push_str(made);
        Ok(())
    }

    /// The character that an escape names.
    fn escaped_character(&mut self, letter: char) -> Result<char> {
        Ok(match letter {
            'a' => '\x07',
            'b' => '\x08',
            'B' => '\\',
            'e' => '\x1b',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0b',
            '0' => return Err(invalid("invalid escape \\ sequence")),
            'x' => self.hexadecimal(8)?,
            'u' => self.hexadecimal(4)?,
            'U' => self.hexadecimal(8)?,
            letter if letter.is_ascii_alphanumeric() => return Err(invalid("invalid escape \\ sequence")),
            other => other,
        })
    }

    fn hexadecimal(&mut self, most: usize) -> Result<char> {
        let mut digits = String::new();
        while digits.len() < most {
            match self.rest.next_if(char::is_ascii_hexdigit) {
                Some(digit) => digits.push(digit),
                None => break,
            }
        }
        let code = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
        code.ok_or_else(|| invalid("invalid escape \\ sequence"))
    }

    /// `[…]`: everything in it is literal but ranges, classes and escapes.
    fn bracket(&mut self) -> Result<()> {
        let unbalanced = || invalid("brackets [] not balanced");
        let mut made = String::new();
        let is_negated = self.rest.next_if_eq(&'^').is_some();
        let mut is_first = true;
        loop {
            let character = self.rest.next().ok_or_else(unbalanced)?;
            match character {
                ']' if !is_first => break,
                '[' if self.rest.next_if_eq(&':').is_some() => {
                    let name = self.until(":]").ok_or_else(unbalanced)?;
                    if matches!(name.as_str(), "<" | ">") {
                        self.rest.next_if_eq(&']').ok_or_else(unbalanced)?;
                        self.out.push_str(if name == "<" { "\\b{start}" } else { "\\b{end}" });
                        return Ok(());
                    }
                    let name = match name.as_str() {
                        "upper" | "lower" if self.flags.ignores_case => "alpha",
                        name => name,
                    };
                    made.push_str(class(name).ok_or_else(|| invalid("invalid character class"))?);
                }
                '[' if self.rest.next_if_eq(&'.').is_some() => {
                    made.push_str(&class_literal(&self.until(".]").ok_or_else(unbalanced)?)?);
                }
                '[' if self.rest.next_if_eq(&'=').is_some() => {
                    made.push_str(&class_literal(&self.until("=]").ok_or_else(unbalanced)?)?);
                }
                '\\' => {
                    let letter = self.rest.next().ok_or_else(unbalanced)?;
                    match letter {
                        'd' => made.push_str("0-9"),
                        'w' => made.push_str("\\p{Alphabetic}\\p{N}_"),
                        's' => made.push_str("\\s"),
                        'D' | 'W' | 'S' => return Err(invalid("invalid escape \\ sequence")),
                        other => made.push_str(&class_literal(&self.escaped_character(other)?.to_string())?),
                    }
                }
                '-' if !is_first && self.rest.peek() != Some(&']') => made.push('-'),
                plain => made.push_str(&class_literal(&plain.to_string())?),
            }
            is_first = false;
        }
        let newline = if is_negated && self.flags.stops_at_newline { "\\n" } else { "" };
        self.out.push_str(&format!("[{}{made}{newline}]", if is_negated { "^" } else { "" }));
        Ok(())
    }

    fn until(&mut self, end: &str) -> Option<String> {
        let mut text = String::new();
        loop {
            text.push(self.rest.next()?);
            if let Some(inside) = text.strip_suffix(end) {
                return Some(inside.to_string());
            }
        }
    }
}

/// One character as it stands in a bracket.
fn class_literal(text: &str) -> Result<String> {
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (Some(one), None) if one.is_ascii_punctuation() => Ok(format!("\\{one}")),
        (Some(one), None) => Ok(one.to_string()),
        _ => Err(invalid("invalid collating element")),
    }
}

fn class(name: &str) -> Option<&'static str> {
    Some(match name {
        "alpha" => "\\p{Alphabetic}",
        "digit" => "0-9",
        "alnum" => "\\p{Alphabetic}\\p{N}",
        "word" => "\\p{Alphabetic}\\p{N}_",
        "lower" => "\\p{Lowercase}",
        "upper" => "\\p{Uppercase}",
        "space" => "\\s",
        "blank" => "[:blank:]",
        "punct" => "\\p{P}\\p{S}",
        "cntrl" => "\\p{Cc}",
        "xdigit" => "0-9a-fA-F",
        "print" => "\\P{C}",
        "graph" => "\\p{L}\\p{M}\\p{N}\\p{P}\\p{S}",
        "ascii" => "\\x00-\\x7f",
        _ => return None,
    })
}
