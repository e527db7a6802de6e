//! The atomics that the engine uses: the standard library's.
//!
//! One module exports them, so that a model checker's can replace them.

pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence, fence,
};
