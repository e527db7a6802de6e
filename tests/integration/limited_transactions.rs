//! Time limits, cancellation and reports of transactions; handles that print; transactions as futures.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use heddledb::{Cancellation, DataType, Database, Error, Result, Table, TableDefinition, Timeout, row, set};

fn counters() -> (Database, Table) {
    let db = Database::in_memory().expect("a database");
    let definition =
        TableDefinition::new("counter").column("id", DataType::Int64).column("n", DataType::Int64);
    let counters = db.create_table(definition.primary_key(["id"])).expect("a table");
    db.run(|tx| tx.insert(&counters, row![1, 0])).expect("inserted");
    (db, counters)
}

fn count(db: &Database, counters: &Table) -> i64 {
    db.run(|tx| tx.get(counters, 1)?.expect("a row").int("n")).expect("read")
}

#[test]
fn a_transaction_beyond_its_deadline_leaves_no_trace() {
    let (db, counters) = counters();
    let timed_out = Err(Error::TimedOut { what: Timeout::Transaction });
    let late = db.transaction().deadline(Instant::now());
    assert_eq!(late.run(|_| -> Result<()> { panic!("it does not begin") }), timed_out.clone());
    // It passes while the body runs: the commit does not begin.
    let soon = Instant::now() + Duration::from_millis(5);
    let ran = db.transaction().deadline(soon).run(|tx| {
        tx.add(&counters, 1, "n", 1)?;
        while Instant::now() < soon {
            std::hint::spin_loop();
        }
        Ok(())
    });
    assert_eq!(ran, timed_out);
    assert_eq!(count(&db, &counters), 0);
    assert_eq!(db.transaction().timeout(Duration::MAX).run(|tx| tx.add(&counters, 1, "n", 1)), Ok(()));
    assert_eq!(count(&db, &counters), 1);
}

#[test]
fn a_canceled_transaction_leaves_no_trace() {
    let (db, counters) = counters();
    let cancellation = Cancellation::new();
    let canceled: Result<()> = db.transaction().cancel_by(&cancellation).try_run(|tx| {
        tx.add(&counters, 1, "n", 1)?;
        std::thread::scope(|scope| {
            scope.spawn(|| cancellation.cancel());
        });
        Ok(())
    });
    assert_eq!(canceled, Err(Error::Canceled));
    assert!(cancellation.is_canceled());
    assert_eq!(count(&db, &counters), 0);
}

#[test]
fn a_report_counts_the_attempts() {
    let (db, counters) = counters();
    let (result, report) = db.transaction().run_reporting(|tx| {
        let n = tx.get(&counters, 1)?.expect("a row").int("n")?;
        if n == 0 {
            // A rival, which this attempt has not seen.
            std::thread::scope(|scope| {
                scope.spawn(|| db.run(|tx| tx.add(&counters, 1, "n", 10)).expect("added"));
            });
        }
        tx.update(&counters, 1, set! { n: n + 1 })
    });
    assert_eq!((result, report.attempts, report.retries()), (Ok(()), 2, 1));
    assert!(report.log_wait <= report.elapsed);
    assert_eq!(count(&db, &counters), 11);
    let (failed, report) = db.transaction().run_reporting(|_| Err::<(), _>(heddledb::fail("no")));
    assert_eq!((failed.is_err(), report.attempts), (true, 1));
}

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let (mut future, waker) = (pin!(future), Waker::from(Arc::new(Unpark(std::thread::current()))));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn a_transaction_is_a_future() -> Result<()> {
    let directory = tempfile::tempdir().expect("a directory");
    let db = Database::open(directory.path(), heddledb::Options::default())?;
    let definition =
        TableDefinition::new("counter").column("id", DataType::Int64).column("n", DataType::Int64);
    let counters = db.create_table(definition.primary_key(["id"]))?;
    block_on(db.run_async(|tx| tx.insert(&counters, row![1, 0])))?;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                (0..25)
                    .for_each(|_| block_on(db.run_async(|tx| tx.add(&counters, 1, "n", 1))).expect("added"));
            });
        }
    });
    assert_eq!(count(&db, &counters), 100);
    assert!(block_on(db.run_async(|_| Err::<(), _>(heddledb::fail("no")))).is_err());
    drop(counters);
    db.close()?;
    // The directory as it is: nothing can be written any more.
    let db = Database::open_read_only(directory.path())?;
    let counters = db.table("counter")?;
    assert_eq!(count(&db, &counters), 100);
    assert_eq!(db.run(|tx| tx.add(&counters, 1, "n", 1)), Err(Error::ReadOnly));
    Ok(())
}

#[test]
fn handles_print_what_they_are() -> Result<()> {
    let (db, counters) = counters();
    assert_eq!(format!("{db:?}"), r#"Database { log: None, tables: ["counter"] }"#);
    assert_eq!(format!("{counters:?}"), r#"Table("counter")"#);
    assert!(format!("{:?}", db.session()?).contains("Idle"));
    assert!(format!("{:?}", db.snapshot()?).contains("epoch"));
    db.run(|tx| {
        let shown = format!("{:?}", tx.get(&counters, 1)?);
        assert_eq!(shown, r#"Some({"id": Int(1), "n": Int(0)})"#);
        assert!(format!("{tx:?}").starts_with("Tx"));
        Ok(())
    })
}
