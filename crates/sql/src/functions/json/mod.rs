//! Functions and operators of `json` and `jsonb`.
//!
//! ```text
//! convert   values as JSON                 raw     parts of `json` texts, as they were written
//! access    members, elements, paths       build   documents of values, changed documents
//! sets      documents as rows             records  objects as rows of declared columns
//! assign    documents with a part replaced    path_query    evaluation of jsonpath
//! ```

mod assign;
mod build;
pub(super) mod convert;
mod path_query;
mod paths;
mod raw;
mod records;
mod sets;

use super::definition::Definition;

pub(crate) use assign::with_path;

/// The tables of functions.
pub(super) const FUNCTIONS: &[&[Definition]] = &[
    paths::FUNCTIONS,
    build::FUNCTIONS,
    sets::FUNCTIONS,
    records::FUNCTIONS,
    assign::FUNCTIONS,
    path_query::FUNCTIONS,
];
/// The tables of operators.
pub(super) const OPERATORS: &[&[Definition]] = &[paths::OPERATORS, build::OPERATORS, path_query::OPERATORS];
