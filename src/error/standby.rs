//! Errors of standbys, and of positions in the log.

/// The reason for which a call on a standby, or for one, was refused or failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StandbyError {
    /// The database is a standby, which replays another one's log.
    #[error(
        "the database is a standby, which is only read; write to the database that it replays, or promote it"
    )]
    OnlyRead,
    /// The log cannot be replayed any further.
    #[error(
        "the standby has stopped behind position {position}: {reason}; what it has can be read; open it again"
    )]
    Stopped {
        /// The position of the last group that was replayed.
        position: String,
        /// The first failure.
        reason: String,
    },
    /// The call is for a standby.
    #[error("the database is no standby; open it with Database::standby, on the log of another one")]
    NoStandby,
    /// The log has lost a position: a crash of its writer came before the position was durable.
    #[error("the log has no position {position} any more: it was lost in a crash before it was durable")]
    PositionLost {
        /// The position.
        position: String,
    },
    /// A position was not reached in time.
    #[error("position {position} was not reached in time; the last one that is there is {reached}")]
    PositionNotReached {
        /// The position.
        position: String,
        /// The last position that was reached.
        reached: String,
    },
}

impl StandbyError {
    /// See [`Error::sqlstate`](super::Error::sqlstate).
    pub(super) fn sqlstate(&self) -> &'static str {
        match self {
            StandbyError::OnlyRead => "25006",
            StandbyError::Stopped { .. } => "58000",
            StandbyError::NoStandby | StandbyError::PositionLost { .. } => "55000",
            StandbyError::PositionNotReached { .. } => "57014",
        }
    }
}
