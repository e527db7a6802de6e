//! Policies of columns: whether the engine may split them, chooses itself, or splits every row that an operation meets.
//!
//! # Invariants
//! All definitions of the same records share the policies: a column keeps its position for as long as the records live, and columns
//! are only added behind it. Policies are kept in memory only; what opens the database sets them again.

use parking_lot::RwLock;

use crate::base::atomics::{AtomicBool, Ordering};

/// The policy of a column for splitting, under protocols with phases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SplitPolicy {
    /// The engine splits what transactions conflict about, as long as more commit with it.
    #[default]
    Auto,
    /// Rows that an operation meets are split for it without a trial, the hottest first, for as long as there is room.
    Always,
    /// The column is never split.
    Never,
}

impl SplitPolicy {
    /// All policies.
    pub const ALL: [SplitPolicy; 3] = [SplitPolicy::Auto, SplitPolicy::Always, SplitPolicy::Never];

    /// Its name: `auto`, `always` or `never`.
    pub fn name(self) -> &'static str {
        match self {
            SplitPolicy::Auto => "auto",
            SplitPolicy::Always => "always",
            SplitPolicy::Never => "never",
        }
    }
}

/// The policies of a table's columns.
#[derive(Default)]
pub(crate) struct SplitPolicies {
    /// True if a column's policy is not [`SplitPolicy::Auto`].
    is_any_set: AtomicBool,
    /// True if a column's policy is [`SplitPolicy::Always`].
    has_always: AtomicBool,
    /// By position; those behind the last are [`SplitPolicy::Auto`].
    policies: RwLock<Vec<SplitPolicy>>,
}

impl SplitPolicies {
    /// The policy of a column.
    pub(crate) fn of(&self, column: usize) -> SplitPolicy {
        // Relaxed, here and below: a policy guards no other data, and one that is missed is found at the next look.
        if !self.is_any_set.load(Ordering::Relaxed) {
            return SplitPolicy::Auto;
        }
        self.policies.read().get(column).copied().unwrap_or_default()
    }

    /// Returns true if rows that operations meet are split without a trial.
    #[inline]
    pub(crate) fn has_always(&self) -> bool {
        self.has_always.load(Ordering::Relaxed)
    }

    /// Sets the policy of a column.
    pub(crate) fn set(&self, column: usize, policy: SplitPolicy) {
        let mut policies = self.policies.write();
        if policies.len() <= column {
            policies.resize(column + 1, SplitPolicy::Auto);
        }
        policies[column] = policy;
        self.is_any_set.store(policies.iter().any(|one| *one != SplitPolicy::Auto), Ordering::Relaxed);
        self.has_always.store(policies.contains(&SplitPolicy::Always), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_that_of_its_column_until_it_is_set_back() {
        let policies = SplitPolicies::default();
        assert_eq!((policies.of(3), policies.has_always()), (SplitPolicy::Auto, false));
        policies.set(3, SplitPolicy::Always);
        policies.set(1, SplitPolicy::Never);
        let all: Vec<SplitPolicy> = (0..5).map(|column| policies.of(column)).collect();
        let [auto, always, never] = SplitPolicy::ALL;
        assert_eq!(all, [auto, never, auto, always, auto]);
        assert!(policies.has_always());
        policies.set(3, SplitPolicy::Auto);
        assert_eq!((policies.of(3), policies.of(1), policies.has_always()), (auto, never, false));
    }
}
