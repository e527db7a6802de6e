//! The messages about objects that a statement makes without naming them: indexes of constraints, sequences of columns.
//!
//! PostgreSQL sends them with `client_min_messages` at `debug1`; clients' test suites ask for a notice that way.

use crate::error::SqlState;
use crate::session::{Connection, Severity};

impl Connection {
    /// Sends the message that a constraint has its index. `statement`: the statement, and its part that makes the
    /// constraint.
    pub(super) fn note_implicit_index(&mut self, statement: &str, index: &str, table: &str) {
        let message = format!("{statement} will create implicit index \"{index}\" for table \"{table}\"");
        self.environment_mut().add_notice(Severity::Debug, SqlState::SUCCESSFUL_COMPLETION, message);
    }

    /// Sends the message that a serial or identity column has its sequence.
    pub(super) fn note_implicit_sequence(
        &mut self,
        sequence: &str,
        (table, column): (&str, &str),
        is_new: bool,
    ) {
        let statement = if is_new { "CREATE TABLE" } else { "ALTER TABLE" };
        let message = format!(
            "{statement} will create implicit sequence \"{sequence}\" for serial column \"{table}.{column}\""
        );
        self.environment_mut().add_notice(Severity::Debug, SqlState::SUCCESSFUL_COMPLETION, message);
    }
}
