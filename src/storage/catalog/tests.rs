//! A table's definition is read back from the catalog's rows unchanged.

use bumpalo::Bump;
use crossbeam_epoch::pin;

use super::*;
use crate::storage::definition::{PrimaryIndex, TableDefinition};
use crate::storage::slab::Cutter;
use crate::storage::store::Store;
use crate::types::{TupleType, Value, ValueRef};

/// Puts rows into the catalog's tables, as recovery does.
fn put(store: &Store, rows: &[(TableId, Vec<Value>)]) {
    let (guard, arena, mut cutter) = (pin(), Bump::new(), Cutter::default());
    for (id, values) in rows {
        let table = store.table(*id).expect("a table of the catalog");
        let values: Vec<ValueRef<'_>> = values.iter().map(ValueRef::from).collect();
        let key: Vec<ValueRef<'_>> = table.definition().key().iter().map(|&column| values[column]).collect();
        let key = table.encode_key(&key, true).expect("its key");
        let record = table.find_or_place(table.hash(&key), &key, &mut cutter, &guard).record;
        let mut image = vec![0; table.layout().words()];
        for (column, &value) in values.iter().enumerate() {
            table.layout().put(&mut image, column, value, &arena).expect("memory");
        }
        let empty = vec![0; image.len()];
        // SAFETY: the blocks are in the arena, and the new record has none.
        unsafe { table.layout().move_blocks_to_heap(&mut image, &empty, &mut Vec::new()).expect("memory") };
        for (word, new) in record.row().iter().zip(&image) {
            word.store(*new, crate::base::atomics::Ordering::Relaxed);
        }
        let stamp = crate::storage::word::Stamp::new(1, 1);
        record.word().store(stamp.present(), crate::base::atomics::Ordering::Release);
    }
}

fn definition() -> TableDefinition {
    let of = TupleType::new(vec![DataType::Timestamp], vec![DataType::Text]).expect("scalars");
    TableDefinition::new("every thing, \"quoted\"")
        .column("b", DataType::Int32)
        .column("a", DataType::Text)
        .column("price", DataType::Decimal { precision: 20, scale: 3 })
        .not_null()
        .default(crate::types::Decimal::from_stored(1_500, 3))
        .column("name", DataType::Text)
        .default("nameless")
        .references("person")
        .column("newest", DataType::OrderedTuple(of.clone()))
        .column("best", DataType::TopK { limit: 9, of })
        .column("domain", DataType::Uuid)
        .domain("things")
        .primary_key(["a", "b"])
        .primary_index(PrimaryIndex::Hash)
        .routing(["b"])
        .index("by name", ["name", "price"])
        .unique_index("by domain", ["domain"])
}

#[test]
fn a_definition_comes_back_as_it_was() {
    let store = Store::new(1, 1, true);
    definition().validate().expect("sound");
    put(&store, &rows(20, &definition()).expect("rows"));
    store.add_tables_made_before(u64::MAX, &pin()).expect("readable");
    let table = store.table_by_name("every thing, \"quoted\"").expect("made");
    assert_eq!(table.id(), 20);
    assert_eq!(*table.definition(), definition());
    assert_eq!(store.next_table_id(), 21);
    store.add_tables_made_before(u64::MAX, &pin()).expect("again");
    assert_eq!(store.user_tables().len(), 1, "nothing is made twice");
}

#[test]
fn many_tables_are_kept_apart() {
    let store = Store::new(1, 1, true);
    for id in 16..40 {
        let of_id = TableDefinition::new(format!("t{id}"))
            .column("k", DataType::Int64)
            .column(format!("only in {id}"), DataType::Bool)
            .primary_key(["k"]);
        put(&store, &rows(id, &of_id).expect("rows"));
    }
    store.add_tables_made_before(u64::MAX, &pin()).expect("readable");
    let tables = store.user_tables();
    assert_eq!(tables.len(), 24);
    for table in tables {
        assert_eq!(table.definition().columns()[1].name, format!("only in {}", table.id()));
    }
}

#[test]
fn a_damaged_catalog_is_said_and_no_panic() {
    let damaged = |change: fn(&mut Vec<(TableId, Vec<Value>)>)| {
        let store = Store::new(1, 1, true);
        let mut rows = rows(20, &definition()).expect("rows");
        change(&mut rows);
        put(&store, &rows);
        store.add_tables_made_before(u64::MAX, &pin()).expect_err("damaged").to_string()
    };
    assert!(damaged(|rows| rows[0].1[2] = Value::Text("wooden".into())).contains("primary index"));
    assert!(damaged(|rows| rows[1].1[3] = Value::Text("nonsense".into())).contains("nonsense"));
    assert!(
        damaged(|rows| {
            let row = rows.iter_mut().find(|row| row.0 == INDEXES).expect("it has indexes");
            row.1[4] = Value::Text("1,99".into());
        })
        .contains("index")
    );
    assert!(
        damaged(|rows| {
            let row = rows.iter_mut().find(|row| row.0 == INDEXES).expect("it has indexes");
            row.1[4] = Value::Text("one".into());
        })
        .contains("index")
    );
    let routed_by = |column: i64| {
        let store = Store::new(1, 1, true);
        let mut rows = rows(20, &definition()).expect("rows");
        rows.last_mut().expect("it is routed").1[2] = Value::Int(column);
        put(&store, &rows);
        store.add_tables_made_before(u64::MAX, &pin()).map_err(|error| error.to_string())
    };
    assert_eq!(routed_by(0), Ok(()));
    assert!(routed_by(99).expect_err("no such column").contains("routed"));
    assert!(routed_by(-1).expect_err("no such column").contains("routed"));
    assert!(routed_by(3).expect_err("outside of the key").contains("primary key"));
    assert!(!damaged(|rows| rows.retain(|row| row.0 != COLUMNS)).is_empty(), "a table without columns");
}
