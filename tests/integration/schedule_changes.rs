//! Changes of the schedule while calls arrive and run: every call runs once, those that wait are placed once more, and a schedule that
//! learns begins to.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::support::concurrent::{
    Gate, accounts, deposit, in_memory, on_disk, open, small, total, transfer, watched,
};
use heddledb::{
    Action, DataType, Database, Error, Options, PredictOptions, Procedure, ProcedureDefinition, ProtocolKind,
    ScheduleKind, ScheduleOptions, Submitted, Table, args, key,
};

/// Two workers, and calls that are placed by `id` where the schedule is `partition`.
fn options(protocol: ProtocolKind, predict: PredictOptions) -> Options {
    let schedule = ScheduleOptions::from(ScheduleKind::Random).partition_key("id").predict(predict);
    small().protocol(protocol).schedule(schedule).workers(2)
}

fn at_once() -> PredictOptions {
    PredictOptions::default().history_seconds(0.0).memory_bytes(1 << 20)
}

/// Puts one schedule after the other in force, until the test says that it has ended.
fn change_until(db: &Database, has_ended: &AtomicBool) {
    let mut random = fastrand::Rng::with_seed(7);
    while !has_ended.load(Ordering::SeqCst) {
        let kind = ScheduleKind::ALL[random.usize(0..ScheduleKind::ALL.len())];
        db.set_schedule(kind).expect("a schedule that can be changed");
        assert_eq!(db.schedule_kind(), kind);
        thread::sleep(Duration::from_micros(random.u64(0..2_000)));
    }
}

#[test]
fn every_call_runs_once_while_schedules_change() {
    const CALLS: i64 = 1_500;
    watched(|| {
        for protocol in [ProtocolKind::Auto, ProtocolKind::Locking, ProtocolKind::Serial] {
            let options = options(protocol, at_once()).queues(|queues| queues.capacity(8));
            let (db, disk) = on_disk(options.clone());
            let table = accounts(&db, 8);
            let (add, pay) = (deposit(&db, &table), transfer(&db, &table));
            let has_ended = AtomicBool::new(false);
            thread::scope(|scope| {
                let changer = scope.spawn(|| change_until(&db, &has_ended));
                let callers = [0, 1].map(|caller| {
                    let (db, add, pay) = (&db, &add, &pay);
                    scope.spawn(move || {
                        let call = |number: i64| {
                            db.submit(add, args![(number + caller) % 8, 1]).expect("it is accepted")
                        };
                        let submitted: Vec<Submitted> = (0..CALLS).map(call).collect();
                        for number in 0..CALLS / 10 {
                            // It may fail below zero, without a trace.
                            let _ = db.call(pay, args![number % 8, (number + 1) % 8, 3]);
                        }
                        submitted.into_iter().for_each(|call| drop(call.wait().expect("a deposit")));
                    })
                });
                callers.into_iter().for_each(|caller| caller.join().expect("every call has ended"));
                has_ended.store(true, Ordering::SeqCst);
                changer.join().expect("every change was made");
            });
            assert_eq!(total(&db, &table), 8 * 100 + 2 * CALLS, "{protocol}");
            db.close().expect("it closes");
            let db = open(&disk, options);
            let table = db.table("account").expect("the table");
            assert_eq!(total(&db, &table), 8 * 100 + 2 * CALLS, "after recovery");
        }
    });
}

/// Calls that note the thread on which they run; the first two wait at gates of their own.
struct Traced {
    procedure: Procedure,
    gates: Arc<[Gate; 2]>,
    ran_on: Arc<Mutex<Vec<String>>>,
}

impl Traced {
    fn new(db: &Database, table: &Table) -> Traced {
        let (gates, ran_on) =
            (Arc::new([Gate::default(), Gate::default()]), Arc::<Mutex<Vec<String>>>::default());
        let body = {
            let (gates, ran_on) = (gates.clone(), ran_on.clone());
            move |action: &heddledb::ActionContext<'_, '_>| {
                match action.args().int(1)? {
                    gate @ 0..2 => gates[gate as usize].pass(),
                    _ => {
                        let name = thread::current().name().unwrap_or_default().to_string();
                        ran_on.lock().expect("no panic").push(name);
                    }
                }
                Ok(())
            }
        };
        let definition = ProcedureDefinition::new("traced")
            .parameter("id", DataType::Int64)
            .parameter("gate", DataType::Int64)
            .phase([Action::read(table).key(|args, key| key.push(args.int(0)?)).body(body)]);
        Traced { procedure: db.register(definition).expect("a procedure"), gates, ran_on }
    }

    fn submit(&self, db: &Database, id: i64, gate: i64) -> Submitted {
        db.submit(&self.procedure, args![id, gate]).expect("it is accepted")
    }
}

#[test]
fn calls_that_wait_are_placed_once_more() {
    watched(|| {
        let options =
            options(ProtocolKind::Optimistic, at_once()).queues(|queues| queues.work_stealing(false));
        let db = in_memory(options);
        let table = accounts(&db, 8);
        let traced = Traced::new(&db, &table);
        let mut submitted: Vec<Submitted> = (0..2).map(|gate| traced.submit(&db, 0, gate)).collect();
        traced.gates.iter().for_each(|gate| gate.wait_for_arrivals(1));
        submitted.extend((0..6).map(|_| traced.submit(&db, 7, 9)));
        db.set_schedule(ScheduleKind::Partition).expect("a change");
        traced.gates.iter().for_each(Gate::open);
        submitted.into_iter().for_each(|call| drop(call.wait().expect("it has run")));
        let ran_on = traced.ran_on.lock().expect("no panic");
        assert_eq!(ran_on.len(), 6);
        assert!(ran_on.iter().all(|name| *name == ran_on[0]), "calls of one key: {ran_on:?}");
    });
}

#[test]
fn a_worker_that_sleeps_takes_what_may_be_stolen_since_a_change() {
    watched(|| {
        let db = in_memory(options(ProtocolKind::Optimistic, at_once()));
        let table = accounts(&db, 8);
        let traced = Traced::new(&db, &table);
        db.set_schedule(ScheduleKind::Partition).expect("a change");
        // Both keys are of one queue; a call of the other one is not stolen while the schedule is `random`.
        let held = traced.submit(&db, 0, 0);
        traced.gates[0].wait_for_arrivals(1);
        db.set_schedule(ScheduleKind::Random).expect("a change");
        let calls: Vec<Submitted> = (0..4).map(|_| traced.submit(&db, 2, 9)).collect();
        db.set_schedule(ScheduleKind::Partition).expect("a change");
        // The other worker steals them, while the one of their queue is held.
        calls.into_iter().for_each(|call| drop(call.wait().expect("it has run")));
        traced.gates[0].open();
        held.wait().expect("it has run");
    });
}

#[test]
fn predict_learns_whenever_it_is_put_in_force() {
    watched(|| {
        let predict = PredictOptions::default().history_seconds(0.05).memory_bytes(1 << 20);
        let db = in_memory(options(ProtocolKind::Optimistic, predict));
        let table = accounts(&db, 8);
        let add = deposit(&db, &table);
        let is_filling = || db.schedule().map(|report| report.is_filling);
        assert_eq!(is_filling(), None);
        let mut calls = 0;
        for _ in 0..2 {
            db.set_schedule(ScheduleKind::Predict).expect("a change");
            assert_eq!(is_filling(), Some(true));
            while is_filling() == Some(true) {
                db.submit(&add, args![calls % 8, 1]).expect("it is accepted").wait().expect("a deposit");
                calls += 1;
            }
            db.set_schedule(ScheduleKind::Random).expect("a change");
        }
        assert_eq!(total(&db, &table), 800 + calls);
    });
}

#[test]
fn calls_of_sessions_and_closures_go_on_through_every_change() {
    watched(|| {
        let db = in_memory(options(ProtocolKind::Auto, at_once()));
        let table = accounts(&db, 1);
        let mut session = db.session().expect("a session");
        session.begin().expect("a transaction");
        session.run(|tx| tx.add(&table, key![0], "balance", 1)).expect("a write");
        let added = AtomicI64::new(1);
        for kind in ScheduleKind::ALL.iter().chain(ScheduleKind::ALL.iter().rev()) {
            db.set_schedule(*kind).expect("a change");
            session.run(|tx| tx.add(&table, key![0], "balance", 1)).expect("a write");
            added.fetch_add(1, Ordering::SeqCst);
        }
        session.commit().expect("nothing has changed what it has read");
        assert_eq!(total(&db, &table), 100 + added.into_inner());
    });
}

#[test]
fn a_change_that_cannot_be_made_is_refused_and_changes_nothing() {
    let refused = |db: &Database, kind, reason: &str| match db.set_schedule(kind) {
        Err(Error::InvalidOption { option: "schedule", expected, .. }) => {
            assert!(expected.contains(reason), "{expected}");
            assert_eq!(db.schedule_kind(), ScheduleKind::Random);
        }
        other => panic!("{other:?}"),
    };
    let db = in_memory(Options::default());
    refused(&db, ScheduleKind::Partition, "partition key");
    let table = accounts(&db, 1);
    let nested = db.run(|tx| {
        assert!(matches!(db.set_schedule(ScheduleKind::Predict), Err(Error::Nested { .. })));
        tx.add(&table, key![0], "balance", 1)
    });
    assert_eq!((nested, db.schedule_kind()), (Ok(()), ScheduleKind::Random));
    let other = db.clone();
    db.close().expect("it closes");
    assert_eq!(other.set_schedule(ScheduleKind::Predict), Err(Error::Closed));
    let db = in_memory(Options::default().protocol(ProtocolKind::Partitioned));
    refused(&db, ScheduleKind::Predict, "partitioned");
    db.set_schedule(ScheduleKind::Random).expect("nothing changes");
}

#[test]
fn a_partition_key_that_is_no_column_is_an_error_only_where_calls_are_placed_by_it() {
    let with_key =
        |schedule: ScheduleOptions| in_memory(small().schedule(schedule.partition_key("no_column")));
    let db = with_key(ScheduleKind::Random.into());
    let table = accounts(&db, 1);
    let add = deposit(&db, &table);
    db.set_schedule(ScheduleKind::Partition).expect("a change");
    db.call(&add, args![0, 1]).expect("it is placed in any queue");
    drop(add);
    let add = || ProcedureDefinition::new("look").phase([Action::read(&table).body(|_| Ok(()))]);
    assert!(matches!(db.register(add()), Err(Error::InvalidOption { option: "partition_key", .. })));
}

#[test]
fn changes_of_the_schedule_are_among_the_choices() {
    let db = in_memory(options(ProtocolKind::Auto, at_once()));
    for kind in [ScheduleKind::Predict, ScheduleKind::Predict, ScheduleKind::Partition] {
        db.set_schedule(kind).expect("a change");
    }
    assert_eq!(db.opened_schedule(), ScheduleKind::Random);
    let choices = db.choices();
    let schedules: Vec<_> = choices.iter().filter(|choice| choice.what == "schedule").collect();
    let steps: Vec<_> = schedules.iter().map(|choice| (&*choice.from, &*choice.to)).collect();
    assert_eq!(steps, [("random", "predict"), ("predict", "partition")], "what does not change is no choice");
    assert!(schedules.iter().all(|choice| choice.key.is_none() && !choice.why.is_empty()));
}
