//! Sessions: transactions whose accesses are calls of their own, under every protocol.

mod column_histories;
mod columns;
mod consistency;
mod durability;
mod life;
mod many_writes;
mod operations;
mod predictions;
mod reservations;
mod rig;
mod timeouts;
mod writes;
