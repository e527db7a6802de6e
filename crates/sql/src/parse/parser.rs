//! The parser's cursor over the tokens: looking ahead, accepting, expecting, and its errors.

mod references;
mod stored_text;
mod terminals;

use crate::error::{Result, SqlError, SqlState};
use crate::parse::lexer::{Token, TokenKind, counted_tokens, tokens};
use crate::parse::syntax::{At, Expr, ExprKind};
use crate::parse::{HEIGHT_MAX, NESTING_MAX};

pub(crate) use references::Reference;

/// A position in characters from 1, as clients receive it, of a byte offset.
pub(crate) fn character_position(text: &str, at: At) -> u32 {
    let bytes = text.as_bytes().get(..at as usize).unwrap_or(text.as_bytes());
    bytes.iter().filter(|&&byte| byte & 0xc0 != 0x80).count() as u32 + 1
}

/// A parser in the midst of a text.
pub(crate) struct Parser<'t> {
    pub text: &'t str,
    tokens: Vec<Token<'t>>,
    at: usize,
    nesting: u32,
    /// True if the expression that is being read is a restricted one.
    pub is_restricted: bool,
    /// The highest number of a parameter in the statement so far.
    pub parameters: u32,
    /// The names of relations, types and functions so far and their positions, if they are requested.
    references: Option<Vec<(Reference, At)>>,
}

fn check_length(text: &str) -> Result<()> {
    if text.len() < u32::MAX as usize {
        return Ok(());
    }
    Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "the text is longer than 4 GB"))
}

impl<'t> Parser<'t> {
    /// A parser of a text that the catalog keeps. Nothing but the text decides whether it succeeds: a search for the
    /// names in a definition has the same result however much memory other statements use.
    pub fn new(text: &'t str) -> Result<Parser<'t>> {
        check_length(text)?;
        Ok(Parser {
            text,
            tokens: tokens(text)?,
            at: 0,
            nesting: 0,
            is_restricted: false,
            parameters: 0,
            references: None,
        })
    }

    /// A parser of a client's text or of a routine's body, whose tokens count among the memory of statements.
    ///
    /// # Errors
    /// 53200 besides those of [`new`](Self::new).
    pub fn counted(text: &'t str) -> Result<Parser<'t>> {
        check_length(text)?;
        Ok(Parser {
            text,
            tokens: counted_tokens(text)?,
            at: 0,
            nesting: 0,
            is_restricted: false,
            parameters: 0,
            references: None,
        })
    }

    /// The token `ahead` of the current one.
    pub fn peek(&self, ahead: usize) -> &TokenKind<'t> {
        &self.tokens[(self.at + ahead).min(self.tokens.len() - 1)].kind
    }

    /// Position of the current token.
    pub fn position(&self) -> At {
        self.tokens[self.at].start
    }

    /// End of the token before the current one.
    pub fn last_end(&self) -> At {
        self.at.checked_sub(1).map_or(0, |last| self.tokens[last].end)
    }

    /// The text from a position to the end of the token before the current one.
    pub fn text_since(&self, start: At) -> &'t str {
        &self.text[start as usize..(self.last_end() as usize).max(start as usize)]
    }

    pub fn advance(&mut self) {
        self.at = (self.at + 1).min(self.tokens.len() - 1);
    }

    /// The place, to which [`Parser::rewind`] can go back.
    pub fn mark(&self) -> usize {
        self.at
    }

    /// The names without a point beside them since a mark.
    pub fn names_since(&self, mark: usize) -> Vec<String> {
        let is_point = |at: usize| self.tokens.get(at).is_some_and(|it| it.kind == TokenKind::Mark("."));
        let name = |at: usize| match &self.tokens[at].kind {
            TokenKind::Word(word) => Some(word.to_string()),
            TokenKind::Quoted(name) => Some(name.to_string()),
            _ => None,
        };
        (mark..self.at)
            .filter(|&at| !is_point(at + 1) && !is_point(at.wrapping_sub(1)))
            .filter_map(name)
            .collect()
    }

    pub fn rewind(&mut self, mark: usize) {
        self.at = mark;
        let at = self.position();
        if let Some(references) = &mut self.references {
            references.retain(|(_, referred)| *referred < at);
        }
    }

    pub fn is_word(&self, ahead: usize, word: &str) -> bool {
        matches!(self.peek(ahead), TokenKind::Word(found) if found == word)
    }

    pub fn is_words(&self, words: &[&str]) -> bool {
        words.iter().enumerate().all(|(ahead, word)| self.is_word(ahead, word))
    }

    pub fn is_one_of(&self, words: &[&str]) -> bool {
        matches!(self.peek(0), TokenKind::Word(found) if words.contains(&found.as_ref()))
    }

    pub fn is_mark(&self, ahead: usize, mark: &str) -> bool {
        matches!(self.peek(ahead), TokenKind::Mark(found) if *found == mark)
    }

    pub fn is_operator(&self, ahead: usize, operator: &str) -> bool {
        matches!(self.peek(ahead), TokenKind::Operator(found) if *found == operator)
    }

    pub fn is_end(&self) -> bool {
        matches!(self.peek(0), TokenKind::End)
    }

    /// Passes over the keyword if it is there.
    pub fn accept(&mut self, word: &str) -> bool {
        let found = self.is_word(0, word);
        if found {
            self.advance();
        }
        found
    }

    /// Passes over these keywords if all are there.
    pub fn accept_words(&mut self, words: &[&str]) -> bool {
        let found = self.is_words(words);
        if found {
            self.at += words.len();
        }
        found
    }

    pub fn accept_mark(&mut self, mark: &str) -> bool {
        let found = self.is_mark(0, mark);
        if found {
            self.advance();
        }
        found
    }

    pub fn accept_operator(&mut self, operator: &str) -> bool {
        let found = self.is_operator(0, operator);
        if found {
            self.advance();
        }
        found
    }

    pub fn expect(&mut self, word: &str) -> Result<()> {
        if self.accept(word) { Ok(()) } else { Err(self.unexpected()) }
    }

    pub fn expect_words(&mut self, words: &[&str]) -> Result<()> {
        words.iter().try_for_each(|word| self.expect(word))
    }

    pub fn expect_mark(&mut self, mark: &str) -> Result<()> {
        if self.accept_mark(mark) { Ok(()) } else { Err(self.unexpected()) }
    }

    pub fn expect_operator(&mut self, operator: &str) -> Result<()> {
        if self.accept_operator(operator) { Ok(()) } else { Err(self.unexpected()) }
    }

    pub fn end_of_text(&self) -> Result<()> {
        if self.is_end() { Ok(()) } else { Err(self.unexpected()) }
    }

    /// `syntax error at or near` the current token.
    pub fn unexpected(&self) -> SqlError {
        let token = &self.tokens[self.at];
        let message = match token.kind {
            TokenKind::End => "syntax error at end of input".to_string(),
            _ => {
                let near = &self.text[token.start as usize..token.end as usize];
                format!("syntax error at or near \"{near}\"")
            }
        };
        self.error(token.start, SqlState::SYNTAX_ERROR, message)
    }

    pub fn error(&self, at: At, state: SqlState, message: impl Into<String>) -> SqlError {
        SqlError::new(state, message).at(character_position(self.text, at))
    }

    /// Runs a rule one level deeper.
    pub fn nested<T>(&mut self, rule: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.nesting >= NESTING_MAX {
            return Err(self.too_deep());
        }
        self.nesting += 1;
        let result = crate::stack::grow(|| rule(self));
        self.nesting -= 1;
        result
    }

    pub fn too_deep(&self) -> SqlError {
        self.error(self.position(), SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
            .with_hint(format!("Statements nest at most {NESTING_MAX} levels deep; split the statement."))
    }

    /// An expression over others, one level higher than the highest of them.
    pub fn above(&self, kind: ExprKind, at: At, height: u32) -> Result<Expr> {
        if height >= HEIGHT_MAX {
            return Err(self.too_deep());
        }
        Ok(Expr { kind, at, height: height + 1 })
    }

    /// A list with commas, of at least one item.
    pub fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.accept_mark(",") {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// A list with commas in parentheses.
    pub fn in_parentheses<T>(&mut self, item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.expect_mark("(")?;
        let items = self.list(item)?;
        self.expect_mark(")")?;
        Ok(items)
    }
}
