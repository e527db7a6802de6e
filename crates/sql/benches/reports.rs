//! The cost of reports beside PostgreSQL 15, on the same rows: time and processor time, query by query.
//!
//! `cargo bench -p heddle-sql --bench reports` loads a table of a million rows, two that it joins, and the tables of
//! CH-benCHmark (two warehouses) into a database in this process and into a PostgreSQL 15 that it starts (default
//! settings, after ANALYZE), runs every query in turns on both, and prints the shorter time, the mean processor time of all
//! threads or server processes, and the ratios (above 1: faster than PostgreSQL). Answers must be equal.
//!
//! `-- WORD` runs only the query of this name, or the queries whose names contain the word; `REPORTS_WAREHOUSES=10` takes other
//! tables of CH-benCHmark. `-- run WORD N` loads and runs them N times without
//! PostgreSQL: for profilers; `-- explain WORD` prints their plans. `taskset -c 0` leaves one thread to a query. Where PostgreSQL is missing only one side is printed.

#[path = "../tests/integration/support/oracle.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod oracle;

#[allow(dead_code, reason = "the tests use more of it")]
mod report_queries;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use heddle_sql::{Connection, Sql};
use heddle_workloads::Workload;
use heddle_workloads::tpcc::{Tpcc, reports};
use heddledb::{Database, Durability, Options};
use oracle::{Oracle, Session};
use report_queries::{QUERIES, TABLES};

type Failure = Box<dyn std::error::Error>;
type Rows = Vec<Vec<Option<String>>>;

/// Runs of a query on each side.
const ROUNDS: u32 = 3;
/// Warehouses of CH-benCHmark's tables, unless the environment says another number.
const WAREHOUSES: u64 = 2;
const WAREHOUSES_VARIABLE: &str = "REPORTS_WAREHOUSES";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let outcome = match &arguments[..] {
        [command, word, times] if command == "run" => profile(word, times.parse().unwrap_or(1)),
        [command, word] if command == "explain" => explain(word),
        words => compare(words),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Every query whose name contains one of the words, with its name and its text.
fn chosen(words: &[String]) -> Vec<(String, &'static str)> {
    let plain = QUERIES.iter().map(|&(name, text)| (name.to_owned(), text));
    let benchmark = reports::queries().into_iter().map(|query| (format!("ch {}", query.number), query.text));
    let all: Vec<(String, &'static str)> = plain.chain(benchmark).collect();
    let is_name = |word: &String| all.iter().any(|(name, _)| name == word);
    let means =
        |word: &String, name: &String| name == word || (!is_name(word) && name.contains(word.as_str()));
    let is_chosen = |name: &String| words.is_empty() || words.iter().any(|word| means(word, name));
    all.iter().filter(|(name, _)| is_chosen(name)).cloned().collect()
}

/// Runs queries without PostgreSQL.
fn profile(word: &str, times: u32) -> Result<(), Failure> {
    let queries = chosen(&[word.to_owned()]);
    let mut ours = load(&queries)?;
    for (name, text) in queries {
        measured_region(&mut || {
            for _ in 0..times {
                let started = (Instant::now(), own_processor_time());
                ours.query(text)?;
                let processor = own_processor_time().saturating_sub(started.1);
                println!("{name}: {:?}, processor time {processor:?}", started.0.elapsed());
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Prints the plans of queries, with the rows that each node returned.
fn explain(word: &str) -> Result<(), Failure> {
    let queries = chosen(&[word.to_owned()]);
    let mut ours = load(&queries)?;
    for (name, text) in queries {
        println!("{name}");
        let results = ours.query(&format!("explain analyze {text}"))?;
        for line in ours.text_rows(&results[0])?.into_iter().flatten().flatten() {
            println!("    {line}");
        }
    }
    Ok(())
}

/// The region in which callgrind is to collect (`--toggle-collect`).
#[inline(never)]
fn measured_region(body: &mut dyn FnMut() -> Result<(), Failure>) -> Result<(), Failure> {
    body()
}

/// A database with the tables that the queries need.
fn load(queries: &[(String, &'static str)]) -> Result<Connection, Failure> {
    let db = Database::in_memory_with(Options::default().durability(Durability::None))?;
    if queries.iter().any(|(name, _)| name.starts_with("ch ")) {
        let warehouses = std::env::var(WAREHOUSES_VARIABLE).ok().and_then(|number| number.parse().ok());
        Tpcc { warehouses: warehouses.unwrap_or(WAREHOUSES) as _, ..Tpcc::default() }.load(&db)?;
        reports::load(&db)?;
    }
    let mut ours = Sql::new(&db)?.connect(Default::default())?;
    ours.query("set timezone = 'UTC'")?;
    if queries.iter().any(|(name, _)| !name.starts_with("ch ")) {
        for statement in TABLES {
            ours.query(statement)?;
        }
    }
    ours.query("analyze")?;
    Ok(ours)
}

/// Runs queries on both sides, in turns.
fn compare(words: &[String]) -> Result<(), Failure> {
    let queries = chosen(words);
    let mut ours = load(&queries)?;
    let oracle = Oracle::start();
    let mut theirs = match &oracle {
        Some(oracle) => Some(load_postgres(oracle, &mut ours, &queries)?),
        None => None,
    };
    println!(
        "{:<28} {:>9} {:>9} {:>6}   {:>9} {:>9} {:>6}",
        "milliseconds", "HeddleDB", "Postgres", "ratio", "processor", "Postgres", "ratio"
    );
    let mut sums = [Duration::ZERO; 4];
    for (name, text) in queries {
        let times = measure(&mut ours, theirs.as_mut().zip(oracle.as_ref()), &name, text)?;
        print_times(&name, times);
        sums.iter_mut().zip(times).for_each(|(sum, time)| *sum += time);
    }
    print_times("all", sums);
    Ok(())
}

fn print_times(name: &str, [ours, theirs, our_processor, their_processor]: [Duration; 4]) {
    let milliseconds = |time: Duration| time.as_secs_f64() * 1_000.0;
    let ratio = |theirs: Duration, ours: Duration| theirs.as_secs_f64() / ours.as_secs_f64().max(1e-9);
    println!(
        "{name:<28} {:>9.1} {:>9.1} {:>6.2}   {:>9.1} {:>9.1} {:>6.2}",
        milliseconds(ours),
        milliseconds(theirs),
        ratio(theirs, ours),
        milliseconds(our_processor),
        milliseconds(their_processor),
        ratio(their_processor, our_processor),
    );
}

/// The shortest time of each side, and the mean processor times.
fn measure(
    ours: &mut Connection,
    mut theirs: Option<(&mut Session, &Oracle)>,
    name: &str,
    text: &str,
) -> Result<[Duration; 4], Failure> {
    let mut times = [Duration::MAX, Duration::MAX, Duration::ZERO, Duration::ZERO];
    for _ in 0..ROUNDS {
        let (started, processor) = (Instant::now(), own_processor_time());
        let found = ours.query(text)?;
        times[0] = times[0].min(started.elapsed());
        times[2] += own_processor_time().saturating_sub(processor) / ROUNDS;
        let found: Rows = ours.text_rows(&found[0])?;
        let Some((session, oracle)) = &mut theirs else { continue };
        let server = oracle.process_id();
        let (started, processor) = (Instant::now(), server_processor_time(server));
        let answer = session.run(text);
        times[1] = times[1].min(started.elapsed());
        times[3] += server_processor_time(server).saturating_sub(processor) / ROUNDS;
        if answer.sqlstate != "00000" {
            return Err(format!("{name}: PostgreSQL answers {}", answer.sqlstate).into());
        }
        if answer.rows != found {
            return Err(format!("{name}: the answers differ").into());
        }
    }
    if theirs.is_none() {
        times[1] = Duration::ZERO;
    }
    Ok(times)
}

/// Creates and fills the same tables in PostgreSQL.
fn load_postgres(
    oracle: &Oracle,
    ours: &mut Connection,
    queries: &[(String, &'static str)],
) -> Result<Session, Failure> {
    let mut theirs = oracle.connect();
    let mut statements: Vec<String> = Vec::new();
    if queries.iter().any(|(name, _)| !name.starts_with("ch ")) {
        statements.extend(TABLES.map(str::to_owned));
    }
    let directory = tempfile::tempdir()?;
    if queries.iter().any(|(name, _)| name.starts_with("ch ")) {
        for table in reports::TABLES {
            let path = directory.path().join(format!("{table}.sql"));
            write_script(ours, table, &path)?;
            oracle.run_script(&path)?;
        }
    }
    statements.push("vacuum analyze".to_owned());
    for statement in statements {
        let answer = theirs.run(&statement);
        if answer.sqlstate != "00000" {
            return Err(format!("PostgreSQL answers {} to {statement:.100}", answer.sqlstate).into());
        }
    }
    Ok(theirs)
}

/// Writes a script that makes a table of TPC-C with its rows and its primary key.
fn write_script(ours: &mut Connection, table: &str, path: &std::path::Path) -> Result<(), Failure> {
    let mut rows = |query: &str| -> Result<Rows, Failure> {
        let results = ours.query(query)?;
        Ok(ours.text_rows(&results[0])?)
    };
    let columns = rows(&format!(
        "select quote_ident(attname) || ' ' || format_type(atttypid, atttypmod) from pg_attribute \
         where attrelid = '{table}'::regclass and attnum > 0 order by attnum"
    ))?;
    let columns: Vec<String> = columns.into_iter().flatten().flatten().collect();
    let keys = rows(&format!(
        "select pg_get_constraintdef(oid) from pg_constraint where conrelid = '{table}'::regclass and contype = 'p'"
    ))?;
    let mut script = BufWriter::new(File::create(path)?);
    writeln!(script, "create table {table} ({});\ncopy {table} from stdin;", columns.join(", "))?;
    let cell = |cell: &Option<String>| match cell {
        Some(text) => text.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n"),
        None => "\\N".to_owned(),
    };
    for row in rows(&format!("select * from {table}"))? {
        writeln!(script, "{}", row.iter().map(cell).collect::<Vec<_>>().join("\t"))?;
    }
    writeln!(script, "\\.")?;
    for key in keys.into_iter().flatten().flatten() {
        writeln!(script, "alter table {table} add {key};")?;
    }
    script.flush()?;
    Ok(())
}

/// The processor time of this process, its threads that have ended included.
fn own_processor_time() -> Duration {
    ticks(process_times("self").map_or(0, |(_, own, _)| own))
}

/// The processor time of a server's processes, those that have ended included.
fn server_processor_time(server: u32) -> Duration {
    let directories = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let names = directories.filter_map(|entry| entry.file_name().into_string().ok());
    let children = names.filter_map(|name| process_times(&name)).filter(|(parent, ..)| *parent == server);
    let running: u64 = children.map(|(_, own, _)| own).sum();
    ticks(running + process_times(&server.to_string()).map_or(0, |(_, own, children)| own + children))
}

/// A process's parent, its own processor time and that of its children that have ended, in ticks.
fn process_times(name: &str) -> Option<(u32, u64, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{name}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some((number(1)? as u32, number(11)? + number(12)?, number(13)? + number(14)?))
}

/// Linux counts processor time in hundredths of a second.
fn ticks(count: u64) -> Duration {
    Duration::from_millis(10 * count)
}
