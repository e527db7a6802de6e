//! The results that one worker has executed but not yet released.
//!
//! # Invariants
//! - Groups are released in the order in which they were executed, each once the log is durable through the highest
//!   epoch of its calls.
//! - A call that the protocol has stashed delays no other call: it waits in a second queue, of which each round polls
//!   at most [`LOOKS`] unreleased entries. A round therefore costs the same for ten thousand stashed calls as for
//!   four.
//! - Both queues are bounded.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Instant;

use heddledb::{Executed, Output};

use super::recorder::{Outcome, Recorder, Release, Tally, Timing};
use super::{Context, outcome};
use crate::Result;

/// The most unreleased groups of a worker; at this number it waits for the oldest.
const MOST_GROUPS: usize = 16_384;

/// The most stashed calls of a worker; at this number it generates no more calls.
const MOST_DEFERRED: usize = 65_536;

/// Unreleased stashed calls that a round polls before it stops.
const LOOKS: usize = 4;

/// A result that is released later, as the queues need it.
pub(super) trait Delayed {
    /// The number of attempts that the call has needed.
    fn attempts(&self) -> u32;

    /// Returns true if the result is available without waiting.
    fn is_released(&self) -> bool;

    /// Waits for the result.
    ///
    /// # Errors
    /// The call's own error, or the engine's.
    fn wait(self) -> heddledb::Result<Output>;
}

impl Delayed for Executed<'_> {
    fn attempts(&self) -> u32 {
        self.attempts()
    }

    fn is_released(&self) -> bool {
        self.is_released()
    }

    fn wait(self) -> heddledb::Result<Output> {
        self.wait()
    }
}

/// Calls that were executed as one group.
pub(super) struct Group<E> {
    /// The highest epoch of its calls.
    pub epoch: u64,
    /// A result of that epoch, to wait for, and its index among the results.
    pub newest: Option<E>,
    pub newest_place: usize,
    pub tally: Tally,
    /// Results that are recorded one by one: failed calls, and calls that were stashed.
    pub special: Vec<Single<E>>,
    /// The lines that acknowledge the tallied calls.
    pub lines: String,
}

/// One call whose result is recorded on its own.
pub(super) struct Single<E> {
    pub executed: E,
    pub procedure: usize,
    pub marks: u32,
    /// Time at which it was generated, or its planned arrival, if its latency counts.
    pub timing: Option<Timing>,
    /// The line that acknowledges it if it commits.
    pub line: String,
}

/// The queues of one worker.
pub(super) struct Waiting<'a, E> {
    context: &'a Context<'a>,
    procedures: usize,
    groups: VecDeque<Group<E>>,
    /// Empty groups, kept for their memory.
    spare: Vec<Group<E>>,
    deferred: VecDeque<Single<E>>,
    /// Calls released since the last progress report.
    pub released: u64,
}

impl<'a, E: Delayed> Waiting<'a, E> {
    /// Creates empty queues, for calls of this many procedures.
    pub fn new(context: &'a Context<'a>, procedures: usize) -> Self {
        Self {
            context,
            procedures,
            groups: VecDeque::new(),
            spare: Vec::new(),
            deferred: VecDeque::new(),
            released: 0,
        }
    }

    /// An empty group.
    pub fn new_group(&mut self) -> Group<E> {
        let mut group = self.spare.pop().unwrap_or_else(|| Group {
            epoch: 0,
            newest: None,
            newest_place: 0,
            tally: Tally::new(self.procedures),
            special: Vec::new(),
            lines: String::new(),
        });
        group.epoch = 0;
        group.newest_place = usize::MAX;
        group
    }

    pub fn push(&mut self, group: Group<E>) {
        self.groups.push_back(group);
    }

    pub fn defer(&mut self, call: Single<E>) {
        self.deferred.push_back(call);
    }

    pub fn has_deferred(&self) -> bool {
        !self.deferred.is_empty()
    }

    /// Records the groups that are durable by now, and polls the stashed calls.
    pub fn take_released(&mut self, durable: u64, now: Instant, recorder: &mut Recorder) -> Result<()> {
        while self.groups.front().is_some_and(|group| group.epoch <= durable)
            && let Some(group) = self.groups.pop_front()
        {
            self.release(group, Some(now), recorder)?;
        }
        self.look_at_deferred(recorder)
    }

    /// Returns true if more calls may be generated. Waits for the oldest group if there are too many.
    pub fn has_room(&mut self, recorder: &mut Recorder) -> Result<bool> {
        if self.groups.len() >= MOST_GROUPS
            && let Some(group) = self.groups.pop_front()
        {
            self.release(group, None, recorder)?;
        }
        if self.deferred.len() >= MOST_DEFERRED {
            self.look_at_deferred(recorder)?;
        }
        Ok(self.deferred.len() < MOST_DEFERRED)
    }

    /// Waits for every group.
    pub fn release_all(&mut self, recorder: &mut Recorder) -> Result<()> {
        while let Some(group) = self.groups.pop_front() {
            self.release(group, None, recorder)?;
        }
        Ok(())
    }

    /// Records a group. `now`: the group is known to be released; `None`: wait for it.
    fn release(&mut self, mut group: Group<E>, now: Option<Instant>, recorder: &mut Recorder) -> Result<()> {
        let newest = group.newest.take();
        let at = match (now, newest) {
            (Some(now), _) => now,
            (None, Some(newest)) => {
                // All tallied calls have committed; only a failure of the log can still turn up.
                newest.wait()?;
                Instant::now()
            }
            (None, None) => Instant::now(),
        };
        self.acknowledge(&group.lines)?;
        group.lines.clear();
        self.released += recorder.record_tally(&self.context.interval, at, &mut group.tally);
        for call in group.special.drain(..) {
            self.release_one(call, recorder)?;
        }
        self.spare.push(group);
        Ok(())
    }

    /// Polls the stashed calls, and records those that have been released.
    pub fn look_at_deferred(&mut self, recorder: &mut Recorder) -> Result<()> {
        let mut looks = LOOKS.min(self.deferred.len());
        while looks > 0
            && let Some(call) = self.deferred.pop_front()
        {
            if call.executed.is_released() {
                self.release_one(call, recorder)?;
            } else {
                looks -= 1;
                self.deferred.push_back(call);
            }
        }
        Ok(())
    }

    /// Records one call; waits for its result if it has not been released yet.
    fn release_one(&mut self, call: Single<E>, recorder: &mut Recorder) -> Result<()> {
        let Single { executed, procedure, marks, timing, line } = call;
        let retries = executed.attempts().saturating_sub(1);
        let outcome = outcome(self.context.bound, executed.wait())?;
        let at = Instant::now();
        if outcome == Outcome::Committed {
            self.acknowledge(&line)?;
        }
        self.released += 1;
        let latency = timing.map(|timing| (timing.latency(at), timing.weight));
        let release = Release { procedure, marks, outcome, retries, at, latency };
        recorder.record(&self.context.interval, release);
        Ok(())
    }

    fn acknowledge(&self, lines: &str) -> Result<()> {
        match &self.context.acknowledgements {
            Some(acknowledgements) if !lines.is_empty() => acknowledgements.write(lines),
            _ => Ok(()),
        }
    }
}
