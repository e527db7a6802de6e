//! The SQLSTATE of each error.
//!
//! Invariant: a mistake in a call has one of class 42, a state that does not allow it one of class 55, a constraint one of
//! class 23; XX000 is the engine's own fault.

use super::{Error, Timeout};

impl Error {
    /// The five-character code (SQLSTATE) by which PostgreSQL's clients know this kind of error.
    pub fn sqlstate(&self) -> &'static str {
        match self {
            Error::WrongType { .. } | Error::WrongRead { .. } | Error::WrongOperation { .. } => "42804",
            Error::Overflow { .. } | Error::Inexact { .. } => "22003",
            Error::Unparsable { .. } | Error::InvalidValue { .. } => "22P02",
            Error::DivisionByZero { .. } => "22012",
            Error::CheckViolation { .. } => "23514",
            Error::NoReferencedRow { .. } | Error::StillReferenced { .. } => "23503",
            Error::TableReferenced { .. } => "2BP01",
            Error::RuleViolation { state, .. } => state,
            Error::NullValue { .. } => "23502",
            Error::DuplicateKey { .. } | Error::NotUnique { .. } => "23505",
            Error::TableChanged { .. } | Error::TableNewer { .. } | Error::NeedsEvaluator { .. } => "55000",
            Error::MissingKey { .. } => "02000",
            Error::UnknownTable { .. } | Error::ForeignTable { .. } => "42P01",
            Error::UnknownSequence { .. } | Error::TableDropped { .. } => "42P01",
            Error::TableExists { .. } | Error::TableDiffers { .. } | Error::SequenceExists { .. } => "42P07",
            Error::UnknownColumn { .. } => "42703",
            Error::UnknownIndex { .. } | Error::UnknownConstraint { .. } => "42704",
            Error::Conflict => "40001",
            Error::GeneratedAlways { .. } => "428C9",
            Error::InvalidSequence { .. } | Error::FeedNotReached { .. } => "22023",
            Error::SequenceExhausted { .. } => "2200H",
            Error::Deadlock => "40P01",
            Error::TimedOut { what: Timeout::Wait } => "55P03",
            Error::TimedOut { what: Timeout::Transaction } => "25P04",
            Error::TimedOut { what: Timeout::Idle } => "25P03",
            Error::Canceled => "57014",
            Error::NoTransaction => "25P01",
            Error::TransactionOpen | Error::Nested { .. } => "25001",
            Error::UnknownSavepoint => "3B001",
            Error::RowTooLarge { .. } => "54000",
            Error::Busy { .. } | Error::NoFreeSlot { .. } => "53300",
            Error::ThreadRefused { .. } | Error::TooManyFiles { .. } => "53000",
            Error::MemoryFull { .. } | Error::OutOfMemory { .. } | Error::TransactionTooLarge { .. } => {
                "53200"
            }
            Error::SnapshotTooOld { .. } | Error::FeedTooOld { .. } => "72000",
            Error::FeedExists { .. } => "42710",
            Error::NoLogSpace { .. } | Error::LogFull { .. } | Error::StorageFull { .. } => "53100",
            Error::LogFailed { .. } | Error::LogNotExtended { .. } | Error::Io { .. } => "58030",
            Error::NotWritable { .. } | Error::NotReadable { .. } => "42501",
            Error::MissingFile { .. } => "58P01",
            Error::ReadOnly => "25006",
            Error::Standby(error) => error.sqlstate(),
            Error::Failed { .. } | Error::Application { .. } => "P0001",
            Error::Closed => "57P01",
            Error::Malformed { .. } | Error::Inconsistent { .. } | Error::Damaged { .. } => "XX001",
            Error::InvalidType { .. } | Error::UnknownFeed { .. } => "42704",
            Error::InvalidDefinition { .. } => "42P16",
            Error::InvalidProcedure { .. } => "42P13",
            Error::ProcedureExists { .. } => "42723",
            Error::WrongKey { .. } | Error::WrongRow { .. } => "42601",
            Error::WrongArguments { .. } => "42883",
            Error::OutsideFootprint { .. } => "2F003",
            Error::NoOrderedIndex { .. } | Error::ValueNotSet { .. } => "55000",
            Error::Panicked { .. } => "38000",
            Error::InvalidOption { .. } => "22023",
            Error::InUse { .. } => "55006",
            Error::NotADatabase { .. } => "3D000",
            Error::NotEmpty { .. } => "58P02",
            Error::NewerFormat { .. } => "0A000",
            Error::ForeignFile { .. } | Error::ForeignLog { .. } | Error::ForeignCheckpoints { .. } => {
                "55000"
            }
            Error::DatabaseLost { .. } => "08006",
            Error::FollowerFailed { .. } => "58000",
            Error::Broken { .. } => "XX000",
        }
    }
}
