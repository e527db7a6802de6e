//! Foreign keys hold whatever changes a row: closures, procedures, sessions, operations; under every protocol, beside schema
//! changes, and after recovery.

#[path = "foreign_keys/actions.rs"]
mod actions;
#[path = "foreign_keys/concurrent.rs"]
mod concurrent;
#[path = "foreign_keys/deferred.rs"]
mod deferred;
#[path = "foreign_keys/own_key.rs"]
mod own_key;
#[path = "foreign_keys/recovery.rs"]
mod recovery;
#[path = "foreign_keys/rig.rs"]
mod rig;
#[path = "foreign_keys/schema.rs"]
mod schema;
#[path = "foreign_keys/sessions.rs"]
mod sessions;
#[path = "foreign_keys/shapes.rs"]
mod shapes;
#[path = "foreign_keys/ways.rs"]
mod ways;
