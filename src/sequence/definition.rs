//! Definitions of sequences: bounds, step, and the value after a number of steps.
//!
//! Invariants: every value lies between the bounds; arithmetic is done in 128 bits, so that nothing wraps.

use crate::error::{Error, Result};

/// The most values that one reservation of a cache takes.
const CACHE_MAX: u32 = 1 << 20;

/// A sequence's definition: by default 1, 2, 3 and so on.
///
/// ```
/// use heddledb::SequenceDefinition;
/// let tickets = SequenceDefinition::new("ticket").start(1_000).increment(10).max(9_990).cycle(true);
/// assert_eq!(tickets.name(), "ticket");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceDefinition {
    pub(super) name: String,
    pub(super) start: Option<i64>,
    pub(super) increment: i64,
    pub(super) min: Option<i64>,
    pub(super) max: Option<i64>,
    pub(super) cycle: bool,
    pub(super) cache: u32,
}

impl SequenceDefinition {
    /// A sequence of this name.
    pub fn new(name: impl Into<String>) -> SequenceDefinition {
        SequenceDefinition {
            name: name.into(),
            start: None,
            increment: 1,
            min: None,
            max: None,
            cycle: false,
            cache: 1,
        }
    }

    /// The first value. Default: the lower bound, or the upper one if it descends.
    #[must_use]
    pub fn start(mut self, value: i64) -> Self {
        self.start = Some(value);
        self
    }

    /// The step from one value to the next: below 0 it descends. Default: 1.
    #[must_use]
    pub fn increment(mut self, step: i64) -> Self {
        self.increment = step;
        self
    }

    /// The lower bound. Default: 1, or the least integer if it descends.
    #[must_use]
    pub fn min(mut self, value: i64) -> Self {
        self.min = Some(value);
        self
    }

    /// The upper bound. Default: the greatest integer, or -1 if it descends.
    #[must_use]
    pub fn max(mut self, value: i64) -> Self {
        self.max = Some(value);
        self
    }

    /// Makes it continue at its other bound once it has reached one; then values repeat. Default: no.
    #[must_use]
    pub fn cycle(mut self, cycle: bool) -> Self {
        self.cycle = cycle;
        self
    }

    /// The number of values that a thread takes at a time, so that threads do not contend: each thread's
    /// values rise, those of all threads together are in no order. Default: 1, which keeps one order for all.
    #[must_use]
    pub fn cache(mut self, values: u32) -> Self {
        self.cache = values;
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The first value.
    pub fn first(&self) -> i64 {
        self.start.unwrap_or(if self.increment < 0 { self.upper() } else { self.lower() })
    }

    /// The step from one value to the next.
    pub fn step(&self) -> i64 {
        self.increment
    }

    /// The lower bound.
    pub fn lower(&self) -> i64 {
        self.min.unwrap_or(if self.increment < 0 { i64::MIN } else { 1 })
    }

    /// The upper bound.
    pub fn upper(&self) -> i64 {
        self.max.unwrap_or(if self.increment < 0 { -1 } else { i64::MAX })
    }

    /// Returns true if it cycles.
    pub fn is_cyclic(&self) -> bool {
        self.cycle
    }

    /// Number of values that a thread takes at a time.
    pub fn cached(&self) -> u32 {
        self.cache
    }

    /// Checks that a sequence can be made of this.
    ///
    /// # Errors
    /// The first thing that is wrong, with what to do about it.
    pub(super) fn validate(&self) -> Result<()> {
        let wrong = |detail: String| Err(Error::InvalidSequence { sequence: self.name.clone(), detail });
        if self.name.is_empty() || self.name.len() > 255 {
            return wrong("its name needs 1 to 255 bytes".to_string());
        }
        if self.increment == 0 {
            return wrong("its increment is 0; give it another one".to_string());
        }
        if self.lower() >= self.upper() {
            return wrong(format!("its minimum {} is not below its maximum {}", self.lower(), self.upper()));
        }
        if !self.contains(self.first()) {
            return wrong(format!(
                "it starts with {}, which is not between {} and {}",
                self.first(),
                self.lower(),
                self.upper()
            ));
        }
        if self.cache == 0 || self.cache > CACHE_MAX {
            return wrong(format!("its cache has {} values; give it 1 to {CACHE_MAX}", self.cache));
        }
        Ok(())
    }

    /// Returns true if a value is within the bounds.
    pub(super) fn contains(&self, value: i64) -> bool {
        (self.lower()..=self.upper()).contains(&value)
    }

    /// Number of values from this one to the bound, itself included.
    fn left(&self, from: i64) -> u128 {
        let bound = if self.increment < 0 { self.lower() } else { self.upper() };
        let distance = (i128::from(bound) - i128::from(from)).unsigned_abs();
        distance / u128::from(self.increment.unsigned_abs()) + 1
    }

    /// Advances by `wanted` values from `from` on: returns the number of values that there are, and the value that
    /// follows them, if there is one.
    pub(super) fn advance(&self, from: i64, wanted: u64) -> (u64, Option<i64>) {
        let left = self.left(from);
        let after = |start: i64, steps: u128| {
            let value = i128::from(start) + i128::from(self.increment) * (steps as i128);
            i64::try_from(value).ok()
        };
        if u128::from(wanted) < left {
            return (wanted, after(from, wanted.into()));
        }
        if !self.cycle {
            return (left as u64, None);
        }
        let begin = if self.increment < 0 { self.upper() } else { self.lower() };
        (wanted, after(begin, (u128::from(wanted) - left) % self.left(begin)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of a sequence, one by one.
    fn values(of: &SequenceDefinition, count: usize) -> Vec<i64> {
        let mut next = Some(of.first());
        let step = |next: &mut Option<i64>| {
            let value = (*next)?;
            *next = of.advance(value, 1).1;
            Some(value)
        };
        std::iter::from_fn(|| step(&mut next)).take(count).collect()
    }

    #[test]
    fn values_go_by_the_step_up_to_the_bound() {
        let of = SequenceDefinition::new("s");
        assert_eq!(values(&of, 3), [1, 2, 3]);
        assert_eq!(values(&of.clone().start(5).increment(3).max(12), 9), [5, 8, 11]);
        assert_eq!(values(&of.clone().increment(-2), 3), [-1, -3, -5]);
        assert_eq!(values(&of.clone().start(i64::MAX - 1), 9), [i64::MAX - 1, i64::MAX]);
        assert_eq!(values(&of.clone().increment(i64::MIN).max(0).start(0), 9), [0, i64::MIN]);
    }

    #[test]
    fn a_cyclic_one_begins_again_at_the_other_bound() {
        let of = SequenceDefinition::new("s").min(1).max(7).increment(3).start(5).cycle(true);
        assert_eq!(values(&of, 6), [5, 1, 4, 7, 1, 4]);
        let down = SequenceDefinition::new("s").min(1).max(4).increment(-1).start(2).cycle(true);
        assert_eq!(values(&down, 7), [2, 1, 4, 3, 2, 1, 4]);
    }

    #[test]
    fn many_values_at_once_lead_where_one_after_the_other_does() {
        let bounded = SequenceDefinition::new("s").min(-3).max(20).increment(4).start(1);
        for of in [bounded.clone(), bounded.clone().cycle(true), bounded.increment(-5).cycle(true)] {
            for wanted in 0..40 {
                let (count, next) = of.advance(of.first(), wanted);
                let all = values(&of, wanted as usize + 1);
                assert_eq!(next, all.get(wanted as usize).copied(), "{of:?} {wanted}");
                assert_eq!(count as usize, all.len().min(wanted as usize));
            }
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let of = SequenceDefinition::new("s");
        assert_eq!(of.validate(), Ok(()));
        for wrong in [
            SequenceDefinition::new(""),
            of.clone().increment(0),
            of.clone().min(5).max(5),
            of.clone().start(0),
            of.clone().max(9).start(10),
            of.clone().cache(0),
        ] {
            assert!(matches!(wrong.validate(), Err(Error::InvalidSequence { .. })), "{wrong:?}");
        }
    }
}
