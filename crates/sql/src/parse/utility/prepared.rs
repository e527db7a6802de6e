//! The syntax of prepared statements and cursors.

use crate::error::{Result, SqlState};
use crate::parse::lexer::TokenKind;
use crate::parse::parser::Parser;
use crate::parse::syntax::{DeclareCursor, Fetch, FetchDirection, Statement};

impl Parser<'_> {
    /// PREPARE, EXECUTE, DEALLOCATE.
    pub fn prepared(&mut self, word: &str) -> Result<Statement> {
        let at = self.position();
        self.advance();
        match word {
            "prepare" if self.is_word(0, "transaction") => {
                let message = "two-phase commit is not supported";
                Err(self.error(at, SqlState::FEATURE_NOT_SUPPORTED, message))
            }
            "prepare" => {
                let name = self.name()?;
                let types =
                    if self.is_mark(0, "(") { self.in_parentheses(Self::type_name)? } else { Vec::new() };
                self.expect("as")?;
                let start = self.position();
                let statement = Box::new(self.data_statement()?);
                let text = self.text_since(start).to_string();
                self.parameters = 0;
                Ok(Statement::Prepare { name, types, statement, text })
            }
            "execute" => {
                let name = self.name()?;
                let args =
                    if self.is_mark(0, "(") { self.in_parentheses(Self::expression)? } else { Vec::new() };
                Ok(Statement::Execute { name, args })
            }
            _ => {
                self.accept("prepare");
                Ok(Statement::Deallocate(if self.accept("all") { None } else { Some(self.name()?) }))
            }
        }
    }

    /// DECLARE, FETCH, MOVE, CLOSE.
    pub fn cursor(&mut self, word: &str) -> Result<Statement> {
        self.advance();
        match word {
            "declare" => self.declare(),
            "close" => Ok(Statement::Close(if self.accept("all") { None } else { Some(self.name()?) })),
            _ => self.fetch(word == "move"),
        }
    }

    fn declare(&mut self) -> Result<Statement> {
        let name = self.name()?;
        let (mut binary, mut scroll) = (false, None);
        loop {
            match () {
                () if self.accept("binary") => binary = true,
                () if self.accept("insensitive") || self.accept("asensitive") => {}
                () if self.accept("scroll") => scroll = Some(true),
                () if self.accept_words(&["no", "scroll"]) => scroll = Some(false),
                () => break,
            }
        }
        self.expect("cursor")?;
        let hold = self.accept_words(&["with", "hold"]);
        if !hold {
            self.accept_words(&["without", "hold"]);
        }
        self.expect("for")?;
        let start = self.position();
        let query = Box::new(Statement::Query(Box::new(self.query()?)));
        let text = self.text_since(start).to_string();
        Ok(Statement::Declare(DeclareCursor { name, binary, scroll, hold, query, text }))
    }

    fn fetch(&mut self, moves: bool) -> Result<Statement> {
        let direction = match () {
            () if self.accept("next") => FetchDirection::Forward(1),
            () if self.accept("prior") => FetchDirection::Forward(-1),
            () if self.accept("first") => FetchDirection::Absolute(1),
            () if self.accept("last") => FetchDirection::Absolute(-1),
            () if self.accept("absolute") => FetchDirection::Absolute(self.signed_integer()?),
            () if self.accept("relative") => FetchDirection::Relative(self.signed_integer()?),
            () if self.accept("all") => FetchDirection::Forward(i64::MAX),
            () if self.accept("forward") => FetchDirection::Forward(self.fetch_count()?),
            () if self.accept("backward") => FetchDirection::Forward(self.fetch_count()?.saturating_neg()),
            () if matches!(self.peek(0), TokenKind::Integer(_) | TokenKind::Operator(_)) => {
                FetchDirection::Forward(self.signed_integer()?)
            }
            () => FetchDirection::Forward(1),
        };
        if !self.accept("from") {
            self.accept("in");
        }
        Ok(Statement::Fetch(Fetch { cursor: self.name()?, direction, moves }))
    }

    fn fetch_count(&mut self) -> Result<i64> {
        if self.accept("all") {
            return Ok(i64::MAX);
        }
        match self.peek(0) {
            TokenKind::Integer(_) | TokenKind::Operator(_) => self.signed_integer(),
            _ => Ok(1),
        }
    }
}
