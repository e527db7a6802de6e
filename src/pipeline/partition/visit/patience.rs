//! How long a worker waits for others to leave, before it hands its calls over.
//!
//! What it keeps true: so many looks, and no longer than so long. Nobody is told when a room is free: a worker finds one free that
//! it happens to look at. Where threads are more than processors, who lets others run comes back milliseconds later, and if the room is a
//! busy one, somebody is in it then as well; looks alone would be counted up in seconds. What is handed over has its turn.

use std::time::{Duration, Instant};

use crossbeam_utils::Backoff;

/// So often a worker looks whether an executor has become free, before it hands its calls over. The first looks are made within
/// a few microseconds; between the others it lets other threads run, one of which may be the one that is there. All of them
/// together take about a millisecond, as another's visit with a long call may: who gave up sooner would wake the executor,
/// whose thread then keeps visitors away and wants a processor of its own.
const LOOKS: u32 = if cfg!(heddle_model) { 2 } else { 2_000 };
/// And no longer than this, if others have run for so long in between. It is much longer than all looks take where threads are as many as
/// processors, and than the turns of some dozen threads that want one room: handing over costs more than their visits.
const LONGEST: Duration = Duration::from_millis(100);

/// How often somebody has looked in vain, and since when.
#[derive(Default)]
pub(super) struct Patience {
    looks: u32,
    since: Option<Instant>,
    backoff: Backoff,
}

impl Patience {
    /// Lets a moment pass. False: it was often enough, or long enough.
    pub(super) fn is_left(&mut self) -> bool {
        self.looks += 1;
        let is_left = self.looks < LOOKS && self.since.is_none_or(|since| since.elapsed() < LONGEST);
        if is_left {
            self.since.get_or_insert_with(Instant::now);
            self.backoff.snooze();
        }
        is_left
    }
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;

    use super::*;

    /// How many looks are left to somebody who is away for so long between two.
    fn looks(away: Duration) -> u32 {
        let mut patience = Patience::default();
        let mut looks = 0;
        while patience.is_left() {
            looks += 1;
            sleep(away);
        }
        assert!(!patience.is_left(), "what has run out stays so");
        looks
    }

    #[test]
    fn who_comes_back_late_gives_up_by_the_clock() {
        let away = LONGEST / 4;
        assert!((1..=4).contains(&looks(away)));
        assert_eq!(looks(2 * LONGEST), 1);
    }

    #[test]
    fn nobody_looks_for_ever() {
        assert!((1..LOOKS).contains(&looks(Duration::ZERO)));
    }

    #[test]
    fn time_runs_from_the_first_look_in_vain() {
        let mut patience = Patience::default();
        sleep(2 * LONGEST);
        assert!(patience.is_left());
    }
}
