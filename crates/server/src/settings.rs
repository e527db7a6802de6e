//! The server's settings: a command-line flag stands over an environment variable (`HEDDLE_…`), that over the
//! settings file (TOML), and that over the default.
//!
//! A running server can be given new settings ([`Settings::that_need_a_restart`] names what it cannot change).
//!
//! # Invariants
//! An unknown key is an error wherever it stands, so that a misspelt limit never silently means none. What is printed
//! by `--print-settings` can be read back as a settings file.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use heddledb::{Durability, ProtocolKind};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

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
    /// Where PostgreSQL clients connect: address and port. Port 0 takes a free one.
    pub listen: SocketAddr,
    /// The name of the one database, besides `postgres`.
    pub database: String,
    /// How transactions are isolated; the engine's default if not set.
    pub protocol: Option<String>,
    /// When a commit is acknowledged: `group` (once it is on disk), `async`, `none`.
    pub durability: String,
    /// The most memory that rows may take, in bytes; 0: no limit.
    pub max_row_bytes: u64,
    /// The default of `work_mem`: memory for one statement's sorts, hash tables and stored rows, in bytes.
    pub work_mem_bytes: u64,
    /// The same for all statements together, with the large values that they compute. Beyond it they spill to disk or
    /// fail (53200).
    pub total_work_mem_bytes: u64,
    /// Connections at once, unauthenticated ones included.
    pub max_connections: usize,
    /// Connections at once that have not authenticated yet.
    pub max_unauthenticated: usize,
    /// The largest message of an authenticated client, in bytes.
    pub max_message_bytes: usize,
    /// How long a client may take until it is authenticated, in seconds.
    pub authentication_timeout_s: u64,
    /// For how long a client may accept no data while results wait for it, in seconds.
    pub client_write_timeout_s: u64,
    /// The default of `statement_timeout`, in milliseconds.
    pub statement_timeout_ms: u64,
    /// The default of `lock_timeout`, in milliseconds.
    pub lock_timeout_ms: u64,
    /// The default of `idle_in_transaction_session_timeout`, in milliseconds.
    pub idle_in_transaction_session_timeout_ms: u64,
    /// The default of `idle_session_timeout`, in milliseconds.
    pub idle_session_timeout_ms: u64,
    /// How long statements in progress may go on after SIGTERM, in seconds.
    pub drain_s: u64,
    /// The server's certificate chain, as a PEM file; it needs `tls_key`, too.
    pub tls_certificate: Option<PathBuf>,
    /// The certificate's private key, as a PEM file.
    pub tls_key: Option<PathBuf>,
    /// Authorities, as a PEM file, whose client certificates are accepted.
    pub tls_client_ca: Option<PathBuf>,
    /// Lets clients on other machines connect without TLS.
    pub allow_unencrypted: bool,
    /// Where metrics, health and the live page are served by HTTP; nowhere if not set.
    pub http: Option<SocketAddr>,
    /// A file with the token that HTTP requests must carry; without one, `http` must be a loopback address.
    pub http_token_file: Option<PathBuf>,
    /// How log messages are written.
    pub log_format: LogFormat,
    /// The least important messages that are logged.
    pub log_level: LogLevel,
    /// Statements that take at least this long are logged, in milliseconds; none if not set.
    pub log_min_duration_ms: Option<u64>,
    /// Which users may connect from where, and how they authenticate; the first rule that fits decides.
    #[serde(rename = "host")]
    pub hosts: Vec<HostRule>,
}

/// How log messages are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// One line each, for people.
    #[default]
    Text,
    /// One JSON object each.
    Json,
}

/// How important a log message is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogLevel {
    /// What failed.
    Error,
    /// What an operator should look at.
    Warn,
    /// What a server does.
    #[default]
    Info,
    /// Also why clients left.
    Debug,
}

/// A rule for connections from some addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostRule {
    /// An address, or a network as `10.0.0.0/8`; `all` is every one.
    pub address: String,
    /// The users it is for; none means all.
    #[serde(default)]
    pub users: Vec<String>,
    /// How these users prove it.
    pub method: Method,
}

/// How a user proves to be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Not at all.
    Trust,
    /// By a password, in an exchange that does not show it.
    Scram,
    /// By a client certificate whose common name is the user's.
    Certificate,
    /// This rule refuses connections.
    Reject,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            listen: SocketAddr::from(([127, 0, 0, 1], 5432)),
            database: "heddle".to_owned(),
            protocol: None,
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
            hosts: Vec::new(),
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
    /// An unknown key, a value of the wrong type or out of range; the message names where it stands.
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
        all.extend(variables);
        check("the command line", &flags)?;
        all.extend(flags);
        let settings = Settings::deserialize(all).map_err(|error| from("the settings", &error))?;
        settings.validate()?;
        Ok(settings)
    }

    /// As a settings file.
    ///
    /// # Errors
    /// A path is not valid UTF-8.
    pub fn to_toml(&self) -> Result<String, SettingsError> {
        let value = Table::try_from(self).map_err(|error| from("the settings", &error))?;
        Ok(value.to_string())
    }

    /// The keys in which these settings differ from `newer`, and which a running server cannot change.
    #[must_use]
    pub fn that_need_a_restart(&self, newer: &Settings) -> Vec<&'static str> {
        let differs = [
            ("listen", self.listen != newer.listen),
            ("database", self.database != newer.database),
            ("protocol", self.protocol != newer.protocol),
            ("durability", self.durability != newer.durability),
            ("max_row_bytes", self.max_row_bytes != newer.max_row_bytes),
            ("http", self.http != newer.http),
            ("http_token_file", self.http_token_file != newer.http_token_file),
            ("log_format", self.log_format != newer.log_format),
        ];
        differs.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key).collect()
    }

    /// Takes over the values of `running` that a running server cannot change.
    pub(crate) fn keep_what_needs_a_restart(&mut self, running: &Settings) {
        self.listen = running.listen;
        self.database.clone_from(&running.database);
        self.protocol.clone_from(&running.protocol);
        self.durability.clone_from(&running.durability);
        self.max_row_bytes = running.max_row_bytes;
        self.http = running.http;
        self.http_token_file.clone_from(&running.http_token_file);
        self.log_format = running.log_format;
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

    fn validate(&self) -> Result<(), SettingsError> {
        let refuse = |message: &str| Err(SettingsError::new(message));
        self.engine()?;
        if self.work_mem_bytes < 64 << 10 || self.total_work_mem_bytes < self.work_mem_bytes {
            return refuse(
                "work_mem_bytes must be at least 65536, and total_work_mem_bytes at least work_mem_bytes",
            );
        }
        self.validate_session_defaults()?;
        self.validate_http()?;
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

    /// How this user proves itself from this address. `has_users`: whether any user was added to the database.
    pub(crate) fn method(&self, address: IpAddr, user: &str, has_users: bool) -> Method {
        let fits = |rule: &&HostRule| {
            Network::parse(&rule.address).is_some_and(|network| network.contains(address))
                && (rule.users.is_empty() || rule.users.iter().any(|name| name == user))
        };
        match self.hosts.iter().find(fits) {
            Some(rule) => rule.method,
            None if !self.hosts.is_empty() => Method::Reject,
            None if address.is_loopback() && !has_users => Method::Trust,
            None => Method::Scram,
        }
    }
}

/// Refuses keys and types that are not settings, and says where they stand.
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

/// Addresses that share their first bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Network {
    All,
    Of { address: IpAddr, bits: u32 },
}

impl Network {
    fn parse(text: &str) -> Option<Network> {
        if text == "all" {
            return Some(Network::All);
        }
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u32>().ok()?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        (bits <= most).then_some(Network::Of { address, bits })
    }

    fn contains(self, other: IpAddr) -> bool {
        let Network::Of { address, bits } = self else { return true };
        match (address, other.to_canonical()) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                let differing = ours.to_bits() ^ theirs.to_bits();
                differing.checked_shr(32 - bits).unwrap_or(0) == 0
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => {
                let differing = ours.to_bits() ^ theirs.to_bits();
                differing.checked_shr(128 - bits).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(file: &str, environment: &[(&str, &str)], flags: &str) -> Result<Settings, String> {
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let flags = flags.parse().expect("the test's flags are TOML");
        Settings::load(Some(file), environment, flags).map_err(|error| error.to_string())
    }

    #[test]
    fn a_flag_stands_over_the_environment_over_the_file_over_the_default() {
        let settings =
            |file, environment: &[_], flags| load(file, environment, flags).expect("they are right");
        assert_eq!(settings("", &[], "").max_connections, 10_000);
        assert_eq!(settings("max_connections = 1", &[], "").max_connections, 1);
        let environment = [("HEDDLE_MAX_CONNECTIONS", "2"), ("HOME", "/root")];
        assert_eq!(settings("max_connections = 1", &environment, "").max_connections, 2);
        assert_eq!(settings("max_connections = 1", &environment, "max_connections = 3").max_connections, 3);
    }

    #[test]
    fn an_unknown_key_is_refused_and_the_message_says_where_it_stands() {
        let message = load("max_conections = 1", &[], "").expect_err("misspelt");
        assert!(message.starts_with("the settings file") && message.contains("max_conections"), "{message}");
        let message = load("", &[("HEDDLE_MAXCONNECTIONS", "1")], "").expect_err("misspelt");
        assert!(message.starts_with("the environment"), "{message}");
        assert!(load("[[host]]\naddress = 'all'\nmethod = 'trust'\nport = 1", &[], "").is_err());
    }

    #[test]
    fn what_a_running_server_cannot_change_is_named() {
        let settings = |text| load(text, &[], "").expect("they are right");
        let old = settings("");
        let changed =
            "max_connections = 7\nlog_level = 'debug'\nwork_mem_bytes = 65536\nstatement_timeout_ms = 9";
        assert_eq!(old.that_need_a_restart(&settings(changed)), Vec::<&str>::new());
        let changed =
            settings("listen = '127.0.0.1:1'\nprotocol = 'serial'\nmax_row_bytes = 1\nlog_format = 'json'");
        assert_eq!(old.that_need_a_restart(&changed), ["listen", "protocol", "max_row_bytes", "log_format"]);
    }

    #[test]
    fn values_that_the_engine_or_the_limits_do_not_have_are_refused() {
        for (text, word) in [
            ("protocol = 'magic'", "protocol"),
            ("durability = 'sometimes'", "durability"),
            ("work_mem_bytes = 1", "work_mem_bytes"),
            ("total_work_mem_bytes = 65536", "total_work_mem_bytes"),
            ("log_level = 'loud'", "log_level"),
            ("log_format = 'xml'", "log_format"),
            ("authentication_timeout_s = 0", "authentication_timeout_s"),
            ("authentication_timeout_s = 601", "authentication_timeout_s"),
            ("drain_s = 2147484", "drain_s"),
            ("client_write_timeout_s = 2147484", "client_write_timeout_s"),
            ("statement_timeout_ms = 2147483648", "statement_timeout_ms"),
            ("lock_timeout_ms = 2147483648", "lock_timeout_ms"),
            ("idle_session_timeout_ms = 2147483648", "idle_session_timeout_ms"),
            ("idle_in_transaction_session_timeout_ms = 2147483648", "idle_in_transaction_session_timeout_ms"),
            ("work_mem_bytes = 2199023254529\ntotal_work_mem_bytes = 2199023254529", "work_mem_bytes"),
        ] {
            let message = load(text, &[], "").expect_err(text);
            assert!(message.contains(word), "{text}: {message}");
        }
        let settings = load("protocol = 'phased'\ndurability = 'async'", &[], "").expect("they are right");
        assert_eq!(settings.engine(), Ok((Some(ProtocolKind::Phased), Durability::Async)));
    }

    #[test]
    fn printed_settings_parse_back_to_the_same_settings() {
        let text = "database = 'shop'\ntls_certificate = 'a.pem'\ntls_key = 'b.pem'\n\
                    [[host]]\naddress = '10.0.0.0/8'\nusers = ['ada']\nmethod = 'certificate'";
        let settings = load(text, &[], "").expect("they are right");
        let printed = settings.to_toml().expect("paths are UTF-8");
        assert_eq!(load(&printed, &[], ""), Ok(settings));
    }

    #[test]
    fn every_setting_is_documented() {
        let manual = include_str!("../../../docs/operating.md");
        let settings = serde_json::to_value(Settings::default()).expect("paths are UTF-8");
        for key in settings.as_object().expect("it has keys").keys() {
            let is_rule = key == "host" && manual.contains("| `[[host]]` |");
            assert!(is_rule || manual.contains(&format!("`{key}`")), "docs/operating.md lacks {key}");
        }
        let file = include_str!("../../../packaging/heddle.toml");
        assert!(load(file, &[], "").is_ok(), "the packaged settings file is valid");
    }

    #[test]
    fn an_open_address_needs_tls_or_an_explicit_word() {
        let message = load("listen = '0.0.0.0:5432'", &[], "").expect_err("open to the world");
        assert!(message.contains("allow_unencrypted"), "{message}");
        assert!(load("listen = '0.0.0.0:5432'\nallow_unencrypted = true", &[], "").is_ok());
        assert!(load("listen = '0.0.0.0:5432'\ntls_certificate = 'c'\ntls_key = 'k'", &[], "").is_ok());
        assert!(load("tls_certificate = 'c'", &[], "").is_err());
        assert!(load("tls_client_ca = 'c'", &[], "").is_err());
        assert!(load("max_message_bytes = 1", &[], "").is_err());
    }

    #[test]
    fn http_beyond_this_machine_needs_a_token_and_tls() {
        assert!(load("http = '127.0.0.1:9090'", &[], "").is_ok());
        let message = load("http = '0.0.0.0:9090'", &[], "").expect_err("open to the world");
        assert!(message.contains("http_token_file"), "{message}");
        let message = load("http = '0.0.0.0:9090'\nhttp_token_file = 't'", &[], "").expect_err("unencrypted");
        assert!(message.contains("allow_unencrypted"), "{message}");
        assert!(
            load("http = '[::]:9090'\nhttp_token_file = 't'\ntls_certificate = 'c'\ntls_key = 'k'", &[], "")
                .is_ok()
        );
    }

    #[test]
    fn the_first_rule_that_fits_decides_and_no_rule_rejects() {
        let text = "[[host]]\naddress = '10.1.0.0/16'\nmethod = 'reject'\n\
                    [[host]]\naddress = '10.0.0.0/8'\nusers = ['ada']\nmethod = 'trust'\n\
                    [[host]]\naddress = '::1'\nmethod = 'scram'";
        let settings = load(text, &[], "").expect("they are right");
        let method = |address: &str, user| settings.method(address.parse().expect("an address"), user, true);
        assert_eq!(method("10.1.2.3", "ada"), Method::Reject);
        assert_eq!(method("10.2.2.3", "ada"), Method::Trust);
        assert_eq!(method("10.2.2.3", "bob"), Method::Reject);
        assert_eq!(method("::1", "bob"), Method::Scram);
        assert!(load("[[host]]\naddress = '10.0.0.0/33'\nmethod = 'trust'", &[], "").is_err());
    }

    #[test]
    fn without_rules_loopback_is_trusted_until_there_is_a_user() {
        let settings = Settings::default();
        let method = |address: &str, has_users| {
            settings.method(address.parse().expect("an address"), "ada", has_users)
        };
        assert_eq!(method("127.0.0.1", false), Method::Trust);
        assert_eq!(method("127.0.0.1", true), Method::Scram);
        assert_eq!(method("192.0.2.1", false), Method::Scram);
    }
}
