//! HeddleDB: an in-memory, durable, serializable database engine for multicore machines.

mod base;
pub mod error;
mod operation;
mod storage;
mod types;

pub use error::{Error, Result};
pub use types::{
    Args, DataType, Date, Decimal, OrderedTuple, Timestamp, TopK, TupleType, Uuid, Value, ValueRef,
};
pub use storage::definition::{ColumnDefinition, IndexDefinition, PrimaryIndex, TableDefinition};
