//! HeddleDB: an in-memory, durable, serializable database engine for multicore machines.

mod base;
mod check;
mod database;
mod durability;
pub mod error;
mod operation;
mod options;
mod pipeline;
mod procedure;
mod protocol;
mod range;
mod row;
mod storage;
mod table;
#[doc(hidden)]
pub mod testing;
mod transaction;
mod types;
mod worker;

pub use check::CheckReport;
pub use database::Database;
pub use durability::recovery::Recovery;
pub use error::{Error, Result};
pub use options::{Durability, Options, Stages};
pub use pipeline::call::{Output, Submitted};
pub use pipeline::statistics::Statistics;
pub use procedure::{Action, ActionContext, KeyBuilder, Procedure, ProcedureDefinition, Values};
pub use protocol::{ProtocolKind, SerialVariant};
pub use range::Range;
pub use row::Row;
pub use storage::definition::{ColumnDefinition, IndexDefinition, PrimaryIndex, TableDefinition};
pub use table::{Column, ColumnName, Table};
pub use transaction::{Savepoint, Scan, Tx, fail};
pub use types::{
    Args, DataType, Date, Decimal, OrderedTuple, Timestamp, TopK, TupleType, Uuid, Value, ValueRef,
};
pub use worker::{Executed, Worker};
