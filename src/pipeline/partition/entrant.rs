//! A call on its way to the executors, and who is told how it ends.

use std::sync::Arc;
use std::thread::{self, Thread};

use parking_lot::Mutex;

use crate::base::atomics::{AtomicUsize, Ordering};
use crate::error::Error;
use crate::pipeline::call::{Answer, Call, Output, Routine};
use crate::pipeline::execute::Ending;
use crate::pipeline::worker::Pending;
use crate::protocol::footprint::Footprint;
use crate::types::Args;

/// A call, with what it touches.
pub(crate) struct Entrant {
    pub(crate) routine: Arc<dyn Routine>,
    pub(crate) args: Args,
    pub(crate) footprint: Footprint,
    pub(crate) sink: Sink,
}

/// Who is told how a call ends.
pub(crate) enum Sink {
    /// Nobody yet.
    Nobody,
    /// A caller, once the result is durable.
    Answer(Arc<Answer>),
    /// A worker of the caller's, at once: the call's place in its group.
    Group(Arc<Group>, usize),
}

/// Calls that one thread waits for.
pub(crate) struct Group {
    left: AtomicUsize,
    ended: Mutex<Vec<Option<(Ending, Output)>>>,
    waiter: Thread,
}

impl Group {
    /// So many, for which this thread will wait.
    pub(crate) fn new(calls: usize) -> Arc<Group> {
        let ended = (0..calls).map(|_| None).collect();
        Arc::new(Group { left: AtomicUsize::new(calls), ended: Mutex::new(ended), waiter: thread::current() })
    }

    /// A call has ended.
    pub(super) fn end(&self, place: usize, ending: Ending, output: Output) {
        self.ended.lock()[place] = Some((ending, output));
        // Release pairs with the acquire in `wait`; the mutex would do it as well.
        if self.left.fetch_sub(1, Ordering::Release) == 1 {
            self.waiter.unpark();
        }
    }

    /// So many calls were not let in.
    pub(super) fn refuse(&self, calls: usize) {
        self.left.fetch_sub(calls, Ordering::Release);
    }

    /// Waits until all have ended.
    pub(crate) fn wait(&self) -> Vec<(Ending, Output)> {
        while self.left.load(Ordering::Acquire) > 0 {
            thread::park();
        }
        let ended = std::mem::take(&mut *self.ended.lock());
        ended.into_iter().map(|one| one.unwrap_or_else(closed)).collect()
    }
}

/// How a call ends that was not let in.
fn closed() -> (Ending, Output) {
    (Ending::refused(1, Error::Closed), Output::default())
}

impl From<Call> for Entrant {
    fn from(call: Call) -> Entrant {
        let Call { routine, args, footprint, answer, .. } = call;
        Entrant { routine, args, footprint, sink: Sink::Answer(answer) }
    }
}

impl Pending for Box<Entrant> {
    type Routine = dyn Routine;

    fn parts(&self) -> (&(dyn Routine + 'static), &Args, &Footprint) {
        (&*self.routine, &self.args, &self.footprint)
    }
}

impl Pending for &Entrant {
    type Routine = dyn Routine;

    fn parts(&self) -> (&(dyn Routine + 'static), &Args, &Footprint) {
        (&*self.routine, &self.args, &self.footprint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ending(epoch: u64) -> Ending {
        Ending { epoch, attempts: 1, wrote: true, failure: None, stashed: false }
    }

    #[test]
    fn a_group_has_its_results_in_the_order_of_its_calls() {
        let group = Group::new(50);
        thread::scope(|scope| {
            for half in 0..2 {
                let group = &group;
                scope.spawn(move || {
                    (0..50).rev().filter(|place| place % 2 == half).for_each(|place| {
                        group.end(place, ending(place as u64), Output::default());
                    });
                });
            }
            let ended = group.wait();
            assert!(ended.iter().map(|(ending, _)| ending.epoch).eq(0..50));
        });
        assert!(Group::new(0).wait().is_empty());
    }
}
