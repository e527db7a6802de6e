//! Tables of whose columns none can be NULL, which keep no NULL bits, and what becomes of them when one can: under every protocol,
//! in memory, after recovery and from checkpoints, in snapshots, sessions and feeds.

#[path = "support/tables.rs"]
mod tables;

use heddledb::testing::SimulatedDisk;
use heddledb::{
    Change, DataType, Database, Range, Result, Table, TableChange, TableDefinition, Value, ValueRef, key,
    row, set,
};
use tables::{DATABASE, everywhere, in_memory, on_disk, open};

const HEAD: u64 = 16;

/// Six rows of an integer and a text, neither of which can be NULL.
fn made(db: &Database) -> Table {
    let definition = TableDefinition::new("item")
        .column("id", DataType::Int64)
        .column("n", DataType::Int64)
        .not_null()
        .column("name", DataType::Text)
        .not_null()
        .primary_key(["id"])
        .index("by_n", ["n"]);
    let items = db.create_table(definition).expect("created");
    db.run(|tx| (0..6).try_for_each(|id| tx.insert(&items, row![id, 10 * id, "a name that is long"])))
        .expect("filled");
    items
}

fn change(db: &Database, change: TableChange) {
    db.change_table("item", change).expect("changed");
}

fn set_null(db: &Database, id: i64, column: &str) -> Result<()> {
    let items = db.table("item")?;
    db.run(|tx| tx.update(&items, key![id], &[(column, ValueRef::Null)]))
}

/// The rows, by the primary key and by the index.
fn all(db: &Database) -> (Vec<Vec<Value>>, Vec<i64>) {
    let items = db.table("item").expect("the table");
    db.run(|tx| {
        let rows = tx.scan(&items, Range::all())?.map(|row| Ok(row?.to_values())).collect::<Result<_>>()?;
        let ids = tx.scan_index(&items, "by_n", Range::all())?.map(|row| row?.int("id"));
        Ok((rows, ids.collect::<Result<_>>()?))
    })
    .expect("read")
}

fn row_of(id: i64, n: Value, name: &str) -> Vec<Value> {
    vec![Value::Int(id), n, Value::Text(name.to_string())]
}

#[test]
fn rows_without_columns_that_can_be_null_have_no_null_bits() -> Result<()> {
    let db = in_memory();
    let items = made(&db);
    assert_eq!(items.memory().row_bytes, 6 * (HEAD + 3 * 8));
    let nullable = TableDefinition::new("nullable").column("id", DataType::Int64);
    let nullable = db.create_table(nullable.column("n", DataType::Int64).primary_key(["id"]))?;
    db.run(|tx| tx.insert(&nullable, row![1, 2]))?;
    assert_eq!(nullable.memory().row_bytes, HEAD + 8 + 2 * 8);
    let many = TableDefinition::new("many").column("c0", DataType::Int64).not_null().primary_key(["c0"]);
    let many = (1..65).fold(many, |of, at| of.column(format!("c{at}"), DataType::Int64).not_null());
    let many = db.create_table(many)?;
    let values: Vec<_> = (0..65).map(ValueRef::Int).collect();
    db.run(|tx| tx.insert(&many, values.clone()))?;
    let read = db.run(|tx| Ok(tx.get(&many, key![0])?.map(|row| row.to_values())))?;
    assert_eq!(read, Some((0..65).map(Value::Int).collect()));
    Ok(())
}

#[test]
fn a_column_that_becomes_nullable_copies_no_row() -> Result<()> {
    let db = in_memory();
    let items = made(&db);
    let before = items.memory().row_bytes;
    change(&db, TableChange::new().nullable("n"));
    change(&db, TableChange::new().add_column("more", DataType::Int64, Value::Null));
    assert_eq!(db.table("item")?.memory().row_bytes, before);
    db.run(|tx| tx.insert(&items, row![6, 60, "new", 7]))?;
    assert_eq!(db.table("item")?.memory().row_bytes, before + HEAD + 5 * 8);
    Ok(())
}

/// What is done to the table, and then holds everywhere.
fn make_null(db: &Database) {
    let items = made(db);
    let snapshot = db.snapshot().expect("a snapshot");
    change(db, TableChange::new().nullable("n"));
    set_null(db, 1, "n").expect("NULL");
    db.run(|tx| tx.update(&items, key![2], set! { n: 5, name: "both" })).expect("set");
    db.run(|tx| tx.add(&items, key![3], "n", 1)).expect("added");
    db.run(|tx| tx.insert(&items, row![6, None::<i64>, "new"])).expect("inserted");
    set_null(db, 4, "n").expect("NULL");
    db.run(|tx| tx.update(&items, key![4], set! { n: 44 })).expect("no more");
    assert!(set_null(db, 5, "name").is_err(), "it refuses NULL as before");
    let (old, sum) = db
        .read(|now| {
            let rows = snapshot.scan(&items, Range::all())?.map(|row| row?.int("n"));
            let seen = now.scan(&items, Range::all())?.map(|row| Ok(row?.opt_int("n")?.unwrap_or(0)));
            Ok((rows.collect::<Result<Vec<i64>>>()?, seen.sum::<Result<i64>>()?))
        })
        .expect("read");
    assert_eq!((old, sum), ((0..6).map(|id| 10 * id).collect(), 5 + 31 + 44 + 50));
}

#[test]
fn a_column_that_becomes_nullable_holds_null_from_then_on() {
    everywhere(make_null, |db| {
        let (int, name) = (Value::Int, "a name that is long");
        let expected = vec![
            row_of(0, int(0), name),
            row_of(1, Value::Null, name),
            row_of(2, int(5), "both"),
            row_of(3, int(31), name),
            row_of(4, int(44), name),
            row_of(5, int(50), name),
            row_of(6, Value::Null, "new"),
        ];
        assert_eq!(all(db), (expected, vec![1, 6, 0, 2, 3, 4, 5]));
        db.check().expect("consistent");
    });
}

#[test]
fn an_added_column_can_be_null_in_rows_that_have_no_null_bits() {
    let make = |db: &Database| {
        let items = made(db);
        change(db, TableChange::new().add_column("full", DataType::Int64, 7).not_null("full"));
        db.run(|tx| tx.update(&items, key![0], set! { full: 8 })).expect("set");
        db.run(|tx| tx.insert(&items, row![6, 60, "new", 9])).expect("inserted");
        change(db, TableChange::new().add_column("empty", DataType::Text, Value::Null));
        for id in [0, 1, 6] {
            db.run(|tx| tx.update(&items, key![id], set! { empty: "no longer" })).expect("set");
        }
        set_null(db, 1, "empty").expect("NULL");
        change(db, TableChange::new().nullable("full").nullable("name"));
        for id in [2, 6] {
            set_null(db, id, "full").expect("NULL");
        }
        set_null(db, 3, "name").expect("NULL");
    };
    everywhere(make, |db| {
        let rows = all(db).0;
        let column = |at: usize| rows.iter().map(|row| row[at].clone()).collect::<Vec<_>>();
        let (null, name) = (Value::Null, Value::Text("a name that is long".into()));
        let ints =
            |values: [i64; 7]| values.map(|n| if n < 0 { Value::Null } else { Value::Int(n) }).to_vec();
        assert_eq!(column(1), ints([0, 10, 20, 30, 40, 50, 60]));
        assert_eq!(column(3), ints([8, 7, -1, 7, 7, 7, -1]));
        let names = [name.clone(), name.clone(), name.clone(), null.clone(), name.clone(), name];
        assert_eq!(column(2)[..6], names);
        let written = Value::Text("no longer".into());
        let empty = [0, 6].into_iter().fold(vec![null; 7], |mut all, at| {
            all[at] = written.clone();
            all
        });
        assert_eq!(column(4), empty);
        db.check().expect("consistent");
    });
}

/// The table that recovery makes refuses NULL, and the log has NULL from before, or from after.
#[test]
fn recovery_keeps_null_whatever_the_catalog_says() {
    let disk = SimulatedDisk::new();
    let db = open(&disk);
    let items = made(&db);
    db.checkpoint().expect("a checkpoint");
    change(&db, TableChange::new().nullable("n"));
    set_null(&db, 1, "n").expect("NULL");
    db.run(|tx| tx.max(&items, key![1], "n", -5)).expect("greater than NULL");
    set_null(&db, 2, "n").expect("NULL");
    db.run(|tx| tx.delete(&items, key![2])).expect("deleted");
    db.close().expect("closed");
    let db = open(&disk);
    let n = |db: &Database| all(db).0.iter().map(|row| row[1].clone()).collect::<Vec<_>>();
    let ints = |values: [i64; 5]| values.map(Value::Int).to_vec();
    assert_eq!(n(&db), ints([0, -5, 30, 40, 50]));
    set_null(&db, 3, "n").expect("it can be NULL");
    db.checkpoint().expect("a checkpoint");
    db.run(|tx| tx.update(&db.table("item")?, key![3], set! { n: 3 })).expect("set");
    change(&db, TableChange::new().not_null("n"));
    assert!(set_null(&db, 3, "n").is_err());
    db.close().expect("closed");
    for _ in 0..2 {
        let db = open(&disk);
        assert_eq!(n(&db), ints([0, -5, 3, 40, 50]));
        assert!(set_null(&db, 3, "n").is_err(), "it refuses NULL again");
        db.check().expect("consistent");
        db.checkpoint().expect("a checkpoint");
        db.close().expect("closed");
    }
    let db = Database::open(DATABASE, on_disk(&disk)).expect("opened");
    let bytes = db.table("item").expect("the table").memory().row_bytes;
    assert_eq!(bytes, 5 * (HEAD + 3 * 8), "recovered rows have no NULL bits again");
}

#[test]
fn a_session_makes_a_column_nullable_and_takes_it_back() -> Result<()> {
    let db = in_memory();
    made(&db);
    let mut session = db.session()?;
    session.begin()?;
    session.change_table("item", TableChange::new().nullable("n"))?;
    let items = session.table("item")?;
    session.run(|tx| tx.update(&items, key![1], &[("n", ValueRef::Null)]))?;
    session.run(|tx| tx.insert(&items, row![6, None::<i64>, "new"]))?;
    session.rollback()?;
    assert_eq!(all(&db).1, (0..6).collect::<Vec<_>>());
    assert!(set_null(&db, 1, "n").is_err());
    session.begin()?;
    session.change_table("item", TableChange::new().nullable("n"))?;
    let items = session.table("item")?;
    session.run(|tx| tx.update(&items, key![1], &[("n", ValueRef::Null)]))?;
    session.run(|tx| tx.insert(&items, row![6, None::<i64>, "new"]))?;
    session.commit()?;
    assert_eq!(all(&db).1, [1, 6, 0, 2, 3, 4, 5]);
    assert_eq!(all(&db).0[1], row_of(1, Value::Null, "a name that is long"));
    Ok(())
}

#[test]
fn a_feed_tells_of_null_in_a_column_that_refuses_it_by_now() -> Result<()> {
    let db = open(&SimulatedDisk::new());
    let items = made(&db);
    change(&db, TableChange::new().nullable("n"));
    set_null(&db, 1, "n")?;
    db.run(|tx| tx.insert(&items, row![6, None::<i64>, "new"]))?;
    db.run(|tx| [1, 6].into_iter().try_for_each(|id| tx.update(&items, key![id], set! { n: 1 })))?;
    change(&db, TableChange::new().not_null("n"));
    db.run(|tx| tx.insert(&items, row![7, 70, "last"]))?;
    let (mut feed, mut inserted) = (db.watch(&items, 0)?, Vec::new());
    while inserted.len() < 8 {
        for change in feed.next()?.changes() {
            if let Change::Insert { row, .. } = change {
                inserted.push((row.int("id")?, row.opt_int("n")?));
            }
        }
    }
    assert_eq!(inserted[6..], [(6, None), (7, Some(70))]);
    Ok(())
}
