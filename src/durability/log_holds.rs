//! The part of the log that is kept for change feeds and for an archive, although no recovery needs it.
//!
//! Invariants: a feed's hold moves forward only when its new position is durable, so that a crash never asks for what was
//! removed; a feed that needs more than its limit holds nothing any more, until it has moved on.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::Result;

/// The name of the hold for an archive, which no feed can have.
pub(crate) const ARCHIVE: &str = "\0archive";

/// The part of the log that one feed needs, and its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    /// Everything after this epoch.
    pub(crate) epoch: u64,
    /// Bytes of the log, not needed by recovery, beyond which the hold ends.
    pub(crate) limit: u64,
}

/// The holds of all feeds, by their names.
#[derive(Debug, Default)]
pub(crate) struct LogHolds {
    holds: BTreeMap<String, (Hold, bool)>,
}

impl LogHolds {
    /// Returns true if no feed holds anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.holds.is_empty()
    }

    /// Notes what a feed needs from now on.
    pub(crate) fn put(&mut self, feed: &str, hold: Hold) {
        self.holds.insert(feed.to_string(), (hold, false));
    }

    /// Forgets a feed.
    pub(crate) fn remove(&mut self, feed: &str) {
        self.holds.remove(feed);
    }

    /// Returns true if a feed holds the log, or has moved since it lost what it needs.
    pub(crate) fn is_held(&self, feed: &str) -> bool {
        self.holds.get(feed).is_some_and(|(_, has_failed)| !has_failed)
    }

    /// The first segment that recovery or a feed needs, where recovery needs those from `segment` on. `start` gives the
    /// segment in which the groups after an epoch begin, if the log has all of them; `bytes` the size of segments.
    ///
    /// # Errors
    /// A segment cannot be read.
    pub(super) fn first_needed(
        &mut self,
        segment: u32,
        start: impl Fn(u64) -> Option<u32>,
        bytes: impl Fn(Range<u32>) -> Result<u64>,
    ) -> Result<u32> {
        let mut first = segment;
        for (hold, has_failed) in self.holds.values_mut().filter(|(_, has_failed)| !has_failed) {
            match start(hold.epoch) {
                Some(needed) if needed >= segment => {}
                Some(needed) if bytes(needed..segment)? <= hold.limit => first = first.min(needed),
                _ => *has_failed = true,
            }
        }
        Ok(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Segment n begins with epoch 10 n, and has 100 bytes; the log begins with segment 2.
    fn first(holds: &mut LogHolds, segment: u32) -> u32 {
        let start = |epoch: u64| (epoch >= 19).then_some(((epoch + 1) / 10) as u32);
        holds.first_needed(segment, start, |range| Ok(100 * range.len() as u64)).expect("readable")
    }

    #[test]
    fn the_slowest_feed_within_its_limit_decides() {
        let mut holds = LogHolds::default();
        assert_eq!(first(&mut holds, 7), 7);
        holds.put("fast", Hold { epoch: 69, limit: 0 });
        assert_eq!(first(&mut holds, 7), 7);
        holds.put("slow", Hold { epoch: 45, limit: 300 });
        holds.put("slower", Hold { epoch: 39, limit: 300 });
        assert_eq!(first(&mut holds, 7), 4);
    }

    #[test]
    fn a_feed_beyond_its_limit_or_before_the_log_holds_nothing_until_it_moves() {
        let mut holds = LogHolds::default();
        holds.put("slow", Hold { epoch: 31, limit: 300 });
        holds.put("lost", Hold { epoch: 5, limit: u64::MAX });
        assert_eq!(first(&mut holds, 6), 3);
        assert_eq!(first(&mut holds, 7), 7, "four segments are beyond the limit");
        assert_eq!(first(&mut holds, 6), 6, "and it has failed for good");
        holds.put("slow", Hold { epoch: 50, limit: 300 });
        assert_eq!(first(&mut holds, 7), 5);
        holds.remove("slow");
        assert_eq!(first(&mut holds, 7), 7);
        assert!(!holds.is_empty());
    }
}
