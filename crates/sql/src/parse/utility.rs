//! Settings, prepared statements, cursors, COPY, EXPLAIN, maintenance, notifications.

mod copy;
mod maintenance;
mod prepared;
mod settings;

use crate::error::{Result, SqlState};
use crate::parse::lexer::TokenKind;
use crate::parse::parser::Parser;
use crate::parse::syntax::{ExplainOptions, ObjectKind, Statement};

impl Parser<'_> {
    /// EXPLAIN.
    pub fn explain(&mut self) -> Result<Statement> {
        self.expect("explain")?;
        for (word, kind) in [
            ("function", ObjectKind::Function),
            ("procedure", ObjectKind::Procedure),
            ("routine", ObjectKind::Routine),
        ] {
            if self.accept(word) {
                let name = self.routine_name()?;
                return Ok(Statement::ExplainRoutine { kind, name });
            }
        }
        let mut options = ExplainOptions { costs: true, timing: true, ..ExplainOptions::default() };
        if self.is_mark(0, "(") && !self.starts_query_in_parentheses() {
            self.in_parentheses(|parser| parser.explain_option(&mut options))?;
        } else {
            options.analyze = self.accept("analyze") || self.accept("analyse");
            options.verbose = self.accept("verbose");
        }
        let start = self.position();
        let statement = Box::new(self.nested(Self::statement)?);
        let text = self.text_since(start).to_string();
        Ok(Statement::Explain { options, statement, text })
    }

    fn explain_option(&mut self, options: &mut ExplainOptions) -> Result<()> {
        let at = self.position();
        let name = self.label()?.text;
        let value = match self.peek(0) {
            TokenKind::Mark(_) => "true".to_string(),
            _ => self.one_set_value()?,
        };
        let on = !matches!(value.as_str(), "false" | "off" | "0");
        match name.as_str() {
            "analyze" | "analyse" => options.analyze = on,
            "verbose" => options.verbose = on,
            "costs" => options.costs = on,
            "timing" => options.timing = on,
            "buffers" | "summary" | "settings" | "wal" => {}
            "format" if matches!(value.as_str(), "text" | "json") => options.json = value == "json",
            "format" => {
                let message = format!("EXPLAIN format \"{value}\" is not supported");
                return Err(self
                    .error(at, SqlState::FEATURE_NOT_SUPPORTED, message)
                    .with_hint("Use text or json."));
            }
            _ => {
                let message = format!("unrecognized EXPLAIN option \"{name}\"");
                return Err(self.error(at, SqlState::SYNTAX_ERROR, message));
            }
        }
        Ok(())
    }

    /// LISTEN, NOTIFY, UNLISTEN.
    pub fn notification(&mut self, word: &str) -> Result<Statement> {
        self.advance();
        match word {
            "listen" => Ok(Statement::Listen(self.name()?)),
            "notify" => {
                let channel = self.name()?;
                let payload = if self.accept_mark(",") { Some(self.string()?) } else { None };
                Ok(Statement::Notify { channel, payload })
            }
            _ => Ok(Statement::Unlisten(if self.accept_operator("*") { None } else { Some(self.name()?) })),
        }
    }
}
