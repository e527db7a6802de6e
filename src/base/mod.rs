//! The interfaces to the machine: atomics, disk, sockets, clock, threads, random numbers.
//!
//! Everything that the engine asks of the machine passes through this folder, so that a test can put something
//! else behind it (a simulated disk, a model checker's atomics).

pub(crate) mod atomics;
pub(crate) mod barrier;
pub(crate) mod disk;
pub(crate) mod large_pages;
pub(crate) mod prefetch;
pub(crate) mod random;
pub(crate) mod socket;
