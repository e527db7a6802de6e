//! What a connection has beside its socket: the SQL session, the formats of its portals, and the answers that wait to be
//! written.

use heddle_sql::{Connection, SqlError, SqlState, TransactionStatus};

use super::extended::Portals;
use super::report;
use crate::wire::ProtocolError;
use crate::wire::encode::{Output, Status};

pub(super) struct Backend {
    pub(super) output: Output,
    pub(super) connection: Connection,
    pub(super) portals: Portals,
    /// An error of the extended protocol makes messages be ignored until the next Sync.
    pub(super) is_skipping: bool,
}

impl Backend {
    pub(super) fn new(connection: Connection) -> Backend {
        Backend { output: Output::default(), connection, portals: Portals::default(), is_skipping: false }
    }

    /// Tells the client of an error of the extended protocol, and ignores what follows until it asks for a Sync.
    pub(super) fn refuse(&mut self, error: &SqlError) {
        self.connection.abort_pipeline();
        self.pass_notices();
        report::error(&mut self.output, "ERROR", error);
        self.is_skipping = true;
    }

    /// The function call message is its own request, which needs no Sync.
    pub(super) fn refuse_function_call(&mut self) {
        let refusal = SqlError::unsupported("the function call message is not supported")
            .with_hint("use SELECT instead");
        self.refuse(&refusal);
        self.ready();
        self.is_skipping = false;
    }

    /// Ends an answer: changed parameters, and the transaction's status.
    pub(super) fn ready(&mut self) {
        self.pass_notifications();
        self.connection.rest();
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

    pub(super) fn pass_notifications(&mut self) {
        for notification in self.connection.take_notifications() {
            let process = notification.process_id as u32;
            self.output.notification(process, &notification.channel, &notification.payload);
        }
    }

    pub(super) fn pass_notices(&mut self) {
        for notice in self.connection.take_notices() {
            report::notice(&mut self.output, &notice);
        }
    }
}

pub(super) fn protocol_error(error: ProtocolError) -> SqlError {
    SqlError::new(SqlState::PROTOCOL_VIOLATION, error.message)
}
