//! Archives: what is restored equals the history, and whatever is wrong with an archive is named.

mod damage;
mod faults;
mod restoring;
mod retention;
mod shelf;
mod support;
mod timelines;
