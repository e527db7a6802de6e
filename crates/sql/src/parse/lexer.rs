//! Tokens: words, numbers, strings, operators, punctuation.
//!
//! Invariants: tokens are in the order of the text; the last token is the end of the text; operators follow
//! PostgreSQL's rules (section 4.1.3: `--` and `/*` end one, a trailing `+` or `-` belongs to it only if it holds one
//! of `~ ! @ # % ^ & | \` ?`).

mod quoted;

use std::borrow::Cow;

use crate::error::{Result, SqlError, SqlState};

/// One token.
#[derive(Clone, Debug)]
pub(super) struct Token<'t> {
    /// Its kind.
    pub kind: TokenKind<'t>,
    /// Its first byte.
    pub start: u32,
    /// The byte after its last.
    pub end: u32,
}

/// The kind of a token.
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
    /// `N'…'`, decoded.
    National(Cow<'t, str>),
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

/// Approximate memory of a token, with what the parser and the binder make of it; measured for lists of all kinds.
const TOKEN_BYTES: usize = 160;
/// Memory of a statement besides its tokens.
const STATEMENT_BYTES: usize = 768;
/// After how many tokens their memory is counted; those of shorter texts are not.
const COUNTED_TOKENS: usize = 4_096;

/// The tokens of a catalog text, whose memory is not counted.
///
/// # Errors
/// 42601 for unterminated strings, comments and names, and for bytes that begin no token; 22025 for a wrong escape.
pub(super) fn tokens(text: &str) -> Result<Vec<Token<'_>>> {
    Lexer::new(text).collect()
}

/// The tokens of a text. Those of a long one count among the memory of the statement that the thread runs.
///
/// # Errors
/// Like [`tokens`]; 53200 for a text that needs more memory than there is for statements.
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
    /// A lexer at the beginning of a text.
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
                Ok(TokenKind::National(self.plain_string()?))
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
}
