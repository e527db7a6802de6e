//! The log of a worker that is execution, log and output in one: it makes the log stage's steps between transactions.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{LogStage, Work};
use crate::pipeline::engine::Engine;

/// Time for which a busy worker that logs itself lets a group grow, unless a time is given.
const OWN_GROUP_TIME: Duration = Duration::from_millis(10);

/// State of a worker that logs the calls it has executed.
pub(crate) struct OwnLog {
    stage: Arc<LogStage>,
    /// Longest time for a group to grow, from the first call that wrote to it; `None`: until the worker is idle, and at
    /// most [`OWN_GROUP_TIME`].
    time: Option<Duration>,
    /// Time at which that call was executed, and the epoch then; `None` if the group is written or empty.
    first: Option<(Instant, u64)>,
}

impl OwnLog {
    pub(crate) fn new(stage: Arc<LogStage>, time: Option<Duration>) -> OwnLog {
        OwnLog { stage, time, first: None }
    }

    /// After a group of calls, of which some `wrote`: logs and releases, if there is nothing else to do, or it is time.
    pub(crate) fn after_group(&mut self, engine: &Engine, wrote: bool, is_idle: bool) {
        let epoch = engine.store().epochs().current();
        if wrote {
            self.first.get_or_insert_with(|| (Instant::now(), epoch));
        }
        let Some((first, begun)) = self.first else { return };
        if self.time.is_some() && begun != epoch {
            // The log's own thread has ended that group, and what this one has added to the next notifies it.
            self.first = None;
            return engine.notify_log();
        }
        let is_over = first.elapsed() >= self.time.unwrap_or(OWN_GROUP_TIME);
        if is_over || engine.group_is_full() || is_idle && self.time.is_none() {
            self.first = None;
            let work = if self.time.is_some() { Work::Close(epoch) } else { Work::CloseAny };
            if !self.stage.try_write_and_release(work) {
                engine.notify_log();
            }
        } else if is_idle {
            // The log's own thread ends the group while this one waits for calls.
            self.first = None;
            engine.notify_log();
        }
    }
}
