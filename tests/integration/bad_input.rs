//! Bad input: each kind is refused with an error that names what is wrong and says what to do, and leaves no trace.

mod names;
mod values;

use crate::assert_kind;
use crate::support::tables::{
    account_definition, counter_definition, dump, in_memory, order_definition, refused, rows_of,
};
use heddledb::{
    DataType, Database, Durability, Error, Options, PrimaryIndex, Range, SerialOptions, Table,
    TableDefinition, TupleType, Value, ValueRef, key, row,
};

const LIMIT: usize = 16 << 20;

fn accounts() -> (Database, Table) {
    let db = in_memory();
    let table = db.create_table(account_definition()).unwrap();
    db.run(|tx| tx.insert(&table, row![1, "ada", 7, 100, 0])).unwrap();
    (db, table)
}

/// Runs what must be refused, in a transaction that has changed something before, and looks that nothing stayed.
#[track_caller]
fn refused_without_a_trace(
    db: &Database,
    table: &Table,
    words: &[&str],
    body: impl Fn(&heddledb::Tx<'_, '_>) -> heddledb::Result<()>,
) -> Error {
    let before = dump(db, table);
    let error = refused(
        db.run(|tx| {
            tx.insert(table, row![99, "trace", None::<i64>, 1, 0])?;
            body(tx)
        }),
        words,
    );
    assert_eq!(dump(db, table), before);
    db.check().unwrap();
    error
}

#[test]
fn a_wrong_type_is_reported_with_both_types() {
    let (db, table) = accounts();
    let wrong = |words: &[&str], body: &dyn Fn(&heddledb::Tx<'_, '_>) -> heddledb::Result<()>| {
        let error = refused_without_a_trace(&db, &table, words, body);
        assert_kind!(error, Error::WrongType { .. });
    };
    wrong(&["account.balance", "int64", "a text", "give it a value of that type"], &|tx| {
        tx.insert(&table, row![2, "bea", 7, "much", 0])
    });
    wrong(&["account.name", "text", "an integer"], &|tx| tx.insert(&table, row![2, 3, 7, 1, 0]));
    wrong(&["account.id", "int64", "a text"], &|tx| tx.insert(&table, row!["2", "bea", 7, 1, 0]));
    wrong(&["account.balance", "a float"], &|tx| {
        tx.update(&table, key![1], &[("balance", ValueRef::from(1.5))])
    });
    wrong(&["account.id", "a text"], &|tx| tx.get(&table, key!["1"]).map(drop));
    wrong(&["account.id", "a bool"], &|tx| tx.delete(&table, key![true]).map(drop));
    wrong(&["account.balance", "int64", "a text"], &|tx| tx.add(&table, key![1], "balance", "1"));
    wrong(&["account.visits", "int32", "a float"], &|tx| tx.max(&table, key![1], "visits", 1.0));
    wrong(&["account.id", "a text"], &|tx| rows_of(tx.scan(&table, Range::from(key!["x"]))).map(drop));
    wrong(&["account.branch", "a text"], &|tx| {
        rows_of(tx.scan_index(&table, "account_by_branch", Range::prefix(key!["x"]))).map(drop)
    });
}

#[test]
fn an_operation_that_a_column_does_not_take_is_refused_with_the_types_it_takes() {
    let (db, table) = accounts();
    let error = refused_without_a_trace(&db, &table, &["add", "text", "int32, int64, float64"], |tx| {
        tx.add(&table, key![1], "name", 1)
    });
    assert_kind!(error, Error::WrongOperation { .. });
    refused_without_a_trace(&db, &table, &["max", "text", "it takes"], |tx| {
        tx.max(&table, key![1], "name", "b")
    });
    refused_without_a_trace(&db, &table, &["ordered put", "int64", "ordered_tuple"], |tx| {
        tx.ordered_put(&table, key![1], "balance", &row![1], &[])
    });
    refused_without_a_trace(&db, &table, &["top-K insert", "int64", "top_k"], |tx| {
        tx.top_k_insert(&table, key![1], "balance", &row![1], &[])
    });
    let error = refused_without_a_trace(&db, &table, &["account.id", "primary key"], |tx| {
        tx.add(&table, key![1], "id", 1)
    });
    assert_kind!(error, Error::InvalidValue { .. });
    refused_without_a_trace(&db, &table, &["account.id", "delete the row and insert it again"], |tx| {
        tx.update(&table, key![1], &[("id", 2.into())])
    });
}

#[test]
fn a_getter_of_another_type_says_what_the_column_holds() {
    let (db, table) = accounts();
    db.run(|tx| tx.insert(&table, row![2, "bea", None::<i64>, 5, 0])).unwrap();
    let read = |words: &[&str], get: &dyn Fn(&heddledb::Row<'_>) -> heddledb::Result<()>| {
        let error = refused(db.run(|tx| get(&tx.get(&table, key![2])?.unwrap())), words);
        assert_kind!(error, Error::WrongRead { .. });
    };
    read(&["account.balance", "holds int64", "read as a text"], &|row| row.text("balance").map(drop));
    read(&["account.name", "holds text", "read as an integer"], &|row| row.int("name").map(drop));
    read(&["account.branch", "holds NULL", "read as an integer", "is_null"], &|row| {
        row.int("branch").map(drop)
    });
}

#[test]
fn null_where_there_must_be_a_value_is_refused() {
    let (db, table) = accounts();
    let null = None::<i64>;
    for (column, row) in [
        ("account.id", row![null, "bea", 7, 1, 0]),
        ("account.name", row![2, null, 7, 1, 0]),
        ("account.balance", row![2, "bea", 7, null, 0]),
    ] {
        let error = refused_without_a_trace(&db, &table, &[column, "NULL", "give it one"], |tx| {
            tx.insert(&table, row)
        });
        assert_kind!(error, Error::NullValue { .. });
    }
    refused_without_a_trace(&db, &table, &["account.balance", "NULL"], |tx| {
        tx.update(&table, key![1], &[("balance", ValueRef::Null)])
    });
    refused_without_a_trace(&db, &table, &["account.id", "NULL"], |tx| tx.get(&table, key![null]).map(drop));
    refused_without_a_trace(&db, &table, &["account.name", "NULL"], |tx| {
        tx.insert_columns(&table, &[("id", 2.into())])
    });
    refused_without_a_trace(&db, &table, &["NULL", "add needs a value"], |tx| {
        tx.add(&table, key![1], "balance", ValueRef::Null)
    });
    // Where NULL may be, it may be.
    db.run(|tx| tx.update(&table, key![1], &[("branch", ValueRef::Null), ("visits", ValueRef::Null)]))
        .unwrap();
}

#[test]
fn a_duplicate_key_is_shown() {
    let (db, table) = accounts();
    let words = ["account", "(1)", "update it, or choose another key"];
    let error = refused_without_a_trace(&db, &table, &words, |tx| tx.insert(&table, row![1, "x", 7, 1, 0]));
    assert_kind!(error, Error::DuplicateKey { .. });
    let words = ["account (index account_by_name)", "(ada)"];
    let error = refused_without_a_trace(&db, &table, &words, |tx| tx.insert(&table, row![2, "ada", 7, 1, 0]));
    assert_kind!(error, Error::DuplicateKey { .. });
    // The rival may be a row of the same transaction.
    refused_without_a_trace(&db, &table, &["(99)"], |tx| tx.insert(&table, row![99, "x", 7, 1, 0]));
    refused_without_a_trace(&db, &table, &["(trace)"], |tx| tx.insert(&table, row![3, "trace", 7, 1, 0]));
    refused_without_a_trace(&db, &table, &["(ada)"], |tx| {
        tx.update(&table, key![99], &[("name", "ada".into())])
    });
    let orders = db.create_table(order_definition()).unwrap();
    db.run(|tx| tx.insert(&orders, row![3, 4, 5])).unwrap();
    refused(db.run(|tx| tx.insert(&orders, row![3, 4, 6])), &["orders", "(3, 4)"]);
}

#[test]
fn a_body_may_go_on_after_a_refused_statement() {
    let (db, table) = accounts();
    db.run(|tx| {
        refused(tx.insert(&table, row![2, "ada", 7, 1, 0]), &["account_by_name"]);
        refused(
            tx.update(&table, key![1], &[("balance", 5.into()), ("visits", (1_i64 << 40).into())]),
            &["visits"],
        );
        refused(tx.add(&table, key![7], "balance", 1), &["(7)"]);
        tx.insert(&table, row![2, "bea", 7, 1, 0])
    })
    .unwrap();
    assert_eq!(dump(&db, &table).len(), 2);
    assert_eq!(dump(&db, &table)[0][3], Value::Int(100));
    db.check().unwrap();
}

#[test]
fn a_missing_key_is_shown() {
    let (db, table) = accounts();
    let words = ["account", "(8)", "insert it first"];
    let missing = |body: &dyn Fn(&heddledb::Tx<'_, '_>) -> heddledb::Result<()>| {
        let error = refused_without_a_trace(&db, &table, &words, body);
        assert_kind!(error, Error::MissingKey { .. });
    };
    missing(&|tx| tx.update(&table, key![8], &[("balance", 1.into())]));
    missing(&|tx| tx.update(&table, key![8], &[("name", "bea".into())]));
    missing(&|tx| tx.add(&table, key![8], "balance", 1));
    missing(&|tx| tx.max(&table, key![8], "balance", 1));
    missing(&|tx| tx.min(&table, key![8], "branch", 1));
    // Also of a row that this transaction has deleted.
    refused_without_a_trace(&db, &table, &["(1)"], |tx| {
        assert!(tx.delete(&table, key![1])?);
        assert!(!tx.delete(&table, key![1])?);
        tx.add(&table, key![1], "balance", 1)
    });
    assert!(!db.run(|tx| tx.delete(&table, key![8])).unwrap());
}

#[test]
fn a_range_needs_an_ordered_index() {
    let db = in_memory();
    let table = db.create_table(counter_definition().primary_index(PrimaryIndex::Hash)).unwrap();
    db.run(|tx| tx.insert(&table, row![1, 1])).unwrap();
    let words = ["counter", "PrimaryIndex::Ordered or Both", "Range::all()"];
    for range in
        [Range::from(key![1]), Range::prefix(key![1]), Range::all().to(key![3]), Range::all().reverse()]
    {
        let error = refused(db.run(|tx| rows_of(tx.scan(&table, range.clone()))), &words);
        assert_kind!(error, Error::NoOrderedIndex { .. });
    }
    assert_eq!(db.run(|tx| rows_of(tx.scan(&table, Range::all()))).unwrap().len(), 1);
}

#[test]
fn a_handle_of_another_database_is_refused() {
    let (db, table) = accounts();
    let (_other, foreign) = accounts();
    let words = ["account", "another database", "Database::table"];
    let foreign_table = |body: &dyn Fn(&heddledb::Tx<'_, '_>) -> heddledb::Result<()>| {
        let error = refused_without_a_trace(&db, &table, &words, body);
        assert_kind!(error, Error::ForeignTable { .. });
    };
    foreign_table(&|tx| tx.get(&foreign, key![1]).map(drop));
    foreign_table(&|tx| tx.exists(&foreign, key![1]).map(drop));
    foreign_table(&|tx| tx.insert(&foreign, row![2, "bea", 7, 1, 0]));
    foreign_table(&|tx| tx.update(&foreign, key![1], &[("balance", 1.into())]));
    foreign_table(&|tx| tx.add(&foreign, key![1], "balance", 1));
    foreign_table(&|tx| tx.delete(&foreign, key![1]).map(drop));
    foreign_table(&|tx| rows_of(tx.scan(&foreign, Range::all())).map(drop));
    foreign_table(&|tx| rows_of(tx.scan_index(&foreign, "account_by_name", Range::all())).map(drop));
}

#[test]
fn definitions_that_make_no_sense_are_refused() {
    let db = in_memory();
    let id = || TableDefinition::new("t").column("id", DataType::Int64);
    let top = DataType::TopK { limit: 3, of: TupleType::new(vec![DataType::Int64], vec![]).unwrap() };
    let wide = (0..2_049)
        .fold(TableDefinition::new("t"), |wide, number| wide.column(format!("c{number}"), DataType::Bool));
    let cases: Vec<(TableDefinition, &[&str])> = vec![
        (id(), &["\"t\"", "no primary key", "add .primary_key"]),
        (TableDefinition::new("t").primary_key(["id"]), &["\"id\""]),
        (TableDefinition::new("").column("id", DataType::Int64).primary_key(["id"]), &["name", "1 to 255"]),
        (
            TableDefinition::new("n".repeat(256)).column("id", DataType::Int64).primary_key(["id"]),
            &["1 to 255"],
        ),
        (
            TableDefinition::new("heddle_x").column("id", DataType::Int64).primary_key(["id"]),
            &["choose another"],
        ),
        (id().column("id", DataType::Bool).primary_key(["id"]), &["two columns", "\"id\"", "rename one"]),
        (id().column("", DataType::Bool).primary_key(["id"]), &["column 2 has no name"]),
        (id().primary_key(["id", "id"]), &["\"id\"", "twice"]),
        (id().primary_key(["di"]), &["\"di\"", "its columns are: id"]),
        (id().primary_key(["id"]).index("by_x", ["x"]), &["\"x\"", "its columns are: id"]),
        (
            id().primary_key(["id"]).index("by", ["id"]).index("by", ["id"]),
            &["two indexes", "\"by\"", "rename"],
        ),
        (id().primary_key(["id"]).index("by", []), &["\"by\"", "at least one column"]),
        (id().primary_key(["id"]).unique_index("", ["id"]), &["needs a name"]),
        (
            TableDefinition::new("t").not_null().column("id", DataType::Int64),
            &["not_null", "name a column first"],
        ),
        (id().column("k", top.clone()).primary_key(["k"]), &["\"k\"", "top_k", "no key can hold"]),
        (id().column("k", top).primary_key(["id"]).index("by_k", ["k"]), &["\"k\"", "no key can hold"]),
        (id().default("x").primary_key(["id"]), &["default of t.id", "int64", "a text"]),
        (
            id().column("n", DataType::Int32).default(1_i64 << 40).primary_key(["id"]),
            &["t.n", "out of range"],
        ),
        (
            id().column("d", DataType::Decimal { precision: 39, scale: 0 }).primary_key(["id"]),
            &["decimal(39,0)", "precision"],
        ),
        (
            id().column("d", DataType::Decimal { precision: 3, scale: 4 }).primary_key(["id"]),
            &["decimal(3,4)", "scale"],
        ),
        (wide.primary_key(["c0"]), &["2049 columns", "split it"]),
    ];
    for (definition, words) in cases {
        refused(db.create_table(definition), words);
    }
    assert!(db.tables().is_empty());
    db.create_table(id().primary_key(["id"])).unwrap();
    let error =
        refused(db.create_table(id().primary_key(["id"])), &["\"t\" exists already", "Database::open_table"]);
    assert_kind!(error, Error::TableExists { .. });
    refused(TupleType::new(vec![], vec![DataType::Bool]), &["no order column"]);
    assert_eq!(db.tables().len(), 1);
}

#[test]
fn options_out_of_range_are_refused() {
    let memory = || Options::default().durability(Durability::None);
    let cases: Vec<(&str, Options, &[&str])> = vec![
        ("workers", memory().workers(0), &["0", "1 to 1024"]),
        ("workers", memory().workers(5_000), &["5000"]),
        ("threads.input", memory().threads(|threads| threads.input(0)), &["1 to 64"]),
        ("threads.output", memory().threads(|threads| threads.output(65)), &["65", "1 to 64"]),
        ("log.group_size", memory().log(|log| log.group_size(0)), &["0", "1 to"]),
        (
            "log.group_milliseconds",
            memory().log(|log| log.group_milliseconds(0.0)),
            &["0", "more than 0, at most 60000"],
        ),
        ("log.group_milliseconds", memory().log(|log| log.group_milliseconds(-5.0)), &["-5"]),
        ("log.group_milliseconds", memory().log(|log| log.group_milliseconds(f64::NAN)), &["NaN"]),
        ("log.group_milliseconds", memory().log(|log| log.group_milliseconds(60_001.0)), &["60001"]),
        ("queues.max_in_flight", memory().queues(|queues| queues.max_in_flight(0)), &["0"]),
        (
            "threads.max_worker_contexts",
            memory().threads(|threads| threads.max_worker_contexts(1)),
            &["1", "2 to"],
        ),
        (
            "threads.max_worker_contexts",
            memory().threads(|threads| threads.max_worker_contexts(4)).workers(4),
            &["4", "5 to"],
        ),
        ("serial.partitions", memory().protocol(SerialOptions::default().partitions(0)), &["1 to 64"]),
        ("serial.partitions", memory().protocol(SerialOptions::default().partitions(65)), &["65"]),
        ("log.waiter_slots", memory().log(|log| log.waiter_slots(1)), &["1", "2 to"]),
        ("log.segment_bytes", memory().log(|log| log.segment_bytes(1)), &["65536 to"]),
        ("log.segment_bytes", memory().log(|log| log.segment_bytes(u64::MAX)), &["65536 to"]),
        ("log.buffer_bytes", memory().log(|log| log.buffer_bytes(100)), &["100", "4096 to"]),
        ("durability", Options::default(), &["group", "Durability::None, because a database in memory"]),
        ("durability", Options::default().durability(Durability::Async), &["async", "Durability::None"]),
    ];
    for (option, options, words) in cases {
        let error = refused(Database::in_memory_with(options.clone()), words);
        assert!(
            matches!(&error, Error::InvalidOption { option: named, .. } if *named == option),
            "{error:?}"
        );
        if option != "durability" {
            // Before anything is made on disk.
            let disk = heddledb::testing::SimulatedDisk::new();
            let opened = Database::open("bank", options.disk(std::sync::Arc::new(disk.clone())));
            refused(opened, words);
            assert_eq!(disk.operations(), 0);
        }
    }
    let choices = [
        refused("fast".parse::<Durability>(), &["durability", "fast", "none, async, group"]),
        refused("folder".parse::<heddledb::Stages>(), &["stages", "folded, staged"]),
        refused("seriel".parse::<heddledb::ProtocolKind>(), &["protocol", "seriel", "serial"]),
        refused("s".parse::<heddledb::SerialVariant>(), &["variant", "naive, precommit or sp"]),
    ];
    assert!(choices.iter().all(|error| matches!(error, Error::InvalidOption { .. })));
}
