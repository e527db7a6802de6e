//! Schedules, through the whole engine: where calls run is advice, and nothing is lost, doubled or left waiting by it.

use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use heddledb::{
    Action, DataType, Database, Durability, Error, Options, Policy, Predicate, PredictOptions, Procedure,
    ProcedureDefinition, ProtocolKind, Retry, ScheduleKind, ScheduleOptions, Stages, StatePrune, Table,
    TableDefinition, args, key, row,
};

const GROUPS: i64 = 8;

struct Counters {
    db: Database,
    counters: Table,
    count: Procedure,
}

/// Counters in groups: a call raises the group's own counter, which it has read before, and another one.
fn counters(options: Options, pause: Duration) -> Counters {
    let db = Database::in_memory_with(options.durability(Durability::None)).unwrap();
    let definition =
        TableDefinition::new("counter").column("id", DataType::Int64).column("n", DataType::Int64);
    let counters = db.create_table(definition.primary_key(["id"])).unwrap();
    db.run(|tx| (0..1_000).try_for_each(|id| tx.insert(&counters, row![id, 0]))).unwrap();
    let n = counters.column("n").unwrap();
    let raise = move |action: &heddledb::ActionContext<'_, '_>| {
        let now = action.get()?.map_or(Ok(0), |row| row.int(n))?;
        thread::sleep(pause);
        action.update(&[(n, (now + 1).into())])
    };
    let count = ProcedureDefinition::new("count")
        .parameter("group", DataType::Int64)
        .parameter("other", DataType::Int64)
        .phase([
            Action::write(&counters).key(|args, key| key.push(args.int(0)?)).body(raise),
            Action::write(&counters).key(|args, key| key.push(args.int(1)?)).body(raise),
        ]);
    let count = db.register(count).unwrap();
    Counters { db, counters, count }
}

impl Counters {
    fn sum(&self) -> i64 {
        let rows = |tx: &heddledb::Tx<'_, '_>| {
            let mut sum = 0;
            for id in 0..1_000 {
                sum += tx.get(&self.counters, key![id])?.map_or(Ok(0), |row| row.int("n"))?;
            }
            Ok(sum)
        };
        self.db.run(rows).unwrap()
    }

    /// Submits this many calls from one thread, and waits for all.
    fn submit(&self, calls: i64) {
        let submitted: Vec<_> = (0..calls)
            .map(|number| self.db.submit(&self.count, args![number % GROUPS, 8 + number * 7 % 992]).unwrap())
            .collect();
        submitted.into_iter().for_each(|call| {
            call.wait().unwrap();
        });
    }
}

fn beside_each_other() -> impl Iterator<Item = ProtocolKind> {
    ProtocolKind::ALL.iter().copied().filter(|protocol| !["serial", "partitioned"].contains(&protocol.name()))
}

/// The schedule, with the key or the short history that it needs.
fn by_id(kind: ScheduleKind) -> ScheduleOptions {
    match kind {
        ScheduleKind::Random => kind.into(),
        ScheduleKind::Partition => ScheduleOptions::partition_by("id"),
        ScheduleKind::Predict => PredictOptions::default().history_seconds(0.2).into(),
    }
}

fn scheduled(kind: ScheduleKind) -> Options {
    Options::default().schedule(by_id(kind)).workers(4)
}

#[test]
fn every_schedule_runs_every_call_once_under_every_protocol_and_layout() {
    for kind in ScheduleKind::ALL {
        for stages in Stages::ALL {
            for protocol in beside_each_other() {
                let workers = if *stages == Stages::Single { 1 } else { 4 };
                let options = scheduled(*kind).workers(workers);
                let options = options
                    .protocol(protocol)
                    .threads(|threads| threads.stages(*stages))
                    .queues(|queues| queues.capacity(4));
                let counters = counters(options, Duration::ZERO);
                counters.submit(2_000);
                assert_eq!(counters.sum(), 4_000, "{kind} {stages} {protocol}");
                counters.db.close().unwrap();
            }
        }
    }
}

#[test]
fn predict_with_a_protocol_that_places_calls_itself_is_an_error_that_says_what_to_do() {
    for protocol in [ProtocolKind::Serial, ProtocolKind::Partitioned] {
        for schedule in [ScheduleKind::Predict, ScheduleKind::Partition] {
            let options = Options::default().schedule(by_id(schedule)).protocol(protocol);
            let error =
                Database::in_memory_with(options.durability(Durability::None)).map(|_| ()).unwrap_err();
            let text = error.to_string();
            let (schedule, protocol) = (schedule.to_string(), protocol.to_string());
            for word in ["schedule", &schedule, &protocol, "random", "optimistic", "locking", "phased"] {
                assert!(text.contains(word), "{word}: {text}");
            }
        }
    }
    let options = Options::default().protocol(ProtocolKind::Serial).durability(Durability::None);
    assert!(Database::in_memory_with(options).is_ok());
}

#[test]
fn options_out_of_range_are_refused_by_name() {
    let refused = |options: Options| {
        Database::in_memory_with(options.durability(Durability::None)).map(|_| ()).unwrap_err().to_string()
    };
    let usual = Options::default;
    assert!(refused(usual().schedule(ScheduleKind::Partition)).contains("partition_by"));
    let predict = PredictOptions::default;
    for (options, name) in [
        (predict().history_seconds(-1.0), "predict.history_seconds"),
        (predict().history_renewal_seconds(f64::NAN), "predict.history_renewal_seconds"),
        (predict().memory_bytes(10), "predict.memory_bytes"),
    ] {
        assert!(refused(usual().schedule(options)).contains(name));
    }
    assert!(refused(usual().queues(|queues| queues.capacity(0))).contains("queues.capacity"));
}

#[test]
fn predict_learns_from_aborts_and_then_keeps_rivals_in_one_queue() {
    let options = scheduled(ScheduleKind::Predict).workers(8).retry(Retry::Immediate);
    let options = options.schedule(PredictOptions::default().history_seconds(1.0));
    let counters = counters(options, Duration::from_micros(200));
    let filling = counters.db.schedule().unwrap();
    assert!(filling.is_filling && filling.history_references == 0);
    let rate_of = |calls| {
        let before = counters.db.statistics();
        counters.submit(calls);
        let after = counters.db.statistics() - before;
        after.aborted as f64 / (after.aborted + after.committed) as f64
    };
    let begin = Instant::now();
    let mut at_random: f64 = 0.0;
    while counters.db.schedule().unwrap().is_filling {
        assert!(begin.elapsed() < Duration::from_secs(60), "the first History is never complete");
        at_random = at_random.max(rate_of(400));
    }
    rate_of(1_000);
    let predicted = (0..5).map(|_| rate_of(800)).fold(1.0, f64::min);
    assert!(at_random > 0.1, "calls overlap: {at_random}");
    assert!(predicted < at_random / 2.0, "{predicted} against {at_random} at random");
    let known = counters.db.schedule().unwrap();
    assert!(known.history_references >= GROUPS as u64 && known.state_references >= GROUPS as u64);
    assert_eq!(known.bytes, filling.bytes, "memory does not grow");
}

#[test]
fn partition_keeps_calls_with_the_same_key_apart_from_nobody_but_rivals() {
    let rate = |kind| {
        let options = scheduled(kind)
            .workers(8)
            .retry(Retry::Immediate)
            .queues(|queues| queues.work_stealing(kind != ScheduleKind::Partition));
        let counters = counters(options, Duration::from_micros(200));
        counters.submit(1_500);
        let statistics = counters.db.statistics();
        statistics.aborted as f64 / (statistics.aborted + statistics.committed) as f64
    };
    let (partitioned, at_random) = (rate(ScheduleKind::Partition), rate(ScheduleKind::Random));
    assert!(partitioned < at_random / 2.0, "{partitioned} against {at_random}");
}

#[test]
fn an_idle_worker_steals_from_the_queue_that_gets_everything() {
    let options = scheduled(ScheduleKind::Partition)
        .workers(4)
        .retry(Retry::Immediate)
        .queues(|queues| queues.capacity(16));
    let counters = counters(options, Duration::from_millis(1));
    let calls: Vec<_> =
        (0..100).map(|number| counters.db.submit(&counters.count, args![4, 8 + number]).unwrap()).collect();
    calls.into_iter().for_each(|call| {
        call.wait().unwrap();
    });
    assert!(counters.db.statistics().stolen > 0, "one key, one queue, which is crowded, and four workers");
    assert_eq!(counters.sum(), 200);
}

#[test]
fn short_calls_do_not_overtake_long_ones_without_end() {
    // As many long calls as short ones, sorted into different queues: what ends is a half of each all the same.
    let db = Database::in_memory_with(
        Options::default()
            .schedule(ScheduleOptions::partition_by("id"))
            .workers(2)
            .queues(|queues| queues.capacity(16))
            .durability(Durability::None),
    )
    .unwrap();
    let table = TableDefinition::new("t").column("id", DataType::Int64).primary_key(["id"]);
    let table = db.create_table(table).unwrap();
    let work = db
        .register(ProcedureDefinition::new("work").parameter("id", DataType::Int64).phase([
            Action::read(&table).key(|args, key| key.push(args.int(0)?)).body(|action| {
                thread::sleep(Duration::from_micros(if action.args().int(0)? == 0 { 2_000 } else { 20 }));
                Ok(())
            }),
        ]))
        .unwrap();
    let (ended, all_ended) = channel();
    let mut submitted = 0;
    thread::scope(|scope| {
        let (db, work) = (&db, &work);
        for number in 0..400 {
            let call = db.submit(work, args![number % 2]).unwrap();
            submitted += 1;
            let ended = ended.clone();
            scope.spawn(move || {
                call.wait().unwrap();
                let _ = ended.send(number % 2);
            });
        }
    });
    drop(ended);
    let order: Vec<i64> = all_ended.iter().collect();
    assert_eq!((order.len(), submitted), (400, 400));
    // At any time at most a queue's bound, and what the workers hold, lies between both kinds.
    let (mut long, mut short, mut furthest) = (0_i64, 0_i64, 0_i64);
    for kind in order {
        if kind == 0 {
            long += 1
        } else {
            short += 1
        }
        furthest = furthest.max(short - long);
    }
    assert!(furthest <= 80, "{furthest} more short calls than long ones");
}

#[test]
fn a_full_queue_refuses_a_caller_that_does_not_wait() {
    // Folded on every machine: where input has threads of its own, they wait for room in the queue, and no caller does.
    let options = scheduled(ScheduleKind::Partition)
        .threads(|threads| threads.stages(Stages::Folded))
        .workers(1)
        .queues(|queues| queues.capacity(1));
    let counters = counters(options, Duration::from_millis(20));
    let mut submitted = Vec::new();
    // However long this thread is kept from a processor: in the end calls come faster than the worker ends them.
    loop {
        match counters.db.try_submit(&counters.count, args![1, 100 + submitted.len() as i64]) {
            Ok(call) => submitted.push(call),
            Err(Error::Busy { .. }) => break,
            Err(error) => panic!("{error}"),
        }
    }
    let taken = submitted.len() as i64;
    submitted.into_iter().for_each(|call| {
        call.wait().unwrap();
    });
    assert!(taken > 0, "an empty queue takes a call");
    assert_eq!(counters.sum(), 2 * taken);
}

#[test]
fn closing_answers_every_call_that_was_let_in() {
    for kind in ScheduleKind::ALL {
        let counters = counters(scheduled(*kind), Duration::from_micros(100));
        let calls: Vec<_> = (0..100)
            .map(|number| counters.db.submit(&counters.count, args![number % GROUPS, 8 + number]).unwrap())
            .collect();
        let Counters { db, counters, count } = counters;
        drop((counters, count));
        db.close().unwrap();
        assert!(calls.into_iter().all(|call| call.wait().is_ok()), "{kind}");
    }
}

#[test]
fn admission_finds_its_limit_by_itself_and_lets_everything_through() {
    let options =
        scheduled(ScheduleKind::Random).queues(|queues| queues.automatic_admission(true).max_in_flight(64));
    let counters = counters(options, Duration::from_micros(50));
    let begin = Instant::now();
    let mut calls = 0;
    while begin.elapsed() < Duration::from_millis(1_500) {
        counters.submit(200);
        calls += 200;
    }
    assert_eq!(counters.sum(), 2 * calls);
}

#[test]
fn every_policy_and_every_way_of_pruning_runs() {
    for (number, policy) in Policy::ALL.into_iter().enumerate() {
        let prune = StatePrune::ALL[number % 3];
        let options = PredictOptions::default().policy(policy).state_prune(prune).history_seconds(0.0);
        let options = scheduled(ScheduleKind::Predict).schedule(options.memory_bytes(1 << 20));
        let counters = counters(options, Duration::ZERO);
        counters.submit(500);
        assert_eq!(counters.sum(), 1_000, "{policy} {prune}");
        assert!(counters.db.schedule().unwrap().state_references > 0);
    }
}

#[test]
fn rows_that_no_key_tells_are_placed_by_a_predicate() {
    let db = Database::in_memory_with(
        Options::default()
            .schedule(ScheduleOptions::partition_by("id"))
            .workers(4)
            .queues(|queues| queues.work_stealing(false))
            .durability(Durability::None),
    )
    .unwrap();
    let table = TableDefinition::new("t").column("id", DataType::Int64).primary_key(["id"]);
    let table = db.create_table(table).unwrap();
    let (seen, threads) = channel();
    let who = ProcedureDefinition::new("who")
        .parameter("id", DataType::Int64)
        .refers_to(Predicate::on(&table).equals("id", |args| args.int(0)))
        .phase([Action::read(&table).body(move |action| {
            let _ = seen.send((action.args().int(0)?, thread::current().id()));
            Ok(())
        })]);
    let who = db.register(who).unwrap();
    for number in 0..40 {
        db.call(&who, args![number % 4]).unwrap();
    }
    let mut homes = [None; 4];
    for (id, thread) in threads.try_iter() {
        assert_eq!(*homes[id as usize].get_or_insert(thread), thread, "always the same worker");
    }
    let distinct: std::collections::HashSet<_> = homes.iter().flatten().collect();
    assert_eq!(distinct.len(), 4);
}
