//! A follower, seen from outside: what it writes is right, and whatever it does or suffers costs the database nothing.

#[path = "follower/added_columns.rs"]
mod added_columns;
#[path = "follower/companion.rs"]
mod companion;
#[path = "follower/copies.rs"]
mod copies;
#[path = "follower/dropped_tables.rs"]
mod dropped_tables;
#[path = "follower/faults.rs"]
mod faults;
#[path = "checkpoint/journal.rs"]
mod journal;
#[path = "follower/life.rs"]
mod life;
#[path = "follower/power.rs"]
mod power;
#[path = "support/split.rs"]
mod split;
