//! A database in memory, connections of its superuser, and the answers of their statements as text.

use heddle_sql::{ConnectOptions, Connection, Sql};
use heddledb::{Database, Durability, Options, ProtocolKind};

/// With two workers, and without a log.
pub fn database(protocol: ProtocolKind) -> Database {
    let options = Options::default().durability(Durability::None).workers(2).protocol(protocol);
    Database::in_memory_with(options).expect("a database in memory")
}

/// A superuser's connection, whose calls declare what their functions touch, or do not.
pub fn connect(sql: &Sql, derives: bool) -> Connection {
    let options = ConnectOptions { user: "postgres".into(), is_superuser: true, database: "postgres".into() };
    let mut connection = sql.connect(options).expect("a connection");
    run(&mut connection, &format!("set heddle.derive_footprints = {}", if derives { "on" } else { "off" }));
    connection
}

pub fn run(connection: &mut Connection, statements: &str) {
    if let Err(error) = connection.query(statements) {
        panic!("{statements}: {error}");
    }
}

/// The answer of a statement: its rows as text, or the error's state and message.
pub fn answer(connection: &mut Connection, statement: &str) -> String {
    match connection.query(statement) {
        Ok(results) => {
            format!("{:?}", results.last().map(|result| connection.text_rows(result).expect("texts")))
        }
        Err(error) => format!("{} {error}", error.state().as_str()),
    }
}
