//! Random routines compared with PostgreSQL 15, under each protocol, with and without derived footprints: answers, messages of
//! errors, and what all tables hold after each call.
//!
//! `HEDDLE_FUNCTIONS` says how many are generated, `HEDDLE_SEED` repeats a run.

mod bodies;
mod support;

use bodies::Generator;
use bodies::tables::SHOWN;
use heddle_sql::{Connection, Sql};
use heddledb::ProtocolKind;
use support::calls::{connect, database};
use support::oracle::{Oracle, Session};

/// How many routines share tables and call each other.
const GROUP: u64 = 6;
/// With how many differences a run ends.
const DIFFERENCES_MAX: usize = 5;

/// What a statement answers: its rows, or the error's SQLSTATE and message.
type Shown = Result<Vec<Vec<Option<String>>>, (String, String)>;

fn ours(connection: &mut Connection, text: &str) -> Shown {
    match connection.query(text) {
        Ok(results) => {
            let rows = results.last().map(|result| connection.text_rows(result).expect("texts"));
            Ok(rows.unwrap_or_default())
        }
        Err(error) => Err((error.state().as_str().to_string(), error.message().to_string())),
    }
}

fn theirs(session: &mut Session, text: &str) -> Shown {
    let answer = session.run(text);
    match answer.sqlstate.as_str() {
        "00000" => Ok(answer.rows),
        state => Err((state.to_string(), session.last_message())),
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// A connection for each protocol, with and without footprints.
fn connections() -> Vec<(Connection, String)> {
    let mut connections = Vec::new();
    for &protocol in ProtocolKind::ALL {
        for derives in [true, false] {
            let sql = Sql::new(&database(protocol)).expect("SQL");
            connections.push((connect(&sql, derives), format!("{protocol}, derived {derives}")));
        }
    }
    connections
}

/// The statements of one routine: it is created and called.
fn script(generator: &mut Generator, number: u64) -> Vec<String> {
    let mut script = Vec::new();
    if number.is_multiple_of(GROUP) {
        script.extend(generator.group());
    }
    script.push(generator.routine());
    for _ in 0..5 {
        script.extend([generator.call(), SHOWN.to_string()]);
    }
    script
}

#[test]
fn random_routines_behave_as_on_postgres_under_each_protocol() {
    let Some(oracle) = Oracle::start() else { return };
    let mut session = oracle.connect();
    let mut connections = connections();
    let seed = setting("HEDDLE_SEED", 16);
    let (mut generator, mut history) = (Generator::new(seed), Vec::new());
    let (mut differences, mut has_diverged, mut failed, mut calls) = (Vec::new(), false, 0, 0);
    for number in 0..setting("HEDDLE_FUNCTIONS", 48) {
        let script = script(&mut generator, number);
        if number.is_multiple_of(GROUP) {
            (history, has_diverged) = (Vec::new(), false);
        }
        for statement in script {
            if has_diverged {
                break;
            }
            let expected = theirs(&mut session, &statement);
            calls += 1;
            failed += usize::from(expected.is_err());
            history.push(statement.clone());
            for (connection, way) in &mut connections {
                let found = ours(connection, &statement);
                if found != expected && !has_diverged {
                    has_diverged = true;
                    let before = history.join(";\n");
                    differences.push(format!(
                        "{way}: {statement}\nhere:  {found:?}\nthere: {expected:?}\nof\n{before};\n"
                    ));
                }
            }
        }
        if differences.len() >= DIFFERENCES_MAX {
            break;
        }
    }
    println!("{calls} statements, of which {failed} failed as expected");
    assert!(differences.is_empty(), "seed {seed}: {}", differences.join("\n\n"));
}
