//! The tokens of a path.

use crate::error::{Result, SqlError, SqlState};

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// A name or keyword without quotes, and whether it had escapes.
    Word(String),
    /// A string in quotes.
    Text(String),
    /// `$name`
    Variable(String),
    /// A number as it is written; true for an integer.
    Number(String, bool),
    /// An operator or a mark.
    Mark(&'static str),
    /// The end.
    End,
}

/// Marks, longer ones first.
const MARKS: [&str; 29] = [
    "**", "&&", "||", "==", "!=", "<>", "<=", ">=", "<", ">", "!", "?", "%", "$", ".", "[", "]", "{", "}",
    "(", ")", "@", "#", ",", "*", ":", "-", "+", "/",
];

/// Characters that end a name.
const SPECIAL: &str = "?%$.[]{}()|&!=<>@#,*:-+/\\\" \t\n\r\u{c}";

/// 42601: a path that cannot be read.
pub(super) fn invalid(detail: &str, rest: &str) -> SqlError {
    let message = match rest {
        "" => format!("{detail} at end of jsonpath input"),
        rest => format!("{detail} at or near \"{rest}\" of jsonpath input"),
    };
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}

/// All tokens of a text.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>> {
    let mut lexer = Lexer { text, at: 0 };
    let mut tokens = Vec::new();
    loop {
        let token = lexer.next()?;
        let is_end = token == Token::End;
        tokens.push(token);
        if is_end {
            return Ok(tokens);
        }
    }
}

struct Lexer<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Lexer<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn next(&mut self) -> Result<Token> {
        self.skip_blanks()?;
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Ok(Token::End) };
        let second = rest[first.len_utf8()..].chars().next();
        match first {
            '"' => Ok(Token::Text(self.quoted()?)),
            '0'..='9' => self.number(),
            '.' if second.is_some_and(|c| c.is_ascii_digit()) => self.number(),
            '$' if second == Some('"') => {
                self.at += 1;
                Ok(Token::Variable(self.quoted()?))
            }
            '$' if second.is_some_and(|c| c == '\\' || !SPECIAL.contains(c)) => {
                self.at += 1;
                Ok(Token::Variable(self.name()?))
            }
            first if first == '\\' || !SPECIAL.contains(first) => Ok(Token::Word(self.name()?)),
            _ => {
                let mark = MARKS.iter().find(|mark| rest.starts_with(**mark));
                let mark = mark.ok_or_else(|| invalid("syntax error", rest))?;
                self.at += mark.len();
                Ok(Token::Mark(mark))
            }
        }
    }

    fn skip_blanks(&mut self) -> Result<()> {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start_matches([' ', '\t', '\n', '\r', '\u{c}']);
            self.at += rest.len() - trimmed.len();
            if !trimmed.starts_with("/*") {
                return Ok(());
            }
            let end = trimmed.find("*/").ok_or_else(|| invalid("unexpected end of comment", ""))?;
            self.at += end + 2;
        }
    }

    fn number(&mut self) -> Result<Token> {
        let rest = self.rest().as_bytes();
        let digits = |from: usize| rest[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let whole = digits(0);
        // `01` is `0` with something behind it.
        let mut end = if whole > 1 && rest[0] == b'0' { 1 } else { whole };
        let mut is_integer = true;
        if end == whole && rest.get(end) == Some(&b'.') {
            is_integer = false;
            end += 1 + digits(end + 1);
        }
        if matches!(rest.get(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(rest.get(end + 1), Some(b'+' | b'-')));
            let exponent = digits((end + 1 + sign).min(rest.len()));
            if exponent == 0 {
                return Err(invalid("invalid numeric literal", &self.rest()[..end + 1 + sign]));
            }
            is_integer = false;
            end += 1 + sign + exponent;
        }
        let text = &self.rest()[..end];
        let after = self.rest()[end..].chars().next();
        if after.is_some_and(|c| c == '\\' || !SPECIAL.contains(c)) {
            let near = &self.rest()[..end + after.map_or(0, char::len_utf8)];
            return Err(invalid("trailing junk after numeric literal", near));
        }
        self.at += end;
        Ok(Token::Number(text.to_string(), is_integer))
    }

    /// A name without quotes, which may have escapes.
    fn name(&mut self) -> Result<String> {
        let mut name = String::new();
        while let Some(next) = self.rest().chars().next() {
            if next == '\\' {
                self.at += 1;
                self.escape(&mut name)?;
            } else if SPECIAL.contains(next) {
                break;
            } else {
                name.push(next);
                self.at += next.len_utf8();
            }
        }
        Ok(name)
    }

    fn quoted(&mut self) -> Result<String> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let next = self.rest().chars().next().ok_or_else(|| invalid("unterminated quoted string", ""))?;
            self.at += next.len_utf8();
            match next {
                '"' => return Ok(text),
                '\\' => self.escape(&mut text)?,
                next => text.push(next),
            }
        }
    }

    /// What follows a backslash.
    fn escape(&mut self, text: &mut String) -> Result<()> {
        let next = self.rest().chars().next().ok_or_else(|| invalid("unexpected end after backslash", ""))?;
        self.at += next.len_utf8();
        let meant = match next {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            'x' => self.code(2, "invalid hexadecimal character sequence")?,
            'u' => self.unicode()?,
            other => other,
        };
        text.push(meant);
        Ok(())
    }

    fn code(&mut self, digits: usize, wrong: &str) -> Result<char> {
        let code = self.hexadecimal(digits, wrong)?;
        character(code)
    }

    fn hexadecimal(&mut self, digits: usize, wrong: &str) -> Result<u32> {
        let found = self.rest().get(..digits).and_then(|text| u32::from_str_radix(text, 16).ok());
        let code = found.ok_or_else(|| invalid(wrong, self.rest()))?;
        self.at += digits;
        Ok(code)
    }

    /// `\u0041`, `\u{41}`, or a surrogate pair.
    fn unicode(&mut self) -> Result<char> {
        const WRONG: &str = "invalid Unicode escape sequence";
        if self.rest().starts_with('{') {
            let end = self.rest().find('}').filter(|end| (2..=7).contains(end));
            let end = end.ok_or_else(|| invalid(WRONG, self.rest()))?;
            self.at += 1;
            let code = self.hexadecimal(end - 1, WRONG)?;
            self.at += 1;
            return character(code);
        }
        let high = self.hexadecimal(4, WRONG)?;
        if !(0xd800..0xdc00).contains(&high) {
            return character(high);
        }
        if !self.rest().starts_with("\\u") {
            return Err(surrogate());
        }
        self.at += 2;
        let low = self.hexadecimal(4, WRONG)?;
        if !(0xdc00..0xe000).contains(&low) {
            return Err(surrogate());
        }
        character(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00))
    }
}

fn surrogate() -> SqlError {
    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type jsonpath")
        .with_detail("Unicode high surrogate must be followed by a low surrogate.")
}

fn character(code: u32) -> Result<char> {
    if code == 0 {
        let message = "unsupported Unicode escape sequence";
        return Err(SqlError::new(SqlState::UNTRANSLATABLE_CHARACTER, message)
            .with_detail("\\u0000 cannot be converted to text."));
    }
    char::from_u32(code).ok_or_else(surrogate)
}
