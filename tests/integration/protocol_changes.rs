//! Changes of the protocol while transactions run: nothing is lost or executed twice, no transaction starves, and sessions do not notice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::thread;

use crate::conformance::suite::changer::Changer;
use crate::support::concurrent::{
    Gate, accounts, balance, deposit, in_memory, on_disk, open, small, total, transfer, watched,
};
use heddledb::{
    DataType, Database, Error, Options, PhasedOptions, ProtocolKind, Range, ScheduleKind, ScheduleOptions,
    SerialOptions, SplitOperation, TableDefinition, args, key, row,
};

/// The protocols that can take each other's place.
fn changeable() -> Vec<ProtocolKind> {
    ProtocolKind::ALL.iter().copied().filter(|kind| *kind != ProtocolKind::Partitioned).collect()
}

fn short_phases() -> Options {
    let schedule = ScheduleOptions::from(ScheduleKind::Random).partition_key("id");
    small().protocol(PhasedOptions::default().phase_milliseconds(0.5)).schedule(schedule).workers(2)
}

#[test]
fn every_transaction_takes_effect_once_while_protocols_change() {
    const ROUNDS: i64 = 300;
    watched(|| {
        let (db, disk) = on_disk(short_phases());
        let table = accounts(&db, 4);
        let (add, pay) = (deposit(&db, &table), transfer(&db, &table));
        let changer = Changer::of(&db);
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    db.run(|tx| tx.add(&table, key![0], "balance", 1)).expect("a closure");
                }
            });
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let read = |tx: &heddledb::Tx<'_, '_>| {
                        tx.get(&table, key![0])?.map(|row| row.int("balance")).transpose()
                    };
                    let save = |tx: &heddledb::Tx<'_, '_>| {
                        let now = read(tx)?.unwrap_or_default();
                        tx.update(&table, key![0], &[("balance", (now + 1).into())])
                    };
                    db.run(save).expect("a closure that reads and saves");
                }
            });
            scope.spawn(|| {
                (0..ROUNDS).for_each(|_| drop(db.call(&add, args![0, 1]).expect("a call")));
                let mut worker = db.worker().expect("a worker");
                let calls: Vec<_> = (0..8).map(|_| (0, args![0, 1])).collect();
                let mut done = Vec::new();
                (0..ROUNDS / 8)
                    .for_each(|_| worker.execute_group(std::slice::from_ref(&add), &calls, &mut done));
                drop(worker);
                done.into_iter().for_each(|executed| drop(executed.wait().expect("a call of a group")));
            });
            scope.spawn(|| {
                (0..ROUNDS).for_each(|round| {
                    // It may fail below zero, without a trace.
                    let _ = db.call(&pay, args![1 + round % 3, 1 + (round + 1) % 3, 7]);
                });
            });
            scope.spawn(|| {
                let mut before = 0;
                for _ in 0..ROUNDS / 10 {
                    let sum = total(&db, &table);
                    assert!(sum >= before, "{sum} after {before}: a closure has seen half a transaction");
                    before = sum;
                }
            });
        });
        drop(changer);
        let expected = 4 * 100 + 3 * ROUNDS + 8 * (ROUNDS / 8);
        assert_eq!(total(&db, &table), expected);
        db.close().expect("it closes");
        let db = open(&disk, short_phases());
        let table = db.table("account").expect("the table");
        assert_eq!(total(&db, &table), expected, "after recovery");
    });
}

#[test]
fn a_session_goes_on_through_every_change() {
    watched(|| {
        let db = in_memory(short_phases());
        let table = accounts(&db, 2);
        let snapshot = db.snapshot().expect("a snapshot");
        for (number, kind) in (1..).zip(changeable().into_iter().chain(changeable().into_iter().rev())) {
            let mut session = db.session().expect("a session");
            session.begin().expect("a transaction");
            let read = |tx: &heddledb::Tx<'_, '_>| {
                tx.get(&table, key![0])?.map(|row| row.int("balance")).transpose()
            };
            let before = session.run(read).expect("a read");
            db.set_protocol(kind).expect("a change");
            assert_eq!(db.protocol(), kind);
            session.run(|tx| tx.add(&table, key![0], "balance", 1)).expect("a write");
            assert_eq!(session.run(read).expect("its own write"), before.map(|before| before + 1));
            session.commit().expect("nothing has changed what it has read");
            assert_eq!(balance(&db, &table, 0), Some(100 + number));
        }
        let mut rows = 0;
        for row in snapshot.scan(&table, Range::all()).expect("a scan") {
            assert_eq!(
                row.expect("a row").int("balance").expect("a balance"),
                100,
                "the snapshot is as old as it was"
            );
            rows += 1;
        }
        assert_eq!(rows, 2);
    });
}

#[test]
fn a_body_that_a_change_has_had_retried_ends_before_the_next_change() {
    watched(|| {
        let db = in_memory(Options::default().protocol(ProtocolKind::Optimistic));
        let table = accounts(&db, 1);
        let gates = [Arc::new(Gate::default()), Arc::new(Gate::default())];
        let (runs, ended) = (AtomicUsize::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                db.run(|tx| {
                    let run = runs.fetch_add(1, Ordering::SeqCst);
                    gates[run.min(1)].pass();
                    tx.add(&table, key![0], "balance", 1)?;
                    ended.store(run == 1, Ordering::SeqCst);
                    Ok(())
                })
                .expect("it commits");
            });
            gates[0].wait_for_arrivals(1);
            db.set_protocol(ProtocolKind::Locking).expect("a running body holds no change off");
            gates[0].open();
            gates[1].wait_for_arrivals(1);
            let next = scope.spawn(|| {
                db.set_protocol(ProtocolKind::Phased).expect("a change");
                assert!(ended.load(Ordering::SeqCst), "the body would have been retried again");
            });
            gates[1].open();
            next.join().expect("the change was made");
        });
        assert_eq!((runs.into_inner(), balance(&db, &table, 0)), (2, Some(101)));
        assert_eq!(db.protocol(), ProtocolKind::Phased);
    });
}

#[test]
fn a_body_that_waits_for_another_transaction_is_freed_by_a_change_from_serial() {
    watched(|| {
        let db = in_memory(Options::default().protocol(ProtocolKind::Serial));
        let table = accounts(&db, 2);
        let (gate, mut has_waited) = (Gate::default(), false);
        thread::scope(|scope| {
            scope.spawn(|| {
                db.run(|tx| {
                    tx.add(&table, key![0], "balance", 1)?;
                    if !std::mem::replace(&mut has_waited, true) {
                        // Until the other transaction has committed, which waits for this one's partition.
                        gate.pass();
                    }
                    Ok(())
                })
                .expect("it commits");
            });
            gate.wait_for_arrivals(1);
            let other = scope.spawn(|| {
                db.run(|tx| tx.add(&table, key![1], "balance", 1)).expect("it commits");
                gate.open();
            });
            db.set_protocol(ProtocolKind::Optimistic).expect("a change");
            other.join().expect("it has ended");
        });
        assert_eq!((balance(&db, &table, 0), balance(&db, &table, 1)), (Some(101), Some(101)));
    });
}

#[test]
fn what_was_acknowledged_survives_a_loss_of_power_between_changes() {
    watched(|| {
        let (db, disk) = on_disk(short_phases());
        let table = accounts(&db, 1);
        let acknowledged = AtomicI64::new(0);
        let changer = Changer::of(&db);
        thread::scope(|scope| {
            scope.spawn(|| {
                for id in 1..400 {
                    db.run(|tx| {
                        tx.insert(&table, row![id, 1])?;
                        tx.add(&table, key![0], "balance", 1)
                    })
                    .expect("a commit");
                    acknowledged.store(id, Ordering::SeqCst);
                }
            });
            for seed in 0..12 {
                let least = acknowledged.load(Ordering::SeqCst);
                let image = disk.crash_image(seed);
                let again = open(&image, short_phases());
                let table = again.table("account").expect("the table");
                let rows =
                    again.run(|tx| Ok(tx.scan(&table, Range::all())?.count() as i64)).expect("a count");
                assert!(rows > least, "{least} were acknowledged, and {} are there", rows - 1);
                assert_eq!(balance(&again, &table, 0), Some(100 + rows - 1), "no transaction is half there");
                again.close().expect("it closes");
            }
        });
        drop(changer);
        assert_eq!(balance(&db, &table, 0), Some(499));
    });
}

#[test]
fn a_change_that_cannot_be_made_is_refused_and_changes_nothing() {
    let refused = |db: &Database, kind| match db.set_protocol(kind) {
        Err(Error::InvalidOption { option: "protocol", expected, .. }) => {
            assert!(expected.contains("partitioned"))
        }
        other => panic!("{other:?}"),
    };
    let db = in_memory(Options::default().protocol(SerialOptions::default().partitions(2)));
    refused(&db, ProtocolKind::Partitioned);
    assert_eq!(db.protocol(), ProtocolKind::Serial);
    let table = accounts(&db, 1);
    let nested = db.run(|tx| {
        assert!(matches!(db.set_protocol(ProtocolKind::Locking), Err(Error::Nested { .. })));
        tx.add(&table, key![0], "balance", 1)
    });
    assert_eq!((nested, db.protocol()), (Ok(()), ProtocolKind::Serial));
    let other = db.clone();
    db.close().expect("it closes");
    assert_eq!(other.set_protocol(ProtocolKind::Locking), Err(Error::Closed));
    let db = in_memory(Options::default().protocol(ProtocolKind::Partitioned));
    refused(&db, ProtocolKind::Serial);
}

#[test]
fn choices_say_what_was_chosen_when_and_why() {
    watched(|| {
        let db = in_memory(Options::default().protocol(ProtocolKind::Auto));
        let table = accounts(&db, 1);
        db.split(&table, key![0], "balance", SplitOperation::ADD).expect("a label");
        let splits = || db.choices().into_iter().filter(|choice| choice.key.is_some()).collect::<Vec<_>>();
        while splits().is_empty() {
            db.run(|tx| tx.add(&table, key![0], "balance", 1)).expect("an addition");
        }
        let split = &splits()[0];
        assert_eq!((&*split.what, split.key.is_some()), ("account.balance", true));
        assert_eq!((&*split.from, &*split.to, &*split.why), ("joined", "split for add", "it was labelled"));
        db.unsplit(&table, key![0], "balance").expect("no label");
        while splits().len() < 2 {
            db.run(|tx| tx.add(&table, key![0], "balance", 1)).expect("an addition");
        }
        let joined = &splits()[1];
        assert_eq!(
            (&*joined.from, &*joined.to, &*joined.why),
            ("split for add", "joined", "its label was removed")
        );
        for kind in [ProtocolKind::Serial, ProtocolKind::Serial, ProtocolKind::Auto] {
            db.set_protocol(kind).expect("a change");
        }
        let choices = db.choices();
        assert!(choices.is_sorted_by_key(|choice| choice.at), "{choices:?}");
        let protocols: Vec<_> = choices.iter().filter(|choice| choice.what == "protocol").collect();
        let steps: Vec<_> = protocols.iter().map(|choice| (&*choice.from, &*choice.to)).collect();
        assert_eq!(
            steps,
            [("none", "auto"), ("auto", "serial"), ("serial", "auto")],
            "what does not change is no choice"
        );
        assert!(protocols.iter().all(|choice| !choice.why.is_empty()));
    });
}

#[test]
fn a_label_takes_effect_under_each_protocol_with_phases_that_is_put_in_force_later() {
    watched(|| {
        let db = in_memory(short_phases().protocol(ProtocolKind::Optimistic));
        let table = accounts(&db, 2);
        db.split(&table, key![0], "balance", SplitOperation::ADD).expect("a label");
        db.split(&table, key![1], "balance", SplitOperation::ADD).expect("a label");
        db.unsplit(&table, key![1], "balance").expect("no label");
        let splits = || db.choices().into_iter().filter(|choice| choice.key.is_some()).collect::<Vec<_>>();
        for (before, kind) in [ProtocolKind::Auto, ProtocolKind::Phased].into_iter().enumerate() {
            assert_eq!(splits().len(), before);
            db.set_protocol(kind).expect("a change");
            while splits().len() == before {
                (0..2).for_each(|id| {
                    db.run(|tx| tx.add(&table, key![id], "balance", 1)).expect("an addition");
                });
            }
        }
        assert!(splits().iter().all(|split| split.why == "it was labelled" && split.key == splits()[0].key));
    });
}

#[test]
fn a_load_ends_before_a_change() {
    watched(|| {
        for kind in changeable() {
            let db = in_memory(short_phases().protocol(kind));
            let (gate, ended) = (Gate::default(), AtomicBool::new(false));
            let next =
                if kind == ProtocolKind::Serial { ProtocolKind::Locking } else { ProtocolKind::Serial };
            thread::scope(|scope| {
                let load = scope.spawn(|| {
                    let mut session = db.session().expect("a session");
                    session.begin().expect("a transaction");
                    let table =
                        TableDefinition::new("loaded").column("id", DataType::Int64).primary_key(["id"]);
                    let table = session.create_table(table).expect("a table of its own");
                    session
                        .load(|tx| {
                            tx.insert(&table, row![1])?;
                            gate.pass();
                            tx.insert(&table, row![2])?;
                            ended.store(true, Ordering::SeqCst);
                            Ok(())
                        })
                        .expect("no change has had it retried");
                    session.commit().expect("it commits");
                });
                gate.wait_for_arrivals(1);
                let change = scope.spawn(|| {
                    db.set_protocol(next).expect("a change");
                    assert!(ended.load(Ordering::SeqCst), "the load could not be retried");
                });
                gate.open();
                load.join().expect("it was loaded");
                change.join().expect("the change was made");
            });
            let table = db.table("loaded").expect("the table");
            assert_eq!(db.run(|tx| Ok(tx.scan(&table, Range::all())?.count())), Ok(2), "{kind}");
        }
    });
}

#[test]
fn no_load_fails_while_protocols_change() {
    watched(|| {
        let db = in_memory(short_phases());
        let changer = Changer::of(&db);
        for number in 0..40 {
            let mut session = db.session().expect("a session");
            session.begin().expect("a transaction");
            let name = format!("loaded_{number}");
            let table = TableDefinition::new(&name).column("id", DataType::Int64).primary_key(["id"]);
            let table = session.create_table(table).expect("a table of its own");
            session.load(|tx| (0..200).try_for_each(|id| tx.insert(&table, row![id]))).expect("it is loaded");
            session.commit().expect("it commits");
            let table = db.table(&name).expect("the table");
            assert_eq!(db.run(|tx| Ok(tx.scan(&table, Range::all())?.count())), Ok(200));
        }
        drop(changer);
    });
}
