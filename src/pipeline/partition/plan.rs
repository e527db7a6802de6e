//! Which way a call over several executors goes: its actions beside each other, or one after the other (DORA, appendix A.4).
//!
//! In parallel a call is done sooner, if executors have time. But where one action fails, by the procedure's own error,
//! others have been done in vain; one after the other, nothing is begun behind the one that has failed. So of each procedure
//! is counted how many of its calls over several executors have failed of late, and one that fails often goes the serial
//! way; unless only values tell where it goes: then whole tables would have to be locked at all executors. An own error comes on either way alike: the count needs no trials, and tells by itself when to go back.
//!
//! What it keeps true: the result is the same on either way, and so a count that is lost or late costs time only.

use std::fmt;
use std::str::FromStr;

use crate::base::atomics::{AtomicU32, Ordering};

/// Which way calls over several executors go (`partitioned`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Plan {
    /// In parallel, but one after the other where calls of the procedure fail often; and where calls run in groups,
    /// which are beside each other already.
    #[default]
    Auto,
    /// The actions of a phase beside each other, wherever that is possible.
    Parallel,
    /// One action after the other.
    Serial,
}

/// The ways, with their names.
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
    /// Whether a call in a group of so many runs one action after the other wherever it can do so at once.
    pub(crate) fn is_serial_in_group(self, calls: usize) -> bool {
        self == Plan::Serial || self == Plan::Auto && calls > 1
    }

    /// Whether a call of a procedure goes in parallel that comes alone. `has_places`: its arguments tell where everything lies.
    pub(crate) fn is_parallel(self, failures: &Failures, has_places: impl FnOnce() -> bool) -> bool {
        match self {
            Plan::Auto => !failures.are_many() || !has_places(),
            Plan::Parallel => true,
            Plan::Serial => false,
        }
    }
}

/// Who knows of fewer calls does not judge.
const LEAST: u32 = 16;
/// When so many are known, the older half is forgotten.
const MOST: u32 = 256;
/// One failure in so many calls is often.
const OFTEN: u32 = 10;

/// How many calls of a procedure over several executors have failed of late.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    ended: AtomicU32,
    failed: AtomicU32,
}

impl Failures {
    /// A call has ended: by its own error, or not.
    pub(crate) fn note(&self, failed: bool) {
        // Relaxed, and read and written apart: see the module's description.
        let add = |counter: &AtomicU32, halve: bool, one: u32| {
            let now = counter.load(Ordering::Relaxed) + one;
            counter.store(if halve { now / 2 } else { now }, Ordering::Relaxed);
        };
        let is_full = self.ended.load(Ordering::Relaxed) >= MOST;
        add(&self.ended, is_full, 1);
        if failed || is_full {
            add(&self.failed, is_full, u32::from(failed));
        }
    }

    /// Whether calls fail often.
    pub(crate) fn are_many(&self) -> bool {
        let ended = self.ended.load(Ordering::Relaxed);
        ended >= LEAST && self.failed.load(Ordering::Relaxed) > ended / OFTEN
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
    fn who_fails_often_goes_the_serial_way() {
        let rate = |of_100: u32| noted((0..1_000).map(|call| call * 37 % 100 < of_100));
        for (of_100, is_parallel) in [(0, true), (1, true), (5, true), (20, false), (37, false), (100, false)]
        {
            assert_eq!(Plan::Auto.is_parallel(&rate(of_100), || true), is_parallel, "{of_100} %");
            assert!(
                Plan::Parallel.is_parallel(&rate(of_100), || true)
                    && !Plan::Serial.is_parallel(&rate(of_100), || false)
            );
        }
    }

    #[test]
    fn few_calls_are_not_judged_and_old_ones_are_forgotten() {
        assert!(Plan::Auto.is_parallel(&noted([true; 15]), || true));
        assert!(!Plan::Auto.is_parallel(&noted([true; 16]), || true));
        let better = noted((0..2_000).map(|call| call < 1_000));
        assert!(Plan::Auto.is_parallel(&better, || true));
        let worse = noted((0..2_000).map(|call| call >= 1_900));
        assert!(!Plan::Auto.is_parallel(&worse, || true));
        assert!(Plan::Auto.is_parallel(&worse, || false), "it would lock whole tables");
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
