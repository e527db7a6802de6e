//! The engine's own files, compiled with a model checker's doors in place of the machine's, and models that run them.
//!
//! Nothing is copied: the modules below *are* the engine's files. What they take from the standard library, from
//! `parking_lot`, crossbeam, `atomic-wait` and `rustix` comes from `heddle_model_doors` instead, under those
//! names. Therefore the checker schedules every access to an atomic, every lock, every sleep and every thread
//! of the engine.
//!
//! List of the models: [`models::all`]. The commands that run them: `CONTRIBUTING.md`.

// The engine's own tests need the machine's threads, not a checker's: this crate is never compiled with them. Its models
// are run from `tests/`.
// Methods of the public face are not public here, so that this lint takes them for others.
#![allow(clippy::wrong_self_convention)]
#![cfg(not(test))]

extern crate heddle_model_doors as atomic_wait;
extern crate heddle_model_doors as crossbeam_epoch;
extern crate heddle_model_doors as crossbeam_utils;
extern crate heddle_model_doors as parking_lot;
extern crate heddle_model_doors as rustix;
extern crate heddle_model_doors as std;

/// Gives each thread of the model one value, in the engine's files.
macro_rules! thread_local {
    ($($local:tt)*) => { heddle_model_doors::model_thread_local! { $($local)* } };
}

/// The engine, as `src/lib.rs` lists it.
#[path = "../../../src"]
#[allow(
    dead_code,
    unused_imports,
    reason = "the models use a part of the engine; its own crate tells what is unused"
)]
mod engine {
    pub(crate) mod base;
    pub(crate) mod check;
    pub(crate) mod composite;
    pub(crate) mod database;
    pub(crate) mod diagnostics;
    pub(crate) mod durability;
    pub(crate) mod error;
    pub(crate) mod evaluator;
    pub(crate) mod expression;
    pub(crate) mod feed;
    pub(crate) mod lock;
    pub(crate) mod operation;
    pub(crate) mod options;
    pub(crate) mod pipeline;
    pub(crate) mod procedure;
    pub(crate) mod protocol;
    pub(crate) mod range;
    pub(crate) mod row;
    pub(crate) mod schedule;
    pub(crate) mod sequence;
    pub(crate) mod session;
    pub(crate) mod snapshot;
    pub(crate) mod storage;
    pub(crate) mod table;
    pub(crate) mod table_change;
    pub(crate) mod testing;
    pub(crate) mod transaction;
    pub(crate) mod typed;
    pub(crate) mod types;
    pub(crate) mod worker;
}

pub mod models;

pub(crate) use engine::*;
pub(crate) use error::{Error, Result};
