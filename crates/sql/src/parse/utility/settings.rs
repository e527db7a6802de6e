//! The syntax of SET, SHOW and RESET.

use crate::error::Result;
use crate::parse::lexer::TokenKind;
use crate::parse::parser::Parser;
use crate::parse::syntax::{RoutineSetting, SetScope, SetValue, Statement};

impl Parser<'_> {
    /// SET, SHOW, RESET, DISCARD.
    pub fn setting(&mut self, word: &str) -> Result<Statement> {
        self.advance();
        match word {
            "set" => self.set(),
            "show" => Ok(Statement::Show(self.setting_name()?)),
            "reset" => {
                let name = self.setting_name()?;
                Ok(Statement::Reset(if name == "all" { None } else { Some(name) }))
            }
            _ => {
                let what = self.label()?.text;
                if !["all", "plans", "sequences", "temp", "temporary"].contains(&what.as_str()) {
                    return Err(self.unexpected());
                }
                Ok(Statement::Discard(what))
            }
        }
    }

    fn setting_name(&mut self) -> Result<String> {
        if self.accept_words(&["time", "zone"]) {
            return Ok("timezone".to_string());
        }
        if self.accept_words(&["transaction", "isolation", "level"]) {
            return Ok("transaction_isolation".to_string());
        }
        if self.accept_words(&["session", "authorization"]) {
            return Ok("session_authorization".to_string());
        }
        let mut name = self.label()?.text;
        while self.accept_mark(".") {
            name = format!("{name}.{}", self.label()?.text);
        }
        Ok(name.to_lowercase())
    }

    fn set(&mut self) -> Result<Statement> {
        if self.accept_words(&["session", "characteristics", "as", "transaction"]) {
            return Ok(Statement::SetTransaction { modes: self.transaction_modes()?, session: true });
        }
        if self.accept("constraints") {
            let names = if self.accept("all") { Vec::new() } else { self.list(Self::object_name)? };
            let deferred = self.accept("deferred");
            if !deferred {
                self.expect("immediate")?;
            }
            return Ok(Statement::SetConstraints { names, deferred });
        }
        let mut scope = SetScope::Session;
        if self.is_word(0, "local") && !self.is_word(1, "to") && !self.is_operator(1, "=") {
            self.advance();
            scope = SetScope::Local;
        } else if self.is_word(0, "session") && !self.is_word(1, "authorization") {
            self.advance();
        }
        if self.accept_words(&["transaction", "snapshot"]) {
            return Ok(Statement::SetSnapshot(self.string()?));
        }
        if self.accept("transaction") {
            return Ok(Statement::SetTransaction { modes: self.transaction_modes()?, session: false });
        }
        if self.accept_words(&["time", "zone"]) {
            let value = match self.accept("interval") {
                true => SetValue::Values(vec![self.zone_interval()?]),
                false => self.set_value()?,
            };
            return Ok(Statement::Set { scope, name: "timezone".to_string(), value });
        }
        let has_own_syntax = !self.is_word(1, "to") && !self.is_operator(1, "=");
        if has_own_syntax
            && (self.is_one_of(&["names", "role"]) || self.is_words(&["session", "authorization"]))
        {
            let name = match () {
                () if self.accept("names") => "client_encoding",
                () if self.accept("role") => "role",
                () => {
                    self.advance();
                    self.advance();
                    "session_authorization"
                }
            };
            let value = self.set_value()?;
            return Ok(Statement::Set { scope, name: name.to_string(), value });
        }
        let name = self.setting_name()?;
        if !self.accept("to") {
            self.expect_operator("=")?;
        }
        let value = self.set_value()?;
        Ok(Statement::Set { scope, name, value })
    }

    /// ALTER SYSTEM, behind these words.
    pub(in crate::parse) fn alter_system(&mut self) -> Result<Statement> {
        if self.accept("reset") {
            let name = self.setting_name()?;
            let name = (name != "all").then_some(name);
            return Ok(Statement::AlterSystem { name, value: SetValue::Default });
        }
        self.expect("set")?;
        let name = self.setting_name()?;
        if !self.accept("to") {
            self.expect_operator("=")?;
        }
        Ok(Statement::AlterSystem { name: Some(name), value: self.set_value()? })
    }

    /// SET in the definition of a routine.
    pub(in crate::parse) fn routine_setting(&mut self) -> Result<RoutineSetting> {
        let start = self.mark();
        self.expect("set")?;
        if !self.is_one_of(&["time", "names", "role"]) {
            let name = self.setting_name()?;
            if self.accept_words(&["from", "current"]) {
                return Ok(RoutineSetting::FromCurrent(name));
            }
        }
        self.rewind(start);
        match self.setting("set")? {
            Statement::Set { scope: SetScope::Session, name, value } => Ok(RoutineSetting::To(name, value)),
            _ => Err(self.unexpected()),
        }
    }

    fn set_value(&mut self) -> Result<SetValue> {
        if self.accept("default") {
            return Ok(SetValue::Default);
        }
        if self.is_word(0, "local") {
            self.advance();
            return Ok(SetValue::Default);
        }
        let values = self.list(Self::one_set_value)?;
        Ok(SetValue::Values(values))
    }

    pub(in crate::parse) fn one_set_value(&mut self) -> Result<String> {
        let sign = if self.accept_operator("-") {
            "-"
        } else {
            self.accept_operator("+");
            ""
        };
        let value = match self.peek(0) {
            TokenKind::Text(text) => text.to_string(),
            TokenKind::Integer(digits) | TokenKind::Decimal(digits) => format!("{sign}{digits}"),
            TokenKind::Word(word) => word.to_string(),
            TokenKind::Quoted(name) => name.clone(),
            _ => return Err(self.unexpected()),
        };
        self.advance();
        Ok(value)
    }
}
