//! Random routines compared with PostgreSQL 15, under each protocol, with and without derived footprints: answers, messages of
//! errors, and what all tables hold after each call. And several at once under each protocol: as one after another.
//!
//! `HEDDLE_FUNCTIONS` says how many are generated, `HEDDLE_SEED` repeats a run; `HEDDLE_GROUPS` and `HEDDLE_ROUNDS` say how many
//! groups of routines, and how many rounds of calls each, run at once.

mod bodies;

use std::sync::Barrier;
use std::thread;

use crate::support::calls::{connect, database};
use crate::support::oracle::{Oracle, Session};
use bodies::Generator;
use bodies::tables::SHOWN;
use heddle_sql::{Connection, Sql};
use heddledb::ProtocolKind;

/// Routines that share tables and call each other.
const GROUP: u64 = 6;
/// Calls at once.
const THREADS: usize = 4;
/// With how many differences a run ends.
const DIFFERENCES_MAX: usize = 5;

/// The answer of a statement: its rows, or the error's SQLSTATE and message.
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

/// The answer without the message of an overflow: one that the commit finds names the column and its bounds.
fn without_overflow(shown: &Shown) -> Shown {
    match shown {
        Err((state, _)) if state == "22003" => Err((state.clone(), String::new())),
        shown => shown.clone(),
    }
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
                if without_overflow(&found) != without_overflow(&expected) && !has_diverged {
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

/// A database of a protocol with the routines of a script, as far as they can be created.
fn prepared(protocol: ProtocolKind, script: &[String]) -> Sql {
    let sql = Sql::new(&database(protocol)).expect("SQL");
    let mut connection = connect(&sql, true);
    for statement in script {
        let _ = ours(&mut connection, statement);
    }
    sql
}

/// All orders of so many things.
fn orders(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let shorter = orders(count - 1).into_iter();
    let longer = |order: Vec<usize>| {
        (0..count).map(move |at| {
            let mut order = order.clone();
            order.insert(at, count - 1);
            order
        })
    };
    shorter.flat_map(longer).collect()
}

/// The answers of calls one after another in this order, and the content of the tables then.
fn in_order(connection: &mut Connection, calls: &[String], order: &[usize]) -> (Vec<Shown>, Shown) {
    let mut answers = vec![Ok(Vec::new()); calls.len()];
    for &call in order {
        ours(connection, "savepoint s").expect("a savepoint");
        answers[call] = ours(connection, &calls[call]);
        if answers[call].is_err() {
            ours(connection, "rollback to s").expect("back");
        }
    }
    (answers, ours(connection, SHOWN))
}

/// Runs calls at once, and finds an order in which they answer the same one after another.
fn run_at_once(
    connections: &mut [Connection],
    reference: &mut Connection,
    calls: &[String],
) -> Result<(), String> {
    let start = Barrier::new(calls.len());
    let run = |connection: &mut Connection, call: &str| {
        start.wait();
        ours(connection, call)
    };
    let run = &run;
    let answers: Vec<Shown> = thread::scope(|scope| {
        let each = connections.iter_mut().zip(calls);
        let threads: Vec<_> =
            each.map(|(connection, call)| scope.spawn(move || run(connection, call))).collect();
        threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
    });
    let tables = ours(&mut connections[0], SHOWN);
    for order in orders(calls.len()) {
        ours(reference, "begin").expect("a block");
        let found = in_order(reference, calls, &order);
        let is_same = found == (answers.clone(), tables.clone());
        ours(reference, if is_same { "commit" } else { "rollback" }).expect("an end");
        if is_same {
            return Ok(());
        }
    }
    Err(format!("no order gives {answers:?} and {tables:?}"))
}

#[test]
fn random_routines_at_once_behave_as_in_some_order_under_each_protocol() {
    let seed = setting("HEDDLE_SEED", 4);
    let (groups, rounds) = (setting("HEDDLE_GROUPS", 2), setting("HEDDLE_ROUNDS", 12));
    for group in 0..groups {
        let mut generator = Generator::new(seed + 1_000 * group);
        let mut script = generator.group();
        script.extend((0..GROUP).map(|_| generator.routine()));
        let calls: Vec<Vec<String>> =
            (0..rounds).map(|_| (0..THREADS).map(|_| generator.call()).collect()).collect();
        for &protocol in ProtocolKind::ALL {
            let sql = prepared(protocol, &script);
            let mut connections: Vec<Connection> = (0..THREADS).map(|_| connect(&sql, true)).collect();
            let alone = prepared(ProtocolKind::Optimistic, &script);
            let mut reference = connect(&alone, false);
            for connection in connections.iter_mut().chain([&mut reference]) {
                ours(connection, "set search_path = g").expect("a setting");
            }
            for calls in &calls {
                run_at_once(&mut connections, &mut reference, calls).unwrap_or_else(|error| {
                    panic!("seed {seed}, {protocol}: {error}\nof {calls:#?}\nin\n{};", script.join(";\n"))
                });
            }
        }
    }
}

#[test]
fn calls_that_no_order_explains_are_noticed() {
    let tables = ["create schema g", "set search_path = g", "create table log (k int primary key, v int)"];
    let others = ["part (k int, n int, w int, note text)", "pair (id int, code text, ref int)"];
    let more = [
        "seen (what text, k int, v int, times int)",
        "heap (k int, v int)",
        "sums (k int, n int)",
        "late (id int, up int)",
    ];
    let mut script: Vec<String> = tables.map(str::to_string).into();
    script.extend(others.iter().chain(&more).map(|table| format!("create table {table}")));
    script.push("insert into log values (1, 0)".to_string());
    let (sql, alone) = [(); 2].map(|()| prepared(ProtocolKind::Optimistic, &script)).into();
    let mut connections = [connect(&sql, true), connect(&sql, true)];
    let mut reference = connect(&alone, false);
    for connection in connections.iter_mut().chain([&mut reference]) {
        ours(connection, "set search_path = g").expect("a setting");
    }
    let calls = ["update log set v = v * 2 + 1 returning v", "update log set v = v * 3 returning v"];
    let calls = calls.map(str::to_string);
    run_at_once(&mut connections, &mut reference, &calls).expect("an order");
    ours(&mut reference, "update log set v = v + 1").expect("a difference");
    run_at_once(&mut connections, &mut reference, &calls).expect_err("no order");
}

/// The calls of random routines, alone on a database of a protocol: how many routines are derived, and each call that met what
/// it had not declared. A duplicate in a unique index is described by a row that no key names, and of a deferred foreign key that
/// does not hold the rows that refer are looked up. A call whose operation does not fit the value that it meets is executed
/// twice, the second time as an ordinary one, and fails both times.
fn misses(protocol: ProtocolKind, seed: u64, routines: u64) -> (usize, Vec<String>) {
    let database = database(protocol);
    let mut connection = connect(&Sql::new(&database).expect("SQL"), true);
    let (mut generator, mut derived, mut missed) = (Generator::new(seed), 0, Vec::new());
    for number in 0..routines {
        for statement in script(&mut generator, number) {
            let before = database.statistics();
            let found = ours(&mut connection, &statement);
            let counts = database.statistics() - before;
            let is_violation =
                matches!(&found, Err((state, _)) if ["23505", "23503", "22003"].contains(&state.as_str()));
            let is_call = ["select", "call"].iter().any(|word| statement.starts_with(word));
            if is_call && !is_violation && counts.failed > u64::from(found.is_err()) {
                missed.push(format!("{statement}: {found:?}"));
            }
        }
        let Some(last) = generator.routines.last() else { continue };
        let x = if last.takes_text { "text" } else { "int" };
        let shown = ours(&mut connection, &format!("explain routine {}({x}, int, int)", last.name));
        let lines = shown.unwrap_or_default().into_iter().flatten().flatten();
        derived += usize::from(lines.into_iter().any(|line| line.contains("Footprint: derived")));
    }
    (derived, missed)
}

#[test]
fn derived_footprints_of_random_routines_miss_no_access() {
    let (seed, routines) = (setting("HEDDLE_SEED", 21), setting("HEDDLE_FUNCTIONS", 48));
    let (derived, missed) = misses(ProtocolKind::Serial, seed, routines);
    println!("{derived} of {routines} routines are derived");
    assert!(derived > 0 && missed.is_empty(), "seed {seed}: {missed:#?}");
}
