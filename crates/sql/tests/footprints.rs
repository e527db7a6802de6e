//! Derived footprints: what EXPLAIN FUNCTION tells of the papers' transactions.

mod support;

use heddle_sql::{Connection, Sql};
use heddledb::{Database, Durability, Options, ProtocolKind};

fn database(protocol: ProtocolKind) -> Database {
    let options = Options::default().durability(Durability::None).protocol(protocol);
    Database::in_memory_with(options).expect("a database in memory")
}

fn connect() -> Connection {
    Sql::new(&database(ProtocolKind::Optimistic)).expect("SQL").open().expect("a connection")
}
