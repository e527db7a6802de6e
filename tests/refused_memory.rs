//! Memory that the system refuses: a large request fails as an error of the call, the process lives, and everything goes
//! on once there is memory again.

#[path = "support/concurrent.rs"]
mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use heddledb::{
    DataType, Database, Error, Options, OrderedTuple, PrimaryIndex, ProtocolKind, Range, Result, Table,
    TableDefinition, TupleType, Value, key, row,
};
use support::{in_memory, on_disk, open, watched};

/// The system's allocator, which refuses requests of at least so many bytes, as a system without memory would.
struct Scarce;

/// From how many bytes on requests are refused.
static REFUSED_FROM: AtomicUsize = AtomicUsize::new(usize::MAX);
/// Number of requests that are granted before.
static GRANTED: AtomicUsize = AtomicUsize::new(0);
/// Number of requests that were refused.
static REFUSALS: AtomicUsize = AtomicUsize::new(0);
/// One test at a time: the allocator is everyone's.
static TURN: Mutex<()> = Mutex::new(());
/// Requests of the simulated disk when a thread of the log makes a segment of zeros, at any time: for the
/// file, and for the bytes behind its first page. They represent the disk and not memory.
const OF_A_SEGMENT: [usize; 2] = [1 << 20, (1 << 20) - (4 << 10)];

fn is_refused(bytes: usize) -> bool {
    let is_large = bytes >= REFUSED_FROM.load(Ordering::SeqCst) && !OF_A_SEGMENT.contains(&bytes);
    let take = |granted: usize| granted.checked_sub(1);
    let refused = is_large && GRANTED.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_err();
    REFUSALS.fetch_add(usize::from(refused), Ordering::SeqCst);
    refused
}

// SAFETY: every request that is not refused goes to the system's allocator as it is; a refusal is a null pointer, as the
// trait has it.
unsafe impl GlobalAlloc for Scarce {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_refused(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise is the system's too.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size > layout.size() && is_refused(size) {
            return std::ptr::null_mut();
        }
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Scarce = Scarce;

/// Does something while requests of at least this many bytes are refused.
fn while_refused<T>(from: usize, work: impl FnOnce() -> T) -> T {
    while_refused_after(0, from, work)
}

/// Does something while requests of at least this many bytes are refused, but for the first ones.
fn while_refused_after<T>(granted: usize, from: usize, work: impl FnOnce() -> T) -> T {
    struct Restored;
    impl Drop for Restored {
        fn drop(&mut self) {
            REFUSED_FROM.store(usize::MAX, Ordering::SeqCst);
        }
    }
    let _restored = Restored;
    GRANTED.store(granted, Ordering::SeqCst);
    REFUSED_FROM.store(from, Ordering::SeqCst);
    work()
}

/// A test of its own, in its turn.
fn in_turn(test: impl FnOnce() + Send + 'static) {
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    watched(test);
}

const LARGE: usize = 4 << 20;

fn documents(db: &Database) -> Table {
    let definition = TableDefinition::new("document")
        .column("id", DataType::Int64)
        .column("text", DataType::Text)
        .column("best", DataType::OrderedTuple(entry()))
        .column("n", DataType::Int64)
        .not_null()
        .primary_key(["id"]);
    db.create_table(definition).expect("a table")
}

fn entry() -> TupleType {
    TupleType::new(vec![DataType::Int64], vec![DataType::Text]).expect("a type")
}

fn is_refusal<T: std::fmt::Debug>(result: &Result<T>) -> bool {
    let is_one = matches!(result, Err(Error::OutOfMemory { .. }));
    is_one && result.as_ref().is_err_and(|error| error.sqlstate() == "53200" && !error.is_retryable())
}

fn length(db: &Database, table: &Table, id: i64) -> Option<usize> {
    db.run(|tx| Ok(tx.get(table, key![id])?.map(|row| row.text("text").map_or(0, str::len)))).expect("a read")
}

/// Inserts, updates and operations with large values, at each of the places at which memory can be missing: what is refused
/// leaves no trace, and small transactions go on meanwhile.
fn large_rows_are_refused(db: &Database, protocol: ProtocolKind) {
    let table = documents(db);
    let null = heddledb::ValueRef::Null;
    let text = "x".repeat(LARGE);
    let tuple = Value::Tuple(OrderedTuple::new(&entry(), &row![1], &row![text.as_str()]).expect("a tuple"));
    for id in 1..=2 {
        db.run(|tx| tx.insert(&table, row![id, "a text that needs a block", null, 0])).expect("a row");
    }
    // From just below the value, so that even its copies are refused, to far below it.
    for from in [LARGE, LARGE / 2, 64 << 10] {
        let what = format!("{}, from {from} bytes", protocol.name());
        while_refused(from, || {
            let before = REFUSALS.load(Ordering::SeqCst);
            let inserted = db.run(|tx| tx.insert(&table, row![3, text.as_str(), null, 0]));
            assert!(is_refusal(&inserted), "{what}: {inserted:?}");
            let updated = db.run(|tx| {
                tx.add(&table, key![1], "n", 1)?;
                tx.update(&table, key![1], &[("text", text.as_str().into())])
            });
            assert!(is_refusal(&updated), "{what}: {updated:?}");
            let (order, payload) = (row![1], row![text.as_str()]);
            let put = db.run(|tx| tx.ordered_put(&table, key![1], "best", &order, &payload));
            assert!(put.is_err(), "{what}: {put:?}");
            let set = db.run(|tx| tx.update(&table, key![1], &[("best", (&tuple).into())]));
            assert!(is_refusal(&set), "{what}: {set:?}");
            assert!(REFUSALS.load(Ordering::SeqCst) > before);
            // Neither locks nor commit sections are left behind.
            for _ in 0..3 {
                db.run(|tx| tx.add(&table, key![1], "n", 10)).expect("a small transaction");
                db.run(|tx| tx.add(&table, key![2], "n", 10)).expect("a small transaction");
            }
        });
        assert_eq!((length(db, &table, 3), length(db, &table, 1)), (None, Some(25)), "{what}");
    }
    let n = db.run(|tx| tx.get(&table, key![1])?.ok_or(Error::Closed)?.int("n"));
    assert_eq!(n, Ok(90), "the additions that came with what was refused are not there");
    db.run(|tx| tx.insert(&table, row![3, text.as_str(), null, 0])).expect("there is memory again");
    assert_eq!(length(db, &table, 3), Some(LARGE));
    db.check().expect("consistent");
}

#[test]
fn large_rows_are_errors_under_every_protocol() {
    in_turn(|| {
        for &protocol in ProtocolKind::ALL {
            large_rows_are_refused(&in_memory(Options::default().protocol(protocol)), protocol);
            let (db, disk) = on_disk(Options::default().protocol(protocol));
            large_rows_are_refused(&db, protocol);
            db.close().expect("durable");
            let db = open(&disk, Options::default());
            let table = db.table("document").expect("there");
            assert_eq!((length(&db, &table, 3), length(&db, &table, 1)), (Some(LARGE), Some(25)));
        }
    });
}

/// Refuses a transaction its first large request, then only its second, and so on, until it commits: wherever memory is
/// missing, in the body or among the locks of the commit, it fails and leaves nothing. Gives the number of those places.
fn refuse_everywhere(what: &str, db: &Database, table: &Table, work: &dyn Fn() -> Result<()>) -> usize {
    let additions = || db.run(|tx| tx.get(table, key![2])?.ok_or(Error::Closed)?.int("n")).expect("readable");
    for granted in 0..100 {
        let before = (length(db, table, 1), length(db, table, 3), additions());
        let done = while_refused_after(granted, LARGE / 2, work);
        let after = (length(db, table, 1), length(db, table, 3), additions());
        db.run(|tx| tx.add(table, key![1], "n", 1)).expect("nothing is locked");
        if done.is_ok() {
            assert_ne!(before, after, "{what}, {granted}");
            return granted;
        }
        assert!(is_refusal(&done), "{what}, {granted}: {done:?}");
        assert_eq!(before, after, "{what}, {granted}");
    }
    panic!("{what} never succeeds");
}

#[test]
fn wherever_a_transaction_lacks_memory_it_fails_as_a_whole() {
    in_turn(|| {
        for &protocol in ProtocolKind::ALL {
            for is_logged in [false, true] {
                let options = Options::default().protocol(protocol);
                let (db, disk) = if is_logged {
                    let (db, disk) = on_disk(options);
                    (db, Some(disk))
                } else {
                    (in_memory(options), None)
                };
                let what = format!("{}, logged: {is_logged}", protocol.name());
                let table = documents(&db);
                let (null, text) = (heddledb::ValueRef::Null, "x".repeat(LARGE));
                for id in 1..=2 {
                    db.run(|tx| tx.insert(&table, row![id, "a text that needs a block", null, 0]))
                        .expect("a row");
                }
                let insert = || {
                    db.run(|tx| {
                        tx.add(&table, key![2], "n", 1)?;
                        tx.insert(&table, row![3, text.as_str(), null, 0])
                    })
                };
                let update = || {
                    db.run(|tx| {
                        tx.add(&table, key![2], "n", 1)?;
                        tx.update(&table, key![1], &[("text", text.as_str().into())])
                    })
                };
                let put = || {
                    db.run(|tx| {
                        tx.add(&table, key![2], "n", 1)?;
                        tx.ordered_put(&table, key![1], "best", &row![1], &row![text.as_str()])
                    })
                };
                // The write set's copy and the block, and the arena's, the redo's and the log buffer's besides.
                let least = if is_logged { 3 } else { 2 };
                for (name, work) in
                    [("insert", &insert as &dyn Fn() -> Result<()>), ("update", &update), ("put", &put)]
                {
                    let places = refuse_everywhere(&format!("{what}, {name}"), &db, &table, work);
                    assert!(places >= least, "{what}, {name}: {places} places");
                }
                db.check().expect("consistent");
                if let Some(disk) = disk {
                    let db = open(&disk.crash_image(1), Options::default());
                    let table = db.table("document").expect("there");
                    assert_eq!((length(&db, &table, 3), length(&db, &table, 1)), (Some(LARGE), Some(LARGE)));
                }
            }
        }
    });
}

/// A group that is larger than the buffer may become is written in smaller blocks.
#[test]
fn a_log_group_is_written_although_its_buffer_cannot_grow() {
    in_turn(|| {
        let (db, disk) = on_disk(Options::default());
        let table = documents(&db);
        let null = heddledb::ValueRef::Null;
        let text = "z".repeat(1_900_000);
        // The transaction's own copies are below the limit, a block of the log with it is not.
        while_refused(7 << 20, || {
            for id in 0..8 {
                db.run(|tx| {
                    tx.insert(&table, row![2 * id, text.as_str(), null, 0])?;
                    tx.insert(&table, row![2 * id + 1, text.as_str(), null, 0])
                })
                .expect("committed");
            }
        });
        let db = open(&disk.crash_image(1), Options::default());
        let table = db.table("document").expect("there");
        assert!((0..16).all(|id| length(&db, &table, id) == Some(text.len())));
    });
}

/// Indexes grow as far as there is memory, and find everything all the same.
#[test]
fn indexes_find_everything_although_they_cannot_grow() {
    in_turn(|| {
        for index in [PrimaryIndex::Hash, PrimaryIndex::Ordered] {
            let db = in_memory(Options::default());
            let definition = TableDefinition::new("t")
                .column("id", DataType::Int64)
                .column("n", DataType::Int64)
                .primary_key(["id"])
                .primary_index(index);
            let table = db.create_table(definition).expect("a table");
            let keys = 60_000_i64;
            while_refused(300 << 10, || {
                for first in (0..keys).step_by(500) {
                    db.run(|tx| (first..first + 500).try_for_each(|id| tx.insert(&table, row![id, id])))
                        .expect("rows");
                }
                for id in (0..keys).step_by(7) {
                    assert_eq!(db.run(|tx| tx.exists(&table, key![id])), Ok(true));
                }
            });
            db.check().expect("consistent");
        }
    });
}

/// Without memory for another chunk of records the insert fails; what is there is read and changed.
#[test]
fn an_insert_without_memory_for_its_record_fails() {
    in_turn(|| {
        let db = in_memory(Options::default());
        let table = documents(&db);
        let null = heddledb::ValueRef::Null;
        let insert = |id: i64| db.run(|tx| tx.insert(&table, row![id, "short", null, id]));
        insert(0).expect("a row");
        let made = while_refused(200 << 10, || {
            let mut id = 1;
            let refused = loop {
                match insert(id) {
                    Ok(()) => id += 1,
                    refused => break refused,
                }
            };
            assert!(is_refusal(&refused), "{refused:?}");
            db.run(|tx| tx.add(&table, key![0], "n", 1)).expect("what is there can be changed");
            id
        });
        (made..made + 20_000).try_for_each(insert).expect("there is memory again");
        db.check().expect("consistent");
    });
}

#[test]
fn a_checkpoint_without_memory_fails_and_the_next_one_succeeds() {
    in_turn(|| {
        let (db, disk) = on_disk(Options::default());
        let table = documents(&db);
        let text = "w".repeat(LARGE);
        db.run(|tx| tx.insert(&table, row![1, text.as_str(), heddledb::ValueRef::Null, 0])).expect("a row");
        let failed = while_refused(LARGE / 2, || db.checkpoint());
        assert!(matches!(failed, Err(Error::OutOfMemory { .. })), "{failed:?}");
        assert_eq!((db.checkpoints().made, db.checkpoints().failed), (0, 1));
        db.run(|tx| tx.add(&table, key![1], "n", 1)).expect("the database goes on");
        db.checkpoint().expect("whole");
        let db = open(&disk.crash_image(1), Options::default());
        assert_eq!(length(&db, &db.table("document").expect("there"), 1), Some(LARGE));
    });
}

#[test]
fn a_snapshot_without_memory_for_a_row_fails_and_reads_it_later() {
    in_turn(|| {
        let db = in_memory(Options::default());
        let table = documents(&db);
        let text = "v".repeat(LARGE);
        db.run(|tx| tx.insert(&table, row![1, text.as_str(), heddledb::ValueRef::Null, 0])).expect("a row");
        let snapshot = db.snapshot().expect("a snapshot");
        let refused = while_refused(LARGE / 2, || snapshot.get(&table, key![1]).map(drop));
        assert!(is_refusal(&refused), "{refused:?}");
        let scanned = while_refused(LARGE / 2, || {
            snapshot.scan(&table, Range::all())?.try_for_each(|row| row.map(drop))
        });
        assert!(is_refusal(&scanned), "{scanned:?}");
        let row = snapshot.get(&table, key![1]).expect("readable").expect("there");
        assert_eq!(row.row().text("text").map(str::len), Ok(LARGE));
    });
}
