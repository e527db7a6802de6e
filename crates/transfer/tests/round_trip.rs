//! Random tables of all types come back from each format as they were.

use fastrand::Rng;
use heddledb::{
    DataType, Database, Date, Decimal, OrderedTuple, Range, Table, TableDefinition, Timestamp, TopK,
    TupleType, Uuid, Value, ValueRef, row,
};
use heddledb_transfer::{Export, Format, Import};

const FORMATS: &[Format] = &[
    Format::Csv,
    Format::Json,
    #[cfg(feature = "parquet")]
    Format::Parquet,
];

/// Texts that a format could take for something else.
const TEXTS: [&str; 16] = [
    "",
    " ",
    "pen",
    "NULL",
    "\\N",
    "\\.",
    "a,b",
    "\"",
    "\"\"",
    "line\nbreak",
    "\r\n",
    "ß→💶",
    "\\x00",
    "[1]",
    "{}",
    "'",
];

fn entry() -> TupleType {
    TupleType::new(vec![DataType::Int64, DataType::Text], vec![DataType::Float64, DataType::Bytes])
        .expect("a type")
}

fn types() -> Vec<DataType> {
    let decimal = |precision, scale| DataType::Decimal { precision, scale };
    vec![
        DataType::Bool,
        DataType::Int32,
        DataType::Int64,
        DataType::Float64,
        decimal(9, 2),
        decimal(18, 18),
        decimal(38, 7),
        DataType::Text,
        DataType::Bytes,
        DataType::Date,
        DataType::Timestamp,
        DataType::Uuid,
        DataType::OrderedTuple(entry()),
        DataType::TopK { limit: 3, of: entry() },
    ]
}

fn table(db: &Database, name: &str) -> Table {
    let mut definition = TableDefinition::new(name).column("id", DataType::Int64);
    for (number, data_type) in types().into_iter().enumerate() {
        definition = definition.column(format!("column {number}"), data_type.clone());
        definition = definition.column(format!("not null, {number}"), data_type).not_null();
    }
    db.create_table(definition.primary_key(["id"])).expect("it is made")
}

fn tuple(random: &mut Rng) -> OrderedTuple {
    let (order, payload) = (scalar(&DataType::Int64, random), scalar(&DataType::Text, random));
    let (float, bytes) = (scalar(&DataType::Float64, random), scalar(&DataType::Bytes, random));
    let nullable = |value: Value, random: &mut Rng| if random.u8(..4) == 0 { Value::Null } else { value };
    let (float, bytes) = (nullable(float, random), nullable(bytes, random));
    OrderedTuple::new(&entry(), &row![order, payload], &row![float, bytes]).expect("an entry")
}

fn scalar(data_type: &DataType, random: &mut Rng) -> Value {
    match data_type {
        DataType::Bool => Value::Bool(random.bool()),
        DataType::Int32 => Value::Int(i64::from(
            *random.choice(&[i32::MIN, i32::MAX, 0, random.clone().i32(..)]).unwrap_or(&0),
        )),
        DataType::Int64 => {
            Value::Int(*random.choice(&[i64::MIN, i64::MAX, 0, random.clone().i64(..)]).unwrap_or(&0))
        }
        DataType::Float64 => Value::Float(match random.u8(..8) {
            0 => f64::NAN,
            1 => f64::INFINITY,
            2 => f64::NEG_INFINITY,
            3 => -0.0,
            4 => f64::MIN_POSITIVE / 8.0,
            5 => random.f64(),
            6 => f64::from_bits(random.u64(..)),
            _ => random.i32(..).into(),
        }),
        DataType::Decimal { precision, scale } => {
            let bound = 10_i128.pow(u32::from(*precision)) - 1;
            let unscaled =
                *random.choice(&[bound, -bound, 0, random.clone().i128(-bound..=bound)]).unwrap_or(&0);
            Value::Decimal(Decimal::new(unscaled, *scale).expect("within the precision"))
        }
        DataType::Text => Value::from(*random.choice(&TEXTS).unwrap_or(&"")),
        DataType::Bytes => Value::Bytes((0..random.usize(..5)).map(|_| random.u8(..)).collect()),
        DataType::Date => {
            Value::Date(Date::from_days(random.i32(Date::MIN.days()..=Date::MAX.days())).expect("a day"))
        }
        DataType::Timestamp => {
            let all = Timestamp::MIN.microseconds()..=Timestamp::MAX.microseconds();
            Value::Timestamp(Timestamp::from_microseconds(random.i64(all)).expect("a time"))
        }
        DataType::Uuid => Value::Uuid(Uuid::from_bytes(random.u128(..).to_be_bytes())),
        DataType::OrderedTuple(_) => Value::Tuple(tuple(random)),
        DataType::TopK { limit, .. } => {
            let entries: Vec<OrderedTuple> = (0..random.u32(..=*limit)).map(|_| tuple(random)).collect();
            Value::TopK(TopK::of(*limit, &entries).expect("a set"))
        }
    }
}

fn fill(db: &Database, table: &Table, rows: i64, random: &mut Rng) {
    for id in 0..rows {
        let mut values = vec![Value::Int(id)];
        for data_type in types() {
            values.push(if random.u8(..4) == 0 { Value::Null } else { scalar(&data_type, random) });
            values.push(scalar(&data_type, random));
        }
        let values: Vec<ValueRef<'_>> = values.iter().map(ValueRef::from).collect();
        db.run(|tx| tx.insert(table, &values[..])).expect("it is inserted");
    }
}

fn rows(db: &Database, table: &Table) -> Vec<Vec<Value>> {
    let snapshot = db.snapshot().expect("a snapshot");
    let rows = snapshot.scan(table, Range::all()).expect("a scan");
    rows.map(|row| row.expect("a row").to_values()).collect()
}

#[test]
fn random_tables_come_back_as_they_were() {
    let seed = std::env::var("HEDDLE_SEED")
        .map_or_else(|_| fastrand::u64(..), |seed| seed.parse().expect("a number"));
    println!("HEDDLE_SEED={seed}");
    let mut random = Rng::with_seed(seed);
    let db = Database::in_memory().expect("it opens");
    let original = table(&db, "original");
    fill(&db, &original, 200, &mut random);
    for (number, &format) in FORMATS.iter().enumerate() {
        let mut file = Vec::new();
        let exported = Export::new(format).run(&db, &original, &mut file).expect("it is written");
        assert_eq!(exported.rows, 200);
        for rows_are_there in [false, true] {
            let copy = table(&db, &format!("copy {number} {rows_are_there}"));
            if rows_are_there {
                fill(&db, &copy, 1, &mut random);
                db.run(|tx| tx.delete(&copy, 0).map(drop)).expect("it is deleted");
            }
            let mut import = Import::new(format).batch_rows(7);
            if rows_are_there {
                // While rejected rows are collected, rows are inserted in batches.
                import = import.collect_rejected(0, |rejected| panic!("{rejected}"));
            }
            let report = import.run(&db, &copy, &file[..]).expect("it is read");
            assert_eq!((report.rows, report.rejected, report.at_once), (200, 0, !rows_are_there));
            assert_eq!(rows(&db, &copy), rows(&db, &original), "{format:?}");
        }
    }
}

#[test]
fn zeros_keep_their_sign_and_empty_tables_are_files_too() {
    let db = Database::in_memory().expect("it opens");
    let definition =
        |name: &str| TableDefinition::new(name).column("id", DataType::Int64).column("f", DataType::Float64);
    let from = db.create_table(definition("from").primary_key(["id"])).expect("it is made");
    for (number, &format) in FORMATS.iter().enumerate() {
        let mut file = Vec::new();
        let name = format!("empty {number}");
        let to = db.create_table(definition(&name).primary_key(["id"])).expect("it is made");
        assert_eq!(
            Export::new(format).run(&db, &from, &mut file).expect("it is written").rows,
            number as u64
        );
        assert_eq!(Import::new(format).run(&db, &to, &file[..]).expect("it is read").rows, number as u64);
        let floats: Vec<f64> =
            rows(&db, &to).into_iter().map(|row| f64::try_from(&row[1]).expect("a float")).collect();
        assert!(floats.iter().all(|float| float.is_sign_negative()), "{format:?}");
        db.run(|tx| tx.insert(&from, row![number as i64, -0.0])).expect("it is inserted");
    }
}
