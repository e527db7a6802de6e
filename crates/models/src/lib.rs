//! The engine's own files, compiled with a model checker's doors in place of the machine's, and models that run them.
#![allow(dead_code)]

extern crate heddle_model_doors as atomic_wait;
extern crate heddle_model_doors as crossbeam_epoch;
extern crate heddle_model_doors as crossbeam_utils;
extern crate heddle_model_doors as parking_lot;
extern crate heddle_model_doors as rustix;
extern crate heddle_model_doors as std;

/// In the engine's files, one value for each thread of the model.
macro_rules! thread_local {
    ($($local:tt)*) => { heddle_model_doors::model_thread_local! { $($local)* } };
}

#[path = "../../../src"]
mod engine {
    pub(crate) mod base;
    pub(crate) mod check;
    pub(crate) mod database;
    pub(crate) mod durability;
    pub(crate) mod error;
    pub(crate) mod operation;
    pub(crate) mod options;
    pub(crate) mod pipeline;
    pub(crate) mod procedure;
    pub(crate) mod protocol;
    pub(crate) mod range;
    pub(crate) mod row;
    pub(crate) mod storage;
    pub(crate) mod table;
    pub(crate) mod testing;
    pub(crate) mod transaction;
    pub(crate) mod types;
    pub(crate) mod worker;
}

pub mod models;

pub(crate) use engine::*;
pub(crate) use error::{Error, Result};
