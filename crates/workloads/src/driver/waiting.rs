//! What one worker has executed and not yet released.
//!
//! What has to stay true:
//! - A group is released when the log is durable through the highest epoch of its calls, in the order in which groups
//!   were made; its results are released only then.
//! - A call that the protocol has put off delays no other call: it stands in a queue of its own, of which a few are looked
//!   at in each round, so that ten thousand of them cost a round no more than four.
//! - Both queues are bounded.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Instant;

use heddledb::{Executed, Output};

use super::recorder::{Outcome, Recorder, Release, Tally};
use super::{Context, outcome};
use crate::Result;

/// Unreleased groups that a worker keeps before it waits for the oldest.
const MOST_GROUPS: usize = 16_384;

/// Calls put off that a worker keeps before it makes no more.
const MOST_DEFERRED: usize = 65_536;

/// Calls put off that are looked at in a round without being found released.
const LOOKS: usize = 4;

/// What the queues have to know of a result that is released later.
pub(super) trait Delayed {
    /// How many attempts the call took.
    fn attempts(&self) -> u32;

    /// Whether the result can be had without waiting.
    fn is_released(&self) -> bool;

    /// Waits for the result.
    ///
    /// # Errors
    /// The call's own, or the engine's.
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

/// Calls that were executed together.
pub(super) struct Group<E> {
    /// The highest epoch of its calls.
    pub epoch: u64,
    /// The result of that epoch, to wait for, and its place among the results.
    pub newest: Option<E>,
    pub newest_place: usize,
    pub tally: Tally,
    /// Results with more to tell than that they committed.
    pub special: Vec<Single<E>>,
    /// The lines that acknowledge the tallied calls.
    pub lines: String,
}

/// One call whose result is released alone.
pub(super) struct Single<E> {
    pub executed: E,
    pub procedure: usize,
    pub marks: u32,
    /// When it was made, or was to arrive.
    pub arrival: Instant,
    /// The line that acknowledges it if it commits.
    pub line: String,
}

/// The queues of one worker.
pub(super) struct Waiting<'a, E> {
    context: &'a Context<'a>,
    procedures: usize,
    groups: VecDeque<Group<E>>,
    /// Emptied groups, whose memory is used again.
    spare: Vec<Group<E>>,
    deferred: VecDeque<Single<E>>,
    /// Calls released since the last progress report.
    pub released: u64,
}

impl<'a, E: Delayed> Waiting<'a, E> {
    /// Empty queues for calls of this many procedures.
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

    /// An empty group for calls made now.
    pub fn new_group(&mut self, now: Instant) -> Group<E> {
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
        if self.context.arrivals.is_none() {
            group.tally.begin(now);
        }
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

    /// Counts what has been released.
    pub fn take_released(&mut self, durable: u64, now: Instant, recorder: &mut Recorder) -> Result<()> {
        while self.groups.front().is_some_and(|group| group.epoch <= durable)
            && let Some(group) = self.groups.pop_front()
        {
            self.release(group, Some(now), recorder)?;
        }
        self.look_at_deferred(recorder)
    }

    /// Whether more calls may be made. Waits for the oldest group where there are too many.
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

    /// Counts a group, which has been released by now, or is waited for.
    fn release(&mut self, mut group: Group<E>, now: Option<Instant>, recorder: &mut Recorder) -> Result<()> {
        let newest = group.newest.take();
        let at = match (now, newest) {
            (Some(now), _) => now,
            (None, Some(newest)) => {
                // All that is tallied has committed; only the log can still have failed.
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

    /// Looks whether calls put off have been released.
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

    /// Counts one call, which is waited for where it has not been released yet.
    fn release_one(&mut self, call: Single<E>, recorder: &mut Recorder) -> Result<()> {
        let Single { executed, procedure, marks, arrival, line } = call;
        let retries = executed.attempts().saturating_sub(1);
        let outcome = outcome(self.context.bound, executed.wait())?;
        let at = Instant::now();
        if outcome == Outcome::Committed {
            self.acknowledge(&line)?;
        }
        self.released += 1;
        let latency = Some(at.saturating_duration_since(arrival));
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
