//! Snapshots, seen from outside: what they show, what they cost, and what they leave alone; under every protocol.

#[path = "snapshots/bank.rs"]
mod bank;
#[path = "support/concurrent.rs"]
mod concurrent;
#[path = "snapshots/model.rs"]
mod model;
#[path = "snapshots/views.rs"]
mod views;
