//! Rewriting of bound trees before they are planned.

mod fold;
mod statement;
pub(crate) mod substitute;

pub(crate) use statement::fold_statement;
