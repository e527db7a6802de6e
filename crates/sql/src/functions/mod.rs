//! Operators, scalar functions, aggregates, window functions and set-returning functions, as tables of signatures.
//!
//! ```text
//! definition   an entry: name, arguments, result, strictness, volatility, and the code
//! registry     all entries by name                      resolve   the choice among overloads
//! comparison, arithmetic, moments, json, sets, …      the entries themselves, by subject
//! aggregates, windows                                 state machines, and functions of partitions
//! ```
//!
//! Invariants: an entry is called with values of exactly the types that [`resolve`] returned, and a strict one never
//! with NULL: the evaluator returns NULL itself. Entries live as long as the process.

mod advisory;
mod aggregates;
mod arithmetic;
mod array_parts;
mod arrays;
mod bits;
mod comparison;
pub mod definition;
mod json;
mod larger_smaller;
mod mathematics;
mod moments;
mod network;
mod number_format;
mod number_input;
mod number_template;
mod registry;
pub mod resolve;
mod send;
mod session;
mod sets;
mod spreading;
mod strings;
mod sundry;
mod top_k;
mod windows;

pub use definition::{
    Accumulator, AggregateKind, Frame, Function, FunctionContext, FunctionKind, Rows, ScalarFunction,
    Volatility, WindowPartition,
};
pub(crate) use json::with_path;
pub use registry::{all_functions, all_operators, functions_named, operators_named};
pub use spreading::spreading;
pub(crate) use top_k::{INSERT as TOP_K_INSERT, MERGE as TOP_K_MERGE};
