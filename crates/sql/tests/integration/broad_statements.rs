//! Random statements over all that `docs/sql.md` covers, compared with PostgreSQL 15: rows, names and types of columns, or
//! SQLSTATEs.
//!
//! A file of statements begins with fresh tables. `HEDDLE_STATEMENTS` says how many statements a file has, `HEDDLE_FILES` how
//! many files there are, `HEDDLE_SEED` repeats a run, `HEDDLE_SCRIPT` names a file of statements, one on each
//! line, that run instead.

mod broad;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crate::support::oracle::{Oracle, Session};
use broad::Generator;
use broad::schema::{CONTENTS, SCHEMA};
use heddle_sql::{Connection, Sql, TransactionStatus};
use heddledb::{Database, Durability, Options};

/// With how many differences a run ends.
const DIFFERENCES_MAX: usize = 10;

/// Rows, and names with types of columns.
type Shown = Result<(Vec<Vec<Option<String>>>, Vec<(String, String)>), String>;

struct Comparison {
    connection: Connection,
    session: Session,
    type_names: HashMap<(u32, i32), String>,
    differences: Vec<String>,
    has_diverged: bool,
    statements: usize,
    failed: usize,
    slowest: (Duration, String),
}

impl Comparison {
    fn ours(&mut self, text: &str) -> Shown {
        let started = Instant::now();
        let caught = catch_unwind(AssertUnwindSafe(|| self.connection.query(text)));
        let Ok(results) = caught else { return Err("panic".to_string()) };
        let time = started.elapsed();
        if time > self.slowest.0 {
            self.slowest = (time, text.to_string());
        }
        let results = results.map_err(|error| error.state().as_str().to_string())?;
        let Some(result) = results.last() else { return Ok((Vec::new(), Vec::new())) };
        let rows = self.connection.text_rows(result).map_err(|error| error.state().as_str().to_string())?;
        let fields = result.fields.clone();
        let fields = fields.iter().flat_map(|fields| fields.iter());
        let columns = fields
            .map(|field| (field.name.clone(), self.type_name(field.ty.oid(), field.modifier)))
            .collect();
        Ok((rows, columns))
    }

    fn type_name(&mut self, oid: u32, modifier: i32) -> String {
        if let Some(name) = self.type_names.get(&(oid, modifier)) {
            return name.clone();
        }
        let name = match self.connection.query(&format!("select format_type({oid}, {modifier})")) {
            Ok(results) => self.connection.text_rows(&results[0]).unwrap()[0][0].clone().unwrap_or_default(),
            // In a failed transaction nothing can be asked.
            Err(_) => return String::new(),
        };
        self.type_names.insert((oid, modifier), name.clone());
        name
    }

    fn theirs(&mut self, text: &str, has_columns: bool) -> Shown {
        let is_query = ["select", "with", "values", "(", "table"].iter().any(|word| text.starts_with(word));
        let columns = if has_columns && is_query {
            self.session.describe(text).unwrap_or_default()
        } else {
            Vec::new()
        };
        let answer = self.session.run(text);
        if answer.sqlstate == "00000" { Ok((answer.rows, columns)) } else { Err(answer.sqlstate) }
    }

    /// Fresh databases.
    fn start(oracle: &Oracle) -> Comparison {
        let mut session = oracle.connect();
        for text in ["drop schema public cascade", "create schema public", "set timezone to 'UTC'"] {
            session.run(text);
        }
        let database = Database::in_memory_with(Options::default().durability(Durability::None)).unwrap();
        let connection = Sql::new(&database).unwrap().connect(Default::default()).unwrap();
        Comparison {
            connection,
            session,
            type_names: HashMap::new(),
            differences: Vec::new(),
            has_diverged: false,
            statements: 0,
            failed: 0,
            slowest: Default::default(),
        }
    }

    fn compare(&mut self, text: &str) {
        let mut ours = self.ours(text);
        let has_columns = ours.as_ref().is_ok_and(|(_, columns)| !columns.is_empty());
        let mut theirs = self.theirs(text, has_columns);
        if let (Ok(ours), Ok(theirs)) = (&mut ours, &mut theirs) {
            let types = ours.1.clone();
            if theirs.1.is_empty() {
                ours.1.clear();
            }
            for (rows, _) in [ours, theirs] {
                for row in rows.iter_mut() {
                    row.iter_mut().enumerate().for_each(|(at, value)| shorten(value, types.get(at)));
                }
                rows.sort();
            }
        }
        self.statements += 1;
        self.failed += usize::from(theirs.is_err());
        if ours != theirs {
            if self.has_diverged {
                return;
            }
            let is_query = ["select", "with", "values"].iter().any(|word| text.starts_with(word));
            self.has_diverged = !is_query || self.connection.status() != TransactionStatus::Idle;
            let message =
                if theirs.is_err() && ours.is_ok() { self.session.last_message() } else { String::new() };
            let ours_message = match (&ours, &theirs) {
                (Err(state), _) if state != "panic" => {
                    self.connection.query(text).err().map_or(String::new(), |error| error.to_string())
                }
                _ => String::new(),
            };
            let (ours, theirs) = (excerpt(&ours, &theirs), excerpt(&theirs, &ours));
            self.differences
                .push(format!("{text}\n  ours   {ours} {ours_message}\n  theirs {theirs} {message}"));
        }
    }
}

/// The part of one side's answer that the other does not have.
fn excerpt(shown: &Shown, other: &Shown) -> String {
    let text = match (shown, other) {
        (Ok((rows, columns)), Ok((others, _))) => {
            let only: Vec<_> = rows.iter().filter(|row| !others.contains(row)).take(4).collect();
            format!("{} rows, {columns:?}, {only:?}", rows.len())
        }
        (Ok((rows, _)), Err(_)) => format!("{} rows", rows.len()),
        (Err(state), _) => state.clone(),
    };
    text.chars().take(500).collect()
}

/// Removes differences that are free: if values are equal, either of 1.5 and 1.50 may represent both; sums of
/// floats depend on the order of rows.
fn shorten(value: &mut Option<String>, column: Option<&(String, String)>) {
    let Some(text) = value else { return };
    match column.map(|(_, kind)| kind.as_str()) {
        Some("double precision" | "real") => {
            if let Ok(number) = text.parse::<f64>() {
                *text = format!("{number:.9e}");
            }
        }
        Some(kind) if kind.starts_with("numeric") && text.contains('.') => {
            text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
        }
        _ => {}
    }
}

/// The scripts of `broad/features`: one statement on each line.
#[test]
fn scripts_of_features_answer_as_postgresql_does() {
    let Some(oracle) = Oracle::start() else { return };
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/integration/broad_statements/broad/features");
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let wanted = std::env::var("FEATURE").unwrap_or_default();
    files.retain(|file| file.to_string_lossy().contains(&wanted));
    assert!(!files.is_empty());
    let mut differences = Vec::new();
    for file in files {
        let mut comparison = Comparison::start(&oracle);
        for text in std::fs::read_to_string(&file).unwrap().lines() {
            if !text.is_empty() && !text.starts_with("--") {
                comparison.has_diverged = false;
                comparison.compare(text);
            }
        }
        let named = |difference| format!("{}: {difference}", file.file_name().unwrap().display());
        differences.extend(comparison.differences.into_iter().map(named));
        comparison.session.run("drop schema public cascade");
        comparison.session.run("create schema public");
    }
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn run_file(comparison: &mut Comparison, seed: u64, count: usize) {
    let mut generator = Generator::new(seed);
    for text in SCHEMA {
        comparison.compare(text);
    }
    for text in generator.rows() {
        comparison.compare(&text);
    }
    if let Ok(script) = std::env::var("HEDDLE_SCRIPT") {
        for text in std::fs::read_to_string(script).unwrap().lines() {
            comparison.has_diverged = false;
            comparison.compare(text);
        }
        return;
    }
    for at in 0..count {
        // Behind a difference in a write everything differs.
        if comparison.differences.len() >= DIFFERENCES_MAX || comparison.has_diverged {
            return;
        }
        match at % 20 {
            7 | 14 => {
                let script = generator.script();
                script.iter().for_each(|text| comparison.compare(text));
            }
            3 | 10 | 17 => {
                let should_stay = generator.chance(30);
                comparison.compare("begin");
                let text = generator.write();
                comparison.compare(&text);
                CONTENTS.iter().for_each(|text| comparison.compare(text));
                comparison.compare(if should_stay { "commit" } else { "rollback" });
            }
            0 | 5 | 12 => {
                let text = generator.constant();
                comparison.compare(&text);
            }
            _ => {
                let text = generator.query();
                comparison.compare(&text);
            }
        }
    }
}

#[test]
fn broad_statements_answer_as_postgresql_does() {
    let Some(oracle) = Oracle::start() else { return };
    let (seed, files, count) =
        (number("HEDDLE_SEED", 1), number("HEDDLE_FILES", 1), number("HEDDLE_STATEMENTS", 400));
    let (mut statements, mut failed, mut differences) = (0, 0, Vec::new());
    let mut slowest = (Duration::ZERO, String::new());
    for file in 0..files {
        let mut comparison = Comparison::start(&oracle);
        run_file(&mut comparison, seed + file, count as usize);
        statements += comparison.statements;
        failed += comparison.failed;
        slowest = comparison.slowest.max(slowest);
        differences.extend(
            comparison
                .differences
                .into_iter()
                .map(|difference| format!("seed {}: {difference}", seed + file)),
        );
    }
    println!("{statements} statements, {failed} refused by both, the slowest {:?}: {}", slowest.0, slowest.1);
    assert!(failed * 2 < statements, "too many statements fail to compare much");
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}
