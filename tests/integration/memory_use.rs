//! Tests of the memory of tables: it is counted, stays in proportion to the rows, and is freed with them.

use heddledb::{
    DataType, Database, Durability, Options, PrimaryIndex, Range, Result, Table, TableDefinition, key, row,
};

/// Bytes of a record of these tables: its head, and three words of row, of which one is the key.
const RECORD_BYTES: u64 = 40;

fn database() -> Database {
    Database::in_memory_with(Options::default().durability(Durability::None)).expect("a database in memory")
}

fn definition(name: &str, index: PrimaryIndex) -> TableDefinition {
    TableDefinition::new(name)
        .column("id", DataType::Int64)
        .column("value", DataType::Text)
        .primary_key(["id"])
        .primary_index(index)
}

/// Inserts rows with keys in no order, many in one transaction.
fn fill(db: &Database, table: &Table, rows: i64, value: &str) -> Result<()> {
    for batch in 0..rows / 1_000 {
        db.run(|tx| {
            (0..1_000).try_for_each(|number| {
                let id = (batch * 1_000 + number) * 1_000_003 % rows;
                tx.insert(table, row![id, value])
            })
        })?;
    }
    Ok(())
}

fn delete(db: &Database, table: &Table, from: i64, to: i64) -> Result<()> {
    (from..to).step_by(1_000).try_for_each(|start| {
        db.run(|tx| (start..to.min(start + 1_000)).try_for_each(|id| tx.delete(table, key![id]).map(drop)))
    })
}

#[test]
fn an_empty_table_takes_its_indexes_alone() -> Result<()> {
    let db = database();
    let table = db.create_table(definition("t", PrimaryIndex::Both))?;
    let memory = table.memory();
    assert_eq!((memory.rows, memory.all_row_bytes(), memory.secondary_index_bytes), (0, 0, 0));
    assert!(memory.hash_index_bytes > 0 && memory.ordered_index_bytes > 0);
    assert_eq!(memory.per_row(memory.index_bytes()), 0.0);
    Ok(())
}

#[test]
fn rows_long_values_and_indexes_are_counted_apart() -> Result<()> {
    let db = database();
    let plain = db.create_table(definition("plain", PrimaryIndex::Hash))?;
    let indexed =
        db.create_table(definition("indexed", PrimaryIndex::Ordered).index("by_value", ["value"]))?;
    fill(&db, &plain, 3_000, "short")?;
    fill(&db, &indexed, 3_000, "a value of twenty-six bytes")?;
    let memory = plain.memory();
    assert_eq!((memory.rows, memory.row_bytes), (3_000, 3_000 * RECORD_BYTES));
    assert_eq!(
        (memory.long_value_bytes, memory.ordered_index_bytes, memory.secondary_index_bytes),
        (0, 0, 0)
    );
    assert!(memory.hash_index_bytes >= 3_000 * 8);
    let memory = indexed.memory();
    assert_eq!((memory.rows, memory.hash_index_bytes), (3_000, 0));
    assert_eq!(memory.long_value_bytes, 3_000 * (4 + "a value of twenty-six bytes".len() as u64));
    assert!(memory.ordered_index_bytes >= 3_000 * 16);
    assert!(memory.secondary_index_bytes >= 3_000 * (16 + RECORD_BYTES), "{memory:?}");
    let nodes = plain.memory().index_bytes() + memory.ordered_index_bytes;
    assert!(db.statistics().index_bytes > nodes, "and those of the secondary index");
    Ok(())
}

#[test]
fn keys_of_long_integers_are_stored_once() -> Result<()> {
    let db = database();
    let table = |name: &str, types: [DataType; 2]| {
        let definition = types
            .into_iter()
            .zip(["a", "b"])
            .fold(TableDefinition::new(name), |of, (data_type, name)| of.column(name, data_type));
        db.create_table(definition.column("value", DataType::Int64).primary_key(["b", "a"]))
    };
    let (long, mixed) = (
        table("long", [DataType::Int64, DataType::Int64])?,
        table("mixed", [DataType::Int32, DataType::Int64])?,
    );
    for of in [&long, &mixed] {
        db.run(|tx| (-500..500).try_for_each(|number| tx.insert(of, row![number, -number * 7, number])))?;
        db.run(|tx| tx.update(of, key![7, -1], &[("value", 8.into())]))?;
        let sum = db.read(|snapshot| {
            snapshot.scan(of, Range::all())?.map(|row| row?.int("value")).sum::<Result<i64>>()
        })?;
        assert_eq!(sum, -500 + 9);
    }
    // Head, NULL bits and three columns; the other key, of 12 bytes, has two words of its own.
    assert_eq!(long.memory().row_bytes, 1_000 * (16 + 8 + 3 * 8));
    assert_eq!(mixed.memory().row_bytes, 1_000 * (16 + 16 + 8 + 3 * 8));
    Ok(())
}

/// Nodes that splits replaced are freed while the load goes on, however many rows one transaction inserts.
#[test]
fn large_transactions_leave_no_garbage_of_indexes_behind() -> Result<()> {
    const ROWS: i64 = 100_000;
    let load = || {
        let db = database();
        let [ordered, hash] = [("ordered", PrimaryIndex::Ordered), ("hash", PrimaryIndex::Hash)]
            .map(|(name, index)| db.create_table(definition(name, index)));
        let (ordered, hash) = (ordered?, hash?);
        fill(&db, &ordered, ROWS, "short")?;
        fill(&db, &hash, ROWS, "short")?;
        // Asked before the walk, which would collect what is left. With an unbounded backlog it is 70.
        Ok(db.statistics().index_bytes as f64 / ROWS as f64)
    };
    // A thread of the engine's that is kept from its processor in the middle of a look keeps garbage, too: not each time.
    let per_row = (0..10).map(|_| load()).collect::<Result<Vec<f64>>>()?;
    assert!(
        per_row.iter().any(|bytes| *bytes < 64.0),
        "bytes of index nodes for a row of each table: {per_row:?}"
    );
    Ok(())
}

/// Chunks of nodes go back to the system when all their nodes are freed.
#[test]
fn memory_of_deleted_rows_and_emptied_nodes_comes_back() -> Result<()> {
    const ROWS: i64 = 60_000;
    let db = database();
    let table = db.create_table(definition("t", PrimaryIndex::Ordered))?;
    fill(&db, &table, ROWS, "a value of twenty-six bytes")?;
    let full = table.memory();
    delete(&db, &table, 0, ROWS)?;
    // Threads that are pinned delay it: each transaction collects some of what is there.
    let mut tries = 0;
    while table.memory().ordered_index_bytes > full.ordered_index_bytes / 3 {
        tries += 1;
        assert!(tries < 1_000, "{:?} after {full:?}", table.memory());
        fill(&db, &table, 1_000, "short")?;
        delete(&db, &table, 0, 1_000)?;
    }
    let rows = db.run(|tx| Ok(tx.scan(&table, Range::all())?.count()))?;
    let memory = table.memory();
    assert_eq!((rows, memory.rows, memory.long_value_bytes), (0, 0, 0));
    // The last deletes wait for company before their records are reclaimed.
    assert!(memory.row_bytes < full.row_bytes / 10, "{memory:?} after {full:?}");
    Ok(())
}
