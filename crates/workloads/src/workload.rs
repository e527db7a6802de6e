//! The interface of a workload: its tables and their initial contents, the calls to generate, and the invariants to
//! check.
//!
//! # Invariants
//! - A workload's `check` reads the whole database, and relies only on the database, the workload's own constants, its
//!   input, and the number of marks that its caller passes.
//! - A committed call leaves exactly the number of *marks* that its generator announced. Marks can be counted
//!   afterwards (a history record, a flight, incremented counters), so that a lost or duplicated transaction is
//!   detected. A read-only call leaves none, any other call at least one.

use std::borrow::Cow;

use heddledb::{Database, Output, Procedure};

use crate::calls::{Call, Calls};
use crate::functions::Functions;
use crate::{Error, Result};

/// A benchmark: everything that can be described without an open database.
pub trait Workload: Send + Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// The names of its tables, at least one.
    fn tables(&self) -> &'static [&'static str];

    /// The names of its transactions in kebab case.
    fn transactions(&self) -> &'static [&'static str];

    /// The index of the transaction that a procedure belongs to, given the procedure's index in
    /// [`Generator::procedures`]. The two are equal unless a transaction has several procedures.
    fn transaction_of(&self, procedure: usize) -> usize {
        procedure
    }

    /// The column by which calls are partitioned among the workers' queues by default, if there is one.
    fn partition_key(&self) -> Option<&'static str> {
        None
    }

    /// The workload's settings, for the report.
    fn parameters(&self) -> Vec<(&'static str, serde_json::Value)>;

    /// Creates and fills the missing tables, in transactions of a few hundred records. Resumes an earlier load that was
    /// interrupted.
    fn load(&self, db: &Database) -> Result<()>;

    /// Binds the workload to a loaded database: looks up tables and registers procedures for `callers` callers.
    fn bind(&self, db: &Database, callers: usize) -> Result<Box<dyn Bound>>;

    /// Counts the marks that committed calls have left in the database.
    fn marks(&self, db: &Database) -> Result<u64>;

    /// Checks the workload's invariants over the whole database, and the number of marks if it is known. The error text
    /// describes the violation.
    fn check(&self, db: &Database, marks: Option<u64>) -> Result<(), String>;

    /// Checks that the database contains the effects of every call acknowledged under one of `keys` (see
    /// [`Bound::acknowledgement`]).
    fn check_acknowledged(&self, db: &Database, keys: &[String]) -> Result<(), String>;

    /// The transactions as functions in SQL, if the workload has them.
    fn functions(&self) -> Option<Functions> {
        None
    }

    /// Returns true if the workload has a finite number of calls, such as those read from a file.
    fn is_finite(&self) -> bool {
        false
    }

    /// Returns true if the invariants hold in every snapshot, so that a run may check them every second under
    /// load.
    fn is_audited(&self) -> bool {
        false
    }

    /// The input lines that the last check rejected, grouped by reason.
    fn rejected(&self) -> Vec<Rejected> {
        Vec::new()
    }
}

/// Input lines rejected for the same reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The reason.
    pub reason: &'static str,
    /// The number of lines.
    pub count: u64,
    /// The line numbers of the first ones, counted from 1.
    pub first_lines: Vec<u64>,
}

/// A workload bound to an open database.
pub trait Bound: Send + Sync {
    /// The generator of one caller's calls, seeded with `seed`. Called once per caller and binding.
    fn generator(&self, seed: u64, caller: usize) -> Result<Box<dyn Generator>>;

    /// The key, on one line, by which a committed call can be found in the database, or `None` if the call leaves
    /// no trace.
    fn acknowledgement(&self, call: Call<'_>) -> Option<String>;

    /// Runs a call as a closure on the caller's own thread instead of its procedure, if the workload has both.
    fn run_closure(&self, _db: &Database, _call: Call<'_>) -> Result<Output, heddledb::Error> {
        Err(heddledb::fail("this workload has procedures only; call them through the pipeline"))
    }

    /// A short name for the reason why a call failed, by which failures are counted.
    fn reason(&self, error: &heddledb::Error) -> Cow<'static, str> {
        match error {
            heddledb::Error::Failed { message } => Cow::Owned(message.clone()),
            heddledb::Error::DuplicateKey { .. } => Cow::Borrowed("duplicate-key"),
            heddledb::Error::MissingKey { .. } => Cow::Borrowed("missing-key"),
            heddledb::Error::Overflow { .. } => Cow::Borrowed("overflow"),
            other => Cow::Owned(other.to_string()),
        }
    }
}

/// Generates the calls of one caller.
pub trait Generator: Send {
    /// The procedures that the calls invoke: [`Call::procedure`] is an index into this list.
    fn procedures(&self) -> &[Procedure];

    /// Adds calls and rejected input lines until there are `at_most` in total. Returns false at the end of the input,
    /// with possibly fewer; it is not called again after that.
    fn fill(&mut self, calls: &mut Calls, at_most: usize) -> Result<bool>;
}

/// Parses an acknowledged key of `count` integers separated by spaces, the form that most workloads use.
pub(crate) fn integers_of_key(key: &str, count: usize) -> Result<Vec<i64>, String> {
    let numbers: Result<Vec<i64>, _> = key.split(' ').map(str::parse).collect();
    match numbers {
        Ok(numbers) if numbers.len() == count => Ok(numbers),
        _ => Err(format!(
            "the acknowledged key {key:?} is not {count} numbers; was the file written by this workload?"
        )),
    }
}

/// Rejects a setting outside its range, with a message that gives the range.
pub(crate) fn in_range<T: PartialOrd + std::fmt::Display>(
    option: &str,
    value: T,
    lowest: T,
    highest: T,
) -> Result<()> {
    if value >= lowest && value <= highest {
        return Ok(());
    }
    Err(Error::Unusable(format!("--{option} {value} is out of range; give {lowest} to {highest}")))
}

/// The random number generator of one caller. Each caller has its own, and the same seed reproduces it.
pub(crate) fn random_of(seed: u64, caller: usize) -> fastrand::Rng {
    fastrand::Rng::with_seed(seed ^ (caller as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// The next calls of a generator, for tests that execute them one by one.
#[cfg(test)]
pub(crate) fn next_calls(generator: &mut dyn Generator, wanted: usize) -> Calls {
    let mut calls = Calls::default();
    assert!(generator.fill(&mut calls, wanted).unwrap(), "this generator does not end");
    assert_eq!((calls.len(), calls.made().len()), (wanted, wanted));
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integer_keys_are_parsed_exactly() {
        assert_eq!(integers_of_key("1 -2 3", 3), Ok(vec![1, -2, 3]));
        assert!(integers_of_key("1 2", 3).is_err());
        assert!(integers_of_key("1 2 3 4", 3).is_err());
        assert!(integers_of_key("1  3", 3).is_err());
        assert!(integers_of_key("one 2 3", 3).unwrap_err().contains("one 2 3"));
    }

    #[test]
    fn ranges_are_inclusive_and_not_a_number_is_outside() {
        assert!(in_range("x", 1, 1, 5).is_ok());
        assert!(in_range("x", 5, 1, 5).is_ok());
        let message = in_range("branches", 0, 1, 5).unwrap_err().to_string();
        assert_eq!(message, "--branches 0 is out of range; give 1 to 5");
        assert!(in_range("x", f64::NAN, 0.0, 100.0).is_err());
    }
}
