//! A connection: the interface that servers and embedding programs use for SQL.
//!
//! A connection holds the state of one client: its settings, its transaction, its prepared statements and portals. It
//! belongs to one thread at a time; other threads reach it only by its [`Canceller`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use heddledb::{Error, Timeout};

use crate::catalog::uses::{self, Noting};
use crate::error::{Result, SqlError, SqlState};
use crate::interrupt::{self, Entered, Interrupt};
use crate::parse::parse;
use crate::parse::syntax::{ParsedStatement, Statement};
use crate::session::Shared;
use crate::session::environment::{SessionEnvironment, now};
use crate::session::identity::{admit, enter};
use crate::session::notices::Notices;
use crate::session::parsed::Parsed;
use crate::session::pipeline::Pipeline;
use crate::session::plan_cache::Templates;
use crate::session::prepared::Portals;
use crate::session::result::{Collected, Notice, ResultSink, StatementResult, TransactionStatus};
use crate::session::row_rules::RowRules;
use crate::session::run::PlanCache;
use crate::session::sessions::{Activity, Encryption};
use crate::session::settings::check_changeable;
use crate::session::statements::KnownCounters;
use crate::session::transaction::Transaction;
use crate::types::binary::from_binary;
use crate::types::text::{from_text, to_text};
use crate::types::{Modifier, Type, Value};

/// The user and the database of a connection.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// The role.
    pub user: String,
    /// True if a user that is no role of the database connects as its bootstrap superuser, under its own
    /// name. If false, such a user cannot connect.
    pub is_superuser: bool,
    /// The name by which the database is known.
    pub database: String,
}

impl Default for ConnectOptions {
    fn default() -> ConnectOptions {
        ConnectOptions { user: "heddle".to_string(), is_superuser: true, database: "heddle".to_string() }
    }
}

/// Cancels the statement in progress of a connection, from any thread.
#[derive(Clone)]
pub struct Canceller {
    interrupt: Arc<Interrupt>,
    engine: heddledb::Canceler,
    session: u64,
}

impl Canceller {
    /// Creates the canceller of the engine session with this number.
    pub(super) fn new(interrupt: Arc<Interrupt>, (session, engine): (u64, heddledb::Canceler)) -> Canceller {
        Canceller { interrupt, engine, session }
    }

    /// Ends the statement in progress with 57014; without one, nothing happens.
    pub fn cancel(&self) {
        self.interrupt.cancel();
        self.engine.cancel();
    }

    /// Ends the statement in progress because the client has left, unless `client_connection_check_interval`
    /// is 0.
    pub fn cancel_without_client(&self) {
        if self.interrupt.ends_without_client() {
            self.cancel();
        }
    }

    /// The number of the engine's session.
    pub(super) fn session(&self) -> u64 {
        self.session
    }
}

/// A connection to a database: it executes statements one after the other and returns their results.
pub struct Connection {
    pub(super) shared: Arc<Shared>,
    /// The registration with the engine, as long as the connection exists.
    _rules: Arc<RowRules>,
    pub(super) environment: SessionEnvironment,
    pub(crate) transaction: Transaction,
    pub(super) pipeline: Pipeline,
    /// The time of the client's first message since the end of the last Execute or pipeline: `statement_timeout` counts
    /// from there.
    pub(super) unit_started: Option<Instant>,
    pub(super) portals: Portals,
    pub(super) plans: PlanCache,
    pub(super) parsed: Parsed,
    pub(super) templates: Templates,
    /// The row that a compiled statement returns, kept for its memory.
    pub(super) row: Vec<Value>,
    pub(super) activity: Arc<Activity>,
    /// The whole text that the client has sent, if it has sent a PREPARE or DECLARE in it.
    pub(super) source: Option<Box<str>>,
    pub(super) counters: KnownCounters,
    /// The number of rows that the statement in progress has returned or written.
    pub(super) rows_of_statement: u64,
}

impl Connection {
    pub(super) fn new(rules: Arc<RowRules>, options: ConnectOptions, number: i32) -> Result<Connection> {
        let shared = rules.shared().clone();
        let limit = admit(&shared, &options.user, options.is_superuser)?;
        let transaction = Transaction::new(shared.database.session()?, shared.history.clone());
        let session = (transaction.session.number(), transaction.canceler());
        let environment = SessionEnvironment::new(shared.clone(), options, number, session)?;
        let activity = environment.activity.clone();
        enter(&shared, &activity, limit)?;
        Ok(Connection {
            shared,
            _rules: rules,
            environment,
            transaction,
            pipeline: Pipeline::default(),
            unit_started: None,
            portals: Portals::default(),
            plans: PlanCache::default(),
            parsed: Parsed::default(),
            templates: Templates::default(),
            row: Vec::new(),
            activity,
            source: None,
            counters: KnownCounters::default(),
            rows_of_statement: 0,
        })
    }

    /// Executes all statements of a text, and collects their results. Several statements are one transaction,
    /// unless the text itself contains BEGIN and COMMIT.
    ///
    /// # Errors
    /// The error of the first statement that fails; the statements behind it are not executed.
    pub fn query(&mut self, text: &str) -> Result<Vec<StatementResult>> {
        let mut sink = Collected::default();
        self.simple_query(text, &mut sink)?;
        Ok(sink.results)
    }

    /// Executes a COPY … FROM STDIN with this data.
    ///
    /// # Errors
    /// Same errors as [`query`](Self::query).
    pub fn copy_from(&mut self, text: &str, data: &[u8]) -> Result<Vec<StatementResult>> {
        let mut sink = Collected { input: Some(data), ..Collected::default() };
        self.simple_query(text, &mut sink)?;
        Ok(sink.results)
    }

    /// Executes all statements of a text: the protocol's simple query.
    ///
    /// # Errors
    /// The error of the first statement that fails; the statements behind it are not executed.
    pub fn simple_query(&mut self, text: &str, sink: &mut dyn ResultSink) -> Result<()> {
        self.unit_started = None;
        let _entered = self.enter_statement();
        self.activity.begin(text, self.environment.statement_start);
        self.portals.take("");
        self.environment.prepared.remove("");
        self.pipeline.keep();
        if let Some(done) = self.run_by_template(text, sink) {
            return done.map_err(|error| self.failed(error));
        }
        let statements = parse(text).map_err(|error| self.failed(error))?;
        if statements.is_empty() {
            sink.empty();
            return Ok(());
        }
        let keeps_source =
            |it: &ParsedStatement| matches!(it.statement, Statement::Prepare { .. } | Statement::Declare(_));
        self.source = statements.iter().any(keeps_source).then(|| text.into());
        let several = statements.len() > 1;
        for (position, statement) in statements.iter().enumerate() {
            if position > 0 {
                self.begin_statement();
            }
            if several {
                self.open_implicit_block(&statement.statement).map_err(|error| self.failed(error))?;
            }
            let own = &text[statement.start..statement.end];
            let started = Instant::now();
            let done = crate::stack::for_text(own.len(), || self.run_statement(statement, own, sink));
            let counters = done.is_ok().then(|| self.counters_of_text(own));
            self.count_statement(started, counters.as_deref());
            done.map_err(|error| self.failed(shifted(error, text, statement)))?;
            self.statement_done();
        }
        self.close_implicit_block().map_err(|error| self.failed(error))
    }

    /// Begins a statement for a request of the client to the connection, like
    /// [`begin_statement`](Self::begin_statement): while the guard lives, this thread runs the connection's statements.
    pub(super) fn enter_statement(&mut self) -> (Entered, Noting) {
        self.source = None;
        let noting = uses::enter(self.transaction.uses());
        self.environment.interrupt.begin_request();
        self.begin_statement();
        (interrupt::enter(Some(self.environment.interrupt.clone())), noting)
    }

    /// Prepares for a statement: the time, the timeout.
    pub(super) fn begin_statement(&mut self) {
        self.note_promotion();
        let environment = &mut self.environment;
        environment.pending.begin_statement();
        environment.deferred.begin_statement();
        environment.statement_start = now();
        let timeout = environment.settings.derived.statement_timeout.map(Duration::from_millis);
        let waited = self.unit_started.map_or(Duration::ZERO, |started| started.elapsed());
        environment.interrupt.begin(timeout.map(|timeout| timeout.saturating_sub(waited)));
        environment.interrupt.set_ends_without_client(environment.settings.derived.ends_without_client);
        if self.transaction.is_idle() {
            environment.transaction_start = environment.statement_start;
            environment.transaction_number = None;
        }
        environment.forget_large_values();
        self.refresh_catalog();
    }

    /// Refreshes the session's catalog: the open transaction's private one, or the current shared one.
    pub(super) fn refresh_catalog(&mut self) {
        if self.transaction.has_catalog() {
            self.environment.catalog = self.current_catalog();
        } else if self.environment.catalog.version != self.shared.catalog_version() {
            self.environment.catalog = self.shared.catalog();
        }
    }

    /// A statement has succeeded: without a block, so has its transaction.
    pub(super) fn statement_done(&mut self) {
        if self.transaction.is_idle() {
            self.environment.end_notifications(true);
            if self.environment.settings.has_changes() {
                self.environment.settings.end_transaction(true);
            }
        }
    }

    /// A statement has failed: so has the transaction that it was in.
    pub(super) fn failed(&mut self, error: SqlError) -> SqlError {
        self.shared.sessions.count_error(error.state());
        let error = self.hide_unreadable(error);
        self.environment.set_values.clear();
        self.fail_transaction();
        let error = self.explain_timeout(error);
        // A retry plans the statement again.
        let is_dropped = matches!(error.engine(), Some(Error::TableDropped { .. }));
        if error.is_of_stale_plan() && !is_dropped { Error::Conflict.into() } else { error }
    }

    /// A lock's wait that took too long ends with the error of the setting that was exceeded.
    fn explain_timeout(&self, error: SqlError) -> SqlError {
        if !matches!(error.engine(), Some(Error::TimedOut { what: Timeout::Wait })) {
            return error;
        }
        if self.environment.interrupt.is_late() {
            SqlError::statement_timeout()
        } else {
            SqlError::lock_timeout()
        }
    }

    /// The transaction status between statements.
    pub fn status(&self) -> TransactionStatus {
        self.transaction.status()
    }

    /// Removes and returns the notices for the client since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        self.environment.notices.take()
    }

    /// The notices that the client has not received, for the server, which sends them.
    pub fn notices(&self) -> Arc<Notices> {
        self.environment.notices.clone()
    }

    /// Settings that have changed since the last call, of those that are reported to clients; the first call
    /// returns all of these.
    pub fn take_changed_parameters(&mut self) -> Vec<(String, String)> {
        self.note_promotion();
        let changed = self.environment.settings.take_changed();
        if let Some((_, application)) = changed.iter().find(|(name, _)| name == "application_name") {
            self.activity.set_application(application);
        }
        changed
    }

    /// Sets a parameter when the connection starts: RESET returns to it.
    ///
    /// # Errors
    /// 42704 for an unknown one, 22023 for a wrong value, 55P02 for one that clients cannot set.
    pub fn set_parameter(&mut self, name: &str, value: &str) -> Result<()> {
        if name.eq_ignore_ascii_case("role") {
            return self.environment.set_setting(name, Some(value), false, false);
        }
        check_changeable(name, self.environment.is_superuser())?;
        self.environment.settings.set_default(name, value)
    }

    /// Sets a parameter as [`set_parameter`](Self::set_parameter) does, unless the role or the database has a value of its own (ALTER ROLE … SET);
    /// also one that clients cannot set.
    ///
    /// # Errors
    /// 42704 for an unknown one, 22023 for a wrong value.
    pub fn set_server_default(&mut self, name: &str, value: &str) -> Result<()> {
        let environment = &mut self.environment;
        let (role, database) = (environment.catalog.role(&environment.user), &environment.catalog.database);
        let of_role = role.iter().flat_map(|role| &role.settings);
        let mut kept = of_role.chain(&database.settings).chain(&database.settings_of_all);
        if kept.any(|(known, _)| known == name) {
            return Ok(());
        }
        environment.settings.set_fixed(name, value)
    }

    /// The value of a setting.
    pub fn parameter(&self, name: &str) -> Option<String> {
        self.environment.settings.get(name).map(str::to_string)
    }

    /// The value of a setting that is a duration; `None` for zero, which means no limit.
    pub fn milliseconds(&self, name: &str) -> Option<u64> {
        self.environment.settings.milliseconds(name)
    }

    /// The number by which `pg_backend_pid()` knows the connection.
    pub fn set_process_id(&mut self, process_id: i32) {
        self.activity.set_process_id(process_id);
        self.environment.process_id = process_id;
    }

    /// Sets the encryption of the client's connection, which `pg_stat_ssl` shows.
    pub fn set_encryption(&mut self, encryption: Option<Encryption>) {
        self.activity.set_encryption(encryption);
    }

    /// Returns a handle that cancels this connection's statements from other threads.
    pub fn canceller(&self) -> Canceller {
        let session = self.transaction.session.number();
        Canceller {
            interrupt: self.environment.interrupt.clone(),
            engine: self.transaction.canceler(),
            session,
        }
    }

    /// A value as text, by this session's settings.
    ///
    /// # Errors
    /// XX000 for a value that is not of the type.
    pub fn encode_text(&self, ty: Type, value: &Value) -> Result<String> {
        to_text(&self.environment, ty, value)
    }

    /// A value from text, by this session's settings.
    ///
    /// # Errors
    /// Class 22 for a text that is not such a value.
    pub fn decode_text(&mut self, ty: Type, text: &str) -> Result<Value> {
        from_text(&self.environment, ty, Modifier::NONE, text)
    }

    /// Reads a value of this type from its binary form.
    ///
    /// # Errors
    /// The bytes are not a value of the type.
    pub fn decode_binary(&self, ty: Type, bytes: &[u8]) -> Result<Value> {
        from_binary(&self.environment, ty, bytes)
    }

    /// The rows of a result as texts; NULL is `None`.
    ///
    /// # Errors
    /// Same errors as [`encode_text`](Self::encode_text).
    pub fn text_rows(&self, result: &StatementResult) -> Result<Vec<Vec<Option<String>>>> {
        let fields = result.fields.clone().unwrap_or_else(|| Arc::from([]));
        let text = |(value, field): (&Value, &super::Field)| -> Result<Option<String>> {
            if value.is_null() { Ok(None) } else { self.encode_text(field.ty, value).map(Some) }
        };
        result.rows.iter().map(|row| row.iter().zip(fields.iter()).map(text).collect()).collect()
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn environment(&self) -> &SessionEnvironment {
        &self.environment
    }

    pub(crate) fn environment_mut(&mut self) -> &mut SessionEnvironment {
        &mut self.environment
    }

    /// The engine's session.
    pub(crate) fn session_mut(&mut self) -> &mut heddledb::Session {
        &mut self.transaction.session
    }

    /// Ends the statement if it was canceled or takes too long.
    pub(super) fn environment_check(&mut self) -> Result<()> {
        crate::types::Environment::check_interrupt(&mut self.environment)
    }

    /// Runs one statement, whichever it is.
    fn run_statement(
        &mut self,
        statement: &ParsedStatement,
        text: &str,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        if !statement.statement.ends_block() {
            self.check_not_failed()?;
        }
        if statement.parameters > 0 && !matches!(statement.statement, Statement::Prepare { .. }) {
            let message = "there is no parameter $1";
            return Err(SqlError::new(SqlState::UNDEFINED_PARAMETER, message));
        }
        self.statement(&statement.statement, text, sink)
    }
}

/// The error with its position counted from the beginning of the whole text.
fn shifted(error: SqlError, text: &str, statement: &ParsedStatement) -> SqlError {
    match error.position() {
        Some(position) => {
            let before = text[..statement.start].chars().count() as u32;
            error.without_position().at(position + before)
        }
        None => error,
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // What a rollback or a drop cannot do now is done when the database is opened again: so this waits for no other
        // transaction long.
        let _ = self.environment.settings.set("lock_timeout", Some("1s"), false, false);
        let _ = self.rollback(false);
        let _ = self.drop_temporary();
        self.shared.advisory.release_all(self.environment.number, false);
        self.shared.sessions.leave(self.environment.number);
    }
}
