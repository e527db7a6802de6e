//! Functions and operators of dates, times, timestamps and intervals.

pub(super) mod arithmetic;
