//! Tables are dropped, emptied and changed while transactions run, under every protocol; and recovered as they were.

mod columns;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::support::tables::{everywhere, on_disk};
use heddledb::testing::SimulatedDisk;
use heddledb::{
    Action, DataType, Database, Durability, Error, Options, Procedure, ProcedureDefinition, ProtocolKind,
    Range, Result, Table, TableChange, TableDefinition, Value, ValueRef, args, key, row,
};

fn definition(name: &str) -> TableDefinition {
    TableDefinition::new(name)
        .column("id", DataType::Int64)
        .column("name", DataType::Text)
        .column("n", DataType::Int64)
        .not_null()
        .default(0)
        .primary_key(["id"])
        .index("by_name", ["name"])
}

/// A table of ten rows: id, a name that every two rows share, and ten times the id.
fn filled(db: &Database, name: &str) -> Table {
    let table = db.create_table(definition(name)).expect("created");
    db.run(|tx| (0..10).try_for_each(|id| tx.insert(&table, row![id, &format!("name {}", id / 2), id * 10])))
        .expect("filled");
    table
}

fn rows(db: &Database, table: &Table) -> Vec<Vec<Value>> {
    db.run(|tx| tx.scan(table, Range::all())?.map(|row| Ok(row?.to_values())).collect()).expect("read")
}

fn by_index(db: &Database, table: &Table, index: &str, name: &str) -> Result<Vec<i64>> {
    db.run(|tx| tx.scan_index(table, index, Range::prefix(key![name]))?.map(|row| row?.int("id")).collect())
}

#[test]
fn a_dropped_table_is_gone_and_its_name_is_free() {
    everywhere(
        |db| {
            let table = filled(db, "a");
            filled(db, "b");
            db.drop_table("a").expect("dropped");
            let refused = db.run(|tx| tx.get(&table, key![1]).map(drop));
            assert!(matches!(refused, Err(Error::TableDropped { .. })), "{refused:?}");
            let refused = db.run(|tx| tx.insert(&table, row![99, "x", 1]));
            assert!(matches!(refused, Err(Error::TableDropped { .. })), "{refused:?}");
            assert!(matches!(db.drop_table("a"), Err(Error::UnknownTable { .. })));
            let again = db.create_table(definition("a")).expect("the name is free");
            db.run(|tx| tx.insert(&again, row![7, "new", 1])).expect("inserted");
        },
        |db| {
            let table = db.table("a").expect("the new one");
            assert_eq!(rows(db, &table), [vec![Value::Int(7), Value::Text("new".into()), Value::Int(1)]]);
            assert_eq!(db.tables().len(), 2);
            assert_eq!(rows(db, &db.table("b").expect("the other one")).len(), 10);
        },
    );
}

#[test]
fn truncated_tables_are_empty_and_can_be_filled_again() {
    everywhere(
        |db| {
            let (a, b) = (filled(db, "a"), filled(db, "b"));
            db.truncate(&["a", "b"]).expect("truncated");
            assert!(rows(db, &a).is_empty() && rows(db, &b).is_empty(), "handles follow");
            db.run(|tx| tx.insert(&a, row![1, "one", 1])).expect("inserted");
        },
        |db| {
            let (a, b) = (db.table("a").expect("it is there"), db.table("b").expect("it is there"));
            assert_eq!((rows(db, &a).len(), rows(db, &b).len()), (1, 0));
            assert_eq!(by_index(db, &a, "by_name", "one"), Ok(vec![1]));
        },
    );
}

#[test]
fn an_index_is_added_filled_used_and_dropped() {
    everywhere(
        |db| {
            let table = filled(db, "a");
            db.change_table("a", TableChange::new().add_unique_index("by_n", ["n"])).expect("added");
            let duplicate = db.run(|tx| tx.insert(&table, row![100, "x", 30]));
            assert!(matches!(duplicate, Err(Error::DuplicateKey { .. })), "{duplicate:?}");
            db.run(|tx| tx.insert(&table, row![100, "x", 31])).expect("another value");
            db.run(|tx| tx.update(&table, key![3], &[("n", ValueRef::Int(33))])).expect("maintained");
            db.change_table("a", TableChange::new().drop_index("by_name")).expect("dropped");
        },
        |db| {
            let table = db.table("a").expect("it is there");
            let find = |n: i64| {
                db.run(|tx| {
                    tx.scan_index(&table, "by_n", Range::prefix(key![n]))?.map(|row| row?.int("id")).collect()
                })
            };
            assert_eq!(find(31), Ok(vec![100]));
            assert_eq!((find(33), find(30)), (Ok(vec![3]), Ok(Vec::<i64>::new())));
            assert!(matches!(by_index(db, &table, "by_name", "name 1"), Err(Error::UnknownIndex { .. })));
            db.check().expect("rows and indexes agree");
        },
    );
}

#[test]
fn several_indexes_on_the_same_columns_are_kept_apart() {
    everywhere(
        |db| {
            let table = filled(db, "a");
            db.change_table("a", TableChange::new().add_index("by_name_again", ["name"])).expect("added");
            db.change_table("a", TableChange::new().add_index("by_name_for_good", ["name"])).expect("added");
            db.run(|tx| tx.insert(&table, row![100, "name 1", 1])).expect("inserted into all of them");
            db.run(|tx| tx.delete(&table, key![2])).expect("deleted from all of them");
            db.change_table("a", TableChange::new().drop_index("by_name")).expect("dropped");
            db.run(|tx| tx.insert(&table, row![101, "name 1", 1])).expect("inserted into both");
        },
        |db| {
            let table = db.table("a").expect("it is there");
            for index in ["by_name_again", "by_name_for_good"] {
                assert_eq!(by_index(db, &table, index, "name 1"), Ok(vec![3, 100, 101]), "{index}");
            }
        },
    );
}

#[test]
fn a_unique_index_that_rows_violate_changes_nothing() {
    everywhere(
        |db| {
            let table = filled(db, "a");
            let refused = db.change_table("a", TableChange::new().add_unique_index("by_name_once", ["name"]));
            assert!(matches!(refused, Err(Error::NotUnique { .. })), "{refused:?}");
            db.run(|tx| tx.insert(&table, row![100, "name 1", 1])).expect("not unique");
        },
        |db| {
            let table = db.table("a").expect("it is there");
            assert_eq!(table.definition().indexes().len(), 1);
            assert_eq!(by_index(db, &table, "by_name", "name 1"), Ok(vec![2, 3, 100]));
        },
    );
}

fn counting(db: &Database, table: &Table) -> Procedure {
    let action = Action::write(table)
        .key(|args, key| key.push(args.int(0)?))
        .body(|action| action.update(&[("n", ValueRef::Int(1))]));
    db.register(ProcedureDefinition::new("count").parameter("id", DataType::Int64).phase([action]))
        .expect("sound")
}

#[test]
fn a_procedure_has_to_be_registered_again() {
    for &protocol in ProtocolKind::ALL {
        let db = Database::in_memory_with(Options::default().durability(Durability::None).protocol(protocol))
            .expect("open");
        let table = filled(&db, "a");
        let count = counting(&db, &table);
        db.call(&count, args![1]).expect("it runs");
        db.change_table("a", TableChange::new().add_column("x", DataType::Int64, 1)).expect("changed");
        let stale = db.call(&count, args![1]);
        assert!(matches!(stale, Err(Error::TableChanged { .. })), "{protocol:?}: {stale:?}");
        drop(count);
        let count = counting(&db, &table);
        db.call(&count, args![1]).expect("registered again");
        db.drop_table("a").expect("dropped");
        let stale = db.call(&count, args![1]);
        assert!(
            matches!(stale, Err(Error::TableChanged { .. } | Error::TableDropped { .. })),
            "{protocol:?}: {stale:?}"
        );
    }
}

/// Writers move amounts between rows while the schema changes: none is lost, and each sees one schema.
#[test]
fn transactions_run_while_the_schema_changes() {
    for &protocol in ProtocolKind::ALL {
        let disk = SimulatedDisk::new();
        let db = Database::open("/db", on_disk(&disk).protocol(protocol)).expect("opened");
        let table = filled(&db, "a");
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            for writer in 0..3_i64 {
                let (db, table, stop) = (&db, &table, &stop);
                scope.spawn(move || {
                    let mut random = writer;
                    while !stop.load(Ordering::Relaxed) {
                        random = (random * 1_103_515_245 + 12_345) % 2_147_483_648;
                        let (from, to) = (random % 10, (random / 10) % 10);
                        db.run(|tx| {
                            tx.add(table, key![from], "n", -1)?;
                            tx.add(table, key![to], "n", 1)
                        })
                        .expect("both rows are there");
                    }
                });
            }
            for round in 0..6 {
                let change = match round % 3 {
                    0 => TableChange::new().add_index("by_n", ["n"]),
                    1 => TableChange::new().drop_index("by_n").add_column(
                        format!("c{round}"),
                        DataType::Int64,
                        round,
                    ),
                    _ => TableChange::new().set_default("n", round),
                };
                db.change_table("a", change).expect("changed");
                let sum =
                    db.run(|tx| tx.scan(&table, Range::all())?.map(|row| row?.int("n")).sum::<Result<i64>>());
                assert_eq!(sum, Ok(450), "{protocol:?}, round {round}");
            }
            stop.store(true, Ordering::Relaxed);
        });
        db.check().expect("rows and indexes agree");
        db.close().expect("closed");
        let db = Database::open("/db", on_disk(&disk).protocol(protocol)).expect("recovered");
        let table = db.table("a").expect("it is there");
        let sum = db.run(|tx| tx.scan(&table, Range::all())?.map(|row| row?.int("n")).sum::<Result<i64>>());
        assert_eq!((sum, table.definition().columns().len()), (Ok(450), 5), "{protocol:?}");
    }
}

/// A snapshot keeps the schema of its epoch, through a handle that is as old as it is.
#[test]
fn a_snapshot_reads_the_tables_that_there_were() {
    for &protocol in ProtocolKind::ALL {
        let db = Database::in_memory_with(Options::default().durability(Durability::None).protocol(protocol))
            .expect("open");
        let (a, b) = (filled(&db, "a"), filled(&db, "b"));
        let snapshot = db.snapshot().expect("a snapshot");
        let count = |table| snapshot.scan(table, Range::all()).map(|scan| scan.count());
        db.truncate(&["a"]).expect("truncated");
        db.run(|tx| tx.insert(&a, row![77, "later", 1])).expect("inserted");
        db.drop_table("b").expect("dropped");
        assert_eq!((count(&a), count(&b)), (Ok(10), Ok(10)), "{protocol:?}");
        let newer = db.table("a").expect("it is there");
        assert!(matches!(count(&newer), Err(Error::TableNewer { .. })), "{protocol:?}");
        let now = db.snapshot().expect("a snapshot");
        assert_eq!(now.scan(&a, Range::all()).map(|scan| scan.count()), Ok(1));
        assert!(matches!(now.exists(&b, key![1]), Err(Error::TableDropped { .. })));
    }
}

/// A session that has used a table conflicts with a later change of it, and goes on with the new one.
#[test]
fn a_session_conflicts_with_a_change_of_what_it_has_used() {
    for &protocol in ProtocolKind::ALL {
        let db = Database::in_memory_with(Options::default().durability(Durability::None).protocol(protocol))
            .expect("open");
        let (a, b) = (filled(&db, "a"), filled(&db, "b"));
        let mut session = db.session().expect("a session");
        session.begin().expect("begun");
        session.run(|tx| tx.update(&a, key![1], &[("n", ValueRef::Int(5))])).expect("updated");
        db.change_table("a", TableChange::new().add_index("by_n", ["n"])).expect("changed");
        let refused = session.commit();
        assert!(
            refused.as_ref().is_err_and(|error| error.sqlstate() == "40001"),
            "{protocol:?}: {refused:?}"
        );
        session.begin().expect("begun again");
        session.run(|tx| tx.update(&b, key![1], &[("n", ValueRef::Int(5))])).expect("updated");
        db.change_table("a", TableChange::new().drop_index("by_n")).expect("changed");
        session.run(|tx| tx.update(&a, key![1], &[("n", ValueRef::Int(6))])).expect("updated");
        session.commit().expect("it had not used that table before");
        assert_eq!(rows(&db, &a)[1][2], Value::Int(6));
    }
}

#[test]
fn wrong_changes_are_refused_and_change_nothing() {
    let db = Database::in_memory_with(Options::default().durability(Durability::None)).expect("open");
    filled(&db, "a");
    filled(&db, "b");
    let before = db.table("a").expect("it is there").definition().clone();
    let refused = |change| db.change_table("a", change).expect_err("refused").sqlstate();
    assert_eq!(refused(TableChange::new().drop_column("missing")), "42703");
    assert_eq!(refused(TableChange::new().drop_index("missing")), "42704");
    assert_eq!(refused(TableChange::new().rename("b")), "42P07");
    assert_eq!(refused(TableChange::new().drop_column("id")), refused(TableChange::new().nullable("id")));
    assert!(matches!(
        db.change_table("a", TableChange::new().rename("heddle_x")),
        Err(Error::InvalidDefinition { .. })
    ));
    assert!(matches!(db.drop_table("heddle_table"), Err(Error::InvalidDefinition { .. })));
    let nested = db.run(|_| db.drop_table("b"));
    assert!(matches!(nested, Err(Error::Nested { .. })), "{nested:?}");
    assert_eq!(*db.table("a").expect("it is there").definition(), before);
}

/// Sessions change the schema beside closures, snapshots and checkpoints; what is then on disk is one whole schema with all
/// amounts.
#[test]
fn sessions_change_the_schema_beside_snapshots_and_checkpoints() {
    for &protocol in ProtocolKind::ALL {
        let disk = SimulatedDisk::new();
        let db = Database::open("/db", on_disk(&disk).protocol(protocol)).expect("opened");
        let table = filled(&db, "a");
        let (stop, pause) = (AtomicBool::new(false), AtomicBool::new(false));
        let sum = |rows: Result<Vec<i64>>| rows.map(|rows| rows.iter().sum::<i64>());
        thread::scope(|scope| {
            for writer in 0..2_i64 {
                let (db, table, stop, pause) = (&db, &table, &stop, &pause);
                scope.spawn(move || {
                    for round in (0..).take_while(|_| !stop.load(Ordering::Relaxed)) {
                        while pause.load(Ordering::Relaxed) && !stop.load(Ordering::Relaxed) {
                            thread::yield_now();
                        }
                        let (from, to) = ((round + writer) % 10, (round * 3 + 1) % 10);
                        db.run(|tx| {
                            tx.add(table, key![from], "n", -1)?;
                            tx.add(table, key![to], "n", 1)
                        })
                        .expect("both rows are there");
                    }
                });
            }
            let observer = scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let snapshot = db.snapshot().expect("a snapshot");
                    let rows = snapshot
                        .scan(&table, Range::all())
                        .and_then(|rows| rows.map(|row| row?.row().int("n")).collect());
                    assert_eq!(sum(rows), Ok(450), "{protocol:?}");
                    db.checkpoint().expect("a checkpoint");
                }
            });
            for round in 0..12 {
                // A rebuild reads all rows, so it conflicts with writers; not forever.
                for attempt in 1.. {
                    pause.store(attempt > 20, Ordering::Relaxed);
                    match change_in_session(&db, round) {
                        Ok(()) => break,
                        Err(error) => assert_eq!(error, Error::Conflict, "{protocol:?}, round {round}"),
                    }
                }
                pause.store(false, Ordering::Relaxed);
            }
            stop.store(true, Ordering::Relaxed);
            observer.join().expect("each snapshot has one schema");
        });
        db.check().expect("rows and indexes agree");
        for db in
            [Database::open("/db", on_disk(&disk.crash_image(3)).protocol(protocol)).expect("recovered"), db]
        {
            let table = db.table("a").expect("it is there");
            db.check().expect("rows and indexes agree");
            let rows = db.run(|tx| tx.scan(&table, Range::all())?.map(|row| row?.int("n")).collect());
            assert_eq!((sum(rows), table.definition().columns().len()), (Ok(450), 3), "{protocol:?}");
            assert!(db.table("temporary").is_err());
        }
    }
}

/// Adds an index, a column or a check, with a table beside it, or takes them away again.
fn change_in_session(db: &Database, round: i64) -> Result<()> {
    let mut session = db.session()?;
    session.begin()?;
    let change = match round % 4 {
        0 => TableChange::new().add_index("by_n", ["n"]).add_check("sane", "n > -1000000"),
        1 => TableChange::new().drop_index("by_n").drop_constraint("sane"),
        2 => TableChange::new().add_column("more", DataType::Int64, round),
        _ => TableChange::new().drop_column("more"),
    };
    session.change_table("a", change)?;
    if round % 2 == 0 {
        session.create_table(definition("temporary"))?;
    } else {
        session.drop_table("temporary")?;
    }
    session.commit()
}
