//! Rewriting of bound trees before they are planned.

mod fold;
mod implication;
mod statement;
pub(crate) mod substitute;

pub(crate) use implication::implies;
pub(crate) use statement::{Constants, fold_statement, fold_with};
