//! Waiting in a loop: under a checker each round lets another thread run, else a schedule could wait forever.

use std::ops::{Deref, DerefMut};

/// Crossbeam's `Backoff`: every call yields to another thread.
#[derive(Debug, Default)]
pub struct Backoff(());

impl Backoff {
    pub fn new() -> Backoff {
        Backoff(())
    }

    pub fn spin(&self) {
        crate::thread::yield_now();
    }

    pub fn snooze(&self) {
        crate::thread::yield_now();
    }

    /// After the first round already, so that what comes then (sleeping) is checked.
    pub fn is_completed(&self) -> bool {
        true
    }

    pub fn reset(&self) {}
}

/// Crossbeam's `CachePadded` without the padding: the checkers know no cache lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CachePadded<T>(T);

impl<T> CachePadded<T> {
    pub const fn new(value: T) -> Self {
        CachePadded(value)
    }

    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> Deref for CachePadded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for CachePadded<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T> From<T> for CachePadded<T> {
    fn from(value: T) -> Self {
        CachePadded(value)
    }
}
