//! The memory of tables and indexes that schema changes drop goes back, once no transaction can see them, under every protocol.
//!
//! Keys have two thousand bytes, so that few rows take much memory.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::support::concurrent::{in_memory, on_disk, open, small, watched};
use heddledb::{
    DataType, Database, Error, Options, ProtocolKind, Range, Result, Table, TableChange, TableDefinition,
    key, row, set,
};

/// Number of times that a table is created, filled and dropped.
const ROUNDS: i64 = 200;
/// With an index, a round's rows take 100 KB; all rounds' rows, 20 MB.
const ROWS: i64 = 25;
/// Records that worker contexts have fetched ahead, and the catalog's rows about dropped tables.
const SLACK: u64 = 5 << 20;

fn definition(name: &str) -> TableDefinition {
    TableDefinition::new(name)
        .column("id", DataType::Text)
        .column("part", DataType::Int32)
        .primary_key(["id"])
        .index(format!("{name}_by_part"), ["part"])
}

fn id(number: i64) -> String {
    format!("{number:<02000}")
}

fn fill(db: &Database, table: &Table) {
    let filled = db.run(|tx| (0..ROWS).try_for_each(|at| tx.insert(table, row![id(at), at % 7])));
    filled.expect("rows");
}

fn sum(db: &Database, table: &Table) -> Result<i64> {
    db.run(|tx| {
        let mut sum = 0;
        for row in tx.scan(table, Range::all())? {
            sum += row?.int("part")?;
        }
        Ok(sum)
    })
}

/// Waits until rows and indexes take no more memory than at first.
fn wait_for_memory(db: &Database, before: (u64, u64)) {
    loop {
        let now = db.statistics();
        if now.memory_bytes <= before.0 + SLACK && now.index_bytes <= before.1 {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn memory(db: &Database) -> (u64, u64) {
    let now = db.statistics();
    (now.memory_bytes, now.index_bytes)
}

/// Runs a test under every protocol, in a database that has one filled table, whose memory is there at the end.
fn under_every_protocol(test: impl Fn(&Database, &Table) + Clone + Send + 'static) {
    for &protocol in ProtocolKind::ALL {
        let test = test.clone();
        watched(move || {
            let db = in_memory(Options::default().protocol(protocol));
            let table = db.create_table(definition("kept")).expect("a table");
            fill(&db, &table);
            let rows = sum(&db, &table).expect("rows");
            let before = memory(&db);
            test(&db, &table);
            wait_for_memory(&db, before);
            assert_eq!(sum(&db, &table), Ok(rows), "{protocol}");
            db.check().expect("whole");
        });
    }
}

#[test]
fn of_tables_that_are_made_filled_and_dropped() {
    under_every_protocol(|db, _| {
        for _ in 0..ROUNDS {
            let table = db.create_table(definition("draft")).expect("a table");
            fill(db, &table);
            db.drop_table("draft").expect("dropped");
        }
    });
}

#[test]
fn of_tables_that_are_emptied_although_the_first_handle_is_kept() {
    under_every_protocol(|db, _| {
        let table = db.create_table(definition("draft")).expect("a table");
        for _ in 0..ROUNDS {
            fill(db, &table);
            db.truncate(&["draft"]).expect("empty");
            assert_eq!(sum(db, &table), Ok(0), "the handle follows");
        }
        db.drop_table("draft").expect("dropped");
    });
}

#[test]
fn of_indexes_that_are_built_and_dropped() {
    under_every_protocol(|db, kept| {
        for round in 0..ROUNDS {
            let change = TableChange::new().add_index("again", ["part", "id"]);
            db.change_table("kept", change).expect("an index");
            db.run(|tx| tx.update(kept, key![id(round % ROWS)], set! { part: round % ROWS % 7 }))
                .expect("as it was");
            db.change_table("kept", TableChange::new().drop_index("again")).expect("dropped");
        }
    });
}

#[test]
fn of_tables_that_are_rebuilt() {
    under_every_protocol(|db, kept| {
        for round in 0..ROUNDS / 2 {
            let data_type = if round % 2 == 0 { DataType::Int64 } else { DataType::Int32 };
            db.change_table("kept", TableChange::new().data_type("part", data_type)).expect("rebuilt");
        }
        assert_eq!(kept.definition().columns().len(), 2);
    });
}

#[test]
fn of_tables_in_transactions_of_sessions() {
    under_every_protocol(|db, kept| {
        let mut session = db.session().expect("a session");
        for round in 0..ROUNDS {
            session.begin().expect("begun");
            let table = session.create_table(definition("draft")).expect("a table");
            session
                .run(|tx| (0..ROWS).try_for_each(|at| tx.insert(&table, row![id(at), at % 7])))
                .expect("rows");
            match round % 3 {
                0 => session.rollback().expect("rolled back"),
                1 => {
                    session.truncate(&["draft"]).expect("emptied");
                    session.drop_table("draft").expect("dropped");
                    session.commit().expect("committed");
                }
                _ => {
                    session.commit().expect("committed");
                    session.begin().expect("begun");
                    session.drop_table("draft").expect("dropped");
                    session.run(|tx| tx.delete(kept, key![id(3)])).expect("deleted");
                    session.run(|tx| tx.insert(kept, row![id(3), 3])).expect("inserted again");
                    session.commit().expect("committed");
                }
            }
            assert!(matches!(sum(db, &table), Err(Error::TableDropped { .. })));
        }
    });
}

#[test]
fn snapshots_and_sessions_read_a_dropped_table_until_they_end() {
    under_every_protocol(|db, _| {
        let table = db.create_table(definition("draft")).expect("a table");
        fill(db, &table);
        let expected = sum(db, &table).expect("rows");
        let (snapshot, mut session) = (db.snapshot().expect("a snapshot"), db.session().expect("a session"));
        session.begin().expect("begun");
        assert_eq!(session.run(|tx| tx.exists(&table, key![id(3)])), Ok(true));
        // A version of a row that only the snapshots need.
        db.run(|tx| tx.update(&table, key![id(3)], set! { part: 1000 })).expect("changed");
        db.run(|tx| tx.delete(&table, key![id(4)])).expect("deleted");
        let filled = memory(db);
        db.truncate(&["draft"]).expect("emptied");
        db.drop_table("draft").expect("dropped");
        // Others come and go meanwhile.
        for _ in 0..20 {
            let other = db.create_table(definition("other")).expect("a table");
            fill(db, &other);
            db.drop_table("other").expect("dropped");
        }
        let read = |index: Option<&str>| -> Result<i64> {
            let rows = match index {
                None => snapshot.scan(&table, Range::all())?,
                Some(index) => snapshot.scan_index(&table, index, Range::all())?,
            };
            rows.map(|row| row?.row().int("part")).sum()
        };
        assert_eq!((read(None), read(Some("draft_by_part"))), (Ok(expected), Ok(expected)));
        let kept = memory(db);
        assert!(kept.0 >= filled.0 && kept.1 >= filled.1, "{kept:?} {filled:?}");
        drop(session);
        assert_eq!(read(None), Ok(expected));
        drop(snapshot);
        let later = db.snapshot().expect("a snapshot");
        assert!(matches!(later.get(&table, key![id(3)]), Err(Error::TableDropped { .. })));
    });
}

#[test]
fn handles_of_dropped_tables_say_what_is_gone() {
    under_every_protocol(|db, kept| {
        let table = db.create_table(definition("draft")).expect("a table");
        let column = table.column("part").expect("a column");
        let fixed = table.fixed();
        fill(db, &table);
        db.drop_table("draft").expect("dropped");
        let fixed_kept = kept.fixed();
        db.truncate(&["kept"]).expect("emptied");
        fill(db, kept);
        let is_gone = |result: Result<()>| {
            let error = result.expect_err("it is gone");
            assert!(matches!(&error, Error::TableDropped { table } if table == "draft"), "{error}");
        };
        // Also when its memory has been freed, by any number of turns of the thread that frees it.
        for _ in 0..50 {
            for handle in [&table, &fixed] {
                is_gone(db.run(|tx| tx.get(handle, key![id(1)]).map(drop)));
                is_gone(db.run(|tx| tx.insert(handle, row![id(1), 1])));
                is_gone(db.run(|tx| tx.delete(handle, key![id(1)]).map(drop)));
                is_gone(db.run(|tx| tx.add(handle, key![id(1)], column, 1)));
                is_gone(db.run(|tx| tx.scan(handle, Range::all()).map(drop)));
                is_gone(db.run(|tx| tx.scan_index(handle, "draft_by_part", Range::all()).map(drop)));
                is_gone(db.read(|snapshot| snapshot.get(handle, key![id(1)]).map(drop)));
                assert!(!handle.is_current());
                assert_eq!((handle.name(), handle.definition().columns().len()), ("draft", 2));
                let rows = handle.memory().rows;
                assert!(rows == 0 || rows == ROWS as u64, "all or nothing: {rows}");
                assert!(handle.index_memory("draft_by_part").is_some());
                let _ = handle.estimated_rows();
            }
            let changed = db.run(|tx| tx.get(&fixed_kept, key![id(1)]).map(drop));
            assert!(matches!(changed, Err(Error::TableChanged { .. })), "{changed:?}");
        }
    });
}

#[test]
fn beside_threads_that_write_and_count() {
    under_every_protocol(|db, kept| {
        let (done, written) = (AtomicBool::new(false), AtomicU64::new(0));
        thread::scope(|scope| {
            for writer in 0..3_i64 {
                let (done, written) = (&done, &written);
                scope.spawn(move || {
                    let mut turn = 0;
                    while !done.load(Ordering::Relaxed) {
                        turn += 1;
                        let at = writer * ROWS + turn % ROWS;
                        let Ok(table) = db.table("draft") else { continue };
                        let outcome = db.run(|tx| match tx.get(&table, key![id(at)])?.is_some() {
                            true => tx.delete(&table, key![id(at)]).map(drop),
                            false => tx.insert(&table, row![id(at), 1]),
                        });
                        match outcome {
                            Ok(()) => written.fetch_add(1, Ordering::Relaxed),
                            Err(Error::TableDropped { .. }) => 0,
                            Err(error) => panic!("{error}"),
                        };
                        db.run(|tx| tx.update(kept, key![id(at % ROWS)], set! { part: at % ROWS % 7 }))
                            .expect("as it was");
                        let _ = table.memory();
                    }
                });
            }
            for round in 0..20 {
                let table = db.create_table(definition("draft")).expect("a table");
                let before = written.load(Ordering::Relaxed);
                while written.load(Ordering::Relaxed) < before + 5 {
                    thread::yield_now();
                }
                if round % 2 == 0 {
                    db.truncate(&["draft"]).expect("emptied");
                    assert!(table.is_current());
                }
                db.drop_table("draft").expect("dropped");
            }
            done.store(true, Ordering::Relaxed);
        });
    });
}

#[test]
fn within_a_memory_limit_there_is_room_again() {
    watched(|| {
        let db = in_memory(Options::default().memory(|memory| memory.limit(8 << 20)));
        for _ in 0..ROUNDS {
            let table = db.create_table(definition("draft")).expect("a table");
            let mut at = 0;
            while at < ROWS {
                match db.run(|tx| tx.insert(&table, row![id(at), at])) {
                    Ok(()) => at += 1,
                    // What the last tables took is freed a little later.
                    Err(Error::MemoryFull { .. }) => thread::sleep(Duration::from_millis(1)),
                    Err(error) => panic!("{error}"),
                }
            }
            db.drop_table("draft").expect("dropped");
        }
    });
}

#[test]
fn recovery_and_checkpoints_meet_tables_that_were_dropped() {
    for &protocol in ProtocolKind::ALL {
        watched(move || {
            let (db, disk) = on_disk(small().protocol(protocol));
            let kept = db.create_table(definition("kept")).expect("a table");
            fill(&db, &kept);
            let (before, rows) = (memory(&db), sum(&db, &kept));
            let done = AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        db.checkpoint().expect("a checkpoint");
                    }
                });
                for _ in 0..10 {
                    let table = db.create_table(definition("draft")).expect("a table");
                    fill(&db, &table);
                    db.run(|tx| tx.add(&table, key![id(3)], "part", 1)).expect("changed");
                    db.drop_table("draft").expect("dropped");
                }
                done.store(true, Ordering::Relaxed);
            });
            for _ in 0..10 {
                let table = db.create_table(definition("draft")).expect("a table");
                fill(&db, &table);
                db.truncate(&["draft"]).expect("emptied");
                db.drop_table("draft").expect("dropped");
            }
            db.close().expect("closed");
            let db = open(&disk, small().protocol(protocol));
            let table = db.table("kept").expect("the table");
            assert_eq!(sum(&db, &table), rows, "{protocol}");
            wait_for_memory(&db, before);
            db.check().expect("whole");
        });
    }
}
