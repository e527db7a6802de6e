//! Rewriting of bound trees before they are planned.

pub(crate) mod substitute;
