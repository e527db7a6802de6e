//! What a workload is: tables and their first content, calls to make, and invariants to check.
//!
//! What has to stay true:
//! - A workload's `check` looks at the whole database and believes nothing but the database, the workload's own
//!   constants, its input and the number of marks that its caller knows of.
//! - A committed call leaves exactly as many *marks* as its generator said, which can be counted afterwards (a history
//!   record, a flight, raised counters), so that a lost or doubled transaction shows. One that only reads leaves none,
//!   every other one at least one.

use std::borrow::Cow;

use heddledb::{Database, Output, Procedure};

use crate::calls::{Call, Calls};
use crate::{Error, Result};

/// A benchmark: everything that does not need an open database.
pub trait Workload: Send + Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// The names of its tables, at least one.
    fn tables(&self) -> &'static [&'static str];

    /// The names of its transactions in kebab case.
    fn transactions(&self) -> &'static [&'static str];

    /// Which of them a procedure belongs to, by its place in [`Generator::procedures`]: the one at the same place,
    /// unless a transaction has several procedures.
    fn transaction_of(&self, procedure: usize) -> usize {
        procedure
    }

    /// The column by whose value calls can be placed in queues, where there is a usual one.
    fn partition_key(&self) -> Option<&'static str> {
        None
    }

    /// Its settings, to be reported with the results.
    fn parameters(&self) -> Vec<(&'static str, serde_json::Value)>;

    /// Creates and fills the tables that are not there yet, in transactions of a few hundred records. Goes on where
    /// an earlier call was cut short.
    fn load(&self, db: &Database) -> Result<()>;

    /// Ties the workload to a loaded database: looks up tables and registers procedures for `callers` callers.
    fn bind(&self, db: &Database, callers: usize) -> Result<Box<dyn Bound>>;

    /// How many marks committed calls have left in the database.
    fn marks(&self, db: &Database) -> Result<u64>;

    /// Checks the workload's invariants over the whole database, and the number of marks where it is known. The
    /// error text says what is wrong.
    fn check(&self, db: &Database, marks: Option<u64>) -> Result<(), String>;

    /// Checks that the call acknowledged under `key` (see [`Bound::acknowledgement`]) is in the database.
    fn check_acknowledged(&self, db: &Database, keys: &[String]) -> Result<(), String>;

    /// Whether the calls come to an end on their own, as those made from a file do.
    fn is_finite(&self) -> bool {
        false
    }

    /// Whether its invariants hold in every snapshot, so that a run may check them each second while calls go on.
    fn is_audited(&self) -> bool {
        false
    }

    /// What of its input the last check found to be no transaction, by reason.
    fn rejected(&self) -> Vec<Rejected> {
        Vec::new()
    }
}

/// Lines of an input that are rejected for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Why.
    pub reason: &'static str,
    /// How many lines.
    pub count: u64,
    /// The numbers of the first ones, from 1.
    pub first_lines: Vec<u64>,
}

/// A workload tied to an open database.
pub trait Bound: Send + Sync {
    /// The calls of one caller, made from `seed`. Each caller is asked for once per binding.
    fn generator(&self, seed: u64, caller: usize) -> Result<Box<dyn Generator>>;

    /// The key under which a call can be found once it has been committed, on one line, or `None` where a call
    /// leaves nothing to find.
    fn acknowledgement(&self, call: Call<'_>) -> Option<String>;

    /// Runs a call as a closure on the caller's own thread, without its procedure, where the workload has both.
    fn run_closure(&self, _db: &Database, _call: Call<'_>) -> Result<Output, heddledb::Error> {
        Err(heddledb::fail("this workload has procedures only; call them through the pipeline"))
    }

    /// A short name for the reason why a call failed, to count by.
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

/// Makes the calls of one caller.
pub trait Generator: Send {
    /// What its calls call: [`Call::procedure`] is a place in this list.
    fn procedures(&self) -> &[Procedure];

    /// Adds calls and refusals until there are this many. False: the input has ended, and there may be fewer; it is not
    /// asked again.
    fn fill(&mut self, calls: &mut Calls, at_most: usize) -> Result<bool>;
}

/// The parts of an acknowledged key, written as integers with spaces between: the form that most workloads use.
pub(crate) fn integers_of_key(key: &str, count: usize) -> Result<Vec<i64>, String> {
    let numbers: Result<Vec<i64>, _> = key.split(' ').map(str::parse).collect();
    match numbers {
        Ok(numbers) if numbers.len() == count => Ok(numbers),
        _ => Err(format!(
            "the acknowledged key {key:?} is not {count} numbers; was the file written by this workload?"
        )),
    }
}

/// Refuses a setting outside of its range, with a message that says what to do.
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

/// The random numbers of one caller: each has its own, and the same seed makes the same ones again.
pub(crate) fn random_of(seed: u64, caller: usize) -> fastrand::Rng {
    fastrand::Rng::with_seed(seed ^ (caller as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// The next calls of a generator, for tests that make them one by one.
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
