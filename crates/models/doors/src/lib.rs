//! Doors to a model checker, in the shape of the crates that the engine gets its threads, locks and atomics from.
//!
//! The models crate compiles the engine's own source files with this crate under the names `std`, `parking_lot`,
//! `crossbeam_utils`, `crossbeam_epoch` and `atomic_wait`. So what is checked is the engine's code, not a copy.
//!
//! Two checkers stand behind the doors: `shuttle` (random and PCT schedules of large programs; every atomic operation
//! is sequentially consistent) and, with the feature `loom`, loom (every schedule of small programs, and the stale values
//! that relaxed loads may see).
//!
//! Invariants: a type here has the size of the one it stands for where the engine lays memory out by hand (an
//! atomic is one word, zero bytes are zero); and a door orders nothing more than what it stands for promises, but for
//! what the modules say.

#![allow(missing_docs, reason = "what stands here is documented where it is stood in for")]

pub use std::*;

pub mod atomics;
mod backoff;
mod change;
#[cfg_attr(feature = "loom", path = "checker/loom.rs")]
#[cfg_attr(not(feature = "loom"), path = "checker/shuttle.rs")]
mod checker;
pub mod execution;
pub mod faults;
mod futex;
mod local;
mod locks;
mod memory;
mod reclamation;
pub mod sync;
pub mod thread;

pub use backoff::{Backoff, CachePadded};
pub use futex::{wait, wake_all, wake_one};
pub use local::LocalKey;
pub use locks::{Condvar, Mutex, MutexGuard, RawMutex, RawRwLock, RwLock, lock_api};
pub use memory::{FREED, Quarantine};
pub use reclamation::{Collector, Guard, LocalHandle, default_collector, pin, unprotected};

#[cfg(feature = "loom")]
#[doc(hidden)]
pub use loom as checker_crate;
#[cfg(not(feature = "loom"))]
#[doc(hidden)]
pub use shuttle as checker_crate;
