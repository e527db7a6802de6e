//! The integration tests of the server, as one program: one module for each behavior.
//!
//! Each starts servers of its own, in this process. `fuzz` and `fuzz_sessions` count the panics of their
//! processes, and are programs of their own.

#[path = "../../../sql/tests/integration/support/oracle.rs"]
#[allow(dead_code, clippy::unwrap_used, reason = "shared with the tests of SQL")]
mod oracle;
mod support;

use oracle::skips;

mod clients;
mod dump;
mod encryption;
mod http;
mod limits;
mod notifications;
mod pipelines;
mod real_clients;
mod roles;
