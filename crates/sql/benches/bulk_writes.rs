//! The memory and instructions of a statement that writes very many rows, beside the memory of its rows
//! afterwards.
//!
//! `cargo bench -p heddle-sql --bench bulk_writes [ROWS]` runs each statement on a database in memory in a process of its own, on rows
//! of 100 bytes, and prints by how much the resident set was larger at its peak than before, and by how much it stays
//! larger, both divided by the rows' size; then the processor time for a row. `-- run NAME ROWS` runs one of them, under a profiler
//! for instance. Memory is that of the whole process: the data of a COPY comes in pieces.

use std::process::{Command, ExitCode};
use std::time::Instant;

use heddle_sql::types::{Environment, Value};
use heddle_sql::{CopyFormat, CopySource, ResultSink, Sql, SqlError};
use heddledb::{Database, Durability, Options, fail};

/// Rows, unless an argument says otherwise.
const ROWS: usize = 500_000;
/// The bytes of a row: a key of eight, and a text.
const ROW_BYTES: usize = 100;

/// A measurement: its name, what runs before it, and the statement.
struct Case {
    name: &'static str,
    before: &'static [&'static str],
    statement: &'static str,
}

const FILL: &str = "truncate t; insert into t select n, repeat('x', 92) from generate_series(1, $ROWS) n";

const CASES: [Case; 9] = [
    Case { name: "copy", before: &[], statement: "copy t from stdin" },
    Case { name: "copy-in-block", before: &["begin"], statement: "copy t from stdin; commit" },
    Case { name: "copy-truncated", before: &[], statement: "begin; truncate t; copy t from stdin; commit" },
    Case { name: "copy-indexed", before: &["create index on t (n)"], statement: "copy t from stdin" },
    Case {
        name: "insert-select",
        before: &[],
        statement: "insert into t select n, repeat('x', 92) from generate_series(1, $ROWS) n",
    },
    Case {
        name: "insert-select-in-block",
        before: &["begin"],
        statement: "insert into t select n, repeat('x', 92) from generate_series(1, $ROWS) n; commit",
    },
    Case { name: "update", before: &[FILL], statement: "update t set n = repeat('y', 92)" },
    Case { name: "delete", before: &[FILL], statement: "delete from t" },
    Case { name: "delete-in-block", before: &[FILL, "begin"], statement: "delete from t; commit" },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [command, name, rows] = &arguments[..]
        && command == "run"
    {
        let case = CASES.iter().find(|case| case.name == name);
        let (Some(case), Ok(rows)) = (case, rows.parse()) else { return ExitCode::FAILURE };
        return match measure(case, rows) {
            Ok(line) => {
                println!("{line}");
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("{}: {error}", case.name);
                ExitCode::FAILURE
            }
        };
    }
    let rows = arguments.first().and_then(|rows| rows.parse().ok()).unwrap_or(ROWS);
    println!("| {rows} rows of {ROW_BYTES} bytes | peak | stays | µs for a row |");
    println!("|---|--:|--:|--:|");
    for case in &CASES {
        let Ok(program) = std::env::current_exe() else { return ExitCode::FAILURE };
        match Command::new(program).args(["run", case.name, &rows.to_string()]).output() {
            Ok(output) if output.status.success() => {
                println!("| {} | {} |", case.name, String::from_utf8_lossy(&output.stdout).trim());
            }
            Ok(output) => eprint!("{}", String::from_utf8_lossy(&output.stderr)),
            Err(error) => eprintln!("{}: {error}", case.name),
        }
    }
    ExitCode::SUCCESS
}

fn measure(case: &Case, rows: usize) -> Result<String, SqlError> {
    let options = Options::default().workers(1).durability(Durability::None);
    let db = Database::in_memory_with(options)?;
    let mut connection = Sql::new(&db)?.connect(Default::default())?;
    connection.query("create table t (id bigint primary key, n text not null)")?;
    for statement in case.before {
        connection.query(&statement.replace("$ROWS", &rows.to_string()))?;
    }
    reset_peak();
    let before = resident("VmRSS")?;
    let started = Instant::now();
    let mut sink = Feed::new(rows);
    connection.simple_query(&case.statement.replace("$ROWS", &rows.to_string()), &mut sink)?;
    let elapsed = started.elapsed();
    let of_rows = |now: usize| (now as f64 - before as f64) / (rows * ROW_BYTES) as f64;
    Ok(format!(
        "{:.1} | {:.1} | {:.2}",
        of_rows(resident("VmHWM")?),
        of_rows(resident("VmRSS")?),
        elapsed.as_secs_f64() * 1e6 / rows as f64
    ))
}

/// Lets the peak begin at what is resident now, where the system can.
fn reset_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// A figure of the process, in bytes.
fn resident(name: &str) -> Result<usize, SqlError> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<usize>().ok());
    kilobytes.map(|kilobytes| kilobytes * 1024).ok_or_else(|| fail("the system does not tell").into())
}

/// Lines for a COPY, made as they are asked for.
struct Feed {
    next: usize,
    rows: usize,
    filler: String,
}

impl Feed {
    fn new(rows: usize) -> Feed {
        Feed { next: 0, rows, filler: "x".repeat(ROW_BYTES - 8) }
    }
}

impl CopySource for Feed {
    fn next(&mut self, into: &mut Vec<u8>) -> Result<bool, SqlError> {
        for _ in 0..500 {
            if self.next == self.rows {
                return Ok(false);
            }
            self.next += 1;
            into.extend_from_slice(format!("{}\t{}\n", self.next, self.filler).as_bytes());
        }
        Ok(true)
    }
}

impl ResultSink for Feed {
    fn row(&mut self, _values: &[Value], _environment: &dyn Environment) -> Result<(), SqlError> {
        Ok(())
    }

    fn copy_in(&mut self, _format: CopyFormat, _columns: usize) -> Result<&mut dyn CopySource, SqlError> {
        Ok(self)
    }
}
