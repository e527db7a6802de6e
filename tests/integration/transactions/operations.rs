//! Operations: on every type that takes them, on NULL, exact, and recovered.

use heddledb::testing::SimulatedDisk;
use heddledb::{
    Action, DataType, Date, Decimal, Error, ProcedureDefinition, TableDefinition, Timestamp, TupleType,
    Value, ValueRef, args, fail, key, row,
};

use crate::support::tables::{dump, open, refused};

/// One column of each type that operations apply to.
fn operated() -> TableDefinition {
    let entry = TupleType::new(vec![DataType::Int64], vec![DataType::Text]).unwrap();
    TableDefinition::new("operated")
        .column("id", DataType::Int64)
        .column("small", DataType::Int32)
        .column("large", DataType::Int64)
        .column("float", DataType::Float64)
        .column("exact", DataType::Decimal { precision: 10, scale: 2 })
        .column("wide", DataType::Decimal { precision: 30, scale: 2 })
        .column("day", DataType::Date)
        .column("time", DataType::Timestamp)
        .column("last", DataType::OrderedTuple(entry.clone()))
        .column("top", DataType::TopK { limit: 3, of: entry })
        .primary_key(["id"])
}

fn decimal(text: &str) -> Decimal {
    text.parse().unwrap()
}

#[test]
fn operations_apply_to_every_type_that_takes_them_and_to_null() {
    let disk = SimulatedDisk::new();
    let db = open(&disk);
    let table = db.create_table(operated()).unwrap();
    let (day, next_day) = (Date::from_days(3).unwrap(), Date::from_days(4).unwrap());
    let time = |microseconds| Timestamp::from_microseconds(microseconds).unwrap();
    let nulls = [ValueRef::Null; 9];
    db.run(|tx| {
        tx.insert(
            &table,
            row![1, 5, 5, 5.0, decimal("5"), decimal("5"), day, time(5), None::<i64>, None::<i64>],
        )?;
        let mut row = vec![ValueRef::Int(2)];
        row.extend(nulls);
        tx.insert(&table, row)
    })
    .unwrap();
    let columns = ["small", "large", "float", "exact", "wide", "day", "time"];
    let value = |id: i64, column: &str| {
        db.run(|tx| Ok(tx.get(&table, key![id])?.unwrap().get(column)?.to_value())).unwrap()
    };
    let operand = |column: &str, number: i64| match column {
        "float" => Value::from(number as f64),
        "exact" | "wide" => Value::from(decimal(&format!("{number}.00"))),
        "day" => Value::from(Date::from_days(number as i32).unwrap()),
        "time" => Value::from(time(number)),
        _ => Value::from(number),
    };
    for column in &columns[..5] {
        db.run(|tx| {
            tx.add(&table, key![1], *column, 2)?;
            tx.add(&table, key![1], *column, -3)?;
            tx.add(&table, key![2], *column, 2)
        })
        .unwrap();
        assert_eq!(value(1, column), operand(column, 4), "{column}");
        assert_eq!(value(2, column), Value::Null, "NULL + 2 is NULL: {column}");
    }
    db.run(|tx| tx.add(&table, key![1], "exact", decimal("0.05"))).unwrap();
    assert_eq!(value(1, "exact"), Value::from(decimal("4.05")));
    for column in columns {
        for (id, number) in [(1, 9), (1, 8), (2, 9), (2, 8)] {
            db.run(|tx| tx.max(&table, key![id], column, &operand(column, number))).unwrap();
            assert_eq!(value(id, column), operand(column, 9), "max of {column}");
        }
        for (number, expected) in [(2, 2), (3, 2), (1, 1)] {
            db.run(|tx| tx.min(&table, key![1], column, &operand(column, number))).unwrap();
            assert_eq!(value(1, column), operand(column, expected), "min of {column}");
        }
        db.run(|tx| {
            tx.max(&table, key![1], column, ValueRef::Null)?;
            tx.min(&table, key![1], column, ValueRef::Null)
        })
        .unwrap();
        assert_eq!(value(1, column), operand(column, 1), "NULL changes nothing: {column}");
        db.run(|tx| {
            tx.update(&table, key![2], &[(column, ValueRef::Null)])?;
            tx.min(&table, key![2], column, &operand(column, 7))
        })
        .unwrap();
        assert_eq!(value(2, column), operand(column, 7), "min of NULL: {column}");
    }
    for type_without_sum in ["day", "time", "last", "top"] {
        let error = refused(db.run(|tx| tx.add(&table, key![1], type_without_sum, 1)), &["add", "it takes"]);
        assert!(matches!(error, Error::WrongOperation { .. }), "{error:?}");
    }
    assert!(value(1, "day") != Value::from(next_day));
    let before = dump(&db, &table);
    db.close().unwrap();
    let db = open(&disk);
    assert_eq!(dump(&db, &db.table("operated").unwrap()), before);
}

#[test]
fn ordered_puts_and_top_k_inserts_keep_the_greatest() {
    let disk = SimulatedDisk::new();
    let db = open(&disk);
    let table = db.create_table(operated()).unwrap();
    let of = TupleType::new(vec![DataType::Int64], vec![DataType::Text]).unwrap();
    let mut row = vec![ValueRef::Int(1)];
    row.extend([ValueRef::Null; 9]);
    db.run(|tx| tx.insert(&table, &row)).unwrap();
    let put = |tx: &heddledb::Tx<'_, '_>, order: i64, payload: &str| {
        tx.ordered_put(&table, key![1], "last", &row![order], &row![payload])?;
        tx.top_k_insert(&table, key![1], "top", &row![order], &row![payload])
    };
    let look = |tx: &heddledb::Tx<'_, '_>| {
        let row = tx.get(&table, key![1])?.unwrap().to_values();
        let (Value::Tuple(last), Value::TopK(top)) = (&row[8], &row[9]) else { panic!("{row:?}") };
        Ok((last.row(&of)?, top.rows(&of)?))
    };
    let entry = |order: i64, payload: &str| vec![Value::from(order), Value::from(payload)];
    db.run(|tx| {
        put(tx, 5, "five")?;
        put(tx, 3, "three")?;
        assert_eq!(look(tx)?, (entry(5, "five"), vec![entry(5, "five"), entry(3, "three")]));
        let savepoint = tx.savepoint();
        put(tx, 8, "eight")?;
        tx.rollback_to(&savepoint);
        put(tx, 5, "fives")
    })
    .unwrap();
    for (order, payload) in [(1, "one"), (4, "four"), (5, "five"), (-2, "minus two")] {
        db.run(|tx| put(tx, order, payload)).unwrap();
    }
    let expected = (entry(5, "fives"), vec![entry(5, "fives"), entry(4, "four"), entry(3, "three")]);
    assert_eq!(db.run(look).unwrap(), expected);
    refused(db.run(|tx| put(tx, 9, "nine").and(Err::<(), _>(fail("no")))), &["no"]);
    assert_eq!(db.run(look).unwrap(), expected);
    // Set to another set's value, and inserted into in the same transaction.
    db.run(|tx| {
        let top = tx.get(&table, key![1])?.unwrap().get("top")?;
        let mut row = row.clone();
        row[0] = ValueRef::Int(2);
        row[9] = top;
        tx.insert(&table, &row)?;
        tx.top_k_insert(&table, key![2], "top", &row![7], &row!["seven"])
    })
    .unwrap();
    db.run(|tx| {
        let top = tx.get(&table, key![2])?.unwrap().get("top")?;
        tx.update(&table, key![1], &[("top", top)])?;
        tx.top_k_insert(&table, key![1], "top", &row![6], &row!["six"])
    })
    .unwrap();
    let top = vec![entry(7, "seven"), entry(6, "six"), entry(5, "fives")];
    assert_eq!(db.run(look).unwrap().1, top);
    let before = dump(&db, &table);
    db.close().unwrap();
    let db = open(&disk);
    let table = db.table("operated").unwrap();
    assert_eq!(dump(&db, &table), before);
    db.run(|tx| tx.top_k_insert(&table, key![1], "top", &row![10], &row!["ten"])).unwrap();
    db.close().unwrap();
    let db = open(&disk);
    let Value::TopK(top) = &dump(&db, &db.table("operated").unwrap())[0][9] else { panic!("no set") };
    assert_eq!(top.rows(&of).unwrap()[0], entry(10, "ten"));
}

#[test]
fn products_are_exact_and_survive_a_restart() {
    let disk = SimulatedDisk::new();
    let db = open(&disk);
    let table = db.create_table(operated()).unwrap();
    let mut row = vec![ValueRef::Int(1), ValueRef::Int(6), ValueRef::Int(1 << 40)];
    row.extend([ValueRef::Null; 7]);
    db.run(|tx| tx.insert(&table, &row)).unwrap();
    db.run(|tx| {
        tx.multiply(&table, key![1], "small", -7)?;
        tx.multiply(&table, key![1], "large", 1 << 10)?;
        tx.multiply(&table, key![1], "large", -3)
    })
    .unwrap();
    for column in ["small", "large"] {
        let error = refused(db.run(|tx| tx.multiply(&table, key![1], column, 1_i64 << 31)), &[column]);
        assert!(matches!(error, Error::Overflow { .. }), "{error:?}");
    }
    refused(db.run(|tx| tx.multiply(&table, key![1], "exact", 2)), &["multiply", "int32 and int64"]);
    let negate = Action::write(&table).key(|_, key| key.push(1)).body(|action| action.multiply("small", -1));
    let negate = db.register(ProcedureDefinition::new("negate").phase([negate])).unwrap();
    db.call(&negate, args![]).unwrap();
    db.close().unwrap();
    let db = open(&disk);
    let row = &dump(&db, &db.table("operated").unwrap())[0];
    assert_eq!(row[1..3], [Value::from(42), Value::from(-3_i64 << 50)]);
}

#[test]
fn what_was_null_gets_numbers_and_times_and_survives_a_restart() {
    let disk = SimulatedDisk::new();
    let db = open(&disk);
    let definition = TableDefinition::new("order").column("id", DataType::Int64);
    let definition = definition.column("carrier", DataType::Int32).column("day", DataType::Date);
    let definition = definition.column("time", DataType::Timestamp).column("left", DataType::Int64);
    let table = db.create_table(definition.primary_key(["id"])).unwrap();
    let null = ValueRef::Null;
    db.run(|tx| (1..=2).try_for_each(|id| tx.insert(&table, row![id, null, null, null, null]))).unwrap();
    let (day, time) = ("2026-11-22".parse::<Date>().unwrap(), Timestamp::from_microseconds(-5).unwrap());
    db.run(|tx| {
        tx.update(&table, key![1], &[("carrier", 7.into()), ("day", day.into()), ("time", time.into())])?;
        tx.add(&table, key![1], "carrier", 1)
    })
    .unwrap();
    db.run(|tx| tx.update(&table, key![2], &[("time", time.into()), ("carrier", 9.into())])).unwrap();
    db.run(|tx| tx.update(&table, key![2], &[("time", null)])).unwrap();
    let expected =
        [row![1, 8, day, time, null].map(Value::from), row![2, 9, null, null, null].map(Value::from)];
    assert_eq!(dump(&db, &table), expected);
    db.close().unwrap();
    let db = open(&disk);
    assert_eq!(dump(&db, &db.table("order").unwrap()), expected);
}
