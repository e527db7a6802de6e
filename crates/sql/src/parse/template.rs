//! Templates: a statement's text with its literals replaced by parameters, so that statements which differ in them only
//! share a plan.
//!
//! # Invariants
//! - A template is a text of SQL itself: `$1`, `$2`, … replace literals, everything else is as it was. Bound with the
//!   literals' types, it means what the statement means, or it cannot be bound.
//! - Only literals are replaced that are compared with a column, added to one, bounds of BETWEEN, items of a column's
//!   IN list, or values of an INSERT, each of them alone. So LIMIT, ORDER BY n, type modifiers, intervals, typed and
//!   cast literals, and arguments of functions keep theirs; and so do expressions of constants, which are folded when a
//!   statement is planned: `1 / 0` is an error then.

#[cfg(test)]
mod tests;

use std::ops::Range;

use smallvec::SmallVec;

/// Longer statements are planned as they are.
const TEXT_BYTES_MAX: usize = 4_096;
/// Maximum number of literals that are replaced.
const LITERALS_MAX: usize = 64;

/// A literal that was replaced.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    /// An integer: it is of the smallest of the types integer and bigint that holds it.
    Integer(i64),
    /// A number that is none, by its place in the text.
    Number(Range<usize>),
    /// A string, by its place in the text, without its quotes; quotes inside are doubled.
    Text(Range<usize>),
}

impl Literal {
    /// A letter for its type, as cache keys have it.
    pub(crate) fn letter(&self) -> char {
        match self {
            Literal::Integer(value) if i32::try_from(*value).is_ok() => 'i',
            Literal::Integer(_) => 'b',
            Literal::Number(_) => 'n',
            Literal::Text(_) => 't',
        }
    }
}

/// The literals of a template, in order.
pub(crate) type Literals = SmallVec<[Literal; 8]>;

/// The context before a position, as far as literals depend on it.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    /// A column and a comparison: any literal may be the other operand.
    Comparison,
    /// A column and an arithmetic operator, or a sign: numbers may.
    Arithmetic,
    /// `(` or `,` of a row of an INSERT.
    Value,
    /// A name, which may be a column's.
    Name,
    /// A name and NOT.
    NotOfName,
    /// A literal that was replaced.
    Taken,
    Other,
}

struct Scanner<'t> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
    before: Before,
    /// True if a BETWEEN waits for its AND.
    is_between: bool,
    is_insert: bool,
    /// Number of open parentheses.
    depth: usize,
    /// The number of parentheses that were open before a column's IN list, while inside of one.
    list: Option<usize>,
    /// The number of parentheses that were open before VALUES of an INSERT, while inside of it.
    values: Option<usize>,
}

/// Writes a statement's template into `template`, and its literals. False: the text is not of a kind that has one.
pub(crate) fn template(text: &str, template: &mut String, literals: &mut Literals) -> bool {
    template.clear();
    literals.clear();
    if text.len() > TEXT_BYTES_MAX {
        return false;
    }
    let Some(is_insert) = is_insert(text) else { return false };
    let scanner = Scanner {
        text,
        bytes: text.as_bytes(),
        at: 0,
        before: Before::Other,
        is_between: false,
        is_insert,
        depth: 0,
        list: None,
        values: None,
    };
    scanner.run(template, literals).is_some()
}

/// Returns true if a statement is an INSERT; `None` if it is of a kind without templates.
fn is_insert(text: &str) -> Option<bool> {
    let text = text.trim_start().as_bytes();
    let begins = |word: &str| {
        text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
            && text.get(word.len()).is_some_and(u8::is_ascii_whitespace)
    };
    let has_template = begins("select") || begins("update") || begins("delete");
    if has_template { Some(false) } else { begins("insert").then_some(true) }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

impl Scanner<'_> {
    fn peek(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or(0)
    }

    /// `None` if there is no template.
    fn run(mut self, template: &mut String, literals: &mut Literals) -> Option<()> {
        // The text that was copied so far ends here.
        let mut copied = 0;
        while let Some(&byte) = self.bytes.get(self.at) {
            let start = self.at;
            let literal = match byte {
                b' ' | b'\t' | b'\n' | b'\r' => {
                    self.at += 1;
                    continue;
                }
                b'0'..=b'9' => self.number()?,
                b'\'' => self.string()?,
                b'"' => {
                    let length = self.bytes[start + 1..].iter().position(|&byte| byte == b'"')?;
                    (self.at, self.before) = (start + length + 2, Before::Name);
                    continue;
                }
                byte if is_word(byte) => {
                    self.word()?;
                    continue;
                }
                byte => {
                    self.mark(byte)?;
                    continue;
                }
            };
            let is_operand = match std::mem::replace(&mut self.before, Before::Other) {
                Before::Comparison | Before::Value => true,
                Before::Arithmetic => !matches!(literal, Literal::Text(_)),
                Before::Name | Before::NotOfName | Before::Taken | Before::Other => false,
            };
            if !is_operand || !self.stands_alone() || literals.len() == LITERALS_MAX {
                continue;
            }
            template.push_str(&self.text[copied..start]);
            template.push('$');
            literals.push(literal);
            push_number(template, literals.len());
            (copied, self.before) = (self.at, Before::Taken);
        }
        template.push_str(&self.text[copied..]);
        (!literals.is_empty()).then_some(())
    }

    /// Reads a number, and moves past it.
    fn number(&mut self) -> Option<Literal> {
        let start = self.at;
        let digits = |at: &mut usize| {
            while self.peek(*at).is_ascii_digit() {
                *at += 1;
            }
        };
        let mut at = start;
        digits(&mut at);
        let mut is_whole = true;
        if self.peek(at) == b'.' {
            is_whole = false;
            at += 1;
            digits(&mut at);
        }
        if matches!(self.peek(at), b'e' | b'E') {
            is_whole = false;
            at += 1 + usize::from(matches!(self.peek(at + 1), b'+' | b'-'));
            digits(&mut at);
        }
        if is_word(self.peek(at)) || self.peek(at) == b'.' || !self.peek(at - 1).is_ascii_digit() {
            return None;
        }
        self.at = at;
        match self.text[start..at].parse() {
            Ok(value) if is_whole => Some(Literal::Integer(value)),
            _ => Some(Literal::Number(start..at)),
        }
    }

    /// Reads a string, and moves past it; `None` if it continues after a line break.
    fn string(&mut self) -> Option<Literal> {
        let start = self.at + 1;
        let mut at = start;
        loop {
            at += self.bytes.get(at..)?.iter().position(|&byte| byte == b'\'')?;
            if self.peek(at + 1) != b'\'' {
                break;
            }
            at += 2;
        }
        self.at = at + 1;
        (self.next() != b'\'').then_some(Literal::Text(start..at))
    }

    /// The next byte that is no blank; 0: there is none.
    fn next(&self) -> u8 {
        self.bytes[self.at..].iter().copied().find(|byte| !byte.is_ascii_whitespace()).unwrap_or(0)
    }

    /// Returns true if the literal before this place is an operand on its own: no operator and no cast follows.
    fn stands_alone(&self) -> bool {
        matches!(self.next(), 0 | b')' | b',' | b';') || is_word(self.next())
    }

    /// Moves past a word; `None` if it begins a string of another spelling.
    fn word(&mut self) -> Option<()> {
        let start = self.at;
        while is_word(self.peek(self.at)) {
            self.at += 1;
        }
        if matches!(self.peek(self.at), b'\'' | b'$') {
            return None;
        }
        let (mut lower, length) = ([0; 12], self.at - start);
        if let Some(lower) = lower.get_mut(..length) {
            lower.copy_from_slice(&self.bytes[start..self.at]);
            lower.make_ascii_lowercase();
        }
        if self.values == Some(self.depth) {
            self.values = None;
        }
        // The list is a query, or holds more than literals.
        self.list = None;
        let before = std::mem::replace(&mut self.before, Before::Other);
        match lower.get(..length).unwrap_or_default() {
            b"between" => {
                self.is_between = before == Before::Name;
                self.before = if self.is_between { Before::Comparison } else { Before::Other };
            }
            b"and" if std::mem::take(&mut self.is_between) && before == Before::Taken => {
                self.before = Before::Comparison;
            }
            b"not" if before == Before::Name => self.before = Before::NotOfName,
            b"in" if matches!(before, Before::Name | Before::NotOfName) => self.list = Some(self.depth),
            b"values" if self.is_insert => self.values = Some(self.depth),
            // Words after which no operator has a column on its left, and constants.
            b"all" | b"and" | b"any" | b"by" | b"case" | b"distinct" | b"else" | b"end" | b"except"
            | b"false" | b"from" | b"having" | b"in" | b"intersect" | b"is" | b"isnull" | b"like"
            | b"limit" | b"not" | b"notnull" | b"null" | b"offset" | b"on" | b"or" | b"returning"
            | b"select" | b"set" | b"some" | b"then" | b"true" | b"union" | b"unknown" | b"values"
            | b"when" | b"where" => {}
            _ => self.before = Before::Name,
        }
        Some(())
    }

    /// Moves past an operator or a mark; `None` for a kind that is not examined here.
    fn mark(&mut self, byte: u8) -> Option<()> {
        let start = self.at;
        self.at += 1;
        let before = std::mem::replace(&mut self.before, Before::Other);
        match byte {
            b'(' => {
                self.depth += 1;
                self.expect_value();
            }
            b')' => {
                self.depth = self.depth.checked_sub(1)?;
                self.list = self.list.filter(|&depth| depth < self.depth);
            }
            b',' => self.expect_value(),
            b'.' | b'[' | b']' => {}
            b':' if self.peek(self.at) == b':' => self.at += 1,
            // Only at the end.
            b';' => return (self.next() == 0).then_some(()),
            _ => {
                while b"+-*/<>=~!@#%^&|`?".contains(&self.peek(self.at)) {
                    self.at += 1;
                }
                self.before = match (&self.bytes[start..self.at], before) {
                    (b"=" | b"<" | b">" | b"<=" | b">=" | b"<>" | b"!=", Before::Name) => Before::Comparison,
                    (b"=" | b"<" | b">" | b"<=" | b">=" | b"<>" | b"!=", _) => Before::Other,
                    (b"+" | b"-" | b"*" | b"/" | b"%", Before::Name) => Before::Arithmetic,
                    // A sign.
                    (b"-", Before::Comparison | Before::Value) => Before::Arithmetic,
                    (b"+" | b"-" | b"*" | b"/" | b"%" | b"~" | b"@" | b"#" | b"^" | b"&" | b"|", _) => {
                        Before::Other
                    }
                    // Operators of several characters may hold comments, or a sign.
                    _ => return None,
                };
            }
        }
        Some(())
    }

    /// Notes where a value of a row of an INSERT, or an item of a list, is to follow.
    fn expect_value(&mut self) {
        if self.list.is_some_and(|depth| self.depth == depth + 1) {
            self.before = Before::Comparison;
        }
        if self.values.is_some_and(|depth| self.depth == depth + 1) {
            self.before = Before::Value;
        }
    }
}

fn push_number(into: &mut String, number: usize) {
    if number >= 10 {
        push_number(into, number / 10);
    }
    into.push(char::from(b'0' + (number % 10) as u8));
}
