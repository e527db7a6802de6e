//! `pg_catalog` and `information_schema`: the queries that clients send, and PostgreSQL's answers to them.
//!
//! `tests/catalogs/` holds a schema and the recorded queries of clients, each behind a comment with its name. `{account}`
//! in a query stands for that relation's oid. Every query must run; where nothing else is said, its rows must be
//! PostgreSQL's, but for oids, which are compared by the relations that they mean.

use std::collections::HashMap;

use crate::support::oracle::{Oracle, Session};
use heddle_sql::{ConnectOptions, Connection, Sql};
use heddledb::{Database, Durability, Options};

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

/// The columns of the catalog's relations but for those of the engine.
const COLUMNS: &str = "SELECT c.relname, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid \
     JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'pg_catalog' AND a.attnum > 0 \
     AND c.relkind IN ('r', 'v') AND c.relname NOT LIKE 'heddle%' ORDER BY c.relname, a.attnum";

#[test]
fn relations_of_the_catalog_have_the_columns_of_postgresql() {
    let Some(oracle) = Oracle::start() else { return };
    let theirs = oracle.connect().run(COLUMNS).rows;
    let ours = rows(&mut connect(), COLUMNS).expect("read");
    let names: std::collections::HashSet<_> = ours.iter().map(|row| row[0].clone()).collect();
    let expected: Vec<Row> = theirs.into_iter().filter(|row| names.contains(&row[0])).collect();
    let not_theirs = ["pg_stat_statements"].map(|name| Some(name.to_string()));
    let ours: Vec<Row> = ours.into_iter().filter(|row| !not_theirs.contains(&row[0])).collect();
    let mismatch = ours.iter().zip(&expected).find(|(ours, theirs)| ours != theirs);
    assert_eq!(mismatch, None);
    assert_eq!(ours.len(), expected.len());
}

#[test]
fn prepared_statements_and_cursors_of_the_session_are_listed() {
    let mut connection = connect();
    let mut other = connect();
    other.query("PREPARE hidden AS SELECT 1").expect("prepared");
    connection.query("PREPARE by_text(int) AS SELECT $1 + 1").expect("prepared");
    connection.prepare("by_message", "SELECT $1::text, $2::date", &[]).expect("prepared");
    connection.prepare("", "SELECT 1", &[]).expect("prepared");
    let listed = "SELECT name, statement, parameter_types, from_sql, prepare_time <= now() FROM pg_prepared_statements \
                  ORDER BY name";
    let texts = |rows: Vec<Row>| -> Vec<String> {
        rows.into_iter().map(|row| row.into_iter().flatten().collect::<Vec<_>>().join(" | ")).collect()
    };
    assert_eq!(
        texts(rows(&mut connection, listed).expect("listed")),
        [
            "by_message | SELECT $1::text, $2::date | {text,date} | f | t",
            "by_text | PREPARE by_text(int) AS SELECT $1 + 1 | {integer} | t | t",
        ]
    );
    connection.query("DEALLOCATE ALL").expect("deallocated");
    assert!(rows(&mut connection, listed).expect("listed").is_empty());
    let listed = "SELECT name, statement, is_holdable, is_binary, is_scrollable, creation_time <= clock_timestamp() \
                  FROM pg_cursors ORDER BY name";
    connection.query("BEGIN").expect("begun");
    connection.query("DECLARE a NO SCROLL CURSOR FOR SELECT 1").expect("declared");
    connection.query("DECLARE b CURSOR WITH HOLD FOR SELECT 2").expect("declared");
    let held = "b | DECLARE b CURSOR WITH HOLD FOR SELECT 2 | t | f | t | t";
    assert_eq!(
        texts(rows(&mut connection, listed).expect("listed")),
        ["a | DECLARE a NO SCROLL CURSOR FOR SELECT 1 | f | f | f | t", held]
    );
    connection.query("COMMIT").expect("committed");
    assert_eq!(texts(rows(&mut connection, listed).expect("listed")), [held]);
    connection.query("CLOSE ALL").expect("closed");
    assert!(rows(&mut connection, listed).expect("listed").is_empty());
}

#[test]
fn prepared_statements_and_cursors_keep_the_whole_text_of_their_source() {
    let mut connection = connect();
    let long = "x".repeat(5_000);
    let prepare = format!("SELECT 1; PREPARE long AS SELECT '{long}';");
    let declare = format!("DECLARE long CURSOR WITH HOLD FOR SELECT '{long}'; ");
    connection.query(&prepare).expect("prepared");
    connection.query(&declare).expect("declared");
    let prepared = "SELECT statement FROM pg_prepared_statements WHERE name = 'long'";
    assert_eq!(one(&mut connection, prepared), prepare);
    assert_eq!(one(&mut connection, "SELECT statement FROM pg_cursors"), declare);
}

#[test]
fn encryption_is_shown_of_sessions_whose_activity_is() {
    let database = Database::in_memory_with(Options::default().durability(Durability::None)).unwrap();
    let sql = Sql::new(&database).unwrap();
    let connect = |user: &str, is_superuser| {
        sql.connect(ConnectOptions { user: user.into(), is_superuser, database: "postgres".into() }).unwrap()
    };
    let mut owner = connect("postgres", true);
    owner.query("CREATE ROLE ada LOGIN; CREATE ROLE bob LOGIN").expect("created");
    let (mut ada, _bob) = (connect("ada", false), connect("bob", false));
    let counted = "SELECT count(*) FROM pg_stat_ssl";
    assert_eq!((one(&mut owner, counted), one(&mut ada, counted)), ("3".to_string(), "1".to_string()));
    owner.query("GRANT bob TO ada").expect("granted");
    assert_eq!(one(&mut ada, counted), "2");
    owner.query("GRANT pg_read_all_stats TO ada").expect("granted");
    assert_eq!(one(&mut ada, counted), "3");
}

#[test]
fn statistics_of_the_log_and_of_checkpoints_are_one_row_each() {
    let mut connection = connect();
    for (query, expected) in [
        ("SELECT wal_bytes >= 0 AND wal_records >= 0 AND wal_sync_time = 0 FROM pg_stat_wal", "t"),
        ("SELECT checkpoints_timed + checkpoints_req + buffers_alloc FROM pg_stat_bgwriter", "0"),
        ("SELECT archived_count + failed_count FROM pg_stat_archiver", "0"),
        ("SELECT confl_lock FROM pg_stat_database_conflicts WHERE datname = current_database()", "0"),
        ("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()", "f"),
        ("SELECT count(*) FROM pg_stats", "0"),
        ("SELECT count(*) FROM pg_stat_replication", "0"),
        ("SELECT utc_offset FROM pg_timezone_names WHERE name = 'Asia/Tokyo'", "09:00:00"),
    ] {
        assert_eq!(one(&mut connection, query), expected, "{query}");
    }
}

#[test]
fn statistics_of_the_log_and_of_checkpoints_count_what_was_written() {
    let disk = heddledb::testing::SimulatedDisk::new();
    let options = Options::default().disk(std::sync::Arc::new(disk));
    let database = Database::open("db", options).expect("a new database");
    let options = ConnectOptions { user: "postgres".into(), is_superuser: true, database: "postgres".into() };
    let mut connection = Sql::new(&database).expect("SQL").connect(options).expect("connected");
    connection.query("CREATE TABLE written (id int PRIMARY KEY, text text)").expect("created");
    let log = |connection: &mut Connection| -> Vec<i64> {
        let query =
            "SELECT wal_records || ' ' || wal_bytes || ' ' || wal_write || ' ' || wal_sync FROM pg_stat_wal";
        one(connection, query).split(' ').map(|number| number.parse().expect("a number")).collect()
    };
    let before = log(&mut connection);
    for id in 0..5 {
        connection.query(&format!("INSERT INTO written VALUES ({id}, repeat('x', 1000))")).expect("inserted");
    }
    let after = log(&mut connection);
    let grown: Vec<i64> = after.iter().zip(&before).map(|(after, before)| after - before).collect();
    // Each insert waited for its own group.
    assert!(grown[0] >= 5 && grown[1] >= 5_000 && grown[2] >= 5 && grown[3] >= 5, "{grown:?}");
    let counted = "SELECT checkpoints_req || ' ' || checkpoints_timed FROM pg_stat_bgwriter";
    assert_eq!(one(&mut connection, counted), "0 0");
    connection.query("CHECKPOINT").expect("made");
    database.checkpoint().expect("made");
    assert_eq!(one(&mut connection, counted), "2 0", "both were asked for");
    assert_eq!(one(&mut connection, "SELECT checkpoint_write_time > 0 FROM pg_stat_bgwriter"), "t");
}
