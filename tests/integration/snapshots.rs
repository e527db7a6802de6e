//! Snapshots, seen from outside: what they show, what they cost, and what they leave alone; under every protocol.

mod bank;
mod faults;
mod limit;
mod model;
mod phases;
mod views;
