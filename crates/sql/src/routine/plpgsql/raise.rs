//! RAISE, ASSERT and GET DIAGNOSTICS.

use crate::error::{Result, SqlError, SqlState};
use crate::routine::plpgsql::conditions;
use crate::routine::plpgsql::interpret::Interpreter;
use crate::routine::plpgsql::tree::{Diagnostic, Fragment, Level, Raise, RaiseOption, Target};
use crate::session::{Notice, Severity};
use crate::types::text::to_text;
use crate::types::{Type, Value};

impl Level {
    fn severity(self) -> Severity {
        match self {
            Level::Debug => Severity::Debug,
            Level::Log => Severity::Log,
            Level::Info => Severity::Info,
            Level::Warning => Severity::Warning,
            Level::Notice | Level::Exception => Severity::Notice,
        }
    }
}

impl Interpreter<'_, '_> {
    /// A value as text, for a message.
    fn shown(&mut self, fragment: &Fragment) -> Result<Option<String>> {
        let (value, ty) = self.evaluate(fragment)?;
        if value.is_null() {
            return Ok(None);
        }
        to_text(self.execution.environment, ty, &value).map(Some)
    }

    pub(super) fn raise(&mut self, raise: &Raise) -> Result<()> {
        if raise.is_again {
            return Err(self.errors.last().cloned().unwrap_or_else(|| {
                let message = "RAISE without parameters cannot be used outside an exception handler";
                SqlError::new(SqlState::new("0Z002"), message)
            }));
        }
        let error = self.raised(raise)?;
        if raise.level == Level::Exception {
            return Err(error);
        }
        self.execution.environment.push_notice(Notice {
            severity: raise.level.severity(),
            state: error.state(),
            message: error.message().to_string(),
            detail: error.detail().map(str::to_string),
            hint: error.hint().map(str::to_string),
        })
    }

    fn raised(&mut self, raise: &Raise) -> Result<SqlError> {
        let mut message = match &raise.format {
            Some(format) => Some(self.formatted(format, &raise.arguments)?),
            None => None,
        };
        let mut state = raise.state;
        let mut condition = raise.condition.clone();
        let mut others = Vec::new();
        for (option, value) in &raise.options {
            let Some(text) = self.shown(value)? else {
                let message = "RAISE statement option cannot be null";
                return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message));
            };
            match option {
                RaiseOption::Message if message.is_some() => return Err(repeated("MESSAGE")),
                RaiseOption::Message => message = Some(text),
                RaiseOption::Errcode if state.is_some() => return Err(repeated("ERRCODE")),
                RaiseOption::Errcode => {
                    let found = conditions::state_from(&text).or_else(|| conditions::state_of(&text));
                    let unknown = || {
                        let message = format!("unrecognized exception condition \"{text}\"");
                        SqlError::new(SqlState::UNDEFINED_OBJECT, message)
                    };
                    state = Some(found.ok_or_else(unknown)?);
                    condition = Some(text.clone());
                }
                option => others.push((*option, text)),
            }
        }
        let state = state.unwrap_or(match raise.level {
            Level::Exception => SqlState::RAISE_EXCEPTION,
            Level::Warning => SqlState::WARNING,
            _ => SqlState::SUCCESSFUL_COMPLETION,
        });
        let message = message.or(condition).unwrap_or_else(|| state.as_str().to_string());
        let (mut schema, mut table) = (None, None);
        let mut error = SqlError::new(state, message).raised();
        for (option, text) in others {
            error = match option {
                RaiseOption::Detail => error.with_detail(text),
                RaiseOption::Hint => error.with_hint(text),
                RaiseOption::Column => error.with_column(text),
                RaiseOption::Constraint => error.with_constraint(text),
                RaiseOption::Datatype => error.with_data_type(text),
                RaiseOption::Schema => {
                    schema = Some(text);
                    error
                }
                _ => {
                    table = Some(text);
                    error
                }
            };
        }
        Ok(match (schema, table) {
            (None, None) => error,
            (schema, table) => error.with_table(schema.unwrap_or_default(), table.unwrap_or_default()),
        })
    }

    /// A format with its arguments: `%` is the next of them, `%%` a percent sign.
    fn formatted(&mut self, format: &str, arguments: &[Fragment]) -> Result<String> {
        let (mut text, mut next) = (String::with_capacity(format.len()), arguments.iter());
        let mut rest = format;
        while let Some((before, behind)) = rest.split_once('%') {
            text += before;
            rest = behind;
            if let Some(behind) = behind.strip_prefix('%') {
                text.push('%');
                rest = behind;
            } else if let Some(argument) = next.next() {
                text += self.shown(argument)?.as_deref().unwrap_or("<NULL>");
            }
        }
        text += rest;
        Ok(text)
    }

    pub(super) fn assert(&mut self, condition: &Fragment, message: Option<&Fragment>) -> Result<()> {
        if self.holds(condition)? {
            return Ok(());
        }
        let message = match message {
            Some(message) => self.shown(message)?,
            None => None,
        };
        let message = message.unwrap_or_else(|| "assertion failed".to_string());
        Err(SqlError::new(SqlState::ASSERT_FAILURE, message))
    }

    pub(super) fn diagnostics(&mut self, is_stacked: bool, items: &[(Target, Diagnostic)]) -> Result<()> {
        let error = self.errors.last().cloned();
        if is_stacked && error.is_none() {
            let message = "GET STACKED DIAGNOSTICS cannot be used outside an exception handler";
            return Err(SqlError::new(SqlState::new("0Z002"), message));
        }
        for (target, item) in items {
            let of = |read: fn(&SqlError) -> Option<&str>| {
                Value::text(error.as_ref().and_then(read).unwrap_or_default())
            };
            let value = match item {
                Diagnostic::RowCount => {
                    let count = i64::try_from(self.row_count).unwrap_or(i64::MAX);
                    self.assign(target, Value::Int8(count), Type::Int8)?;
                    continue;
                }
                Diagnostic::Context => Value::text(self.context()),
                Diagnostic::ReturnedSqlstate => Value::text(
                    error.as_ref().map(|error| error.state().as_str().to_string()).unwrap_or_default(),
                ),
                Diagnostic::Message => of(|error| Some(error.message())),
                Diagnostic::Detail => of(SqlError::detail),
                Diagnostic::Hint => of(SqlError::hint),
                Diagnostic::ErrorContext => of(SqlError::context),
                Diagnostic::Column => of(SqlError::column),
                Diagnostic::Constraint => of(SqlError::constraint),
                Diagnostic::Table => of(SqlError::table),
                Diagnostic::Schema => of(SqlError::schema),
                Diagnostic::Datatype => of(SqlError::data_type),
            };
            self.assign(target, value, Type::Text)?;
        }
        Ok(())
    }
}

fn repeated(option: &str) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, format!("RAISE option already specified: {option}"))
}
