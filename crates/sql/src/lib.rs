//! PostgreSQL's SQL on HeddleDB: a statement's text becomes a transaction of the engine.
//!
//! The folders, in the order in which a statement passes through them:
//!
//! - `parse`: text to the syntax tree of this crate, with source positions.
//! - `catalog`: schemas, tables, columns, indexes, views, sequences, enums and domains as the binder sees them.
//! - `bind`: syntax tree to bound tree: names resolved, functions chosen, every expression typed.
//! - `rewrite`: constant folding, and implication of conditions.
//! - `plan`: access paths, join order, statistics.
//! - `compile`: OLTP statements compiled once into procedures of the engine.
//! - `run`: the evaluator of bound expressions, the operators, and the statements that write.
//! - `routine`: functions, procedures and triggers in SQL and PL/pgSQL.
//! - `ddl`: schema changes.
//! - `extension`: the extensions that CREATE EXTENSION installs.
//! - `session`: a connection: settings, transaction state, prepared statements, portals, cursors, COPY.
//!
//! Beneath them all: `error` (SQLSTATEs), `types` (types, values, formats, casts), `functions` (tables of operators and
//! functions), `storage` (the mapping of a SQL type to a column of the engine).

mod access;
mod bind;
mod catalog;
mod compile;
mod ddl;
pub mod describe;
pub mod error;
mod extension;
pub mod functions;
mod interrupt;
mod parse;
pub mod password;
mod plan;
mod rewrite;
mod routine;
mod run;
mod session;
mod stack;
mod storage;
pub mod types;

pub use error::{SqlError, SqlState};
pub use session::{
    Canceller, ConnectOptions, Connection, CopyFormat, CopySource, Encryption, Field, Fields, LatencyReport,
    LoginRole, Notice, Notices, Notification, PreparedStatement, ResultSink, SessionReport, Severity,
    Signals, SlowStatement, Sql, StatementResult, Statistic, StatisticKind, TransactionStatus,
    client_encodings,
};
pub use types::{Environment, Modifier, Type, Value};
