//! Checkpoints, seen from outside: beside every kind of load, through every crash, damage and failure.

mod by_hand;
mod churn;
mod copies;
mod crash;
mod damage;
mod failures;
pub mod journal;
mod killed;
mod load;
mod pacing;
mod stripes;
mod triggers;
