//! Records, rows, tables and indexes, and the one commit contract that every protocol keeps.

pub(crate) mod index;
pub(crate) mod record;
