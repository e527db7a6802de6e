//! Support of the tests of this crate.

#![allow(dead_code, reason = "each test file uses a part of this module")]

pub mod calls;
pub mod oracle;
pub mod samples;
pub mod sqllogictest;
