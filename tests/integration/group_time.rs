//! The two limits of a group, TPK's: a number of transactions and a time, in every layout of the stages.

use std::thread;
use std::time::{Duration, Instant};

use crate::support::concurrent as support;
use heddledb::{Durability, Options, ProtocolKind, Stages, args};
use support::{accounts, balance, deposit, on_disk, small, watched};

/// Far longer than `watched` lets a test take.
const NEVER: f64 = 60_000.0;
const GROUP: usize = 5;

fn layouts() -> [Options; 3] {
    let with = |stages| small().threads(|threads| threads.stages(stages)).workers(1);
    [with(Stages::Single), with(Stages::Folded), with(Stages::Staged)]
}

/// Makes this many calls at once, and waits for their durable results.
fn deposit_together(db: &heddledb::Database, procedure: &heddledb::Procedure, calls: usize) {
    let submitted: Vec<_> =
        (0..calls).map(|id| db.submit(procedure, args![id as i64, 1]).expect("room")).collect();
    submitted.into_iter().for_each(|call| drop(call.wait().expect("durable")));
}

#[test]
fn a_group_is_written_when_its_number_is_full_in_every_layout() {
    watched(|| {
        for options in layouts() {
            let (db, disk) = on_disk(options.clone());
            accounts(&db, 10);
            // Neither the table nor its rows are to wait for a group.
            db.close().expect("durable");
            let options = options.log(|log| log.group_size(GROUP).group_milliseconds(NEVER));
            let db = support::open(&disk, options);
            let table = db.table("account").expect("there");
            let deposit = deposit(&db, &table);
            for round in 1..=4 {
                let before = db.statistics();
                deposit_together(&db, &deposit, GROUP);
                let after = db.statistics();
                assert_eq!(after.log_groups - before.log_groups, 1, "round {round}: one group of all");
                assert_eq!(after.log_transactions - before.log_transactions, GROUP as u64);
            }
            // What is not a whole group is written when the database is closed.
            let rest = db.submit(&deposit, args![7, 1]).expect("room");
            db.close().expect("durable");
            rest.wait().expect("durable");
        }
    });
}

#[test]
fn closures_and_workers_fill_groups_too() {
    /// Enough that a group which is written early, as soon as its first transaction is there, leaves one over.
    const ROUNDS: i64 = 50;
    watched(|| {
        for &protocol in ProtocolKind::ALL {
            let (db, disk) = on_disk(small().protocol(protocol));
            accounts(&db, 10);
            db.close().expect("durable");
            let options = small().protocol(protocol).log(|log| log.group_size(2).group_milliseconds(NEVER));
            let db = support::open(&disk, options);
            let table = db.table("account").expect("there");
            let procedure = deposit(&db, &table);
            for _ in 0..ROUNDS {
                thread::scope(|scope| {
                    scope.spawn(|| {
                        db.run(|tx| tx.add(&table, heddledb::key![1], "balance", 1)).expect("durable")
                    });
                    scope.spawn(|| {
                        let mut worker = db.worker().expect("a context");
                        worker.execute(&procedure, args![2, 1]).wait().expect("durable");
                    });
                });
            }
            drop(procedure);
            db.close().expect("durable");
            let db = support::open(&disk, small());
            let table = db.table("account").expect("there");
            assert_eq!(
                (balance(&db, &table, 1), balance(&db, &table, 2)),
                (Some(100 + ROUNDS), Some(100 + ROUNDS))
            );
        }
    });
}

#[test]
fn a_group_waits_for_its_time_and_no_longer() {
    const TIME: Duration = Duration::from_millis(80);
    watched(|| {
        for options in layouts() {
            let (db, _disk) = on_disk(options.log(|log| log.group_milliseconds(TIME.as_millis() as f64)));
            let table = accounts(&db, 10);
            let deposit = deposit(&db, &table);
            let start = Instant::now();
            db.call(&deposit, args![1, 1]).expect("durable");
            assert!(start.elapsed() >= TIME * 9 / 10, "the group did not wait: {:?}", start.elapsed());
        }
    });
}

#[test]
fn by_default_no_group_waits_and_a_checkpoint_waits_for_none() {
    watched(|| {
        for options in layouts() {
            let (db, _disk) = on_disk(options.clone().log(|log| log.group_size(GROUP)));
            let table = accounts(&db, 10);
            // Far fewer than fill a group for each; nothing else would end it.
            for id in 0..20 {
                db.run(|tx| tx.add(&table, heddledb::key![id % 10], "balance", 1)).expect("durable");
            }
            let (db, disk) = on_disk(options.clone());
            accounts(&db, 10);
            db.close().expect("durable");
            let db = support::open(
                &disk,
                options.durability(Durability::Group).log(|log| log.group_milliseconds(NEVER)),
            );
            let table = db.table("account").expect("there");
            let waiting = db.submit(&deposit(&db, &table), args![1, 1]).expect("room");
            while db.statistics().committed == 0 {
                thread::sleep(Duration::from_millis(1));
            }
            db.checkpoint().expect("it ends the group");
            waiting.wait().expect("durable");
        }
    });
}

/// Commits of all kinds, with pauses in between, while snapshots, checkpoints and sequences end groups before their time;
/// then the database is closed while a group is open.
#[test]
fn every_group_is_written_beside_all_that_ends_groups_early() {
    const THREADS: i64 = 8;
    const ROUNDS: i64 = 40;
    watched(|| {
        for options in layouts() {
            let (db, disk) =
                on_disk(options.clone().log(|log| log.group_size(GROUP).group_milliseconds(2.0)));
            let table = accounts(&db, THREADS);
            let procedure = deposit(&db, &table);
            let orders = db.create_sequence(heddledb::SequenceDefinition::new("orders")).expect("a sequence");
            thread::scope(|scope| {
                for id in 0..THREADS {
                    let (db, table, procedure, orders) = (&db, &table, &procedure, &orders);
                    scope.spawn(move || {
                        for round in 0..ROUNDS {
                            db.run(|tx| tx.add(table, heddledb::key![id], "balance", 1)).expect("durable");
                            match (round + id) % 9 {
                                0 => drop(db.snapshot().expect("a snapshot")),
                                1 => db.checkpoint().map(drop).expect("a checkpoint"),
                                2 => drop(orders.next().expect("a number")),
                                3 => thread::sleep(Duration::from_millis(3)),
                                _ => drop(db.call(procedure, args![id, 1]).expect("durable")),
                            }
                        }
                    });
                }
            });
            let called = (0..THREADS * ROUNDS).filter(|n| (n / ROUNDS + n % ROUNDS) % 9 > 3).count() as i64;
            let rest: Vec<_> = (0..3).map(|id| db.submit(&procedure, args![id, 1]).expect("room")).collect();
            db.close().expect("durable");
            rest.into_iter().for_each(|call| drop(call.wait().expect("durable")));
            let db = support::open(&disk, options);
            let table = db.table("account").expect("there");
            assert_eq!(support::total(&db, &table), THREADS * (100 + ROUNDS) + called + 3);
        }
    });
}

/// A transaction that reserves most of the room in the log makes it low for as long as it executes; no redo is there yet.
#[test]
fn low_room_alone_ends_no_epochs() {
    const PAUSE: Duration = Duration::from_millis(300);
    watched(|| {
        let (db, _disk) = on_disk(small().log(|log| log.group_milliseconds(1.0)));
        let notes = db
            .create_table(
                heddledb::TableDefinition::new("note")
                    .column("id", heddledb::DataType::Int64)
                    .column("text", heddledb::DataType::Text)
                    .primary_key(["id"]),
            )
            .expect("a table");
        let text = "x".repeat(1_000);
        let mut executions = 0;
        let mut ended = 0;
        db.run(|tx| {
            executions += 1;
            let before = db.durable_epoch();
            if executions > 1 {
                thread::sleep(PAUSE);
            }
            ended = db.durable_epoch() - before;
            (0..150).try_for_each(|id| tx.insert(&notes, heddledb::row![id, text.as_str()]))
        })
        .expect("there is room for it alone");
        assert!(executions > 1, "it has not reserved room");
        // Idle, the log stage ends ten epochs a second.
        assert!(ended <= 30, "{ended} epochs have ended meanwhile");
    });
}
