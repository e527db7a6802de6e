//! Scheduler maintenance: a thread that looks after the schedule, the limit of calls in flight, and the boundaries
//! between executors, ten times a second.
//!
//! It is started only where there is something to look after. Calls and workers never wait for it.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::pipeline::engine::Engine;
use crate::pipeline::input::Input;
use crate::schedule::Observation;
use crate::schedule::admission::Admission;

/// Interval between two of its turns.
const TURN: Duration = Duration::from_millis(100);
/// A limit is tried for this many turns.
const TURNS_OF_A_LIMIT: u64 = 3;

/// The maintenance thread, which may be started again after it has ended.
pub(crate) struct Maintenance {
    /// The beginning of its time.
    start: Instant,
    stopped: Mutex<bool>,
    event_count: Condvar,
}

impl Default for Maintenance {
    fn default() -> Maintenance {
        Maintenance { start: Instant::now(), stopped: Mutex::default(), event_count: Condvar::new() }
    }
}

/// Counts at the time when the limit was last set.
struct Tried {
    at: Instant,
    committed: u64,
    turned_away: u64,
}

impl Maintenance {
    /// Lets it live: it is started.
    pub(crate) fn resume(&self) {
        *self.stopped.lock() = false;
    }

    /// Ends its life.
    pub(crate) fn stop(&self) {
        *self.stopped.lock() = true;
        self.event_count.notify_all();
    }

    /// Its life. `automatic`: whether it sets the limit of calls in flight.
    pub(crate) fn run(&self, engine: &Engine, input: &Input, automatic: bool) {
        let start = self.start;
        let in_flight = engine.in_flight();
        // Below the number of workers some would have nothing to do.
        let mut admission = automatic.then(|| Admission::new(input.workers().len(), in_flight.limit()));
        if let Some(admission) = &admission {
            in_flight.set_limit(admission.limit());
        }
        let mut tried = Tried { at: Instant::now(), committed: 0, turned_away: 0 };
        for turn in 1.. {
            let mut stopped = self.stopped.lock();
            if !*stopped {
                self.event_count.wait_for(&mut stopped, TURN);
            }
            if *stopped {
                return;
            }
            drop(stopped);
            if let Some(executors) = input.executors() {
                executors.balance();
            }
            let (committed, aborted) = engine.outcomes();
            if input.schedule().maintain(Observation { at: start.elapsed(), committed, aborted }) {
                input.place_again(engine);
            }
            if let (Some(admission), true) = (&mut admission, turn % TURNS_OF_A_LIMIT == 0) {
                let now = Tried { at: Instant::now(), committed, turned_away: in_flight.turned_away() };
                let calls = (now.committed - tried.committed) as f64;
                let throughput = calls / (now.at - tried.at).as_secs_f64().max(1e-3);
                in_flight.set_limit(admission.see(throughput, now.turned_away > tried.turned_away));
                tried = now;
            }
        }
    }
}
