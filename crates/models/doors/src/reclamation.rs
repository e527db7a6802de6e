//! `crossbeam_epoch`: what is deferred runs once every thread pinned at that moment has unpinned, and not later.
//!
//! The real one may be later, never earlier: so a use after the free that is possible at all is possible here. Pins and
//! frees order nothing between threads (the real ones do: what only they order is found unordered here).

use std::fmt;

use crate::execution;

/// A closure that frees something.
type Deferred = Box<dyn FnOnce()>;

/// The pinned threads, and the deferred functions that wait for them.
#[derive(Default)]
pub(crate) struct Garbage {
    next: u64,
    pinned: Vec<u64>,
    waiting: Vec<(u64, Deferred)>,
}

impl Garbage {
    fn pin(&mut self) -> u64 {
        self.next += 1;
        self.pinned.push(self.next);
        self.next
    }

    fn unpin(&mut self, number: u64) {
        self.pinned.retain(|&pinned| pinned != number);
    }

    /// Removes the deferred functions whose memory no thread can see any longer.
    fn ready(&mut self) -> Vec<Deferred> {
        let oldest = self.pinned.iter().copied().min().unwrap_or(u64::MAX);
        self.waiting.extract_if(.., |(after, _)| *after < oldest).map(|(_, deferred)| deferred).collect()
    }
}

/// A pin: while it exists, nothing is freed that its thread can have found.
pub struct Guard {
    number: u64,
}

/// Pins the thread.
pub fn pin() -> Guard {
    Guard { number: execution::with_garbage(Garbage::pin) }
}

/// A guard that keeps nothing.
///
/// # Safety
/// As for crossbeam's.
pub unsafe fn unprotected() -> &'static Guard {
    static UNPROTECTED: Guard = Guard { number: 0 };
    &UNPROTECTED
}

/// The source of pins that are not the thread's own: here all pins are alike.
pub struct Collector;

/// The one that `pin` belongs to.
pub fn default_collector() -> Collector {
    Collector
}

impl Collector {
    /// A thread that can be pinned.
    pub fn register(&self) -> LocalHandle {
        LocalHandle
    }
}

/// A pinnable handle beside the threads.
pub struct LocalHandle;

impl LocalHandle {
    /// Pins it.
    pub fn pin(&self) -> Guard {
        pin()
    }
}

impl Guard {
    /// Runs the closure when every thread pinned now has unpinned.
    ///
    /// # Safety
    /// As for crossbeam's.
    pub unsafe fn defer_unchecked<F: FnOnce() -> R, R>(&self, free: F) {
        let free: Box<dyn FnOnce() + '_> = Box::new(move || drop(free()));
        // SAFETY: the caller's promise: what the closure borrows lives until it has run.
        let free = unsafe { std::mem::transmute::<Box<dyn FnOnce() + '_>, Deferred>(free) };
        execution::with_garbage(|garbage| garbage.waiting.push((garbage.next, free)));
    }

    /// Same as [`defer_unchecked`](Self::defer_unchecked), for a closure that borrows nothing.
    pub fn defer<F: FnOnce() -> R + Send + 'static, R>(&self, free: F) {
        // SAFETY: it borrows nothing.
        unsafe { self.defer_unchecked(free) };
    }

    /// Nothing to do: nothing is kept back here.
    pub fn flush(&self) {}

    /// Lets go of what was found, and pins again.
    pub fn repin(&mut self) {
        let (number, ready) = execution::with_garbage(|garbage| {
            garbage.unpin(self.number);
            let ready = garbage.ready();
            (garbage.pin(), ready)
        });
        self.number = number;
        ready.into_iter().for_each(|free| free());
    }

    /// Lets go of what was found, does this, and pins again.
    pub fn repin_after<R>(&mut self, meanwhile: impl FnOnce() -> R) -> R {
        let ready = execution::with_garbage(|garbage| {
            garbage.unpin(self.number);
            garbage.ready()
        });
        ready.into_iter().for_each(|free| free());
        let result = meanwhile();
        self.number = execution::with_garbage(Garbage::pin);
        result
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let ready = execution::with_garbage(|garbage| {
            garbage.unpin(self.number);
            garbage.ready()
        });
        if !std::thread::panicking() {
            ready.into_iter().for_each(|free| free());
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Guard({})", self.number)
    }
}
