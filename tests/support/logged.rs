//! A database on a simulated disk, for the tests of durability: one table, and a procedure for each kind of access.

#![allow(dead_code)]

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use heddledb::testing::SimulatedDisk;
use heddledb::{
    Action, DataType, Database, Error, Options, Procedure, ProcedureDefinition, Range, Result, Table,
    TableDefinition, Value, fail, key, row,
};

/// The directory of the database on the simulated disk.
pub const DIRECTORY: &str = "bank";
/// The smallest segment that a database may have.
pub const SMALL_SEGMENT: u64 = 64 << 10;
/// Long enough for a result that is released too early to be seen; nothing passes because it is long enough.
const GRACE: Duration = Duration::from_millis(30);
/// Far longer than anything takes here, on however busy a machine: what needs it hangs.
const LIMIT: Duration = Duration::from_secs(300);

/// A small log buffer, and segments so large that after the second one the tests need no other.
pub fn options(disk: &SimulatedDisk) -> Options {
    Options::default()
        .disk(Arc::new(disk.clone()))
        .log(|log| log.segment_bytes(4 * SMALL_SEGMENT).buffer_bytes(16 << 10))
        .workers(1)
}

/// The smallest segments and the smallest log buffer.
pub fn small_options(disk: &SimulatedDisk) -> Options {
    options(disk).log(|log| log.segment_bytes(SMALL_SEGMENT).buffer_bytes(4 << 10))
}

pub fn open(disk: &SimulatedDisk) -> Result<Database> {
    Database::open(DIRECTORY, options(disk))
}

/// The parts of a database that the tests use.
pub struct Bank {
    pub db: Database,
    pub items: Table,
    pub insert: Procedure,
    pub set: Procedure,
    pub delete: Procedure,
    /// One row with the value, or none.
    pub get: Procedure,
    /// One row for each item from the first argument up to, not with, the second.
    pub range: Procedure,
    /// The rows with a tag, by the unique index.
    pub by_tag: Procedure,
    /// Fails with what it has read.
    pub read_and_fail: Procedure,
}

pub fn definition() -> TableDefinition {
    TableDefinition::new("item")
        .column("id", DataType::Int64)
        .column("value", DataType::Int64)
        .not_null()
        .column("tag", DataType::Int64)
        .primary_key(["id"])
        .unique_index("item_by_tag", ["tag"])
}

/// A new database with the items 1 to 9, each with the value 0 and the hundredfold of its number as its tag, all of
/// them durable.
pub fn bank(disk: &SimulatedDisk) -> Bank {
    bank_with(options(disk))
}

pub fn bank_with(options: Options) -> Bank {
    let db = Database::open(DIRECTORY, options).expect("a new database");
    let items = db.create_table(definition()).expect("a new table");
    db.run(|tx| (1..10).try_for_each(|id| tx.insert(&items, row![id, 0, id * 100]))).expect("new rows");
    with_procedures(db)
}

/// Opens the same database again.
pub fn reopened(disk: &SimulatedDisk) -> Bank {
    with_procedures(open(disk).expect("it was a whole database"))
}

pub fn reopened_with(options: Options) -> Bank {
    with_procedures(Database::open(DIRECTORY, options).expect("it was a whole database"))
}

fn with_procedures(db: Database) -> Bank {
    let items = db.table("item").expect("it was made");
    let value = items.column("value").expect("a column");
    let on_key = |name: &str, action: Action| {
        ProcedureDefinition::new(name)
            .parameter("id", DataType::Int64)
            .parameter("other", DataType::Int64)
            .phase([action.key(|args, key| key.push(args.int(0)?))])
    };
    let on_table = |name: &str, action: Action| {
        ProcedureDefinition::new(name)
            .parameter("from", DataType::Int64)
            .parameter("to", DataType::Int64)
            .phase([action])
    };
    let register = |definition| db.register(definition).expect("a sound procedure");
    Bank {
        insert: register(on_key(
            "insert",
            Action::write(&items).body(|a| {
                let id = a.args().int(0)?;
                a.insert(row![id, a.args().int(1)?, id * 100])
            }),
        )),
        set: register(on_key(
            "set",
            Action::write(&items).body(move |a| a.update(&[(value, a.args().int(1)?.into())])),
        )),
        delete: register(on_key("delete", Action::write(&items).body(|a| a.delete().map(drop)))),
        get: register(on_key(
            "get",
            Action::read(&items).body(move |a| {
                if let Some(row) = a.get()? {
                    a.return_row(vec![Value::Int(row.int(value)?)]);
                }
                Ok(())
            }),
        )),
        range: register(on_table("range", {
            let items = items.clone();
            Action::read(&items.clone()).body(move |a| {
                let range = Range::from(key![a.args().int(0)?]).to(key![a.args().int(1)?]);
                for row in a.tx().scan(&items, range)? {
                    a.return_row(row?.to_values());
                }
                Ok(())
            })
        })),
        by_tag: register(on_table("by tag", {
            let items = items.clone();
            Action::read(&items.clone()).body(move |a| {
                for row in a.tx().scan_index(&items, "item_by_tag", Range::prefix(key![a.args().int(0)?]))? {
                    a.return_row(row?.to_values());
                }
                Ok(())
            })
        })),
        read_and_fail: register(on_key(
            "read and fail",
            Action::read(&items).body(move |a| {
                Err(match a.get()? {
                    Some(row) => fail(format!("the value is {}", row.int(value)?)),
                    None => fail("it is not there"),
                })
            }),
        )),
        items,
        db,
    }
}

impl Bank {
    /// The value of an item, as a new transaction sees it.
    pub fn value(&self, id: i64) -> Result<Option<i64>> {
        self.db.run(|tx| tx.get(&self.items, key![id])?.map(|row| row.int("value")).transpose())
    }

    /// Waits until the thread that prepares segments has done so: from then on only the log syncs.
    pub fn wait_for_segments(&self, disk: &SimulatedDisk) {
        wait_for_segment(disk, 2);
    }
}

/// Holds the disk's syncs back until it is released or dropped, so that a test that fails here ends.
pub struct HeldSyncs(SimulatedDisk);

impl HeldSyncs {
    pub fn of(disk: &SimulatedDisk) -> HeldSyncs {
        disk.hold_syncs();
        HeldSyncs(disk.clone())
    }

    pub fn release(self) {}
}

impl Drop for HeldSyncs {
    fn drop(&mut self) {
        self.0.release_syncs();
    }
}

/// Gives others the time to do what they must not do.
pub fn grace() {
    thread::sleep(GRACE);
}

/// The path of a log segment.
pub fn segment(number: u32) -> std::path::PathBuf {
    Path::new(DIRECTORY).join("log").join(format!("{number:08}.log"))
}

/// Waits until a segment is prepared, which ends with the sync of its directory: its name alone comes before that.
pub fn wait_for_segment(disk: &SimulatedDisk, number: u32) {
    let deadline = Instant::now() + LIMIT;
    while disk.crash_image(0).bytes(&segment(number)).is_err() {
        assert!(Instant::now() < deadline, "segment {number} is never prepared");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Runs work that must end, on a thread of its own: a deadlock fails the test instead of hanging it.
pub fn in_time<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, wait) = std::sync::mpsc::channel();
    let worker = thread::spawn(move || drop(done.send(work())));
    match wait.recv_timeout(LIMIT) {
        Ok(value) => value,
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("{what}: no end after {LIMIT:?}"),
        Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => match worker.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("the worker sends before it ends"),
        },
    }
}

/// Returns true if this is the error of a result whose outcome is unknown.
pub fn is_unknown<T>(result: &Result<T>) -> bool {
    matches!(result, Err(Error::LogFailed { .. }))
}
