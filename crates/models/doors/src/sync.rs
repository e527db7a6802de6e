//! `std::sync`, with the checker's atomics in their place.

pub use std::sync::*;

/// The checker's.
pub mod atomic {
    pub use crate::atomics::*;
}
