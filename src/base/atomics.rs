//! The atomics that the engine uses: the standard library's.
//!
//! One module hands them out, so that a model checker's can stand in for them.

pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence, fence,
};
