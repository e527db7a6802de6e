//! Rewriting of bound trees before they are planned: constant folding, implication, and substitution of columns.
//!
//! A bound tree says all that a rewrite needs to know: types are exact, and names are resolved. A rewritten tree gives the
//! same rows as the original, so that the planner sees simpler conditions without any loss.

mod fold;
mod implication;
mod statement;
pub(crate) mod substitute;

pub(crate) use implication::implies;
pub(crate) use statement::{Constants, fold_statement, fold_with};
