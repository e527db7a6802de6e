//! Settings: their names, values and defaults; SET, SHOW, RESET.
//!
//! Invariants: a value that is kept was checked when it was set; the formats for values follow from the settings at
//! once. SET LOCAL lasts to the end of the transaction, and what a transaction sets is taken back when it is rolled
//! back.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::planner_settings::PLANNER;
use crate::error::{Result, SqlError, SqlState};
use crate::run::memory::MEMORY_BYTES_DEFAULT;
use crate::types::datetime::zone::{fixed, zone_by_name, zone_name};
use crate::types::environment::{ByteaStyle, DateOrder, DateStyle, FormatSettings, IntervalStyle};

/// What may be set to what.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Text,
    Bool,
    Integer(i64, i64),
    Real(f64, f64),
    /// Milliseconds, with units.
    Duration,
    /// Memory, with units.
    Size,
    /// Memory in pages of 8 kB, or with units.
    Pages,
    Words(&'static [&'static str]),
    DateStyle,
    TimeZone,
    /// SET is an error.
    Fixed,
}

/// The settings that there are: the name as SHOW ALL spells it, the default, what it may be, and whether changes are
/// reported to clients.
const SETTINGS: &[(&str, &str, Kind, bool)] = &[
    ("application_name", "", Kind::Text, true),
    ("bytea_output", "hex", Kind::Words(&["escape", "hex"]), false),
    ("check_function_bodies", "on", Kind::Bool, false),
    ("client_encoding", "UTF8", Kind::Words(&["utf8", "unicode"]), true),
    (
        "client_min_messages",
        "notice",
        Kind::Words(&[
            "debug5", "debug4", "debug3", "debug2", "debug1", "debug", "log", "notice", "warning", "error",
        ]),
        false,
    ),
    ("DateStyle", "ISO, MDY", Kind::DateStyle, true),
    ("default_table_access_method", "heap", Kind::Text, false),
    ("default_tablespace", "", Kind::Text, false),
    ("default_transaction_deferrable", "off", Kind::Bool, false),
    (
        "default_transaction_isolation",
        "serializable",
        Kind::Words(&["serializable", "repeatable read", "read committed", "read uncommitted"]),
        false,
    ),
    ("default_transaction_read_only", "off", Kind::Bool, false),
    ("extra_float_digits", "1", Kind::Integer(-15, 3), false),
    ("heddle.derive_footprints", "on", Kind::Bool, false),
    ("idle_in_transaction_session_timeout", "0", Kind::Duration, false),
    ("idle_session_timeout", "0", Kind::Duration, false),
    ("integer_datetimes", "on", Kind::Fixed, true),
    (
        "IntervalStyle",
        "postgres",
        Kind::Words(&["postgres", "postgres_verbose", "sql_standard", "iso_8601"]),
        true,
    ),
    ("is_superuser", "on", Kind::Fixed, true),
    ("jit", "off", Kind::Bool, false),
    ("lc_collate", "C.UTF-8", Kind::Fixed, false),
    ("lc_ctype", "C.UTF-8", Kind::Fixed, false),
    ("lc_messages", "C.UTF-8", Kind::Text, false),
    ("lc_monetary", "C.UTF-8", Kind::Text, false),
    ("lc_numeric", "C.UTF-8", Kind::Text, false),
    ("lc_time", "C.UTF-8", Kind::Text, false),
    ("lock_timeout", "0", Kind::Duration, false),
    ("maintenance_work_mem", "64MB", Kind::Size, false),
    ("max_connections", "100", Kind::Fixed, false),
    ("max_identifier_length", "63", Kind::Fixed, false),
    ("max_index_keys", "32", Kind::Fixed, false),
    ("role", NO_ROLE, Kind::Fixed, false),
    ("row_security", "on", Kind::Bool, false),
    ("search_path", "\"$user\", public", Kind::Text, false),
    ("seed", "unavailable", Kind::Text, false),
    ("server_encoding", "UTF8", Kind::Fixed, true),
    ("server_version", "15.8", Kind::Fixed, true),
    ("server_version_num", "150008", Kind::Fixed, false),
    ("session_authorization", "heddle", Kind::Fixed, true),
    ("session_replication_role", "origin", Kind::Words(&["origin", "replica", "local"]), false),
    ("standard_conforming_strings", "on", Kind::Words(&["on"]), true),
    ("statement_timeout", "0", Kind::Duration, false),
    ("synchronous_commit", "on", Kind::Words(&["on", "off", "local", "remote_write", "remote_apply"]), false),
    ("synchronize_seqscans", "on", Kind::Bool, false),
    ("temp_tablespaces", "", Kind::Text, false),
    ("TimeZone", "UTC", Kind::TimeZone, true),
    ("transaction_deferrable", "off", Kind::Bool, false),
    (
        "transaction_isolation",
        "serializable",
        Kind::Words(&["serializable", "repeatable read", "read committed", "read uncommitted"]),
        false,
    ),
    ("transaction_read_only", "off", Kind::Bool, false),
    ("work_mem", "256MB", Kind::Size, false),
    ("xmloption", "content", Kind::Words(&["content", "document"]), false),
];

/// The settings of a session.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// By name in lower case; settings with a point in their names may be anything.
    values: BTreeMap<String, String>,
    /// What RESET restores.
    defaults: BTreeMap<String, String>,
    pub formats: FormatSettings,
    /// What every statement asks, as it follows from the values.
    pub derived: Derived,
    /// What to restore at the end of the transaction, and what when it is rolled back.
    local: Vec<(String, Option<String>)>,
    transaction: Vec<(String, Option<String>)>,
    /// Names of those that are reported to clients, and that have changed.
    changed: Vec<String>,
}

/// What every statement asks of the settings, kept so that it costs nothing.
#[derive(Clone, Debug)]
pub(crate) struct Derived {
    /// What binding depends on: names are looked up along the path, literals read by the formats, privileges those of
    /// the current role.
    pub binding: Arc<str>,
    /// The session's user: the one who connected, or that of SET SESSION AUTHORIZATION.
    pub session_user: Arc<str>,
    /// The role whose privileges count: that of SET ROLE, or the session's user.
    pub current_user: Arc<str>,
    /// In milliseconds.
    pub statement_timeout: Option<u64>,
    /// In bytes.
    pub work_mem: usize,
    pub read_only: bool,
    /// Whether calls of routines declare the keys that follow from their arguments.
    pub derive_footprints: bool,
    /// Rises with every change.
    pub version: u64,
}

/// The settings of the transaction in progress; each has a default, which the next transaction gets.
const TRANSACTION_MODES: [(&str, &str); 3] = [
    ("transaction_deferrable", "default_transaction_deferrable"),
    ("transaction_isolation", "default_transaction_isolation"),
    ("transaction_read_only", "default_transaction_read_only"),
];

/// The value of `role` without SET ROLE.
pub(crate) const NO_ROLE: &str = "none";

/// Whether a setting is a role, which is set by `Connection::set_role` and its kin only.
pub(crate) fn is_role(name: &str) -> bool {
    name.eq_ignore_ascii_case("role") || name.eq_ignore_ascii_case("session_authorization")
}

pub(super) fn known(name: &str) -> Option<&'static (&'static str, &'static str, Kind, bool)> {
    all_settings().find(|(known, ..)| known.eq_ignore_ascii_case(name))
}

/// A setting's name as SHOW has it: `TimeZone` for `timezone`.
pub(super) fn own_name(name: &str) -> &str {
    known(name).map_or(name, |(own, ..)| own)
}

/// Those that have an effect, and those that are only kept.
fn all_settings() -> impl Iterator<Item = &'static (&'static str, &'static str, Kind, bool)> {
    SETTINGS.iter().chain(PLANNER)
}

fn unrecognized(name: &str) -> SqlError {
    let message = format!("unrecognized configuration parameter \"{name}\"");
    SqlError::new(SqlState::UNDEFINED_OBJECT, message)
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
            derive_footprints: true,
            version: 0,
        };
        let mut settings = Settings {
            values: defaults.clone(),
            defaults,
            formats: FormatSettings::default(),
            derived,
            local: Vec::new(),
            transaction: Vec::new(),
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
            derive_footprints: self.is_on("heddle.derive_footprints"),
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

    /// Whether it is on.
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

    /// What RESET restores.
    pub fn default_of(&self, name: &str) -> Option<&str> {
        self.defaults.get(&name.to_lowercase()).map(String::as_str)
    }

    /// SET: a value, or the default. `in_block`: it is taken back when the transaction is rolled back.
    pub fn set(&mut self, name: &str, value: Option<&str>, local: bool, in_block: bool) -> Result<()> {
        let name = name.to_lowercase();
        let value = match value {
            Some(value) => Some(self.checked(&name, value, false)?.1),
            None if known(&name).is_none() && !name.contains('.') => return Err(unrecognized(&name)),
            None => self.defaults.get(&name).cloned(),
        };
        let old = self.values.get(&name).cloned();
        if local {
            self.local.push((name.clone(), old));
        } else if in_block {
            self.transaction.push((name.clone(), old));
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
            if self.values.get(mode) != self.values.get(default) {
                // What is valid for the default is valid for the transaction.
                let _ = self.store(mode, self.values.get(default).cloned());
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
            let old = self.values.get(name).cloned();
            if old.as_deref() == Some(value) {
                continue;
            }
            if local {
                self.local.push((name.to_string(), old));
            } else if in_block {
                self.transaction.push((name.to_string(), old));
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

    /// The transaction has ended.
    pub fn end_transaction(&mut self, committed: bool) {
        let mut undo = std::mem::take(&mut self.local);
        let transaction = std::mem::take(&mut self.transaction);
        if !committed {
            undo.splice(0..0, transaction);
        }
        for (name, value) in undo.into_iter().rev() {
            // It was valid when it was stored.
            let _ = self.store(&name, value);
        }
        self.reset_modes();
    }

    /// What is reported to clients: name and value of settings that have changed since the last call.
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
        match value {
            Some(value) => self.values.insert(name.to_string(), value),
            None => self.values.remove(name),
        };
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
                // The names of encodings are compared by their letters and digits, as in PostgreSQL.
                let is_encoding = *spelled == "client_encoding";
                let lower: String = value
                    .chars()
                    .filter(|letter| !is_encoding || letter.is_ascii_alphanumeric())
                    .flat_map(char::to_lowercase)
                    .collect();
                if *spelled == "standard_conforming_strings" && parse_bool(value) == Some(true) {
                    return Ok((name.to_lowercase(), "on".to_string()));
                }
                if !words.contains(&lower.as_str()) {
                    return Err(invalid());
                }
                if is_encoding { "UTF8".to_string() } else { lower }
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

/// A number within bounds, as it is shown.
fn bounded<N: std::str::FromStr + PartialOrd + std::fmt::Display>(
    name: &str,
    value: &str,
    least: N,
    most: N,
) -> Result<String> {
    let refused = |message| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let number: N =
        value.parse().map_err(|_| refused(format!("invalid value for parameter \"{name}\": \"{value}\"")))?;
    if !(&least..=&most).contains(&&number) {
        let message =
            format!("{number} is outside the valid range for parameter \"{name}\" ({least} .. {most})");
        return Err(refused(message));
    }
    Ok(number.to_string())
}

fn parse_bool(value: &str) -> Option<bool> {
    match value.to_lowercase().as_str() {
        "on" | "true" | "t" | "yes" | "y" | "1" => Some(true),
        "off" | "false" | "f" | "no" | "n" | "0" => Some(false),
        _ => None,
    }
}

/// Milliseconds: a number with a unit, or without one.
pub(super) fn parse_duration(value: &str) -> Option<u64> {
    let value = value.trim();
    let digits = value.find(|character: char| !character.is_ascii_digit()).unwrap_or(value.len());
    let number: u64 = value[..digits].parse().ok()?;
    let factor = match value[digits..].trim() {
        "" | "ms" => 1,
        "s" => 1_000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(factor).filter(|&total| total <= i32::MAX as u64)
}

/// The largest unit in which it is a whole number.
fn show_duration(milliseconds: u64) -> String {
    for (unit, factor) in [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)] {
        if milliseconds > 0 && milliseconds.is_multiple_of(factor) {
            return format!("{}{unit}", milliseconds / factor);
        }
    }
    if milliseconds == 0 { "0".to_string() } else { format!("{milliseconds}ms") }
}

/// The least and the most that a setting of memory may be: PostgreSQL's bounds of `work_mem`.
const WORK_MEM_BYTES_MIN: usize = 64 << 10;
const WORK_MEM_BYTES_MAX: usize = (i32::MAX as usize) << 10;

/// The units of memory, and their bytes.
const SIZES: [(&str, usize); 4] = [("TB", 1 << 40), ("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10)];

/// Bytes: a number with a unit, or of kilobytes.
pub(super) fn parse_bytes(value: &str) -> Option<usize> {
    let value = value.trim();
    let digits = value.find(|character: char| !character.is_ascii_digit()).unwrap_or(value.len());
    let number: usize = value[..digits].parse().ok()?;
    let bytes = match value[digits..].trim() {
        "" => 1 << 10,
        "B" => 1,
        unit => SIZES.iter().find(|(name, _)| *name == unit)?.1,
    };
    number.checked_mul(bytes)
}

/// Bytes within the bounds of `work_mem`.
pub(super) fn parse_size(value: &str) -> Option<usize> {
    parse_bytes(value).filter(|bytes| (WORK_MEM_BYTES_MIN..=WORK_MEM_BYTES_MAX).contains(bytes))
}

/// A number of pages of 8 kB, or memory with a unit, as it is shown.
fn show_pages(value: &str) -> Option<String> {
    let value = value.trim();
    let bytes = match value.parse::<usize>() {
        Ok(0) => return Some("0".to_string()),
        Ok(pages) => pages.checked_mul(8 << 10)?,
        Err(_) => parse_bytes(value)?,
    };
    Some(show_size(bytes))
}

/// In the largest unit in which it is a whole number; less than a kilobyte does not count.
fn show_size(bytes: usize) -> String {
    let whole = SIZES.iter().find(|(_, size)| bytes >= *size && bytes.is_multiple_of(*size));
    whole.map_or_else(|| format!("{}kB", bytes >> 10), |(unit, size)| format!("{}{unit}", bytes / size))
}

fn parse_date_style(value: &str, current: (DateStyle, DateOrder)) -> Result<(DateStyle, DateOrder)> {
    let (mut style, mut order) = current;
    for word in value.split([',', ' ']).map(str::trim).filter(|word| !word.is_empty()) {
        match word.to_lowercase().as_str() {
            "iso" => style = DateStyle::Iso,
            "sql" => style = DateStyle::Sql,
            "postgres" => style = DateStyle::Postgres,
            "german" => (style, order) = (DateStyle::German, DateOrder::Dmy),
            "dmy" | "euro" | "european" => order = DateOrder::Dmy,
            "mdy" | "us" | "noneuro" | "noneuropean" => order = DateOrder::Mdy,
            "ymd" => order = DateOrder::Ymd,
            "default" => (style, order) = (DateStyle::Iso, DateOrder::Mdy),
            _ => {
                let message = format!("invalid value for parameter \"DateStyle\": \"{value}\"");
                let detail = format!("Unrecognized key word: \"{word}\".");
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).with_detail(detail));
            }
        }
    }
    Ok((style, order))
}

fn date_style_text((style, order): (DateStyle, DateOrder)) -> String {
    let style = match style {
        DateStyle::Iso => "ISO",
        DateStyle::Sql => "SQL",
        DateStyle::Postgres => "Postgres",
        DateStyle::German => "German",
    };
    let order = match order {
        DateOrder::Dmy => "DMY",
        DateOrder::Mdy => "MDY",
        DateOrder::Ymd => "YMD",
    };
    format!("{style}, {order}")
}

/// The names of a list such as `"$user", public`.
fn split_names(list: &str) -> Vec<String> {
    let mut names = Vec::new();
    let (mut name, mut quoted, mut was_quoted) = (String::new(), false, false);
    for character in list.chars().chain([',']) {
        match character {
            '"' => (quoted, was_quoted) = (!quoted, true),
            ',' if !quoted => {
                let text = name.trim();
                names.push(if was_quoted { text.to_string() } else { text.to_lowercase() });
                (name, was_quoted) = (String::new(), false);
            }
            _ => name.push(character),
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked_and_normalized() {
        let mut settings = Settings::new();
        for (name, value, shown) in [
            ("statement_timeout", "60000", "1min"),
            ("statement_timeout", "1500ms", "1500ms"),
            ("datestyle", "sql, dmy", "SQL, DMY"),
            ("TIMEZONE", "europe/berlin", "Europe/Berlin"),
            ("jit", "yes", "on"),
            ("my.setting", "anything", "anything"),
            ("work_mem", "4096", "4MB"),
            ("work_mem", "1536kB", "1536kB"),
            ("work_mem", "131073B", "128kB"),
            ("work_mem", "1TB", "1TB"),
        ] {
            settings.set(name, Some(value), false, false).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(settings.get(name), Some(shown), "{name}");
        }
        for (name, value, state) in [
            ("no_such_setting", "1", "42704"),
            ("server_version", "1", "55P02"),
            ("jit", "maybe", "22023"),
            ("extra_float_digits", "9", "22023"),
            ("datestyle", "gregorian", "22023"),
            ("timezone", "nowhere", "22023"),
            ("work_mem", "much", "22023"),
            ("work_mem", "1KB", "22023"),
            ("work_mem", "63", "22023"),
            ("work_mem", "2147483648kB", "22023"),
            ("work_mem", "99999999999999999999TB", "22023"),
        ] {
            let error = settings.set(name, Some(value), false, false).expect_err(name);
            assert_eq!(error.state().as_str(), state, "{name}");
        }
    }

    #[test]
    fn transactions_take_back_what_they_set() {
        let mut settings = Settings::new();
        settings.set("work_mem", Some("1MB"), false, true).expect("it is a setting");
        settings.set("work_mem", Some("2MB"), true, true).expect("it is a setting");
        settings.end_transaction(true);
        assert_eq!(settings.get("work_mem"), Some("1MB"));
        settings.set("work_mem", Some("3MB"), false, true).expect("it is a setting");
        settings.end_transaction(false);
        assert_eq!(settings.get("work_mem"), Some("1MB"));
    }

    #[test]
    fn clients_are_notified_of_changes_once() {
        let mut settings = Settings::new();
        assert!(
            settings.take_changed().iter().any(|(name, value)| name == "server_version" && value == "15.8")
        );
        assert!(settings.take_changed().is_empty());
        settings.set("application_name", Some("psql"), false, false).expect("it is a setting");
        assert_eq!(settings.take_changed(), [("application_name".to_string(), "psql".to_string())]);
    }

    #[test]
    fn the_search_path_knows_the_user() {
        let mut settings = Settings::new();
        assert_eq!(settings.search_path("ada"), ["ada", "public"]);
        settings.set("search_path", Some("\"Odd Name\", other"), false, false).expect("it is a setting");
        assert_eq!(settings.search_path("ada"), ["Odd Name", "other"]);
    }
}
