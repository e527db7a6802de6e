//! HeddleDB: an in-memory, durable, serializable database engine for multicore machines.

mod base;
mod durability;
pub mod error;
mod operation;
mod protocol;
mod storage;
#[doc(hidden)]
pub mod testing;
mod types;

pub use error::{Error, Result};
pub use protocol::{ProtocolKind, SerialVariant};
pub use storage::definition::{ColumnDefinition, IndexDefinition, PrimaryIndex, TableDefinition};
pub use types::{
    Args, DataType, Date, Decimal, OrderedTuple, Timestamp, TopK, TupleType, Uuid, Value, ValueRef,
};
