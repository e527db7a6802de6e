//! Functions and operators of texts and byte strings.
//!
//! ```text
//! basic      length, case, parts, padding, trimming      bytes     the same of byte strings, encodings, digests
//! search     LIKE and ILIKE                              pattern   POSIX regular expressions and SIMILAR TO
//! regexp     functions over regular expressions          compose   concat, format, quoting, arrays of texts
//! identifiers  parse_ident                           unicode   normalization forms
//! ```
//!
//! Invariants: positions and lengths count characters, not bytes; texts compare by bytes; case follows Unicode.

mod basic;
mod bytes;
mod compose;
mod identifiers;
mod pattern;
mod regexp;
mod search;
mod unicode;

use super::definition::Definition;

pub(super) use regexp::like_regex;

/// The tables of functions.
pub(super) const FUNCTIONS: &[&[Definition]] = &[
    basic::FUNCTIONS,
    bytes::FUNCTIONS,
    compose::FUNCTIONS,
    identifiers::FUNCTIONS,
    regexp::FUNCTIONS,
    search::FUNCTIONS,
    unicode::FUNCTIONS,
];
/// The tables of operators.
pub(super) const OPERATORS: &[&[Definition]] =
    &[basic::OPERATORS, bytes::OPERATORS, compose::OPERATORS, regexp::OPERATORS, search::OPERATORS];
