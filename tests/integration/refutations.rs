//! Tests that were written to refute what the engine claims, each by one interleaving or one order of steps. What
//! they found is mended; they stay, so that it stays so.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use heddledb::testing::simulated_disk::SimulatedDisk;
use heddledb::{
    Action, ActionContext, DataType, Database, Durability, Error, Options, PrimaryIndex, Procedure,
    ProcedureDefinition, ProtocolKind, Range, Result, SerialOptions, Stages, Table, TableDefinition, Value,
    ValueRef, args, fail, key, row,
};

/// A time after which anything unfinished never ends: it is far more than any test here takes.
const FOR_EVER: Duration = Duration::from_secs(300);

fn in_memory() -> Database {
    Database::in_memory_with(Options::default().durability(Durability::None)).expect("a database")
}

fn on_disk(disk: &SimulatedDisk) -> Options {
    Options::default()
        .disk(Arc::new(disk.clone()))
        .log(|log| log.segment_bytes(64 << 10).buffer_bytes(16 << 10))
}

fn counters(db: &Database) -> Table {
    let definition = TableDefinition::new("counter")
        .column("id", DataType::Int64)
        .column("n", DataType::Int32)
        .not_null()
        .column("text", DataType::Text)
        .primary_key(["id"]);
    db.create_table(definition).expect("a table")
}

fn writing(
    db: &Database,
    table: &Table,
    name: &str,
    body: impl Fn(&ActionContext<'_, '_>) -> Result<()> + Send + Sync + 'static,
) -> Procedure {
    db.register(
        ProcedureDefinition::new(name)
            .parameter("id", DataType::Int64)
            .phase([Action::write(table).key(|args, key| key.push(args.int(0)?)).body(body)]),
    )
    .expect("a procedure")
}

fn inserting(db: &Database, table: &Table) -> Procedure {
    writing(db, table, "insert", |action| action.insert(row![action.args().int(0)?, 0, ValueRef::Null]))
}

fn deleting(db: &Database, table: &Table) -> Procedure {
    writing(db, table, "delete", |action| action.delete().map(|_| ()))
}

fn counting(db: &Database, table: &Table) -> Procedure {
    writing(db, table, "count", |action| action.add("n", 1))
}

fn n_of(db: &Database, table: &Table, id: i64) -> Option<i64> {
    db.run(|tx| tx.get(table, key![id])?.map(|row| row.int("n")).transpose()).expect("a read")
}

/// Runs `body` on a thread of its own, and fails if it does not end.
fn ends<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, ended) = mpsc::channel();
    thread::spawn(move || {
        let _ = done.send(body());
    });
    ended.recv_timeout(FOR_EVER).expect("it ends, and without a panic")
}

/// Inserts 80 rows and deletes the first 64 of them, by one worker; when it returns, all that is durable, and the
/// worker's next call takes the deleted records out of the table.
fn delete_many(disk: &SimulatedDisk, db: &Database, table: &Table, worker: &mut heddledb::Worker<'_>) {
    let (insert, delete) = (inserting(db, table), deleting(db, table));
    for id in 0..80 {
        worker.execute(&insert, args![id]).wait().expect("inserted");
    }
    // While nothing becomes durable, nothing is taken out.
    disk.hold_syncs();
    let deleted: Vec<_> = (0..64).map(|id| worker.execute(&delete, args![id])).collect();
    disk.release_syncs();
    for executed in deleted {
        executed.wait().expect("deleted");
    }
}

/// A record that was found before a group's calls ran leaves the table, and its key comes in again with another
/// record, before the call that found the first one runs.
#[test]
fn a_call_whose_record_was_replaced_since_it_was_found_works_on_the_new_one() {
    ends(|| {
        let disk = SimulatedDisk::new();
        let db = Database::open("db", on_disk(&disk)).expect("a database");
        let table = counters(&db);
        let mut worker = db.worker().expect("a worker");
        delete_many(&disk, &db, &table, &mut worker);
        let (insert, count) = (inserting(&db, &table), counting(&db, &table));
        let calls = [(0, args![70]), (1, args![5]), (0, args![5])];
        let mut done = Vec::new();
        worker.execute_group(&[count, insert], &calls, &mut done);
        for executed in done {
            executed.wait().expect("it works");
        }
        assert_eq!(n_of(&db, &table, 5), Some(1));
    });
}

/// The deleted record that an insert is to fill is taken out of the table while the transaction still runs.
#[test]
fn a_transaction_never_loses_sight_of_its_own_insert() {
    ends(|| {
        let disk = SimulatedDisk::new();
        let db = Database::open("db", on_disk(&disk)).expect("a database");
        let table = counters(&db);
        let read = db
            .register(ProcedureDefinition::new("read").phase([Action::read(&table).body(|_| Ok(()))]))
            .expect("a procedure");
        let (ready, is_ready) = mpsc::channel();
        let (collect, asked) = mpsc::channel::<()>();
        let (collected, is_collected) = mpsc::channel();
        thread::scope(|scope| {
            let (db, table, disk, read) = (&db, &table, &disk, &read);
            scope.spawn(move || {
                let mut worker = db.worker().expect("a worker");
                delete_many(disk, db, table, &mut worker);
                ready.send(()).expect("heard");
                asked.recv().expect("asked");
                worker.execute(read, args![]).wait().expect("read");
                collected.send(()).expect("heard");
            });
            is_ready.recv().expect("ready");
            let mut attempts = 0;
            let ran = db.run(|tx| {
                attempts += 1;
                tx.insert(table, row![5, 7, ValueRef::Null])?;
                if attempts == 1 {
                    collect.send(()).expect("heard");
                    is_collected.recv().expect("collected");
                }
                let Some(row) = tx.get(table, key![5])? else { return Err(fail("the row is gone")) };
                row.int("n")
            });
            assert_eq!(ran, Ok(7));
        });
    });
}

/// Worker contexts that keep what they have reserved must not keep others from ever getting any.
#[test]
fn idle_workers_do_not_hold_all_room_in_the_log() {
    ends(|| {
        let disk = SimulatedDisk::new();
        let db =
            Database::open("db", on_disk(&disk).log(|log| log.buffer_bytes(4 << 10))).expect("a database");
        let table = counters(&db);
        let insert = inserting(&db, &table);
        let mut workers: Vec<_> = (0..8).map(|_| db.worker().expect("a worker")).collect();
        for (id, worker) in workers.iter_mut().enumerate() {
            worker.execute(&insert, args![id as i64]).wait().expect("inserted");
        }
        let text = "x".repeat(1_800);
        db.run(|tx| tx.insert(&table, row![100, 0, text.as_str()])).expect("room for a row");
    });
}

/// Tests the same, if the room was reserved by calls that failed afterwards.
#[test]
fn room_reserved_by_calls_that_fail_is_given_back() {
    ends(|| {
        let disk = SimulatedDisk::new();
        let db =
            Database::open("db", on_disk(&disk).log(|log| log.buffer_bytes(4 << 10))).expect("a database");
        let table = counters(&db);
        let tries = Arc::new(AtomicBool::new(false));
        let again = tries.clone();
        let once = writing(&db, &table, "fails the second time", move |action| {
            if again.swap(true, Ordering::SeqCst) {
                return Err(fail("no"));
            }
            action.insert(row![action.args().int(0)?, 0, "x".repeat(2_000).as_str()])
        });
        let mut workers: Vec<_> = (0..8).map(|_| db.worker().expect("a worker")).collect();
        for (id, worker) in workers.iter_mut().enumerate() {
            tries.store(false, Ordering::SeqCst);
            assert!(worker.execute(&once, args![id as i64]).wait().is_err());
        }
        let text = "x".repeat(1_800);
        db.run(|tx| tx.insert(&table, row![100, 0, text.as_str()])).expect("room for a row");
    });
}

/// Between the body of a closure and its commit another transaction changes what it read; what its writes come to
/// then is no result. Rounds are run until one shows it: the closure has read 0, its addition would overflow 5, and it was retried.
#[test]
fn an_error_at_commit_is_reported_only_if_what_was_read_still_holds() {
    for options in [Options::default(), Options::default().protocol(SerialOptions::default())] {
        ends(move || {
            let db = Database::in_memory_with(options.durability(Durability::None)).expect("a database");
            let table = counters(&db);
            let set = writing(&db, &table, "set", |action| action.update(&[("n", 5.into())]));
            let shows = |pause: Duration| {
                db.run(|tx| {
                    tx.delete(&table, key![1]).and_then(|_| tx.insert(&table, row![1, 0, ValueRef::Null]))
                })
                .expect("reset");
                let (go, gone) = mpsc::channel();
                let mut read = Vec::new();
                thread::scope(|scope| {
                    let (db, set) = (&db, &set);
                    scope.spawn(move || {
                        gone.recv().expect("a signal to go");
                        db.worker().expect("a worker").execute(set, args![1]).wait().expect("set");
                    });
                    let ran = db.run(|tx| {
                        let n = tx.get(&table, key![1])?.map_or(Ok(0), |row| row.int("n"))?;
                        read.push(n);
                        if read.len() == 1 {
                            go.send(()).expect("heard");
                            // So that it has set the value by now, or waits for the partition.
                            thread::sleep(pause);
                        }
                        if n == 0 { tx.add(&table, key![1], "n", i64::from(i32::MAX)) } else { Ok(()) }
                    });
                    assert_eq!(ran, Ok(()));
                });
                read == [0, 5]
            };
            let mut pauses = (0..12).map(|doublings| Duration::from_millis(5 << doublings));
            assert!(pauses.any(shows), "no other transaction came between the body and its commit");
        });
    }
}

/// The functions that make keys are the caller's too.
#[test]
fn a_panic_while_a_key_is_made_fails_that_call_only() {
    for stages in [Stages::Folded, Stages::Staged] {
        ends(move || {
            let options =
                Options::default().durability(Durability::None).threads(|threads| threads.stages(stages));
            let db = Database::in_memory_with(options).expect("a database");
            let table = counters(&db);
            db.run(|tx| tx.insert(&table, row![1, 0, ValueRef::Null])).expect("inserted");
            let picky = db
                .register(
                    ProcedureDefinition::new("picky").parameter("id", DataType::Int64).phase([
                        Action::write(&table)
                            .key(|args, key| {
                                assert!(args.int(0)? != 0, "not zero");
                                key.push(args.int(0)?)
                            })
                            .body(|action| action.add("n", 1)),
                    ]),
                )
                .expect("a procedure");
            for _ in 0..3 {
                assert!(matches!(db.call(&picky, args![0]), Err(Error::Panicked { .. })), "{stages}");
            }
            let mut worker = db.worker().expect("a worker");
            let executed = worker.execute(&picky, args![0]);
            assert!(matches!(executed.wait(), Err(Error::Panicked { .. })));
            worker.execute(&picky, args![1]).wait().expect("counted");
            db.call(&picky, args![1]).expect("counted");
            assert_eq!(n_of(&db, &table, 1), Some(2));
        });
    }
}

/// The engine's own workers, as many as it chooses, leave a place for a caller.
#[test]
fn with_few_worker_contexts_a_caller_still_gets_in() {
    ends(|| {
        let options = Options::default()
            .durability(Durability::None)
            .protocol(SerialOptions::default().partitions(8))
            .threads(|threads| threads.max_worker_contexts(2));
        let db = Database::in_memory_with(options).expect("a database");
        let table = counters(&db);
        let insert = inserting(&db, &table);
        for id in 0..20 {
            db.call(&insert, args![id]).expect("inserted");
        }
        assert_eq!(n_of(&db, &table, 7), Some(0));
    });
}

/// Tests that the time is not the square of the number of writes, which would be hours.
#[test]
fn many_writes_to_one_row_in_one_transaction_take_time_in_proportion() {
    let db = in_memory();
    let table = counters(&db);
    db.run(|tx| tx.insert(&table, row![1, 0, ValueRef::Null])).expect("inserted");
    db.run(|tx| (0..300_000).try_for_each(|_| tx.add(&table, key![1], "n", 1))).expect("added");
    assert_eq!(n_of(&db, &table, 1), Some(300_000));
}

/// Tests the same for a closure that looks each key up before it inserts it.
#[test]
fn many_look_ups_and_inserts_in_one_closure_take_time_in_proportion() {
    let db = in_memory();
    let table = counters(&db);
    let inserted = db.run(|tx| {
        for id in 0..200_000 {
            if !tx.exists(&table, key![id])? {
                tx.insert(&table, row![id, 0, ValueRef::Null])?;
            }
        }
        Ok(())
    });
    assert_eq!(inserted, Ok(()));
    assert_eq!(n_of(&db, &table, 199_999), Some(0));
}

/// A savepoint taken after the point that was gone back to means nothing any more; whatever is done with it, rows
/// and index records stay together.
#[test]
fn going_back_to_a_void_savepoint_cuts_no_statement_in_two() {
    let db = in_memory();
    let definition = TableDefinition::new("person")
        .column("id", DataType::Int64)
        .column("name", DataType::Text)
        .column("age", DataType::Int64)
        .primary_key(["id"])
        .index("by name", ["name"]);
    let table = db.create_table(definition).expect("a table");
    db.run(|tx| tx.insert(&table, row![1, "Ada", 36])).expect("inserted");
    let ran = db.run(|tx| {
        let first = tx.savepoint();
        tx.update(&table, key![1], &[("age", 37.into())])?;
        let void = tx.savepoint();
        tx.rollback_to(&first);
        tx.insert(&table, row![2, "Konrad", 85])?;
        tx.rollback_to(&void);
        Ok(())
    });
    assert!(matches!(ran, Err(Error::UnknownSavepoint)), "{ran:?}");
    db.check().expect("rows and indexes agree");
}

/// The second of two that close waits as the first does.
#[test]
fn closing_a_closing_database_waits_for_its_end_too() {
    ends(|| {
        let disk = SimulatedDisk::new();
        let db = Database::open("db", on_disk(&disk)).expect("a database");
        let table = counters(&db);
        let insert = inserting(&db, &table);
        disk.hold_syncs();
        let submitted = db.submit(&insert, args![1]).expect("sent");
        disk.wait_for_held_syncs(1);
        let (done, ended) = mpsc::channel();
        let close = |db: Database| {
            let done = done.clone();
            thread::spawn(move || {
                let closed = db.close();
                let _ = done.send(());
                closed
            })
        };
        let (first, second) = (close(db.clone()), close(db));
        assert!(
            ended.recv_timeout(Duration::from_millis(200)).is_err(),
            "one of them says closed, and nothing is durable"
        );
        disk.release_syncs();
        assert_eq!(first.join().expect("no panic"), Ok(()));
        assert_eq!(second.join().expect("no panic"), Ok(()));
        submitted.wait().expect("durable");
    });
}

/// A procedure's body may own a handle, and a worker may be the last to have the procedure.
#[test]
fn a_database_whose_last_handle_goes_on_its_own_thread_closes() {
    ends(|| {
        let disk = SimulatedDisk::new();
        let db = Database::open("db", on_disk(&disk)).expect("a database");
        let table = counters(&db);
        let (started, has_started) = mpsc::channel();
        let (go, gone) = mpsc::channel::<()>();
        let gone = std::sync::Mutex::new(gone);
        let own = db.clone();
        let slow = writing(&db, &table, "slow", move |action| {
            let _ = &own;
            let _ = started.send(());
            let _ = gone.lock().map(|gone| gone.recv());
            action.insert(row![action.args().int(0)?, 3, ValueRef::Null])
        });
        let submitted = db.submit(&slow, args![1]).expect("sent");
        has_started.recv().expect("started");
        drop((slow, db, table));
        go.send(()).expect("heard");
        submitted.wait().expect("its outcome is known");
        let again = loop {
            match Database::open("db", on_disk(&disk)) {
                Ok(db) => break db,
                Err(Error::InUse { .. }) => thread::sleep(Duration::from_millis(5)),
                Err(error) => panic!("{error}"),
            }
        };
        let table = again.table("counter").expect("the table");
        assert_eq!(n_of(&again, &table, 1), Some(3));
    });
}

/// Many small groups take far more room on disk than the bytes that worker contexts have reserved: a caller with some left
/// is refused too, and does not wait for a disk that stays full.
#[test]
fn a_full_disk_refuses_those_who_have_room_reserved() {
    ends(|| {
        let disk = SimulatedDisk::new();
        let db =
            Database::open("db", on_disk(&disk).log(|log| log.buffer_bytes(1 << 20))).expect("a database");
        let table = counters(&db);
        let insert = inserting(&db, &table);
        let mut workers: Vec<_> = (0..16).map(|_| db.worker().expect("a worker")).collect();
        let mut ids = 0..;
        for worker in &mut workers {
            worker.execute(&insert, args![ids.next().unwrap_or(0)]).wait().expect("inserted");
        }
        disk.set_capacity(0);
        let mut refused = 0;
        while refused < workers.len() {
            refused = 0;
            for worker in &mut workers {
                let id = ids.next().unwrap_or(0);
                match worker.execute(&insert, args![id]).wait() {
                    Ok(_) => {}
                    Err(Error::NoLogSpace { .. } | Error::LogNotExtended { .. }) => refused += 1,
                    Err(error) => panic!("{error}"),
                }
            }
        }
        assert_eq!(n_of(&db, &table, 0), Some(0), "reads go on");
    });
}

/// A row that a call has found there, and that others have deleted and put in again since, is there by what they did:
/// the call learns of it only when that is durable. Else a crash would leave what no sequence of calls leads to.
#[test]
fn what_was_put_in_again_since_it_was_read_is_reported_when_that_is_durable() {
    for protocol in [ProtocolKind::Optimistic, ProtocolKind::Phased] {
        let disk = SimulatedDisk::new();
        let db = Database::open("db", on_disk(&disk).protocol(protocol)).expect("a database");
        let table = counters(&db);
        db.run(|tx| (1..3).try_for_each(|id| tx.insert(&table, row![id, 0, ValueRef::Null]))).expect("rows");
        let (looked, has_looked) = mpsc::channel();
        let (go, gone) = mpsc::channel::<()>();
        let (reported, answer) = mpsc::channel();
        let reader = {
            let (db, table) = (db.clone(), table.clone());
            thread::spawn(move || {
                let seen = db.run(|tx| {
                    let there = tx.exists(&table, key![1])?;
                    // Only the first attempt waits.
                    let _ = looked.send(());
                    let _ = gone.recv_timeout(FOR_EVER);
                    Ok((there, tx.get(&table, key![2])?.ok_or_else(|| fail("no row"))?.int("n")?))
                });
                let _ = reported.send(seen);
            })
        };
        has_looked.recv_timeout(FOR_EVER).expect("it has begun");
        db.run(|tx| {
            tx.delete(&table, key![1])?;
            tx.update(&table, key![2], &[("n", 7.into())])
        })
        .expect("durable");
        disk.hold_syncs();
        let before = db.statistics().committed;
        let again = {
            let (db, table) = (db.clone(), table.clone());
            thread::spawn(move || db.run(|tx| tx.insert(&table, row![1, 0, ValueRef::Null])))
        };
        // A sync that is held may be another one than the insert's.
        while db.statistics().committed == before {
            thread::yield_now();
        }
        disk.wait_for_held_syncs(1);
        drop(go);
        let early = answer.recv_timeout(Duration::from_millis(100));
        disk.release_syncs();
        assert_eq!(early, Err(mpsc::RecvTimeoutError::Timeout), "{protocol}: the insert is not durable");
        assert_eq!(answer.recv_timeout(FOR_EVER), Ok(Ok((true, 7))), "{protocol}");
        again.join().expect("no panic").expect("durable");
        reader.join().expect("no panic");
    }
}

/// Alone, a call that reads a range and fills it has no rival: not even in its own doing, which splits the nodes that it
/// has read.
#[test]
fn a_call_that_fills_the_range_that_it_has_read_commits_at_the_first_attempt() {
    for protocol in ProtocolKind::ALL {
        let options = Options::default().durability(Durability::None).protocol(*protocol);
        let db = Database::in_memory_with(options).expect("a database");
        let definition = TableDefinition::new("event")
            .column("id", DataType::Int64)
            .column("place", DataType::Int64)
            .primary_key(["id"])
            .primary_index(PrimaryIndex::Ordered)
            .index("by place", ["place"]);
        let table = db.create_table(definition).expect("a table");
        db.run(|tx| (0..100).try_for_each(|id| tx.insert(&table, row![id * 100, id]))).expect("rows");
        let events = table.clone();
        let fill =
            ProcedureDefinition::new("fill").parameter("step", DataType::Int64).phase([Action::write(
                &table,
            )
            .body(move |action| {
                let (tx, step) = (action.tx(), action.args().int(0)?);
                let before = tx.scan(&events, Range::all())?.count();
                let by_place = tx.scan_index(&events, "by place", Range::all())?.count();
                (0..1_000)
                    .try_for_each(|number| tx.insert(&events, row![10 * number + step, number % 77]))?;
                let after = tx.scan(&events, Range::all())?.count();
                action.return_row([before, by_place, after].map(|count| Value::Int(count as i64)).to_vec());
                Ok(())
            })]);
        let fill = db.register(fill).expect("a procedure");
        let mut worker = db.worker().expect("open");
        for step in 1..4 {
            let executed = worker.execute(&fill, args![step]);
            assert_eq!(executed.attempts(), 1, "{protocol}, {step}");
            let counts = executed.wait().expect("committed").rows;
            let before = 100 + 1_000 * (step - 1);
            assert_eq!(counts, [[before, before, before + 1_000].map(Value::Int)], "{protocol}");
        }
        drop(worker);
        db.check().expect("consistent");
    }
}
