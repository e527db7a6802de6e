//! Records, rows, tables and indexes, and the one commit contract that every protocol keeps.

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
pub(crate) mod schema;
pub(crate) mod session_buffer;
pub(crate) mod slab;
pub(crate) mod slice;
pub(crate) mod split_columns;
pub(crate) mod store;
pub(crate) mod table;
pub(crate) mod versions;
pub(crate) mod word;
pub(crate) mod worker_context;
pub(crate) mod workspace;
pub(crate) mod write_set;
