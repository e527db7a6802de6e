//! Generators: threads that make calls and place them in the workers' queues, without waiting for the answers.
//!
//! Calls are made and placed apart from their execution, as in the experiments of the conflict prediction
//! paper. A generator waits only if the engine admits no more calls, or if the queue of a call is full. The
//! thread that releases an answer records the time; the generator counts the answer later.
//!
//! Invariants: a call counts at the time of its release, not at the time when its generator looked.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use heddledb::{Output, Submitted};

use super::clients::{next_arrival, refusal};
use super::recorder::{Outcome, Recorder, Release};
use super::{Context, outcome};
use crate::Result;
use crate::calls::Calls;
use crate::workload::Generator;

/// Time for which a generator that has made all its calls sleeps before it looks for answers again.
const IDLE: Duration = Duration::from_micros(200);

/// The answers that were released, by their calls' places.
type Board = Arc<Mutex<Vec<(usize, Instant)>>>;

/// Notes when a call's answer is released.
struct Bell {
    place: usize,
    board: Board,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut board = self.board.lock().unwrap_or_else(PoisonError::into_inner);
        board.push((self.place, Instant::now()));
    }
}

/// A call under way.
struct UnderWay {
    submitted: Submitted,
    procedure: usize,
    marks: u32,
    arrival: Instant,
    /// The line that acknowledges it; empty where it is not wanted.
    line: String,
}

/// One generator's loop.
struct Loop<'a> {
    context: &'a Context<'a>,
    generator: Box<dyn Generator>,
    recorder: Recorder,
    calls: Calls,
    under_way: Vec<Option<UnderWay>>,
    /// One for each place, used again.
    wakers: Vec<Waker>,
    free: Vec<usize>,
    board: Board,
    released: Vec<(usize, Instant)>,
}

/// Makes calls until the run ends, and waits for all of them.
pub(super) fn run(context: &Context<'_>, number: usize) -> Result<Recorder> {
    let generator = context.bound.generator(context.settings.seed, number)?;
    let recorder = Recorder::new(generator.procedures().len());
    let mut this = Loop {
        context,
        generator,
        recorder,
        calls: Calls::default(),
        under_way: Vec::new(),
        wakers: Vec::new(),
        free: Vec::new(),
        board: Board::default(),
        released: Vec::new(),
    };
    let mut ended = false;
    while !ended && let Some(arrival) = next_arrival(context) {
        ended = this.make(arrival)?;
        this.collect()?;
    }
    while this.free.len() < this.under_way.len() {
        std::thread::sleep(IDLE);
        this.collect()?;
    }
    Ok(this.recorder)
}

impl Loop<'_> {
    /// Makes one call. Whether the input has ended.
    fn make(&mut self, arrival: Instant) -> Result<bool> {
        let Context { interval, db, bound, .. } = self.context;
        self.calls.begin(interval.since_measured(Instant::now()));
        let ended = !self.generator.fill(&mut self.calls, 1)?;
        for refused in self.calls.refused() {
            self.recorder.record(interval, refusal(*refused));
            interval.count_released(1);
        }
        let Some(call) = self.calls.get(0) else { return Ok(ended) };
        let (procedure, marks) = (call.procedure, call.marks);
        let wanted = self.context.acknowledgements.as_ref();
        let key = wanted.and_then(|_| bound.acknowledgement(call));
        let line = key.map_or_else(String::new, |key| key + "\n");
        self.context.settings.work_input(1);
        let args = self.calls.take_args(0);
        let submitted =
            db.submit(&self.generator.procedures()[procedure], args).map_err(crate::Error::Engine)?;
        self.keep(UnderWay { submitted, procedure, marks, arrival, line })?;
        Ok(ended)
    }

    /// Keeps a call until its answer is there; it may be there already.
    fn keep(&mut self, call: UnderWay) -> Result<()> {
        let place = self.free.pop().unwrap_or_else(|| {
            let place = self.under_way.len();
            self.under_way.push(None);
            self.wakers.push(Waker::from(Arc::new(Bell { place, board: self.board.clone() })));
            place
        });
        self.under_way[place] = Some(call);
        self.look(place, Instant::now())
    }

    /// Counts what was released.
    fn collect(&mut self) -> Result<()> {
        let mut released = std::mem::take(&mut self.released);
        released.append(&mut self.board.lock().unwrap_or_else(PoisonError::into_inner));
        released.drain(..).try_for_each(|(place, at)| self.look(place, at))?;
        self.released = released;
        Ok(())
    }

    /// Counts a call if its answer is there.
    fn look(&mut self, place: usize, at: Instant) -> Result<()> {
        let Some(call) = &mut self.under_way[place] else { return Ok(()) };
        let mut context = TaskContext::from_waker(&self.wakers[place]);
        let Poll::Ready(result) = Pin::new(&mut call.submitted).poll(&mut context) else { return Ok(()) };
        let Some(call) = self.under_way[place].take() else { return Ok(()) };
        self.free.push(place);
        self.count(call, result, at)
    }

    fn count(&mut self, call: UnderWay, result: heddledb::Result<Output>, at: Instant) -> Result<()> {
        let outcome = outcome(self.context.bound, result)?;
        if let (Some(acknowledgements), Outcome::Committed) = (&self.context.acknowledgements, &outcome)
            && !call.line.is_empty()
        {
            acknowledgements.write(&call.line)?;
        }
        let retries = call.submitted.aborted();
        let UnderWay { procedure, marks, arrival, .. } = call;
        let latency = Some((at.saturating_duration_since(arrival), 1));
        let release = Release { procedure, marks, outcome, retries, at, latency };
        self.recorder.record(&self.context.interval, release);
        self.context.interval.count_released(1);
        Ok(())
    }
}
