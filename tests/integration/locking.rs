//! Two-phase locking, seen from outside: which transaction waits for which, which one aborts, what is counted.

mod deadlocks;
mod ranges;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use crate::support::concurrent::{accounts, audit, balance, deposit, in_memory, total, transfer, watched};
use heddledb::{
    Action, DataType, Database, Error, LockConflict, LockingOptions, Options, ProcedureDefinition,
    ProtocolKind, Range, Result, Table, Tx, args, fail, key, row,
};

/// Time for which a transaction that must block is observed: a test that passes does not depend on it.
const A_WHILE: Duration = Duration::from_millis(40);

fn options() -> Options {
    Options::default().protocol(ProtocolKind::Locking).workers(2)
}

fn database() -> Database {
    in_memory(options())
}

/// A transaction in its first attempt, which holds its locks until the test lets it end.
struct Holder<'s> {
    go: Sender<()>,
    thread: ScopedJoinHandle<'s, Result<()>>,
}

impl<'s> Holder<'s> {
    /// Runs the work, and comes back when it is done and its locks are held.
    fn start<'e>(
        scope: &'s thread::Scope<'s, 'e>,
        db: &'s Database,
        work: impl Fn(&Tx<'_, '_>) -> Result<()> + Send + 's,
    ) -> Holder<'s> {
        let (go, wait) = channel();
        let (done, begun) = channel();
        let thread = scope.spawn(move || {
            db.run(|tx| {
                work(tx)?;
                let _ = done.send(());
                let _ = wait.recv();
                Ok(())
            })
        });
        begun.recv().expect("it holds its locks");
        Holder { go, thread }
    }

    fn finish(self) {
        self.go.send(()).expect("it waits");
        self.thread.join().expect("it ends").expect("it commits");
    }
}

/// A transaction that is expected to be blocked.
struct Blocked<'s, T> {
    done: Receiver<()>,
    thread: ScopedJoinHandle<'s, Result<T>>,
}

impl<'s, T: Send + 's> Blocked<'s, T> {
    fn start<'e>(
        scope: &'s thread::Scope<'s, 'e>,
        db: &'s Database,
        work: impl FnMut(&Tx<'_, '_>) -> Result<T> + Send + 's,
    ) -> Blocked<'s, T> {
        let (tell, done) = channel();
        let thread = scope.spawn(move || {
            let result = db.run(work);
            let _ = tell.send(());
            result
        });
        let blocked = Blocked { done, thread };
        assert!(blocked.done.recv_timeout(A_WHILE).is_err(), "it should be blocked");
        blocked
    }

    fn is_blocked(&self) -> bool {
        self.done.try_recv().is_err()
    }

    fn result(self) -> T {
        self.thread.join().expect("it ends").expect("it commits")
    }
}

fn add(tx: &Tx<'_, '_>, table: &Table, id: i64, amount: i64) -> Result<()> {
    tx.add(table, key![id], "balance", amount)
}

fn read(tx: &Tx<'_, '_>, table: &Table, id: i64) -> Result<Option<i64>> {
    tx.get(table, key![id])?.map(|row| row.int("balance")).transpose()
}

fn count(tx: &Tx<'_, '_>, table: &Table, range: Range) -> Result<usize> {
    tx.scan(table, range)?.try_fold(0, |count, row| row.map(|_| count + 1))
}

/// A procedure that reads a row and then writes it.
fn raise(db: &Database, table: &Table) -> heddledb::Procedure {
    let definition =
        ProcedureDefinition::new("raise").parameter("id", DataType::Int64).phase([Action::write(table)
            .key(|args, key| key.push(args.int(0)?))
            .body(|action| {
                let before = action.get()?.ok_or_else(|| fail("no account"))?.int("balance")?;
                action.update(&[("balance", (before + 1).into())])
            })]);
    db.register(definition).expect("a procedure")
}

#[test]
fn a_sleeping_lock_holder_blocks_its_rivals_only() {
    watched(|| {
        let db = database();
        let table = accounts(&db, 4);
        thread::scope(|scope| {
            let db = &db;
            let holder = Holder::start(scope, db, |tx| add(tx, &table, 0, 1));
            let writer = Blocked::start(scope, db, |tx| add(tx, &table, 0, 1));
            let reader = Blocked::start(scope, db, |tx| read(tx, &table, 0));
            // Others are served meanwhile, by closure and by worker.
            assert_eq!(balance(db, &table, 1), Some(100));
            db.call(&deposit(db, &table), args![2, 5]).expect("a deposit");
            db.run(|tx| tx.insert(&table, row![9, 100])).expect("an insert");
            assert!(writer.is_blocked() && reader.is_blocked());
            holder.finish();
            writer.result();
            // First come, first served.
            assert_eq!(reader.result(), Some(102));
        });
        assert_eq!(db.statistics().aborted, 0);
    });
}

#[test]
fn readers_of_one_record_do_not_wait_for_each_other() {
    watched(|| {
        let db = database();
        let table = accounts(&db, 1);
        thread::scope(|scope| {
            let holder = Holder::start(scope, &db, |tx| read(tx, &table, 0).map(drop));
            assert_eq!(balance(&db, &table, 0), Some(100));
            let writer = Blocked::start(scope, &db, |tx| add(tx, &table, 0, 1));
            holder.finish();
            writer.result();
        });
    });
}

#[test]
fn without_waiting_a_rival_gives_up_at_once_and_runs_again() {
    watched(|| {
        let db = in_memory(options().protocol(LockingOptions::default().conflict(LockConflict::NoWait)));
        let table = accounts(&db, 2);
        thread::scope(|scope| {
            let holder = Holder::start(scope, &db, |tx| add(tx, &table, 0, 1));
            let rival = Blocked::start(scope, &db, |tx| add(tx, &table, 0, 1));
            holder.finish();
            rival.result();
        });
        assert!(db.statistics().aborted >= 1);
        assert_eq!(balance(&db, &table, 0), Some(102));
        // A transaction that has failed that often waits: so it is not retried for as long as another one sleeps.
        assert!(db.statistics().aborted <= 32, "{:?}", db.statistics());
    });
}

#[test]
fn a_body_that_makes_light_of_a_denied_lock_is_run_again_all_the_same() {
    watched(|| {
        let db = in_memory(options().protocol(LockingOptions::default().conflict(LockConflict::NoWait)));
        let table = accounts(&db, 3);
        let (swallowed, renamed, panicked) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
        let count = |counter: &AtomicU32, failed| counter.fetch_add(u32::from(failed), Ordering::SeqCst);
        thread::scope(|scope| {
            let (db, table) = (&db, &table);
            let holder = Holder::start(scope, db, |tx| add(tx, table, 0, 1));
            let swallows = Blocked::start(scope, db, |tx| {
                let denied = add(tx, table, 0, 10).is_err();
                count(&swallowed, denied);
                // Nothing can be had any more.
                assert_eq!(read(tx, table, 1).is_err(), denied);
                Ok(())
            });
            let renames = Blocked::start(scope, db, |tx| {
                add(tx, table, 0, 100).map_err(|_| {
                    count(&renamed, true);
                    fail("it read a wrong value")
                })
            });
            let panics = Blocked::start(scope, db, |tx| {
                let done = add(tx, table, 0, 1000);
                count(&panicked, done.is_err());
                assert!(done.is_ok(), "it read a wrong value");
                Ok(())
            });
            holder.finish();
            swallows.result();
            renames.result();
            panics.result();
        });
        assert!([swallowed, renamed, panicked].iter().all(|one| one.load(Ordering::SeqCst) > 0));
        assert_eq!(balance(&db, &table, 0), Some(1211));
    });
}

#[test]
fn an_error_and_a_panic_give_everything_up() {
    watched(|| {
        let db = database();
        let table = accounts(&db, 3);
        let failed = db.run(|tx| add(tx, &table, 0, 1).and_then(|()| Err::<(), _>(fail("its own"))));
        assert!(matches!(failed, Err(Error::Failed { .. })));
        let panicked = db.run(|tx| -> Result<()> {
            add(tx, &table, 0, 1)?;
            count(tx, &table, Range::all())?;
            tx.insert(&table, row![5, 1])?;
            std::panic::resume_unwind(Box::new("on purpose"))
        });
        assert!(matches!(panicked, Err(Error::Panicked { .. })));
        // From another thread, which would wait forever.
        thread::scope(|scope| {
            let other = scope.spawn(|| {
                db.run(|tx| {
                    add(tx, &table, 0, 5)?;
                    tx.insert(&table, row![5, 1])
                })
            });
            other.join().expect("it ends").expect("nothing is held");
        });
        assert_eq!((balance(&db, &table, 0), total(&db, &table)), (Some(105), 306));
    });
}

#[test]
fn a_savepoint_takes_back_writes_and_no_locks() {
    watched(|| {
        let db = database();
        let table = accounts(&db, 2);
        thread::scope(|scope| {
            let holder = Holder::start(scope, &db, |tx| {
                let savepoint = tx.savepoint();
                add(tx, &table, 0, 1)?;
                tx.rollback_to(&savepoint);
                Ok(())
            });
            let writer = Blocked::start(scope, &db, |tx| add(tx, &table, 0, 10));
            holder.finish();
            writer.result();
        });
        assert_eq!(balance(&db, &table, 0), Some(110));
    });
}

#[test]
fn locks_taken_are_counted_exactly() {
    let db = database();
    let table = accounts(&db, 10);
    let (raise, deposit, transfer, audit) =
        (raise(&db, &table), deposit(&db, &table), transfer(&db, &table), audit(&db, &table));
    let taken = |work: &dyn Fn()| {
        let before = db.statistics();
        (0..100).for_each(|_| work());
        let taken = db.statistics() - before;
        (taken.committed, taken.locks_row, taken.locks_higher)
    };
    let call = |procedure, args: heddledb::Args| db.call(procedure, args).map(drop).expect("a call");
    // The record; its table and the database.
    assert_eq!(taken(&|| call(&raise, args![1])), (100, 100, 200));
    assert_eq!(taken(&|| call(&deposit, args![1, 1])), (100, 100, 200));
    // What is above two records of one table is taken once.
    assert_eq!(taken(&|| call(&transfer, args![1, 2, 1])), (100, 200, 200));
    // A range and the ten records in it.
    assert_eq!(taken(&|| call(&audit, args![])), (100, 1100, 200));
    // A closure declares nothing: what it reads first and then writes is made stronger, on every level.
    let run = |body: &dyn Fn(&Tx<'_, '_>) -> Result<()>| db.run(|tx| body(tx)).expect("a transaction");
    let read_then_write = |tx: &Tx<'_, '_>| read(tx, &table, 1).and_then(|_| add(tx, &table, 1, 1));
    assert_eq!(taken(&|| run(&read_then_write)), (100, 200, 400));
    assert_eq!(
        taken(&|| run(&|tx| read(tx, &table, 1).and_then(|_| read(tx, &table, 1)).map(drop))),
        (100, 100, 200)
    );
    // A record that comes in is locked at its point too.
    let come_and_go = |tx: &Tx<'_, '_>| {
        tx.insert(&table, row![50, 1])?;
        tx.delete(&table, key![50]).map(drop)
    };
    assert_eq!(taken(&|| run(&come_and_go)), (100, 200, 200));
    assert_eq!(taken(&|| run(&|_| Ok(()))), (100, 0, 0));
}

#[test]
fn other_protocols_lock_no_record_that_is_there() {
    for protocol in ProtocolKind::ALL.iter().filter(|kind| **kind != ProtocolKind::Locking) {
        let db = in_memory(Options::default().protocol(*protocol));
        let table = accounts(&db, 3);
        // Rows that came in may have been reserved, those of the catalog too.
        let before = db.statistics();
        assert_eq!(before.locks_higher, 0);
        assert_eq!(total(&db, &table), 300);
        let taken = db.statistics() - before;
        assert_eq!((taken.locks_row, taken.locks_higher), (0, 0));
    }
}

/// Tests that the locks of a group's call are free when it has ended, not when its group has.
#[test]
fn locks_are_given_up_at_the_end_of_each_call_of_a_group() {
    watched(|| {
        let db = database();
        let table = accounts(&db, 3);
        let deposit = deposit(&db, &table);
        let (begun, has_begun) = channel();
        let (go, may_go) = channel::<()>();
        let may_go = parking_lot::Mutex::new(may_go);
        let pause = ProcedureDefinition::new("pause").phase([Action::read(&table)
            .key(|_, key| key.push(2))
            .body(move |action| {
                action.get()?;
                let _ = begun.send(());
                let _ = may_go.lock().recv();
                Ok(())
            })]);
        let pause = db.register(pause).expect("a procedure");
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut worker = db.worker().expect("a free context");
                let mut done = Vec::new();
                worker.execute_group(&[deposit.clone(), pause], &[(0, args![0, 1]), (1, args![])], &mut done);
                done.into_iter().for_each(|one| drop(one.wait().expect("it commits")));
            });
            has_begun.recv().expect("the second call runs");
            assert_eq!(balance(&db, &table, 0), Some(101));
            let rival = Blocked::start(scope, &db, |tx| add(tx, &table, 2, 1));
            go.send(()).expect("it waits");
            rival.result();
        });
    });
}

#[test]
fn whether_a_row_exists_conflicts_with_its_delete_and_its_insert_only() {
    watched(|| {
        let db = database();
        let table = accounts(&db, 3);
        thread::scope(|scope| {
            let holder = Holder::start(scope, &db, |tx| tx.exists(&table, key![0]).map(drop));
            db.run(|tx| add(tx, &table, 0, 1)).expect("it does not wait");
            let rival = Blocked::start(scope, &db, |tx| tx.delete(&table, key![0]));
            holder.finish();
            assert!(rival.result());
            let holder = Holder::start(scope, &db, |tx| tx.exists(&table, key![0]).map(drop));
            let rival = Blocked::start(scope, &db, |tx| tx.insert(&table, row![0, 1]));
            holder.finish();
            rival.result();
            let holder = Holder::start(scope, &db, |tx| add(tx, &table, 1, 1));
            assert!(db.run(|tx| tx.exists(&table, key![1])).expect("it does not wait"));
            let rival = Blocked::start(scope, &db, |tx| tx.get(&table, key![1]).map(|row| row.is_some()));
            holder.finish();
            assert!(rival.result());
        });
    });
}

#[test]
fn with_all_seats_taken_by_who_waits_the_holder_ends_nevertheless() {
    watched(|| {
        let db = in_memory(options().workers(1).threads(|threads| threads.max_worker_contexts(4)));
        let table = accounts(&db, 1);
        thread::scope(|scope| {
            let holder = Holder::start(scope, &db, |tx| add(tx, &table, 0, 1));
            for _ in 0..12 {
                scope.spawn(|| db.run(|tx| add(tx, &table, 0, 1)).expect("it commits"));
            }
            thread::sleep(A_WHILE);
            holder.finish();
        });
        assert_eq!(balance(&db, &table, 0), Some(113));
    });
}

#[test]
fn a_thread_may_call_several_databases_in_turn() {
    watched(|| {
        let databases = [database(), database()];
        let tables: Vec<_> = databases.iter().map(|db| accounts(db, 2)).collect();
        thread::scope(|scope| {
            let holder = Holder::start(scope, &databases[0], |tx| add(tx, &tables[0], 0, 1));
            for round in 0..10 {
                let number = round % 2;
                databases[number].run(|tx| add(tx, &tables[number], 1, 1)).expect("it commits");
                assert_eq!(balance(&databases[1], &tables[1], 0), Some(100));
            }
            let rival = Blocked::start(scope, &databases[0], |tx| add(tx, &tables[0], 0, 1));
            holder.finish();
            rival.result();
        });
        for (db, table) in databases.iter().zip(&tables) {
            assert_eq!(balance(db, table, 1), Some(105));
        }
    });
}
