//! A follower, seen from outside: what it writes is right, and whatever it does or suffers costs the database nothing.

mod added_columns;
mod companion;
mod copies;
mod dropped_tables;
mod faults;
mod life;
mod power;
