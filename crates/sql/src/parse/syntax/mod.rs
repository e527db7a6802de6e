//! The syntax tree: a statement's structure, before any name is looked up.
//!
//! Invariants: positions are byte offsets into the statement's text; identifiers are already folded to lower case
//! unless they were quoted; nodes that are kept in the catalog as text (defaults, checks, view queries) have their
//! text.

mod ddl;
mod dml;
mod expression;
mod query;
mod routine;
mod security;
mod statement;

pub(crate) use ddl::*;
pub(crate) use dml::*;
pub(crate) use expression::*;
pub(crate) use query::*;
pub(crate) use routine::*;
pub(crate) use security::*;
pub(crate) use statement::*;
