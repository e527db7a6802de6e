//! Tests that were written to refute what is claimed of phases, of the gate and of optimistic validation, each by one
//! interleaving. What they found is mended; they stay, so that it stays so.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use heddledb::{
    Action, DataType, Database, Durability, Error, Options, PhasedOptions, ProcedureDefinition, ProtocolKind,
    ProtocolOptions, Result, SplitOperation, Table, TableDefinition, args, key, row,
};

/// A time after which anything unfinished never ends: it is far more than any test here takes.
const FOR_EVER: Duration = Duration::from_secs(300);

fn in_memory(protocol: ProtocolKind, phase_milliseconds: f64) -> Database {
    let options = Options::default().durability(Durability::None);
    let phased = PhasedOptions::default().phase_milliseconds(phase_milliseconds);
    Database::in_memory_with(options.protocol(ProtocolOptions::from(protocol).phased(phased)))
        .expect("a database")
}

/// Counters 0 to 9, with two columns that can be split.
fn counters(db: &Database) -> Table {
    let definition = TableDefinition::new("counter")
        .column("id", DataType::Int64)
        .column("n", DataType::Int64)
        .not_null()
        .column("m", DataType::Int64)
        .not_null()
        .primary_key(["id"]);
    let table = db.create_table(definition).expect("a table");
    db.run(|tx| (0..10).try_for_each(|id| tx.insert(&table, row![id, 0, 0]))).expect("rows");
    table
}

fn value_of(db: &Database, table: &Table, id: i64, column: &str) -> i64 {
    db.run(|tx| tx.get(table, key![id])?.ok_or(Error::Closed)?.int(column)).expect("a counter")
}

/// Waits until this column is split, of whatever record.
fn wait_until_split(db: &Database, column: &str) {
    let start = Instant::now();
    let is_split = || {
        let report = db.phases().expect("it has phases");
        report.columns.iter().any(|split| split.column == column && split.now)
    };
    while !is_split() {
        assert!(start.elapsed() < FOR_EVER, "{column} is never split");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Keeps the database busy with a counter that no other test reads, as long as `body` runs: a label alone is worth a
/// split phase only where anything is committed.
fn while_others_work<T>(db: &Database, table: &Table, body: impl FnOnce() -> T) -> T {
    struct StopAtEnd<'s>(&'s AtomicBool);
    impl Drop for StopAtEnd<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                db.run(|tx| tx.add(table, key![9], "n", 1)).expect("an addition");
                thread::sleep(Duration::from_micros(200));
            }
        });
        let _stop = StopAtEnd(&stop);
        body()
    })
}

/// Runs `body` on a thread of its own, and fails if it does not end.
fn ends<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, ended) = mpsc::channel();
    thread::spawn(move || {
        let _ = done.send(body());
    });
    ended.recv_timeout(FOR_EVER).expect("it ends, and without a panic")
}

/// A record is split for one column, and it is not changed; in the next split phase it is split for another one. A
/// transaction that read that other column in the first phase must not commit in the second: its word is the same, and
/// the column's value is in slices now.
#[test]
fn what_was_read_in_one_split_phase_does_not_hold_in_another_that_splits_more() {
    ends(|| {
        let db = in_memory(ProtocolKind::Phased, 100.0);
        let table = counters(&db);
        while_others_work(&db, &table, || {
            db.split(&table, key![3], "n", SplitOperation::ADD).expect("a label");
            wait_until_split(&db, "n");
            let (has_read, read) = mpsc::channel();
            let (go, going) = mpsc::channel();
            let going = Mutex::new(going);
            thread::scope(|scope| {
                let (db, table) = (&db, &table);
                let reader = scope.spawn(move || {
                    let mut attempts = 0;
                    db.run(|tx| {
                        attempts += 1;
                        let m = tx.get(table, key![3])?.ok_or(Error::Closed)?.int("m")?;
                        if attempts == 1 {
                            has_read.send(()).expect("heard");
                            going.lock().expect("no panic").recv().expect("reported");
                        }
                        tx.update(table, key![5], &[("n", (100 + m).into())])
                    })
                });
                read.recv_timeout(FOR_EVER).expect("it has read");
                db.unsplit(table, key![3], "n").expect("a label");
                db.split(table, key![3], "m", SplitOperation::ADD).expect("a label");
                wait_until_split(db, "m");
                let before = db.run(|tx| {
                    let n = tx.get(table, key![5])?.ok_or(Error::Closed)?.int("n")?;
                    tx.add(table, key![3], "m", 1)?;
                    Ok(n)
                });
                go.send(()).expect("heard");
                reader.join().expect("no panic").expect("committed");
                assert_eq!(before, Ok(0), "so it came before the reader's write");
                assert_eq!(value_of(db, table, 5, "n"), 101, "so the reader came after its addition");
            });
        });
    });
}

/// A call of a caller's own worker turns out to need the joined phase when the database has been closed in the meantime:
/// the caller learns it.
#[test]
fn a_call_that_is_stashed_when_the_database_has_been_closed_is_answered() {
    ends(|| {
        let db = in_memory(ProtocolKind::Phased, 20.0);
        let table = counters(&db);
        let (has_read, read) = mpsc::channel();
        let (go, going) = mpsc::channel::<()>();
        let ends_of_channels = Mutex::new(Some((has_read, going)));
        let look = db
            .register(ProcedureDefinition::new("look").parameter("id", DataType::Int64).phase([
                Action::read(&table).key(|args, key| key.push(args.int(0)?)).body(move |action| {
                    let row = action.get()?.ok_or(Error::Closed)?;
                    // It waits only where the column is hidden from it.
                    let looked = row.int("n");
                    if looked.is_err()
                        && let Some((has_read, going)) = ends_of_channels.lock().expect("no panic").take()
                    {
                        has_read.send(()).expect("heard");
                        going.recv().expect("reported");
                    }
                    looked.map(drop)
                }),
            ]))
            .expect("a procedure");
        while_others_work(&db, &table, || {
            db.split(&table, key![3], "n", SplitOperation::ADD).expect("a label");
            wait_until_split(&db, "n");
        });
        let other = db.clone();
        thread::scope(|scope| {
            let called = scope.spawn(|| {
                let mut worker = db.worker().expect("a worker");
                loop {
                    let executed = worker.execute(&look, args![3]);
                    let was_stashed = executed.is_stashed();
                    let result = executed.wait();
                    if was_stashed || result.is_err() {
                        return result;
                    }
                    // It came in a joined phase: another one will be split.
                    db.run(|tx| tx.add(&table, key![9], "n", 1)).expect("an addition");
                }
            });
            read.recv_timeout(FOR_EVER).expect("it has met a hidden column");
            other.close().expect("closed");
            go.send(()).expect("heard");
            assert_eq!(called.join().expect("no panic"), Err(Error::Closed));
        });
    });
}

/// A check looks at all tables and indexes as they are at one moment, whatever is written meanwhile.
#[test]
fn a_check_beside_writers_finds_nothing_wrong() -> Result<()> {
    for &protocol in ProtocolKind::ALL {
        let db = in_memory(protocol, 5.0);
        let definition = TableDefinition::new("person")
            .column("id", DataType::Int64)
            .column("place", DataType::Int64)
            .primary_key(["id"])
            .index("by_place", ["place"]);
        let table = db.create_table(definition)?;
        db.run(|tx| (0..200).try_for_each(|id| tx.insert(&table, row![id, id])))?;
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            for number in 0..2 {
                let (db, table, stop) = (&db, &table, &stop);
                scope.spawn(move || {
                    let mut place = 1_000;
                    while !stop.load(Ordering::Relaxed) {
                        for id in (number..200).step_by(2) {
                            place += 1;
                            db.run(|tx| tx.update(table, key![id], &[("place", place.into())]))
                                .expect("moved");
                        }
                    }
                });
            }
            let checks: Vec<_> = (0..100).map(|_| db.check().map(|report| report.rows)).collect();
            stop.store(true, Ordering::Relaxed);
            for check in checks {
                assert!(check.is_ok(), "{protocol}: {check:?}");
            }
        });
    }
    Ok(())
}
