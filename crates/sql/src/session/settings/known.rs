//! The settings that there are: their names, defaults and kinds of values.

use crate::error::{Result, SqlError, SqlState};
use crate::session::planner_settings::{KEPT, PLANNER};

/// The kind of a setting: the values that it may have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::session) enum Kind {
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
    /// A Boolean of which only one value is served; the text says why.
    Only(bool, &'static str),
    /// The encoding of the client.
    Encoding,
    DateStyle,
    TimeZone,
    /// SET is an error.
    Fixed,
}

/// The settings that there are: the name as SHOW ALL spells it, the default, what it may be, and whether changes are
/// reported to clients.
pub(super) const SETTINGS: &[(&str, &str, Kind, bool)] = &[
    ("application_name", "", Kind::Text, true),
    ("bytea_output", "hex", Kind::Words(&["escape", "hex"]), false),
    ("check_function_bodies", "on", Kind::Bool, false),
    ("client_connection_check_interval", "1s", Kind::Duration, false),
    ("client_encoding", "UTF8", Kind::Encoding, true),
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
    ("heddle.protocol", "auto", Kind::Fixed, false),
    ("heddle.schedule", "random", Kind::Fixed, false),
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
    (
        "standard_conforming_strings",
        "on",
        Kind::Only(
            true,
            "backslashes are escapes only in strings that begin with E: standard_conforming_strings cannot be off",
        ),
        true,
    ),
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

/// The settings of the transaction in progress; each has a default, which the next transaction gets.
pub(super) const TRANSACTION_MODES: [(&str, &str); 3] = [
    ("transaction_deferrable", "default_transaction_deferrable"),
    ("transaction_isolation", "default_transaction_isolation"),
    ("transaction_read_only", "default_transaction_read_only"),
];

/// The settings that only a superuser may change.
const OF_SUPERUSERS: [&str; 2] = ["lc_messages", "session_replication_role"];

/// Returns true if a setting is a list of names.
pub(crate) fn is_list(name: &str) -> bool {
    matches!(name, "search_path" | "temp_tablespaces")
}

/// Returns true if a setting is one that a routine cannot run with: a role, or a mode of the transaction.
pub(crate) fn is_of_transaction(name: &str) -> bool {
    is_role(name) || TRANSACTION_MODES.iter().any(|(mode, _)| mode.eq_ignore_ascii_case(name))
}

/// Checks that a role may change a setting.
///
/// # Errors
/// 42501: it is a superuser's to change.
pub(crate) fn check_changeable(name: &str, is_superuser: bool) -> Result<()> {
    if is_superuser || !OF_SUPERUSERS.iter().any(|known| known.eq_ignore_ascii_case(name)) {
        return Ok(());
    }
    let message = format!("permission denied to set parameter \"{}\"", own_name(name));
    Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
}

/// The value of `role` without SET ROLE.
pub(crate) const NO_ROLE: &str = "none";

/// Returns true if a setting is a role, which is set by `Connection::set_role` and its kin only.
pub(crate) fn is_role(name: &str) -> bool {
    name.eq_ignore_ascii_case("role") || name.eq_ignore_ascii_case("session_authorization")
}

pub(in crate::session) fn known(name: &str) -> Option<&'static (&'static str, &'static str, Kind, bool)> {
    all_settings().find(|(known, ..)| known.eq_ignore_ascii_case(name))
}

/// A setting's name as SHOW has it: `TimeZone` for `timezone`.
pub(crate) fn own_name(name: &str) -> &str {
    known(name).map_or(name, |(own, ..)| own)
}

/// Returns true if the system knows a setting of this name.
pub(crate) fn is_known(name: &str) -> bool {
    known(name).is_some()
}

/// All settings: those that have an effect, and those that are only kept.
pub(super) fn all_settings() -> impl Iterator<Item = &'static (&'static str, &'static str, Kind, bool)> {
    SETTINGS.iter().chain(PLANNER).chain(KEPT)
}

pub(crate) fn unrecognized(name: &str) -> SqlError {
    let message = format!("unrecognized configuration parameter \"{name}\"");
    SqlError::new(SqlState::UNDEFINED_OBJECT, message)
}
