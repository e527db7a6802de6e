//! The distribution of the instructions and cache misses of the workloads' transactions, one at a time and in
//! groups.
//!
//! `cargo bench -p heddle-workloads --bench budget [-- WORD]` runs this program under `valgrind --tool=callgrind` with a simulated
//! cache, once with N and once with 2N calls of each workload, and prints the difference for one call, as a table of
//! `docs/instructions.md`. So loading, starting up and growing buffers do not count. Counted is the calling thread, a `Worker`
//! under `optimistic`, in memory, and only inside of `measured_region`, which the option
//! `--toggle-collect` names; making the calls' arguments is not in it.
//!
//! Without valgrind the program says so, and succeeds.

#[path = "../../../benches/support/budget.rs"]
mod budget;

use std::process::{Command, ExitCode, Stdio};

use budget::{LIBRARY, PARTS, Profile};
use heddle_workloads::debit_credit::DebitCredit;
use heddle_workloads::incr::{Increment, Pattern};
use heddle_workloads::smallbank::SmallBank;
use heddle_workloads::tatp::Tatp;
use heddle_workloads::tpcc::Tpcc;
use heddle_workloads::ycsb::Ycsb;
use heddle_workloads::{Calls, Workload};
use heddledb::{Args, Database, Durability, Executed, Options, Procedure, ProtocolKind, Worker};

/// Calls before the measured ones: all buffers have grown by then.
const WARM_UP: usize = 4_096;
/// Calls of the shorter run.
const CALLS: usize = 8_192;
/// Calls of one group.
const GROUP: usize = 32;

/// Each workload, of a size that can be loaded under valgrind and does not fit into the first two caches.
fn workload(name: &str) -> Option<Box<dyn Workload>> {
    Some(match name {
        "incr1" => Box::new(Increment { keys: 100_000, pattern: cold(), ..Increment::one_hot() }),
        "ycsb" => Box::new(Ycsb { records: 50_000, read_modify_write: true, ..Ycsb::default() }),
        "debit-credit" => Box::new(DebitCredit { branches: 1, ..DebitCredit::default() }),
        "tatp" => Box::new(Tatp { subscribers: 10_000, ..Tatp::default() }),
        "smallbank" => Box::new(SmallBank { accounts: 20_000, ..SmallBank::default() }),
        "tpcc" => Box::new(Tpcc { warehouses: 1, items: 10_000, customers: 600, ..Tpcc::default() }),
        _ => return None,
    })
}

const WORKLOADS: [&str; 6] = ["incr1", "ycsb", "debit-credit", "tatp", "smallbank", "tpcc"];

/// The measured modes: their names, and the calls of a group.
const MODES: [(&str, usize); 2] = [("one at a time", 1), ("in groups", GROUP)];

/// No key is hot.
fn cold() -> Pattern {
    Pattern::OneHot { percent: 0.0, rotate_seconds: 0.0 }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [command, name, group, calls] = &arguments[..]
        && command == "run"
    {
        let (Some(workload), Ok(group), Ok(calls)) = (workload(name), group.parse(), calls.parse()) else {
            return ExitCode::FAILURE;
        };
        return finished(run(&*workload, group, calls).map_err(|error| error.to_string()));
    }
    let valgrind =
        Command::new("valgrind").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if valgrind.is_err() {
        println!("valgrind is not installed, so nothing is counted; install it and run this again");
        return ExitCode::SUCCESS;
    }
    finished(print_table(&arguments))
}

fn finished(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn print_table(words: &[String]) -> Result<(), String> {
    let parts = PARTS.iter().map(|(part, _)| *part).chain([LIBRARY]);
    let titles: Vec<&str> = ["workload", "D1 misses", "LL misses", "all"].into_iter().chain(parts).collect();
    println!("| {} |", titles.join(" | "));
    println!("|---{}|", "|--:".repeat(titles.len() - 1));
    for (name, (mode, group)) in WORKLOADS.iter().flat_map(|name| MODES.map(|mode| (name, mode))) {
        let operation = format!("{name}, {mode}");
        if words.iter().all(|word| operation.contains(word.as_str())) {
            println!("| {operation} | {} |", budget_of(name, group)?);
        }
    }
    Ok(())
}

/// The misses and instructions of one call and of its parts.
fn budget_of(name: &str, group: usize) -> Result<String, String> {
    let (less, more) = (profile(name, group, CALLS)?, profile(name, group, 2 * CALLS)?);
    let each = |less: u64, more: u64| (more as f64 - less as f64) / CALLS as f64;
    let parts: Vec<f64> = less.parts.iter().zip(&more.parts).map(|(less, more)| each(*less, *more)).collect();
    let misses = [each(less.d1_misses, more.d1_misses), each(less.ll_misses, more.ll_misses)];
    let misses = misses.map(|count| format!("{count:.1}")).into_iter();
    let instructions = [parts.iter().sum()].into_iter().chain(parts).map(|count: f64| format!("{count:.0}"));
    Ok(misses.chain(instructions).collect::<Vec<_>>().join(" | "))
}

/// Runs this program under callgrind.
fn profile(name: &str, group: usize, calls: usize) -> Result<Profile, String> {
    let file = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--cache-sim=yes", "--toggle-collect=*measured_region*"])
        .arg(format!("--callgrind-out-file={}", file.path().display()))
        .arg(program)
        .args(["run", name, &group.to_string(), &calls.to_string()])
        .output()
        .map_err(|error| format!("valgrind cannot be run: {error}"))?;
    if !output.status.success() {
        return Err(format!("{name} ({}):\n{}", output.status, String::from_utf8_lossy(&output.stderr)));
    }
    budget::sum_up(&std::fs::read_to_string(file.path()).map_err(|error| error.to_string())?)
}

/// Runs the measured calls, under callgrind.
fn run(workload: &dyn Workload, group: usize, calls: usize) -> heddle_workloads::Result<()> {
    let options =
        Options::default().protocol(ProtocolKind::Optimistic).durability(Durability::None).workers(1);
    let db = Database::in_memory_with(options)?;
    workload.load(&db)?;
    let bound = workload.bind(&db, 1)?;
    let mut generator = bound.generator(7, 0)?;
    let mut made = Calls::default();
    generator.fill(&mut made, WARM_UP + calls)?;
    assert_eq!(made.made().len(), WARM_UP + calls, "a call for each that is measured");
    let (warm_up, measured) = made.made().split_at(WARM_UP);
    let procedures = generator.procedures();
    let mut worker = db.worker()?;
    let mut committed = 0;
    execute(&mut worker, procedures, warm_up.chunks(group), |results| {
        committed += results.iter().filter(|executed| !executed.failed()).count();
    });
    // Calls that fail would be counted, too.
    assert!(committed * 2 > WARM_UP, "only {committed} of {WARM_UP} calls have committed");
    measured_region(|| {
        execute(&mut worker, procedures, std::hint::black_box(measured).chunks(group), |_| {})
    });
    Ok(())
}

/// Executes calls, group by group, and has the results of each looked at.
#[inline(always)]
fn execute<'a>(
    worker: &mut Worker<'_>,
    procedures: &[Procedure],
    groups: impl Iterator<Item = &'a [(usize, Args)]>,
    mut look: impl FnMut(&[Executed<'_>]),
) {
    let mut results = Vec::new();
    for group in groups {
        worker.execute_group(procedures, group, &mut results);
        look(&results);
        results.clear();
    }
}

/// Whatever runs inside of this function, on the thread that calls it, is counted.
#[inline(never)]
fn measured_region(body: impl FnOnce()) {
    body();
}
