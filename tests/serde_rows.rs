//! Rows as maps, with the feature `serde`: `cargo test -p heddledb --features serde --test serde_rows`.

#![cfg(feature = "serde")]

use heddledb::{
    DataType, Database, Date, Decimal, OrderedTuple, Result, Table, TableDefinition, Timestamp, TupleType,
    Uuid, Value, fail, key, row,
};
use serde::{Deserialize, Serialize};

/// A row as a struct needs nothing of the engine's for serde.
#[derive(Debug, PartialEq, Serialize, Deserialize, Table)]
struct Item {
    #[table(key)]
    id: i64,
    name: String,
    #[table(data_type = "decimal(12, 2)")]
    price: Option<heddledb::Decimal>,
    day: heddledb::Date,
}

fn item() -> Item {
    Item {
        id: 7,
        name: "pen".into(),
        price: Some("1.90".parse().expect("a decimal")),
        day: "2026-11-23".parse().expect("a day"),
    }
}

const JSON: &str = r#"{"id":7,"name":"pen","price":"1.90","day":"2026-11-23"}"#;

fn json(row: &impl Serialize) -> Result<String> {
    serde_json::to_string(row).map_err(|error| fail(error.to_string()))
}

#[test]
fn a_dynamic_row_and_its_struct_are_the_same_map() {
    let db = Database::in_memory().expect("a database");
    let items = db.table_of::<Item>().expect("a table");
    let dynamic: &Table = &items;
    db.run(|tx| tx.insert(&items, &item())).expect("inserted");
    let in_transaction = db.run(|tx| json(&tx.get(dynamic, 7)?)).expect("read");
    let in_snapshot = db.read(|snapshot| json(&snapshot.get(dynamic, 7)?)).expect("read");
    let typed = db.run(|tx| json(&tx.get(&items, 7)?)).expect("read");
    assert_eq!([in_transaction, in_snapshot, typed], [JSON, JSON, JSON]);
    assert_eq!(serde_json::from_str::<Item>(JSON).expect("it is read back"), item());
}

#[test]
fn null_and_tuples_have_their_place() {
    let db = Database::in_memory().expect("a database");
    let games = TableDefinition::new("game")
        .column_of("id", "int64")
        .column_of("best", "top_k(2; int64; text)")
        .column_of("latest", "ordered_tuple(int64; text)")
        .primary_key(["id"]);
    let games = db.create_table(games).expect("a table");
    db.run(|tx| tx.insert(&games, row![1, None::<i64>, None::<i64>])).expect("inserted");
    let read = || db.run(|tx| json(&tx.get(&games, 1)?)).expect("read");
    assert_eq!(read(), r#"{"id":1,"best":null,"latest":null}"#);
    for (score, name) in [(10, "Ada"), (12, "Bea"), (7, "Cem")] {
        db.run(|tx| {
            tx.top_k_insert(&games, 1, "best", &row![score], &row![name])?;
            tx.ordered_put(&games, 1, "latest", &row![score], &row![name])
        })
        .expect("it commits");
    }
    assert_eq!(read(), r#"{"id":1,"best":[[12,"Bea"],[10,"Ada"]],"latest":[12,"Bea"]}"#);
    let map: std::collections::BTreeMap<String, serde_json::Value> =
        serde_json::from_str(&read()).expect("it is a map");
    assert_eq!(map.len(), 3);
    let id: Value = serde_json::from_value(map["id"].clone()).expect("a value");
    assert_eq!(id, Value::from(1));
}

#[test]
fn values_keep_their_kind_where_the_format_has_it() {
    for value in [
        Value::Null,
        true.into(),
        7.into(),
        i64::MIN.into(),
        i64::MAX.into(),
        0.5.into(),
        "a \"text\"\0".into(),
        vec![0_u8, 7, 255].into(),
    ] {
        let text = serde_json::to_string(&value).expect("every value has a text");
        assert_eq!(serde_json::from_str::<Value>(&text).expect("it is read back"), value, "{text}");
    }
    let beyond: Value = serde_json::from_str("18446744073709551615").expect("it is read");
    assert_eq!(beyond, Value::from(u64::MAX));
}

#[test]
fn exact_types_are_their_texts() {
    let decimal: Decimal = "-120.50".parse().expect("a decimal");
    let day: Date = "2026-11-23".parse().expect("a day");
    let (time, id) = (Timestamp::MAX, Uuid::from_bytes([7; 16]));
    let row = row![decimal, day, time, id];
    let text = serde_json::to_string(&row[..]).expect("it has a text");
    assert!(text.starts_with("[\"-120.50\",\"2026-11-23\",\""), "{text}");
    let back: (Decimal, Date, Timestamp, Uuid) = serde_json::from_str(&text).expect("it is read back");
    assert_eq!(back, (decimal, day, time, id));
    for wrong in ["\"tomorrow\"", "7", "null"] {
        assert!(serde_json::from_str::<Date>(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn what_is_no_value_is_refused() {
    for wrong in ["{}", "[1, 256]", "[\"a\"]", "[[1]]"] {
        assert!(serde_json::from_str::<Value>(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn tuples_without_a_column_are_bytes() {
    let of = TupleType::new(vec![DataType::Int64], vec![]).expect("a type");
    let tuple = Value::from(OrderedTuple::new(&of, &key![1], &key![]).expect("a tuple"));
    let text = serde_json::to_string(&tuple).expect("it has a text");
    assert!(matches!(serde_json::from_str(&text), Ok(Value::Bytes(_))), "{text}");
}
