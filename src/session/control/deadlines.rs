//! Deadlines of transactions, of waits and of predicted reservations: one thread monitors those of all sessions.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::{Control, Sessions, wake};
use crate::error::{Error, Result, Timeout};

/// The deadlines that must be monitored.
#[derive(Default)]
pub(super) struct Timer {
    /// The deadlines by time, and by a number that distinguishes those of one moment.
    deadlines: BTreeMap<(Instant, u64), Weak<Control>>,
    last: u64,
    /// True if its thread was started.
    is_running: bool,
    is_stopped: bool,
}

impl Sessions {
    /// Starts the timer's thread, unless it runs or the database is being closed.
    ///
    /// # Errors
    /// Those of `start`.
    pub(crate) fn start_timer(&self, start: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut timer = self.timer.lock();
        if !timer.is_running && !timer.is_stopped {
            start()?;
            timer.is_running = true;
        }
        Ok(())
    }

    /// The life of the timer's thread: aborts transactions whose time is over.
    pub(crate) fn run_timer(&self) {
        let mut timer = self.timer.lock();
        while !timer.is_stopped {
            let now = Instant::now();
            match timer.deadlines.first_key_value().map(|(&(at, _), _)| at) {
                None => self.changed.wait(&mut timer),
                Some(at) if at > now => drop(self.changed.wait_until(&mut timer, at)),
                Some(_) => {
                    let Some((_, control)) = timer.deadlines.pop_first() else { continue };
                    drop(timer);
                    if let Some(control) = control.upgrade() {
                        control.look_at_deadlines(now);
                    }
                    timer = self.timer.lock();
                }
            }
        }
    }

    /// Aborts all transactions, because the database is being closed, and ends the timer's thread.
    pub(crate) fn close(&self) {
        self.timer.lock().is_stopped = true;
        self.changed.notify_all();
        let open: Vec<_> = self.shared.lock().open.values().filter_map(Weak::upgrade).collect();
        open.iter().for_each(|control| control.abort(Error::Closed));
    }

    fn look_at(&self, at: Instant, control: Weak<Control>) {
        let mut timer = self.timer.lock();
        timer.last += 1;
        let number = timer.last;
        timer.deadlines.insert((at, number), control);
        drop(timer);
        self.changed.notify_all();
    }
}

impl Control {
    /// Sets the time at which the whole transaction must have ended.
    pub(in super::super) fn end_by(self: &Arc<Control>, whole: Option<Instant>) {
        self.state.lock().whole = whole;
        self.set_timer();
    }

    /// Sets the time by which what the session is at must have ended.
    pub(in super::super) fn go_on_within(self: &Arc<Control>, time: Option<Duration>, what: Timeout) {
        let step = time.and_then(|time| Instant::now().checked_add(time)).map(|at| (at, what));
        self.state.lock().step = step;
        if step.is_some() {
            self.set_timer();
        }
    }

    /// Makes the timer look at the session at its earliest deadline.
    pub(super) fn set_timer(self: &Arc<Control>) {
        let mut state = self.state.lock();
        let Some(at) = state.next_look() else { return };
        if state.looked_at.is_some_and(|looked_at| looked_at <= at) {
            return;
        }
        state.looked_at = Some(at);
        drop(state);
        self.sessions.look_at(at, Arc::downgrade(self));
    }

    fn look_at_deadlines(self: &Arc<Control>, now: Instant) {
        // Held until the abort, so that the transaction whose time is over does not end meanwhile and another begin.
        let mut shared = self.sessions.shared.lock();
        let mut state = self.state.lock();
        state.looked_at = None;
        let (earliest, transaction) = (state.earliest(), state.transaction);
        let has_waited = state.predicted.take_if(|at| *at <= now).is_some();
        drop(state);
        let released = has_waited.then(|| self.sessions.hot_rows.time_out(&self.predicting));
        if let Some(released) = released.filter(|released| released.len() > 0) {
            drop(shared);
            released.wake();
            self.set_timer();
            return;
        }
        match (earliest, transaction) {
            (Some((at, what)), Some(transaction)) if at <= now => {
                let wakers = self.sessions.abort(&mut shared, self, transaction, Error::TimedOut { what });
                drop(shared);
                wake(wakers);
            }
            _ => {
                drop(shared);
                self.set_timer();
            }
        }
    }
}
