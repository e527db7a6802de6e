//! Foreign keys hold whatever changes a row: closures, procedures, sessions, operations; under every protocol, beside schema
//! changes, and after recovery.

mod actions;
mod concurrent;
mod deferred;
mod own_key;
mod recovery;
mod rig;
mod schema;
mod sessions;
mod shapes;
mod ways;
