//! Escrow: quotas of the distance between a split column's value and its bounds, one for each worker context (O'Neil, The
//! Escrow Transactional Method, TODS 1986, section 3).
//!
//! A worker context's total of additions stays within its quota, below and above zero. Quotas are taken from the distances,
//! and are renewed while anything is left of them; what does not fit then is decided on the whole value, in the joined
//! phase.
//!
//! Invariants: all quotas together never exceed the distances at the beginning of the phase. So whichever of the additions
//! that were admitted have been applied, in whichever order that keeps each worker context's own, the value is within its
//! bounds: between commits, in the merge, and after a crash that kept the commits of some epochs.
//!
//! Concurrency: a quota is its worker context's own; the distances are counters that only fall.

use crate::base::atomics::{AtomicU64, Ordering};

/// The least and the greatest value of a worker context's total.
pub(crate) type Quota = (i64, i64);

/// The remaining distances between a column's value and its bounds.
pub(super) struct Escrow {
    below: AtomicU64,
    above: AtomicU64,
    parties: u64,
}

impl Escrow {
    /// The distances of a value that lies between these bounds, for this many worker contexts.
    pub(super) fn new(value: i64, (low, high): (i64, i64), parties: usize) -> Escrow {
        debug_assert!(low <= value && value <= high);
        let parties = parties.max(1) as u64;
        let (below, above) = (value.abs_diff(low), high.abs_diff(value));
        Escrow { below: AtomicU64::new(below), above: AtomicU64::new(above), parties }
    }

    /// Renews a quota so that this total is within it. Returns true if enough was left.
    #[cold]
    pub(super) fn renew(&self, quota: &mut Quota, total: i64) -> bool {
        if total < quota.0 {
            let room = quota.0.abs_diff(i64::MIN);
            let Some(share) = self.take(&self.below, quota.0.abs_diff(total), room) else { return false };
            quota.0 = quota.0.saturating_sub_unsigned(share);
        } else if total > quota.1 {
            let room = quota.1.abs_diff(i64::MAX);
            let Some(share) = self.take(&self.above, total.abs_diff(quota.1), room) else { return false };
            quota.1 = quota.1.saturating_add_unsigned(share);
        }
        true
    }

    /// Takes at least `needed` and at most `room` out of a distance: half of an equal share of what is left, if that is
    /// enough.
    fn take(&self, left: &AtomicU64, needed: u64, room: u64) -> Option<u64> {
        let share = |left: u64| needed.max(left / (2 * self.parties)).min(room).min(left);
        // Relaxed: only the sums matter; what the quotas let in is ordered by commit sections and the gate.
        let taken = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            (left >= needed).then(|| left - share(left))
        });
        taken.ok().map(share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_use_up_the_distance_to_the_last_unit_and_no_further() {
        let escrow = Escrow::new(1_000, (0, 1_500), 8);
        let mut workers = [((0, 0), 0_i64); 8];
        let (mut sold, mut refused) = (0, 0);
        for round in 0..2_000_usize {
            let (quota, total) = &mut workers[round * 7 % 8];
            let wanted = *total - 1;
            if wanted >= quota.0 || escrow.renew(quota, wanted) {
                *total = wanted;
                sold += 1;
            } else {
                refused += 1;
            }
        }
        assert_eq!((sold, refused), (1_000, 1_000));
        assert!(workers.iter().all(|(quota, _)| quota.1 == 0), "nothing was added");
    }

    #[test]
    fn one_that_needs_more_than_a_share_gets_it_if_it_is_there() {
        let escrow = Escrow::new(100, (0, 100), 10);
        let mut quota = (0, 0);
        assert!(escrow.renew(&mut quota, -99));
        assert!(!escrow.renew(&mut quota, -101), "only one is left");
        assert_eq!(quota.0, -99, "what is refused takes nothing");
        assert!(escrow.renew(&mut quota, -100));
        assert!(!escrow.renew(&mut quota, 1), "it stands at its upper bound");
    }

    #[test]
    fn the_widest_bounds_are_no_bounds() {
        for value in [i64::MIN, -1, 0, 1, i64::MAX] {
            let escrow = Escrow::new(value, (i64::MIN, i64::MAX), 1);
            let mut quota = (0, 0);
            assert_eq!(escrow.renew(&mut quota, i64::MAX), value <= 0, "up from {value}");
            assert_eq!(escrow.renew(&mut quota, i64::MIN), value >= 0, "down from {value}");
        }
    }

    #[test]
    fn threads_never_take_more_than_there_is() {
        let escrow = Escrow::new(10_000, (0, 10_000), 4);
        let quotas: Vec<i64> = std::thread::scope(|scope| {
            let take = || {
                let mut quota = (0, 0);
                let mut total = 0;
                while total > quota.0 || escrow.renew(&mut quota, total - 1) {
                    total -= 1;
                }
                total
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
            threads.into_iter().map(|thread| thread.join().expect("it ends")).collect()
        });
        assert_eq!(quotas.iter().sum::<i64>(), -10_000);
    }
}
