//! Sessions: transactions whose accesses are calls of their own, under every protocol.

#[path = "sessions/consistency.rs"]
mod consistency;
#[path = "sessions/durability.rs"]
mod durability;
#[path = "sessions/life.rs"]
mod life;
#[path = "sessions/many_writes.rs"]
mod many_writes;
#[path = "sessions/operations.rs"]
mod operations;
#[path = "sessions/predictions.rs"]
mod predictions;
#[path = "sessions/reservations.rs"]
mod reservations;
#[path = "sessions/rig.rs"]
mod rig;
#[path = "sessions/timeouts.rs"]
mod timeouts;
#[path = "sessions/writes.rs"]
mod writes;
