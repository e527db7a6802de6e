//! Faults from outside: damaged bytes, forged bytes, files of older versions, lost power at every moment, and bugs on
//! purpose that the checks must find.

#[path = "faults/backup.rs"]
mod backup;
#[path = "faults/damage.rs"]
mod damage;
#[path = "support/forge.rs"]
mod forge;
#[path = "faults/forged.rs"]
mod forged;
#[path = "faults/format.rs"]
mod format;
#[path = "checkpoint/journal.rs"]
mod journal;
#[path = "faults/power.rs"]
mod power;
#[path = "faults/seed.rs"]
mod seed;
#[path = "support/split.rs"]
mod split;
