//! Every type: a value comes back as it went in, at once, after recovery, and through a text; defaults; keys.

use crate::support::tables::{dump, in_memory, open, refused, rows_of};
use heddledb::testing::SimulatedDisk;
use heddledb::{
    DataType, Database, Date, Decimal, OrderedTuple, Range, Table, TableDefinition, Timestamp, TopK,
    TupleType, Uuid, Value, ValueRef, key, row,
};

fn decimal(text: &str) -> Decimal {
    text.parse().unwrap()
}

fn entry_type() -> TupleType {
    TupleType::new(vec![DataType::Timestamp, DataType::Text], vec![DataType::Uuid, DataType::Float64])
        .unwrap()
}

fn entry(order: i64, name: Option<&str>) -> OrderedTuple {
    let time = Timestamp::from_microseconds(order).unwrap();
    OrderedTuple::new(
        &entry_type(),
        &row![time, name],
        &row![Uuid::from_bytes([order as u8; 16]), None::<f64>],
    )
    .unwrap()
}

/// Every type with values at its bounds, and in the order in which they compare.
fn types_and_values() -> Vec<(DataType, Vec<Value>)> {
    let texts = ["", "1234567", "12345678", "Zürich", "\u{1}", "日本語のテキスト", "ends in a blank "];
    let long = "long ".repeat(10_000);
    let mut sorted: Vec<&str> = texts.into_iter().chain([long.as_str()]).collect();
    sorted.sort_unstable();
    let bytes: [&[u8]; 7] = [b"", b"\0", b"\0\0", b"\0\xff", b"1234567", b"12345678", &[0xff; 100]];
    let entries =
        [entry(-5, None), entry(-5, Some("a")), entry(7, Some("")), entry(7, Some("longer than a word"))];
    let decimals = |texts: &[&str]| texts.iter().map(|text| Value::from(decimal(text))).collect();
    vec![
        (DataType::Bool, vec![false.into(), true.into()]),
        (DataType::Int32, [i32::MIN, -1, 0, 1, i32::MAX].map(Value::from).into()),
        (DataType::Int64, [i64::MIN, -1, 0, 1, i64::MAX].map(Value::from).into()),
        (
            DataType::Float64,
            [
                f64::NEG_INFINITY,
                f64::MIN,
                -1.5,
                0.0,
                f64::MIN_POSITIVE,
                0.1,
                f64::MAX,
                f64::INFINITY,
                f64::NAN,
            ]
            .map(Value::from)
            .into(),
        ),
        (DataType::Decimal { precision: 1, scale: 1 }, decimals(&["-0.9", "0.0", "0.9"])),
        (
            DataType::Decimal { precision: 18, scale: 4 },
            decimals(&["-99999999999999.9999", "-0.0001", "0.0000", "99999999999999.9999"]),
        ),
        (
            DataType::Decimal { precision: 38, scale: 2 },
            decimals(&[
                "-999999999999999999999999999999999999.99",
                "-92233720368547758.09",
                "0.00",
                "184467440737095516.16",
                "999999999999999999999999999999999999.99",
            ]),
        ),
        (DataType::Text, sorted.into_iter().map(Value::from).collect()),
        (DataType::Bytes, bytes.into_iter().map(Value::from).collect()),
        (
            DataType::Date,
            [Date::MIN, Date::from_days(-1).unwrap(), Date::from_days(0).unwrap(), Date::MAX]
                .map(Value::from)
                .into(),
        ),
        (
            DataType::Timestamp,
            [Timestamp::MIN, Timestamp::from_microseconds(-1).unwrap(), Timestamp::MAX]
                .map(Value::from)
                .into(),
        ),
        (
            DataType::Uuid,
            vec![
                Uuid::from_bytes([0; 16]).into(),
                Uuid::from_bytes([7; 16]).into(),
                Uuid::from_bytes([0xff; 16]).into(),
            ],
        ),
        (DataType::OrderedTuple(entry_type()), entries.iter().cloned().map(Value::from).collect()),
        (
            DataType::TopK { limit: 3, of: entry_type() },
            vec![
                TopK::of(3, []).unwrap().into(),
                TopK::of(3, &entries).unwrap().into(),
                TopK::of(3, &entries[..1]).unwrap().into(),
            ],
        ),
    ]
}

/// One column of each type, named after it.
fn wide_table(definition: TableDefinition) -> TableDefinition {
    types_and_values().into_iter().enumerate().fold(definition, |definition, (number, (data_type, _))| {
        definition.column(format!("c{number}"), data_type)
    })
}

fn fill(db: &Database, table: &Table) -> Vec<Vec<Value>> {
    let types = types_and_values();
    let longest = types.iter().map(|(_, values)| values.len()).max().unwrap();
    let rows: Vec<Vec<Value>> = (0..=longest)
        .map(|number| {
            let of_type = types.iter().map(|(_, values)| values.get(number).cloned().unwrap_or(Value::Null));
            [Value::from(number as i64)].into_iter().chain(of_type).collect()
        })
        .collect();
    db.run(|tx| {
        rows.iter().try_for_each(|row| tx.insert(table, row.iter().map(ValueRef::from).collect::<Vec<_>>()))
    })
    .unwrap();
    rows
}

/// Bit for bit: also which NaN and which zero.
fn assert_same(left: &[Vec<Value>], right: &[Vec<Value>]) {
    assert_eq!(format!("{left:?}"), format!("{right:?}"));
}

#[test]
fn every_value_comes_back_at_once_and_after_recovery() {
    let disk = SimulatedDisk::new();
    let db = open(&disk);
    let definition =
        wide_table(TableDefinition::new("wide").column("id", DataType::Int64)).primary_key(["id"]);
    let table = db.create_table(definition.clone()).unwrap();
    let rows = fill(&db, &table);
    assert_same(&dump(&db, &table), &rows);
    for row in &rows {
        let read = db.run(|tx| Ok(tx.get(&table, key![&row[0]])?.unwrap().to_values())).unwrap();
        assert_same(&[read], std::slice::from_ref(row));
    }
    db.check().unwrap();
    db.close().unwrap();
    let db = open(&disk);
    let table = db.table("wide").unwrap();
    assert_eq!(table.definition(), &definition);
    assert_same(&dump(&db, &table), &rows);
    db.check().unwrap();
    // Every column set alone, to the value of the row before, and to NULL and back.
    for (at, row) in rows.iter().enumerate().skip(1) {
        for (column, value) in rows[at - 1][1..].iter().enumerate() {
            let (name, value) = (format!("c{column}"), ValueRef::from(value));
            db.run(|tx| tx.update(&table, key![&row[0]], &[(&name, value)])).unwrap();
        }
    }
    let mut expected = rows.clone();
    for at in 1..rows.len() {
        expected[at][1..].clone_from_slice(&rows[at - 1][1..]);
    }
    assert_same(&dump(&db, &table), &expected);
    db.close().unwrap();
    let db = open(&disk);
    assert_same(&dump(&db, &db.table("wide").unwrap()), &expected);
    db.check().unwrap();
}

#[test]
fn every_value_can_be_written_as_text_and_distinguished() {
    for (data_type, values) in types_and_values() {
        let texts: Vec<String> = values.iter().map(Value::to_string).collect();
        for (number, text) in texts.iter().enumerate() {
            assert!(!texts[..number].contains(text), "{data_type}: {text} stands for two values");
            let read_back = match &values[number] {
                Value::Int(_) => text.parse().map(|int: i64| Value::from(int)).ok(),
                Value::Decimal(_) => text.parse().map(|decimal: Decimal| Value::from(decimal)).ok(),
                Value::Date(_) => text.parse().map(|date: Date| Value::from(date)).ok(),
                Value::Timestamp(_) => text.parse().map(|time: Timestamp| Value::from(time)).ok(),
                Value::Uuid(_) => text.parse().map(|uuid: Uuid| Value::from(uuid)).ok(),
                Value::Float(float) if float.is_finite() => {
                    text.parse().map(|float: f64| Value::from(float)).ok()
                }
                other => Some(other.clone()),
            };
            assert_eq!(read_back.as_ref(), Some(&values[number]), "{data_type}: {text}");
        }
        assert_eq!(data_type.to_string().parse::<DataType>().unwrap(), data_type);
    }
}

#[test]
fn every_scalar_type_can_be_a_key_and_is_ordered_by_its_values() {
    for (data_type, values) in types_and_values() {
        let definition =
            TableDefinition::new("keyed").column("key", data_type.clone()).column("n", DataType::Int64);
        let definition = definition.primary_key(["key"]).index("by_n", ["n"]);
        let disk = SimulatedDisk::new();
        let db = open(&disk);
        if !data_type.is_scalar() {
            refused(db.create_table(definition), &["no key can hold"]);
            continue;
        }
        let table = db.create_table(definition).unwrap();
        let values: Vec<&Value> = values.iter().filter(|value| value.to_string().len() < 1_000).collect();
        db.run(|tx| {
            values
                .iter()
                .enumerate()
                .rev()
                .try_for_each(|(n, &value)| tx.insert(&table, row![value, n as i64]))
        })
        .unwrap();
        let found: Vec<Value> = db
            .run(|tx| rows_of(tx.scan(&table, Range::all())))
            .unwrap()
            .iter()
            .map(|row| row[0].clone())
            .collect();
        assert_eq!(found.iter().collect::<Vec<_>>(), values, "{data_type}");
        for (n, value) in values.iter().enumerate() {
            let row = db.run(|tx| tx.get(&table, key![*value])?.unwrap().int("n")).unwrap();
            assert_eq!(row, n as i64, "{data_type} {value}");
            let duplicate = db.run(|tx| tx.insert(&table, row![*value, 0]));
            refused(duplicate, &["keyed", &format!("({value})"), "already"]);
        }
        db.check().unwrap();
        db.close().unwrap();
        let db = open(&disk);
        let table = db.table("keyed").unwrap();
        assert_eq!(dump(&db, &table).len(), values.len());
        db.run(|tx| values.iter().try_for_each(|value| tx.delete(&table, key![*value]).map(drop))).unwrap();
        assert!(dump(&db, &table).is_empty());
        db.check().unwrap();
    }
}

#[test]
fn zero_has_one_key_whatever_its_sign() {
    let db = in_memory();
    let definition = TableDefinition::new("float").column("key", DataType::Float64).primary_key(["key"]);
    let table = db.create_table(definition).unwrap();
    db.run(|tx| tx.insert(&table, row![-0.0])).unwrap();
    refused(db.run(|tx| tx.insert(&table, row![0.0])), &["float", "already"]);
    assert!(db.run(|tx| tx.exists(&table, key![0])).unwrap());
    db.check().unwrap();
}

#[test]
fn what_is_not_named_gets_its_default() {
    let disk = SimulatedDisk::new();
    let db = open(&disk);
    let mut definition = TableDefinition::new("defaults").column("id", DataType::Int64).not_null();
    let mut expected = vec![Value::from(1)];
    for (number, (data_type, values)) in types_and_values().into_iter().enumerate() {
        let default = values.last().unwrap().clone();
        definition = definition.column(format!("c{number}"), data_type).not_null().default(default.clone());
        expected.push(default);
    }
    // Integers for what becomes another number, and a column that has none.
    definition = definition
        .column("whole", DataType::Decimal { precision: 5, scale: 2 })
        .default(3)
        .column("half", DataType::Float64)
        .default(2)
        .column("none", DataType::Text)
        .primary_key(["id"]);
    expected.extend([Value::from(decimal("3.00")), Value::from(2.0), Value::Null]);
    let table = db.create_table(definition).unwrap();
    let definition = table.definition().clone();
    db.run(|tx| tx.insert_columns(&table, &[("id", 1.into())])).unwrap();
    assert_same(&dump(&db, &table), std::slice::from_ref(&expected));
    db.close().unwrap();
    let db = open(&disk);
    let table = db.table("defaults").unwrap();
    assert_eq!(table.definition(), &definition, "the catalog keeps the defaults as they are");
    db.run(|tx| tx.insert_columns(&table, &[("none", "some".into()), ("id", 2.into())])).unwrap();
    let rows = dump(&db, &table);
    assert_same(&rows[..1], std::slice::from_ref(&expected));
    assert_eq!(
        (&rows[1][1..expected.len() - 1], rows[1].last().unwrap()),
        (&expected[1..expected.len() - 1], &Value::from("some"))
    );
}

#[test]
fn definitions_come_back_whole() {
    let disk = SimulatedDisk::new();
    let db = open(&disk);
    let definition = TableDefinition::new("everything \"quoted\", and so on")
        .column("b", DataType::Int64)
        .references("branch")
        .column("a", DataType::Text)
        .not_null()
        .default("x")
        .domain("names, of people")
        .column("", DataType::Bool)
        .primary_key(["a", "b"]);
    refused(db.create_table(definition.clone()), &["column 3 has no name"]);
    let definition = TableDefinition::new("everything \"quoted\", and so on")
        .column("b, with a comma", DataType::Int64)
        .references("branch")
        .column("a", DataType::Text)
        .not_null()
        .default("x")
        .domain("names, of people")
        .column("t", DataType::TopK { limit: 7, of: entry_type() })
        .column("c", DataType::Date)
        .primary_key(["a", "b, with a comma"])
        .primary_index(heddledb::PrimaryIndex::Ordered)
        .index("i", ["c", "a"])
        .unique_index("u", ["b, with a comma"]);
    db.create_table(definition.clone()).unwrap();
    for number in 0..30 {
        let name = format!("t{number}");
        db.create_table(TableDefinition::new(name).column("id", DataType::Uuid).primary_key(["id"])).unwrap();
    }
    db.close().unwrap();
    let db = open(&disk);
    assert_eq!(db.table(definition.name()).unwrap().definition(), &definition);
    let names: Vec<String> = db.tables().iter().map(|table| table.name().to_string()).collect();
    assert_eq!((names.len(), &*names[30]), (31, "t29"));
    db.check().unwrap();
}

#[test]
fn tuples_and_sets_are_read_as_rows() {
    let db = in_memory();
    let definition = TableDefinition::new("t")
        .column("id", DataType::Int64)
        .column("last", DataType::OrderedTuple(entry_type()))
        .column("top", DataType::TopK { limit: 2, of: entry_type() });
    let table = db.create_table(definition.primary_key(["id"])).unwrap();
    let set = TopK::of(2, &[entry(1, Some("a")), entry(3, None), entry(2, Some("b"))]).unwrap();
    db.run(|tx| tx.insert(&table, row![1, &entry(3, None), &set])).unwrap();
    let row = dump(&db, &table).remove(0);
    let time = |microseconds| Value::from(Timestamp::from_microseconds(microseconds).unwrap());
    let uuid = |byte| Value::from(Uuid::from_bytes([byte; 16]));
    let three = vec![time(3), Value::Null, uuid(3), Value::Null];
    let two = vec![time(2), Value::from("b"), uuid(2), Value::Null];
    let (Value::Tuple(last), Value::TopK(top)) = (&row[1], &row[2]) else { panic!("{row:?}") };
    assert_eq!(last.row(&entry_type()).unwrap(), three);
    assert_eq!(top.rows(&entry_type()).unwrap(), [three, two]);
    // Read as another type they are refused, not misread.
    let other = TupleType::new(vec![DataType::Bool], vec![]).unwrap();
    refused(last.row(&other), &["no key"]);
    refused(top.rows(&other), &["no key"]);
    let stranger = OrderedTuple::new(&other, &row![true], &[]).unwrap();
    refused(db.run(|tx| tx.insert(&table, row![2, &stranger, None::<i64>])), &[]);
    refused(db.run(|tx| tx.update(&table, key![1], &[("last", (&stranger).into())])), &[]);
    let larger = TopK::of(3, &[entry(1, None), entry(2, None), entry(3, None)]).unwrap();
    refused(db.run(|tx| tx.insert(&table, row![2, None::<i64>, &larger])), &["more entries"]);
}
