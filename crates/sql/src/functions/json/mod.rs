//! Functions and operators of `json` and `jsonb`.
//!
//! ```text
//! convert   values as JSON                 raw     parts of `json` texts, as they were written
//! access    members, elements, paths       build   documents of values, changed documents
//! sets      documents as rows
//! ```

mod access;
mod build;
pub(super) mod convert;
mod raw;
mod sets;

use super::definition::Definition;

/// The tables of functions.
pub(super) const FUNCTIONS: &[&[Definition]] = &[access::FUNCTIONS, build::FUNCTIONS, sets::FUNCTIONS];
/// The tables of operators.
pub(super) const OPERATORS: &[&[Definition]] = &[access::OPERATORS, build::OPERATORS];
