//! The server's settings: a command-line flag overrides an environment variable (`HEDDLE_…`), that overrides
//! the settings file (TOML), and that overrides the default.
//!
//! A running server can be given new settings ([`Settings::that_need_a_restart`] names those that it cannot
//! change).
//!
//! # Invariants
//! An unknown key is an error anywhere, so that a misspelt limit never silently means none. The output of
//! `--print-settings` can be read back as a settings file.

mod host_rules;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use heddledb::{Durability, ProtocolKind, ScheduleKind};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use self::host_rules::Network;
pub use self::host_rules::{HostRule, Method};

/// Settings that cannot be used, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SettingsError {
    message: String,
}

impl SettingsError {
    pub(crate) fn new(message: impl Into<String>) -> SettingsError {
        SettingsError { message: message.into() }
    }
}

/// The configuration of a server. Times of 0 mean: no limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The address and port for PostgreSQL clients. Port 0 selects a free one.
    pub listen: SocketAddr,
    /// The name of the one database, besides `postgres`.
    pub database: String,
    /// The protocol that isolates transactions; the engine's default if not set.
    pub protocol: Option<String>,
    /// The schedule that places calls in workers' queues: `random`, `partition`, `predict`; the engine's default if not set.
    pub schedule: Option<String>,
    /// The column by whose value the schedule `partition` places calls: its name, or `table.column`.
    pub partition_key: Option<String>,
    /// The moment at which a commit is acknowledged: `group` (once it is on disk), `async`, `none`.
    pub durability: String,
    /// The most memory that rows may take, in bytes; 0: no limit.
    pub max_row_bytes: u64,
    /// The default of `work_mem`: memory for one statement's sorts, hash tables and stored rows, in bytes.
    pub work_mem_bytes: u64,
    /// The limit of such memory for all statements together, with the large values that they compute. Beyond
    /// it they spill to disk or fail (53200).
    pub total_work_mem_bytes: u64,
    /// Connections at once, unauthenticated ones included.
    pub max_connections: usize,
    /// Connections at once that have not authenticated yet.
    pub max_unauthenticated: usize,
    /// The largest message of an authenticated client, in bytes.
    pub max_message_bytes: usize,
    /// The time in which a client must authenticate, in seconds.
    pub authentication_timeout_s: u64,
    /// The time for which a client may accept no data while results wait for it, in seconds.
    pub client_write_timeout_s: u64,
    /// The default of `statement_timeout`, in milliseconds.
    pub statement_timeout_ms: u64,
    /// The default of `lock_timeout`, in milliseconds.
    pub lock_timeout_ms: u64,
    /// The default of `idle_in_transaction_session_timeout`, in milliseconds.
    pub idle_in_transaction_session_timeout_ms: u64,
    /// The default of `idle_session_timeout`, in milliseconds.
    pub idle_session_timeout_ms: u64,
    /// The time for which statements in progress may continue after SIGTERM, in seconds.
    pub drain_s: u64,
    /// The server's certificate chain, as a PEM file; it needs `tls_key`, too.
    pub tls_certificate: Option<PathBuf>,
    /// The certificate's private key, as a PEM file.
    pub tls_key: Option<PathBuf>,
    /// Authorities, as a PEM file, whose client certificates are accepted.
    pub tls_client_ca: Option<PathBuf>,
    /// Lets clients on other machines connect without TLS.
    pub allow_unencrypted: bool,
    /// The address for metrics, health and the live page by HTTP; they are not served if it is not set.
    pub http: Option<SocketAddr>,
    /// A file with the token that HTTP requests must carry; without one, `http` must be a loopback address.
    pub http_token_file: Option<PathBuf>,
    /// The format of log messages.
    pub log_format: LogFormat,
    /// The least important messages that are logged.
    pub log_level: LogLevel,
    /// Statements that take at least this long are logged, in milliseconds; none if not set.
    pub log_min_duration_ms: Option<u64>,
    /// Archive of the log and checkpoints: a URL (`s3://`, `gs://`, `az://`, `file://`) or a directory; nowhere if not set.
    pub archive: Option<String>,
    /// A file with the credentials for it, lines of `NAME=VALUE`; without one, they are in the environment.
    pub archive_credentials: Option<PathBuf>,
    /// The longest time until a commit is archived, in seconds.
    pub archive_interval_s: u64,
    /// The least time between two checkpoints that are archived, in seconds.
    pub archive_checkpoint_s: u64,
    /// Limit of the log that is held because it is not archived, in bytes.
    pub archive_hold_bytes: u64,
    /// Number of checkpoints that the archive keeps; 0: all, unless `archive_keep_days` says otherwise.
    pub archive_keep_checkpoints: u32,
    /// Age to which the archive can be restored, in days; 0: to its beginning, unless `archive_keep_checkpoints` says otherwise.
    pub archive_keep_days: u32,
    /// Rules for logins: user, address and authentication method; the first rule that fits decides.
    #[serde(rename = "host")]
    pub hosts: Vec<HostRule>,
    /// The keys that the environment or the command line gave.
    #[serde(skip)]
    pub given: BTreeSet<String>,
}

/// The format of log messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// One line each, for people.
    #[default]
    Text,
    /// One JSON object each.
    Json,
}

/// The importance of a log message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogLevel {
    /// Failures.
    Error,
    /// Events that an operator should know.
    Warn,
    /// Normal operation.
    #[default]
    Info,
    /// Details, such as the reasons for which clients left.
    Debug,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            listen: SocketAddr::from(([127, 0, 0, 1], 5432)),
            database: "heddle".to_owned(),
            protocol: None,
            schedule: None,
            partition_key: None,
            durability: Durability::Group.to_string(),
            max_row_bytes: 0,
            work_mem_bytes: 256 << 20,
            total_work_mem_bytes: 1 << 30,
            max_connections: 10_000,
            max_unauthenticated: 1_000,
            max_message_bytes: 64 << 20,
            authentication_timeout_s: 10,
            client_write_timeout_s: 0,
            statement_timeout_ms: 0,
            lock_timeout_ms: 0,
            idle_in_transaction_session_timeout_ms: 0,
            idle_session_timeout_ms: 0,
            drain_s: 10,
            tls_certificate: None,
            tls_key: None,
            tls_client_ca: None,
            allow_unencrypted: false,
            http: None,
            http_token_file: None,
            log_format: LogFormat::default(),
            log_level: LogLevel::default(),
            log_min_duration_ms: None,
            archive: None,
            archive_credentials: None,
            archive_interval_s: 10,
            archive_checkpoint_s: 3_600,
            archive_hold_bytes: 1 << 30,
            archive_keep_checkpoints: 0,
            archive_keep_days: 0,
            hosts: Vec::new(),
            given: BTreeSet::new(),
        }
    }
}

/// The prefix of environment variables that are settings.
const ENVIRONMENT: &str = "HEDDLE_";

impl Settings {
    /// Puts the settings together: `file` is the text of a settings file, `environment` all of the process's variables,
    /// `flags` what the command line gave.
    ///
    /// # Errors
    /// An unknown key, a value of the wrong type or out of range; the message names its place.
    pub fn load(
        file: Option<&str>,
        environment: impl IntoIterator<Item = (String, String)>,
        flags: Table,
    ) -> Result<Settings, SettingsError> {
        let mut all = Table::new();
        if let Some(text) = file {
            let table = text.parse::<Table>().map_err(|error| from("the settings file", &error))?;
            check("the settings file", &table)?;
            all.extend(table);
        }
        let variables = environment
            .into_iter()
            .filter_map(|(name, value)| Some((name.strip_prefix(ENVIRONMENT)?.to_ascii_lowercase(), value)))
            .map(|(name, value)| (name, typed(&value)))
            .collect::<Table>();
        check("the environment", &variables)?;
        let mut given: BTreeSet<String> = variables.keys().cloned().collect();
        all.extend(variables);
        check("the command line", &flags)?;
        given.extend(flags.keys().cloned());
        all.extend(flags);
        let settings = Settings::deserialize(all).map_err(|error| from("the settings", &error))?;
        let settings = Settings { given, ..settings };
        settings.validate()?;
        Ok(settings)
    }

    /// Formats the settings as a settings file.
    ///
    /// # Errors
    /// A path is not valid UTF-8.
    pub fn to_toml(&self) -> Result<String, SettingsError> {
        // What is left out is the engine's default, which is in force all the same.
        let protocol = self.protocol.clone().or_else(|| Some(ProtocolKind::default().to_string()));
        let schedule = self.schedule.clone().or_else(|| Some(ScheduleKind::default().to_string()));
        let value = Table::try_from(Settings { protocol, schedule, ..self.clone() })
            .map_err(|error| from("the settings", &error))?;
        Ok(value.to_string())
    }

    /// The keys in which these settings differ from `newer`, and which a running server cannot change.
    #[must_use]
    pub fn that_need_a_restart(&self, newer: &Settings) -> Vec<&'static str> {
        let differs = [
            ("listen", self.listen != newer.listen),
            ("database", self.database != newer.database),
            ("protocol", self.protocol != newer.protocol),
            ("schedule", self.schedule != newer.schedule),
            ("partition_key", self.partition_key != newer.partition_key),
            ("durability", self.durability != newer.durability),
            ("max_row_bytes", self.max_row_bytes != newer.max_row_bytes),
            ("http", self.http != newer.http),
            ("http_token_file", self.http_token_file != newer.http_token_file),
            ("log_format", self.log_format != newer.log_format),
            ("archive", self.archive_keys() != newer.archive_keys()),
        ];
        differs.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key).collect()
    }

    /// Takes over the values of `running` that a running server cannot change.
    pub(crate) fn keep_what_needs_a_restart(&mut self, running: &Settings) {
        self.listen = running.listen;
        self.database.clone_from(&running.database);
        self.protocol.clone_from(&running.protocol);
        self.schedule.clone_from(&running.schedule);
        self.partition_key.clone_from(&running.partition_key);
        self.durability.clone_from(&running.durability);
        self.max_row_bytes = running.max_row_bytes;
        self.http = running.http;
        self.http_token_file.clone_from(&running.http_token_file);
        self.log_format = running.log_format;
        self.archive.clone_from(&running.archive);
        self.archive_credentials.clone_from(&running.archive_credentials);
        self.archive_interval_s = running.archive_interval_s;
        self.archive_checkpoint_s = running.archive_checkpoint_s;
        self.archive_hold_bytes = running.archive_hold_bytes;
        self.archive_keep_checkpoints = running.archive_keep_checkpoints;
        self.archive_keep_days = running.archive_keep_days;
    }

    /// The values of all keys that begin with `archive`.
    fn archive_keys(&self) -> (&Option<String>, &Option<PathBuf>, [u64; 5]) {
        let numbers = [
            self.archive_interval_s,
            self.archive_checkpoint_s,
            self.archive_hold_bytes,
            self.archive_keep_checkpoints.into(),
            self.archive_keep_days.into(),
        ];
        (&self.archive, &self.archive_credentials, numbers)
    }

    /// The protocol and the durability as the engine's values.
    ///
    /// # Errors
    /// A value that is none of the engine's.
    pub fn engine(&self) -> Result<(Option<ProtocolKind>, Durability), SettingsError> {
        let protocol = self.protocol.as_deref().map(str::parse).transpose();
        let protocol = protocol.map_err(|error: heddledb::Error| from("protocol", &error))?;
        let durability = self.durability.parse().map_err(|error: heddledb::Error| from("durability", &error));
        Ok((protocol, durability?))
    }

    /// The schedule as the engine's value.
    ///
    /// # Errors
    /// A value that is none of the engine's.
    pub fn schedule(&self) -> Result<Option<ScheduleKind>, SettingsError> {
        let schedule = self.schedule.as_deref().map(str::parse).transpose();
        schedule.map_err(|error: heddledb::Error| from("schedule", &error))
    }

    /// Returns true if the environment or the command line gave this key.
    pub fn is_given(&self, key: &str) -> bool {
        self.given.contains(key)
    }

    fn validate(&self) -> Result<(), SettingsError> {
        let refuse = |message: &str| Err(SettingsError::new(message));
        self.engine()?;
        if self.schedule()? == Some(ScheduleKind::Partition) && self.partition_key.is_none() {
            return refuse(
                "schedule = \"partition\" needs partition_key, the column by whose value calls are placed",
            );
        }
        if self.work_mem_bytes < 64 << 10 || self.total_work_mem_bytes < self.work_mem_bytes {
            return refuse(
                "work_mem_bytes must be at least 65536, and total_work_mem_bytes at least work_mem_bytes",
            );
        }
        self.validate_session_defaults()?;
        self.validate_http()?;
        if self.archive_interval_s == 0 || self.archive_hold_bytes == 0 {
            return refuse("archive_interval_s and archive_hold_bytes must be at least 1");
        }
        if self.tls_certificate.is_some() != self.tls_key.is_some() {
            return refuse("tls_certificate and tls_key belong together: give both or neither");
        }
        if self.tls_client_ca.is_some() && self.tls_certificate.is_none() {
            return refuse("tls_client_ca needs TLS: give tls_certificate and tls_key");
        }
        if self.max_connections == 0 || self.max_unauthenticated == 0 {
            return refuse("max_connections and max_unauthenticated must be at least 1");
        }
        if !(1 << 13..=1 << 30).contains(&self.max_message_bytes) {
            return refuse("max_message_bytes must be between 8192 and 1073741824");
        }
        if self.database.is_empty() {
            return refuse("database must not be empty");
        }
        if !self.listen.ip().is_loopback() && self.tls_certificate.is_none() && !self.allow_unencrypted {
            return refuse(
                "listen is not a loopback address, and there is no TLS: give tls_certificate and tls_key, \
                 or set allow_unencrypted = true",
            );
        }
        self.hosts.iter().try_for_each(|rule| match Network::parse(&rule.address) {
            Some(_) => Ok(()),
            None => Err(SettingsError::new(format!(
                "host rule: {:?} is not an address, a network such as 10.0.0.0/8, or all",
                rule.address
            ))),
        })
    }

    /// Values that no session or clock can take would refuse every client.
    fn validate_session_defaults(&self) -> Result<(), SettingsError> {
        if !(1..=600).contains(&self.authentication_timeout_s) {
            return Err(SettingsError::new("authentication_timeout_s must be between 1 and 600"));
        }
        let most = i32::MAX as u64;
        let limited = [
            ("archive_interval_s", self.archive_interval_s, 86_400),
            ("archive_checkpoint_s", self.archive_checkpoint_s, 31_622_400),
            ("archive_hold_bytes", self.archive_hold_bytes, i64::MAX as u64),
            ("work_mem_bytes", self.work_mem_bytes, most << 10),
            ("client_write_timeout_s", self.client_write_timeout_s, most / 1_000),
            ("drain_s", self.drain_s, most / 1_000),
            ("statement_timeout_ms", self.statement_timeout_ms, most),
            ("lock_timeout_ms", self.lock_timeout_ms, most),
            ("idle_in_transaction_session_timeout_ms", self.idle_in_transaction_session_timeout_ms, most),
            ("idle_session_timeout_ms", self.idle_session_timeout_ms, most),
        ];
        match limited.into_iter().find(|(_, value, most)| value > most) {
            Some((key, _, most)) => Err(SettingsError::new(format!("{key} must be at most {most}"))),
            None => Ok(()),
        }
    }

    fn validate_http(&self) -> Result<(), SettingsError> {
        let Some(http) = self.http else { return Ok(()) };
        if http.ip().is_loopback() {
            return Ok(());
        }
        if self.http_token_file.is_none() {
            return Err(SettingsError::new("http is not a loopback address: give http_token_file"));
        }
        if self.tls_certificate.is_none() && !self.allow_unencrypted {
            return Err(SettingsError::new(
                "http is not a loopback address, and there is no TLS: give tls_certificate and tls_key, or set \
                 allow_unencrypted = true",
            ));
        }
        Ok(())
    }
}

/// Refuses keys and types that are not settings; the message names their place.
fn check(place: &str, table: &Table) -> Result<(), SettingsError> {
    Settings::deserialize(table.clone()).map(drop).map_err(|error| from(place, &error))
}

fn from(place: &str, error: &dyn std::fmt::Display) -> SettingsError {
    SettingsError::new(format!("{place}: {}", error.to_string().trim_end()))
}

/// An environment variable's value: a boolean or a number where it is written as one.
fn typed(value: &str) -> Value {
    match (value.parse::<bool>(), value.parse::<i64>()) {
        (Ok(flag), _) => Value::Boolean(flag),
        (_, Ok(number)) => Value::Integer(number),
        _ => Value::String(value.to_owned()),
    }
}

/// A limit in milliseconds; 0 is none.
pub(crate) fn limit(milliseconds: u64) -> Option<Duration> {
    (milliseconds > 0).then(|| Duration::from_millis(milliseconds))
}
