//! Faults from outside: damaged bytes, forged bytes, files of older versions, lost power at every moment, and bugs on
//! purpose that the checks must find.

mod backup;
mod damage;
mod forged;
mod format;
mod power;
mod seed;
