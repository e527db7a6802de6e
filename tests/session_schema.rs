//! Schema changes inside a session's transaction: private until the commit, undone by rollback and savepoints, atomic in a
//! crash; under every protocol, and beside transactions that go on with the schema as it was.

#[path = "support/tables.rs"]
mod tables;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use heddledb::testing::SimulatedDisk;
use heddledb::{
    DataType, Database, Durability, Error, Options, ProtocolKind, Range, Result, Session, Table, TableChange,
    TableDefinition, Timeout, Tx, ValueRef, key, row,
};
use tables::{everywhere, on_disk};

fn definition(name: &str) -> TableDefinition {
    TableDefinition::new(name)
        .column("id", DataType::Int64)
        .column("name", DataType::Text)
        .column("n", DataType::Int64)
        .primary_key(["id"])
        .index("by_name", ["name"])
}

fn filled(db: &Database, name: &str) -> Table {
    let table = db.create_table(definition(name)).expect("created");
    db.run(|tx| (0..10).try_for_each(|id| tx.insert(&table, row![id, &format!("name {id}"), id * 10])))
        .expect("filled");
    table
}

fn begun(db: &Database) -> Session {
    let mut session = db.session().expect("a session");
    session.begin().expect("begun");
    session
}

fn ids(db: &Database, table: &str) -> Vec<i64> {
    let table = db.table(table).expect("it is there");
    db.run(|tx| tx.scan(&table, Range::all())?.map(|row| row?.int("id")).collect()).expect("read")
}

fn ids_by_index(db: &Database, table: &str, index: &str, n: i64) -> Result<Vec<i64>> {
    let table = db.table(table)?;
    db.run(|tx| tx.scan_index(&table, index, Range::prefix(key![n]))?.map(|row| row?.int("id")).collect())
}

fn names(db: &Database) -> Vec<String> {
    let mut names: Vec<_> = db.tables().iter().map(|table| table.name().to_string()).collect();
    names.sort();
    names
}

/// What a migration does: tables, columns, indexes and rows, in one transaction.
fn migrate(db: &Database, session: &mut Session) -> Result<()> {
    let before = names(db);
    let fresh = session.create_table(definition("fresh"))?;
    session.run(|tx| (1..=3).try_for_each(|id| tx.insert(&fresh, row![id, "x", id])))?;
    let fresh = session.change_table("fresh", TableChange::new().add_index("fresh_by_n", ["n"]))?;
    session.run(|tx| tx.insert(&fresh, row![4, "y", 1]))?;
    let found: Vec<i64> = session.run(|tx| {
        tx.scan_index(&fresh, "fresh_by_n", Range::prefix(key![1]))?.map(|row| row?.int("id")).collect()
    })?;
    assert_eq!(found, [1, 4], "an index of a table of its own is there at once");
    let kept = session.change_table(
        "kept",
        TableChange::new().add_index("kept_by_n", ["n"]).not_null("n").rename("held"),
    )?;
    session.run(|tx| {
        tx.insert(&kept, row![77, "own", 30])?;
        tx.update(&kept, key![5], &[("n", 30.into())])?;
        tx.delete(&kept, key![3])
    })?;
    let wide = session.change_table("wide", TableChange::new().add_column("more", DataType::Int64, 7))?;
    session.run(|tx| tx.update(&wide, key![2], &[("more", 8.into())]))?;
    session.drop_table("gone")?;
    session.truncate(&["emptied"])?;
    let emptied = session.table("emptied")?;
    session.run(|tx| tx.insert(&emptied, row![100, "first", 1]))?;
    assert_eq!(names(db), before, "nothing is visible to others");
    Ok(())
}

fn prepare(db: &Database) {
    ["kept", "wide", "gone", "emptied"].iter().for_each(|name| drop(filled(db, name)));
}

#[test]
fn a_migration_is_invisible_until_its_commit_and_whole_after_it() {
    everywhere(
        |db| {
            prepare(db);
            let old = db.table("kept").expect("it is there");
            let mut session = begun(db);
            migrate(db, &mut session).expect("migrated");
            assert!(matches!(db.table("fresh"), Err(Error::UnknownTable { .. })));
            db.run(|tx| tx.insert(&old, row![50, "rival", 30]))
                .expect("others go on with the old definition");
            assert_eq!(ids(db, "gone").len(), 10);
            session.commit().expect("committed");
            // The session's next transaction writes tables that the last one has made, like any other's.
            session.begin().expect("begun");
            let fresh = session.table("fresh").expect("it is there");
            session.run(|tx| tx.insert(&fresh, row![5, "next", 5])).expect("inserted");
            session.commit().expect("committed");
        },
        |db| {
            assert_eq!(names(db), ["emptied", "fresh", "held", "wide"]);
            assert_eq!(ids(db, "fresh"), [1, 2, 3, 4, 5]);
            assert_eq!(ids_by_index(db, "fresh", "fresh_by_n", 1).expect("read"), [1, 4]);
            assert_eq!(ids(db, "held"), [0, 1, 2, 4, 5, 6, 7, 8, 9, 50, 77]);
            assert_eq!(ids_by_index(db, "held", "kept_by_n", 30).expect("read"), [5, 50, 77]);
            assert_eq!(ids_by_index(db, "held", "kept_by_n", 50).expect("read"), [], "it was changed");
            assert_eq!(ids(db, "emptied"), [100]);
            let wide = db.table("wide").expect("it is there");
            let more: Vec<i64> = db
                .run(|tx| tx.scan(&wide, Range::all())?.map(|row| row?.int("more")).collect())
                .expect("read");
            assert_eq!(more, [7, 7, 8, 7, 7, 7, 7, 7, 7, 7]);
            let held = db.table("held").expect("it is there");
            let refused = db.run(|tx| tx.insert(&held, row![1000, "null", ValueRef::Null]));
            assert!(matches!(refused, Err(Error::NullValue { .. })), "{refused:?}");
            db.check().expect("consistent");
        },
    );
}

#[test]
fn a_rollback_leaves_nothing() {
    everywhere(
        |db| {
            prepare(db);
            let mut session = begun(db);
            migrate(db, &mut session).expect("migrated");
            let fresh = session.table("fresh").expect("its own");
            session.rollback().expect("rolled back");
            let refused = db.run(|tx| tx.get(&fresh, key![1]).map(drop));
            assert!(matches!(refused, Err(Error::TableDropped { .. })), "{refused:?}");
            // The lock of the schema is free, and so are the names.
            db.create_table(definition("fresh")).expect("created");
            db.drop_table("fresh").expect("dropped");
        },
        |db| {
            assert_eq!(names(db), ["emptied", "gone", "kept", "wide"]);
            for name in names(db) {
                assert_eq!(ids(db, &name), (0..10).collect::<Vec<_>>(), "{name}");
            }
            assert!(ids_by_index(db, "kept", "kept_by_n", 30).is_err());
        },
    );
}

#[test]
fn a_savepoint_takes_changes_of_the_schema_back() {
    everywhere(
        |db| {
            prepare(db);
            let mut session = begun(db);
            let fresh = session.create_table(definition("first")).expect("created");
            session.run(|tx| tx.insert(&fresh, row![1, "x", 1])).expect("inserted");
            let kept = session.change_table("kept", TableChange::new().rename("held")).expect("renamed");
            session.run(|tx| tx.insert(&kept, row![20, "before", 1])).expect("inserted");
            let point = session.savepoint().expect("a savepoint");
            session.create_table(definition("second")).expect("created");
            session.drop_table("first").expect("dropped");
            session.drop_table("gone").expect("dropped");
            let change = TableChange::new().rename("wider").drop_column("n");
            session.change_table("wide", change).expect("changed");
            let again = session.change_table("held", TableChange::new().not_null("n")).expect("changed");
            session.run(|tx| tx.insert(&again, row![21, "after", 1])).expect("inserted");
            let refused = session.run(|tx| tx.insert(&kept, row![22, "old handle", 1]));
            assert!(matches!(refused, Err(Error::TableChanged { .. })), "{refused:?}");
            session.rollback_to(&point).expect("back");
            let names: Vec<_> = session.tables().iter().map(|table| table.name().to_string()).collect();
            assert_eq!(names.len(), 5, "{names:?}");
            session.run(|tx| tx.insert(&kept, row![23, "null", ValueRef::Null])).expect("as before");
            session.run(|tx| tx.insert(&fresh, row![2, "y", 2])).expect("as before");
            session.commit().expect("committed");
        },
        |db| {
            assert_eq!(names(db), ["emptied", "first", "gone", "held", "wide"]);
            assert_eq!(ids(db, "first"), [1, 2]);
            assert_eq!(ids(db, "held")[10..], [20, 23]);
            assert_eq!(ids(db, "wide").len(), 10);
        },
    );
}

#[test]
fn rows_that_do_not_fit_fail_the_change_or_its_commit() {
    everywhere(
        |db| {
            let table = filled(db, "a");
            db.run(|tx| tx.insert(&table, row![10, "null", ValueRef::Null])).expect("inserted");
            db.run(|tx| tx.insert(&table, row![11, "twice", 90])).expect("inserted");
            let mut session = begun(db);
            let unique = TableChange::new().add_unique_index("by_n", ["n"]);
            let refused = session.change_table("a", unique.clone());
            assert!(matches!(refused, Err(Error::NotUnique { .. })), "{refused:?}");
            let refused = session.change_table("a", TableChange::new().not_null("n"));
            assert!(matches!(refused, Err(Error::NullValue { .. })), "{refused:?}");
            // Its own writes count.
            session.run(|tx| tx.delete(&table, key![11])).expect("deleted");
            session.change_table("a", unique).expect("unique now");
            db.run(|tx| tx.insert(&table, row![12, "rival", 80])).expect("the index is not there yet");
            let refused = session.commit();
            assert!(matches!(refused, Err(Error::NotUnique { .. } | Error::Conflict)), "{refused:?}");
        },
        |db| {
            assert_eq!(ids(db, "a"), (0..13).collect::<Vec<_>>());
            assert!(ids_by_index(db, "a", "by_n", 90).is_err());
        },
    );
}

#[test]
fn a_unique_index_counts_what_the_transaction_writes_afterwards() {
    everywhere(
        |db| {
            let table = filled(db, "a");
            let change = |session: &mut Session| {
                session.change_table("a", TableChange::new().add_unique_index("by_n", ["n"]))
            };
            let mut session = begun(db);
            let changed = change(&mut session).expect("changed");
            session.run(|tx| tx.insert(&changed, row![20, "twice", 90])).expect("the commit will tell");
            let refused = session.commit();
            assert!(matches!(refused, Err(Error::NotUnique { .. })), "{refused:?}");
            session.begin().expect("begun");
            let changed = change(&mut session).expect("changed");
            session
                .run(|tx| {
                    tx.update(&changed, key![1], &[("n", 20.into())])?;
                    tx.update(&changed, key![2], &[("n", 10.into())])?;
                    tx.add(&changed, key![3], "n", 5)
                })
                .expect("values are exchanged");
            session.commit().expect("committed");
            let refused = db.run(|tx| tx.insert(&table, row![30, "twice", 35]));
            assert!(matches!(refused, Err(Error::DuplicateKey { .. })), "{refused:?}");
        },
        |db| {
            for (n, id) in [(10, 2), (20, 1), (35, 3), (90, 9)] {
                assert_eq!(ids_by_index(db, "a", "by_n", n).expect("read"), [id]);
            }
            assert_eq!(ids_by_index(db, "a", "by_n", 30).expect("read"), []);
        },
    );
}

#[test]
fn rows_that_the_transaction_makes_unique_may_have_a_unique_index() {
    everywhere(
        |db| {
            let table = filled(db, "a");
            let twice = |tx: &Tx<'_, '_>| {
                (0..10).try_for_each(|id| tx.insert(&table, row![100 + id, "twice", id * 10]))
            };
            db.run(twice).expect("inserted");
            let unique = TableChange::new().add_unique_index("by_n", ["n"]);
            let mut session = begun(db);
            let added = || TableChange::new().add_column("m", DataType::Int64, 7);
            let changed = session.change_table("a", added()).expect("changed");
            let remove = |tx: &Tx<'_, '_>, changed: &Table, nine: i64| {
                // By values, by operations, by deletion, and by insertion again.
                (0..3).try_for_each(|id| tx.update(changed, key![id], &[("n", (-1 - id).into())]))?;
                (3..6).try_for_each(|id| tx.add(changed, key![100 + id], "n", 1000))?;
                (6..nine).try_for_each(|id| tx.delete(changed, key![id]).map(drop))?;
                tx.delete(changed, key![107])?;
                tx.insert(changed, row![7, "again", 70, 8])
            };
            session.run(|tx| remove(tx, &changed, 9)).expect("written");
            let refused = session.change_table("a", unique.clone());
            assert!(matches!(refused, Err(Error::NotUnique { .. })), "{refused:?}");
            session.rollback().expect("open");
            session.begin().expect("begun");
            let changed = session.change_table("a", added()).expect("changed");
            session.run(|tx| remove(tx, &changed, 10)).expect("written");
            session.change_table("a", unique).expect("unique now");
            // Rows that are not the transaction's own may change meanwhile.
            db.run(|tx| tx.update(&table, key![108], &[("n", 555.into())])).expect("updated");
            db.run(|tx| tx.insert(&table, row![120, "new", 80])).expect("inserted");
            session.commit().expect("committed");
        },
        |db| {
            let rows = [(-1, 0), (-2, 1), (-3, 2), (0, 100), (10, 101), (20, 102), (30, 3), (40, 4), (50, 5)];
            let more =
                [(60, 106), (70, 7), (80, 120), (90, 109), (555, 108), (1030, 103), (1040, 104), (1050, 105)];
            for (n, id) in rows.into_iter().chain(more) {
                assert_eq!(ids_by_index(db, "a", "by_n", n).expect("read"), [id], "{n}");
            }
            db.check().expect("consistent");
        },
    );
}

#[test]
fn an_index_that_was_dropped_and_added_again_has_what_was_written_meanwhile() {
    everywhere(
        |db| {
            filled(db, "a");
            db.change_table("a", TableChange::new().add_unique_index("by_n", ["n"])).expect("changed");
            let mut session = begun(db);
            let changed = session.change_table("a", TableChange::new().drop_index("by_n")).expect("changed");
            session
                .run(|tx| {
                    tx.insert(&changed, row![50, "meanwhile", 500])?;
                    tx.update(&changed, key![3], &[("n", 33.into())])?;
                    tx.delete(&changed, key![4])
                })
                .expect("written");
            let change = TableChange::new().add_unique_index("by_n", ["n"]);
            session.change_table("a", change).expect("changed");
            session.commit().expect("committed");
        },
        |db| {
            for (n, ids) in [(500, &[50][..]), (33, &[3]), (30, &[]), (40, &[]), (50, &[5])] {
                assert_eq!(ids_by_index(db, "a", "by_n", n).expect("read"), ids);
            }
            db.check().expect("consistent");
        },
    );
}

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

#[test]
fn a_definition_that_is_as_before_takes_effect_like_any_other() {
    for &protocol in ProtocolKind::ALL {
        let options = Options::default().durability(Durability::None).workers(2).protocol(protocol);
        let db = Database::in_memory_with(options).expect("options are right");
        let table = filled(&db, "a");
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let (db, table, done) = (&db, &table, &done);
            for writer in 0..2 {
                scope.spawn(move || {
                    for turn in writer * 1000.. {
                        if done.load(Ordering::Relaxed) {
                            break;
                        }
                        let written = db.run(|tx| match turn % 3 {
                            0 => tx.insert(table, row![1000 + turn, "x", 0]),
                            1 => tx.insert(table, row![11, "x", 0]),
                            _ => tx.delete(table, key![1000 + turn - 2]).map(drop),
                        });
                        assert!(
                            matches!(written, Ok(()) | Err(Error::DuplicateKey { .. })),
                            "{protocol}: {written:?}"
                        );
                    }
                });
            }
            for round in 0..12 {
                let mut session = begun(db);
                let rename = |from: &str, to: &str| TableChange::new().rename_column(from, to);
                let mut change = || -> Result<()> {
                    let there = session.change_table("a", rename("n", "m"))?;
                    session.run(|tx| tx.delete(&there, key![11]).map(drop))?;
                    session.change_table("a", rename("m", "n"))?;
                    session.commit()
                };
                let changed = change();
                assert!(changed.as_ref().err().is_none_or(Error::is_retryable), "{protocol}: {changed:?}");
                drop(session);
                let same = db.change_table("a", TableChange::new()).expect("changed");
                db.run(|tx| tx.insert(&same, row![-1 - round, "same", 0])).expect("it is the table");
            }
            done.store(true, Ordering::Relaxed);
        });
        assert_eq!(ids(&db, "a").iter().filter(|&&id| id < 0).count(), 12);
        db.check().expect("consistent");
    }
}
