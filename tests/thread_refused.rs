//! The system refuses a thread while a database is opened: `open` returns an error, and whatever was started is stopped.

use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use heddledb::{
    DataType, Database, Durability, Error, Options, PartitionedOptions, ProtocolKind, Range, Result,
    ScheduleKind, Stages, TableDefinition, row,
};

/// A test that takes this long hangs.
const LIMIT: Duration = Duration::from_secs(60);
/// Set in a process in which the system refuses all threads.
const REFUSED: &str = "HEDDLE_TEST_THREADS_REFUSED";

/// Waits until this many threads of this process are a database's: a thread takes its name once it runs, and the system
/// lists it for a moment after it has ended.
#[track_caller]
fn wait_for_engine_threads(wanted: usize) {
    let count = || {
        let tasks = std::fs::read_dir("/proc/self/task").expect("Linux");
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
        names.filter(|name| name.starts_with("heddle-")).count()
    };
    let start = Instant::now();
    while count() != wanted {
        assert!(start.elapsed() < LIMIT / 4, "{} threads, not {wanted}", count());
        thread::sleep(Duration::from_millis(1));
    }
}

fn count(db: &Database) -> Result<usize> {
    let table = db.open_table(TableDefinition::new("t").column("id", DataType::Int64).primary_key(["id"]))?;
    db.run(|tx| Ok(tx.scan(&table, Range::all())?.count()))
}

fn insert(db: &Database, id: i64) -> Result<()> {
    let table = db.table("t")?;
    db.run(|tx| tx.insert(&table, row![id]))
}

/// Opens a database with one more thread each time, until none is refused. How many threads it has then.
fn open_with_ever_more_threads(path: &Path, options: &Options) -> usize {
    for threads in 0..200 {
        let error = match Database::open(path, options.clone().threads(|layout| layout.most(threads))) {
            Ok(db) => {
                wait_for_engine_threads(threads);
                db.close().expect("closed");
                return threads;
            }
            Err(error) => error,
        };
        assert!(matches!(error, Error::ThreadRefused { .. }), "{error:?}");
        assert!(error.to_string().contains("does not start the thread heddle-"), "{error}");
        assert_eq!(error.sqlstate(), "53000");
        wait_for_engine_threads(0);
    }
    panic!("no end")
}

fn layouts() -> Vec<Options> {
    let base = || Options::default().log(|log| log.buffer_bytes(1 << 18).segment_bytes(1 << 20));
    let mut layouts: Vec<Options> = ProtocolKind::ALL
        .iter()
        .flat_map(|&protocol| {
            let staged = base().protocol(protocol).threads(|threads| threads.stages(Stages::Staged));
            [
                base().protocol(protocol).workers(3),
                staged.workers(2).threads(|threads| threads.input(2).output(2)),
            ]
        })
        .collect();
    layouts.push(base().threads(|threads| threads.stages(Stages::Single)));
    layouts.push(
        base()
            .schedule(ScheduleKind::Predict)
            .memory(|memory| memory.limit(1 << 30))
            .diagnostics(|diagnostics| diagnostics.time_samples(10))
            .checkpoints(|checkpoints| checkpoints.threads(3))
            .queues(|queues| queues.automatic_admission(true)),
    );
    layouts.push(base().durability(Durability::Async).protocol(PartitionedOptions::default().executors(3)));
    layouts
}

fn at_each_thread() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("db");
    let mut most = 0;
    for (number, options) in layouts().into_iter().enumerate() {
        let threads = open_with_ever_more_threads(&path, &options);
        most = most.max(threads);
        assert!(threads >= 3, "a worker, the log, and what prepares its segments");
        // The directory is free, and everything is there: the refused threads have lost nothing.
        let db = Database::open(&path, options).expect("opened");
        assert_eq!(count(&db), Ok(number));
        insert(&db, number as i64).expect("a row");
        db.close().expect("closed");
    }
    assert!(most >= 8, "{most}");
    let in_memory = || Options::default().durability(Durability::None).workers(2);
    let refused = Database::in_memory_with(in_memory().threads(|threads| threads.most(1))).map(drop);
    assert!(matches!(refused, Err(Error::ThreadRefused { .. })), "{refused:?}");
    drop(Database::in_memory_with(in_memory()).expect("opened"));
    wait_for_engine_threads(0);
}

/// The system itself refuses: threads ask for more stack than there are addresses.
fn by_the_system() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("db");
    let db = Database::open(&path, Options::default()).expect("opened");
    count(&db).expect("a table");
    insert(&db, 7).expect("a row");
    db.close().expect("closed");
    let child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "a_refused_thread_is_an_error_and_nothing_stays_behind", "--test-threads=1"])
        .env(REFUSED, &path)
        .env("RUST_MIN_STACK", (1_u64 << 46).to_string())
        .output()
        .expect("a process");
    let output = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && output.contains("1 passed"), "{output}");
    let db = Database::open(&path, Options::default()).expect("opened");
    assert_eq!(count(&db), Ok(1));
}

#[test]
fn a_refused_thread_is_an_error_and_nothing_stays_behind() {
    if let Ok(path) = std::env::var(REFUSED) {
        // Recovery does without further threads; the log's is the first that the database cannot do without.
        let error = Database::open(path, Options::default()).map(drop).expect_err("all threads are refused");
        assert!(matches!(error, Error::ThreadRefused { .. }), "{error:?}");
        return;
    }
    let (done, wait) = mpsc::channel();
    let test = thread::spawn(move || {
        at_each_thread();
        by_the_system();
        let _ = done.send(());
    });
    assert_ne!(wait.recv_timeout(LIMIT), Err(mpsc::RecvTimeoutError::Timeout), "it hangs");
    test.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}
