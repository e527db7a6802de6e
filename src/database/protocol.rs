//! The protocol of a database that is open.

use super::Database;
use crate::error::{Error, Result, StandbyError};
use crate::pipeline::nesting;
use crate::protocol::ProtocolKind;

impl Database {
    /// The protocol that isolates transactions now.
    pub fn protocol(&self) -> ProtocolKind {
        self.engine().protocol_kind()
    }

    /// The protocol with which the database was opened.
    pub fn opened_protocol(&self) -> ProtocolKind {
        self.shared.protocol_change().opened_with()
    }

    /// Returns true if that protocol was given ([`Options::protocol`](crate::Options::protocol)), so that no saved setting takes its place.
    pub fn was_given_protocol(&self) -> bool {
        self.shared.given().protocol
    }

    /// Has another protocol isolate transactions from now on, with the options that it was given when the database was opened.
    ///
    /// Transactions that are running are retried under the new protocol, and no result is lost or repeated. Sessions, snapshots
    /// and feeds go on. A transaction that an earlier change has had retried ends first. There are as many workers as before.
    ///
    /// ```
    /// # use heddledb::{Database, ProtocolKind};
    /// let db = Database::in_memory()?;
    /// db.set_protocol(ProtocolKind::Serial)?;
    /// assert_eq!(db.protocol(), ProtocolKind::Serial);
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) to or from `Partitioned`, under which threads own the rows;
    /// [`StandbyError::OnlyRead`] on a standby, which one thread writes;
    /// [`Error::Nested`](crate::Error::Nested) inside a transaction; [`Error::Closed`](crate::Error::Closed);
    /// [`Error::ThreadRefused`](crate::Error::ThreadRefused), and the protocol is in force without split phases.
    pub fn set_protocol(&self, protocol: ProtocolKind) -> Result<()> {
        nesting::check("a change of the protocol")?;
        self.shared.check_open()?;
        if self.is_standby() {
            return Err(Error::Standby(StandbyError::OnlyRead));
        }
        self.shared.protocol_change().to(protocol)
    }
}
