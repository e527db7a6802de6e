//! The syntax of CREATE and ALTER EXTENSION.

use crate::error::Result;
use crate::parse::lexer::TokenKind;
use crate::parse::parser::Parser;
use crate::parse::syntax::{CreateExtension, ExtensionStatement, Statement};

impl Parser<'_> {
    /// CREATE EXTENSION, after these words.
    pub(in crate::parse) fn create_extension(&mut self) -> Result<Statement> {
        let if_not_exists = self.accept_words(&["if", "not", "exists"]);
        let name = self.name()?;
        self.accept("with");
        let mut create = CreateExtension { name, if_not_exists, schema: None, version: None, cascade: false };
        loop {
            match () {
                () if self.accept("schema") => create.schema = Some(self.name()?),
                () if self.accept("version") => create.version = Some(self.version()?),
                () if self.accept("cascade") => create.cascade = true,
                () => break,
            }
        }
        Ok(Statement::Extension(Box::new(ExtensionStatement::Create(create))))
    }

    /// ALTER EXTENSION, after these words.
    pub(in crate::parse) fn alter_extension(&mut self) -> Result<Statement> {
        let name = self.name()?;
        let statement = match () {
            () if self.accept("update") => {
                let to = self.accept("to").then(|| self.version()).transpose()?;
                ExtensionStatement::Update { name, to }
            }
            () if self.accept_words(&["set", "schema"]) => {
                ExtensionStatement::SetSchema { name, schema: self.name()? }
            }
            () if self.is_one_of(&["add", "drop"]) => {
                return Err(self.refused("changing the members of an extension is not supported"));
            }
            () => return Err(self.unexpected()),
        };
        Ok(Statement::Extension(Box::new(statement)))
    }

    /// A version: a string or a name.
    fn version(&mut self) -> Result<String> {
        match self.peek(0) {
            TokenKind::Text(_) => self.string(),
            _ => Ok(self.name()?.text),
        }
    }
}
