//! The plan of transactions over several executors: their actions run in parallel or serially.
//!
//! In parallel a transaction ends sooner if executors are idle. But if an action fails, by the procedure's own error,
//! others have run unnecessarily; serially, no action starts behind the one that has failed. For each procedure the failed
//! transactions over several executors are counted, and a procedure that fails often runs serially. Its own errors occur
//! with either plan, so the count needs no trials and indicates on its own when to return to the parallel plan.
//!
//! # Invariants
//! Both plans have the same result; a count that is lost or late costs time only.
//!
//! # Source
//! DORA (VLDB 2010), section 5.4: the resource manager monitors abort rates and switches to serial plans.

use std::fmt;
use std::str::FromStr;

use crate::base::atomics::{AtomicU32, Ordering};

/// The order in which actions of transactions over several executors run (`partitioned`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Plan {
    /// Actions run in parallel, but serially where transactions of the procedure fail often.
    #[default]
    Auto,
    /// Actions run in parallel, wherever that is possible.
    Parallel,
    /// Actions run one after another.
    Serial,
}

/// The plans and their names.
const NAMES: [(Plan, &str); 3] =
    [(Plan::Auto, "auto"), (Plan::Parallel, "parallel"), (Plan::Serial, "serial")];

impl fmt::Display for Plan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(plan, _)| plan == self).map_or("", |(_, name)| name);
        formatter.pad(name)
    }
}

impl FromStr for Plan {
    type Err = String;

    fn from_str(text: &str) -> Result<Plan, String> {
        let named = NAMES.iter().find(|(_, name)| *name == text);
        named.map(|(plan, _)| *plan).ok_or_else(|| format!("{text:?} is no plan: auto, parallel, serial"))
    }
}

impl Plan {
    /// Returns true if transactions of a procedure with these failures run serially.
    pub(crate) fn is_serial(self, failures: &Failures) -> bool {
        match self {
            Plan::Auto => failures.are_many(),
            Plan::Parallel => false,
            Plan::Serial => true,
        }
    }
}

/// Number of known transactions below which the count decides nothing.
const KNOWN_MIN: u32 = 16;
/// Number of known transactions at which the older half is forgotten.
const KNOWN_MAX: u32 = 256;
/// More than one failure in this many transactions is often.
const OFTEN: u32 = 10;

/// Counts of a procedure's recent transactions over several executors, and of those that have failed.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    ended: AtomicU32,
    failed: AtomicU32,
}

impl Failures {
    /// Counts a transaction that has ended, by its own error or not.
    pub(crate) fn note(&self, failed: bool) {
        // Relaxed, and not atomic as a whole: see the invariants.
        let add = |counter: &AtomicU32, halve: bool, one: u32| {
            let now = counter.load(Ordering::Relaxed) + one;
            counter.store(if halve { now / 2 } else { now }, Ordering::Relaxed);
        };
        let is_full = self.ended.load(Ordering::Relaxed) >= KNOWN_MAX;
        add(&self.ended, is_full, 1);
        if failed || is_full {
            add(&self.failed, is_full, u32::from(failed));
        }
    }

    /// Returns true if transactions fail often.
    pub(crate) fn are_many(&self) -> bool {
        let ended = self.ended.load(Ordering::Relaxed);
        ended >= KNOWN_MIN && self.failed.load(Ordering::Relaxed) > ended / OFTEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(calls: impl IntoIterator<Item = bool>) -> Failures {
        let failures = Failures::default();
        calls.into_iter().for_each(|failed| failures.note(failed));
        failures
    }

    #[test]
    fn procedures_that_fail_often_run_serially() {
        let rate = |of_100: u32| noted((0..1_000).map(|call| call * 37 % 100 < of_100));
        for (of_100, is_serial) in [(0, false), (1, false), (5, false), (20, true), (37, true), (100, true)] {
            assert_eq!(Plan::Auto.is_serial(&rate(of_100)), is_serial, "{of_100} %");
            assert!(!Plan::Parallel.is_serial(&rate(of_100)) && Plan::Serial.is_serial(&rate(of_100)));
        }
    }

    #[test]
    fn few_transactions_decide_nothing_and_old_ones_are_forgotten() {
        assert!(!Plan::Auto.is_serial(&noted([true; 15])));
        assert!(Plan::Auto.is_serial(&noted([true; 16])));
        assert!(!Plan::Auto.is_serial(&noted((0..2_000).map(|call| call < 1_000))));
        assert!(Plan::Auto.is_serial(&noted((0..2_000).map(|call| call >= 1_900))));
    }

    #[test]
    fn plans_have_names() {
        for plan in [Plan::Auto, Plan::Parallel, Plan::Serial] {
            assert_eq!(plan.to_string().parse(), Ok(plan));
        }
        assert!("both".parse::<Plan>().is_err_and(|error| error.contains("auto, parallel, serial")));
        assert_eq!(Plan::default(), Plan::Auto);
    }
}
