//! ALTER SYSTEM: settings of the whole database, which a superuser changes while transactions run.
//!
//! They are saved with the definitions, and put in force when the database is opened again, unless the option was given to it then
//! (`Options::protocol`, the command line).
//!
//! # Invariants
//! - The value in force is kept by the engine only: SHOW asks it, so that all sessions see a change at once.
//! - A saved setting that cannot be put in force stays saved, and is reported: a newer version may know it.

use heddledb::{Database, ProtocolKind, ScheduleKind};

use super::connection::Connection;
use super::environment::SessionEnvironment;
use super::result::Severity;
use super::settings::{is_known, own_name, unrecognized_setting};
use crate::catalog::Catalog;
use crate::catalog::store::Object;
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::SetValue;

/// A setting of the whole database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SystemSetting {
    /// The protocol that isolates transactions.
    Protocol,
    /// The schedule that places calls in workers' queues.
    Schedule,
}

impl SystemSetting {
    const ALL: [SystemSetting; 2] = [SystemSetting::Protocol, SystemSetting::Schedule];

    fn name(self) -> &'static str {
        match self {
            SystemSetting::Protocol => "heddle.protocol",
            SystemSetting::Schedule => "heddle.schedule",
        }
    }

    fn named(name: &str) -> Option<SystemSetting> {
        Self::ALL.into_iter().find(|setting| name.eq_ignore_ascii_case(setting.name()))
    }

    /// The value in force.
    fn in_force(self, database: &Database) -> &'static str {
        match self {
            SystemSetting::Protocol => database.protocol().name(),
            SystemSetting::Schedule => database.schedule_kind().name(),
        }
    }

    /// The value of the options with which the database was opened.
    fn of_options(self, database: &Database) -> &'static str {
        match self {
            SystemSetting::Protocol => database.opened_protocol().name(),
            SystemSetting::Schedule => database.opened_schedule().name(),
        }
    }

    /// Returns true if that value was given, so that it comes before a saved one.
    fn is_given(self, database: &Database) -> bool {
        match self {
            SystemSetting::Protocol => database.was_given_protocol(),
            SystemSetting::Schedule => database.was_given_schedule(),
        }
    }

    /// Puts a value in force.
    ///
    /// # Errors
    /// 22023 for none of its values, and for one that cannot take the place of the present one; the engine's.
    fn put_in_force(self, database: &Database, text: &str) -> Result<()> {
        let wanted = text.to_lowercase();
        match self {
            SystemSetting::Protocol => {
                let is_wanted = |kind: &&ProtocolKind| kind.name() == wanted;
                let kind = ProtocolKind::ALL.iter().find(is_wanted).ok_or_else(|| self.invalid(text))?;
                Ok(database.set_protocol(*kind)?)
            }
            SystemSetting::Schedule => {
                let is_wanted = |kind: &&ScheduleKind| kind.name() == wanted;
                let kind = ScheduleKind::ALL.iter().find(is_wanted).ok_or_else(|| self.invalid(text))?;
                Ok(database.set_schedule(*kind)?)
            }
        }
    }

    fn invalid(self, text: &str) -> SqlError {
        let message = format!("invalid value for parameter \"{}\": \"{text}\"", self.name());
        let names: Vec<&str> = match self {
            SystemSetting::Protocol => {
                let kinds = ProtocolKind::ALL.iter().filter(|kind| **kind != ProtocolKind::Partitioned);
                kinds.map(|kind| kind.name()).collect()
            }
            SystemSetting::Schedule => ScheduleKind::ALL.iter().map(|kind| kind.name()).collect(),
        };
        let error = SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
        error.with_hint(format!("Available values: {}.", names.join(", ")))
    }
}

impl SessionEnvironment {
    /// The value of a setting, as SHOW prints it.
    pub(in crate::session) fn shown_setting(&self, name: &str) -> Option<&str> {
        match SystemSetting::named(name) {
            Some(setting) => Some(setting.in_force(&self.shared().database)),
            None => self.settings.get(name),
        }
    }

    /// All settings with their values, as SHOW ALL lists them.
    pub(crate) fn all_settings(&self) -> Vec<(String, String)> {
        let mut all = self.settings.all();
        for (name, value) in &mut all {
            if let Some(setting) = SystemSetting::named(name) {
                *value = setting.in_force(&self.shared().database).to_string();
            }
        }
        all
    }
}

impl Connection {
    /// ALTER SYSTEM SET, or RESET without a value; `None`: RESET ALL.
    pub(super) fn alter_system(&mut self, name: Option<&str>, value: &SetValue) -> Result<&'static str> {
        match name {
            Some(name) => self.alter_system_setting(name, value)?,
            None => self.reset_system()?,
        }
        Ok("ALTER SYSTEM")
    }

    fn reset_system(&mut self) -> Result<()> {
        if !self.environment().is_superuser() {
            let message = "permission denied to perform ALTER SYSTEM RESET ALL";
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        self.check_no_block("ALTER SYSTEM")?;
        self.save(Vec::clear)?;
        for setting in SystemSetting::ALL {
            let database = &self.shared().database;
            setting.put_in_force(database, setting.of_options(database))?;
        }
        Ok(())
    }

    fn alter_system_setting(&mut self, name: &str, value: &SetValue) -> Result<()> {
        let text = value.text(name);
        let is_saved = |catalog: &Catalog| is_among(&catalog.database.settings_of_system, name);
        if !is_known(name) && (text.is_some() || !is_saved(&self.shared().catalog())) {
            return Err(unrecognized_setting(name));
        }
        if !self.environment().is_superuser() {
            let message = format!("permission denied to set parameter \"{}\"", own_name(name));
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        self.check_no_block("ALTER SYSTEM")?;
        let Some(setting) = SystemSetting::named(name) else {
            if text.is_none() && is_saved(&self.shared().catalog()) {
                // One that this version does not know, or knows as another kind of setting.
                return self.save(|saved| saved.retain(|(known, _)| !known.eq_ignore_ascii_case(name)));
            }
            let error =
                SqlError::unsupported(format!("ALTER SYSTEM of \"{}\" is not supported", own_name(name)));
            return Err(error.with_hint(
                "heddle.protocol and heddle.schedule can be changed; other settings of the server are in its settings file.",
            ));
        };
        self.change(setting, text.as_deref())
    }

    /// Puts a value in force, and saves it; `None`: the one of the options, and saves none.
    fn change(&mut self, setting: SystemSetting, text: Option<&str>) -> Result<()> {
        let shared = self.shared().clone();
        let database = &shared.database;
        let before = setting.in_force(database);
        // Before it is saved: only this tells whether it can be in force.
        setting.put_in_force(database, text.unwrap_or(setting.of_options(database)))?;
        let saved = self.save(|saved| {
            saved.retain(|(known, _)| known != setting.name());
            saved.extend(text.map(|text| (setting.name().to_string(), text.to_lowercase())));
        });
        if saved.is_err() {
            // It was in force a moment ago, so it can be again; the error that counts is the first.
            let _ = setting.put_in_force(database, before);
        } else if text.is_some() && setting.is_given(database) {
            let message = format!(
                "the database was opened with {} = {}, which comes first again when it is opened so again",
                setting.name(),
                setting.of_options(database)
            );
            self.environment_mut().add_notice(Severity::Notice, SqlState::SUCCESSFUL_COMPLETION, message);
        }
        saved
    }

    /// Changes the settings that are saved, unless they are so already.
    fn save(&mut self, change: impl Fn(&mut Vec<(String, String)>)) -> Result<()> {
        self.in_schema_transaction(|connection| {
            let mut catalog = connection.catalog_to_change();
            let mut database = catalog.database.clone();
            change(&mut database.settings_of_system);
            if database == catalog.database {
                return Ok(());
            }
            catalog.database = database.clone();
            connection.publish(&[Object::Database(database)], catalog)
        })
    }
}

fn is_among(saved: &[(String, String)], name: &str) -> bool {
    saved.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
}

/// Puts the saved settings of a database that has been opened in force. Returns those that cannot be, each with the reason.
pub(super) fn restore(database: &Database, catalog: &Catalog) -> Vec<String> {
    let mut ignored = Vec::new();
    // A standby is written by one thread, and has no choice.
    let saved = catalog.database.settings_of_system.iter().filter(|_| !database.is_standby());
    for (name, value) in saved {
        let restored = match SystemSetting::named(name) {
            Some(setting) if setting.is_given(database) => Ok(()),
            Some(setting) => setting.put_in_force(database, value),
            None => Err(unrecognized_setting(name)),
        };
        if let Err(error) = restored {
            ignored.push(format!("{name} = {value}: {error}; ALTER SYSTEM RESET {name} removes it"));
        }
    }
    ignored
}
