//! `parking_lot`: locks and condition variables, on those of the checker.

use std::cell::UnsafeCell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::sync::OnceLock;

use crate::checker::sync;
use crate::faults::{self, Fault};

/// A lock and what it guards.
pub struct Mutex<T> {
    /// Made at the first use: those of the checkers cannot be made in a constant.
    lock: OnceLock<sync::Mutex<()>>,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through the lock only.
unsafe impl<T: Send> Send for Mutex<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Mutex<T> {}

/// The lock, held.
pub struct MutexGuard<'m, T> {
    mutex: &'m Mutex<T>,
    /// None only while a condition variable has it; and where a fault releases it at once.
    held: Option<sync::MutexGuard<'m, ()>>,
}

impl<T> Mutex<T> {
    pub const fn new(value: T) -> Self {
        Mutex { lock: OnceLock::new(), value: UnsafeCell::new(value) }
    }

    fn checked(&self) -> &sync::Mutex<()> {
        self.lock.get_or_init(|| sync::Mutex::new(()))
    }

    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let held = Some(unpoisoned(self.checked().lock()));
        let is_torn = faults::at(Location::caller()) == Some(Fault::Tear);
        MutexGuard { mutex: self, held: held.filter(|_| !is_torn) }
    }

    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.checked().try_lock().ok().map(|held| MutexGuard { mutex: self, held: Some(held) })
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

/// `parking_lot` knows no poison.
fn unpoisoned<G>(locked: std::sync::LockResult<G>) -> G {
    locked.unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Mutex::new(T::default())
    }
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Mutex")
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the lock is held; or a fault has released it, and the checker runs one thread at a time, which does
        // not give the turn away while it has this reference.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        if self.held.is_none() {
            // A fault has given the lock up: others may come between any two accesses.
            crate::thread::yield_now();
        }
        // SAFETY: the lock is held, and the guard is borrowed exclusively.
        unsafe { &mut *self.mutex.value.get() }
    }
}

/// A condition variable. No thread is woken without a call, and no wait ends by time.
#[derive(Default)]
pub struct Condvar {
    condition: OnceLock<sync::Condvar>,
}

impl Condvar {
    pub const fn new() -> Self {
        Condvar { condition: OnceLock::new() }
    }

    fn checked(&self) -> &sync::Condvar {
        self.condition.get_or_init(sync::Condvar::new)
    }

    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        if let Some(held) = guard.held.take() {
            guard.held = Some(unpoisoned(self.checked().wait(held)));
        }
    }

    /// Same as [`wait`](Self::wait): no time passes.
    pub fn wait_for<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        _time: std::time::Duration,
    ) -> WaitTimeoutResult {
        self.wait(guard);
        WaitTimeoutResult
    }

    /// Same as [`wait`](Self::wait): no time passes.
    pub fn wait_until<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        _until: std::time::Instant,
    ) -> WaitTimeoutResult {
        self.wait(guard);
        WaitTimeoutResult
    }

    #[track_caller]
    pub fn notify_one(&self) {
        if faults::at(Location::caller()) != Some(Fault::Skip) {
            self.checked().notify_one();
        }
    }

    #[track_caller]
    pub fn notify_all(&self) {
        if faults::at(Location::caller()) != Some(Fault::Skip) {
            self.checked().notify_all();
        }
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Condvar")
    }
}

/// That a wait has not ended by time.
#[derive(Clone, Copy, Debug)]
pub struct WaitTimeoutResult;

impl WaitTimeoutResult {
    pub fn timed_out(self) -> bool {
        false
    }
}

/// A lock for many readers or one writer.
#[derive(Default)]
pub struct RwLock<T> {
    lock: OnceLock<sync::RwLock<()>>,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through the lock only.
unsafe impl<T: Send> Send for RwLock<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for RwLock<T> {}

/// A read or write lock, held.
pub struct RwLockGuard<'l, T, H> {
    lock: &'l RwLock<T>,
    _held: H,
}

impl<T> RwLock<T> {
    pub const fn new(value: T) -> Self {
        RwLock { lock: OnceLock::new(), value: UnsafeCell::new(value) }
    }

    fn checked(&self) -> &sync::RwLock<()> {
        self.lock.get_or_init(|| sync::RwLock::new(()))
    }

    pub fn read(&self) -> RwLockGuard<'_, T, sync::RwLockReadGuard<'_, ()>> {
        RwLockGuard { lock: self, _held: unpoisoned(self.checked().read()) }
    }

    pub fn write(&self) -> RwLockGuard<'_, T, sync::RwLockWriteGuard<'_, ()>> {
        RwLockGuard { lock: self, _held: unpoisoned(self.checked().write()) }
    }
}

impl<T, H> Deref for RwLockGuard<'_, T, H> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the lock is held, shared or exclusively.
        unsafe { &*self.lock.value.get() }
    }
}

impl<'l, T> DerefMut for RwLockGuard<'l, T, sync::RwLockWriteGuard<'l, ()>> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held exclusively, and the guard is borrowed exclusively.
        unsafe { &mut *self.lock.value.get() }
    }
}

/// Locks that are released without a guard.
pub mod lock_api {
    /// `parking_lot`'s trait.
    pub trait RawMutex {
        const INIT: Self;

        fn lock(&self);
        fn try_lock(&self) -> bool;
        /// # Safety
        /// The caller holds it.
        unsafe fn unlock(&self);
    }

    /// `parking_lot`'s trait.
    pub trait RawRwLock {
        const INIT: Self;

        fn lock_shared(&self);
        fn try_lock_shared(&self) -> bool;
        /// # Safety
        /// The caller holds it, shared.
        unsafe fn unlock_shared(&self);
        fn lock_exclusive(&self);
        fn try_lock_exclusive(&self) -> bool;
        /// # Safety
        /// The caller holds it, exclusively.
        unsafe fn unlock_exclusive(&self);
    }

    /// `parking_lot`'s trait; in a model no time passes, and a thread waits until it has the lock.
    pub trait RawRwLockTimed: RawRwLock {
        fn try_lock_shared_for(&self, _time: std::time::Duration) -> bool {
            self.lock_shared();
            true
        }

        fn try_lock_exclusive_for(&self, _time: std::time::Duration) -> bool {
            self.lock_exclusive();
            true
        }
    }
}

/// Minus one: held exclusively; else the number of readers.
#[derive(Default)]
struct Held {
    state: Mutex<i64>,
    freed: Condvar,
}

impl Held {
    const fn new() -> Held {
        Held { state: Mutex::new(0), freed: Condvar::new() }
    }

    fn take(&self, wait: bool, next: impl Fn(i64) -> Option<i64>) -> bool {
        let mut state = self.state.lock();
        loop {
            if let Some(next) = next(*state) {
                *state = next;
                return true;
            }
            if !wait {
                return false;
            }
            self.freed.wait(&mut state);
        }
    }

    fn give_back(&self, by: i64) {
        *self.state.lock() += by;
        self.freed.notify_all();
    }
}

fn exclusive(state: i64) -> Option<i64> {
    (state == 0).then_some(-1)
}

fn shared(state: i64) -> Option<i64> {
    (state >= 0).then_some(state + 1)
}

/// A lock that is released without a guard.
pub struct RawMutex(Held);

impl lock_api::RawMutex for RawMutex {
    const INIT: RawMutex = RawMutex(Held::new());

    fn lock(&self) {
        self.0.take(true, exclusive);
    }

    fn try_lock(&self) -> bool {
        self.0.take(false, exclusive)
    }

    unsafe fn unlock(&self) {
        self.0.give_back(1);
    }
}

impl lock_api::RawRwLockTimed for RawRwLock {}

/// A read-write lock that is released without a guard.
pub struct RawRwLock(Held);

impl lock_api::RawRwLock for RawRwLock {
    const INIT: RawRwLock = RawRwLock(Held::new());

    fn lock_shared(&self) {
        self.0.take(true, shared);
    }

    fn try_lock_shared(&self) -> bool {
        self.0.take(false, shared)
    }

    unsafe fn unlock_shared(&self) {
        self.0.give_back(-1);
    }

    fn lock_exclusive(&self) {
        self.0.take(true, exclusive);
    }

    fn try_lock_exclusive(&self) -> bool {
        self.0.take(false, exclusive)
    }

    unsafe fn unlock_exclusive(&self) {
        self.0.give_back(1);
    }
}
