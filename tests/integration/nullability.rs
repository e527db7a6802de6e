//! Tables in which no column can be NULL, before and after a column becomes nullable: under every protocol, in snapshots,
//! sessions, indexes and feeds, and after recovery.

use crate::support::split;
use crate::support::tables::{DATABASE, dump, everywhere, in_memory, on_disk};
use heddledb::testing::SimulatedDisk;
use heddledb::{
    Change, DataType, Database, Error, ProtocolKind, Range, Result, Row, SplitOperation, Table, TableChange,
    TableDefinition, Value, ValueRef, key, row, set,
};

const LONG: &str = "a name that is longer than a word";

fn definition() -> TableDefinition {
    TableDefinition::new("item")
        .column("id", DataType::Int64)
        .column("n", DataType::Int64)
        .not_null()
        .column("name", DataType::Text)
        .not_null()
        .primary_key(["id"])
        .index("by_n", ["n"])
}

/// A table of rows `id`, ten times `id` and a long name.
fn filled(db: &Database) -> Table {
    let items = db.create_table(definition()).expect("created");
    db.run(|tx| (0..6).try_for_each(|id| tx.insert(&items, row![id, id * 10, LONG]))).expect("filled");
    items
}

fn change(db: &Database, change: TableChange) -> Result<()> {
    db.change_table("item", change).map(drop)
}

fn text(value: &str) -> Value {
    Value::Text(value.to_string())
}

/// The rows as text, without the long name.
fn rows(db: &Database) -> Vec<String> {
    let rows = dump(db, &db.table("item").expect("the table"));
    let one = |row: &Vec<Value>| {
        let values: Vec<_> = row.iter().map(|value| format!("{value:?}")).collect();
        values.join(" ").replace(&format!("{:?}", text(LONG)), "LONG")
    };
    rows.iter().map(one).collect()
}

#[test]
fn a_column_can_be_null_beside_rows_that_were_made_without() {
    let made = |db: &Database| {
        let items = filled(db);
        change(db, TableChange::new().nullable("n").nullable("name")).expect("changed");
        let null = Value::Null;
        db.run(|tx| {
            tx.update(&items, key![1], &[("n", ValueRef::from(&null))])?;
            tx.update(&items, key![2], &[("name", ValueRef::from(&null))])?;
            tx.update(&items, key![3], &[("n", ValueRef::from(&null)), ("name", ValueRef::from(&null))])?;
            tx.add(&items, key![4], "n", 1)?;
            tx.insert(&items, row![7, Option::<i64>::None, "short"])
        })
        .expect("written");
        db.run(|tx| {
            tx.update(&items, key![3], set! { n: 33 })?;
            tx.add(&items, key![1], "n", 5)?;
            tx.delete(&items, key![5]).map(drop)
        })
        .expect("written");
        db.run(|tx| tx.insert(&items, row![5, 1, Option::<&str>::None])).expect("again");
    };
    let expected = [
        "Int(0) Int(0) LONG",
        "Int(1) Null LONG",
        "Int(2) Int(20) Null",
        "Int(3) Int(33) Null",
        "Int(4) Int(41) LONG",
        "Int(5) Int(1) Null",
        "Int(7) Null Text(\"short\")",
    ];
    everywhere(made, |db| {
        assert_eq!(rows(db), expected);
        let items = db.table("item").expect("the table");
        let by_n = |tx: &heddledb::Tx<'_, '_>| {
            let rows = tx.scan_index(&items, "by_n", Range::all())?;
            rows.map(|row| row?.int("id")).collect::<Result<Vec<_>>>()
        };
        let mut ids = db.run(by_n).expect("read");
        ids.sort_unstable();
        assert_eq!(ids, [0, 1, 2, 3, 4, 5, 7]);
        let refused = change(db, TableChange::new().not_null("n"));
        assert!(matches!(refused, Err(Error::NullValue { .. })), "{refused:?}");
        db.check().expect("consistent");
    });
}

#[test]
fn a_column_that_refuses_null_again_keeps_its_rows() {
    let made = |db: &Database| {
        let items = filled(db);
        change(db, TableChange::new().nullable("n")).expect("changed");
        let null = |id: i64| db.run(|tx| tx.update(&items, key![id], &[("n", ValueRef::Null)]));
        null(1).expect("written");
        null(2).expect("written");
        db.run(|tx| tx.delete(&items, key![2])).expect("deleted");
        db.run(|tx| tx.update(&items, key![1], set! { n: 11 })).expect("written");
        change(db, TableChange::new().not_null("n")).expect("changed");
        assert!(matches!(null(1), Err(Error::NullValue { .. })));
        db.run(|tx| (0..2).try_for_each(|id| tx.add(&items, key![id], "n", 1))).expect("written");
        change(db, TableChange::new().nullable("name")).expect("changed");
        db.run(|tx| tx.update(&items, key![0], &[("name", ValueRef::Null)])).expect("written");
    };
    let expected = [
        "Int(0) Int(1) Null",
        "Int(1) Int(12) LONG",
        "Int(3) Int(30) LONG",
        "Int(4) Int(40) LONG",
        "Int(5) Int(50) LONG",
    ];
    everywhere(made, |db| {
        assert_eq!(rows(db), expected);
        db.check().expect("consistent");
    });
}

#[test]
fn columns_are_added_before_and_after_a_column_can_be_null() {
    let made = |db: &Database| {
        let items = filled(db);
        change(db, TableChange::new().add_column("first", DataType::Int64, 7).not_null("first"))
            .expect("added");
        db.run(|tx| tx.update(&items, key![0], set! { first: 8 })).expect("written");
        change(db, TableChange::new().add_column("second", DataType::Text, Value::Null)).expect("added");
        db.run(|tx| tx.update(&items, key![1], set! { second: LONG })).expect("written");
        change(db, TableChange::new().nullable("first")).expect("changed");
        db.run(|tx| tx.update(&items, key![2], &[("first", ValueRef::Null)])).expect("written");
        change(db, TableChange::new().add_column("third", DataType::Int64, 9)).expect("added");
        db.run(|tx| (1..4).try_for_each(|id| tx.update(&items, key![id], &[("third", ValueRef::Null)])))
            .expect("written");
        db.run(|tx| tx.update(&items, key![3], set! { third: 1 })).expect("written");
    };
    let expected = [
        "Int(0) Int(0) LONG Int(8) Null Int(9)",
        "Int(1) Int(10) LONG Int(7) LONG Null",
        "Int(2) Int(20) LONG Null Null Null",
        "Int(3) Int(30) LONG Int(7) Null Int(1)",
        "Int(4) Int(40) LONG Int(7) Null Int(9)",
        "Int(5) Int(50) LONG Int(7) Null Int(9)",
    ];
    everywhere(made, |db| {
        assert_eq!(rows(db), expected);
        db.check().expect("consistent");
    });
}

/// The value that rows of the past have in such a column is NULL, although no row has it.
#[test]
fn a_column_that_was_added_not_null_is_null_in_no_row() {
    for is_filled_first in [false, true] {
        let disk = SimulatedDisk::new();
        let open = || Database::open(DATABASE, on_disk(&disk)).expect("opened");
        let db = open();
        let items = db.create_table(definition()).expect("created");
        let add = TableChange::new().add_column("more", DataType::Int64, Value::Null);
        if is_filled_first {
            db.run(|tx| tx.insert(&items, row![1, 10, LONG])).expect("inserted");
            change(&db, add).expect("added");
            db.run(|tx| tx.update(&items, key![1], set! { more: 5 })).expect("written");
            change(&db, TableChange::new().not_null("more")).expect("changed");
        } else {
            change(&db, add.not_null("more")).expect("added");
            db.run(|tx| tx.insert(&items, row![1, 10, LONG, 5])).expect("inserted");
        }
        db.checkpoint().expect("a checkpoint");
        db.close().expect("closed");
        // No column can be NULL when the records are made again.
        let db = open();
        change(&db, TableChange::new().nullable("n")).expect("changed");
        assert_eq!(rows(&db), ["Int(1) Int(10) LONG Int(5)"], "{is_filled_first}");
        db.run(|tx| tx.update(&db.table("item")?, key![1], &[("n", ValueRef::Null)])).expect("written");
        assert_eq!(rows(&db), ["Int(1) Null LONG Int(5)"]);
        db.check().expect("consistent");
    }
}

#[test]
fn more_than_64_columns_have_all_their_null_bits() {
    let made = |db: &Database| {
        let key = TableDefinition::new("item").column("id", DataType::Int64);
        let wide = (1..70).fold(key, |of, at| of.column(format!("c{at}"), DataType::Int64).not_null());
        let items = db.create_table(wide.primary_key(["id"])).expect("created");
        let row = |id: i64| (0..70).map(|at| ValueRef::Int(id + at)).collect::<Vec<_>>();
        db.run(|tx| (0..3).try_for_each(|id| tx.insert(&items, row(id)))).expect("filled");
        change(db, TableChange::new().nullable("c3").nullable("c69")).expect("changed");
        db.run(|tx| tx.update(&items, key![0], &[("c3", ValueRef::Null)])).expect("written");
        db.run(|tx| tx.update(&items, key![1], &[("c69", ValueRef::Null)])).expect("written");
        change(db, TableChange::new().add_column("more", DataType::Int64, Value::Null)).expect("added");
        db.run(|tx| tx.update(&items, key![2], set! { more: 1 })).expect("written");
    };
    everywhere(made, |db| {
        let rows = dump(db, &db.table("item").expect("the table"));
        let nulls = |row: &[Value]| (0..71).filter(|&at| row[at] == Value::Null).collect::<Vec<_>>();
        let nulls: Vec<_> = rows.iter().map(|row| nulls(row)).collect();
        assert_eq!(nulls, [vec![3, 70], vec![69, 70], vec![]]);
        assert_eq!(rows[2][69], Value::Int(71));
    });
}

#[test]
fn snapshots_have_the_rows_of_their_time() {
    for &protocol in ProtocolKind::ALL {
        let disk = SimulatedDisk::new();
        let db = Database::open(DATABASE, on_disk(&disk).protocol(protocol)).expect("opened");
        let items = filled(&db);
        let before = db.snapshot().expect("a snapshot");
        change(&db, TableChange::new().nullable("name")).expect("changed");
        db.run(|tx| tx.update(&items, key![1], &[("name", ValueRef::Null)])).expect("written");
        let between = db.snapshot().expect("a snapshot");
        db.run(|tx| tx.update(&items, key![1], set! { name: "another" })).expect("written");
        let name = |snapshot: &heddledb::Snapshot| {
            snapshot.get(&items, key![1]).expect("read").expect("a row").row().to_values()[2].clone()
        };
        assert_eq!((name(&before), name(&between)), (text(LONG), Value::Null), "{protocol}");
    }
}

#[test]
fn what_a_snapshots_scan_leaves_out_is_null() {
    let db = in_memory();
    let items = filled(&db);
    let snapshot = db.snapshot().expect("a snapshot");
    let scan = snapshot.scan(&items, Range::all()).expect("a scan").with_columns(["n"]).expect("columns");
    let rows: Vec<_> = scan.map(|row| row.expect("a row").to_values()).collect();
    let expected: Vec<_> = (0..6).map(|id| vec![Value::Int(id), Value::Int(id * 10), Value::Null]).collect();
    assert_eq!(rows, expected);
}

#[test]
fn a_session_has_null_before_others_and_a_rollback_takes_it_back() {
    let made = |db: &Database| {
        let old = filled(db);
        let mut session = db.session().expect("a session");
        session.begin().expect("begun");
        session.run(|tx| tx.insert(&old, row![10, 0, LONG])).expect("inserted");
        let new = session.change_table("item", TableChange::new().nullable("n")).expect("changed");
        session.run(|tx| tx.update(&new, key![1], &[("n", ValueRef::Null)])).expect("written");
        session.run(|tx| tx.insert(&new, row![11, Option::<i64>::None, LONG])).expect("inserted");
        let savepoint = session.savepoint().expect("a savepoint");
        let more = TableChange::new().nullable("name").add_column("more", DataType::Int64, Value::Null);
        let wider = session.change_table("item", more).expect("changed");
        session.run(|tx| tx.update(&wider, key![2], &[("name", ValueRef::Null)])).expect("written");
        session.rollback_to(&savepoint).expect("back");
        session.run(|tx| tx.update(&new, key![10], &[("n", ValueRef::Null)])).expect("written");
        assert_eq!(rows(db).len(), 6, "others see nothing of it");
        session.commit().expect("committed");
        session.begin().expect("begun");
        let name = session.change_table("item", TableChange::new().nullable("name")).expect("changed");
        session.run(|tx| tx.update(&name, key![3], &[("name", ValueRef::Null)])).expect("written");
        session.rollback().expect("rolled back");
    };
    let expected = [
        "Int(0) Int(0) LONG",
        "Int(1) Null LONG",
        "Int(2) Int(20) LONG",
        "Int(3) Int(30) LONG",
        "Int(4) Int(40) LONG",
        "Int(5) Int(50) LONG",
        "Int(10) Null LONG",
        "Int(11) Null LONG",
    ];
    everywhere(made, |db| {
        assert_eq!(rows(db), expected);
        db.check().expect("consistent");
    });
}

#[test]
fn rows_that_become_longer_in_a_session_are_taken_back_with_all_their_bytes() {
    let db = in_memory();
    let items = filled(&db);
    let mut session = db.session().expect("a session");
    session.begin().expect("begun");
    let savepoint = session.savepoint().expect("a savepoint");
    session.run(|tx| tx.insert(&items, row![10, 0, LONG])).expect("inserted");
    session
        .change_table("item", TableChange::new().add_column("extra", DataType::Int64, 5))
        .expect("changed");
    session.rollback_to(&savepoint).expect("back");
    session.run(|tx| tx.insert(&items, row![11, 0, LONG])).expect("no transaction is too large");
    session.commit().expect("committed");
    assert_eq!(rows(&db).len(), 7);
}

#[test]
fn a_feed_gives_the_null_of_a_column_that_refuses_it_now() {
    let disk = SimulatedDisk::new();
    let open = || Database::open(DATABASE, on_disk(&disk)).expect("opened");
    let db = open();
    let nullable = TableDefinition::new("item").column("id", DataType::Int64).column("n", DataType::Int64);
    let items = db.create_table(nullable.primary_key(["id"])).expect("created");
    let begin = db.snapshot().expect("a snapshot").epoch();
    db.run(|tx| tx.insert(&items, row![1, Option::<i64>::None])).expect("inserted");
    db.run(|tx| tx.update(&items, key![1], set! { n: 1 })).expect("written");
    change(&db, TableChange::new().not_null("n")).expect("changed");
    db.close().expect("closed");
    let db = open();
    db.checkpoint().expect("a checkpoint");
    db.close().expect("closed");
    let db = open();
    let items = db.table("item").expect("the table");
    let end = db.snapshot().expect("a snapshot").epoch();
    let (mut feed, mut inserted) = (db.watch(&items, begin).expect("a feed"), Vec::new());
    while !feed.has_given(end) {
        for change in feed.try_next().expect("readable").iter().flatten() {
            if let Change::Insert { row, .. } = change {
                inserted.push(row.to_values());
            }
        }
    }
    assert_eq!(inserted, [[Value::Int(1), Value::Null]]);
}

/// In a split phase, a body that looks at other columns goes on; one that looks at a split column gets its value, whatever way it looks.
#[test]
fn split_columns_of_such_a_table_are_hidden() {
    split::in_time(|| {
        let db = Database::in_memory_with(split::options(20.0)).expect("options");
        let of = TableDefinition::new("item").column("id", DataType::Int64).column("n", DataType::Int64);
        let of = of.not_null().column("plain", DataType::Int64).not_null();
        let items = db.create_table(of.primary_key(["id"])).expect("created");
        db.run(|tx| (0..10).try_for_each(|id| tx.insert(&items, row![id, 0, id]))).expect("filled");
        db.split(&items, key![3], "n", SplitOperation::ADD).expect("a label");
        let stashed = split::in_one_split_phase(&db, &items, || {
            let before = split::report(&db).stashed;
            assert_eq!(split::int(&db, &items, 3, "plain"), Ok(3));
            let sum = db.run(|tx| {
                let mut rows = tx.scan(&items, Range::from(key![0]).to(key![5]))?;
                rows.try_fold(0, |sum, row| Ok(sum + row?.int("plain")?))
            });
            assert_eq!(sum, Ok(10));
            split::report(&db).stashed - before
        });
        assert_eq!(stashed, 0, "what is not split is not waited for");
        let looks: [fn(&Row<'_>) -> Result<i64>; 4] = [
            |row| row.int("n"),
            |row| Ok(if row.is_null("n")? { -1 } else { row.int("n")? }),
            |row| if let Value::Int(n) = row.to_values()[1] { Ok(n) } else { Ok(-1) },
            |row| Ok(row.get("n")?.to_value().to_string().parse().unwrap_or(-1)),
        ];
        for round in 1..=20 {
            split::wait_for_split(&db, &items);
            db.run(|tx| tx.add(&items, key![3], "n", 1)).expect("an addition");
            let look = looks[round as usize % looks.len()];
            let seen = db.run(|tx| look(&tx.get(&items, key![3])?.ok_or(Error::Closed)?));
            assert_eq!(seen, Ok(round));
        }
        assert!(split::report(&db).stashed > 0);
        change(&db, TableChange::new().nullable("plain")).expect("changed");
        db.run(|tx| tx.update(&items, key![3], &[("plain", ValueRef::Null)])).expect("written");
        split::wait_until("a split phase", || {
            db.run(|tx| tx.add(&items, key![3], "n", 1)).expect("an addition");
            split::is_split(&db)
        });
        let row = db.run(|tx| Ok(tx.get(&items, key![3])?.map(|row| row.to_values()))).expect("read");
        assert_eq!(row.map(|row| row[2].clone()), Some(Value::Null));
    });
}
