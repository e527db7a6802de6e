//! The loop over a client's messages: how each of them changes the SQL session, and when the answers are
//! written.
//!
//! # Invariants
//! Answers that PostgreSQL would have sent are sent: the answers up to a ReadyForQuery, errors and notices
//! wait only while the client's next unit is there as a whole ([`Transport::has_unit`]), and no answers wait
//! once [`FLUSH_BYTES`] of them are there. Therefore many units at once are answered by few writes, and
//! results of any size need little memory. In the middle of a pipeline the thread waits without writing its
//! other answers, unless a Flush asks for it, as PostgreSQL does. After an error in the extended protocol all
//! messages up to the next Sync are ignored; a simple query and a function call end with a ReadyForQuery,
//! even if they fail.
//!
//! A pipeline is one transaction. An Execute waits for the message behind it, for at most [`SYNC_WAIT`]: if that is the Sync, the
//! statement is autocommitted, which needs no session transaction. After a serialization failure the pipeline's messages are read
//! again from its first Execute, as long as no answer to them has left.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use heddle_sql::{ConnectOptions, Signals, SqlError, SqlState, TransactionStatus};

use super::backend::{Backend, protocol_error};
use super::failure::Failure;
use super::report;
use super::results::Results;
use super::startup::User;
use crate::registry::{Cancels, Registered};
use crate::server::Shared;
use crate::settings::limit;
use crate::transport::{Buffered, ReadError, Transport};
use crate::wire::ProtocolError;
use crate::wire::decode::{Message, decode};
use crate::wire::encode::Status;
use crate::wire::encoding::Encoding;

/// Bytes of answers that are buffered before they are written, and that the buffer keeps.
pub(super) const FLUSH_BYTES: usize = 64 << 10;

/// Time for which an Execute waits for the Sync, which clients send with it.
const SYNC_WAIT: Duration = Duration::from_millis(20);

/// Executions of a pipeline before its client receives a serialization failure.
const MAX_PIPELINE_ATTEMPTS: u32 = 24;

/// A connection whose user is authenticated.
pub(super) struct Session<'c> {
    transport: &'c mut Transport,
    backend: Backend,
    registered: Registered,
    /// Messages of the extended protocol have come since the last Sync.
    is_in_pipeline: bool,
    attempts: u32,
    /// Bytes of answers at the pinned message.
    answered_before_pin: usize,
}

impl<'c> Session<'c> {
    /// Opens the SQL session, and reports its parameters to the client.
    ///
    /// # Errors
    /// A startup parameter is not a setting, or has no valid value.
    pub(super) fn begin(
        shared: &Arc<Shared>,
        transport: &'c mut Transport,
        user: &User<'_>,
    ) -> Result<Session<'c>, Failure> {
        let mut key = [0; 4];
        getrandom::fill(&mut key).map_err(|error| Failure::fatal("58000", error.to_string()))?;
        let options = ConnectOptions {
            user: user.start.user.clone(),
            is_superuser: user.is_superuser,
            database: user.start.database.clone(),
        };
        let mut connection = user.served.sql.connect(options).map_err(fatal)?;
        let given = settings_of_startup(&user.start.parameters).map_err(fatal)?;
        for (name, value) in &defaults(shared) {
            connection.set_server_default(name, value).map_err(fatal)?;
        }
        for (name, value) in &given {
            connection.set_parameter(name, value).map_err(fatal)?;
        }
        let (canceller, of_leaving) = (connection.canceller(), connection.canceller());
        let socket = transport.second_handle()?;
        let cancels = Cancels {
            request: Box::new(move || canceller.cancel()),
            leaving: Box::new(move || of_leaving.cancel_without_client()),
        };
        let registered = shared.registry.register(key, transport.waker(), socket, cancels);
        let (waker, peer) = (transport.waker(), Arc::downgrade(&registered.peer));
        connection.set_signals(Signals {
            wake: Box::new(move || waker.wake()),
            terminate: Box::new(move || peer.upgrade().iter().for_each(|peer| peer.end())),
        });
        connection.set_encryption(transport.encryption());
        connection.set_process_id(registered.peer.process as i32);
        let mut backend = Backend::new(connection);
        let (answers, writer) = (backend.answers.clone(), transport.writer());
        backend.connection.notices().set_outlet(move |notices| {
            let mut output = answers.lock();
            notices.iter().for_each(|notice| report::notice(&mut output, notice));
            // A client that is gone is found by the next write.
            let _ = writer.write(output.bytes());
            output.clear(FLUSH_BYTES);
        });
        backend.report_parameters();
        backend.output().backend_key_data(registered.peer.process, &registered.peer.key);
        backend.output().ready(Status::Idle);
        Ok(Session {
            transport,
            backend,
            registered,
            is_in_pipeline: false,
            attempts: 1,
            answered_before_pin: 0,
        })
    }

    /// Answers messages until the client leaves.
    ///
    /// # Errors
    /// What ends the connection.
    pub(super) fn run(mut self) -> Result<(), Failure> {
        loop {
            let goes_on = match self.next_message()? {
                Some(message) => self.answer(message)?,
                None => false,
            };
            if !goes_on {
                return self.flush();
            }
        }
    }

    /// Waits for the next message, once all answers are on their way. `None`: the client has closed the connection.
    fn next_message(&mut self) -> Result<Option<Buffered>, Failure> {
        if self.must_write() {
            self.flush()?;
        }
        let is_there = self.transport.has_message();
        self.wait(is_there, Transport::read_message)
    }

    /// Returns true if answers must be written now.
    fn must_write(&self) -> bool {
        let output = self.backend.output();
        let is_urgent = output.is_urgent() || !self.is_in_pipeline;
        output.len() >= FLUSH_BYTES || !output.is_empty() && is_urgent && !self.transport.has_unit()
    }

    /// Waits for the client by `read`, until it has been silent for too long or the server ends. `None`: the client
    /// has closed the connection. `is_there`: no waiting is needed.
    fn wait<T>(
        &mut self,
        is_there: bool,
        read: fn(&mut Transport, Option<Instant>) -> Result<T, ReadError>,
    ) -> Result<Option<T>, Failure> {
        let deadline = if is_there { None } else { self.idle_deadline() };
        loop {
            self.check_ending()?;
            match read(self.transport, deadline) {
                Ok(read) => return Ok(Some(read)),
                Err(ReadError::Closed) => return Ok(None),
                // Whether the connection is to end is checked above.
                Err(ReadError::Woken) => self.notify()?,
                Err(ReadError::TimedOut) => return Err(self.silent_too_long()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Ends an idle connection of a server that shuts down.
    fn check_ending(&self) -> Result<(), Failure> {
        // Acquire: partner of the store in `Peer::end`.
        let is_ending = self.registered.peer.is_ending.load(Ordering::Acquire);
        if is_ending { Err(Failure::shutdown()) } else { Ok(()) }
    }

    /// Sends the notifications that have come, unless answers are expected first: they go ahead of the next ready.
    fn notify(&mut self) -> Result<(), Failure> {
        if self.is_in_pipeline {
            return Ok(());
        }
        self.backend.pass_notifications();
        self.flush()
    }

    fn idle_timeout_setting(&self) -> &'static str {
        match self.backend.connection.status() {
            TransactionStatus::Idle => "idle_session_timeout",
            _ => "idle_in_transaction_session_timeout",
        }
    }

    /// Until when the client may be silent.
    fn idle_deadline(&self) -> Option<Instant> {
        let timeout = self.backend.connection.milliseconds(self.idle_timeout_setting()).and_then(limit);
        timeout.map(|timeout| Instant::now() + timeout)
    }

    fn silent_too_long(&self) -> Failure {
        let (code, what) = match self.backend.connection.status() {
            TransactionStatus::Idle => ("57P05", "idle-session timeout"),
            _ => ("25P03", "idle-in-transaction timeout"),
        };
        Failure::fatal(code, format!("terminating connection due to {what}"))
    }

    /// Answers one message; `false`: the connection is over.
    fn answer(&mut self, message: Buffered) -> Result<bool, Failure> {
        if self.backend.is_skipping && !b"SX".contains(&message.tag) {
            return Ok(true);
        }
        if message.tag == b'Q' {
            return self.query(message).map(|()| true);
        }
        // A COPY that has failed on this side: what the client had sent by then is ignored.
        if b"dcf".contains(&message.tag) {
            return Ok(true);
        }
        let encoding = self.backend.encoding;
        let body = match body_of(encoding, message.tag, self.transport.body(message)) {
            Ok(body) => body,
            Err(error) => return self.refuse_message(message.tag, error),
        };
        let decoded = match decode(message.tag, &body) {
            Ok(decoded) => decoded,
            Err(error) => return self.refuse_message(message.tag, error),
        };
        match decoded {
            Message::Terminate => return Ok(false),
            Message::Sync => self.sync()?,
            Message::Flush => self.flush()?,
            Message::Password(_) => {
                let message = format!("invalid frontend message type {}", message.tag);
                return Err(ProtocolError::new(message).into());
            }
            Message::FunctionCall => self.backend.refuse_function_call(),
            Message::Execute { portal, max_rows } => {
                let portal = portal.to_owned();
                return self.execute(message, &portal, max_rows);
            }
            extended => {
                self.is_in_pipeline = true;
                if let Err(error) = self.backend.prepare_or_describe(extended) {
                    self.backend.refuse(&error);
                }
            }
        }
        self.backend.pass_notices();
        Ok(true)
    }

    /// Refuses a message that is none of its type. One that is a request of its own, or a Sync, ends with a ReadyForQuery.
    fn refuse_message(&mut self, tag: u8, error: ProtocolError) -> Result<bool, Failure> {
        let error = protocol_error(error);
        if b"FS".contains(&tag) {
            self.is_in_pipeline = false;
            self.backend.refuse_request(&error);
        } else {
            self.backend.refuse(&error);
        }
        Ok(true)
    }

    fn query(&mut self, message: Buffered) -> Result<(), Failure> {
        self.is_in_pipeline = false;
        let lent = self.transport.lend(message);
        let body = body_of(self.backend.encoding, message.tag, lent.body());
        let text = body.as_deref().map_err(Clone::clone).and_then(|body| decode(message.tag, body));
        let done = match text {
            Ok(Message::Query(text)) => {
                let mut results = Results::new(self.transport, &self.backend, None);
                let done = self.backend.connection.simple_query(text, &mut results);
                results.into_failure()?;
                done
            }
            text => {
                self.backend.connection.abort_pipeline();
                let invalid = || ProtocolError::new("invalid query message");
                Err(protocol_error(text.err().unwrap_or_else(invalid)))
            }
        };
        self.transport.put_back(lent);
        self.backend.pass_notices();
        if let Err(error) = done {
            self.check_ending()?;
            report::error(&mut self.backend.output(), "ERROR", &error);
        }
        self.backend.ready();
        Ok(())
    }

    /// Executes a portal; `false`: the connection is over.
    fn execute(&mut self, message: Buffered, portal: &str, max_rows: u32) -> Result<bool, Failure> {
        self.is_in_pipeline = true;
        if self.backend.connection.is_idle() {
            self.transport.pin(message);
            self.answered_before_pin = self.backend.output().len();
            match self.next_tag()? {
                None => return Ok(false),
                Some(b'S') => (),
                Some(_) => self.backend.connection.begin_pipeline(),
            }
        }
        let formats = self.backend.portals.formats(portal);
        let mut results = Results::new(self.transport, &self.backend, Some(formats));
        let done = self.backend.connection.execute(portal, max_rows, &mut results);
        results.into_failure()?;
        if let Err(error) = done
            && !self.replays(&error)
        {
            self.check_ending()?;
            self.backend.refuse(&error);
        }
        self.backend.pass_notices();
        Ok(true)
    }

    /// The type of the message behind an Execute, zero if it does not come soon; `None`: the client has closed the connection.
    fn next_tag(&mut self) -> Result<Option<u8>, Failure> {
        let deadline = Instant::now() + SYNC_WAIT;
        loop {
            self.check_ending()?;
            match self.transport.peek_tag(Some(deadline)) {
                Ok(tag) => return Ok(Some(tag)),
                Err(ReadError::Closed) => return Ok(None),
                Err(ReadError::Woken) => (),
                Err(ReadError::TimedOut) => return Ok(Some(0)),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn sync(&mut self) -> Result<(), Failure> {
        self.is_in_pipeline = false;
        if let Err(error) = self.backend.connection.sync() {
            if self.replays(&error) {
                self.is_in_pipeline = true;
                return Ok(());
            }
            self.backend.refuse(&error);
        }
        self.backend.is_skipping = false;
        self.attempts = 1;
        self.transport.unpin();
        let Backend { portals, connection, .. } = &mut self.backend;
        portals.end_of_transaction(connection);
        self.backend.pass_notices();
        self.backend.ready();
        Ok(())
    }

    /// Rewinds the pipeline to its first Execute, and returns true, if none of its effects remains and none
    /// of its answers was sent.
    fn replays(&mut self, error: &SqlError) -> bool {
        let replays = error.is_retryable()
            && self.attempts < MAX_PIPELINE_ATTEMPTS
            && self.transport.is_pinned()
            && self.backend.connection.rewind_pipeline();
        if replays {
            self.attempts += 1;
            self.transport.rewind();
            self.backend.output().truncate(self.answered_before_pin);
            drop(self.backend.connection.take_notices());
        }
        replays
    }

    /// Writes all answers.
    fn flush(&mut self) -> Result<(), Failure> {
        let mut output = self.backend.answers.lock();
        if !output.is_empty() {
            self.transport.write(output.bytes())?;
            output.clear(FLUSH_BYTES);
        }
        Ok(())
    }
}

/// The body of a message with its texts in UTF-8.
///
/// # Errors
/// 22021.
fn body_of(encoding: Option<Encoding>, tag: u8, body: &[u8]) -> Result<Cow<'_, [u8]>, ProtocolError> {
    match encoding.filter(|_| !body.is_ascii()) {
        None => Ok(Cow::Borrowed(body)),
        Some(encoding) => encoding.rewrite(tag, body).map(Cow::Owned),
    }
}

/// The session settings whose defaults the server's settings give.
fn defaults(shared: &Shared) -> Vec<(String, String)> {
    let settings = &shared.current().settings;
    let timeouts = [
        ("statement_timeout", settings.statement_timeout_ms),
        ("lock_timeout", settings.lock_timeout_ms),
        ("idle_in_transaction_session_timeout", settings.idle_in_transaction_session_timeout_ms),
        ("idle_session_timeout", settings.idle_session_timeout_ms),
    ];
    let timeouts = timeouts.into_iter().filter(|(_, milliseconds)| *milliseconds > 0);
    let timeouts = timeouts.map(|(name, milliseconds)| (name.to_owned(), milliseconds.to_string()));
    let work_mem = ("work_mem".to_owned(), format!("{}B", settings.work_mem_bytes));
    let connections = ("max_connections".to_owned(), settings.max_connections.to_string());
    timeouts.chain([work_mem, connections]).collect()
}

/// The settings of a startup message; those in `options` are written as on PostgreSQL's command line.
fn settings_of_startup(parameters: &[(String, String)]) -> Result<Vec<(String, String)>, SqlError> {
    let mut settings = Vec::new();
    for (name, value) in parameters {
        if name != "options" {
            settings.push((name.clone(), value.clone()));
            continue;
        }
        let mut words = command_words(value).into_iter();
        while let Some(word) = words.next() {
            let setting = match (word.strip_prefix("-c"), word.strip_prefix("--")) {
                (Some(""), _) => words.next(),
                (Some(setting), _) | (None, Some(setting)) => Some(setting.to_owned()),
                (None, None) => None,
            };
            let setting = setting.as_deref().and_then(|setting| setting.split_once('='));
            let invalid = || {
                let message = format!("invalid command-line argument for server process: {word}");
                SqlError::new(SqlState::SYNTAX_ERROR, message).with_hint("Write options as -c name=value.")
            };
            let (name, value) = setting.ok_or_else(invalid)?;
            settings.push((name.trim().replace('-', "_"), value.to_owned()));
        }
    }
    Ok(settings)
}

/// Words between blanks; a backslash makes the character behind it part of a word.
fn command_words(text: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), String::new());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => word.extend(characters.next()),
            blank if blank.is_whitespace() => words.push(std::mem::take(&mut word)),
            other => word.push(other),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

fn fatal(error: SqlError) -> Failure {
    Failure::Sql(Box::new(error))
}
