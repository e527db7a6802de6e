//! HeddleDB: an in-memory, durable, serializable database engine for multicore machines.

mod base;
mod durability;
pub mod error;
mod operation;
mod storage;
#[doc(hidden)]
pub mod testing;
mod types;

pub use error::{Error, Result};
