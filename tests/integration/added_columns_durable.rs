//! Tables with added columns on disk: power that is lost while columns are added and old rows are written, backups, checkpoints
//! with rows of several layouts, and a thousand columns.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::support::tables::{DATABASE, everywhere, in_memory, on_disk};
use heddledb::testing::SimulatedDisk;
use heddledb::{
    DataType, Database, Options, ProtocolKind, Range, Result, TableChange, TableDefinition, Tx, Value, key,
    row, set,
};

const ROWS: i64 = 6;

/// Options with a small log, of which images are soon made and recovered.
fn small(disk: &SimulatedDisk, protocol: ProtocolKind) -> Options {
    on_disk(disk).log(|log| log.segment_bytes(64 << 10).buffer_bytes(32 << 10)).protocol(protocol)
}

fn create(db: &Database) {
    let definition = TableDefinition::new("item")
        .column("id", DataType::Int64)
        .column("name", DataType::Text)
        .primary_key(["id"])
        .index("by_name", ["name"]);
    let items = db.create_table(definition).expect("created");
    let name = |id: i64| format!("a name that is long: {id}");
    db.run(|tx| (0..ROWS).try_for_each(|id| tx.insert(&items, row![id, &name(id)]))).expect("filled");
}

/// The rows, by primary key and by the index.
fn rows(db: &Database) -> Vec<Vec<Value>> {
    let items = db.table("item").expect("the table");
    db.run(|tx| {
        let mut rows: Vec<Vec<Value>> =
            tx.scan(&items, Range::all())?.map(|row| Ok(row?.to_values())).collect::<Result<_>>()?;
        let by_name = tx.scan_index(&items, "by_name", Range::all())?;
        rows.extend(by_name.map(|row| Ok(row?.to_values())).collect::<Result<Vec<_>>>()?);
        Ok(rows)
    })
    .expect("read")
}

fn add(db: &Database, name: &str, data_type: DataType, default: impl Into<Value>) {
    db.change_table("item", TableChange::new().add_column(name, data_type, default)).expect("added");
}

fn write(db: &Database, body: impl Fn(&Tx<'_, '_>, &heddledb::Table) -> Result<()>) {
    let items = db.table("item").expect("the table");
    db.run(|tx| body(tx, &items)).expect("written");
}

/// Columns come, and rows of all layouts are written, one step after the other.
const STEPS: [fn(&Database); 14] = [
    |db| add(db, "n", DataType::Int64, 7),
    |db| write(db, |tx, items| tx.update(items, key![0], set! { n: 70 })),
    |db| write(db, |tx, items| tx.add(items, key![1], "n", 5)),
    |db| add(db, "text", DataType::Text, "a default that is too long for a word"),
    |db| write(db, |tx, items| tx.update(items, key![0], set! { text: "short" })),
    |db| write(db, |tx, items| tx.update(items, key![2], set! { text: "written, and longer than a word" })),
    |db| drop(db.checkpoint().expect("a checkpoint")),
    |db| write(db, |tx, items| tx.update(items, key![3], set! { name: "another", n: 8 })),
    |db| write(db, |tx, items| tx.delete(items, key![4]).map(drop)),
    |db| write(db, |tx, items| tx.insert(items, row![4, "again", 1, "whole"])),
    |db| add(db, "more", DataType::Decimal { precision: 30, scale: 2 }, Value::Null),
    |db| write(db, |tx, items| (0..2).try_for_each(|id| tx.update(items, key![id], set! { more: 12 }))),
    |db| drop(db.change_table("item", TableChange::new().add_index("by_n", ["n"])).expect("an index")),
    |db| write(db, |tx, items| (0..ROWS).try_for_each(|id| tx.update(items, key![id], set! { n: id }))),
];

/// The rows before the first step, and after each.
fn states() -> Vec<Vec<Vec<Value>>> {
    let db = Database::open(DATABASE, on_disk(&SimulatedDisk::new())).expect("opened");
    create(&db);
    let mut states = vec![rows(&db)];
    for step in STEPS {
        step(&db);
        states.push(rows(&db));
    }
    states
}

#[test]
fn power_loss_at_any_moment_leaves_whole_steps() {
    let states = states();
    for &protocol in ProtocolKind::ALL {
        let disk = SimulatedDisk::new();
        let db = Database::open(DATABASE, small(&disk, protocol)).expect("opened");
        create(&db);
        let (done, images) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        let (watched, taken) = (done.clone(), images.clone());
        disk.watch(move |moment| {
            let done = watched.load(Ordering::SeqCst);
            taken.lock().expect("no panic").push((done, moment.image(moment.number())));
        });
        for (number, step) in STEPS.iter().enumerate() {
            step(&db);
            done.store(number + 1, Ordering::SeqCst);
        }
        db.close().expect("closed");
        disk.watch_no_more();
        let mut images = std::mem::take(&mut *images.lock().expect("no panic"));
        images.push((STEPS.len(), disk.crash_image(3)));
        assert!(images.len() > STEPS.len(), "{protocol}");
        for (number, (done, image)) in images.iter().enumerate() {
            let context = format!("{protocol}, image {number}, after step {done}");
            let db = Database::open(DATABASE, small(image, protocol)).expect(&context);
            let found = rows(&db);
            let next = (*done + 1).min(STEPS.len());
            assert!(states[*done..=next].contains(&found), "{context}: {found:?}");
            db.check().expect(&context);
        }
    }
}

#[test]
fn recovered_databases_go_on_with_their_columns() {
    let states = states();
    for &protocol in ProtocolKind::ALL {
        let mut disk = SimulatedDisk::new();
        create(&Database::open(DATABASE, on_disk(&disk).protocol(protocol)).expect("opened"));
        for (number, step) in STEPS.iter().enumerate() {
            let db = Database::open(DATABASE, on_disk(&disk).protocol(protocol)).expect("opened");
            assert_eq!(rows(&db), states[number], "{protocol}, before step {number}");
            step(&db);
            if number % 3 == 2 {
                db.checkpoint().expect("a checkpoint");
            }
            // What was acknowledged is durable, without a close.
            let image = disk.crash_image(number as u64);
            drop(db);
            disk = image;
        }
        let db = Database::open(DATABASE, on_disk(&disk).protocol(protocol)).expect("opened");
        assert_eq!(rows(&db), states[STEPS.len()], "{protocol}");
    }
}

#[test]
fn a_backup_has_what_the_table_has_at_every_step() {
    let states = states();
    for (at, &protocol) in ProtocolKind::ALL.iter().enumerate() {
        let disk = SimulatedDisk::new();
        let options = || on_disk(&disk).protocol(protocol);
        let db = Database::open(DATABASE, options()).expect("opened");
        create(&db);
        for (number, step) in STEPS.iter().enumerate() {
            step(&db);
            if number % 5 != at {
                continue;
            }
            let (backup, place) = (format!("backup {number}"), format!("restored {number}"));
            db.backup(&backup).expect("backed up");
            Database::restore(&backup, &place, options(), &mut |_, _| ()).expect("restored");
            let restored = Database::open(&place, options()).expect("opened");
            assert_eq!(rows(&restored), states[number + 1], "{protocol}, step {number}");
            // It goes on where the other was.
            STEPS[number + 1..].iter().for_each(|step| step(&restored));
            assert_eq!(rows(&restored), states[STEPS.len()], "{protocol}, step {number}");
            restored.check().expect("consistent");
        }
    }
}

/// Columns that are added at once to a table with two, and then one by one.
const AT_ONCE: usize = 986;
const ONE_BY_ONE: usize = 12;

fn name(number: usize) -> String {
    format!("c{number}")
}

/// The default of an added column: an integer, a text or nothing.
fn default(number: usize) -> Value {
    match number % 3 {
        0 => Value::Int(number as i64),
        1 => Value::Text(format!("the default of column {number}")),
        _ => Value::Null,
    }
}

fn with_column(change: TableChange, number: usize) -> TableChange {
    let data_type = if number.is_multiple_of(3) { DataType::Int64 } else { DataType::Text };
    change.add_column(name(number), data_type, default(number))
}

#[test]
fn a_table_gets_a_thousand_columns() {
    let written = |number: usize| match number % 3 {
        0 => Value::Int(-1),
        _ => Value::Text("written, and longer than a word".to_string()),
    };
    let made = |db: &Database| {
        create(db);
        let all = (0..AT_ONCE).fold(TableChange::new(), with_column);
        db.change_table("item", all).expect("added");
        for number in AT_ONCE..AT_ONCE + ONE_BY_ONE {
            db.change_table("item", with_column(TableChange::new(), number)).expect("added");
            if number.is_multiple_of(7) {
                let (name, value) = (name(number), written(number));
                write(db, |tx, items| {
                    tx.update(items, key![1], &[(name.as_str(), heddledb::ValueRef::from(&value))])
                });
            }
        }
    };
    everywhere(made, |db| {
        let found = rows(db);
        assert_eq!(found.len(), 2 * ROWS as usize);
        for row in &found {
            assert_eq!(row.len(), 1_000);
            for (number, value) in row[2..].iter().enumerate() {
                let is_written = row[0] == Value::Int(1) && number >= AT_ONCE && number.is_multiple_of(7);
                let expected = if is_written { written(number) } else { default(number) };
                assert_eq!(*value, expected, "column {number} of {:?}", row[0]);
            }
        }
        db.check().expect("consistent");
    });
}

#[test]
fn the_steps_are_the_same_in_memory() {
    let db = in_memory();
    create(&db);
    let states = states();
    for (number, step) in STEPS.iter().enumerate() {
        if number != 6 {
            step(&db);
        }
        assert_eq!(rows(&db), states[number + 1], "step {number}");
    }
}
