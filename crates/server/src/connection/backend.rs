//! The state of a connection beside its socket: the SQL session, the formats of its portals, and the answers
//! that wait to be written.
//!
//! # Concurrency
//! The connection's thread alone appends answers. Their mutex is there because it does so from two places: this one, and the
//! notices of a statement that is running. It is never held while a statement runs.

use std::sync::Arc;

use heddle_sql::{Connection, SqlError, SqlState, TransactionStatus};
use parking_lot::{Mutex, MutexGuard};

use super::extended::Portals;
use super::report;
use crate::wire::ProtocolError;
use crate::wire::encode::{Output, Status};
use crate::wire::encoding::Encoding;

pub(super) struct Backend {
    pub(super) answers: Arc<Mutex<Output>>,
    pub(super) connection: Connection,
    pub(super) portals: Portals,
    /// An error of the extended protocol makes messages be ignored until the next Sync.
    pub(super) is_skipping: bool,
    /// The client's encoding, unless it is UTF-8.
    pub(super) encoding: Option<Encoding>,
}

impl Backend {
    pub(super) fn new(connection: Connection) -> Backend {
        Backend {
            answers: Arc::default(),
            connection,
            portals: Portals::default(),
            is_skipping: false,
            encoding: None,
        }
    }

    /// The answers that wait to be written.
    pub(super) fn output(&self) -> MutexGuard<'_, Output> {
        self.answers.lock()
    }

    /// Tells the client of an error of the extended protocol, and ignores what follows until it asks for a Sync.
    pub(super) fn refuse(&mut self, error: &SqlError) {
        self.connection.abort_pipeline();
        self.pass_notices();
        report::error(&mut self.output(), "ERROR", error);
        self.is_skipping = true;
    }

    /// Acts as [`refuse`](Self::refuse), for a message that is a request of its own and needs no Sync.
    pub(super) fn refuse_request(&mut self, error: &SqlError) {
        self.refuse(error);
        self.ready();
        self.is_skipping = false;
    }

    /// The function call message is its own request, which needs no Sync.
    pub(super) fn refuse_function_call(&mut self) {
        let refusal = SqlError::unsupported("the function call message is not supported")
            .with_hint("use SELECT instead");
        self.refuse_request(&refusal);
    }

    /// Ends an answer: changed parameters, and the transaction's status.
    pub(super) fn ready(&mut self) {
        self.pass_notifications();
        self.connection.rest();
        self.report_parameters();
        let status = match self.connection.status() {
            TransactionStatus::Idle => Status::Idle,
            TransactionStatus::InTransaction => Status::InTransaction,
            TransactionStatus::Failed => Status::Failed,
        };
        self.output().ready(status);
    }

    /// Tells the client of parameters that have changed.
    pub(super) fn report_parameters(&mut self) {
        for (name, value) in self.connection.take_changed_parameters() {
            if name == "client_encoding" {
                self.encoding = Encoding::of(&value);
            }
            let mut output = self.output();
            output.encoding = self.encoding;
            output.parameter_status(&name, &value);
        }
    }

    pub(super) fn pass_notifications(&mut self) {
        for notification in self.connection.take_notifications() {
            let process = notification.process_id as u32;
            self.output().notification(process, &notification.channel, &notification.payload);
        }
    }

    pub(super) fn pass_notices(&mut self) {
        for notice in self.connection.take_notices() {
            report::notice(&mut self.output(), &notice);
        }
    }
}

pub(super) fn protocol_error(error: ProtocolError) -> SqlError {
    SqlError::new(SqlState::new(error.state), error.message)
}
