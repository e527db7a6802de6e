//! Runs files of SQLite's public sqllogictest corpus, which must lie in `HEDDLE_CORPUS` (a directory, searched for `*.test`).
//!
//! `HEDDLE_FILTER` runs only the files whose path contains it, `HEDDLE_PROTOCOL` chooses the engine's protocol, and `HEDDLE_ENGINE` the
//! name that `skipif` and `onlyif` know it by. Where PostgreSQL 15 is installed, an answer that a file does not expect is compared with
//! PostgreSQL's: the corpus holds statements that PostgreSQL refuses or answers differently, too.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support;
use heddle_sql::{Connection, Sql};
use heddledb::{Database, Durability, Options, ProtocolKind};
use support::oracle::{Oracle, Session};
use support::sqllogictest::{Outcome, Record, Step, records};

/// Most differences of a file that are shown.
const DIFFERENCES_MAX: usize = 3;

/// Most of the slowest statements of a family that are shown.
const SLOWEST_MAX: usize = 3;

/// The report of the files' runs.
#[derive(Default)]
struct Tally {
    statements: usize,
    queries: usize,
    skipped: usize,
    /// Not as the file expects, but as PostgreSQL answers: how many, and the first, by SQLSTATE or `rows`.
    as_postgresql: BTreeMap<String, (usize, String)>,
    differences: Vec<String>,
    ours: Duration,
    /// The longest first.
    slowest: Vec<(Duration, String)>,
}

impl Tally {
    fn time(&mut self, time: Duration, describe: impl FnOnce() -> String) {
        self.ours += time;
        if self.slowest.len() < SLOWEST_MAX || self.slowest.last().is_some_and(|(least, _)| time > *least) {
            self.slowest.push((time, describe()));
            self.keep_slowest();
        }
    }

    fn like_postgresql(&self) -> usize {
        self.as_postgresql.values().map(|(count, _)| count).sum()
    }

    fn keep_slowest(&mut self) {
        self.slowest.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
        self.slowest.truncate(SLOWEST_MAX);
    }

    fn add(&mut self, other: Tally) {
        self.statements += other.statements;
        self.queries += other.queries;
        self.skipped += other.skipped;
        for (kind, (count, first)) in other.as_postgresql {
            self.as_postgresql.entry(kind).or_insert((0, first)).0 += count;
        }
        self.differences.extend(other.differences);
        self.ours += other.ours;
        self.slowest.extend(other.slowest);
        self.keep_slowest();
    }
}

fn ours(connection: &mut Connection, text: &str) -> Outcome {
    let results = connection.query(text).map_err(|error| error.state().as_str().to_string())?;
    let Some(result) = results.last() else { return Ok(Vec::new()) };
    connection.text_rows(result).map_err(|error| error.state().as_str().to_string())
}

fn theirs(session: &mut Session, text: &str) -> Outcome {
    // Behind a backslash a semicolon sends nothing yet: psql would send the parts of the text one by one.
    let answer = session.run(&text.replace(';', "\\;"));
    if answer.sqlstate == "00000" { Ok(answer.rows) } else { Err(answer.sqlstate) }
}

/// Returns true if two answers to a record are the same, or both are errors: a statement that is not covered
/// ends with 0A000 here, and may be a mistake there.
fn agree(record: &Record, ours: &Outcome, theirs: &Outcome) -> bool {
    match (ours, theirs) {
        (Err(ours), Err(theirs)) => ours == theirs || ours == "0A000",
        _ => record.shown(ours) == record.shown(theirs),
    }
}

/// One file, run here and, as far as it is needed, by PostgreSQL.
struct FileRun<'o> {
    path: &'o Path,
    connection: Connection,
    postgresql: Option<(Session, String)>,
    oracle: Option<&'o Oracle>,
    /// The statements that change data and that PostgreSQL has not run yet: it is connected to at the first difference.
    statements: Vec<String>,
    /// PostgreSQL's answer to the last one of those that it has executed.
    last: Outcome,
    tally: Tally,
}

impl FileRun<'_> {
    fn run(&mut self, record: &Record) {
        if record.skipped {
            self.tally.skipped += 1;
            return;
        }
        let started = Instant::now();
        let outcome = ours(&mut self.connection, &record.text);
        let path = self.path;
        self.tally.time(started.elapsed(), || format!("{}:{}: {}", path.display(), record.line, record.text));
        match &record.step {
            Step::Statement { .. } => {
                self.tally.statements += 1;
                self.state_to_postgresql(&record.text);
            }
            Step::Query { .. } => self.tally.queries += 1,
        }
        if !record.expects(&outcome) {
            self.compare_with_postgresql(record, &outcome);
        }
    }

    /// Has PostgreSQL run what changes data, at once or, if there was no difference yet, when it is asked.
    fn state_to_postgresql(&mut self, text: &str) {
        self.statements.push(text.to_string());
        if self.postgresql.is_some() {
            self.catch_up();
        }
    }

    fn catch_up(&mut self) {
        let Some((session, _)) = &mut self.postgresql else { return };
        for statement in self.statements.drain(..) {
            self.last = theirs(session, &statement);
        }
    }

    fn compare_with_postgresql(&mut self, record: &Record, outcome: &Outcome) {
        let shown = |outcome: &Outcome| format!("{outcome:?}").chars().take(300).collect::<String>();
        let mut difference =
            format!("{}:{}: {}\n  ours   {}", self.path.display(), record.line, record.text, shown(outcome));
        if self.connect_to_postgresql() {
            let theirs = match (&record.step, &mut self.postgresql) {
                (Step::Query { .. }, Some((session, _))) => theirs(session, &record.text),
                _ => self.last.clone(),
            };
            if agree(record, outcome, &theirs) {
                let kind = theirs.map_or_else(|state| state, |_| "rows".to_string());
                self.tally.as_postgresql.entry(kind).or_insert((0, difference)).0 += 1;
                return;
            }
            difference += &format!("\n  theirs {}", shown(&theirs));
        }
        self.tally.differences.push(difference);
    }

    /// Returns true if there is a PostgreSQL, which then has the present data.
    fn connect_to_postgresql(&mut self) -> bool {
        let Some(oracle) = self.oracle else { return false };
        if self.postgresql.is_none() {
            let mut session = oracle.connect();
            let schema = format!("file_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
            session.run(&format!("create schema {schema}"));
            session.run(&format!("set search_path = {schema}"));
            self.postgresql = Some((session, schema));
            self.catch_up();
        }
        true
    }
}

/// Relaxed: it only counts.
static NUMBER: AtomicUsize = AtomicUsize::new(0);

fn run_file(path: &Path, settings: &Settings, oracle: Option<&Oracle>) -> Tally {
    let text = std::fs::read_to_string(path).unwrap();
    let options = Options::default().durability(Durability::None).protocol(settings.protocol);
    let database = Database::in_memory_with(options).unwrap();
    let connection = Sql::new(&database).unwrap().connect(Default::default()).unwrap();
    let (statements, last, tally) = (Vec::new(), Ok(Vec::new()), Tally::default());
    let mut run = FileRun { path, connection, postgresql: None, oracle, statements, last, tally };
    for record in records(&text, &settings.engine) {
        run.run(&record);
        if run.tally.differences.len() >= DIFFERENCES_MAX {
            run.tally.differences.push(format!("{}: the rest was not run", path.display()));
            break;
        }
    }
    if let Some((mut session, schema)) = run.postgresql.take() {
        session.run(&format!("drop schema {schema} cascade"));
    }
    run.tally
}

fn files_below(directory: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_below(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "test") {
            into.push(path);
        }
    }
}

struct Settings {
    protocol: ProtocolKind,
    engine: String,
}

fn settings() -> Settings {
    let name = std::env::var("HEDDLE_PROTOCOL").unwrap_or_else(|_| "optimistic".to_string());
    let protocol = name.parse().unwrap_or_else(|_| panic!("HEDDLE_PROTOCOL={name} is no protocol"));
    Settings { protocol, engine: std::env::var("HEDDLE_ENGINE").unwrap_or_else(|_| "postgresql".to_string()) }
}

#[test]
fn the_public_corpus_answers_as_it_expects_or_as_postgresql_does() {
    let Some(directory) = std::env::var_os("HEDDLE_CORPUS").map(PathBuf::from) else {
        let why = "HEDDLE_CORPUS names no directory with the public corpus";
        return support::oracle::skips::skip("corpus", why);
    };
    let wanted = std::env::var("HEDDLE_FILTER").unwrap_or_default();
    let mut files = Vec::new();
    files_below(&directory, &mut files);
    files.retain(|path| path.strip_prefix(&directory).unwrap().to_string_lossy().contains(&wanted));
    files.sort();
    assert!(!files.is_empty(), "no file of {} has {wanted} in its path", directory.display());
    let oracle = Oracle::start();
    let (next, settings) = (AtomicUsize::new(0), settings());
    let families: Mutex<BTreeMap<String, Tally>> = Mutex::default();
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                // Relaxed: it only gives each file to one thread.
                while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let tally = run_file(path, &settings, oracle.as_ref());
                    let family = family(path.strip_prefix(&directory).unwrap());
                    families.lock().unwrap().entry(family).or_default().add(tally);
                }
            });
        }
    });
    report(families.into_inner().unwrap());
}

/// The first two folders of a path, or the file's name where it lies in none.
fn family(path: &Path) -> String {
    let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
    parts[..(parts.len() - 1).clamp(1, 2)].join("/")
}

fn report(families: BTreeMap<String, Tally>) {
    let mut sum = Tally::default();
    for (family, tally) in families {
        println!(
            "{family}: {} statements, {} queries, {} skipped, {} as PostgreSQL, {} differences, {:.0} us each",
            tally.statements,
            tally.queries,
            tally.skipped,
            tally.like_postgresql(),
            tally.differences.len(),
            tally.ours.as_secs_f64() * 1e6 / (tally.statements + tally.queries).max(1) as f64
        );
        for (kind, (count, first)) in &tally.as_postgresql {
            println!("  {count} as PostgreSQL, {kind}: {first}");
        }
        for (time, text) in &tally.slowest {
            println!("  {time:?} {}", text.chars().take(200).collect::<String>());
        }
        sum.add(tally);
    }
    println!(
        "in all: {} statements, {} queries, {} skipped, {} as PostgreSQL, {:?} of work",
        sum.statements,
        sum.queries,
        sum.skipped,
        sum.like_postgresql(),
        sum.ours
    );
    assert!(
        sum.differences.is_empty(),
        "{} differences:\n{}",
        sum.differences.len(),
        sum.differences.join("\n")
    );
}

/// A file with every form that the corpus has.
const FORMS: &str = "hash-threshold 8

statement ok
CREATE TABLE t(a INTEGER, b REAL, c TEXT)

# a comment
statement ok
INSERT INTO t VALUES(2, 0.5, ''),
  (10, -1.0, 'a\u{7f}b'), (NULL, NULL, NULL)

statement error
SELECT 1 FROM missing

onlyif mysql # DIV
query I rowsort label-1
SELECT 7 DIV 2
----
3

skipif mysql # not compatible
skipif oracle
query IRT rowsort label-2
SELECT a, b, c FROM t
----
10
-1.000
a@b
2
0.500
(empty)
NULL
NULL
NULL

query II valuesort
SELECT 2, a FROM t WHERE a > 5
----
10
2

query I nosort
SELECT 2.75
----
2

query I rowsort
SELECT a FROM t WHERE a > 1
----
2 values hashing to 17fe8000e24ee6a32c6b488462abebf0

skipif postgresql
halt

onlyif postgresql
halt

statement ok
SELECT 1 FROM missing
";

fn run_text(text: &str, engine: &str) -> Vec<(usize, bool)> {
    let database = Database::in_memory_with(Options::default().durability(Durability::None)).unwrap();
    let mut connection = Sql::new(&database).unwrap().connect(Default::default()).unwrap();
    let run = |record: Record| (record.line, record.expects(&ours(&mut connection, &record.text)));
    records(text, engine).into_iter().filter(|record| !record.skipped).map(run).collect()
}

#[test]
fn every_form_of_a_file_is_read_and_compared() {
    let lines = [3, 7, 11, 22, 35, 41, 46].map(|line| (line, true));
    assert_eq!(run_text(FORMS, "postgresql"), lines);
}

#[test]
fn records_for_other_engines_are_skipped() {
    let lines: Vec<usize> =
        records(FORMS, "mysql").iter().filter(|it| !it.skipped).map(|it| it.line).collect();
    assert_eq!(lines, [3, 7, 11, 15, 35, 41, 46], "up to the halt that others than PostgreSQL meet");
}

#[test]
fn other_values_than_a_record_expects_are_noticed() {
    for (from, to) in [
        ("10\n-1.000", "10\n-1.001"),
        ("(empty)", "NULL"),
        ("a@b", "ab"),
        ("----\n10\n2\n\n", "----\n2\n10\n\n"),
        ("SELECT 2.75\n----\n2", "SELECT 2.75\n----\n3"),
        ("hashing to 1", "hashing to 2"),
        ("2 values", "3 values"),
        ("error\nSELECT 1 FROM missing", "error\nSELECT 1 FROM t"),
        ("(NULL, NULL, NULL)", "(NULL, NULL, 'x')"),
        ("CREATE TABLE t", "CREATE TABLE u"),
    ] {
        let changed = FORMS.replacen(from, to, 1);
        assert_ne!(changed, FORMS, "{from}");
        assert!(run_text(&changed, "postgresql").iter().any(|(_, expected)| !expected), "{to}");
    }
}

#[test]
fn both_refuse_alike_or_here_as_not_covered() {
    let record = &records("query I nosort\nSELECT 1\n", "postgresql")[0];
    let refused = |state: &str| Err(state.to_string());
    assert!(agree(record, &refused("42601"), &refused("42601")));
    assert!(agree(record, &refused("0A000"), &refused("42883")));
    assert!(!agree(record, &refused("42P01"), &refused("42883")));
    assert!(!agree(record, &refused("0A000"), &Ok(Vec::new())));
    assert!(!agree(record, &Ok(vec![vec![Some("1".to_string())]]), &Ok(vec![vec![Some("2".to_string())]])));
}
