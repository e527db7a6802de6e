//! A call on its way to the executors, and who is told how it ends.

use std::sync::Arc;
use std::thread::{self, Thread};
use std::time::Duration;

use parking_lot::Mutex;

use super::manager::Sampler;
use super::pending::Pending as PendingCall;
use super::queue::executors_of;
use crate::base::activity::{Activity, at};
use crate::base::atomics::{AtomicUsize, Ordering};
use crate::base::random;
use crate::error::Error;
use crate::pipeline::call::{Answer, Call, Output, Routine};
use crate::pipeline::execute::Outcome;
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

/// Calls of a group that are one executor's, in order: they go there and come back together.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) calls: Vec<Entrant>,
    /// Their places in the group.
    pub(super) places: Vec<usize>,
    /// How those that have ended did, with their places.
    pub(super) ended: Vec<(usize, Outcome, Output)>,
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

/// A call of a worker's group: it runs where its owner visits, or is handed over.
pub(crate) trait Offered: Pending {
    /// The procedure and the arguments, and the footprint as it is worked out.
    fn parts_mut(&mut self) -> (&(dyn Routine + 'static), &Args, &mut Footprint);

    /// The call for an executor's thread, with the footprint.
    fn hand_batch(&mut self) -> Entrant;

    /// It was not let in.
    fn take_back(&mut self, entrant: Entrant);
}

/// What a worker of the caller's keeps from group to group, for its memory.
#[derive(Default)]
pub(crate) struct GroupMemory {
    /// The places of calls that are not routed yet, in order.
    pub(super) coming: Vec<usize>,
    /// Those that are, and have not run, in order.
    pub(super) pending: Vec<PendingCall>,
    /// Of the boundaries by which all of these were routed.
    pub(super) version: u64,
    /// What was done in place of each executor.
    pub(super) visited: Vec<Visited>,
    pub(super) timer: Timer,
    /// Which requests are counted, for who moves boundaries.
    pub(super) sampler: Sampler,
    #[expect(clippy::vec_box, reason = "they come and go in boxes")]
    pub(super) batches: Vec<Box<Batch>>,
    /// Footprints of calls that were handed over, and have ended.
    pub(crate) spare: Vec<Footprint>,
    /// How the calls of the group have ended, in their order.
    pub(crate) ended: Vec<Option<(Outcome, Output)>>,
}

/// What a group has done in place of an executor: how many calls, and for how long.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Visited {
    pub(super) calls: u64,
    pub(super) busy: Duration,
}

/// Chooses the groups whose calls are timed, for who moves boundaries: by chance, and all where calls take long. To look at the clock
/// for each call would cost as much as entering its room.
#[derive(Debug, Default)]
pub(super) struct Timer {
    /// So many groups are left out before the next one, and were so before this one.
    left: u32,
    before: u32,
    /// For how many groups this one stands.
    pub(super) weight: Option<u32>,
    /// How long the calls of this one have run.
    took: Duration,
}

impl Timer {
    /// One group of so many is timed, on the average.
    const EVERY: u32 = 8;
    /// Whose calls take longer costs nothing to time.
    const LONG: Duration = Duration::from_micros(200);

    /// A group begins.
    pub(super) fn begin(&mut self) {
        self.took = Duration::ZERO;
        self.weight = (self.left == 0).then_some(self.before + 1);
        self.left = self.left.saturating_sub(1);
    }

    /// A call of a group that is timed has taken so long. For how long it stands.
    pub(super) fn note(&mut self, took: Duration) -> Duration {
        self.took += took;
        took * self.weight.unwrap_or(1)
    }

    /// The group has ended.
    pub(super) fn end(&mut self) {
        if self.weight.is_some() {
            let is_long = self.took > Timer::LONG;
            self.before = if is_long { 0 } else { random::below(2 * Timer::EVERY - 1) };
            self.left = self.before;
        }
    }
}

impl GroupMemory {
    pub(super) fn batch(&mut self) -> Box<Batch> {
        self.batches.pop().unwrap_or_default()
    }

    /// A call has run in place of the executors of its rooms, and was timed.
    pub(super) fn note_time(&mut self, call: &PendingCall, took: Duration) {
        let busy = self.timer.note(took);
        executors_of(&call.rooms).for_each(|executor| self.visited[executor].busy += busy);
    }

    /// What calls have come to that were handed over: waits for them.
    pub(super) fn take_in(&mut self, group: &Group) {
        let Ended { calls, batches } = group.wait();
        for (place, outcome, output) in calls {
            self.ended[place] = Some((outcome, output));
        }
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
    /// With their places in the group.
    calls: Vec<(usize, Outcome, Output)>,
    #[expect(clippy::vec_box, reason = "they come and go in boxes")]
    batches: Vec<Box<Batch>>,
}

impl Group {
    /// For which this thread will wait; none yet.
    pub(crate) fn new() -> Arc<Group> {
        let (left, ended) = (AtomicUsize::new(0), Mutex::default());
        Arc::new(Group { left, ended, waiter: thread::current() })
    }

    /// So many calls more will be waited for: by the waiter, before they are let in.
    pub(super) fn await_more(&self, calls: usize) {
        // Relaxed: letting them in orders it before their ends. That all before them have ended by now, and their last has
        // woken the waiter in vain, does no harm.
        self.left.fetch_add(calls, Ordering::Relaxed);
    }

    /// A call has ended.
    pub(super) fn end(&self, place: usize, outcome: Outcome, output: Output) {
        self.ended.lock().calls.push((place, outcome, output));
        self.count_down(1);
    }

    /// All calls of a batch have ended.
    pub(super) fn end_batch(&self, mut batch: Box<Batch>) {
        let calls = batch.ended.len();
        let mut ended = self.ended.lock();
        ended.calls.append(&mut batch.ended);
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
pub(crate) fn closed() -> (Outcome, Output) {
    (Outcome::refused(1, Error::Closed), Output::default())
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

/// A call that is somewhere else.
impl<P: Pending> Pending for &P {
    type Routine = P::Routine;

    #[inline]
    fn parts(&self) -> (&P::Routine, &Args, &Footprint) {
        (**self).parts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(epoch: u64) -> Outcome {
        Outcome { epoch, attempts: 1, wrote: true, failure: None, stashed: false }
    }

    fn memory_of(calls: usize) -> GroupMemory {
        GroupMemory { ended: (0..calls).map(|_| None).collect(), ..GroupMemory::default() }
    }

    fn epochs(memory: &GroupMemory) -> impl Iterator<Item = u64> + '_ {
        memory.ended.iter().flatten().map(|(outcome, _)| outcome.epoch)
    }

    #[test]
    fn a_group_has_its_results_in_the_order_of_its_calls() {
        let group = Group::new();
        group.await_more(50);
        thread::scope(|scope| {
            for half in 0..2 {
                let group = &group;
                scope.spawn(move || {
                    (0..50).rev().filter(|place| place % 2 == half).for_each(|place| {
                        group.end(place, outcome(place as u64), Output::default());
                    });
                });
            }
            let mut memory = memory_of(50);
            memory.take_in(&group);
            assert!(epochs(&memory).eq(0..50));
            // The same group waits for more.
            memory.ended[7] = None;
            group.await_more(1);
            scope.spawn(|| group.end(7, outcome(70), Output::default()));
            memory.take_in(&group);
            assert_eq!(epochs(&memory).sum::<u64>(), (0..50).sum::<u64>() + 63);
        });
        GroupMemory::default().take_in(&Group::new());
    }

    #[test]
    fn groups_are_timed_by_chance_and_stand_for_those_that_are_not() {
        let of = |took: Duration| {
            let mut timer = Timer::default();
            let (mut timed, mut sum) = (0, Duration::ZERO);
            for _ in 0..80_000 {
                timer.begin();
                if timer.weight.is_some() {
                    timed += 1;
                    sum += timer.note(took);
                }
                timer.end();
            }
            (timed, sum)
        };
        let (timed, sum) = of(Duration::from_micros(20));
        assert!((8_000..12_500).contains(&timed), "{timed}");
        let all = Duration::from_micros(20 * 80_000);
        assert!(sum > all * 99 / 100 && sum <= all, "{sum:?}");
        assert_eq!(
            of(Duration::from_millis(1)),
            (80_000, Duration::from_secs(80)),
            "long ones are all timed"
        );
    }

    #[test]
    fn a_batch_ends_at_once_and_is_used_again() {
        let group = Group::new();
        group.await_more(3);
        let mut memory = memory_of(3);
        let mut batch = memory.batch();
        batch.group = Some(group.clone());
        batch.ended.extend([2, 0].map(|place| (place, outcome(place as u64), Output::default())));
        let told = group.clone();
        let other = thread::spawn(move || {
            told.end_batch(batch);
            told.end(1, outcome(1), Output::default());
        });
        memory.take_in(&group);
        other.join().expect("it ends");
        assert!(epochs(&memory).eq(0..3));
        let again = memory.batch();
        assert!(memory.batches.is_empty() && again.group.is_none() && again.ended.is_empty());
        assert!(again.ended.capacity() > 0, "its memory is kept");
        // What was not let in is told so.
        let refused = Group::new();
        refused.await_more(2);
        refused.refuse(2);
        memory.ended = vec![None];
        memory.take_in(&refused);
        assert!(memory.ended[0].is_none());
        assert!(matches!(closed().0.failure.as_deref(), Some(Error::Closed)));
    }
}
