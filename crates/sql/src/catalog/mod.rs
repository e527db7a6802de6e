//! The catalog as the binder sees it: schemas, tables, columns, indexes, views, sequences, enums, domains.
//!
//! Invariants: a [`Catalog`] never changes; a schema change makes a new one with a higher version, and statements that
//! were bound to an older one are bound again. Oids are never used twice.

mod relation;
pub(crate) mod stored;

pub(crate) use relation::{
    Check, Column, ColumnOrigin, ForeignKey, Index, IndexColumn, KeyAction, Persistence, Sequence, Table,
    View,
};
