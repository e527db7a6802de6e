//! Statements by their first words.

use crate::error::Result;
use crate::parse::lexer::TokenKind;
use crate::parse::parser::Parser;
use crate::parse::syntax::{ParsedStatement, Statement};

impl Parser<'_> {
    /// All statements of the text.
    pub fn statements(mut self) -> Result<Vec<ParsedStatement>> {
        let mut statements = Vec::new();
        loop {
            while self.accept_mark(";") {}
            if self.is_end() {
                return Ok(statements);
            }
            let start = self.position() as usize;
            self.parameters = 0;
            let statement = self.statement()?;
            if !self.is_mark(0, ";") && !self.is_end() {
                return Err(self.unexpected());
            }
            let end = self.last_end() as usize;
            statements.push(ParsedStatement { statement, start, end, parameters: self.parameters });
        }
    }

    /// One statement.
    pub fn statement(&mut self) -> Result<Statement> {
        let word = match self.peek(0) {
            TokenKind::Word(word) => word.to_string(),
            TokenKind::Mark("(") => "select".to_string(),
            _ => return Err(self.unexpected()),
        };
        match word.as_str() {
            "select" | "values" | "table" | "with" | "insert" | "update" | "delete" | "merge" => {
                self.data_statement()
            }
            "create" => self.create(),
            "alter" => self.alter(),
            "drop" => self.drop(),
            "comment" => self.comment(),
            "truncate" => self.truncate(),
            "begin" | "start" | "commit" | "end" | "rollback" | "abort" | "savepoint" | "release" => {
                self.transaction(&word)
            }
            "lock" => self.lock_table(),
            "set" | "show" | "reset" | "discard" => self.setting(&word),
            "prepare" | "execute" | "deallocate" => self.prepared(&word),
            "declare" | "fetch" | "move" | "close" => self.cursor(&word),
            "copy" => self.copy(),
            "explain" => self.explain(),
            "vacuum" | "analyze" | "analyse" | "checkpoint" | "reindex" | "cluster" => {
                self.maintenance(&word)
            }
            "listen" | "notify" | "unlisten" => self.notification(&word),
            "grant" | "revoke" => self.privilege(&word),
            "do" => self.do_block(),
            "call" => self.call_statement(),
            "refresh" => self.refresh(),
            "security" | "import" | "load" => self.unsupported(&word),
            "reassign" => self.reassign_owned(),
            _ => Err(self.unexpected()),
        }
    }

    /// A statement that is known and refused: its tokens are passed over.
    fn unsupported(&mut self, word: &str) -> Result<Statement> {
        let at = self.position();
        self.skip_statement();
        Ok(Statement::Unsupported { what: word.to_uppercase(), hint: None, at })
    }

    /// Passes over the rest of the statement.
    pub fn skip_statement(&mut self) {
        let mut depth = 0_usize;
        while !self.is_end() {
            match self.peek(0) {
                TokenKind::Mark("(") => depth += 1,
                TokenKind::Mark(")") => depth = depth.saturating_sub(1),
                TokenKind::Mark(";") if depth == 0 => return,
                _ => {}
            }
            self.advance();
        }
    }
}
