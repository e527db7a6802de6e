//! Tests of the reasons for which attempts are retried: conflicts about rows that they would have written,
//! and about rows that they had only read.

use std::sync::mpsc;
use std::thread;

use heddledb::{
    Action, DataType, Database, Durability, LockConflict, LockingOptions, Options, PrimaryIndex,
    ProcedureDefinition, ProtocolKind, Range, Result, Statistics, Table, TableDefinition, Tx, args, key, row,
};

/// Protocols whose calls find at their ends that others have come first.
const VALIDATING: [ProtocolKind; 2] = [ProtocolKind::Optimistic, ProtocolKind::Phased];

fn database(options: Options) -> (Database, Table) {
    let db = Database::in_memory_with(options.durability(Durability::None)).expect("a database");
    let definition = TableDefinition::new("counter")
        .column("id", DataType::Int64)
        .column("n", DataType::Int64)
        .not_null()
        .primary_key(["id"])
        .primary_index(PrimaryIndex::Ordered);
    let table = db.create_table(definition).expect("a table");
    db.run(|tx| (0..3).try_for_each(|id| tx.insert(&table, row![10 * id, 0]))).expect("rows");
    (db, table)
}

fn validating(protocol: ProtocolKind) -> (Database, Table) {
    database(Options::default().protocol(protocol))
}

/// Runs a closure whose first attempt has a rival commit between its two halves; what was counted meanwhile.
fn with_rival(
    db: &Database,
    first: impl Fn(&Tx<'_, '_>) -> Result<()> + Send + Sync,
    rival: impl FnOnce() + Send,
    second: impl Fn(&Tx<'_, '_>) -> Result<()> + Send + Sync,
) -> Statistics {
    let before = db.statistics();
    let (begun, has_begun) = mpsc::channel();
    let (go, gone) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let call = scope.spawn(move || {
            db.run(|tx| {
                first(tx)?;
                let _ = begun.send(());
                // Once the sender has gone, later attempts do not wait.
                let _ = gone.recv();
                second(tx)
            })
        });
        has_begun.recv().expect("it has begun");
        rival();
        drop(go);
        call.join().expect("no panic").expect("committed in the end");
    });
    db.statistics() - before
}

fn add(db: &Database, table: &Table, id: i64) {
    db.run(|tx| tx.add(table, key![id], "n", 1)).expect("added");
}

fn read(tx: &Tx<'_, '_>, table: &Table, id: i64) -> Result<i64> {
    tx.get(table, key![id])?.map_or(Ok(0), |row| row.int("n"))
}

#[track_caller]
fn counts(statistics: &Statistics) -> (u64, u64) {
    assert_eq!(statistics.aborted, statistics.aborted_write + statistics.aborted_read);
    (statistics.aborted_write, statistics.aborted_read)
}

#[test]
fn a_record_that_was_only_read_and_has_changed_counts_as_read() {
    for protocol in VALIDATING {
        let (db, table) = validating(protocol);
        let met = with_rival(
            &db,
            |tx| read(tx, &table, 0).map(drop),
            || add(&db, &table, 0),
            |tx| tx.add(&table, key![10], "n", 1),
        );
        assert_eq!(counts(&met), (0, 1), "{protocol}");
    }
}

#[test]
fn a_reader_whose_records_change_counts_as_read() {
    for protocol in VALIDATING {
        let (db, table) = validating(protocol);
        let look = |id| {
            let table = &table;
            move |tx: &Tx<'_, '_>| read(tx, table, id).map(drop)
        };
        let met = with_rival(&db, look(0), || add(&db, &table, 0), look(10));
        assert_eq!(counts(&met), (0, 1), "{protocol}");
    }
}

#[test]
fn a_record_that_was_read_and_would_have_been_written_counts_as_write() {
    for protocol in VALIDATING {
        let (db, table) = validating(protocol);
        let met = with_rival(
            &db,
            |tx| {
                let n = read(tx, &table, 0)?;
                tx.update(&table, key![0], &[("n", (n + 10).into())])
            },
            || add(&db, &table, 0),
            |_| Ok(()),
        );
        assert_eq!(counts(&met), (1, 0), "{protocol}");
        assert_eq!(db.run(|tx| read(tx, &table, 0)), Ok(11), "{protocol}");
    }
}

#[test]
fn a_record_that_has_been_deleted_or_put_in_by_a_rival_counts_as_write() {
    for protocol in VALIDATING {
        let (db, table) = validating(protocol);
        let met = with_rival(
            &db,
            |tx| if tx.exists(&table, key![0])? { tx.add(&table, key![0], "n", 1) } else { Ok(()) },
            || db.run(|tx| tx.delete(&table, key![0]).map(drop)).expect("deleted"),
            |_| Ok(()),
        );
        assert_eq!(counts(&met), (1, 0), "{protocol}: a delete");
        let met = with_rival(
            &db,
            |tx| if tx.exists(&table, key![5])? { Ok(()) } else { tx.insert(&table, row![5, 1]) },
            || db.run(|tx| tx.insert(&table, row![5, 2])).expect("put in first"),
            |_| Ok(()),
        );
        assert_eq!(counts(&met), (1, 0), "{protocol}: an insert");
        assert_eq!(db.run(|tx| read(tx, &table, 5)), Ok(2), "{protocol}");
    }
}

#[test]
fn a_phantom_counts_as_read() {
    for protocol in VALIDATING {
        let (db, table) = validating(protocol);
        let met = with_rival(
            &db,
            |tx| tx.scan(&table, Range::all())?.try_for_each(|row| row.map(drop)),
            || db.run(|tx| tx.insert(&table, row![15, 0])).expect("put in"),
            |tx| tx.add(&table, key![10], "n", 1),
        );
        assert_eq!(counts(&met), (0, 1), "{protocol}");
    }
}

/// A rival holds a lock: a transaction that does not wait counts by what it wanted it for.
#[test]
fn a_denied_lock_counts_by_what_it_was_wanted_for() {
    let options = Options::default().protocol(LockingOptions::default().conflict(LockConflict::NoWait));
    let (db, table) = database(options);
    // A procedure that declares to write takes a lock for that when it reads.
    let bump =
        ProcedureDefinition::new("bump").parameter("id", DataType::Int64).phase([Action::write(&table)
            .key(|args, key| key.push(args.int(0)?))
            .body(|action| {
                let n = action.get()?.map_or(Ok(0), |row| row.int("n"))?;
                action.update(&[("n", (n + 1).into())])
            })]);
    let bump = db.register(bump).expect("registered");
    for (way, is_write) in [("add", true), ("bump", true), ("read", false)] {
        let (held, is_held) = mpsc::channel();
        let (go, gone) = mpsc::channel::<()>();
        let before = db.statistics();
        let (db, table) = (&db, &table);
        thread::scope(|scope| {
            let holder = scope.spawn(move || {
                db.run(|tx| {
                    tx.add(table, key![0], "n", 1)?;
                    let _ = held.send(());
                    let _ = gone.recv();
                    Ok(())
                })
            });
            is_held.recv().expect("it has its lock");
            let rival = scope.spawn(|| match way {
                "add" => db.run(|tx| tx.add(table, key![0], "n", 1)),
                "bump" => db.call(&bump, args![0]).map(drop),
                _ => db.run(|tx| read(tx, table, 0).map(drop)),
            });
            while (db.statistics() - before).aborted == 0 {
                thread::yield_now();
            }
            drop(go);
            holder.join().expect("no panic").expect("committed");
            rival.join().expect("no panic").expect("committed");
        });
        let (write, read) = counts(&(db.statistics() - before));
        assert!(if is_write { write > 0 && read == 0 } else { read > 0 && write == 0 }, "{way}");
    }
}

#[test]
fn a_transaction_without_rivals_counts_no_abort() {
    for protocol in ProtocolKind::ALL {
        let (db, table) = validating(*protocol);
        let before = db.statistics();
        for _ in 0..20 {
            add(&db, &table, 0);
            db.run(|tx| read(tx, &table, 0)).expect("read");
        }
        assert_eq!(counts(&(db.statistics() - before)), (0, 0), "{protocol}");
    }
}

/// Reads a counter and writes it, one more.
fn increase(tx: &Tx<'_, '_>, table: &Table, id: i64) -> Result<()> {
    let n = tx.get(table, key![id])?.map_or(Ok(0), |row| row.int("n"))?;
    tx.update(table, key![id], &[("n", (n + 1).into())])
}

/// Has a counter be one about which attempts have failed.
fn heat(db: &Database, table: &Table, id: i64) {
    for _ in 0..8 {
        with_rival(
            db,
            |tx| tx.get(table, key![id]).map(drop),
            || add(db, table, id),
            |tx| increase(tx, table, id),
        );
    }
}

fn hot(db: &Database) -> (u64, u64) {
    let rows = db.hot_records();
    (
        rows.iter().map(|row| row.predicted_reservations).sum(),
        rows.iter().map(|row| row.predicted_waits).sum(),
    )
}

/// A call that has read a hot row waits in the middle of its body, until a rival waits for the row, and ends.
#[test]
fn rivals_for_a_hot_row_queue_instead_of_being_retried() {
    for protocol in VALIDATING {
        let (db, table) = validating(protocol);
        heat(&db, &table, 10);
        let before = db.statistics();
        let waits = hot(&db).1;
        let attempts = std::sync::atomic::AtomicUsize::new(0);
        let call = |pauses: bool| {
            db.run(|tx| {
                attempts.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                tx.get(&table, key![10])?;
                while pauses && hot(&db).1 == waits {
                    thread::yield_now();
                }
                increase(tx, &table, 10)
            })
        };
        // Code that has written the row is expected to do it again.
        call(false).expect("nothing is in its way");
        call(false).expect("nothing is in its way");
        let reserved = hot(&db).0;
        thread::scope(|scope| {
            let first = scope.spawn(|| call(true));
            while hot(&db).0 == reserved {
                thread::yield_now();
            }
            scope.spawn(|| call(false)).join().expect("no panic").expect("committed");
            first.join().expect("no panic").expect("committed");
        });
        let counted = db.statistics() - before;
        assert_eq!(attempts.into_inner() as u64, counted.committed + counted.aborted, "{protocol}");
        assert!(db.hot_records()[0].is_predicted, "{protocol}");
        let n = db.run(|tx| tx.get(&table, key![10])?.map(|row| row.int("n")).transpose());
        assert_eq!(n, Ok(Some(16 + 4)), "{protocol}");
    }
}

/// Code that only reads a hot row does not reserve it.
#[test]
fn what_only_reads_a_hot_row_does_not_queue() {
    for protocol in VALIDATING {
        let (db, table) = validating(protocol);
        heat(&db, &table, 10);
        let (reserved, _) = hot(&db);
        for _ in 0..10 {
            db.run(|tx| tx.get(&table, key![10]).map(drop)).expect("read");
        }
        assert_eq!(hot(&db).0, reserved, "{protocol}");
    }
}
