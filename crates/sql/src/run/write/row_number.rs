//! Numbers for the rows of tables without a primary key.
//!
//! # Invariants
//! - A number that was given is not given again by this process; later ones are greater.
//! - They begin with the time, so that they rise over restarts, too; where the clock went back, a number that is taken shows
//!   as a duplicate key, and the next one is tried.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// The number of row numbers in a microsecond.
const IN_MICROSECOND: u64 = 1 << 9;

static LAST: AtomicU64 = AtomicU64::new(0);

/// The next number.
pub(crate) fn next() -> i64 {
    let micros = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64);
    let now = micros.saturating_mul(IN_MICROSECOND);
    // Relaxed: only that no two callers get the same number matters, and an atomic exchange gives that.
    let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(now.max(last + 1)));
    let last = last.unwrap_or_default();
    (now.max(last + 1) & i64::MAX as u64) as i64
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    #[test]
    fn numbers_rise_and_never_repeat_over_threads() {
        let mut all = Vec::new();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| (0..5_000).map(|_| super::next()).collect::<Vec<_>>()))
                .collect();
            for thread in threads {
                let numbers = thread.join().unwrap();
                assert!(numbers.is_sorted());
                all.extend(numbers);
            }
        });
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
    }
}
