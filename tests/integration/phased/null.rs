//! Split columns that are NULL, or may be: NULL is below everything to the operations that keep the greatest or the least,
//! in slices as in records; add and multiply leave it as it is.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;

use heddledb::testing::SimulatedDisk;
use heddledb::{
    DataType, Database, Error, Options, PhasedOptions, SplitOperation, Table, TableDefinition, Value,
    ValueRef, key, row,
};

use crate::support::split::*;

const THREADS: i64 = 6;
/// Calls of each thread.
const CALLS: i64 = 200;
/// Orders are below this: few, so that there are many ties.
const ORDERS: i64 = 20;
/// The columns that start as NULL, and what they are split for.
const LABELS: [(&str, SplitOperation); 6] = [
    ("high", SplitOperation::MAX),
    ("low", SplitOperation::MIN),
    ("latest", SplitOperation::MAX),
    ("best", SplitOperation::ORDERED_PUT),
    ("top", SplitOperation::TOP_K_INSERT),
    ("small", SplitOperation::MIN),
];

/// Rows 0 to 9, all of whose columns may be NULL and are.
fn sparse(db: &Database) -> Table {
    let definition = TableDefinition::new("sparse")
        .column("id", DataType::Int64)
        .column("n", DataType::Int64)
        .column("product", DataType::Int64)
        .column("high", DataType::Int64)
        .column("low", DataType::Int64)
        .column("latest", DataType::Decimal { precision: 30, scale: 0 })
        .column("best", DataType::OrderedTuple(entry_type()))
        .column("top", DataType::TopK { limit: TOP, of: entry_type() })
        .column("small", DataType::Int32)
        .column("plain", DataType::Int64)
        .primary_key(["id"]);
    let table = db.create_table(definition).expect("a table");
    let null = ValueRef::Null;
    db.run(|tx| {
        (0..10)
            .try_for_each(|id| tx.insert(&table, row![id, null, null, null, null, null, null, null, null, 0]))
    })
    .expect("rows");
    table
}

fn label(db: &Database, table: &Table, id: i64) {
    for (column, operation) in LABELS {
        db.split(table, key![id], column, operation).expect("a label");
    }
}

fn value(db: &Database, table: &Table, id: i64, column: &str) -> Value {
    let read = db.run(|tx| Ok(tx.get(table, key![id])?.ok_or(Error::Closed)?.get(column)?.to_value()));
    read.expect("a value")
}

/// The order and the payload of a call: the same orders come from all threads.
fn operand(thread: i64, number: i64) -> (i64, i64) {
    ((thread * 7 + number * 3) % ORDERS - ORDERS / 2, thread)
}

fn operate(db: &Database, table: &Table, id: i64, (order, payload): (i64, i64)) {
    db.run(|tx| {
        tx.max(table, key![id], "high", order)?;
        tx.min(table, key![id], "low", order)?;
        tx.max(table, key![id], "latest", order)?;
        tx.min(table, key![id], "small", order)?;
        tx.ordered_put(table, key![id], "best", &row![order], &row![payload])?;
        tx.top_k_insert(table, key![id], "top", &row![order], &row![payload])
    })
    .expect("committed");
}

/// Checks the row against one thread's computation from all operands.
fn assert_is_result_of(db: &Database, table: &Table, id: i64, operands: impl Iterator<Item = (i64, i64)>) {
    let all: BTreeSet<(i64, i64)> = operands.collect();
    let (Some(first), Some(last)) = (all.first(), all.last()) else { panic!("no operands") };
    assert_eq!(value(db, table, id, "high"), Value::Int(last.0));
    assert_eq!(value(db, table, id, "low"), Value::Int(first.0));
    assert_eq!(value(db, table, id, "small"), Value::Int(first.0));
    assert_eq!(value(db, table, id, "latest").to_string(), last.0.to_string());
    assert_eq!(entries(&value(db, table, id, "best")), [*last], "of equal orders the greater payload");
    let mut top: Vec<(i64, i64)> = Vec::new();
    for &(order, payload) in all.iter().rev() {
        if top.last().is_none_or(|kept| kept.0 != order) {
            top.push((order, payload));
        }
    }
    top.truncate(TOP as usize);
    assert_eq!(entries(&value(db, table, id, "top")), top, "one entry for each order");
}

#[test]
fn all_operations_that_rank_null_split_columns_that_are_null() {
    in_time(|| {
        let db = Database::in_memory_with(options(20.0)).expect("options");
        let table = sparse(&db);
        label(&db, &table, 3);
        wait_for_split(&db, &table);
        let split: BTreeSet<String> = report(&db).columns.iter().map(|split| split.column.clone()).collect();
        assert_eq!(split, LABELS.iter().map(|(column, _)| column.to_string()).collect());
        // Nothing of it waits for the joined phase.
        let stashed = in_one_split_phase(&db, &table, || {
            let before = report(&db).stashed;
            (0..5).for_each(|number| operate(&db, &table, 3, operand(1, number)));
            report(&db).stashed - before
        });
        assert_eq!(stashed, 0);
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (db, table) = (&db, &table);
                scope.spawn(move || {
                    (0..CALLS).for_each(|number| operate(db, table, 3, operand(thread, number)));
                });
            }
        });
        let operands = (0..THREADS).flat_map(|thread| (0..CALLS).map(move |n| operand(thread, n)));
        assert_is_result_of(&db, &table, 3, operands);
        db.check().expect("consistent");
    });
}

#[test]
fn null_that_nothing_was_given_to_is_read_as_null_and_what_is_hidden_never_is() {
    in_time(|| {
        let db = Database::in_memory_with(options(5.0)).expect("options");
        let table = sparse(&db);
        db.split(&table, key![3], "high", SplitOperation::MAX).expect("a label");
        for round in 0..20_i64 {
            wait_for_split(&db, &table);
            // A column that is not split, in a row that is.
            let before = report(&db).stashed;
            let low = db.run(|tx| tx.get(&table, key![3])?.ok_or(Error::Closed)?.is_null("low"));
            assert_eq!((low, report(&db).stashed), (Ok(true), before));
            let is_null = db.run(|tx| tx.get(&table, key![3])?.ok_or(Error::Closed)?.is_null("high"));
            assert_eq!(is_null, Ok(round == 0), "round {round}");
            wait_for_split(&db, &table);
            db.run(|tx| tx.max(&table, key![3], "high", round)).expect("committed");
            assert_eq!(value(&db, &table, 3, "high"), Value::Int(round));
        }
        // NULL again, by an ordinary write; and up from there.
        wait_for_split(&db, &table);
        db.run(|tx| tx.update(&table, key![3], &[("high", ValueRef::Null)])).expect("an update");
        wait_for_split(&db, &table);
        assert_eq!(value(&db, &table, 3, "high"), Value::Null);
        wait_for_split(&db, &table);
        db.run(|tx| tx.max(&table, key![3], "high", i64::MIN)).expect("committed");
        assert_eq!(value(&db, &table, 3, "high"), Value::Int(i64::MIN));
    });
}

#[test]
fn null_stays_null_to_additions_and_products_and_a_number_there_is_split() {
    in_time(|| {
        let db = Database::in_memory_with(options(3.0)).expect("options");
        let table = sparse(&db);
        db.split(&table, key![3], "n", SplitOperation::ADD).expect("a label");
        db.split(&table, key![3], "product", SplitOperation::MULTIPLY).expect("a label");
        // The phase is for another column.
        db.split(&table, key![4], "high", SplitOperation::MAX).expect("a label");
        let change = || {
            wait_for_split(&db, &table);
            db.run(|tx| {
                tx.add(&table, key![3], "n", 5)?;
                tx.multiply(&table, key![3], "product", 2)
            })
            .expect("committed");
        };
        for _ in 0..5 {
            change();
            assert_eq!(value(&db, &table, 3, "n"), Value::Null);
            assert_eq!(value(&db, &table, 3, "product"), Value::Null);
        }
        assert!(report(&db).columns.iter().all(|split| split.column == "high"), "{:?}", report(&db));
        db.run(|tx| tx.update(&table, key![3], &[("n", 1.into()), ("product", 1.into())]))
            .expect("an update");
        wait_until("the numbers are split", || {
            db.run(|tx| tx.add(&table, key![PLAIN_ROW], "plain", 1)).expect("an addition");
            let now = |column| report(&db).columns.iter().any(|split| split.now && split.column == column);
            now("n") && now("product")
        });
        (0..5).for_each(|_| change());
        assert_eq!(value(&db, &table, 3, "n"), Value::Int(26));
        assert_eq!(value(&db, &table, 3, "product"), Value::Int(32));
    });
}

/// Tests that split columns are recovered from the log alone, and from a checkpoint of a split record with
/// the log behind it.
#[test]
fn what_was_given_to_null_is_recovered() {
    in_time(|| {
        for with_checkpoint in [false, true] {
            let disk = SimulatedDisk::new();
            let open = |disk: &SimulatedDisk| {
                let options = Options::default()
                    .protocol(PhasedOptions::default().phase_milliseconds(5.0))
                    .disk(Arc::new(disk.clone()))
                    .log(|log| log.buffer_bytes(64 << 10));
                Database::open("db", options).expect("a database")
            };
            let db = open(&disk);
            let table = sparse(&db);
            label(&db, &table, 3);
            for number in 0..60 {
                wait_for_split(&db, &table);
                operate(&db, &table, 3, operand(number % THREADS, number));
                if with_checkpoint && number == 30 {
                    db.checkpoint().expect("a checkpoint");
                }
            }
            let split = report(&db).columns.len();
            // All that was acknowledged, and nothing that a close would add.
            let db = open(&disk.crash_image(7));
            let table = db.table("sparse").expect("there");
            assert_is_result_of(&db, &table, 3, (0..60).map(|number| operand(number % THREADS, number)));
            assert_eq!(value(&db, &table, 2, "top"), Value::Null);
            assert_eq!(split, LABELS.len());
        }
    });
}
