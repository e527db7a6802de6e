//! The memory of a row: resident bytes for each of two million rows, and the engine's own figures.
//!
//! `cargo bench --bench row_memory [ROWS]` fills a table in a process of its own for each line, and prints by how much the
//! resident set has grown, divided by the rows; then what [`Table::memory`](heddledb::Table::memory) counts for rows and indexes; and
//! what is still resident once all rows were deleted. Apart from the last, none
//! depends on the clock or on the load of the machine. Random keys are the worst order for an ordered index.

use std::process::{Command, ExitCode};
use std::time::Duration;

use heddledb::{
    DataType, Database, Durability, Options, PrimaryIndex, Result, Table, TableDefinition, Tx, row,
};

/// Rows, unless the first argument says otherwise.
const ROWS: u64 = 2_000_000;
/// Rows that one transaction inserts.
const BATCH: u64 = 1_000;
/// Within this time the memory of deleted rows goes back to the system.
const RECLAIMING: Duration = Duration::from_secs(1);
/// The number of transactions that reclaim what the last deletes have left.
const TRANSACTIONS_AFTERWARDS: usize = 1_000;
/// Coprime to every number of rows that is no multiple of it, so that its multiples visit all keys.
const STRIDE: u64 = 1_000_000_007;

/// Accounts of a branch, as in the workload `debit-credit`.
const ACCOUNTS: i64 = 100_000;

/// The content of rows.
#[derive(Clone, Copy)]
enum Rows {
    /// An 8-byte key and an integer.
    Int,
    /// An 8-byte key and a text of 100 bytes.
    Text,
    /// An account of the workload `debit-credit`: a key of two integers, two amounts, a code, and a filler of 92 bytes.
    Account,
}

/// The name of a measurement, the index of its table, what rows hold, whether keys ascend.
type Case = (&'static str, PrimaryIndex, Rows, bool);

const CASES: [Case; 7] = [
    ("8-byte value, both indexes, ascending keys", PrimaryIndex::Both, Rows::Int, true),
    ("8-byte value, both indexes, random keys", PrimaryIndex::Both, Rows::Int, false),
    ("8-byte value, ordered index, random keys", PrimaryIndex::Ordered, Rows::Int, false),
    ("8-byte value, hash index", PrimaryIndex::Hash, Rows::Int, false),
    ("100-byte value, both indexes, random keys", PrimaryIndex::Both, Rows::Text, false),
    ("100-byte value, hash index", PrimaryIndex::Hash, Rows::Text, false),
    ("account of debit-credit, hash index", PrimaryIndex::Hash, Rows::Account, true),
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
    println!(
        "| table of {rows} rows | resident | rows | hash index | ordered index | resident when deleted |"
    );
    println!("|---|--:|--:|--:|--:|--:|");
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
fn measure((_, index, holds, ascends): Case, rows: u64) -> Result<String> {
    let db = Database::in_memory_with(Options::default().durability(Durability::None))?;
    let table = match holds {
        Rows::Account => accounts(&db, rows, index)?,
        Rows::Int => db.create_table(key_and_value(DataType::Int64, index))?,
        Rows::Text => db.create_table(key_and_value(DataType::Text, index))?,
    };
    let id = |number: u64| if ascends { number } else { number.wrapping_mul(STRIDE) % rows } as i64;
    let for_each = |access: &dyn Fn(&Tx<'_, '_>, i64) -> Result<()>| {
        (0..rows).step_by(BATCH as usize).try_for_each(|from| {
            db.run(|tx| (from..rows.min(from + BATCH)).try_for_each(|number| access(tx, id(number))))
        })
    };
    let before = resident();
    for_each(&|tx, id| insert(tx, &table, holds, id))?;
    let grown = resident().saturating_sub(before);
    let memory = table.memory();
    let counted = [memory.all_row_bytes(), memory.hash_index_bytes, memory.ordered_index_bytes];
    for_each(&|tx, id| delete(tx, &table, holds, id))?;
    std::thread::sleep(RECLAIMING);
    // What was deleted last is collected when the next transactions end.
    (0..TRANSACTIONS_AFTERWARDS).try_for_each(|_| db.run(|_| Ok(())))?;
    std::thread::sleep(RECLAIMING);
    let left = resident().saturating_sub(before);
    let per_row = |bytes: u64| bytes as f64 / rows as f64;
    let all = [grown].into_iter().chain(counted).chain([left]).map(|bytes| format!("{:.1}", per_row(bytes)));
    Ok(all.collect::<Vec<_>>().join(" | "))
}

fn key_and_value(value: DataType, index: PrimaryIndex) -> TableDefinition {
    TableDefinition::new("rows")
        .column("id", DataType::Int64)
        .column("value", value)
        .not_null()
        .primary_key(["id"])
        .primary_index(index)
}

/// The table of accounts as the workload makes it, with the branches that this many accounts refer to.
fn accounts(db: &Database, rows: u64, index: PrimaryIndex) -> Result<Table> {
    let branch = TableDefinition::new("branch").column("branch", DataType::Int64).primary_key(["branch"]);
    let branch = db.create_table(branch)?;
    db.run(|tx| (0..=rows as i64 / ACCOUNTS).try_for_each(|number| tx.insert(&branch, row![number])))?;
    let account = TableDefinition::new("account")
        .column("branch", DataType::Int64)
        .references("branch")
        .column("account", DataType::Int64)
        .column("balance", DataType::Int64)
        .not_null()
        .column("floor", DataType::Int64)
        .not_null()
        .column("code", DataType::Int32)
        .not_null()
        .column("filler", DataType::Bytes)
        .not_null()
        .primary_key(["branch", "account"])
        .primary_index(index);
    db.create_table(account)
}

fn insert(tx: &Tx<'_, '_>, table: &Table, holds: Rows, id: i64) -> Result<()> {
    match holds {
        Rows::Int => tx.insert(table, row![id, id]),
        Rows::Text => tx.insert(table, row![id, "x".repeat(100).as_str()]),
        Rows::Account => {
            let (branch, account) = (id / ACCOUNTS, id % ACCOUNTS);
            tx.insert(table, row![branch, account, 100_000, -100_000_000, id % 10_000, &[b'a'; 92][..]])
        }
    }
}

fn delete(tx: &Tx<'_, '_>, table: &Table, holds: Rows, id: i64) -> Result<()> {
    match holds {
        Rows::Int | Rows::Text => tx.delete(table, id).map(drop),
        Rows::Account => tx.delete(table, (id / ACCOUNTS, id % ACCOUNTS)).map(drop),
    }
}

/// The bytes of memory that the process has now, as Linux counts them; zero elsewhere.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap_or(0) * 1024
}
