//! Tests that `docs/sql.md` says what is so: its tables are read, and their examples run.

use heddle_sql::{Sql, SqlState};
use heddledb::{Database, Durability, Options};

/// The last backquoted text of each row of the table under a heading.
fn examples(heading: &str) -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sql.md");
    let text = std::fs::read_to_string(path).expect("docs/sql.md is there");
    let section = text.split(&format!("\n## {heading}\n")).nth(1).expect("the heading is there");
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
    let example = |row: &str| row.rsplit('`').nth(1).expect("each row ends with an example").to_string();
    rows.map(example).collect()
}

/// Runs an example on tables of its own.
fn run(example: &str) -> Result<(), heddle_sql::SqlError> {
    let database = Database::in_memory_with(Options::default().durability(Durability::None))
        .expect("a database in memory");
    let mut connection = Sql::new(&database).expect("SQL").connect(Default::default()).expect("a connection");
    connection
        .query("create table t (a int primary key, b int); create table u (x int); create view v as select a from t")
        .expect("the tables of the examples");
    connection.query(example).map(|_| ())
}

#[test]
fn the_grammar_that_is_documented_is_accepted() {
    let examples = examples("Grammar");
    assert!(examples.len() > 15);
    for example in examples {
        run(&example).unwrap_or_else(|error| panic!("{example}: {error}"));
    }
}

#[test]
fn statements_documented_as_refused_are_refused() {
    let examples = examples("Refused");
    assert!(examples.len() > 12);
    for example in examples {
        let error = run(&example).expect_err(&example);
        assert_eq!(error.state(), SqlState::FEATURE_NOT_SUPPORTED, "{example}: {error}");
    }
}
