//! Settings: their names, values and defaults; SET, SHOW, RESET.
//!
//! Invariants: a value that is kept was checked when it was set; the formats for values follow from the settings at
//! once. SET LOCAL lasts to the end of the transaction, and a rollback restores the values from before the transaction.

mod encodings;
mod known;
mod nesting;
mod scope;
#[cfg(test)]
mod tests;
mod values;

use std::collections::BTreeMap;
use std::sync::Arc;

use self::known::{SETTINGS, TRANSACTION_MODES, all_settings, unrecognized};
use self::nesting::{Nesting, TOP_LEVEL};
use self::values::{bounded, date_style_text, parse_date_style, show_duration, show_pages, show_size};
use crate::error::{Result, SqlError, SqlState};
use crate::run::memory::MEMORY_BYTES_DEFAULT;
use crate::types::datetime::zone::{fixed, zone_by_name, zone_name};
use crate::types::environment::{ByteaStyle, FormatSettings, IntervalStyle};

pub use encodings::client_encodings;
pub(super) use known::{Kind, known};
pub(crate) use known::{
    NO_ROLE, check_changeable, is_known, is_list, is_of_transaction, is_role, own_name,
    unrecognized as unrecognized_setting,
};
pub(crate) use scope::SettingsScope;
pub(crate) use values::{parse_bool, split_names};
pub(super) use values::{parse_bytes, parse_duration, parse_size};

/// The settings of a session.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The values, by name in lower case; settings with a point in their names may be anything.
    values: BTreeMap<String, String>,
    /// The values that RESET restores.
    defaults: BTreeMap<String, String>,
    pub formats: FormatSettings,
    /// The settings that every statement reads, derived from the values.
    pub derived: Derived,
    /// The values to restore when the transaction or one of its subtransactions ends.
    nesting: Nesting,
    /// Names of those that are reported to clients, and that have changed.
    changed: Vec<String>,
}

/// The settings that every statement reads, derived once so that reading them costs nothing.
#[derive(Clone, Debug)]
pub(crate) struct Derived {
    /// The settings that binding depends on: names are looked up along the path, literals read by the formats,
    /// privileges are those of the current role.
    pub binding: Arc<str>,
    /// The session's user: the one that connected, or that of SET SESSION AUTHORIZATION.
    pub session_user: Arc<str>,
    /// The role whose privileges count: that of SET ROLE, or the session's user.
    pub current_user: Arc<str>,
    /// In milliseconds.
    pub statement_timeout: Option<u64>,
    /// In bytes.
    pub work_mem: usize,
    pub read_only: bool,
    /// True if a statement ends when its client has left.
    pub ends_without_client: bool,
    /// True if calls of routines declare the keys that follow from their arguments.
    pub derive_footprints: bool,
    /// The rule by which prepared statements are planned for the values of their parameters.
    pub plan_cache_mode: PlanCacheMode,
    /// A version that rises with every change.
    pub version: u64,
}

/// `plan_cache_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlanCacheMode {
    Auto,
    ForceCustom,
    ForceGeneric,
}

impl Settings {
    pub fn new() -> Settings {
        let defaults: BTreeMap<String, String> =
            all_settings().map(|(name, value, ..)| (name.to_lowercase(), value.to_string())).collect();
        let changed = SETTINGS
            .iter()
            .filter(|(.., reported)| *reported)
            .map(|(name, ..)| name.to_lowercase())
            .collect();
        let nothing: Arc<str> = Arc::from("");
        let derived = Derived {
            binding: nothing.clone(),
            session_user: nothing.clone(),
            current_user: nothing,
            statement_timeout: None,
            work_mem: MEMORY_BYTES_DEFAULT,
            read_only: false,
            ends_without_client: true,
            derive_footprints: true,
            plan_cache_mode: PlanCacheMode::Auto,
            version: 0,
        };
        let mut settings = Settings {
            values: defaults.clone(),
            defaults,
            formats: FormatSettings::default(),
            derived,
            nesting: Nesting::new(),
            changed,
        };
        settings.derive();
        settings
    }

    /// Computes what follows from the values.
    fn derive(&mut self) {
        let of = |name| self.get(name).unwrap_or_default();
        let session_user = of("session_authorization");
        let current_user = Some(of("role")).filter(|role| *role != NO_ROLE).unwrap_or(session_user);
        let settings = ["search_path", "timezone", "datestyle", "intervalstyle"].map(of).join("|");
        let binding = format!("{settings}|{current_user}");
        let user = |name: &str, known: &Arc<str>| {
            if **known == *name { known.clone() } else { Arc::from(name) }
        };
        self.derived = Derived {
            session_user: user(session_user, &self.derived.session_user),
            current_user: user(current_user, &self.derived.current_user),
            binding: binding.into(),
            statement_timeout: self.milliseconds("statement_timeout"),
            work_mem: self.get("work_mem").and_then(parse_size).unwrap_or(MEMORY_BYTES_DEFAULT),
            read_only: self.is_on("transaction_read_only"),
            ends_without_client: self.milliseconds("client_connection_check_interval").is_some(),
            derive_footprints: self.is_on("heddle.derive_footprints"),
            plan_cache_mode: match self.get("plan_cache_mode") {
                Some("force_custom_plan") => PlanCacheMode::ForceCustom,
                Some("force_generic_plan") => PlanCacheMode::ForceGeneric,
                _ => PlanCacheMode::Auto,
            },
            version: self.derived.version + 1,
        };
    }

    /// Overrides a setting's default for this session, from its role or its startup message.
    pub fn set_default(&mut self, name: &str, value: &str) -> Result<()> {
        let (name, value) = self.checked(name, value, false)?;
        self.store_default(name, value)
    }

    /// Overrides the default of a setting that no client may change.
    pub fn set_fixed(&mut self, name: &str, value: &str) -> Result<()> {
        let (name, value) = self.checked(name, value, true)?;
        self.store_default(name, value)
    }

    fn store_default(&mut self, name: String, value: String) -> Result<()> {
        self.defaults.insert(name.clone(), value.clone());
        self.store(&name, Some(value))?;
        self.reset_modes();
        Ok(())
    }

    /// The value, as SHOW prints it.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(&name.to_lowercase()).map(String::as_str)
    }

    /// A duration; none for zero, which means no limit.
    pub fn milliseconds(&self, name: &str) -> Option<u64> {
        self.get(name).and_then(parse_duration).filter(|&duration| duration > 0)
    }

    /// Returns true if the setting is on.
    pub fn is_on(&self, name: &str) -> bool {
        self.get(name) == Some("on")
    }

    /// The schemas in which names are looked up: of those that are named, `$user` for the user.
    pub fn search_path(&self, user: &str) -> Vec<String> {
        let path = self.get("search_path").unwrap_or_default();
        let names =
            split_names(path).into_iter().map(|name| if name == "$user" { user.to_string() } else { name });
        names.filter(|name| !name.is_empty()).collect()
    }

    /// All settings with their values, as SHOW ALL lists them.
    pub fn all(&self) -> Vec<(String, String)> {
        let spelled = |name: &str| known(name).map_or(name.to_string(), |(name, ..)| name.to_string());
        self.values.iter().map(|(name, value)| (spelled(name), value.clone())).collect()
    }

    /// The modes of the transaction in progress.
    pub fn transaction_modes(&self) -> [(&'static str, String); 3] {
        TRANSACTION_MODES.map(|(name, _)| (name, self.get(name).unwrap_or_default().to_string()))
    }

    /// The memory that the texts of custom settings use.
    pub fn own_bytes(&self) -> usize {
        let own = self.values.iter().filter(|(name, _)| name.contains('.'));
        own.map(|(name, value)| name.len() + value.len()).sum()
    }

    /// The value that RESET restores.
    pub fn default_of(&self, name: &str) -> Option<&str> {
        self.defaults.get(&name.to_lowercase()).map(String::as_str)
    }

    /// SET: a value, or the default. `in_block`: the old value is restored when the transaction is rolled back.
    pub fn set(&mut self, name: &str, value: Option<&str>, local: bool, in_block: bool) -> Result<()> {
        let name = name.to_lowercase();
        let value = match value {
            Some(value) => Some(self.checked(&name, value, false)?.1),
            None if known(&name).is_none() && !name.contains('.') => return Err(unrecognized(&name)),
            None => self.defaults.get(&name).cloned(),
        };
        if local || in_block {
            self.nesting.note(&name, self.values.get(&name).cloned(), local);
        }
        self.store(&name, value)?;
        if !in_block {
            self.reset_modes();
        }
        Ok(())
    }

    /// Gives the next transaction the modes of `default_transaction_…`. Outside of a block, the settings show those.
    fn reset_modes(&mut self) {
        for (mode, default) in TRANSACTION_MODES {
            let only_reads = mode == "transaction_read_only" && self.is_on("in_hot_standby");
            let value = if only_reads { Some("on".to_string()) } else { self.values.get(default).cloned() };
            if self.values.get(mode) != value.as_ref() {
                // What is valid for the default is valid for the transaction.
                let _ = self.store(mode, value);
            }
        }
    }

    /// Changes the session's user and role, which the caller has checked; the end of the transaction takes it back as
    /// it does other settings.
    pub fn set_roles(
        &mut self,
        (session_user, role): (&str, &str),
        is_superuser: bool,
        local: bool,
        in_block: bool,
    ) -> Result<()> {
        let is_superuser = if is_superuser { "on" } else { "off" };
        let roles = [("session_authorization", session_user), ("role", role), ("is_superuser", is_superuser)];
        for (name, value) in roles {
            if local || in_block {
                self.nesting.note(name, self.values.get(name).cloned(), local);
            }
            if self.get(name) == Some(value) {
                continue;
            }
            self.store(name, Some(value.to_string()))?;
        }
        Ok(())
    }

    /// RESET ALL, which leaves the session's roles as they are.
    pub fn reset_all(&mut self, in_block: bool) -> Result<()> {
        let names: Vec<String> = self.values.keys().cloned().collect();
        for name in names {
            if self.values.get(&name) != self.defaults.get(&name)
                && !is_role(&name)
                && !TRANSACTION_MODES.iter().any(|(mode, _)| *mode == name)
                && !matches!(known(&name), Some((.., Kind::Fixed, _)))
            {
                self.set(&name, None, false, in_block)?;
            }
        }
        Ok(())
    }

    /// Restores the settings to a copy of them that was made before.
    pub fn restore(&mut self, before: Settings) {
        let now = std::mem::replace(self, before);
        let differs = |name: &&String| now.values.get(*name) != self.values.get(*name);
        let mut changed: Vec<String> = now.values.keys().filter(differs).cloned().collect();
        changed.extend(self.values.keys().filter(|name| !now.values.contains_key(*name)).cloned());
        self.changed = now.changed;
        self.derived.version = now.derived.version;
        for name in changed {
            let value = self.values.get(&name).cloned();
            // It was valid when it was stored.
            let _ = self.store(&name, value);
        }
    }

    /// The transaction has ended.
    pub fn end_transaction(&mut self, committed: bool) {
        self.end_level(TOP_LEVEL, committed);
        self.reset_modes();
    }

    /// Returns true if the transaction has changed settings.
    pub fn has_changes(&self) -> bool {
        self.nesting.has_changes()
    }

    /// Begins a subtransaction: a savepoint, or a block with exception handlers. Returns its level.
    pub fn begin_level(&mut self) -> u32 {
        self.nesting.begin()
    }

    /// The level of the innermost subtransaction.
    pub fn level(&self) -> u32 {
        self.nesting.level()
    }

    /// Ends this level and all deeper ones.
    pub fn end_level(&mut self, level: u32, committed: bool) {
        for (name, value) in self.nesting.end(level, committed) {
            // It was valid when it was stored.
            let _ = self.store(&name, value);
        }
    }

    /// Removes and returns the reports for clients: name and value of reported settings that have changed since the
    /// last call.
    pub fn take_changed(&mut self) -> Vec<(String, String)> {
        let mut names = std::mem::take(&mut self.changed);
        names.dedup();
        let reported = names.iter().filter_map(|name| {
            let (spelled, ..) = known(name)?;
            Some((spelled.to_string(), self.values.get(name)?.clone()))
        });
        reported.collect()
    }

    fn store(&mut self, name: &str, value: Option<String>) -> Result<()> {
        // A setting of the client's own stays once it was named, as in PostgreSQL.
        self.values.insert(name.to_string(), value.unwrap_or_default());
        if known(name).is_some_and(|(.., reported)| *reported)
            && !self.changed.iter().any(|known| known == name)
        {
            self.changed.push(name.to_string());
        }
        let refreshed = self.refresh_formats(name);
        self.derive();
        refreshed
    }

    fn refresh_formats(&mut self, name: &str) -> Result<()> {
        let value = self.values.get(name).cloned().unwrap_or_default();
        match name {
            "timezone" => self.formats.time_zone = zone_by_name(&value)?,
            "datestyle" => {
                (self.formats.date_style, self.formats.date_order) =
                    parse_date_style(&value, (self.formats.date_style, self.formats.date_order))?
            }
            "intervalstyle" => {
                self.formats.interval_style = match value.as_str() {
                    "postgres_verbose" => IntervalStyle::PostgresVerbose,
                    "sql_standard" => IntervalStyle::SqlStandard,
                    "iso_8601" => IntervalStyle::Iso8601,
                    _ => IntervalStyle::Postgres,
                };
            }
            "bytea_output" => {
                self.formats.bytea_style =
                    if value == "escape" { ByteaStyle::Escape } else { ByteaStyle::Hex };
            }
            "extra_float_digits" => self.formats.extra_float_digits = value.parse().unwrap_or(1),
            _ => {}
        }
        Ok(())
    }

    /// The name in lower case and the value as it is kept.
    fn checked(&self, name: &str, value: &str, connecting: bool) -> Result<(String, String)> {
        let Some((spelled, _, kind, _)) = known(name) else {
            if name.contains('.') {
                return Ok((name.to_lowercase(), value.to_string()));
            }
            return Err(unrecognized(name));
        };
        let invalid = || {
            let message = format!("invalid value for parameter \"{spelled}\": \"{value}\"");
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
        };
        let kept = match kind {
            Kind::Fixed if connecting => value.to_string(),
            Kind::Fixed => {
                let message = format!("parameter \"{spelled}\" cannot be changed");
                return Err(SqlError::new(SqlState::CANT_CHANGE_RUNTIME_PARAM, message));
            }
            Kind::Text => value.to_string(),
            Kind::Bool => if parse_bool(value).ok_or_else(|| {
                let message = format!("parameter \"{spelled}\" requires a Boolean value");
                SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
            })? {
                "on"
            } else {
                "off"
            }
            .to_string(),
            Kind::Integer(least, most) => bounded(spelled, value.trim(), *least, *most)?,
            Kind::Real(least, most) => bounded(spelled, value.trim(), *least, *most)?,
            Kind::Pages => show_pages(value).ok_or_else(invalid)?,
            Kind::Duration => show_duration(parse_duration(value).ok_or_else(invalid)?),
            Kind::Size => {
                let hint = "Give between 64kB and 2147483647kB.";
                show_size(parse_size(value).ok_or_else(|| invalid().with_hint(hint))?)
            }
            Kind::Words(words) => {
                let lower = value.to_lowercase();
                if !words.contains(&lower.as_str()) {
                    return Err(invalid());
                }
                lower
            }
            Kind::Encoding => encodings::client_encoding(value)?.to_string(),
            Kind::Only(only, why) => {
                let asked = parse_bool(value).ok_or_else(invalid)?;
                if asked != *only {
                    return Err(SqlError::unsupported(why.to_string()));
                }
                if *only { "on" } else { "off" }.to_string()
            }
            Kind::DateStyle => {
                let styles = parse_date_style(value, (self.formats.date_style, self.formats.date_order))?;
                date_style_text(styles)
            }
            Kind::TimeZone => {
                // A number is hours east of Greenwich here, not POSIX's west.
                match value.trim().parse::<f64>() {
                    Ok(hours) if hours.abs() < 16.0 => zone_name(&fixed((hours * 3600.0).round() as i32)),
                    Ok(_) => return Err(invalid().with_detail("UTC timezone offset is out of range.")),
                    Err(_) => {
                        let zone = zone_by_name(value).map_err(|_| invalid())?;
                        // A POSIX specification is its own name.
                        zone.iana_name().map_or_else(|| value.trim().to_string(), str::to_string)
                    }
                }
            }
        };
        Ok((name.to_lowercase(), kept))
    }
}
