//! The syntax tree: what a statement says, before any name is looked up.
//!
//! Invariants: positions are byte offsets into the statement's text; identifiers are already folded to lower case unless
//! they were quoted; what is kept in the catalog as text (defaults, checks, view queries) carries its text.

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
