//! Statements in the style of SQLite's public corpus, compared with PostgreSQL 15: rows as sqllogictest shows them, or that
//! both refuse with the same SQLSTATE.
//!
//! `HEDDLE_STATEMENTS` says how many of each file, `HEDDLE_FILES` how many files of each family, `HEDDLE_SEED` repeats a run,
//! `HEDDLE_FAMILY` runs only the families whose names contain it.

use std::time::{Duration, Instant};

use crate::families::{FAMILIES, Family, Sort, Step};
use crate::support::oracle::{Oracle, Session};
use crate::support::samples::Random;
use heddle_sql::{Connection, Sql, Type};
use heddledb::{Database, Durability, Options};

/// Rows as texts, or an SQLSTATE.
type Shown = Result<Vec<Vec<String>>, String>;

/// With how many differences a file ends.
const DIFFERENCES_MAX: usize = 3;

/// The report of a file's run.
#[derive(Default)]
struct Tally {
    statements: usize,
    refused: usize,
    differences: Vec<String>,
    ours: Duration,
    slowest: (Duration, String),
}

fn ours(connection: &mut Connection, text: &str) -> (Shown, Vec<Type>) {
    let results = match connection.query(text) {
        Ok(results) => results,
        Err(error) => return (Err(error.state().as_str().to_string()), Vec::new()),
    };
    let Some(result) = results.last() else { return (Ok(Vec::new()), Vec::new()) };
    let types = result.fields.iter().flat_map(|fields| fields.iter().map(|field| field.ty)).collect();
    let rows = connection.text_rows(result).unwrap();
    (Ok(rows.into_iter().map(|row| row.into_iter().map(shown).collect()).collect()), types)
}

fn theirs(session: &mut Session, text: &str) -> Shown {
    let answer = session.run(text);
    match answer.sqlstate.as_str() {
        "00000" => Ok(answer.rows.into_iter().map(|row| row.into_iter().map(shown).collect()).collect()),
        other => Err(other.to_string()),
    }
}

fn shown(value: Option<String>) -> String {
    match value {
        None => "NULL".to_string(),
        Some(text) if text.is_empty() => "(empty)".to_string(),
        Some(text) => text,
    }
}

/// Puts rows into the order in which they are compared; floats have three decimals, as sqllogictest shows them: sums of
/// floats depend on the order of their rows.
fn normalize(rows: Vec<Vec<String>>, types: &[Type], sort: Sort) -> Vec<Vec<String>> {
    let shorten = |(at, text): (usize, String)| match types.get(at) {
        Some(Type::Float4 | Type::Float8) => {
            text.parse::<f64>().map_or(text, |number| format!("{number:.3}"))
        }
        _ => text,
    };
    let mut rows: Vec<Vec<String>> =
        rows.into_iter().map(|row| row.into_iter().enumerate().map(shorten).collect()).collect();
    match sort {
        Sort::None => {}
        Sort::Rows => rows.sort(),
        Sort::Values => {
            let mut values: Vec<String> = rows.into_iter().flatten().collect();
            values.sort();
            rows = values.into_iter().map(|value| vec![value]).collect();
        }
    }
    rows
}

fn compare(connection: &mut Connection, session: &mut Session, step: &Step, tally: &mut Tally) {
    let started = Instant::now();
    let (ours, types) = ours(connection, &step.text);
    let time = started.elapsed();
    tally.ours += time;
    if time > tally.slowest.0 {
        tally.slowest = (time, step.text.clone());
    }
    let ours = ours.map(|rows| normalize(rows, &types, step.sort));
    let theirs = theirs(session, &step.text).map(|rows| normalize(rows, &types, step.sort));
    tally.statements += 1;
    tally.refused += usize::from(theirs.is_err());
    if ours != theirs {
        let short = |shown: &Shown| format!("{shown:?}").chars().take(400).collect::<String>();
        tally.differences.push(format!(
            "{}\n  ours   {}\n  theirs {}",
            step.text,
            short(&ours),
            short(&theirs)
        ));
    }
}

fn run_file(oracle: &Oracle, family: Family, seed: u64, count: usize) -> Tally {
    let mut session = oracle.connect();
    session.run("drop schema public cascade");
    session.run("create schema public");
    let database = Database::in_memory_with(Options::default().durability(Durability::None)).unwrap();
    let mut connection = Sql::new(&database).unwrap().connect(Default::default()).unwrap();
    let mut tally = Tally::default();
    for step in family(&mut Random(seed), count) {
        compare(&mut connection, &mut session, &step, &mut tally);
        if tally.differences.len() >= DIFFERENCES_MAX {
            break;
        }
    }
    tally
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn statements_in_the_style_of_the_corpus_answer_as_postgresql_does() {
    let Some(oracle) = Oracle::start() else { return };
    let (seed, files) = (number("HEDDLE_SEED", 1), number("HEDDLE_FILES", 1));
    let count = number("HEDDLE_STATEMENTS", 150) as usize;
    let wanted = std::env::var("HEDDLE_FAMILY").unwrap_or_default();
    let mut differences = Vec::new();
    for (name, family) in FAMILIES.iter().filter(|(name, _)| name.contains(&wanted)) {
        let mut sum = Tally::default();
        for file in 0..files {
            let tally = run_file(&oracle, *family, seed + file * 1000, count);
            sum.statements += tally.statements;
            sum.refused += tally.refused;
            sum.ours += tally.ours;
            sum.slowest = sum.slowest.max(tally.slowest);
            let at = |difference| format!("{name}, seed {}: {difference}", seed + file * 1000);
            differences.extend(tally.differences.into_iter().map(at));
        }
        println!(
            "{name}: {} statements, {} refused by both, {:.0} us each, the slowest {:?}: {}",
            sum.statements,
            sum.refused,
            sum.ours.as_secs_f64() * 1e6 / sum.statements.max(1) as f64,
            sum.slowest.0,
            sum.slowest.1.chars().take(160).collect::<String>()
        );
        assert!(sum.refused * 2 < sum.statements, "{name}: too many statements fail to compare much");
    }
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}
