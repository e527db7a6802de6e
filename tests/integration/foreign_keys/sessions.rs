//! Foreign keys in the schema changes of a session's transaction: enforced for what it writes, unknown to others until its commit, and
//! gone with its rollback.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use heddledb::testing::SimulatedDisk;
use heddledb::{
    DataType, Database, Error, Options, ProtocolKind, ReferentialAction, Session, Table, TableChange, Value,
    key, row,
};

use crate::foreign_keys::rig::{
    Rig, by_code, by_key, children, every_protocol, no_parent, parents, still_referenced,
};

fn begun(db: &Database) -> Session {
    let mut session = db.session().expect("a session");
    session.begin().expect("begun");
    session
}

fn databases() -> impl Iterator<Item = Database> {
    every_protocol().into_iter().map(|options| Database::in_memory_with(options).expect("options"))
}

/// Parents and children without a foreign key: 1, 2 and 9, and 11 and 12 of 1.
fn unlinked(db: &Database) -> Rig {
    let rig = Rig::new(db.clone(), by_key());
    rig.db
        .change_table("child", TableChange::new().drop_constraint("child_parent").drop_index("child_parent"))
        .expect("dropped");
    rig
}

fn add(session: &mut Session, key: heddledb::ForeignKey) -> heddledb::Result<Table> {
    session.change_table("child", TableChange::new().add_foreign_key(key))
}

#[test]
fn tables_and_rows_come_together() {
    for db in databases() {
        let mut session = begun(&db);
        let orphan = session.create_table(children(by_key()));
        assert!(matches!(orphan, Err(Error::InvalidDefinition { .. })), "{orphan:?}");
        let parents = session.create_table(parents()).expect("parents");
        let key = by_key().on_delete(ReferentialAction::Cascade);
        let children = session.create_table(children(key)).expect("children");
        session
            .run(|tx| {
                [1, 2, 9].iter().try_for_each(|&id| tx.insert(&parents, row![id, id * 10, 0]))?;
                [(11, 1), (12, 1), (13, 2)]
                    .iter()
                    .try_for_each(|&(id, parent)| tx.insert(&children, row![id, parent, 0]))
            })
            .expect("inserted");
        no_parent(session.run(|tx| tx.insert(&children, row![14, 3, 0])));
        no_parent(session.load(|tx| tx.insert(&children, row![14, 3, 0])));
        if matches!(session.state(), heddledb::SessionState::Aborted) {
            panic!("a row that was refused is not loaded");
        }
        session.run(|tx| tx.delete(&parents, key![2])).expect("with its child");
        session.commit().expect("committed");
        let rig = Rig { db, parents, children };
        assert_eq!(rig.children(), [(11, Some(1)), (12, Some(1))]);
        no_parent(rig.db.run(|tx| tx.insert(&rig.children, row![14, 3, 0])));
        rig.db.run(|tx| tx.delete(&rig.parents, key![1])).expect("with its children");
        assert_eq!(rig.children(), []);
        rig.check();
    }
}

#[test]
fn rows_that_are_loaded_have_their_referenced_rows() {
    for db in databases() {
        let mut session = begun(&db);
        let parents = session.create_table(parents()).expect("parents");
        let children = session.create_table(children(by_key())).expect("children");
        session
            .load(|tx| {
                tx.insert(&parents, row![1, 10, 0])?;
                tx.insert(&children, row![11, 1, 0])?;
                // A body may go on after an error.
                no_parent(tx.insert(&children, row![12, 2, 0]));
                tx.insert(&children, row![13, 1, 0])
            })
            .expect("loaded");
        session.commit().expect("committed");
        let rig = Rig { db, parents, children };
        assert_eq!(rig.children(), [(11, Some(1)), (13, Some(1))]);
        rig.check();
        let mut session = begun(&rig.db);
        session.truncate(&["child"]).expect("emptied");
        let deferred =
            TableChange::new().drop_constraint("child_parent").add_foreign_key(by_key().deferred());
        let children = session.change_table("child", deferred).expect("changed");
        session.load(|tx| tx.insert(&children, row![14, 4, 0])).expect("checked later");
        no_parent(session.commit());
        rig.check();
    }
}

#[test]
fn others_know_nothing_of_a_foreign_key_before_its_commit_or_after_its_rollback() {
    for db in databases() {
        let rig = unlinked(&db);
        let mut session = begun(&db);
        let children = add(&mut session, by_key()).expect("all rows refer to parents");
        no_parent(session.run(|tx| tx.insert(&children, row![13, 3, 0])));
        still_referenced(session.run(|tx| tx.delete(&rig.parents, key![1])));
        db.run(|tx| tx.delete(&rig.parents, key![9])).expect("nothing refers to it");
        db.run(|tx| tx.insert(&rig.children, row![15, 2, 0])).expect("unknown to others");
        session.rollback().expect("rolled back");
        db.run(|tx| tx.delete(&rig.parents, key![1])).expect("it is gone");
        db.run(|tx| tx.insert(&rig.children, row![13, 3, 0])).expect("it is gone");
        assert!(rig.children.definition().foreign_keys().is_empty());
        assert!(rig.children.definition().indexes().is_empty());
        db.check().expect("consistent");
    }
}

#[test]
fn what_others_write_meanwhile_fails_the_commit_of_the_foreign_key() {
    for db in databases() {
        let rig = unlinked(&db);
        let mut session = begun(&db);
        add(&mut session, by_key()).expect("all rows refer to parents");
        db.run(|tx| tx.insert(&rig.children, row![13, 3, 0])).expect("unknown to others");
        no_parent(session.commit());
        assert_eq!(rig.children().len(), 3, "the other transaction stays");
        db.run(|tx| tx.delete(&rig.children, key![13])).expect("deleted");
        // A parent that the session deletes, to which a child of another's refers then.
        let mut session = begun(&db);
        add(&mut session, by_key()).expect("all rows refer to parents");
        session.run(|tx| tx.delete(&rig.parents, key![2])).expect("nothing refers to it");
        db.run(|tx| tx.insert(&rig.children, row![13, 2, 0])).expect("it is there");
        session.commit().expect_err("a child has come");
        assert_eq!(rig.parents().len(), 3);
        // A parent that another deletes, to which a child of the session's refers.
        let mut session = begun(&db);
        let children = add(&mut session, by_key()).expect("all rows refer to parents");
        session.run(|tx| tx.insert(&children, row![14, 9, 0])).expect("it is there");
        db.run(|tx| tx.delete(&rig.parents, key![9])).expect("unknown to others");
        session.commit().expect_err("its parent has gone");
        assert_eq!(rig.children().len(), 3);
        db.check().expect("consistent");
    }
}

#[test]
fn a_foreign_key_acts_before_its_index_is_there() {
    for action in crate::foreign_keys::rig::actions() {
        for db in databases() {
            let rig = unlinked(&db);
            let mut session = begun(&db);
            let children = add(&mut session, by_key().on_delete(action)).expect("added");
            session.run(|tx| tx.insert(&children, row![13, 2, 0])).expect("inserted");
            let deleted = session.run(|tx| tx.delete(&rig.parents, key![1]));
            let left = match action {
                ReferentialAction::NoAction | ReferentialAction::Restrict => {
                    still_referenced(deleted);
                    vec![(11, Some(1)), (12, Some(1)), (13, Some(2))]
                }
                ReferentialAction::Cascade => vec![(13, Some(2))],
                ReferentialAction::SetNull => vec![(11, None), (12, None), (13, Some(2))],
                _ => vec![(11, Some(9)), (12, Some(9)), (13, Some(2))],
            };
            session.commit().expect("committed");
            assert_eq!(rig.children(), left, "{action:?}");
            rig.check();
        }
    }
}

#[test]
fn a_foreign_key_may_refer_to_a_unique_index_of_the_same_transaction() {
    let plain = || {
        heddledb::TableDefinition::new("parent")
            .column("id", DataType::Int64)
            .column("code", DataType::Int64)
            .column("n", DataType::Int64)
            .primary_key(["id"])
    };
    for db in databases() {
        let parents = db.create_table(plain()).expect("parents");
        db.run(|tx| (1..4).try_for_each(|id| tx.insert(&parents, row![id, id * 10, 0]))).expect("rows");
        let mut session = begun(&db);
        let refused = session.create_table(children(by_code()));
        assert!(matches!(refused, Err(Error::InvalidDefinition { .. })), "{refused:?}");
        session
            .change_table("parent", TableChange::new().add_unique_index("code", ["code"]))
            .expect("no two share a code");
        let children = session.create_table(children(by_code())).expect("children");
        session.run(|tx| tx.insert(&children, row![11, 20, 0])).expect("it is there");
        no_parent(session.run(|tx| tx.insert(&children, row![12, 21, 0])));
        let renewed = session.table("parent").expect("its own");
        still_referenced(session.run(|tx| tx.update(&renewed, key![2], &[("code", 21.into())])));
        session.commit().expect("committed");
        let rig = Rig { db, parents, children };
        no_parent(rig.db.run(|tx| tx.insert(&rig.children, row![12, 21, 0])));
        rig.check();
    }
    // All in one change, of a table that refers to itself, which drops an index, too.
    for db in databases() {
        let definition = plain().index("by_n", ["n"]);
        let table = db.create_table(definition).expect("a table");
        db.run(|tx| (1..4).try_for_each(|id| tx.insert(&table, row![id, id * 10, id * 10]))).expect("rows");
        let link = || {
            let key = heddledb::ForeignKey::new("of", ["n"], "parent").to_columns(["code"]);
            TableChange::new().drop_index("by_n").add_unique_index("code", ["code"]).add_foreign_key(key)
        };
        db.run(|tx| tx.update(&table, key![1], &[("n", 11.into())])).expect("changed");
        no_parent(db.change_table("parent", link()));
        let mut session = begun(&db);
        no_parent(session.change_table("parent", link()));
        session.rollback().expect("rolled back");
        db.run(|tx| tx.update(&table, key![1], &[("n", 30.into())])).expect("changed");
        db.change_table("parent", link()).expect("all refer to rows");
        still_referenced(db.run(|tx| tx.delete(&table, key![3])));
        db.check().expect("consistent");
    }
}

#[test]
fn a_foreign_key_that_comes_back_counts_what_was_done_without_it() {
    for db in databases() {
        let rig = Rig::new(db.clone(), by_key());
        let mut session = begun(&db);
        let drop_it = || TableChange::new().drop_constraint("child_parent");
        let children = session.change_table("child", drop_it()).expect("dropped");
        session.run(|tx| tx.insert(&children, row![13, 3, 0])).expect("no foreign key");
        no_parent(add(&mut session, by_key()));
        session.run(|tx| tx.delete(&children, key![13])).expect("deleted");
        session.run(|tx| tx.delete(&rig.parents, key![2])).expect("no foreign key");
        add(&mut session, by_key()).expect("all rows refer to parents");
        // For others the foreign key is in force, and so is the parent.
        db.run(|tx| tx.insert(&rig.children, row![14, 2, 0])).expect("it is there");
        session.commit().expect_err("a child has come");
        assert_eq!(rig.parents().len(), 3);
        rig.check();
        let mut session = begun(&db);
        session.change_table("child", drop_it()).expect("dropped");
        session.run(|tx| tx.delete(&rig.parents, key![1])).expect("no foreign key");
        still_referenced(db.run(|tx| tx.delete(&rig.parents, key![1])));
        session.commit().expect("committed");
        assert_eq!(rig.children(), [(11, Some(1)), (12, Some(1)), (14, Some(2))]);
        assert_eq!(rig.parents().len(), 2);
        db.check().expect("consistent");
    }
}

#[test]
fn what_is_referred_to_stays_until_those_that_refer_go() {
    for db in databases() {
        let rig = Rig::new(db.clone(), by_key());
        let mut session = begun(&db);
        let referenced = |result: heddledb::Result<()>| {
            assert!(matches!(&result, Err(Error::TableReferenced { .. })), "{result:?}");
        };
        referenced(session.drop_table("parent"));
        referenced(session.truncate(&["parent"]));
        session.truncate(&["parent", "child"]).expect("both");
        let (parents, children) =
            (session.table("parent").expect("emptied"), session.table("child").expect("emptied"));
        no_parent(session.run(|tx| tx.insert(&children, row![11, 1, 0])));
        session
            .run(|tx| {
                tx.insert(&parents, row![1, 10, 0])?;
                tx.insert(&children, row![11, 1, 0])
            })
            .expect("inserted");
        let point = session.savepoint().expect("a savepoint");
        session.drop_table("child").expect("nothing refers to it");
        session.drop_table("parent").expect("nothing refers to it any more");
        session.rollback_to(&point).expect("rolled back");
        referenced(session.drop_table("parent"));
        still_referenced(session.run(|tx| tx.delete(&parents, key![1])));
        session.commit().expect("committed");
        assert_eq!((rig.parents(), rig.children()), (vec![(1, Some(10))], vec![(11, Some(1))]));
        still_referenced(db.run(|tx| tx.delete(&rig.parents, key![1])));
        let mut session = begun(&db);
        session.drop_table("child").expect("nothing refers to it");
        session.run(|tx| tx.delete(&rig.parents, key![1])).expect("nothing refers to it");
        session.drop_table("parent").expect("nothing refers to it any more");
        still_referenced(db.run(|tx| tx.delete(&rig.parents, key![1])));
        session.commit().expect("committed");
        assert!(db.tables().is_empty());
    }
}

#[test]
fn names_are_followed_and_values_checked() {
    for db in databases() {
        let rig = Rig::new(db.clone(), by_code().on_update(ReferentialAction::Cascade));
        let mut session = begun(&db);
        let point = session.savepoint().expect("a savepoint");
        let elders = session
            .change_table("parent", TableChange::new().rename("elder").rename_column("code", "mark"))
            .expect("renamed");
        let children = session.table("child").expect("it follows");
        let key = &children.definition().foreign_keys()[0];
        assert_eq!((key.table(), key.referenced_columns()), ("elder", &["mark".to_string()][..]));
        session.run(|tx| tx.update(&elders, key![1], &[("mark", 15.into())])).expect("children follow");
        no_parent(session.run(|tx| tx.insert(&children, row![13, 10, 0])));
        // Others still have the old names.
        no_parent(db.run(|tx| tx.insert(&rig.children, row![13, 15, 0])));
        session.rollback_to(&point).expect("rolled back");
        let more = |name: &str| TableChange::new().add_column(name, DataType::Int64, 1);
        session.change_table("parent", more("more")).expect("rebuilt");
        session.change_table("child", more("more")).expect("rebuilt");
        let elders = session.change_table("parent", TableChange::new().rename("elder")).expect("renamed");
        session.run(|tx| tx.update(&elders, key![1], &[("code", 16.into())])).expect("children follow");
        let doubled = |of: i64| {
            TableChange::new().convert("code", DataType::Int64, move |value| match value {
                Value::Int(int) if int == of => Ok(Value::Int(int * 2 + 1)),
                other => Ok(other),
            })
        };
        no_parent(session.change_table("elder", doubled(16)));
        session.change_table("elder", doubled(90)).expect("no child refers to it");
        session.commit().expect("committed");
        assert_eq!(rig.children(), [(11, Some(16)), (12, Some(16))]);
        assert_eq!(rig.parents(), [(1, Some(16)), (2, Some(20)), (9, Some(181))]);
        rig.check();
    }
}

#[test]
fn what_is_deferred_is_checked_by_the_foreign_keys_of_the_commit() {
    for db in databases() {
        let rig = unlinked(&db);
        let mut session = begun(&db);
        let children = add(&mut session, by_key().deferred()).expect("added");
        session.run(|tx| tx.insert(&children, row![13, 3, 0])).expect("checked later");
        session.run(|tx| tx.insert(&rig.parents, row![3, 30, 0])).expect("inserted");
        session.commit().expect("its parent has come");
        let mut session = begun(&db);
        let children =
            session.change_table("child", TableChange::new().rename_column("n", "number")).expect("renamed");
        session.run(|tx| tx.insert(&children, row![14, 4, 0])).expect("checked later");
        no_parent(session.commit());
        assert_eq!(rig.children().len(), 3);
        rig.check();
    }
}

#[test]
fn writers_beside_migrations_leave_no_orphan() {
    for db in databases() {
        let rig = Rig::new(db.clone(), by_key());
        let done = AtomicBool::new(false);
        let is_expected = |error: &Error| {
            matches!(error, Error::NoReferencedRow { .. } | Error::StillReferenced { .. })
                || matches!(error, Error::DuplicateKey { .. })
        };
        thread::scope(|scope| {
            let (rig, done) = (&rig, &done);
            for writer in 0..2 {
                scope.spawn(move || {
                    let mut turn = writer * 1000;
                    while !done.load(Ordering::Relaxed) {
                        turn += 1;
                        let parent = 100 + turn % 3;
                        let write = rig.db.run(|tx| match turn % 5 {
                            0 => tx.delete(&rig.parents, key![parent]).map(drop),
                            1 | 2 => tx.insert(&rig.parents, row![parent, parent, 0]),
                            3 => tx.insert(&rig.children, row![1000 + turn, parent, 0]),
                            _ => tx.delete(&rig.children, key![1000 + turn - 1]).map(drop),
                        });
                        if let Err(error) = write {
                            assert!(is_expected(&error), "{turn}: {error}");
                        }
                    }
                });
            }
            let mut committed = 0;
            while committed < 12 {
                let mut session = begun(&rig.db);
                let mut migrate = || {
                    let children =
                        session.change_table("child", TableChange::new().drop_constraint("child_parent"))?;
                    session.run(|tx| {
                        // Without the foreign key, and with it again this would leave orphans.
                        tx.delete(&rig.parents, key![101]).map(drop)?;
                        tx.delete(&children, key![11]).map(drop)
                    })?;
                    session.change_table("child", TableChange::new().add_foreign_key(by_key()))?;
                    session.commit()
                };
                match migrate() {
                    Ok(()) => committed += 1,
                    Err(error) if error.is_retryable() || is_expected(&error) => committed += 1,
                    Err(error) => panic!("{error}"),
                }
                let _ = session.rollback();
            }
            done.store(true, Ordering::Relaxed);
        });
        rig.check();
    }
}

/// Tables with rows, and a foreign key between tables that there were.
fn migrate(db: &Database) {
    let mut session = begun(db);
    let children = add(&mut session, by_key().on_delete(ReferentialAction::Cascade)).expect("added");
    let of = heddledb::ForeignKey::new("grandchild_of", ["of"], "child");
    let grandchildren = heddledb::TableDefinition::new("grandchild")
        .column("id", DataType::Int64)
        .column("of", DataType::Int64)
        .primary_key(["id"])
        .foreign_key(of.on_delete(ReferentialAction::Cascade));
    let grandchildren = session.create_table(grandchildren).expect("created");
    let parents = session.table("parent").expect("it is there");
    session
        .run(|tx| {
            tx.insert(&children, row![13, 2, 0])?;
            [(21, 11), (22, 13)].iter().try_for_each(|&(id, of)| tx.insert(&grandchildren, row![id, of]))?;
            tx.delete(&parents, key![1])
        })
        .expect("with children and grandchildren");
    session.commit().expect("committed");
}

#[test]
fn power_loss_at_every_boundary_leaves_all_of_it_or_nothing() {
    for &protocol in ProtocolKind::ALL {
        let options = |disk: &SimulatedDisk| {
            let options = Options::default().protocol(protocol).disk(Arc::new(disk.clone()));
            options.log(|log| log.segment_bytes(1 << 20).buffer_bytes(1 << 18))
        };
        let disk = SimulatedDisk::new();
        let db = Database::open("/db", options(&disk)).expect("opened");
        let rig = unlinked(&db);
        let images = Arc::new(Mutex::new(Vec::new()));
        let kept = images.clone();
        disk.watch(move |moment| kept.lock().expect("no panic").push(moment.image(moment.number())));
        migrate(&db);
        disk.watch_no_more();
        drop(rig);
        let mut images = std::mem::take(&mut *images.lock().expect("no panic"));
        images.push(disk.crash_image(1));
        let mut outcomes = [0, 0];
        for image in &images {
            let db = Database::open("/db", options(image)).expect("recovered");
            let (parents, children) =
                (db.table("parent").expect("parents"), db.table("child").expect("children"));
            let is_new = db.table("grandchild").is_ok();
            outcomes[usize::from(is_new)] += 1;
            let rig = Rig { db, parents, children };
            assert_eq!(!rig.children.definition().foreign_keys().is_empty(), is_new);
            assert_eq!(rig.parents().len(), if is_new { 2 } else { 3 });
            let expected = if is_new { vec![(13, Some(2))] } else { vec![(11, Some(1)), (12, Some(1))] };
            assert_eq!(rig.children(), expected);
            if is_new {
                no_parent(rig.db.run(|tx| tx.insert(&rig.children, row![14, 1, 0])));
                rig.check();
            }
            rig.db.check().expect("consistent");
        }
        assert!(outcomes.iter().all(|&count| count > 0), "{protocol}: {outcomes:?}");
    }
}

#[test]
fn a_transaction_that_went_back_behind_the_lock_disturbs_no_other_ones_foreign_keys() {
    for db in databases() {
        let rig = unlinked(&db);
        let mut first = begun(&db);
        let point = first.savepoint().expect("a savepoint");
        add(&mut first, by_key()).expect("added");
        first.rollback_to(&point).expect("gone back");
        // Others may change the schema now, though the first transaction goes on.
        let mut second = begun(&db);
        add(&mut second, by_key().on_delete(ReferentialAction::Cascade)).expect("added");
        first.rollback().expect("rolled back");
        second.run(|tx| tx.delete(&rig.parents, key![1])).expect("deleted");
        assert!(second.commit().is_ok(), "the children are gone with their parent");
        assert_eq!(rig.children(), []);
        rig.check();
    }
}
