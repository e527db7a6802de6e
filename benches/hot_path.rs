//! The cost of hot-path operations in instructions: figures that do not depend on the clock or on the load.
//!
//! `cargo bench --bench hot_path` runs this program under `valgrind --tool=callgrind`, once with N and once with 2N
//! repetitions of each operation, and prints the difference for one operation. So starting up, filling tables and
//! growing buffers (all done before) do not count. Counted are the instructions of the calling thread only, and only
//! those inside of `measured_region`, which the option `--toggle-collect` names: the log thread's share of a logged
//! operation (checksum, write) is not in the figures, the append to the worker context's buffer is. Waiting for
//! durability is left out, too: logged operations run with `Durability::Async`, on a simulated disk in memory.
//!
//! Without valgrind the program says so, and succeeds. `cargo bench --bench hot_path -- WORD` measures only
//! the operations with the word in their names. `cargo bench --bench hot_path -- budget [WORD]` prints where
//! the instructions go, as the table of `docs/instructions.md`.

#[path = "support/budget.rs"]
mod budget;

use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

use heddledb::testing::SimulatedDisk;
use heddledb::{
    Action, Args, Composite, DataType, Database, Durability, Options, PhasedOptions, Procedure,
    ProcedureDefinition, ProtocolKind, ProtocolOptions, Result, SplitOperation, Table, TableDefinition,
    Value, ValueRef, args, fail, key, row,
};

/// Repetitions that every operation runs before it is measured: all buffers have grown by then, and the garbage that
/// filling the tables has left has been collected, which would count as some operations' otherwise.
const WARM_UP: u64 = 4_096;
/// Repetitions of the shorter run.
const REPETITIONS: u64 = 1_024;
/// Calls of one group, in the operations that run groups: repetitions are a multiple of it.
const GROUP: u64 = 32;
/// Rows of the table.
const ROWS: i64 = 10_000;

/// Repeats an operation this many times.
type Repeat<'r> = &'r mut dyn FnMut(u64);
/// Measures what it is given.
type Measure<'m> = &'m mut dyn FnMut(Repeat<'_>);
/// Makes ready what is to be measured, and has it measured.
type Operation = fn(Bank, Measure<'_>);

/// Each operation, and the protocol under which it runs.
const OPERATIONS: [(&str, ProtocolKind, Operation); 23] = [
    ("get by closure, serial", ProtocolKind::Serial, get_by_closure),
    ("get by closure, optimistic", ProtocolKind::Optimistic, get_by_closure),
    ("get by closure, phased", ProtocolKind::Phased, get_by_closure),
    ("get by procedure, serial", ProtocolKind::Serial, get_by_procedure),
    ("get by procedure, optimistic", ProtocolKind::Optimistic, get_by_procedure),
    ("get by procedure, phased", ProtocolKind::Phased, get_by_procedure),
    ("add by closure, serial", ProtocolKind::Serial, add_by_closure),
    ("add by closure, optimistic", ProtocolKind::Optimistic, add_by_closure),
    ("add by closure, phased", ProtocolKind::Phased, add_by_closure),
    ("add by procedure, serial", ProtocolKind::Serial, add_by_procedure),
    ("add by procedure, optimistic", ProtocolKind::Optimistic, add_by_procedure),
    ("insert by closure, optimistic", ProtocolKind::Optimistic, insert_by_closure),
    ("insert by closure, phased", ProtocolKind::Phased, insert_by_closure),
    ("add to a split column, phased", ProtocolKind::Phased, add_to_split_column),
    ("debit-credit of 4 actions, optimistic", ProtocolKind::Optimistic, debit_credit),
    ("debit-credit of 4 actions, phased", ProtocolKind::Phased, debit_credit),
    ("debit-credit of 4 typed actions, optimistic", ProtocolKind::Optimistic, typed_debit_credit),
    ("ycsb of 10 actions, serial", ProtocolKind::Serial, ycsb),
    ("ycsb of 10 actions, optimistic", ProtocolKind::Optimistic, ycsb),
    ("ycsb of 10 actions, phased", ProtocolKind::Phased, ycsb),
    ("get of both columns by closure, optimistic", ProtocolKind::Optimistic, get_row_by_closure),
    ("get of a struct by closure, optimistic", ProtocolKind::Optimistic, get_struct_by_closure),
    ("insert of a struct by closure, optimistic", ProtocolKind::Optimistic, insert_struct_by_closure),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [command, operation, logged, repetitions] = &arguments[..]
        && command == "run"
    {
        let (Ok(operation), Ok(repetitions)) = (operation.parse::<usize>(), repetitions.parse()) else {
            return ExitCode::FAILURE;
        };
        return run(operation, logged == "logged", repetitions);
    }
    let valgrind =
        Command::new("valgrind").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if valgrind.is_err() {
        println!("valgrind is not installed, so no instructions are counted; install it and run this again");
        return ExitCode::SUCCESS;
    }
    if let Some((first, words)) = arguments.split_first()
        && first == "budget"
    {
        return print_budgets(words);
    }
    println!("{:<42} {:>10} {:>12}", "instructions of the calling thread", "in memory", "with a log");
    for (number, (name, ..)) in OPERATIONS.iter().enumerate() {
        if arguments.iter().any(|word| !name.contains(word.as_str())) {
            continue;
        }
        match (per_operation(number, "unlogged"), per_operation(number, "logged")) {
            (Ok(unlogged), Ok(logged)) => println!("{name:<42} {unlogged:>10.1} {logged:>12.1}"),
            (Err(error), _) | (_, Err(error)) => {
                eprintln!("{name}: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

/// Instructions of one operation: by the repetitions from the first to the second thousand or by those to the
/// third, whichever is less, because a buffer that doubles among them is in one of the two only.
fn per_operation(number: usize, logged: &str) -> std::result::Result<f64, String> {
    let counts = (1..=3)
        .map(|times| count(number, logged, times * REPETITIONS).map(|count| count as f64))
        .collect::<std::result::Result<Vec<_>, _>>()?;
    let least = counts.windows(2).map(|pair| pair[1] - pair[0]).fold(f64::INFINITY, f64::min);
    Ok(least / REPETITIONS as f64)
}

/// Prints where the instructions of each operation go.
fn print_budgets(words: &[String]) -> ExitCode {
    let parts = budget::PARTS.iter().map(|(part, _)| *part).chain([budget::LIBRARY]);
    let titles: Vec<&str> = ["operation", "all"].into_iter().chain(parts).collect();
    println!("| {} |", titles.join(" | "));
    println!("|---{}|", "|--:".repeat(titles.len() - 1));
    for (number, (name, ..)) in OPERATIONS.iter().enumerate() {
        if words.iter().any(|word| !name.contains(word.as_str())) {
            continue;
        }
        for (logged, log) in [("unlogged", ""), ("logged", ", log")] {
            match budget_of(number, logged) {
                Ok(line) => println!("| {name}{log} | {line} |"),
                Err(error) => {
                    eprintln!("{name}: {error}");
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    ExitCode::SUCCESS
}

/// The instructions of one operation and of its parts, by the repetitions that [`per_operation`] takes.
fn budget_of(number: usize, logged: &str) -> std::result::Result<String, String> {
    let profile = |repetitions| {
        let file = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
        count_into(&file.path().to_string_lossy(), number, logged, repetitions)?;
        let written = std::fs::read_to_string(file.path()).map_err(|error| error.to_string())?;
        budget::sum_up(&written).map(|profile| profile.parts)
    };
    let profiles = (1..=3).map(|times| profile(times * REPETITIONS));
    let profiles = profiles.collect::<std::result::Result<Vec<_>, _>>()?;
    let differences = profiles.windows(2).map(|pair| {
        let parts = pair[0].iter().zip(&pair[1]);
        parts.map(|(less, more)| (*more as f64 - *less as f64) / REPETITIONS as f64).collect::<Vec<f64>>()
    });
    let parts = differences.min_by(|one, other| {
        let sum = |parts: &[f64]| parts.iter().sum::<f64>();
        sum(one).total_cmp(&sum(other))
    });
    let parts = parts.ok_or("there are two differences")?;
    let all = [parts.iter().sum()].into_iter().chain(parts);
    Ok(all.map(|count: f64| format!("{count:.0}")).collect::<Vec<_>>().join(" | "))
}

/// Runs this program under callgrind, and gives back the instructions that were collected.
fn count(number: usize, logged: &str, repetitions: u64) -> std::result::Result<u64, String> {
    count_into("/dev/null", number, logged, repetitions)
}

/// Counts as [`count`] does; callgrind writes its counts, line by line, into this file.
fn count_into(file: &str, number: usize, logged: &str, repetitions: u64) -> std::result::Result<u64, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--toggle-collect=*measured_region*"])
        .arg(format!("--callgrind-out-file={file}"))
        .arg(program)
        .args(["run", &number.to_string(), logged, &repetitions.to_string()])
        .output()
        .map_err(|error| format!("valgrind cannot be run: {error}"))?;
    let reported = String::from_utf8_lossy(&output.stderr);
    let collected =
        reported.lines().find_map(|line| line.split_once("Collected :")).map(|(_, count)| count.trim());
    match collected.and_then(|count| count.parse().ok()) {
        Some(count) if output.status.success() && count > 0 => Ok(count),
        _ => Err(format!("valgrind collected nothing ({}):\n{reported}", output.status)),
    }
}

/// Whatever runs inside of this function, on the thread that calls it, is counted.
#[inline(never)]
fn measured_region(body: &mut dyn FnMut(u64), repetitions: u64) {
    body(std::hint::black_box(repetitions));
}

/// Runs the measured operation, under callgrind.
fn run(operation: usize, logged: bool, repetitions: u64) -> ExitCode {
    let Some((name, protocol, operation)) = OPERATIONS.get(operation) else {
        eprintln!("there is no such operation");
        return ExitCode::FAILURE;
    };
    let bank = match Bank::new(*protocol, logged) {
        Ok(bank) => bank,
        Err(error) => {
            eprintln!("the database cannot be made: {error}");
            return ExitCode::FAILURE;
        }
    };
    operation(bank, &mut |body| {
        body(WARM_UP);
        measured_region(body, repetitions);
    });
    println!("{name}: done");
    ExitCode::SUCCESS
}

/// A database with accounts and a history.
struct Bank {
    db: Database,
    accounts: Table,
    history: Table,
}

impl Bank {
    fn new(protocol: ProtocolKind, logged: bool) -> Result<Bank> {
        // Only the operation on a split column sees a split phase, which is to last until it has been measured.
        let phases = PhasedOptions::default().phase_milliseconds(5_000.0);
        let options = Options::default().protocol(ProtocolOptions::from(protocol).phased(phases)).workers(1);
        let options = options.log(|log| log.buffer_bytes(8 << 20));
        let db = if logged {
            // Groups that are closed by nothing but their size: the log thread stays asleep while we count.
            let options = options.durability(Durability::Async).log(|log| log.group_milliseconds(60_000.0));
            Database::open(
                "/bank",
                options.log(|log| log.segment_bytes(32 << 20)).disk(Arc::new(SimulatedDisk::new())),
            )?
        } else {
            Database::in_memory_with(options.durability(Durability::None))?
        };
        let table = |name: &str| {
            TableDefinition::new(name)
                .column("id", DataType::Int64)
                .column("amount", DataType::Int64)
                .not_null()
                .primary_key(["id"])
        };
        let (accounts, history) = (db.create_table(table("account"))?, db.create_table(table("history"))?);
        db.run(|tx| (0..ROWS).try_for_each(|id| tx.insert(&accounts, row![id, 0])))?;
        Ok(Bank { db, accounts, history })
    }

    /// Registers a procedure with this many integer parameters.
    fn register(&self, parameters: usize, actions: Vec<Action>) -> Procedure {
        let definition = (0..parameters).fold(ProcedureDefinition::new("measured"), |definition, number| {
            definition.parameter(format!("{number}"), DataType::Int64)
        });
        self.db.register(definition.phase(actions)).expect("a procedure that can be registered")
    }

    fn add(&self, key: usize, amount: usize) -> Action {
        let column = self.accounts.column("amount").expect("a column of the table");
        Action::commute(&self.accounts)
            .key(move |args, builder| builder.push(args.int(key)?))
            .body(move |action| action.add(column, action.args().int(amount)?))
    }

    /// Repeats a call in groups. The calls' arguments are made beforehand: they are the caller's work.
    fn in_groups(&self, procedure: &Procedure, measure: Measure<'_>, arguments: impl Fn(i64) -> Args) {
        let mut worker = self.db.worker().expect("a free session context");
        let procedures = std::slice::from_ref(procedure);
        let all = WARM_UP + 3 * REPETITIONS;
        let calls: Vec<(usize, Args)> = (1..=all as i64).map(|number| (0, arguments(number))).collect();
        let (mut groups, mut done) = (calls.chunks(GROUP as usize), Vec::new());
        measure(&mut |repetitions| {
            for group in groups.by_ref().take((repetitions / GROUP) as usize) {
                worker.execute_group(procedures, group, &mut done);
                assert!(done.drain(..).all(|executed| !executed.failed()), "every call succeeds");
            }
        });
    }
}

/// Spreads numbers over the accounts.
fn account(number: i64) -> i64 {
    number * 7_919 % ROWS
}

fn get_by_closure(bank: Bank, measure: Measure<'_>) {
    let amount = bank.accounts.column("amount").expect("a column of the table");
    let mut next = 0;
    measure(&mut |repetitions| {
        for _ in 0..repetitions {
            next += 1;
            let read = bank.db.run(|tx| {
                tx.get(&bank.accounts, key![account(next)])?
                    .ok_or_else(|| fail("no such account"))?
                    .int(amount)
            });
            assert_eq!(read, Ok(0));
        }
    });
}

fn get_by_procedure(bank: Bank, measure: Measure<'_>) {
    let amount = bank.accounts.column("amount").expect("a column of the table");
    let get = Action::read(&bank.accounts)
        .key(|args, key| key.push(args.int(0)?))
        .body(move |action| action.get()?.ok_or_else(|| fail("no such account"))?.int(amount).map(drop));
    let get = bank.register(1, vec![get]);
    bank.in_groups(&get, measure, |next| args![account(next)]);
}

fn add_by_closure(bank: Bank, measure: Measure<'_>) {
    let amount = bank.accounts.column("amount").expect("a column of the table");
    let mut next = 0;
    measure(&mut |repetitions| {
        for _ in 0..repetitions {
            next += 1;
            let added = bank.db.run(|tx| tx.add(&bank.accounts, key![account(next)], amount, 1));
            assert_eq!(added, Ok(()));
        }
    });
}

fn add_by_procedure(bank: Bank, measure: Measure<'_>) {
    let add = bank.register(1, vec![bank.add(0, 0)]);
    bank.in_groups(&add, measure, |next| args![account(next)]);
}

fn insert_by_closure(bank: Bank, measure: Measure<'_>) {
    let mut next = 0_i64;
    measure(&mut |repetitions| {
        for _ in 0..repetitions {
            next += 1;
            let inserted = bank.db.run(|tx| tx.insert(&bank.history, row![next, 1]));
            assert_eq!(inserted, Ok(()));
        }
    });
}

/// The row of the bank's tables, as a struct.
#[derive(Table)]
struct Account {
    #[table(key)]
    id: i64,
    amount: i64,
}

fn get_row_by_closure(bank: Bank, measure: Measure<'_>) {
    let column = |name| bank.accounts.column(name).expect("a column of the table");
    let (id, amount) = (column("id"), column("amount"));
    let mut next = 0;
    measure(&mut |repetitions| {
        for _ in 0..repetitions {
            next += 1;
            let read = bank.db.run(|tx| {
                let row =
                    tx.get(&bank.accounts, key![account(next)])?.ok_or_else(|| fail("no such account"))?;
                Ok((row.int(id)?, row.int(amount)?))
            });
            assert_eq!(read, Ok((account(next), 0)));
        }
    });
}

fn get_struct_by_closure(bank: Bank, measure: Measure<'_>) {
    let accounts = bank.accounts.clone().rows_of::<Account>().expect("these columns");
    let mut next = 0;
    measure(&mut |repetitions| {
        for _ in 0..repetitions {
            next += 1;
            let read = bank.db.run(|tx| {
                let row = tx.get(&accounts, account(next))?.ok_or_else(|| fail("no such account"))?;
                Ok((row.id, row.amount))
            });
            assert_eq!(read, Ok((account(next), 0)));
        }
    });
}

fn insert_struct_by_closure(bank: Bank, measure: Measure<'_>) {
    let history = bank.history.clone().rows_of::<Account>().expect("these columns");
    let mut next = 0_i64;
    measure(&mut |repetitions| {
        for _ in 0..repetitions {
            next += 1;
            let inserted = bank.db.run(|tx| tx.insert(&history, &Account { id: next, amount: 1 }));
            assert_eq!(inserted, Ok(()));
        }
    });
}

/// A procedure that adds to one column of one record, which is split meanwhile.
fn add_to_split_column(bank: Bank, measure: Measure<'_>) {
    let add = bank.register(1, vec![bank.add(0, 0)]);
    let label = bank.db.split(&bank.accounts, key![7], "amount", SplitOperation::ADD);
    label.expect("a column that can be split");
    while !bank.db.phases().is_some_and(|phases| phases.columns.iter().any(|column| column.now)) {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    bank.in_groups(&add, measure, |_| args![7]);
}

fn debit_credit(bank: Bank, measure: Measure<'_>) {
    let note = Action::write(&bank.history)
        .key(|args, key| key.push(args.int(4)?))
        .body(|action| action.insert(row![action.args().int(4)?, action.args().int(3)?]));
    let call = bank.register(5, vec![bank.add(0, 3), bank.add(1, 3), bank.add(2, 3), note]);
    bank.in_groups(&call, measure, |next| args![account(next), next % 10, 10, 1, next]);
}

/// The arguments of a debit-credit transaction.
#[derive(Composite)]
struct DebitCredit {
    account: i64,
    teller: i64,
    branch: i64,
    amount: i64,
    number: i64,
}

/// Debit-credit whose arguments are a struct.
fn typed_debit_credit(bank: Bank, measure: Measure<'_>) {
    let amount = bank.accounts.column("amount").expect("a column of the table");
    let account = Action::commute(&bank.accounts)
        .with::<DebitCredit>()
        .key(|call, key| key.push(call.account))
        .body(move |call, action| action.add(amount, call.amount));
    let teller = Action::commute(&bank.accounts)
        .with::<DebitCredit>()
        .key(|call, key| key.push(call.teller))
        .body(move |call, action| action.add(amount, call.amount));
    let branch = Action::commute(&bank.accounts)
        .with::<DebitCredit>()
        .key(|call, key| key.push(call.branch))
        .body(move |call, action| action.add(amount, call.amount));
    let note = Action::write(&bank.history)
        .with::<DebitCredit>()
        .key(|call, key| key.push(call.number))
        .body(|call, action| action.insert(row![call.number, call.amount]));
    let call = bank.register(0, vec![account, teller, branch, note]);
    bank.in_groups(&call, measure, |next| {
        let call = DebitCredit {
            account: self::account(next),
            teller: next % 10,
            branch: 10,
            amount: 1,
            number: next,
        };
        call.into()
    });
}

/// Ten keys, half of them read, half read and changed.
fn ycsb(bank: Bank, measure: Measure<'_>) {
    let amount = bank.accounts.column("amount").expect("a column of the table");
    let read = |number: usize| {
        Action::read(&bank.accounts)
            .key(move |args, key| key.push(args.int(number)?))
            .body(move |action| action.get()?.ok_or_else(|| fail("no such account"))?.int(amount).map(drop))
    };
    let change = |number: usize| {
        Action::write(&bank.accounts).key(move |args, key| key.push(args.int(number)?)).body(move |action| {
            let before = action.get()?.ok_or_else(|| fail("no such account"))?.int(amount)?;
            action.update(&[(amount, ValueRef::Int(before + 1))])
        })
    };
    let actions = (0..10).map(|number| if number % 2 == 0 { read(number) } else { change(number) });
    let call = bank.register(10, actions.collect());
    bank.in_groups(&call, measure, |next| {
        (0..10).map(|number| Value::from(account(10 * next + number))).collect()
    });
}
