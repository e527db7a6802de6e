//! Functions and operators of dates, times, timestamps and intervals.
//!
//! ```text
//! arithmetic   sums and differences         fields   extract, date_trunc
//! make         now, make_…, age, zones
//! ```

pub(super) mod arithmetic;
mod fields;
mod make;

use super::definition::Definition;

/// The tables of functions.
pub(super) const FUNCTIONS: &[&[Definition]] = &[fields::FUNCTIONS, make::FUNCTIONS];
