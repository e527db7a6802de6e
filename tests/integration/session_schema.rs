//! Schema changes inside a session's transaction: private until the commit, undone by rollback and savepoints, atomic in a
//! crash; under every protocol, and beside transactions that go on with the schema as it was.

mod rivals;
mod unique_indexes;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::support::tables::everywhere;
use heddledb::{
    DataType, Database, Durability, Error, Options, ProtocolKind, Range, Result, Session, Table, TableChange,
    TableDefinition, ValueRef, key, row,
};

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

/// The work of a migration: tables, columns, indexes and rows, in one transaction.
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
