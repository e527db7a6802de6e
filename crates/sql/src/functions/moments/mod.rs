//! Functions and operators of dates, times, timestamps and intervals.
//!
//! ```text
//! arithmetic   sums and differences         fields   extract, date_trunc
//! make         now, make_…, age, zones          template, format, source, read   to_char, to_date, to_timestamp
//! ```

pub(super) mod arithmetic;
mod fields;
mod format;
mod make;
mod read;
mod source;
mod template;

use super::definition::Definition;

/// The tables of functions.
pub(super) const FUNCTIONS: &[&[Definition]] =
    &[fields::FUNCTIONS, make::FUNCTIONS, format::FUNCTIONS, read::FUNCTIONS];
