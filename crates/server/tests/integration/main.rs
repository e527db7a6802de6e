//! The integration tests of the server, as one program: one module for each behavior.
//!
//! Each starts servers of its own, in this process.

#[path = "../../../../tests/support/skips.rs"]
mod skips;
mod support;

mod clients;
mod dump;
mod encryption;
mod fuzz;
mod fuzz_sessions;
mod http;
mod limits;
mod notifications;
mod pipelines;
mod real_clients;
mod roles;
