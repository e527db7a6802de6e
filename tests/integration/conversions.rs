//! Conversions of the embedded interface: Rust's integers, texts and ranges, bare values as keys, and the
//! values that it returns.

use std::time::{Duration, UNIX_EPOCH};

use heddledb::{
    Column, DataType, Database, Durability, Error, Options, Range, Result, Table, TableDefinition, Timestamp,
    key, row, set,
};

fn database() -> Database {
    Database::in_memory_with(Options::default().durability(Durability::None)).expect("options are right")
}

/// Numbers 0 to 9, with a name each, but for 5.
fn numbers(db: &Database) -> Table {
    let table = db
        .create_table(
            TableDefinition::new("number")
                .column("n", DataType::Int64)
                .column("name", DataType::Text)
                .column("seen", DataType::Timestamp)
                .primary_key(["n"])
                .index("by_name", ["name"]),
        )
        .expect("a table");
    db.run(|tx| {
        (0..10_usize).try_for_each(|n| {
            let name = (n != 5).then(|| format!("number {n}"));
            tx.insert(&table, row![n, name, UNIX_EPOCH + Duration::from_secs(n as u64)])
        })
    })
    .expect("inserted");
    table
}

#[test]
fn a_bare_value_is_a_key_of_one_column() -> Result<()> {
    let db = database();
    let numbers = numbers(&db);
    db.run(|tx| {
        for n in 0..10 {
            assert!(tx.exists(&numbers, n)?);
            assert_eq!(tx.get(&numbers, n)?.map(|row| row.int("n")), Some(Ok(n)));
            assert!(tx.exists(&numbers, key![n])? && tx.exists(&numbers, (n,))?);
        }
        assert!(tx.get(&numbers, 7_u8)?.is_some() && tx.get(&numbers, 7_usize)?.is_some());
        tx.update(&numbers, 7, set! { name: "seven" })
    })?;
    assert!(matches!(db.run(|tx| tx.exists(&numbers, u64::MAX)), Err(Error::Overflow { .. })));
    let too_long = db.run(|tx| tx.exists(&numbers, (1, 2)));
    assert!(matches!(too_long, Err(Error::WrongKey { .. })), "{too_long:?}");
    assert!(matches!(db.run(|tx| tx.exists(&numbers, "seven")), Err(Error::WrongType { .. })));
    assert!(db.run(|tx| tx.delete(&numbers, 9))?);
    assert!(!db.read(|snapshot| snapshot.exists(&numbers, 9))?);
    Ok(())
}

/// The numbers that a range shows, in a transaction and in a snapshot.
fn shown(db: &Database, table: &Table, range: impl Into<Range>) -> Vec<i64> {
    let range = range.into();
    let scanned =
        db.run(|tx| tx.scan(table, range.clone())?.map(|row| row?.int("n")).collect::<Result<Vec<_>>>());
    let read = db.read(|snapshot| {
        snapshot.scan(table, range.clone())?.map(|row| row?.int("n")).collect::<Result<Vec<_>>>()
    });
    assert_eq!(scanned, read);
    scanned.expect("a range")
}

#[test]
fn rusts_ranges_are_ranges_of_keys() {
    let db = database();
    let numbers = numbers(&db);
    let all: Vec<i64> = (0..10).collect();
    assert_eq!(shown(&db, &numbers, 1..5), [1, 2, 3, 4]);
    assert_eq!(shown(&db, &numbers, 1..=5), [1, 2, 3, 4, 5]);
    assert_eq!(shown(&db, &numbers, ..3), [0, 1, 2]);
    assert_eq!(shown(&db, &numbers, ..=3), [0, 1, 2, 3]);
    assert_eq!(shown(&db, &numbers, 8..), [8, 9]);
    assert_eq!(shown(&db, &numbers, ..), all);
    assert_eq!(shown(&db, &numbers, 7), [7]);
    assert_eq!(shown(&db, &numbers, key![3]..key![5]), [3, 4]);
    assert_eq!(shown(&db, &numbers, Range::from(8).reverse()), [9, 8]);
    let (from, to) = (5, 1);
    assert_eq!(shown(&db, &numbers, from..to), []);
    assert_eq!(shown(&db, &numbers, 4..4), []);
}

#[test]
fn a_prefix_is_a_key_or_a_tuple() -> Result<()> {
    let db = database();
    let definition =
        TableDefinition::new("line").column("order", DataType::Text).column("line", DataType::Int64);
    let lines = db.create_table(definition.primary_key(["order", "line"]))?;
    db.run(|tx| {
        for order in ["a", "b"] {
            (1..=3).try_for_each(|line| tx.insert(&lines, row![order, line]))?;
        }
        assert_eq!(tx.scan(&lines, "a")?.count(), 3);
        assert_eq!(tx.scan(&lines, ("a", 2))?.count(), 1);
        assert_eq!(tx.scan(&lines, ("a", 2)..("b", 2))?.count(), 3);
        assert_eq!(tx.scan(&lines, ("a", 2)..=("b", 2))?.count(), 4);
        assert_eq!(tx.scan(&lines, ..="a")?.count(), 3);
        assert_eq!(tx.scan(&lines, ("a", 1, 1)).err().map(|error| error.sqlstate()), Some("42601"));
        Ok(())
    })
}

#[test]
fn an_index_is_read_by_value() -> Result<()> {
    let db = database();
    let numbers = numbers(&db);
    let named = String::from("number 3");
    let found = db.run(|tx| {
        let mut found = tx.scan_index(&numbers, "by_name", &named)?;
        found.next().transpose()?.map(|row| row.int("n")).transpose()
    })?;
    assert_eq!(found, Some(3));
    let from_three = db.read(|snapshot| Ok(snapshot.scan_index(&numbers, "by_name", &named..)?.count()))?;
    assert_eq!(from_three, 6); // 3, 4, 6, 7, 8, 9
    Ok(())
}

#[test]
fn columns_come_out_as_rust_types() -> Result<()> {
    let db = database();
    let numbers = numbers(&db);
    db.run(|tx| {
        let row = tx.get(&numbers, 3)?.expect("a row");
        let n: i64 = row.get("n")?.try_into()?;
        let small: u8 = row.read("n")?;
        assert_eq!((n, small), (3, 3));
        assert_eq!(row.opt_text("name")?, Some("number 3"));
        assert_eq!(row.opt_int("n")?, Some(3));
        assert_eq!(row.read::<std::time::SystemTime>("seen")?, UNIX_EPOCH + Duration::from_secs(3));
        let nameless = tx.get(&numbers, 5)?.expect("a row");
        assert_eq!(nameless.opt_text("name")?, None);
        assert_eq!(nameless.read::<Option<String>>("name")?, None);
        let error = nameless.read::<String>("name").expect_err("NULL is no text").to_string();
        assert!(error.starts_with("number.name holds NULL"), "{error}");
        let error = row.opt_int("name").expect_err("a text is no integer").to_string();
        assert!(error.starts_with("number.name holds text"), "{error}");
        assert!(matches!(
            tx.get(&numbers, 3)?.expect("a row").read::<i64>("none"),
            Err(Error::UnknownColumn { .. })
        ));
        Ok(())
    })?;
    let owned = db.read(|snapshot| snapshot.get(&numbers, 5))?.expect("a row");
    assert_eq!((owned.opt_int("n")?, owned.opt_text("name")?, owned.read::<u16>("n")?), (Some(5), None, 5));
    Ok(())
}

#[test]
fn new_values_are_set_by_name_or_by_column() -> Result<()> {
    let db = database();
    let numbers = numbers(&db);
    let (name, seen): (Column, Column) = (numbers.column("name")?, numbers.column("seen")?);
    let text = String::from("five");
    db.run(|tx| {
        tx.update(&numbers, 5, set! { name: text, seen: Timestamp::now() })?;
        tx.update(&numbers, 6, &[(name, "six".into()), (seen, None::<i64>.into())])?;
        tx.insert_columns(&numbers, set! { n: 10, name: "ten" })
    })?;
    db.run(|tx| {
        assert_eq!(tx.get(&numbers, 5)?.expect("a row").text("name")?, "five");
        assert!(tx.get(&numbers, 5)?.expect("a row").timestamp("seen")? > Timestamp::try_from(UNIX_EPOCH)?);
        assert!(tx.get(&numbers, 6)?.expect("a row").is_null("seen")?);
        assert_eq!(tx.get(&numbers, 10)?.expect("a row").opt_timestamp("seen")?, None);
        Ok(())
    })?;
    let unknown = db.run(|tx| tx.update(&numbers, 5, set! { title: "five" }));
    assert!(matches!(unknown, Err(Error::UnknownColumn { .. })));
    Ok(())
}

#[test]
fn owned_values_come_out_as_rust_types() {
    let values: Vec<heddledb::Value> =
        row![7, "pen", 1.5, None::<i64>].map(heddledb::Value::from).into_iter().collect();
    assert_eq!(u8::try_from(&values[0]), Ok(7));
    assert_eq!(<&str>::try_from(&values[1]), Ok("pen"));
    assert_eq!(String::try_from(&values[1]), Ok("pen".to_string()));
    assert_eq!(f64::try_from(&values[2]), Ok(1.5));
    assert_eq!(Option::<i64>::try_from(&values[3]), Ok(None));
    assert!(matches!(i64::try_from(&values[1]), Err(Error::WrongRead { .. })));
}
