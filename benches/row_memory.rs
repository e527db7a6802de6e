//! What a row takes of memory: resident bytes for each of two million rows, and what the engine says of them.
//!
//! `cargo bench --bench row_memory [ROWS]` fills a table in a process of its own for each line, and prints by how much the
//! resident set has grown, divided by the rows; then what [`Table::memory`](heddledb::Table::memory) counts for rows and indexes. Neither
//! depends on the clock or on the load of the machine. Random keys are the worst order for an ordered index.

use std::process::{Command, ExitCode};

use heddledb::{DataType, Database, Durability, Options, PrimaryIndex, Result, TableDefinition, Value, row};

/// Rows, unless the first argument says otherwise.
const ROWS: u64 = 2_000_000;
/// Rows that one transaction inserts.
const BATCH: u64 = 1_000;
/// Coprime to every number of rows that is no multiple of it, so that its multiples visit all keys.
const STRIDE: u64 = 1_000_000_007;

/// The name of a measurement, the index of its table, whether values are texts of 100 bytes, whether keys ascend.
type Case = (&'static str, PrimaryIndex, bool, bool);

const CASES: [Case; 6] = [
    ("8-byte value, both indexes, ascending keys", PrimaryIndex::Both, false, true),
    ("8-byte value, both indexes, random keys", PrimaryIndex::Both, false, false),
    ("8-byte value, ordered index, random keys", PrimaryIndex::Ordered, false, false),
    ("8-byte value, hash index", PrimaryIndex::Hash, false, false),
    ("100-byte value, both indexes, random keys", PrimaryIndex::Both, true, false),
    ("100-byte value, hash index", PrimaryIndex::Hash, true, false),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [command, case, rows] = &arguments[..]
        && command == "run"
    {
        let (Ok(case), Ok(rows)) = (case.parse::<usize>(), rows.parse()) else { return ExitCode::FAILURE };
        return match measure(CASES[case], rows) {
            Ok(line) => {
                println!("{line}");
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    let rows = arguments.first().and_then(|rows| rows.parse().ok()).unwrap_or(ROWS);
    println!("| table of {rows} rows | resident | rows | hash index | ordered index |");
    println!("|---|--:|--:|--:|--:|");
    for (number, (name, ..)) in CASES.iter().enumerate() {
        let Ok(program) = std::env::current_exe() else { return ExitCode::FAILURE };
        let output = Command::new(program).args(["run", &number.to_string(), &rows.to_string()]).output();
        match output {
            Ok(output) if output.status.success() => {
                println!("| {name} | {} |", String::from_utf8_lossy(&output.stdout).trim());
            }
            Ok(output) => {
                eprintln!("{name}: {}", String::from_utf8_lossy(&output.stderr));
                return ExitCode::FAILURE;
            }
            Err(error) => {
                eprintln!("{name}: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

/// Fills a table, and says how many bytes a row takes.
fn measure((_, index, is_long, ascends): Case, rows: u64) -> Result<String> {
    let db = Database::in_memory_with(Options::default().durability(Durability::None))?;
    let definition = TableDefinition::new("rows")
        .column("id", DataType::Int64)
        .column("value", if is_long { DataType::Text } else { DataType::Int64 })
        .not_null()
        .primary_key(["id"])
        .primary_index(index);
    let table = db.create_table(definition)?;
    let text = "x".repeat(100);
    let fill = |from: u64, to: u64| {
        db.run(|tx| {
            for number in from..to {
                let id = if ascends { number } else { number.wrapping_mul(STRIDE) % rows } as i64;
                let value = if is_long { Value::from(text.as_str()) } else { Value::from(id) };
                tx.insert(&table, row![id, value.as_value_ref()])?;
            }
            Ok(())
        })
    };
    let before = resident();
    for from in (0..rows).step_by(BATCH as usize) {
        fill(from, rows.min(from + BATCH))?;
    }
    let grown = resident().saturating_sub(before);
    let per_row = |bytes: u64| bytes as f64 / rows as f64;
    let memory = table.memory();
    let counted = [memory.all_row_bytes(), memory.hash_index_bytes, memory.ordered_index_bytes];
    let all = [grown].into_iter().chain(counted).map(|bytes| format!("{:.1}", per_row(bytes)));
    Ok(all.collect::<Vec<_>>().join(" | "))
}

/// The bytes of memory that the process has now, as Linux counts them; zero elsewhere.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap_or(0) * 1024
}
