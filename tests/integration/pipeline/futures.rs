//! Submitted calls as futures, and handles that are dropped.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use heddledb::{Error, Options, Value, args};

use super::{echo, gated};
use crate::support::concurrent::{Gate, accounts, balance, deposit, in_memory, watched};

/// Wakes a thread, and counts.
struct Alarm {
    thread: thread::Thread,
    rung: AtomicUsize,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.rung.fetch_add(1, Ordering::SeqCst);
        self.thread.unpark();
    }
}

fn alarm() -> Arc<Alarm> {
    Arc::new(Alarm { thread: thread::current(), rung: AtomicUsize::new(0) })
}

fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(alarm());
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn a_submitted_call_is_a_future() {
    watched(|| {
        let db = in_memory(Options::default());
        let table = accounts(&db, 2);
        let (gate, echo) = (Arc::new(Gate::default()), echo(&db, &table));
        let gated = gated(&db, &table, &gate);
        let mut waiting = pin!(db.submit(&gated, args![1]).expect("room"));
        let (forgotten, kept) = (alarm(), alarm());
        for alarm in [&forgotten, &kept] {
            let waker = Waker::from(alarm.clone());
            assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        gate.open();
        block_on(waiting).expect("a result");
        assert_eq!(forgotten.rung.load(Ordering::SeqCst), 0, "only the last waker is woken");
        let sum = async {
            let mut sum = 0;
            for n in 0..20_i64 {
                let output = db.submit(&echo, args![n])?.await?;
                sum += i64::from(output.rows == [[Value::Int(n)]]);
            }
            Ok::<_, Error>(sum)
        };
        assert_eq!(block_on(sum), Ok(20));
        assert_eq!(balance(&db, &table, 1), Some(101));
    });
}

#[test]
fn dropping_a_handle_does_not_cancel_the_call() {
    watched(|| {
        let db = in_memory(Options::default().queues(|queues| queues.max_in_flight(4)));
        let table = accounts(&db, 1);
        let deposit = deposit(&db, &table);
        for _ in 0..100 {
            drop(db.submit(&deposit, args![0, 1]).expect("room"));
        }
        db.clone().close().expect("closed");
        let after = db.statistics();
        assert!(after.committed >= 100, "{} calls committed", after.committed);
    });
}
