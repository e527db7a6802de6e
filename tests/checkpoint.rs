//! Checkpoints, seen from outside: beside every kind of load, through every crash, damage and failure.

#[path = "checkpoint/by_hand.rs"]
mod by_hand;
#[path = "checkpoint/churn.rs"]
mod churn;
#[path = "checkpoint/copies.rs"]
mod copies;
#[path = "checkpoint/crash.rs"]
mod crash;
#[path = "checkpoint/damage.rs"]
mod damage;
#[path = "checkpoint/failures.rs"]
mod failures;
#[path = "checkpoint/journal.rs"]
mod journal;
#[path = "checkpoint/killed.rs"]
mod killed;
#[path = "checkpoint/load.rs"]
mod load;
#[path = "checkpoint/pacing.rs"]
mod pacing;
#[path = "support/split.rs"]
mod split;
#[path = "checkpoint/stripes.rs"]
mod stripes;
#[path = "checkpoint/triggers.rs"]
mod triggers;
