//! Statements that report: RAISE, ASSERT, GET DIAGNOSTICS.

use super::{SEMICOLON, invalid_state};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::TokenKind;
use crate::routine::plpgsql::compile::{Compiler, End};
use crate::routine::plpgsql::conditions;
use crate::routine::plpgsql::tree::{Diagnostic, Kind, Level, Raise, RaiseOption};

impl Compiler<'_, '_> {
    pub(super) fn diagnostics(&mut self) -> Result<Kind> {
        self.parser.expect("get")?;
        let is_stacked = self.parser.accept("stacked");
        self.parser.accept("current");
        self.parser.expect("diagnostics")?;
        let mut items = Vec::new();
        loop {
            let target = self.target()?;
            if !self.parser.accept_mark(":=") {
                self.parser.expect_operator("=")?;
            }
            let name = self.parser.label()?.text;
            let item = match (is_stacked, name.as_str()) {
                (false, "row_count") => Diagnostic::RowCount,
                (false, "pg_context") => Diagnostic::Context,
                (true, "returned_sqlstate") => Diagnostic::ReturnedSqlstate,
                (true, "message_text") => Diagnostic::Message,
                (true, "pg_exception_detail") => Diagnostic::Detail,
                (true, "pg_exception_hint") => Diagnostic::Hint,
                (true, "pg_exception_context") => Diagnostic::ErrorContext,
                (true, "column_name") => Diagnostic::Column,
                (true, "constraint_name") => Diagnostic::Constraint,
                (true, "table_name") => Diagnostic::Table,
                (true, "schema_name") => Diagnostic::Schema,
                (true, "pg_datatype_name") => Diagnostic::Datatype,
                _ => {
                    let message = format!("unrecognized GET DIAGNOSTICS item at or near \"{name}\"");
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                }
            };
            items.push((target, item));
            if !self.parser.accept_mark(",") {
                return Ok(Kind::Diagnostics { is_stacked, items });
            }
        }
    }

    pub(super) fn assert(&mut self) -> Result<Kind> {
        self.parser.expect("assert")?;
        let condition = self.expression(&[End::Mark(","), End::Mark(";")])?;
        let message = match self.parser.accept_mark(",") {
            true => Some(self.expression(SEMICOLON)?),
            false => None,
        };
        Ok(Kind::Assert { condition, message })
    }

    pub(super) fn raise(&mut self) -> Result<Kind> {
        self.parser.expect("raise")?;
        let level = match () {
            () if self.parser.accept("debug") => Level::Debug,
            () if self.parser.accept("log") => Level::Log,
            () if self.parser.accept("info") => Level::Info,
            () if self.parser.accept("notice") => Level::Notice,
            () if self.parser.accept("warning") => Level::Warning,
            () => {
                self.parser.accept("exception");
                Level::Exception
            }
        };
        let mut raise = Raise {
            level,
            is_again: self.parser.is_mark(0, ";"),
            state: None,
            condition: None,
            format: None,
            arguments: Vec::new(),
            options: Vec::new(),
        };
        if matches!(self.parser.peek(0), TokenKind::Text(_)) {
            let format = self.parser.string()?;
            while self.parser.accept_mark(",") {
                raise.arguments.push(self.expression(&[
                    End::Mark(","),
                    End::Mark(";"),
                    End::Word("using"),
                ])?);
            }
            check_format(&format, raise.arguments.len())?;
            raise.format = Some(format);
        } else if self.parser.accept("sqlstate") {
            let text = self.parser.string()?;
            raise.state = Some(conditions::state_from(&text).ok_or_else(invalid_state)?);
        } else if !self.parser.is_mark(0, ";") && !self.parser.is_word(0, "using") {
            let name = self.parser.label()?.text;
            raise.state = Some(conditions::state_of(&name).ok_or_else(|| {
                let message = format!("unrecognized exception condition \"{name}\"");
                SqlError::new(SqlState::UNDEFINED_OBJECT, message)
            })?);
            raise.condition = Some(name);
        }
        if self.parser.accept("using") {
            self.raise_options(&mut raise)?;
        }
        Ok(Kind::Raise(Box::new(raise)))
    }

    fn raise_options(&mut self, raise: &mut Raise) -> Result<()> {
        loop {
            let name = self.parser.label()?.text;
            let option = match name.as_str() {
                "message" => RaiseOption::Message,
                "detail" => RaiseOption::Detail,
                "hint" => RaiseOption::Hint,
                "errcode" => RaiseOption::Errcode,
                "column" => RaiseOption::Column,
                "constraint" => RaiseOption::Constraint,
                "datatype" => RaiseOption::Datatype,
                "table" => RaiseOption::Table,
                "schema" => RaiseOption::Schema,
                _ => {
                    let message = format!("unrecognized RAISE statement option at or near \"{name}\"");
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                }
            };
            if !self.parser.accept_mark(":=") {
                self.parser.expect_operator("=")?;
            }
            raise.options.push((option, self.expression(&[End::Mark(","), End::Mark(";")])?));
            if !self.parser.accept_mark(",") {
                return Ok(());
            }
        }
    }
}

/// Checks that a format has as many places as there are arguments.
fn check_format(format: &str, arguments: usize) -> Result<()> {
    let places = format.replace("%%", "").matches('%').count();
    let message = match places.cmp(&arguments) {
        std::cmp::Ordering::Less => "too many parameters specified for RAISE",
        std::cmp::Ordering::Greater => "too few parameters specified for RAISE",
        std::cmp::Ordering::Equal => return Ok(()),
    };
    Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
}
