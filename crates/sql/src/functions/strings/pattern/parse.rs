//! Reads a pattern: POSIX advanced regular expressions, as PostgreSQL's documentation describes them (section 9.7.3).

use super::Flags;
use super::classes::{self, CharSet};
use super::syntax::{Alternatives, Atom, Constraint, Look, Parsed, Piece, Preference, UNBOUNDED};

/// The largest number in `{m,n}`.
const REPETITIONS_MAX: u32 = 255;
/// Maximum nesting depth of parentheses.
const DEPTH_MAX: usize = 400;

/// The reason for refusing a pattern, in PostgreSQL's words.
pub(super) type Reason = &'static str;

const PARENTHESES: Reason = "parentheses () not balanced";
const BRACKETS: Reason = "brackets [] not balanced";
const BRACES: Reason = "braces {} not balanced";
const REPETITION: Reason = "invalid repetition count(s)";
pub(super) const OPERAND: Reason = "quantifier operand invalid";
pub(super) const ESCAPE: Reason = "invalid escape \\ sequence";
const OPTION: Reason = "invalid embedded option";
const RANGE: Reason = "invalid character range";
const CLASS: Reason = "invalid character class";
const ELEMENT: Reason = "invalid collating element";
const REFERENCE: Reason = "invalid backreference number";
/// The reason for a pattern that exceeds a limit.
pub(super) const TOO_COMPLEX: Reason = "regular expression is too complex";

/// The meaning of a backslash and the characters after it.
enum Escaped {
    Character(char),
    Class(&'static str),
    NoClass(&'static str),
    Constraint(Constraint),
    BackReference(usize),
}

/// A reader in the midst of a pattern.
pub(super) struct Reader {
    pub(super) text: Vec<char>,
    pub(super) at: usize,
    pub(super) flags: Flags,
    sets: Vec<CharSet>,
    looks: Vec<Look>,
    /// The groups' states: true if a group is complete.
    groups: Vec<bool>,
    has_back_references: bool,
    depth: usize,
    /// True inside of `(?=…)`, where nothing captures.
    is_looking: bool,
}

/// Reads a pattern.
pub(super) fn parse(pattern: &str, flags: &mut Flags) -> Result<Parsed, Reason> {
    let mut reader = Reader {
        text: pattern.chars().collect(),
        at: 0,
        flags: *flags,
        sets: Vec::new(),
        looks: Vec::new(),
        groups: Vec::new(),
        has_back_references: false,
        depth: 0,
        is_looking: false,
    };
    reader.prefixes()?;
    *flags = reader.flags;
    let root = if reader.flags.is_literal { reader.literal() } else { reader.alternatives()? };
    if reader.peek().is_some() {
        return Err(PARENTHESES);
    }
    Ok(Parsed {
        root,
        sets: reader.sets,
        looks: reader.looks,
        groups: reader.groups.len(),
        has_back_references: reader.has_back_references,
    })
}

impl Reader {
    pub(super) fn peek(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    pub(super) fn next(&mut self) -> Option<char> {
        let character = self.peek()?;
        self.at += 1;
        Some(character)
    }

    pub(super) fn accept(&mut self, text: &str) -> bool {
        let mut at = self.at;
        for character in text.chars() {
            if self.text.get(at) != Some(&character) {
                return false;
            }
            at += 1;
        }
        self.at = at;
        true
    }

    /// `***=`, `***:` and `(?flags)`.
    fn prefixes(&mut self) -> Result<(), Reason> {
        if self.flags.is_literal {
            return Ok(());
        }
        if self.accept("***=") {
            self.flags.is_literal = true;
            return Ok(());
        }
        if self.accept("***:") {
            (self.flags.is_advanced, self.flags.is_basic) = (true, false);
        } else if self.accept("***") {
            let shows_version = self.peek() == Some('?');
            return Err(if shows_version { "invalid regexp (reg version 0.8)" } else { OPERAND });
        }
        let has_options = self.text.get(self.at + 2).is_some_and(char::is_ascii_alphabetic);
        if self.flags.is_advanced && has_options && self.accept("(?") {
            while let Some(letter) = self.next() {
                match letter {
                    ')' => return Ok(()),
                    letter if self.flags.set(letter) => {}
                    _ => return Err(OPTION),
                }
            }
            return Err(OPTION);
        }
        Ok(())
    }

    /// The rest of the pattern, in which no character is special.
    fn literal(&mut self) -> Alternatives {
        let mut branch = Vec::new();
        while let Some(character) = self.next() {
            branch.push(once(self.character(character)));
        }
        Alternatives(vec![branch])
    }

    pub(super) fn character(&mut self, character: char) -> Atom {
        let mut set = CharSet::default();
        set.add(character, character, self.flags.ignores_case);
        self.set(set)
    }

    fn set(&mut self, set: CharSet) -> Atom {
        let known = self.sets.iter().position(|other| *other == set);
        Atom::Set(known.unwrap_or_else(|| {
            self.sets.push(set);
            self.sets.len() - 1
        }))
    }

    /// Passes over blanks and comments: `(?#…)` anywhere, the others in expanded syntax.
    pub(super) fn skip(&mut self) {
        loop {
            let before = self.at;
            while self.flags.is_expanded && self.peek().is_some_and(char::is_whitespace) {
                self.at += 1;
            }
            if self.flags.is_expanded && self.peek() == Some('#') {
                while self.peek().is_some_and(|character| character != '\n') {
                    self.at += 1;
                }
            }
            if self.flags.is_advanced && self.accept("(?#") {
                while self.next().is_some_and(|character| character != ')') {}
            }
            if self.at == before {
                return;
            }
        }
    }

    fn alternatives(&mut self) -> Result<Alternatives, Reason> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(TOO_COMPLEX);
        }
        let mut branches = Vec::new();
        loop {
            let mut branch = Vec::new();
            loop {
                self.skip();
                match self.peek() {
                    None => break,
                    Some('\\') if self.flags.is_basic && self.text.get(self.at + 1) == Some(&')') => break,
                    Some('|') if !self.flags.is_basic => break,
                    Some(')') if self.flags.is_basic => branch.push(self.piece(branch.is_empty())?),
                    Some(')') if self.depth > 1 || self.flags.is_advanced => break,
                    Some(_) => branch.push(self.piece(branch.is_empty())?),
                }
            }
            branches.push(branch);
            if self.flags.is_basic || !self.accept("|") {
                break;
            }
        }
        self.depth -= 1;
        Ok(Alternatives(branches))
    }

    fn piece(&mut self, is_first: bool) -> Result<Piece, Reason> {
        if self.flags.is_basic {
            return self.basic_piece(is_first);
        }
        let atom = self.atom()?;
        self.skip();
        if matches!(atom, Atom::Constraint(_)) {
            return Ok(once(atom));
        }
        let (min, max) = match self.peek() {
            Some('*') => (0, UNBOUNDED),
            Some('+') => (1, UNBOUNDED),
            Some('?') => (0, 1),
            Some('{') if self.begins_bound() => return self.bound(atom),
            _ => return Ok(once(atom)),
        };
        self.at += 1;
        let prefers = Some(self.preference());
        Ok(Piece { atom, min, max, prefers })
    }

    fn preference(&mut self) -> Preference {
        match self.flags.is_advanced && self.accept("?") {
            true => Preference::Shortest,
            false => Preference::Longest,
        }
    }

    /// Returns true if the brace at the current place begins a bound: otherwise it matches itself.
    fn begins_bound(&self) -> bool {
        let mut behind = self.text[self.at + 1..].iter();
        let first = behind.find(|character| !(self.flags.is_expanded && character.is_whitespace()));
        first.is_some_and(char::is_ascii_digit)
    }

    /// `{m}`, `{m,}`, `{m,n}`.
    pub(super) fn bound(&mut self, atom: Atom) -> Result<Piece, Reason> {
        self.at += 1;
        let min = self.count()?;
        let (mut max, mut has_comma) = (min, false);
        if self.accept(",") {
            has_comma = true;
            self.skip();
            max = if self.peek().is_some_and(|digit| digit.is_ascii_digit()) {
                self.count()?
            } else {
                UNBOUNDED
            };
        }
        self.skip();
        match self.next() {
            Some('\\') if self.flags.is_basic && self.accept("}") => {}
            Some('}') if !self.flags.is_basic => {}
            Some(_) => return Err(REPETITION),
            None => return Err(BRACES),
        }
        let preference = self.preference();
        if min > max {
            return Err(REPETITION);
        }
        Ok(Piece { atom, min, max, prefers: has_comma.then_some(preference) })
    }

    fn count(&mut self) -> Result<u32, Reason> {
        let mut number = 0;
        self.skip();
        while let Some(digit) = self.peek().and_then(|character| character.to_digit(10)) {
            self.at += 1;
            number = number * 10 + digit;
            if number > REPETITIONS_MAX {
                return Err(REPETITION);
            }
            self.skip();
        }
        Ok(number)
    }

    fn atom(&mut self) -> Result<Atom, Reason> {
        let Some(character) = self.next() else { return Err(OPERAND) };
        Ok(match character {
            '(' => return self.group(),
            '[' => return self.bracket(),
            '.' => self.any(),
            '^' => Atom::Constraint(self.anchor(Constraint::TextStart, Constraint::LineStart)),
            '$' => Atom::Constraint(self.anchor(Constraint::TextEnd, Constraint::LineEnd)),
            '*' | '+' | '?' => return Err(OPERAND),
            '{' => {
                self.at -= 1;
                let is_bound = self.begins_bound();
                self.at += 1;
                if is_bound {
                    return Err(OPERAND);
                }
                self.character('{')
            }
            '\\' => match self.escape()? {
                Escaped::Character(character) => self.character(character),
                Escaped::Class(class) => self.class(class),
                Escaped::NoClass(class) => self.class(class),
                Escaped::Constraint(constraint) => Atom::Constraint(constraint),
                Escaped::BackReference(group) => return self.back_reference(group),
            },
            plain => self.character(plain),
        })
    }

    pub(super) fn any(&mut self) -> Atom {
        self.set(CharSet::any(self.flags.stops_at_newline))
    }

    pub(super) fn anchor(&self, of_text: Constraint, of_line: Constraint) -> Constraint {
        if self.flags.has_lines { of_line } else { of_text }
    }

    pub(super) fn back_reference(&mut self, group: usize) -> Result<Atom, Reason> {
        let is_complete = group.checked_sub(1).and_then(|group| self.groups.get(group)).copied();
        if self.is_looking || is_complete != Some(true) {
            return Err(REFERENCE);
        }
        self.has_back_references = true;
        Ok(Atom::BackReference(group))
    }

    fn class(&mut self, class: &'static str) -> Atom {
        let mut set = CharSet::default();
        set.add_class(class);
        self.set(set)
    }

    pub(super) fn group(&mut self) -> Result<Atom, Reason> {
        let mut group = None;
        if self.flags.is_advanced && self.accept("?") {
            let (is_behind, is_negated) = match () {
                () if self.accept(":") => {
                    let inside = self.alternatives()?;
                    return self.closed(Atom::Group(None, inside));
                }
                () if self.accept("=") => (false, false),
                () if self.accept("!") => (false, true),
                () if self.accept("<=") => (true, false),
                () if self.accept("<!") => (true, true),
                () => return Err(OPERAND),
            };
            let around = std::mem::replace(&mut self.is_looking, true);
            let inside = self.alternatives()?;
            self.is_looking = around;
            self.looks.push(Look { inside, is_behind, is_negated });
            return self.closed(Atom::Constraint(Constraint::Look(self.looks.len() - 1)));
        }
        if !self.is_looking {
            self.groups.push(false);
            group = Some(self.groups.len());
        }
        let inside = self.alternatives()?;
        if let Some(group) = group {
            self.groups[group - 1] = true;
        }
        self.closed(Atom::Group(group, inside))
    }

    fn closed(&mut self, atom: Atom) -> Result<Atom, Reason> {
        let end = if self.flags.is_basic { "\\)" } else { ")" };
        if self.accept(end) { Ok(atom) } else { Err(PARENTHESES) }
    }

    fn escape(&mut self) -> Result<Escaped, Reason> {
        let Some(letter) = self.next() else { return Err(ESCAPE) };
        if !self.flags.is_advanced || !letter.is_ascii_alphanumeric() {
            return Ok(Escaped::Character(letter));
        }
        Ok(match letter {
            'd' => Escaped::Class(classes::DIGIT),
            'w' => Escaped::Class(classes::WORD),
            's' => Escaped::Class(classes::SPACE),
            'D' => Escaped::NoClass(classes::NO_DIGIT),
            'W' => Escaped::NoClass(classes::NO_WORD),
            'S' => Escaped::NoClass(classes::NO_SPACE),
            'm' => Escaped::Constraint(Constraint::WordStart),
            'M' => Escaped::Constraint(Constraint::WordEnd),
            'y' => Escaped::Constraint(Constraint::WordBoundary),
            'Y' => Escaped::Constraint(Constraint::NoWordBoundary),
            'A' => Escaped::Constraint(Constraint::TextStart),
            'Z' => Escaped::Constraint(Constraint::TextEnd),
            'a' => Escaped::Character('\x07'),
            'b' => Escaped::Character('\x08'),
            'B' => Escaped::Character('\\'),
            'e' => Escaped::Character('\x1b'),
            'f' => Escaped::Character('\x0c'),
            'n' => Escaped::Character('\n'),
            'r' => Escaped::Character('\r'),
            't' => Escaped::Character('\t'),
            'v' => Escaped::Character('\x0b'),
            'c' => {
                let control = self.next().ok_or(ESCAPE)?;
                Escaped::Character(char::from_u32(u32::from(control) & 0o37).ok_or(ESCAPE)?)
            }
            'x' => Escaped::Character(self.code(16, 1, 255)?),
            'u' => Escaped::Character(self.code(16, 4, 4)?),
            'U' => Escaped::Character(self.code(16, 8, 8)?),
            '0'..='9' => return self.number(letter),
            _ => return Err(ESCAPE),
        })
    }

    /// `\12`: a back-reference if there are that many groups, else octal.
    fn number(&mut self, first: char) -> Result<Escaped, Reason> {
        let behind = self.at;
        if first != '0' {
            self.at -= 1;
            let mut number = 0usize;
            while let Some(digit) = self.peek().and_then(|character| character.to_digit(10)) {
                number = number.saturating_mul(10).saturating_add(digit as usize);
                self.at += 1;
            }
            if self.at == behind || (number > 0 && number <= self.groups.len()) {
                return Ok(Escaped::BackReference(number));
            }
        }
        self.at = behind - 1;
        let mut code = 0;
        for _ in 0..3 {
            let Some(digit) = self.peek().and_then(|character| character.to_digit(8)) else { break };
            if code * 8 + digit > 0xff {
                break;
            }
            code = code * 8 + digit;
            self.at += 1;
        }
        if self.at == behind - 1 {
            return Err(ESCAPE);
        }
        char::from_u32(code).map(Escaped::Character).ok_or(ESCAPE)
    }

    fn code(&mut self, base: u32, least: usize, most: usize) -> Result<char, Reason> {
        let (mut code, mut digits) = (0u32, 0);
        while digits < most
            && let Some(digit) = self.peek().and_then(|character| character.to_digit(base))
        {
            code = code.wrapping_mul(base).wrapping_add(digit);
            digits += 1;
            self.at += 1;
        }
        if digits < least {
            return Err(ESCAPE);
        }
        char::from_u32(code).ok_or(ESCAPE)
    }
}

fn once(atom: Atom) -> Piece {
    Piece { atom, min: 1, max: 1, prefers: None }
}

/// An item of a bracket.
enum Item {
    Character(char),
    /// The dash of a range.
    Dash,
    Class(&'static str),
    /// `[=a=]`
    Equivalents(char),
    End,
}

impl Reader {
    /// `[…]`, and the word boundaries `[[:<:]]` and `[[:>:]]`.
    pub(super) fn bracket(&mut self) -> Result<Atom, Reason> {
        if self.accept("[:<:]]") {
            return Ok(Atom::Constraint(Constraint::WordStart));
        }
        if self.accept("[:>:]]") {
            return Ok(Atom::Constraint(Constraint::WordEnd));
        }
        let ignores_case = self.flags.ignores_case;
        let mut set = CharSet::default();
        set.is_negated = self.accept("^");
        set.excludes_newline = set.is_negated && self.flags.stops_at_newline;
        let mut item = self.item(true)?;
        loop {
            match item {
                Item::End => return Ok(self.set(set)),
                Item::Dash => return Err(RANGE),
                Item::Class(class) => set.add_class(class),
                Item::Equivalents(character) => set.add(character, character, ignores_case),
                Item::Character(first) => {
                    item = self.item(false)?;
                    if !matches!(item, Item::Dash) {
                        set.add(first, first, ignores_case);
                        continue;
                    }
                    let last = match self.item(false)? {
                        Item::Character(last) => last,
                        Item::Dash => '-',
                        _ => return Err(RANGE),
                    };
                    if last < first {
                        return Err(RANGE);
                    }
                    set.add(first, last, ignores_case);
                }
            }
            item = self.item(false)?;
        }
    }

    fn item(&mut self, is_first: bool) -> Result<Item, Reason> {
        let character = self.next().ok_or(BRACKETS)?;
        Ok(match character {
            ']' if !is_first => Item::End,
            '-' if !is_first && self.peek() != Some(']') => Item::Dash,
            '[' => match self.peek() {
                Some('.') => Item::Character(self.element(".]")?),
                Some('=') => Item::Equivalents(self.element("=]")?),
                Some(':') => {
                    let name = self.until(":]")?;
                    let name = match name.as_str() {
                        "upper" | "lower" if self.flags.ignores_case => "alpha",
                        name => name,
                    };
                    Item::Class(classes::class(name).ok_or(CLASS)?)
                }
                Some(_) => Item::Character('['),
                None => return Err(BRACKETS),
            },
            '\\' if self.flags.is_advanced => match self.escape()? {
                Escaped::Character(character) => Item::Character(character),
                Escaped::Class(class) | Escaped::NoClass(class) => Item::Class(class),
                _ => return Err(ESCAPE),
            },
            plain => Item::Character(plain),
        })
    }

    fn element(&mut self, end: &str) -> Result<char, Reason> {
        let name = self.until(end)?;
        let mut characters = name.chars();
        match (characters.next(), characters.next()) {
            (Some(only), None) => Ok(only),
            _ => Err(ELEMENT),
        }
    }

    /// The name after the current character, up to `end`.
    fn until(&mut self, end: &str) -> Result<String, Reason> {
        self.at += 1;
        let mut name = String::new();
        while !self.accept(end) {
            name.push(self.next().ok_or(BRACKETS)?);
        }
        Ok(name)
    }
}
