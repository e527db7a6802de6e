//! ALTER SYSTEM: settings of the whole database, which a superuser changes while transactions run.
//!
//! # Invariants
//! A setting of the database is kept by the engine only: SHOW asks it, so that all sessions see a change at once.

use heddledb::ProtocolKind;

use super::connection::Connection;
use super::environment::SessionEnvironment;
use super::settings::{is_known, own_name, unrecognized_setting};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::SetValue;

/// The protocol that isolates transactions.
const PROTOCOL: &str = "heddle.protocol";

impl SessionEnvironment {
    /// The value of a setting, as SHOW prints it.
    pub(in crate::session) fn shown_setting(&self, name: &str) -> Option<&str> {
        match name.eq_ignore_ascii_case(PROTOCOL) {
            true => Some(self.shared().database.protocol().name()),
            false => self.settings.get(name),
        }
    }

    /// All settings with their values, as SHOW ALL lists them.
    pub(crate) fn all_settings(&self) -> Vec<(String, String)> {
        let mut all = self.settings.all();
        for (_, value) in all.iter_mut().filter(|(name, _)| name == PROTOCOL) {
            *value = self.shared().database.protocol().to_string();
        }
        all
    }
}

impl Connection {
    /// ALTER SYSTEM SET, or RESET without a value; `None`: RESET ALL.
    pub(super) fn alter_system(&mut self, name: Option<&str>, value: &SetValue) -> Result<&'static str> {
        let Some(name) = name else {
            if !self.environment().is_superuser() {
                let message = "permission denied to perform ALTER SYSTEM RESET ALL";
                return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
            }
            return self.alter_system(Some(PROTOCOL), &SetValue::Default);
        };
        if !is_known(name) {
            return Err(unrecognized_setting(name));
        }
        if !self.environment().is_superuser() {
            let message = format!("permission denied to set parameter \"{}\"", own_name(name));
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        self.check_no_block("ALTER SYSTEM")?;
        if name != PROTOCOL {
            let error =
                SqlError::unsupported(format!("ALTER SYSTEM of \"{}\" is not supported", own_name(name)));
            return Err(error.with_hint(format!(
                "{PROTOCOL} can be changed; other settings of the server are in its settings file."
            )));
        }
        let database = &self.shared().database;
        let protocol = match value.text(name) {
            Some(text) => protocol_of(&text)?,
            None => database.opened_protocol(),
        };
        database.set_protocol(protocol)?;
        Ok("ALTER SYSTEM")
    }
}

/// The protocol of this name, if it can be put in force while transactions run.
fn protocol_of(text: &str) -> Result<ProtocolKind> {
    text.to_lowercase().parse().map_err(|_| {
        let message = format!("invalid value for parameter \"{PROTOCOL}\": \"{text}\"");
        let names = ProtocolKind::ALL.iter().filter(|kind| **kind != ProtocolKind::Partitioned);
        let names = names.map(|kind| kind.name()).collect::<Vec<_>>().join(", ");
        let error = SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
        error.with_hint(format!("Available values: {names}."))
    })
}
