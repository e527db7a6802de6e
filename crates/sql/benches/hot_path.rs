//! The cost of hot-path statements in instructions, beside the Rust closures that do the same.
//!
//! `cargo bench -p heddle-sql --bench hot_path` runs this program under `valgrind --tool=callgrind`, once with N and once
//! with 2N repetitions of each operation, and prints the difference for one operation, as the engine's own `hot_path`
//! does. Counted are the instructions of the calling thread inside of `measured_region`. The database is in memory,
//! without durability.
//!
//! Calls of functions are measured beside the procedures that do the same (`support/calls.rs`).
//!
//! Without valgrind the program says so, and succeeds. `-- WORD` measures only the operations with the word
//! in their names.

#[path = "support/calls.rs"]
mod calls;

use std::process::{Command, ExitCode, Stdio};

use heddle_sql::types::{Environment, Value};
use heddle_sql::{Connection, PreparedStatement, ResultSink, Sql, SqlError};
use heddledb::{Database, Durability, Options, ProtocolKind, Table, ValueRef, fail, key};

/// Repetitions that every operation runs before it is measured: all buffers have grown by then.
const WARM_UP: u64 = 256;
/// Repetitions of the shorter run.
const REPETITIONS: u64 = 1_024;
/// The protocols under which it is measured.
const PROTOCOLS: [&str; 3] = ["serial", "optimistic", "locking"];
/// Rows of the table.
const ROWS: i64 = 10_000;

/// A measured operation, on a database under the measured protocol.
enum Operation {
    /// A statement of the bank.
    Statement(fn(&mut Bank, i64)),
    /// Calls of a workload.
    Calls(MakeCalls, &'static str),
}

/// Makes what makes calls; that is given the number of the repetition.
type MakeCalls = fn(&Database, &str) -> Result<Box<dyn FnMut(i64)>, SqlError>;

use Operation::{Calls, Statement};

/// Each operation; those of SQL follow the closure that does the same.
const OPERATIONS: [(&str, Operation); 18] = [
    ("get by closure", Statement(get_by_closure)),
    ("get by prepared SELECT", Statement(get_prepared)),
    ("get by portal", Statement(get_by_portal)),
    ("get by text", Statement(get_by_text)),
    ("add by closure", Statement(add_by_closure)),
    ("add by prepared UPDATE", Statement(add_prepared)),
    ("add by text", Statement(add_by_text)),
    ("set by closure", Statement(set_by_closure)),
    ("set by prepared UPDATE", Statement(set_prepared)),
    ("read and set by closure", Statement(read_and_set_by_closure)),
    ("read and set by prepared UPDATE", Statement(read_and_set_prepared)),
    ("insert by prepared INSERT", Statement(insert_prepared)),
    ("debit-credit by procedure", Calls(calls::by_procedure, "debit-credit")),
    ("debit-credit by function", Calls(calls::by_function, "debit-credit")),
    ("tatp by procedure", Calls(calls::by_procedure, "tatp")),
    ("tatp by function", Calls(calls::by_function, "tatp")),
    ("tpcc by procedure", Calls(calls::by_procedure, "tpcc")),
    ("tpcc by function", Calls(calls::by_function, "tpcc")),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [command, operation, protocol, repetitions] = &arguments[..]
        && command == "run"
    {
        return match (operation.parse::<usize>(), repetitions.parse()) {
            (Ok(operation), Ok(repetitions)) => run(operation, protocol, repetitions),
            _ => ExitCode::FAILURE,
        };
    }
    let valgrind =
        Command::new("valgrind").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if valgrind.is_err() {
        println!("valgrind is not installed, so no instructions are counted; install it and run this again");
        return ExitCode::SUCCESS;
    }
    println!(
        "{:<36} {:>10} {:>12} {:>10}",
        "instructions of the calling thread", PROTOCOLS[0], PROTOCOLS[1], PROTOCOLS[2]
    );
    for (number, (name, _)) in OPERATIONS.iter().enumerate() {
        if arguments.iter().any(|word| !name.contains(word.as_str())) {
            continue;
        }
        let counts = PROTOCOLS.map(|protocol| per_operation(number, protocol));
        match &counts {
            [Ok(first), Ok(second), Ok(third)] => {
                println!("{name:<36} {first:>10.1} {second:>12.1} {third:>10.1}");
            }
            counts => {
                counts
                    .iter()
                    .filter_map(|count| count.as_ref().err())
                    .for_each(|error| eprintln!("{name}: {error}"));
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

/// The difference between twice the repetitions and once, for one operation.
fn per_operation(number: usize, protocol: &str) -> Result<f64, String> {
    let (once, twice) = (count(number, protocol, REPETITIONS)?, count(number, protocol, 2 * REPETITIONS)?);
    Ok((twice as f64 - once as f64) / REPETITIONS as f64)
}

/// Runs this program under callgrind, and gives back the instructions that were collected.
fn count(number: usize, protocol: &str, repetitions: u64) -> Result<u64, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*measured_region*"])
        .arg(program)
        .args(["run", &number.to_string(), protocol, &repetitions.to_string()])
        .output()
        .map_err(|error| format!("valgrind cannot be run: {error}"))?;
    let report = String::from_utf8_lossy(&output.stderr);
    let collected =
        report.lines().find_map(|line| line.split_once("Collected :")).map(|(_, count)| count.trim());
    match collected.and_then(|count| count.parse().ok()) {
        Some(count) if output.status.success() && count > 0 => Ok(count),
        _ => Err(format!("valgrind collected nothing ({}):\n{report}", output.status)),
    }
}

/// Whatever runs inside of this function, on the thread that calls it, is counted.
#[inline(never)]
fn measured_region(body: &mut dyn FnMut(u64), repetitions: u64) {
    body(std::hint::black_box(repetitions));
}

/// Runs the measured operation, under callgrind.
fn run(operation: usize, protocol: &str, repetitions: u64) -> ExitCode {
    let Some((name, operation)) = OPERATIONS.get(operation) else {
        eprintln!("there is no such operation");
        return ExitCode::FAILURE;
    };
    let mut operation = match prepared(operation, protocol) {
        Ok(operation) => operation,
        Err(error) => {
            eprintln!("the database cannot be made: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut next = 0;
    let mut repeat = |repetitions: u64| {
        for _ in 0..repetitions {
            next += 1;
            operation(next);
        }
    };
    repeat(WARM_UP);
    measured_region(&mut repeat, repetitions);
    println!("{name}: done");
    ExitCode::SUCCESS
}

/// An operation that is ready to be repeated.
fn prepared(operation: &Operation, protocol: &str) -> Result<Box<dyn FnMut(i64)>, SqlError> {
    let protocol = match protocol {
        "serial" => ProtocolKind::Serial,
        "locking" => ProtocolKind::Locking,
        _ => ProtocolKind::Optimistic,
    };
    let options = Options::default().protocol(protocol).workers(1).durability(Durability::None);
    let db = Database::in_memory_with(options)?;
    match operation {
        Statement(operation) => {
            let (operation, mut bank) = (*operation, Bank::new(db)?);
            Ok(Box::new(move |number| operation(&mut bank, number)))
        }
        Calls(make, workload) => make(&db, workload),
    }
}

/// A database with accounts, and a connection with prepared statements.
struct Bank {
    db: Database,
    accounts: Table,
    connection: Connection,
    get: PreparedStatement,
    add: PreparedStatement,
    set: PreparedStatement,
    read_and_set: PreparedStatement,
    insert: PreparedStatement,
    sum: Sum,
}

impl Bank {
    fn new(db: Database) -> Result<Bank, SqlError> {
        let mut connection = Sql::new(&db)?.connect(Default::default())?;
        connection
            .query("create table account (id bigint primary key, amount bigint not null, name text)")?;
        connection.query(&format!(
            "insert into account select n, 0, 'name ' || n from generate_series(1, {ROWS}) n"
        ))?;
        let accounts = db.table("account")?;
        connection.prepare("get", "select amount from account where id = $1", &[])?;
        Ok(Bank {
            get: connection.prepared("select amount from account where id = $1")?,
            add: connection.prepared("update account set amount = amount + $2 where id = $1")?,
            set: connection.prepared("update account set amount = $2 where id = $1")?,
            read_and_set: connection.prepared("update account set amount = amount / 2 + $2 where id = $1")?,
            insert: connection.prepared("insert into account values ($1, $2, 'a name')")?,
            db,
            accounts,
            connection,
            sum: Sum(0),
        })
    }

    fn write(&mut self, statement: fn(&Bank) -> &PreparedStatement, parameters: &[Value]) {
        let statement = statement(self).clone();
        let done = self.connection.run(&statement, parameters, &mut |_| Ok(()));
        assert_eq!(done, Ok(1));
    }
}

/// Adds up what is read.
struct Sum(i64);

impl ResultSink for Sum {
    fn row(&mut self, values: &[Value], _environment: &dyn Environment) -> Result<(), SqlError> {
        if let [Value::Int8(amount)] = values {
            self.0 += amount;
        }
        Ok(())
    }
}

/// Spreads numbers over the accounts.
fn account(number: i64) -> i64 {
    number * 7_919 % ROWS + 1
}

fn get_by_closure(bank: &mut Bank, number: i64) {
    let amount = bank.accounts.column("amount").expect("a column of the table");
    let read = bank.db.run(|tx| {
        tx.get(&bank.accounts, key![account(number)])?.ok_or_else(|| fail("no such account"))?.int(amount)
    });
    assert_eq!(read, Ok(0));
}

fn get_prepared(bank: &mut Bank, number: i64) {
    let mut read = None;
    let parameters = [Value::Int8(account(number))];
    let done = bank.connection.run(&bank.get, &parameters, &mut |row| {
        if let [Value::Int8(amount)] = row {
            read = Some(*amount);
        }
        Ok(())
    });
    assert!(done == Ok(1) && read == Some(0));
}

fn get_by_portal(bank: &mut Bank, number: i64) {
    let bound = bank.connection.bind("", "get", vec![Value::Int8(account(number))]);
    assert!(bound.is_ok() && bank.connection.execute("", 0, &mut bank.sum).is_ok());
}

fn get_by_text(bank: &mut Bank, number: i64) {
    let text = format!("select amount from account where id = {}", account(number));
    assert!(bank.connection.simple_query(&text, &mut bank.sum).is_ok());
}

fn add_by_closure(bank: &mut Bank, number: i64) {
    let amount = bank.accounts.column("amount").expect("a column of the table");
    let added = bank.db.run(|tx| {
        if !tx.exists(&bank.accounts, key![account(number)])? {
            return Err(fail("no such account"));
        }
        tx.add(&bank.accounts, key![account(number)], amount, 1)
    });
    assert_eq!(added, Ok(()));
}

fn add_prepared(bank: &mut Bank, number: i64) {
    bank.write(|bank| &bank.add, &[Value::Int8(account(number)), Value::Int8(1)]);
}

fn add_by_text(bank: &mut Bank, number: i64) {
    let text = format!("update account set amount = amount + 1 where id = {}", account(number));
    assert!(bank.connection.simple_query(&text, &mut bank.sum).is_ok());
}

fn set_by_closure(bank: &mut Bank, number: i64) {
    let amount = bank.accounts.column("amount").expect("a column of the table");
    let set = bank
        .db
        .run(|tx| tx.update(&bank.accounts, key![account(number)], &[(amount, ValueRef::Int(number))]));
    assert_eq!(set, Ok(()));
}

fn set_prepared(bank: &mut Bank, number: i64) {
    bank.write(|bank| &bank.set, &[Value::Int8(account(number)), Value::Int8(number)]);
}

fn read_and_set_by_closure(bank: &mut Bank, number: i64) {
    let amount = bank.accounts.column("amount").expect("a column of the table");
    let set = bank.db.run(|tx| {
        let row = tx.get(&bank.accounts, key![account(number)])?.ok_or_else(|| fail("no such account"))?;
        let after = row.int(amount)? / 2 + number;
        tx.update(&bank.accounts, key![account(number)], &[(amount, ValueRef::Int(after))])
    });
    assert_eq!(set, Ok(()));
}

fn read_and_set_prepared(bank: &mut Bank, number: i64) {
    bank.write(|bank| &bank.read_and_set, &[Value::Int8(account(number)), Value::Int8(number)]);
}

fn insert_prepared(bank: &mut Bank, number: i64) {
    bank.write(|bank| &bank.insert, &[Value::Int8(ROWS + number), Value::Int8(1)]);
}
