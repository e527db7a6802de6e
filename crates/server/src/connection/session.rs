//! The loop over a client's messages: what each of them does to the SQL session, and when the answers are written.
//!
//! # Invariants
//! Answers are written before the thread waits for the client, and as soon as [`FLUSH_BYTES`] of them are there; so
//! a pipeline of many messages is answered by few writes, and results of any size need little memory.
//! After an error in the extended protocol all messages up to the next Sync are ignored.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use heddle_sql::{ConnectOptions, Connection, SqlError, SqlState, TransactionStatus};

use super::extended::Portals;
use super::failure::Failure;
use super::report;
use super::results::Results;
use super::startup::User;
use crate::registry::Registered;
use crate::server::Shared;
use crate::settings::limit;
use crate::transport::{Buffered, ReadError, Transport};
use crate::wire::ProtocolError;
use crate::wire::decode::{Message, decode};
use crate::wire::encode::{Output, Status};

/// How many bytes of answers are gathered before they are written, and how many the buffer keeps.
pub(super) const FLUSH_BYTES: usize = 64 << 10;

/// A connection whose user is authenticated.
pub(super) struct Session<'c> {
    transport: &'c mut Transport,
    pub(super) output: Output,
    pub(super) connection: Connection,
    pub(super) portals: Portals,
    registered: Registered,
    /// An error of the extended protocol makes messages be ignored until the next Sync.
    is_skipping: bool,
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
        for (name, value) in defaults(shared).iter().chain(&user.start.parameters) {
            connection.set_parameter(name, value).map_err(fatal)?;
        }
        let canceller = connection.canceller();
        let socket = transport.second_handle()?;
        let cancel = Box::new(move || canceller.cancel());
        let registered = shared.registry.register(key, transport.waker(), socket, cancel);
        connection.set_process_id(registered.peer.process as i32);
        let mut output = Output::default();
        for (name, value) in connection.take_changed_parameters() {
            output.parameter_status(&name, &value);
        }
        output.backend_key_data(registered.peer.process, &registered.peer.key);
        output.ready(Status::Idle);
        let portals = Portals::default();
        Ok(Session { transport, output, connection, portals, registered, is_skipping: false })
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
        if !self.transport.has_message() || self.output.len() >= FLUSH_BYTES {
            self.flush()?;
        }
        let (deadline, timeout) = self.idle_deadline();
        loop {
            self.check_ending()?;
            match self.transport.read_message(deadline) {
                Ok(message) => return Ok(Some(message)),
                Err(ReadError::Closed) => return Ok(None),
                // Whether the server ends is checked above.
                Err(ReadError::Woken) => (),
                Err(ReadError::TimedOut) => return Err(timeout),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Ends an idle connection of a server that shuts down.
    fn check_ending(&self) -> Result<(), Failure> {
        // Acquire: partner of the store in `Registry::drain`.
        let is_ending = self.registered.peer.is_ending.load(Ordering::Acquire);
        if is_ending { Err(Failure::shutdown()) } else { Ok(()) }
    }

    /// Until when the client may be silent, and the error that it then receives.
    fn idle_deadline(&self) -> (Option<Instant>, Failure) {
        let in_transaction = self.connection.status() != TransactionStatus::Idle;
        let (name, code, what) = if in_transaction {
            ("idle_in_transaction_session_timeout", "25P03", "idle-in-transaction timeout")
        } else {
            ("idle_session_timeout", "57P05", "idle-session timeout")
        };
        let timeout = self.connection.milliseconds(name).and_then(limit);
        let failure = Failure::fatal(code, format!("terminating connection due to {what}"));
        (timeout.map(|timeout| Instant::now() + timeout), failure)
    }

    /// Answers one message; `false`: the client says goodbye.
    fn answer(&mut self, message: Buffered) -> Result<bool, Failure> {
        // The body is copied out: an answer may need the transport, for the data of a COPY.
        let body = self.transport.body(message).to_vec();
        let decoded = match decode(message.tag, &body) {
            Ok(decoded) => decoded,
            Err(error) => {
                self.refuse(&protocol_error(error));
                return Ok(true);
            }
        };
        if self.is_skipping && !matches!(decoded, Message::Sync | Message::Terminate) {
            return Ok(true);
        }
        match decoded {
            Message::Terminate => return Ok(false),
            Message::Query(text) => self.query(text)?,
            Message::Sync => self.sync()?,
            Message::Flush => self.flush()?,
            // A COPY that has failed on this side: what the client had sent by then is ignored.
            Message::CopyData(_) | Message::CopyDone | Message::CopyFail(_) => (),
            Message::Password(_) => {
                self.refuse(&protocol_error(ProtocolError::new("unexpected password message")))
            }
            Message::FunctionCall => {
                let refusal = SqlError::unsupported("the function call message is not supported")
                    .with_hint("use SELECT instead");
                self.refuse(&refusal);
                self.ready();
                self.is_skipping = false;
            }
            extended => {
                if let Err(error) = self.extended(extended)? {
                    self.refuse(&error);
                }
            }
        }
        self.pass_notices();
        Ok(true)
    }

    fn query(&mut self, text: &str) -> Result<(), Failure> {
        self.portals.remove_unnamed();
        let mut results = Results::new(self.transport, &mut self.output, None);
        let done = self.connection.simple_query(text, &mut results);
        let gone = results.into_failure();
        gone?;
        if let Err(error) = done {
            self.pass_notices();
            report::error(&mut self.output, "ERROR", &error);
        }
        self.pass_notices();
        self.ready();
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Failure> {
        self.is_skipping = false;
        if let Err(error) = self.connection.sync() {
            report::error(&mut self.output, "ERROR", &error);
        }
        self.portals.end_of_transaction(&self.connection);
        self.pass_notices();
        self.ready();
        Ok(())
    }

    /// Tells the client of an error of the extended protocol, and ignores what follows until it asks for a Sync.
    fn refuse(&mut self, error: &SqlError) {
        self.connection.abort_pipeline();
        report::error(&mut self.output, "ERROR", error);
        self.is_skipping = true;
    }

    /// Ends an answer: changed parameters, and the transaction's status.
    fn ready(&mut self) {
        for (name, value) in self.connection.take_changed_parameters() {
            self.output.parameter_status(&name, &value);
        }
        let status = match self.connection.status() {
            TransactionStatus::Idle => Status::Idle,
            TransactionStatus::InTransaction => Status::InTransaction,
            TransactionStatus::Failed => Status::Failed,
        };
        self.output.ready(status);
    }

    fn pass_notices(&mut self) {
        for notice in self.connection.take_notices() {
            report::notice(&mut self.output, &notice);
        }
    }

    /// Runs a message of the extended protocol.
    fn extended(&mut self, message: Message<'_>) -> Result<Result<(), SqlError>, Failure> {
        match message {
            Message::Execute { portal, max_rows } => {
                let Some(formats) = self.portals.formats(portal) else {
                    return Ok(Err(unknown_portal(portal)));
                };
                let mut results = Results::new(self.transport, &mut self.output, Some(formats));
                let done = self.connection.execute(portal, max_rows, &mut results);
                results.into_failure()?;
                Ok(done)
            }
            message => Ok(self.prepare_or_describe(message)),
        }
    }

    /// Writes all answers.
    fn flush(&mut self) -> Result<(), Failure> {
        if !self.output.is_empty() {
            self.transport.write(self.output.bytes())?;
            self.output.clear(FLUSH_BYTES);
        }
        Ok(())
    }
}

/// The session settings whose defaults the server's settings give.
fn defaults(shared: &Shared) -> Vec<(String, String)> {
    let settings = &shared.settings;
    [
        ("statement_timeout", settings.statement_timeout_ms),
        ("lock_timeout", settings.lock_timeout_ms),
        ("idle_in_transaction_session_timeout", settings.idle_in_transaction_session_timeout_ms),
        ("idle_session_timeout", settings.idle_session_timeout_ms),
    ]
    .into_iter()
    .filter(|(_, milliseconds)| *milliseconds > 0)
    .map(|(name, milliseconds)| (name.to_owned(), milliseconds.to_string()))
    .collect()
}

fn protocol_error(error: ProtocolError) -> SqlError {
    SqlError::new(SqlState::PROTOCOL_VIOLATION, error.message)
}

fn unknown_portal(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("portal \"{name}\" does not exist"))
}

fn fatal(error: SqlError) -> Failure {
    Failure::Sql(Box::new(error))
}
