//! Snapshots, seen from outside: what they show, what they cost, and what they leave alone; under every protocol.

#[path = "snapshots/bank.rs"]
mod bank;
#[path = "support/concurrent.rs"]
mod concurrent;
#[path = "snapshots/faults.rs"]
mod faults;
#[path = "snapshots/limit.rs"]
mod limit;
#[path = "support/logged.rs"]
mod logged;
#[path = "snapshots/model.rs"]
mod model;
#[path = "snapshots/phases.rs"]
mod phases;
#[path = "snapshots/views.rs"]
mod views;
