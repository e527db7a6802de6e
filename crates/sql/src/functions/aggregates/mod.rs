//! Aggregates, as state machines: start, accumulate rows, merge with other states, finish.
//!
//! ```text
//! folds        states that are one value: min, max, sums of floats, bit and boolean aggregates, count
//! moments      sums, averages, variances of exact numbers and floats        regression   of pairs of floats
//! collections  arrays, strings, JSON                                        ordered      WITHIN GROUP
//! ```
//!
//! Source: PostgreSQL 15, `float.c` (Youngs and Cramer's updates) and `numeric.c` for the order of operations, so that
//! results agree to the last digit.

mod collections;
mod folds;
mod moments;
mod ordered;
mod regression;
#[cfg(test)]
mod tests;

use super::definition::Definition;

/// The tables.
pub(super) const TABLES: &[&[Definition]] = &[
    folds::AGGREGATES,
    moments::AGGREGATES,
    regression::AGGREGATES,
    collections::AGGREGATES,
    ordered::AGGREGATES,
];
