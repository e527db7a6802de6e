//! Replacements of the outside world for tests. Not part of the public interface: it may change at any time.

#[cfg(test)]
pub(crate) mod conformance;
pub mod simulated_disk;

pub use crate::base::disk::{Disk, File, LockGuard, RealDisk};
pub use simulated_disk::{Fault, Moment, Operation, SimulatedDisk};
