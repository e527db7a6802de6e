//! Tokens: words, numbers, strings, operators, punctuation.
//!
//! Invariants: tokens lie in the text in order; the last token is the end of the text; operators follow PostgreSQL's
//! rules (section 4.1.3: `--` and `/*` end one, a trailing `+` or `-` belongs to it only if it holds one of
//! `~ ! @ # % ^ & | \` ?`).

use std::borrow::Cow;

use crate::error::{Result, SqlError, SqlState};

/// One token.
#[derive(Clone, Debug)]
pub(super) struct Token<'t> {
    /// What it is.
    pub kind: TokenKind<'t>,
    /// Its first byte.
    pub start: u32,
    /// The byte behind its last.
    pub end: u32,
}

/// What a token is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TokenKind<'t> {
    /// A word, folded to lower case: a keyword or a name.
    Word(Cow<'t, str>),
    /// A quoted name.
    Quoted(String),
    /// Digits only.
    Integer(&'t str),
    /// A number with a point or an exponent.
    Decimal(&'t str),
    /// A string of any spelling, decoded.
    Text(Cow<'t, str>),
    /// `B'…'` or `X'…'`, as binary digits.
    Bits(String),
    /// `$n`
    Parameter(u32),
    /// An operator; `!=` is `<>`.
    Operator(&'t str),
    /// One of `( ) [ ] , ; : .` and of `:: .. := =>`.
    Mark(&'static str),
    /// The end of the text.
    End,
}

/// What a token and what the parser and the binder make of it take of memory, about; measured for lists of all kinds.
const TOKEN_BYTES: usize = 160;
/// What a statement takes beside its tokens.
const STATEMENT_BYTES: usize = 768;
/// After how many tokens their memory is counted; those of shorter texts are not.
const COUNTED_TOKENS: usize = 4_096;

/// The tokens of a text of the catalog's, whose memory is not counted.
///
/// # Errors
/// 42601 for unterminated strings, comments and names, and for bytes that begin no token; 22025 for a wrong escape.
pub(super) fn tokens(text: &str) -> Result<Vec<Token<'_>>> {
    Lexer::new(text).collect()
}

/// The tokens of a text. Those of a long one count among the memory of the statement that the thread runs.
///
/// # Errors
/// As [`tokens`]; 53200 for a text that takes more memory than there is for statements.
pub(super) fn counted_tokens(text: &str) -> Result<Vec<Token<'_>>> {
    let mut tokens = Vec::with_capacity((text.len() / 4 + 2).min(COUNTED_TOKENS));
    let mut statements = 0;
    for token in Lexer::new(text) {
        let token = token?;
        statements += usize::from(token.kind == TokenKind::Mark(";"));
        tokens.push(token);
        if tokens.len().is_multiple_of(COUNTED_TOKENS) {
            crate::interrupt::count_text(tokens.len() * TOKEN_BYTES + statements * STATEMENT_BYTES)?;
        }
    }
    Ok(tokens)
}

/// The tokens of a text, one after another; the last one is its end or an error.
pub(super) struct Lexer<'t> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
    has_ended: bool,
}

impl<'t> Iterator for Lexer<'t> {
    type Item = Result<Token<'t>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let token = self.next_token();
        self.has_ended = token.as_ref().map_or(true, |token| token.kind == TokenKind::End);
        Some(token)
    }
}

const OPERATOR_BYTES: &[u8] = b"+-*/<>=~!@#%^&|`?";
const MARKS: &[&str] = &["::", "..", ":=", "(", ")", "[", "]", ",", ";", ":", "."];

fn starts_word(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

fn continues_word(byte: u8) -> bool {
    starts_word(byte) || byte.is_ascii_digit() || byte == b'$'
}

impl<'t> Lexer<'t> {
    /// At the beginning of a text.
    pub fn new(text: &'t str) -> Lexer<'t> {
        Lexer { text, bytes: text.as_bytes(), at: 0, has_ended: false }
    }

    fn next_token(&mut self) -> Result<Token<'t>> {
        self.skip_blanks()?;
        let start = self.at;
        let kind = self.token()?;
        Ok(Token { kind, start: start as u32, end: self.at as u32 })
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn error(&self, at: usize, message: String) -> SqlError {
        let position = self.text[..at].chars().count() as u32 + 1;
        SqlError::new(SqlState::SYNTAX_ERROR, message).at(position)
    }

    fn unterminated(&self, what: &str, start: usize) -> SqlError {
        self.error(start, format!("unterminated {what} at or near \"{}\"", &self.text[start..]))
    }

    /// Passes over blanks and comments.
    fn skip_blanks(&mut self) -> Result<()> {
        loop {
            match (self.peek(0), self.peek(1)) {
                (b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c, _) => self.at += 1,
                (b'-', b'-') => self.skip_line(),
                (b'/', b'*') => self.skip_comment()?,
                _ => return Ok(()),
            }
        }
    }

    fn skip_line(&mut self) {
        let rest = &self.bytes[self.at..];
        self.at += rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
    }

    fn skip_comment(&mut self) -> Result<()> {
        let start = self.at;
        let mut depth = 0_usize;
        loop {
            match (self.peek(0), self.peek(1)) {
                (b'/', b'*') => (depth, self.at) = (depth + 1, self.at + 2),
                (b'*', b'/') => {
                    (depth, self.at) = (depth - 1, self.at + 2);
                    if depth == 0 {
                        return Ok(());
                    }
                }
                _ if self.at >= self.bytes.len() => return Err(self.unterminated("/* comment", start)),
                _ => self.at += 1,
            }
        }
    }

    fn token(&mut self) -> Result<TokenKind<'t>> {
        let (byte, next) = (self.peek(0), self.peek(1));
        match byte {
            _ if self.at >= self.bytes.len() => Ok(TokenKind::End),
            b'\'' => Ok(TokenKind::Text(self.plain_string()?)),
            b'"' => Ok(TokenKind::Quoted(self.quoted_name()?)),
            b'e' | b'E' if next == b'\'' => {
                self.at += 1;
                Ok(TokenKind::Text(Cow::Owned(self.escaped_string()?)))
            }
            b'b' | b'B' | b'x' | b'X' if next == b'\'' => self.bits(byte.to_ascii_lowercase()),
            b'n' | b'N' if next == b'\'' => {
                self.at += 1;
                Ok(TokenKind::Text(self.plain_string()?))
            }
            b'u' | b'U' if next == b'&' && matches!(self.peek(2), b'\'' | b'"') => self.unicode(),
            b'$' => self.dollar(),
            b'0'..=b'9' => self.number(),
            b'.' if next.is_ascii_digit() => self.number(),
            _ if starts_word(byte) => Ok(self.word()),
            _ => self.operator_or_mark(),
        }
    }

    fn word(&mut self) -> TokenKind<'t> {
        let start = self.at;
        while continues_word(self.peek(0)) {
            self.at += 1;
        }
        let word = &self.text[start..self.at];
        if word.bytes().any(|byte| byte.is_ascii_uppercase()) {
            TokenKind::Word(Cow::Owned(word.to_ascii_lowercase()))
        } else {
            TokenKind::Word(Cow::Borrowed(word))
        }
    }

    fn number(&mut self) -> Result<TokenKind<'t>> {
        let start = self.at;
        let mut whole = true;
        self.digits();
        if self.peek(0) == b'.' && self.peek(1) != b'.' {
            whole = false;
            self.at += 1;
            self.digits();
        }
        if matches!(self.peek(0), b'e' | b'E') {
            let sign = usize::from(matches!(self.peek(1), b'+' | b'-'));
            if self.peek(1 + sign).is_ascii_digit() {
                whole = false;
                self.at += 1 + sign;
                self.digits();
            }
        }
        if starts_word(self.peek(0)) {
            let digits = self.at;
            self.word();
            let near = &self.text[start..self.at.max(digits)];
            return Err(
                self.error(start, format!("trailing junk after numeric literal at or near \"{near}\""))
            );
        }
        let number = &self.text[start..self.at];
        Ok(if whole { TokenKind::Integer(number) } else { TokenKind::Decimal(number) })
    }

    fn digits(&mut self) {
        while self.peek(0).is_ascii_digit() {
            self.at += 1;
        }
    }

    /// `$1` or `$tag$ … $tag$`.
    fn dollar(&mut self) -> Result<TokenKind<'t>> {
        let start = self.at;
        if self.peek(1).is_ascii_digit() {
            self.at += 1;
            self.digits();
            let number = self.text[start + 1..self.at].parse();
            return number.map(TokenKind::Parameter).map_err(|_| {
                self.error(start, format!("syntax error at or near \"{}\"", &self.text[start..self.at]))
            });
        }
        let tag = self.bytes[start + 1..].iter().position(|&byte| byte == b'$' || !continues_word(byte));
        let Some(length) = tag.filter(|&length| self.bytes[start + 1 + length] == b'$') else {
            return Err(self.error(start, "syntax error at or near \"$\"".to_string()));
        };
        let body = start + length + 2;
        let tag = &self.text[start..body];
        match self.text[body..].find(tag) {
            Some(end) => {
                self.at = body + end + tag.len();
                Ok(TokenKind::Text(Cow::Borrowed(&self.text[body..body + end])))
            }
            None => Err(self.unterminated("dollar-quoted string", start)),
        }
    }

    fn operator_or_mark(&mut self) -> Result<TokenKind<'t>> {
        let rest = &self.text[self.at..];
        if let Some(mark) = MARKS.iter().find(|mark| rest.starts_with(**mark)) {
            self.at += mark.len();
            return Ok(TokenKind::Mark(mark));
        }
        let mut length = rest.bytes().take_while(|byte| OPERATOR_BYTES.contains(byte)).count();
        for comment in ["--", "/*"] {
            length = rest[..length].find(comment).unwrap_or(length);
        }
        let special = rest[..length].bytes().any(|byte| b"~!@#%^&|`?".contains(&byte));
        while !special && length > 1 && matches!(rest.as_bytes()[length - 1], b'+' | b'-') {
            length -= 1;
        }
        if length == 0 {
            let near: String = rest.chars().take(1).collect();
            return Err(self.error(self.at, format!("syntax error at or near \"{near}\"")));
        }
        self.at += length;
        Ok(match &rest[..length] {
            "!=" => TokenKind::Operator("<>"),
            "=>" => TokenKind::Mark("=>"),
            operator => TokenKind::Operator(operator),
        })
    }

    fn quoted_name(&mut self) -> Result<String> {
        let start = self.at;
        let name = self.between(b'"').ok_or_else(|| self.unterminated("quoted identifier", start))?;
        if name.is_empty() {
            return Err(self.error(start, "zero-length delimited identifier at or near \"\"\"\"".to_string()));
        }
        Ok(name.replace("\"\"", "\""))
    }

    /// What lies between two quotes, doubled ones inside included; moves behind the closing one.
    fn between(&mut self, quote: u8) -> Option<&'t str> {
        let start = self.at + 1;
        let mut at = start;
        loop {
            at += self.bytes.get(at..)?.iter().position(|&byte| byte == quote)?;
            if self.bytes.get(at + 1) != Some(&quote) {
                self.at = at + 1;
                return Some(&self.text[start..at]);
            }
            at += 2;
        }
    }

    /// A string in single quotes without escapes, and its continuations on further lines.
    fn plain_string(&mut self) -> Result<Cow<'t, str>> {
        let start = self.at;
        let part = self.between(b'\'').ok_or_else(|| self.unterminated("quoted string", start))?;
        let mut text =
            if part.contains('\'') { Cow::Owned(part.replace("''", "'")) } else { Cow::Borrowed(part) };
        while self.continues_string()? {
            let part = self.between(b'\'').ok_or_else(|| self.unterminated("quoted string", start))?;
            text.to_mut().push_str(&part.replace("''", "'"));
        }
        Ok(text)
    }

    /// Whether another string follows behind a line break: then both are one. Moves to its quote. Comments up to the
    /// end of a line may stand between, others may not.
    fn continues_string(&mut self) -> Result<bool> {
        let end = self.at;
        self.skip_blanks()?;
        let between = &self.text[end..self.at];
        let is_plain =
            between.lines().all(|line| line.trim_start().is_empty() || line.trim_start().starts_with("--"));
        if self.peek(0) == b'\'' && between.contains('\n') && is_plain {
            return Ok(true);
        }
        self.at = end;
        Ok(false)
    }

    fn bits(&mut self, base: u8) -> Result<TokenKind<'t>> {
        let start = self.at;
        self.at += 1;
        let digits = self.plain_string()?;
        let radix = if base == b'b' { 2 } else { 16 };
        let mut bits = String::new();
        for digit in digits.chars() {
            let Some(value) = digit.to_digit(radix) else {
                let kind = if base == b'b' { "binary" } else { "hexadecimal" };
                let message = format!("\"{digit}\" is not a valid {kind} digit");
                return Err(
                    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message).at(start as u32 + 1)
                );
            };
            bits += &if base == b'b' { format!("{value:b}") } else { format!("{value:04b}") };
        }
        Ok(TokenKind::Bits(bits))
    }

    /// A string with backslash escapes; the lexer stands on its quote.
    fn escaped_string(&mut self) -> Result<String> {
        let start = self.at - 1;
        let mut bytes = Vec::new();
        self.at += 1;
        loop {
            match self.peek(0) {
                _ if self.at >= self.bytes.len() => return Err(self.unterminated("quoted string", start)),
                b'\'' if self.peek(1) == b'\'' => {
                    bytes.push(b'\'');
                    self.at += 2;
                }
                b'\'' => {
                    self.at += 1;
                    if !self.continues_string()? {
                        break;
                    }
                    self.at += 1;
                }
                b'\\' => self.escape(&mut bytes, start)?,
                byte => {
                    bytes.push(byte);
                    self.at += 1;
                }
            }
        }
        match String::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => Ok(text),
            _ => Err(SqlError::new(
                SqlState::CHARACTER_NOT_IN_REPERTOIRE,
                "invalid byte sequence for encoding \"UTF8\" in an escaped string",
            )),
        }
    }

    /// One backslash escape of `E'…'`.
    fn escape(&mut self, bytes: &mut Vec<u8>, start: usize) -> Result<()> {
        let escaped = self.peek(1);
        self.at += 2;
        let plain = match escaped {
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => return self.code_point(4, bytes),
            b'U' => return self.code_point(8, bytes),
            b'x' => {
                self.escaped_byte(16, 2, bytes);
                return Ok(());
            }
            b'0'..=b'7' => {
                self.at -= 1;
                self.escaped_byte(8, 3, bytes);
                return Ok(());
            }
            _ if self.at > self.bytes.len() => return Err(self.unterminated("quoted string", start)),
            byte => byte,
        };
        bytes.push(plain);
        Ok(())
    }

    /// The byte that at most this many digits write; without digits the `x` stands for itself.
    fn escaped_byte(&mut self, radix: u32, digits: usize, bytes: &mut Vec<u8>) {
        let (mut value, mut count) = (0_u32, 0);
        while count < digits
            && let Some(digit) = char::from(self.peek(0)).to_digit(radix)
        {
            (value, count) = (value * radix + digit, count + 1);
            self.at += 1;
        }
        bytes.push(if count == 0 { b'x' } else { value as u8 });
    }

    /// The character of this many hexadecimal digits; surrogates come in pairs of escapes.
    fn code_point(&mut self, digits: usize, bytes: &mut Vec<u8>) -> Result<()> {
        let mut value = self.hexadecimal(digits)?;
        if (0xd800..0xdc00).contains(&value) {
            value = self.low_surrogate(value)?;
        }
        let character = char::from_u32(value).filter(|&character| character != '\0');
        let character =
            character.ok_or_else(|| self.error(self.at, "invalid Unicode escape value".to_string()))?;
        bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }

    /// The second half of a pair, written as the first one's kinds of escapes, and the character of both.
    fn low_surrogate(&mut self, high: u32) -> Result<u32> {
        let invalid = |lexer: &Self| lexer.error(lexer.at, "invalid Unicode surrogate pair".to_string());
        let digits = match (self.peek(0), self.peek(1)) {
            (b'\\', b'u') => 4,
            (b'\\', b'U') => 8,
            _ => return Err(invalid(self)),
        };
        self.at += 2;
        let low = self.hexadecimal(digits)?;
        if !(0xdc00..0xe000).contains(&low) {
            return Err(invalid(self));
        }
        Ok(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00))
    }

    fn hexadecimal(&mut self, digits: usize) -> Result<u32> {
        let text = self.text.get(self.at..self.at + digits);
        let value = text.and_then(|text| u32::from_str_radix(text, 16).ok());
        let value = value.ok_or_else(|| {
            let position = self.bytes.len().min(self.at) as u32 + 1;
            SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, "invalid Unicode escape")
                .with_hint("Unicode escapes must be \\uXXXX or \\UXXXXXXXX.")
                .at(position)
        })?;
        self.at += digits;
        Ok(value)
    }

    /// `U&'…'` and `U&"…"`: the escape character is a backslash, or that of UESCAPE behind it.
    fn unicode(&mut self) -> Result<TokenKind<'t>> {
        self.at += 2;
        let quote = self.peek(0);
        let start = self.at;
        let body = self.between(quote).ok_or_else(|| self.unterminated("quoted string", start))?;
        let doubled = if quote == b'"' { ("\"\"", "\"") } else { ("''", "'") };
        let body = body.replace(doubled.0, doubled.1);
        let escape = self.unicode_escape()?;
        let text = unescaped(&body, escape, start)?;
        Ok(if quote == b'"' { TokenKind::Quoted(text) } else { TokenKind::Text(Cow::Owned(text)) })
    }

    /// `UESCAPE '!'`, if it follows.
    fn unicode_escape(&mut self) -> Result<char> {
        let end = self.at;
        self.skip_blanks()?;
        let follows =
            self.text.get(self.at..self.at + 7).is_some_and(|it| it.eq_ignore_ascii_case("uescape"));
        if !follows || continues_word(self.peek(7)) {
            self.at = end;
            return Ok('\\');
        }
        self.at += 7;
        self.skip_blanks()?;
        if self.peek(0) != b'\'' {
            let message = "UESCAPE must be followed by a simple string literal";
            return Err(self.error(self.at, message.to_string()));
        }
        let at = self.at;
        let text = self.plain_string()?;
        let mut characters = text.chars();
        let is_refused =
            |it: &char| it.is_ascii_hexdigit() || matches!(it, '+' | '\'' | '"') || it.is_whitespace();
        match (characters.next().filter(|it| !is_refused(it)), characters.next()) {
            (Some(escape), None) => Ok(escape),
            _ => Err(self.error(at, "invalid Unicode escape character".to_string())),
        }
    }
}

/// The body of `U&'…'` with its escapes resolved: four digits, `+` and six digits, or the escape character twice.
fn unescaped(body: &str, escape: char, start: usize) -> Result<String> {
    let invalid = |message: &str| SqlError::new(SqlState::SYNTAX_ERROR, message).at(start as u32 + 1);
    let code = |digits: &str| u32::from_str_radix(digits, 16).ok();
    let mut text = String::with_capacity(body.len());
    let mut high: Option<u32> = None;
    let mut rest = body;
    while let Some(character) = rest.chars().next() {
        let after = &rest[character.len_utf8()..];
        if character != escape || after.starts_with(escape) {
            if high.is_some() {
                return Err(invalid("invalid Unicode surrogate pair"));
            }
            text.push(character);
            rest = if character == escape { &after[escape.len_utf8()..] } else { after };
            continue;
        }
        let (digits, length) = match after.strip_prefix('+') {
            Some(long) => (long.get(..6), 7),
            None => (after.get(..4), 4),
        };
        let digits = digits.filter(|it| it.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let value = digits.and_then(code).ok_or_else(|| {
            invalid("invalid Unicode escape").with_hint("Unicode escapes must be \\XXXX or \\+XXXXXX.")
        })?;
        let value = match (high.take(), value) {
            (Some(high), 0xdc00..=0xdfff) => 0x10000 + ((high - 0xd800) << 10) + (value - 0xdc00),
            (Some(_), _) => return Err(invalid("invalid Unicode surrogate pair")),
            (None, value) => value,
        };
        if (0xd800..0xdc00).contains(&value) {
            high = Some(value);
        } else {
            let character = char::from_u32(value).filter(|&it| it != '\0');
            text.push(character.ok_or_else(|| invalid("invalid Unicode escape value"))?);
        }
        rest = &after[length..];
    }
    if high.is_some() {
        return Err(invalid("invalid Unicode surrogate pair"));
    }
    Ok(text)
}
