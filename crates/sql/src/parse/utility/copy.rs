//! The syntax of COPY, with its options in the current and in the old syntax.

use crate::error::{Result, SqlState};
use crate::parse::lexer::TokenKind;
use crate::parse::parser::Parser;
use crate::parse::syntax::{Copy, CopyDirection, CopyOption, CopySource, CopyValue, Statement};

impl Parser<'_> {
    /// COPY.
    pub fn copy(&mut self) -> Result<Statement> {
        self.expect("copy")?;
        self.accept("binary");
        let source = if self.is_mark(0, "(") {
            CopySource::Query(Box::new(self.query_in_parentheses()?))
        } else {
            let name = self.object_name()?;
            let columns = if self.is_mark(0, "(") { self.names_in_parentheses()? } else { Vec::new() };
            CopySource::Table { name, columns }
        };
        let from = matches!(source, CopySource::Table { .. }) && self.accept("from");
        if !from {
            self.expect("to")?;
        }
        let direction = if from { CopyDirection::From } else { CopyDirection::To };
        let file = self.copy_file(from)?;
        self.accept("with");
        let options = if self.is_mark(0, "(") {
            self.in_parentheses(Self::copy_option)?
        } else {
            self.old_copy_options()?
        };
        let filter = if from && self.accept("where") { Some(self.expression()?) } else { None };
        Ok(Statement::Copy(Box::new(Copy { source, direction, file, options, filter })))
    }

    fn copy_file(&mut self, from: bool) -> Result<Option<String>> {
        if self.accept(if from { "stdin" } else { "stdout" }) {
            return Ok(None);
        }
        if self.is_word(0, "program") {
            let message = "COPY from and to programs is not supported";
            return Err(self.error(self.position(), SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        self.string().map(Some)
    }

    fn copy_option(&mut self) -> Result<CopyOption> {
        let at = self.position();
        let name = self.label()?.text;
        let value = match self.peek(0) {
            TokenKind::Mark("(") => CopyValue::Columns(self.names_in_parentheses()?),
            TokenKind::Mark(")" | ",") => CopyValue::None,
            TokenKind::Operator("*") => {
                self.advance();
                CopyValue::All
            }
            _ => CopyValue::Text(self.one_set_value()?),
        };
        Ok(CopyOption { name, value, at })
    }

    /// `CSV HEADER DELIMITER ',' …` without parentheses.
    fn old_copy_options(&mut self) -> Result<Vec<CopyOption>> {
        let mut options = Vec::new();
        loop {
            let at = self.position();
            let option = |name: &str, value| CopyOption { name: name.to_string(), value, at };
            match () {
                () if self.accept("csv") => {
                    options.push(option("format", CopyValue::Text("csv".to_string())))
                }
                () if self.accept("binary") => {
                    options.push(option("format", CopyValue::Text("binary".to_string())))
                }
                () if self.accept("header") => options.push(option("header", CopyValue::None)),
                () if self.accept("freeze") => options.push(option("freeze", CopyValue::None)),
                () if self.accept_words(&["force", "quote"]) => {
                    let value = if self.accept_operator("*") {
                        CopyValue::All
                    } else {
                        CopyValue::Columns(self.list(Self::name)?)
                    };
                    options.push(option("force_quote", value));
                }
                () if self.accept_words(&["force", "not", "null"]) => {
                    options.push(option("force_not_null", CopyValue::Columns(self.list(Self::name)?)));
                }
                () if self.accept_words(&["force", "null"]) => {
                    options.push(option("force_null", CopyValue::Columns(self.list(Self::name)?)));
                }
                () if self.is_one_of(&["delimiter", "null", "quote", "escape", "encoding"]) => {
                    let name = self.label()?.text;
                    self.accept("as");
                    options.push(option(&name, CopyValue::Text(self.string()?)));
                }
                () => return Ok(options),
            }
        }
    }
}
