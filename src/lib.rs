//! HeddleDB: an in-memory, durable, serializable database engine for multicore machines, which stays fast when
//! every transaction touches the same rows.
//!
//! ```no_run
//! use heddledb::{DataType, Database, Options, TableDefinition, key, row};
//!
//! # fn main() -> heddledb::Result<()> {
//! let db = Database::open("bank", Options::default())?; // a directory: created, or recovered
//! let accounts = db.open_table(
//!     TableDefinition::new("account")
//!         .column("id", DataType::Int64)
//!         .column("balance", DataType::Int64)
//!         .not_null()
//!         .primary_key(["id"]),
//! )?;
//! db.run(|tx| {
//!     if !tx.exists(&accounts, key![7])? {
//!         tx.insert(&accounts, row![7, 100])?;
//!         tx.insert(&accounts, row![9, 0])?;
//!     }
//!     Ok(())
//! })?;
//! db.run(|tx| {
//!     tx.add(&accounts, key![7], "balance", -10)?;
//!     tx.add(&accounts, key![9], "balance", 10)
//! })?; // durable when it returns
//! # Ok(())
//! # }
//! ```
//!
//! Every transaction is serializable, and durable before its result is returned. The concurrency control is
//! the engine's to choose (`auto`, the default): transactions run concurrently, and what they have read is
//! validated; columns that many transactions change at once are split over the threads while that pays, and
//! transactions that read and then write a hot row queue for it ([`Database::choices`] says what was chosen).
//! Fixed protocols ([`Options::protocol`], [`ProtocolKind`]) are for experiments: `optimistic` splits nothing;
//! `phased` splits what is labelled ([`Database::split`]) or contended; `serial` runs updates one after another; `locking` locks what they touch; `partitioned` gives each row to
//! one thread, which runs all that touches it. Transactions are written once, and run under each protocol. A
//! body may be executed several times; only its last execution counts.
//!
//! The folders, in the order in which they may name each other: the public face (the files beside this one) →
//! `pipeline` (stages, queues, threads) → `schedule` (the choice of a call's queue), `protocol` (the
//! isolation of calls), `durability` (log, recovery) → `lock` (the lock manager), `storage` (records, rows,
//! tables, indexes, the commit section), `operation` (add, max, …), `expression` (the language of checks) →
//! `types` (values and keys) → `base` (atomics, disk). `ARCHITECTURE.md` has the picture.

#![warn(missing_debug_implementations)]

mod base;
mod check;
mod composite;
mod database;
mod debug;
mod diagnostics;
mod durability;
pub mod error;
mod evaluator;
mod expression;
mod feed;
pub mod guide;
mod lock;
mod operation;
mod options;
mod pipeline;
mod procedure;
mod protocol;
mod range;
mod row;
mod schedule;
mod sequence;
mod session;
mod snapshot;
mod storage;
mod table;
mod table_change;
#[doc(hidden)]
#[allow(missing_debug_implementations)]
pub mod testing;
mod transaction;
mod typed;
mod types;
mod worker;

// The conformance suite knows the crate by its public interface, under its public name.
#[cfg(test)]
extern crate self as heddledb;

pub use check::CheckReport;
pub use composite::{Composite, Parameters};
#[doc(hidden)]
pub use composite::{read_field, wrong_number};
#[doc(hidden)]
pub use database::Placing;
pub use database::{
    ArchiveSource, ArchiveStatus, Cancellation, Database, DirectoryRebuild, Fenced, HotRecord, Partition,
    PhaseReport, SessionLock, SplitOperation, SplitReport, TransactionBuilder, TransactionReport,
};
pub use diagnostics::access_trace::{AccessTrace, TracedAccess, TracedTable, TracedThread};
pub use diagnostics::time_samples::TimeSamples;
pub use durability::archive::{
    ArchivedGroup, CheckpointCopy, FileChunk, LogPiece, PieceExtent, SegmentPosition,
};
pub use durability::backup::FilesReport;
pub use durability::position::LogPosition;
pub use durability::recovery::Recovery;
pub use durability::watch::{RecoveryProgress, RecoveryStep};
pub use error::{ApplicationError, Error, Result, StandbyError, Timeout};
pub use evaluator::{RowEvaluator, RowWrite};
pub use feed::{Change, ChangeBatch, ChangedColumns, ColumnChange, Feed, FeedStatus};
#[cfg(feature = "derive")]
pub use heddledb_derive::{ColumnValue, Composite, Table};
pub use options::{
    CheckpointOptions, DiagnosticOptions, Durability, LockingOptions, LogOptions, MemoryOptions, Options,
    PartitionedOptions, PhasedOptions, PredictOptions, ProtocolOptions, QueueOptions, ScheduleOptions,
    SerialOptions, Stages, ThreadOptions,
};
pub use pipeline::call::{Output, Submitted};
pub use pipeline::checkpoint::{CheckpointReport, CheckpointStatus};
pub use pipeline::choice_log::Choice;
pub use pipeline::follower::{FollowerReport, FollowerStatus};
pub use pipeline::partition::plan::Plan;
pub use pipeline::retry::Retry;
pub use pipeline::standby::{ReplayedDefinitions, StandbyStatus};
pub use pipeline::statistics::Statistics;
pub use procedure::{
    Action, ActionContext, ActionWith, EachAction, KeyBuilder, LongValues, Predicate, Procedure,
    ProcedureDefinition, Values,
};
pub use protocol::{LockConflict, ProtocolKind, SerialVariant};
pub use range::Range;
pub use row::{OwnedRow, Row};
pub use schedule::{
    ConflictCounts, Deciding, Naming, Policy, ScheduleKind, ScheduleReport, Slicing, StatePrune,
};
pub use sequence::{Sequence, SequenceDefinition};
pub use session::{Canceler, ExportedSnapshot, PendingCommit, Session, SessionSavepoint, SessionState};
pub use snapshot::{Snapshot, SnapshotScan};
pub use storage::definition::{
    CheckDefinition, ColumnDefinition, ForeignKey, Identity, IndexDefinition, PrimaryIndex,
    ReferentialAction, TableDefinition,
};
pub use storage::dependency::{DefinitionChange, Dependency};
pub use storage::split_policy::SplitPolicy;
pub use storage::table::TableMemory;
pub use table::{Column, ColumnName, Table};
pub use table_change::TableChange;
pub use transaction::{Moment, Savepoint, Scan, Tx, fail};
pub use typed::{
    ColumnType, ColumnValue, IntoRow, RowShape, StoredType, TableHandle, TableOf, TableRow,
    read_column_value, wrong_column_value,
};
pub use types::{
    Args, AsValue, DataType, Date, Decimal, IntoKey, OrderedTuple, Timestamp, TopK, TupleType, Uuid, Value,
    ValueRef,
};
pub use worker::{Executed, Worker};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
