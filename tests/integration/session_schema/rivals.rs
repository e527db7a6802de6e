//! Schema changes beside other sessions, writers and snapshots, and in a power loss.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use heddledb::testing::SimulatedDisk;
use heddledb::{
    DataType, Database, Durability, Error, Options, ProtocolKind, Range, Result, Session, TableChange,
    Timeout, key, row,
};

use super::{begun, definition, filled, ids, ids_by_index, migrate, names, prepare};
use crate::support::tables::{everywhere, on_disk};

#[test]
fn changes_of_the_schema_come_one_after_another() {
    for &protocol in ProtocolKind::ALL {
        let options = Options::default().durability(Durability::None).protocol(protocol);
        let db = Database::in_memory_with(options).expect("options are right");
        let mut first = begun(&db);
        first.create_table(definition("a")).expect("created");
        let mut second = begun(&db);
        second.set_wait_timeout(Some(Duration::from_millis(1))).expect("set");
        let refused = second.create_table(definition("b"));
        assert!(matches!(refused, Err(Error::TimedOut { what: Timeout::Wait })), "{refused:?}");
        second.rollback().expect("rolled back");
        thread::scope(|scope| {
            let waits = scope.spawn(|| db.create_table(definition("a")));
            first.commit().expect("committed");
            let refused = waits.join().expect("no panic");
            assert!(matches!(refused, Err(Error::TableExists { .. })), "{refused:?}");
        });
        db.create_table(definition("b")).expect("the lock is free");
    }
}

#[test]
fn a_session_that_holds_others_off_is_overtaken_by_none() {
    const LONG: Duration = Duration::from_secs(1000);
    for &protocol in ProtocolKind::ALL {
        let options = Options::default().durability(Durability::None).protocol(protocol);
        let db = Database::in_memory_with(options).expect("options are right");
        let table = filled(&db, "t");
        let add = |n: i64| db.run(|tx| tx.add(&table, key![3], "n", n));
        let mut session = begun(&db);
        session.lock_schema_alone(LONG).expect("locked");
        session.lock_schema_alone(LONG).expect("it may ask again");
        let change = TableChange::new().add_column("more", DataType::Int64, 1);
        session.change_table("t", change).expect("changed");
        let (sender, added) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(move || sender.send(add(1)));
            db.run(|tx| tx.get(&table, key![3]).map(drop)).expect("its own thread goes on");
            assert!(added.try_recv().is_err(), "{protocol}: others wait");
            session.commit().expect("nobody has written the table");
            added.recv().expect("sent").expect("it goes on after the commit");
        });
        for end in [Session::rollback, |session: &mut Session| session.commit()] {
            session.begin().expect("begun");
            session.lock_schema_alone(LONG).expect("locked");
            end(&mut session).expect("ended");
            thread::scope(|scope| scope.spawn(|| add(1)).join().expect("no panic").expect("nobody waits"));
        }
        session.begin().expect("begun");
        session.lock_schema_alone(LONG).expect("locked");
        drop(session);
        thread::scope(|scope| scope.spawn(|| add(1)).join().expect("no panic").expect("nobody waits"));
        let n = db.run(|tx| tx.get(&table, key![3])?.map(|row| row.int("n")).transpose()).expect("read");
        assert_eq!(n, Some(34), "{protocol}");
    }
}

#[test]
fn a_deadlock_of_schema_and_rows_aborts_the_younger_session() {
    let db =
        Database::in_memory_with(Options::default().durability(Durability::None)).expect("options are right");
    let table = filled(&db, "a");
    let (mut old, mut young) = (begun(&db), begun(&db));
    young.run(|tx| tx.get_for_update(&table, key![1]).map(drop)).expect("reserved");
    old.create_table(definition("b")).expect("created");
    thread::scope(|scope| {
        let waits = scope.spawn(|| old.run(|tx| tx.get_for_update(&table, key![1]).map(drop)));
        let refused = young.create_table(definition("c"));
        assert!(matches!(refused, Err(Error::Deadlock)), "{refused:?}");
        waits.join().expect("no panic").expect("the older one goes on");
    });
    old.commit().expect("committed");
    assert_eq!(names(&db), ["a", "b"]);
}

#[test]
fn a_session_conflicts_with_a_schema_that_changed_before_its_own_change() {
    let db =
        Database::in_memory_with(Options::default().durability(Durability::None)).expect("options are right");
    let table = filled(&db, "a");
    let mut session = begun(&db);
    session.run(|tx| tx.update(&table, key![1], &[("n", 1.into())])).expect("updated");
    db.change_table("a", TableChange::new().drop_index("by_name")).expect("changed");
    assert!(matches!(session.create_table(definition("b")), Err(Error::Conflict)));
    assert!(matches!(session.commit(), Err(Error::Conflict)));
    assert_eq!(names(&db), ["a"]);
}

#[test]
fn a_snapshot_sees_the_schema_of_its_epoch() {
    everywhere(
        |db| {
            prepare(db);
            let handles = ["kept", "wide", "gone", "emptied"].map(|name| db.table(name).expect("there"));
            let before = db.snapshot().expect("a snapshot");
            let mut session = begun(db);
            migrate(db, &mut session).expect("migrated");
            let own = session.table("fresh").expect("its own");
            let during = db.snapshot().expect("a snapshot");
            session.commit().expect("committed");
            for snapshot in [&before, &during] {
                for table in &handles {
                    let rows = snapshot.scan(table, Range::all()).expect("it was there").count();
                    assert_eq!(rows, 10, "{}", table.name());
                }
                assert!(matches!(snapshot.get(&own, key![1]), Err(Error::TableNewer { .. })));
            }
            let after = db.snapshot().expect("a snapshot");
            assert_eq!(after.scan(&own, Range::all()).expect("it is there").count(), 4);
        },
        |_| {},
    );
}

#[test]
fn writers_lose_nothing_beside_migrations() {
    const ROUNDS: i64 = 12;
    for &protocol in ProtocolKind::ALL {
        let options = Options::default().durability(Durability::None).protocol(protocol);
        let db = Database::in_memory_with(options).expect("options are right");
        let table = filled(&db, "a");
        let done = AtomicBool::new(false);
        let (inserted, added) = thread::scope(|scope| {
            let inserter = scope.spawn(|| {
                let mut next = 1000;
                while !done.load(Ordering::Relaxed) {
                    // Not for ever: every round looks at all rows.
                    if next < 1500 {
                        db.run(|tx| tx.insert(&table, row![next, "w", next])).expect("inserted");
                        next += 1;
                    }
                    thread::yield_now();
                }
                next - 1000
            });
            let adder = scope.spawn(|| {
                let mut session = db.session().expect("a session");
                let mut added = 0;
                while !done.load(Ordering::Relaxed) {
                    session.begin().expect("begun");
                    let ran =
                        session.run(|tx| tx.add(&table, key![1], "n", 1)).and_then(|()| session.commit());
                    match ran {
                        Ok(()) => added += 1,
                        Err(error) if error.is_retryable() => drop(session.rollback()),
                        Err(error) => panic!("{error}"),
                    }
                }
                added
            });
            let mut session = db.session().expect("a session");
            let mut round = 0;
            while round < ROUNDS {
                session.begin().expect("begun");
                let mut change = || -> Result<()> {
                    let change = match round % 2 {
                        0 => TableChange::new().add_index("by_n", ["n"]),
                        _ => TableChange::new().drop_index("by_n"),
                    };
                    let changed = session.change_table("a", change)?;
                    session.run(|tx| tx.add(&changed, key![2], "n", 1))?;
                    session.commit()
                };
                match change() {
                    Ok(()) => round += 1,
                    Err(error) if error.is_retryable() => drop(session.rollback()),
                    Err(error) => panic!("{protocol}: {error}"),
                }
            }
            done.store(true, Ordering::Relaxed);
            (inserter.join().expect("no panic"), adder.join().expect("no panic"))
        });
        assert_eq!(ids(&db, "a").len() as i64, 10 + inserted, "{protocol}");
        let n = |id: i64| {
            db.run(|tx| tx.get(&table, key![id])?.map(|row| row.int("n")).transpose()).expect("read")
        };
        assert_eq!((n(1), n(2)), (Some(10 + added), Some(20 + ROUNDS)), "{protocol}");
        db.check().expect("consistent");
    }
}

#[test]
fn power_loss_at_every_boundary_leaves_all_of_a_migration_or_nothing() {
    for &protocol in ProtocolKind::ALL {
        let disk = SimulatedDisk::new();
        let db = Database::open("/db", on_disk(&disk).protocol(protocol)).expect("opened");
        prepare(&db);
        let images = Arc::new(Mutex::new(Vec::new()));
        let kept = images.clone();
        disk.watch(move |moment| kept.lock().expect("no panic").push(moment.image(moment.number())));
        let mut session = begun(&db);
        migrate(&db, &mut session).expect("migrated");
        session.commit().expect("committed");
        disk.watch_no_more();
        let mut images = std::mem::take(&mut *images.lock().expect("no panic"));
        images.push(disk.crash_image(1));
        let mut outcomes = [0, 0];
        for image in &images {
            let db = Database::open("/db", on_disk(image).protocol(protocol)).expect("recovered");
            let names = names(&db);
            let is_new = names == ["emptied", "fresh", "held", "wide"];
            assert!(is_new || names == ["emptied", "gone", "kept", "wide"], "{protocol}: {names:?}");
            outcomes[usize::from(is_new)] += 1;
            if is_new {
                assert_eq!(ids(&db, "fresh"), [1, 2, 3, 4]);
                assert_eq!(ids_by_index(&db, "held", "kept_by_n", 30).expect("read"), [5, 77]);
                assert_eq!(ids(&db, "emptied"), [100]);
            } else {
                names.iter().for_each(|name| assert_eq!(ids(&db, name).len(), 10));
            }
            db.check().expect("consistent");
        }
        assert!(outcomes.iter().all(|&count| count > 0), "{protocol}: {outcomes:?}");
    }
}
