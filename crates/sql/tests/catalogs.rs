//! `pg_catalog` and `information_schema`: the queries that clients send, and PostgreSQL's answers to them.
//!
//! `tests/catalogs/` holds a schema and the recorded queries of clients, each behind a comment with its name. `{account}`
//! in a query stands for that relation's oid. Every query must run; where nothing else is said, its rows must be
//! PostgreSQL's, but for oids, which are compared by the relations that they mean.

mod support;

use std::collections::HashMap;

use heddle_sql::{ConnectOptions, Connection, Sql};
use heddledb::{Database, Durability, Options};
use support::oracle::{Oracle, Session};

const SCHEMA: &str = include_str!("catalogs/schema.sql");
const RELATIONS: &[&str] = &[
    "account",
    "account_id_seq",
    "account_pkey",
    "account_owner_idx",
    "branch",
    "branch_pkey",
    "branch_name_key",
    "entry",
    "entry_pkey",
    "entry_serial_id_seq",
    "rich",
    "busy",
    "busy_branch",
    "sales.orders",
    "ticket",
];

/// Queries of psql whose rows differ from PostgreSQL's: the databases, settings, functions, operators and casts there are,
/// who owns `public`, texts of views, and sizes.
const DIFFERING: &[&str] = &[
    "\\dt+",
    "\\dt *.*",
    "\\d+ rich (4)",
    "\\sv rich (2)",
    "\\dn",
    "\\dn+",
    "\\l",
    "\\da count",
    "\\do",
    "\\dC",
    "\\dx",
    "\\dd",
    "\\dO",
    "\\dA",
    "\\dL",
    "\\dFp",
    "\\dconfig",
    "\\dconfig work_mem",
];

type Row = Vec<Option<String>>;

fn connect() -> Connection {
    let database = Database::in_memory_with(Options::default().durability(Durability::None)).unwrap();
    // The same role and database as in the oracle.
    let options = ConnectOptions { user: "postgres".into(), is_superuser: true, database: "postgres".into() };
    let mut connection = Sql::new(&database).unwrap().connect(options).unwrap();
    for statement in SCHEMA.split(";\n").filter(|statement| !statement.trim().is_empty()) {
        connection.query(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    connection
}

fn rows(connection: &mut Connection, query: &str) -> Result<Vec<Row>, String> {
    let results = connection.query(query).map_err(|error| error.to_string())?;
    let last = results.last().ok_or("no result")?;
    connection.text_rows(last).map_err(|error| error.to_string())
}

fn one(connection: &mut Connection, query: &str) -> String {
    let rows = rows(connection, query).unwrap_or_else(|error| panic!("{query}: {error}"));
    rows.first().and_then(|row| row[0].clone()).unwrap_or_else(|| panic!("no row: {query}"))
}

/// Recorded queries with their names.
fn recorded(text: &'static str) -> Vec<(&'static str, &'static str)> {
    let queries = text.split("\n;\n").filter_map(|query| {
        let (name, query) = query.trim().split_once('\n')?;
        Some((name.trim_start_matches("-- "), query))
    });
    queries.collect()
}

/// The query with the oids of one database.
fn with_oids(query: &str, oids: &HashMap<&'static str, String>) -> String {
    oids.iter().fold(query.to_string(), |query, (name, oid)| query.replace(&format!("{{{name}}}"), oid))
}

/// The rows with relations instead of their oids.
fn without_oids(rows: Vec<Row>, oids: &HashMap<&'static str, String>) -> Vec<Row> {
    let shown = |text: String| {
        let known = oids.iter().find(|(_, oid)| **oid == text);
        known.map_or(text, |(name, _)| format!("{{{name}}}"))
    };
    rows.into_iter().map(|row| row.into_iter().map(|value| value.map(shown)).collect()).collect()
}

fn our_oids(connection: &mut Connection) -> HashMap<&'static str, String> {
    let oid = |name: &&'static str| (*name, one(connection, &format!("select '{name}'::regclass::oid")));
    RELATIONS.iter().map(oid).collect()
}

fn their_oids(session: &mut Session) -> HashMap<&'static str, String> {
    let mut oid = |name: &&'static str| {
        let answer = session.run(&format!("select '{name}'::regclass::oid"));
        (*name, answer.rows[0][0].clone().unwrap())
    };
    RELATIONS.iter().map(&mut oid).collect()
}

/// Runs recorded queries; those whose name is not among `differing` must answer as PostgreSQL does.
fn replay(queries: &'static str, differing: &[&str]) {
    let mut connection = connect();
    let ours = our_oids(&mut connection);
    let oracle = Oracle::start();
    let mut session = oracle.as_ref().map(|oracle| oracle.connect());
    let theirs = session.as_mut().map(|session| {
        for statement in SCHEMA.split(";\n").filter(|statement| !statement.trim().is_empty()) {
            assert_eq!(session.run(statement).sqlstate, "00000", "{statement}");
        }
        their_oids(session)
    });
    let mut failures = Vec::new();
    for (name, query) in recorded(queries) {
        let found = match rows(&mut connection, &with_oids(query, &ours)) {
            Ok(found) => without_oids(found, &ours),
            Err(error) => {
                failures.push(format!("{name}: {error}"));
                continue;
            }
        };
        if let (Some(session), Some(theirs)) = (&mut session, &theirs)
            && !differing.contains(&name)
        {
            let expected = without_oids(session.run(&with_oids(query, theirs)).rows, theirs);
            if found != expected {
                failures.push(format!("{name}:\n  ours   {found:?}\n  theirs {expected:?}"));
            }
        }
    }
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn psql_backslash_commands_answer_as_on_postgresql() {
    replay(include_str!("catalogs/psql.sql"), DIFFERING);
}

/// Left out of the comparison: the position of `public` in the path, which temporary tables of the oracle's session move,
/// and the columns of every table that have negative numbers, which are not listed here.
#[test]
fn drivers_and_frameworks_get_the_answers_of_postgresql() {
    replay(include_str!("catalogs/clients.sql"), &["pgbench: the partition probe", "Django: columns"]);
}
