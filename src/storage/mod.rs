//! Records, rows, tables and indexes, and the one commit contract that every protocol keeps.
//!
//! A row is in a record, at an address that never changes, and indexes lead from keys to records. A transaction reads
//! records directly, but keeps its writes in a write set until it commits; then they are locked, computed, validated,
//! stamped, logged and installed in that order, whichever protocol isolates it. So a protocol decides how records are
//! read, what is locked and what is validated, and nothing else.
//!
//! - Data: `store`, `table`, `record`, `word`, `row`, `slab` (memory of records), `index`, `routing`; `catalog`,
//!   `definition`, `schema`, `private_schema`.
//! - One transaction: `workspace`, `read_set`, `write_set`, `session_buffer`, `worker_context`, `epoch`, `commit`,
//!   `redo`.
//! - Split columns: `split_columns`, `slice`, `reconcile`.
//! - Integrity: `checks`, `foreign_keys`, `identity`, `dependency`.
//! - Beside transactions: `versions` (snapshots), `fuzzy_scan` (checkpoints), `restore` (recovery), `index_build`,
//!   `reclaim`, `garbage`, `retired_tables`, `budget`, `row_changes`.

pub(crate) mod budget;
pub(crate) mod catalog;
pub(crate) mod checks;
pub(crate) mod commit;
pub(crate) mod definition;
pub(crate) mod dependency;
pub(crate) mod epoch;
pub(crate) mod foreign_keys;
pub(crate) mod fuzzy_scan;
pub(crate) mod garbage;
pub(crate) mod identity;
pub(crate) mod index;
pub(crate) mod index_build;
pub(crate) mod private_schema;
pub(crate) mod read_set;
pub(crate) mod reclaim;
pub(crate) mod reconcile;
pub(crate) mod record;
pub(crate) mod redo;
pub(crate) mod restore;
pub(crate) mod retired_tables;
#[cfg(test)]
pub(crate) mod rig;
mod routing;
pub(crate) mod row;
pub(crate) mod row_changes;
pub(crate) mod schema;
pub(crate) mod session_buffer;
pub(crate) mod slab;
pub(crate) mod slice;
pub(crate) mod split_columns;
pub(crate) mod split_policy;
pub(crate) mod store;
pub(crate) mod table;
pub(crate) mod versions;
pub(crate) mod word;
pub(crate) mod worker_context;
pub(crate) mod workspace;
pub(crate) mod write_set;
