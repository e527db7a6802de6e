//! A call on its way to the executors, and who is told how it ends.

use std::sync::Arc;
use std::thread::{self, Thread};

use parking_lot::Mutex;

use crate::base::activity::{Activity, at};
use crate::base::atomics::{AtomicUsize, Ordering};
use crate::error::Error;
use crate::pipeline::call::{Answer, Call, Output, Routine};
use crate::pipeline::execute::Ending;
use crate::pipeline::worker::Pending;
use crate::protocol::footprint::Footprint;
use crate::protocol::local::routing::Route;
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

/// Calls of a group that are one executor's, in order: they go there and come back together.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) calls: Vec<Entrant>,
    /// Their places in the group.
    pub(super) places: Vec<usize>,
    /// How those that have ended did, with their places.
    pub(super) ended: Vec<(usize, Ending, Output)>,
    /// Who waits for them.
    pub(super) group: Option<Arc<Group>>,
}

impl Batch {
    pub(super) fn push(&mut self, place: usize, call: Entrant) {
        self.calls.push(call);
        self.places.push(place);
    }

    /// Takes a call out, which goes its own way from here on.
    pub(super) fn take_out(&mut self, number: usize) -> Box<Entrant> {
        let (call, place) = (self.calls.remove(number), self.places.remove(number));
        alone(self.group.as_ref(), call, place)
    }

    /// Takes all calls out, which are to be routed anew.
    pub(super) fn take_back(&mut self) -> impl Iterator<Item = Waiting> {
        let calls = self.calls.drain(..).zip(self.places.drain(..));
        calls.map(|(entrant, place)| Waiting { place, route: Route::new(), entrant })
    }

    /// Takes all calls out.
    pub(super) fn take_apart(&mut self) -> impl Iterator<Item = Box<Entrant>> {
        let Batch { calls, places, group, .. } = self;
        calls.drain(..).zip(places.drain(..)).map(|(call, place)| alone(group.as_ref(), call, place))
    }
}

/// A call of a batch that tells its group by itself how it ends.
fn alone(group: Option<&Arc<Group>>, mut call: Entrant, place: usize) -> Box<Entrant> {
    if let Some(group) = group {
        call.sink = Sink::Group(group.clone(), place);
    }
    Box::new(call)
}

/// A call that goes to these executors, and its place in its group.
pub(super) struct Waiting {
    pub(super) place: usize,
    pub(super) route: Route,
    pub(super) entrant: Entrant,
}

/// What a worker of the caller's keeps from group to group, for its memory.
#[derive(Default)]
pub(crate) struct GroupMemory {
    /// Calls that will go to the executors together.
    pub(super) waiting: Vec<Waiting>,
    /// Of the boundaries by which they were routed.
    pub(super) version: u64,
    #[expect(clippy::vec_box, reason = "they come and go in boxes")]
    pub(super) batches: Vec<Box<Batch>>,
    /// Footprints of calls that have ended.
    pub(crate) spare: Vec<Footprint>,
    pub(crate) ended: Vec<(Ending, Output)>,
}

impl GroupMemory {
    pub(super) fn batch(&mut self) -> Box<Batch> {
        self.batches.pop().unwrap_or_default()
    }

    /// What a group has come to.
    pub(super) fn take_in(&mut self, group: &Group) {
        let Ended { calls, batches } = group.wait();
        self.ended.extend(calls.into_iter().map(|one| one.unwrap_or_else(closed)));
        for batch in batches {
            self.keep(batch);
        }
    }

    /// Empties a batch whose calls have ended, or were never let in.
    pub(super) fn keep(&mut self, mut batch: Box<Batch>) {
        self.spare.extend(batch.calls.drain(..).map(|call| call.footprint));
        batch.places.clear();
        batch.group = None;
        self.batches.push(batch);
    }
}

/// Calls that one thread waits for.
pub(crate) struct Group {
    left: AtomicUsize,
    ended: Mutex<Ended>,
    waiter: Thread,
}

/// What calls have come to.
#[derive(Default)]
struct Ended {
    calls: Vec<Option<(Ending, Output)>>,
    #[expect(clippy::vec_box, reason = "they come and go in boxes")]
    batches: Vec<Box<Batch>>,
}

impl Group {
    /// So many, for which this thread will wait.
    pub(crate) fn new(calls: usize) -> Arc<Group> {
        let ended = Ended { calls: (0..calls).map(|_| None).collect(), batches: Vec::new() };
        Arc::new(Group { left: AtomicUsize::new(calls), ended: Mutex::new(ended), waiter: thread::current() })
    }

    /// A call has ended.
    pub(super) fn end(&self, place: usize, ending: Ending, output: Output) {
        self.ended.lock().calls[place] = Some((ending, output));
        self.count_down(1);
    }

    /// All calls of a batch have ended.
    pub(super) fn end_batch(&self, mut batch: Box<Batch>) {
        let calls = batch.ended.len();
        let mut ended = self.ended.lock();
        for (place, ending, output) in batch.ended.drain(..) {
            ended.calls[place] = Some((ending, output));
        }
        ended.batches.push(batch);
        drop(ended);
        self.count_down(calls);
    }

    fn count_down(&self, calls: usize) {
        // Release pairs with the acquire in `wait`; the mutex would do it as well.
        if self.left.fetch_sub(calls, Ordering::Release) == calls {
            self.waiter.unpark();
        }
    }

    /// So many calls were not let in.
    pub(super) fn refuse(&self, calls: usize) {
        self.left.fetch_sub(calls, Ordering::Release);
    }

    /// Waits until all have ended.
    fn wait(&self) -> Ended {
        // Executors do its work meanwhile.
        let _elsewhere = at(Activity::Elsewhere);
        while self.left.load(Ordering::Acquire) > 0 {
            thread::park();
        }
        std::mem::take(&mut *self.ended.lock())
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

impl Pending for Entrant {
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
            let mut memory = GroupMemory::default();
            memory.take_in(&group);
            assert!(memory.ended.iter().map(|(ending, _)| ending.epoch).eq(0..50));
        });
        GroupMemory::default().take_in(&Group::new(0));
    }

    #[test]
    fn a_batch_ends_at_once_and_is_used_again() {
        let group = Group::new(3);
        let mut memory = GroupMemory::default();
        let mut batch = memory.batch();
        batch.group = Some(group.clone());
        batch.ended.extend([2, 0].map(|place| (place, ending(place as u64), Output::default())));
        let told = group.clone();
        let other = thread::spawn(move || {
            told.end_batch(batch);
            told.end(1, ending(1), Output::default());
        });
        memory.take_in(&group);
        other.join().expect("it ends");
        assert!(memory.ended.iter().map(|(ending, _)| ending.epoch).eq(0..3));
        let again = memory.batch();
        assert!(memory.batches.is_empty() && again.group.is_none() && again.ended.is_empty());
        assert!(again.ended.capacity() > 0, "its memory is kept");
        // What was not let in is told so.
        let refused = Group::new(1);
        refused.refuse(1);
        memory.ended.clear();
        memory.take_in(&refused);
        assert!(matches!(memory.ended[0].0.failure.as_deref(), Some(Error::Closed)));
    }
}
