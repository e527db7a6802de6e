//! Phase reconciliation, seen from outside: split columns, stashing, exact errors, recovery.

mod bounds;
mod change;
mod crash;
mod early_end;
mod exact;
mod failures;
mod hammer;
mod mishaps;
mod null;
mod rows;
mod several_columns;
mod waiting;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use heddledb::{
    DataType, Database, Durability, Error, Options, PhasedOptions, Result, SplitOperation, Table,
    TableDefinition, key, row,
};

fn options_with(phase_milliseconds: f64) -> Options {
    let phased = PhasedOptions::default().phase_milliseconds(phase_milliseconds);
    Options::default().protocol(phased).durability(Durability::None)
}

fn options() -> Options {
    options_with(2.0)
}

/// Counters 0 to 9.
fn counters(db: &Database) -> Table {
    let definition = TableDefinition::new("counter")
        .column("id", DataType::Int64)
        .column("n", DataType::Int64)
        .not_null()
        .column("high", DataType::Int64)
        .not_null()
        .column("note", DataType::Text)
        .primary_key(["id"]);
    let table = db.create_table(definition).expect("a table");
    db.run(|tx| {
        (0..10).try_for_each(|id| tx.insert(&table, row![id, 0, 0, "a note that is longer than a word"]))
    })
    .expect("rows");
    table
}

fn count(db: &Database, table: &Table, id: i64) -> i64 {
    db.run(|tx| tx.get(table, key![id])?.ok_or(Error::Closed)?.int("n")).expect("a counter")
}

/// Waits until a split phase has begun.
fn wait_for_split(db: &Database, table: &Table) {
    let start = Instant::now();
    while db.phases().expect("phased").split == 0 {
        // Labels alone lead to split phases only where calls commit.
        db.run(|tx| tx.add(table, key![0], "high", 1)).expect("an addition");
        assert!(start.elapsed() < Duration::from_secs(120), "nothing is split");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn additions_to_a_split_column_are_all_there_and_readers_see_whole_states() {
    let db = Database::in_memory_with(options()).expect("options");
    let table = counters(&db);
    db.split(&table, key![3], "n", SplitOperation::ADD).expect("a label");
    wait_for_split(&db, &table);
    let (stop, added) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    db.run(|tx| tx.add(&table, key![3], "n", 1)).expect("an addition");
                    added.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let (mut last, mut reads) = (0, 0);
        while reads < 50 || db.phases().expect("phased").stashed < 3 {
            reads += 1;
            let before = added.load(Ordering::Relaxed) as i64;
            let now = count(&db, &table, 3);
            assert!(now >= last && now >= before, "{now} after {last}, {before} were read");
            last = now;
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(count(&db, &table, 3) as u64, added.load(Ordering::Relaxed));
    let report = db.phases().expect("phased");
    assert!(report.split > 0 && report.reconciliation > 0 && report.stashed > 0, "{report:?}");
    assert_eq!((report.columns[0].column.as_str(), report.columns[0].key.as_str()), ("n", "3"));
}

#[test]
fn other_columns_of_a_split_row_are_read_and_written_as_usual() -> Result<()> {
    let db = Database::in_memory_with(options_with(200.0))?;
    let table = counters(&db);
    db.split(&table, key![3], "n", SplitOperation::ADD)?;
    wait_for_split(&db, &table);
    let before = db.phases().expect("phased").stashed;
    for round in 0..20 {
        let note = format!("another note, number {round}");
        db.run(|tx| {
            tx.update(&table, key![3], &[("note", note.as_str().into()), ("high", round.into())])?;
            tx.add(&table, key![3], "n", 2)
        })?;
        let read =
            db.run(|tx| Ok(tx.get(&table, key![3])?.ok_or(Error::Closed)?.text("note")?.to_string()))?;
        assert_eq!(read, note);
    }
    assert_eq!(db.phases().expect("phased").stashed, before, "nothing looked at the split column");
    assert_eq!(count(&db, &table, 3), 40);
    Ok(())
}
