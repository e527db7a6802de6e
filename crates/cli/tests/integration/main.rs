//! The integration tests of the command `heddle`, as one program: one module for each behavior.
//!
//! `idle_sessions` raises the limit on open files of its process, and is a program of its own.

#[path = "../common/mod.rs"]
mod common;
#[path = "../../../sql/tests/integration/support/oracle.rs"]
#[allow(dead_code, reason = "shared with the tests of SQL")]
mod oracle;

use oracle::skips;

mod archive;
mod backup;
mod bench;
mod directory;
mod dump;
mod figures;
mod follower;
mod interfaces;
mod kill;
mod list_append;
mod measures;
mod pgbench;
mod power_loss;
mod real_faults;
mod sale;
mod schedule;
mod serve;
mod sql;
mod standby;
mod transfer;
mod usage;
