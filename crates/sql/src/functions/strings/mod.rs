//! Functions and operators of texts and byte strings.
//!
//! ```text
//! basic      length, case, parts, padding, trimming      bytes     the same of byte strings, encodings, digests
//! search     LIKE and its kin                            pattern   POSIX regular expressions and SIMILAR TO
//! regexp     functions over regular expressions          compose   concat, format, quoting, arrays of texts
//! ```
//!
//! Invariants: positions and lengths count characters, not bytes; texts compare by bytes; case follows Unicode.

mod basic;
mod bytes;
mod compose;
mod pattern;
mod regexp;
mod search;

use super::definition::Definition;

/// The tables of functions.
pub(super) const FUNCTIONS: &[&[Definition]] =
    &[basic::FUNCTIONS, bytes::FUNCTIONS, compose::FUNCTIONS, regexp::FUNCTIONS, search::FUNCTIONS];
/// The tables of operators.
pub(super) const OPERATORS: &[&[Definition]] =
    &[basic::OPERATORS, bytes::OPERATORS, compose::OPERATORS, regexp::OPERATORS, search::OPERATORS];
