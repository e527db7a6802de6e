//! Layouts of stages. Execution, log and output on one thread (`Stages::Single`): calls are answered when they are
//! durable, and nothing that a call or the closing of the database waits for is left to a thread that waits itself.
//! And what counts as a stage's work.

use std::thread;
use std::time::{Duration, Instant};

use crate::support::logged::*;
use heddledb::testing::SimulatedDisk;
use heddledb::{
    Action, DataType, Database, Durability, Error, Options, ProcedureDefinition, ProtocolKind,
    ProtocolOptions, SerialOptions, SerialVariant, Stages, TableDefinition, args, key, row,
};

const CALLS: i64 = 300;

fn single(options: Options) -> Options {
    options.threads(|threads| threads.stages(Stages::Single)).workers(1)
}

/// Every protocol whose calls workers run.
fn protocols() -> impl Iterator<Item = ProtocolKind> {
    ProtocolKind::ALL.iter().copied().filter(|&protocol| {
        Database::in_memory_with(single(Options::default()).durability(Durability::None).protocol(protocol))
            .is_ok()
    })
}

/// Inserts through the worker, several callers at once; what is acknowledged is durable at once.
fn insert_from_many(bank: &Bank, disk: &SimulatedDisk) {
    thread::scope(|scope| {
        for caller in 0..3 {
            scope.spawn(move || {
                for number in 0..CALLS / 3 {
                    let id = 1_000 + caller * CALLS + number;
                    bank.db.call(&bank.insert, args![id, id]).expect("committed");
                }
            });
        }
    });
    let found = reopened(&disk.crash_image(0));
    for caller in 0..3 {
        for number in 0..CALLS / 3 {
            let id = 1_000 + caller * CALLS + number;
            assert!(found.value(id).expect("readable").is_some(), "{id} was acknowledged, and is lost");
        }
    }
    found.db.check().expect("consistent");
}

#[test]
fn what_is_reported_is_durable_under_every_protocol() {
    assert!(protocols().count() >= 4);
    for protocol in protocols() {
        let disk = SimulatedDisk::new();
        in_time(protocol.name(), move || {
            let bank = bank_with(single(options(&disk)).protocol(protocol));
            insert_from_many(&bank, &disk);
            bank.db.close().expect("durable");
        });
    }
}

#[test]
fn calls_that_come_together_share_a_group_and_its_limit_holds() {
    let disk = SimulatedDisk::new();
    in_time("a hundred calls", move || {
        let bank = bank_with(single(options(&disk)).log(|log| log.group_size(16)));
        let before = bank.db.statistics();
        let calls: Vec<_> = (0..100)
            .map(|id| bank.db.submit(&bank.insert, args![1_000 + id, 5_000 + id]).expect("let in"))
            .collect();
        calls.into_iter().for_each(|call| assert!(call.wait().is_ok()));
        let counted = bank.db.statistics() - before;
        assert_eq!(counted.log_transactions, 100);
        assert!(counted.log_groups >= 100 / 16, "{} groups", counted.log_groups);
        bank.db.close().expect("durable");
    });
}

#[test]
fn closures_and_calls_of_little_room_wait_for_nobody_who_waits() {
    let serial: ProtocolKind = "serial".parse().expect("a protocol");
    for variant in [SerialVariant::Naive, SerialVariant::Precommit] {
        let disk = SimulatedDisk::new();
        in_time("closures beside calls", move || {
            let options = single(small_options(&disk))
                .protocol(ProtocolOptions::from(serial).serial(SerialOptions::default().variant(variant)));
            let bank = bank_with(options);
            thread::scope(|scope| {
                scope.spawn(|| insert_from_many(&bank, &disk));
                for id in 0..50 {
                    let (items, id) = (&bank.items, 50_000 + id);
                    bank.db.run(|tx| tx.insert(items, row![id, 0, id])).expect("committed");
                }
            });
            let last = bank.db.run(|tx| Ok(tx.get(&bank.items, key![50_049])?.is_some()));
            assert_eq!(last, Ok(true));
            bank.db.close().expect("durable");
        });
    }
}

#[test]
fn a_full_disk_stops_neither_reads_nor_the_closing() {
    let disk = SimulatedDisk::new();
    in_time("closing on a full disk", move || {
        let bank = bank_with(single(small_options(&disk)));
        disk.set_capacity(0);
        let refused =
            (0..100_000).find_map(|id| bank.db.call(&bank.insert, args![1_000 + id, 1_000_000 + id]).err());
        assert!(matches!(refused, Some(Error::NoLogSpace { .. })), "{refused:?}");
        assert!(bank.value(1).expect("readable").is_some());
        let _ = bank.db.close();
    });
}

#[test]
fn one_worker_is_what_it_takes() {
    let refused = |options: Options| {
        let error = Database::in_memory_with(options.durability(Durability::None)).expect_err("refused");
        assert!(matches!(error, Error::InvalidOption { option: "threads.stages", .. }), "{error}");
    };
    refused(Options::default().threads(|threads| threads.stages(Stages::Single)).workers(2));
    for &protocol in ProtocolKind::ALL.iter().filter(|one| !protocols().any(|other| other == **one)) {
        refused(single(Options::default()).protocol(protocol));
    }
    assert_eq!("single".parse::<Stages>(), Ok(Stages::Single));
    let plain =
        Options::default().threads(|threads| threads.stages(Stages::Single)).durability(Durability::None);
    Database::in_memory_with(plain).expect("one worker alone").close().expect("closed");
}

/// Workers that sleep over their calls fill their queues, and the input stage waits before these: it works for a small part
/// of the time only.
#[test]
fn a_stage_that_waits_for_space_in_a_queue_is_not_busy() {
    in_time("a full queue", || {
        let options = Options::default()
            .durability(Durability::None)
            .threads(|threads| threads.stages(Stages::Staged))
            .workers(1);
        let db = Database::in_memory_with(options.queues(|queues| queues.work_stealing(true).capacity(1)))
            .expect("in memory");
        let table = TableDefinition::new("t").column("id", DataType::Int64).primary_key(["id"]);
        let table = db.create_table(table).expect("a table");
        let slow = ProcedureDefinition::new("slow").phase([Action::commute(&table)
            .key(|_, key| key.push(1))
            .body(|_| {
                thread::sleep(Duration::from_millis(2));
                Ok(())
            })]);
        let slow = db.register(slow).expect("a procedure");
        let start = Instant::now();
        let calls: Vec<_> = (0..100).map(|_| db.submit(&slow, args![]).expect("let in")).collect();
        calls.into_iter().for_each(|call| drop(call.wait().expect("done")));
        let (busy, all) = (db.statistics().input_busy, start.elapsed());
        assert!(all >= Duration::from_millis(200), "the calls were not slow: {all:?}");
        assert!(busy > Duration::ZERO && busy < all / 4, "busy for {busy:?} of {all:?}");
    });
}

/// The log's thread looks ten times a second; while the worker has the log, that thread waits for it.
#[test]
fn a_thread_that_waits_for_the_log_does_not_work_on_it() {
    let disk = SimulatedDisk::new();
    let start = Instant::now();
    let bank = bank_with(single(options(&disk)));
    disk.hold_syncs();
    let submitted = bank.db.submit(&bank.insert, args![1_000, 1]).expect("there is room");
    disk.wait_for_held_syncs(1);
    thread::sleep(Duration::from_millis(400));
    disk.release_syncs();
    submitted.wait().expect("committed");
    // A call that is released later than what the log's thread counts.
    bank.db.call(&bank.insert, args![2_000, 2]).expect("committed");
    let busy = bank.db.statistics().log_busy;
    assert!(busy >= Duration::from_millis(400), "the flush counts: {busy:?}");
    assert!(busy <= start.elapsed(), "{busy:?}");
}

/// A reader of the counter pauses while a rival commits, so that its first attempt aborts.
#[test]
fn a_call_says_how_many_of_its_attempts_have_aborted() {
    for stages in [Stages::Folded, Stages::Staged] {
        let options = Options::default()
            .durability(Durability::None)
            .threads(|threads| threads.stages(stages))
            .workers(1);
        let db = Database::in_memory_with(options).expect("a database");
        let definition = TableDefinition::new("counter").column("id", DataType::Int64);
        let definition = definition.column("n", DataType::Int64).not_null().primary_key(["id"]);
        let table = db.create_table(definition).expect("it is new");
        db.run(|tx| tx.insert(&table, row![1, 0])).expect("committed");
        let (rival, counter) = (db.clone(), table.clone());
        let first = std::sync::atomic::AtomicBool::new(true);
        let body = move |action: &heddledb::ActionContext| {
            let n = action.get()?.map_or(Ok(0), |row| row.int("n"))?;
            if first.swap(false, std::sync::atomic::Ordering::Relaxed) {
                let (rival, counter) = (rival.clone(), counter.clone());
                let change = move || rival.run(|tx| tx.add(&counter, key![1], "n", 10));
                thread::spawn(change).join().expect("it ends").expect("committed");
            }
            action.update(&[("n", (n + 1).into())])
        };
        let action = Action::write(&table).key(|_, key| key.push(1)).body(body);
        let increment = db.register(ProcedureDefinition::new("increment").phase([action])).expect("new");
        let (result, aborted) = db.submit(&increment, args![]).expect("there is room").wait_counting();
        assert_eq!((result.is_ok(), aborted), (true, 1));
        let (_, aborted) = db.submit(&increment, args![]).expect("there is room").wait_counting();
        assert_eq!(aborted, 0);
        let table = db.table("counter").expect("it is there");
        assert_eq!(db.run(|tx| tx.get(&table, key![1])?.expect("a row").int("n")), Ok(12));
    }
}

/// The layouts, each with one worker.
fn layouts() -> impl Iterator<Item = Stages> {
    [Stages::Folded, Stages::Staged, Stages::Single].into_iter()
}

#[test]
fn a_group_stays_open_for_its_time_in_every_layout() {
    const TIME: Duration = Duration::from_millis(150);
    for stages in layouts() {
        let options = options(&SimulatedDisk::new()).workers(1).threads(|threads| threads.stages(stages));
        let bank = bank_with(options.log(|log| log.group_milliseconds(TIME.as_secs_f64() * 1_000.0)));
        let start = Instant::now();
        bank.db.call(&bank.insert, args![1_000, 1]).expect("committed");
        assert!(start.elapsed() >= TIME, "{stages}: {:?}", start.elapsed());
    }
}

#[test]
fn a_group_that_has_its_number_does_not_wait_for_its_time() {
    for stages in layouts() {
        let disk = SimulatedDisk::new();
        in_time("a full group", move || {
            let options = || options(&disk).threads(|threads| threads.stages(stages));
            bank_with(options()).db.close().expect("closed");
            let bank = reopened_with(options().log(|log| log.group_milliseconds(60_000.0).group_size(4)));
            let before = bank.db.statistics();
            let calls = |first: i64| {
                let submit = |id| bank.db.submit(&bank.insert, args![id, id]).expect("let in");
                let calls: Vec<_> = (first..first + 4).map(submit).collect();
                calls.into_iter().for_each(|call| assert!(call.wait().is_ok()));
            };
            calls(1_000);
            calls(2_000);
            let counted = bank.db.statistics() - before;
            assert_eq!((counted.log_groups, counted.log_transactions), (2, 8), "{stages}");
        });
    }
}

/// TPK's configuration A: execution, log and output are one process.
#[test]
fn a_worker_that_logs_itself_writes_its_full_groups() {
    in_time("full groups", || {
        let disk = SimulatedDisk::new();
        bank_with(options(&disk)).db.close().expect("closed");
        let bank =
            reopened_with(single(options(&disk)).log(|log| log.group_size(10).group_milliseconds(2_000.0)));
        let writers = std::sync::Arc::new(std::sync::Mutex::new(std::collections::BTreeMap::new()));
        let seen = writers.clone();
        disk.watch(move |_| {
            let name = thread::current().name().unwrap_or_default().to_string();
            *seen.lock().expect("lock").entry(name).or_insert(0) += 1;
        });
        let submit = |id: i64| bank.db.submit(&bank.insert, args![id, id]).expect("let in");
        let calls: Vec<_> = (1_000..1_200).map(submit).collect();
        calls.into_iter().for_each(|call| assert!(call.wait().is_ok()));
        disk.watch_no_more();
        let writers = writers.lock().expect("lock");
        // The log's thread looks now and then, and may find a full group of a worker that the system does not run just then.
        let by_log = writers.get("heddle-log").copied().unwrap_or(0);
        let by_worker = writers["heddle-execute-0"];
        assert!(by_worker + by_log >= 40, "a write and a sync for each of 20 groups: {writers:?}");
        assert!(by_log < by_worker / 2, "{writers:?}");
    });
}
