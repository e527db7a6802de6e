//! Columns that are added before and while a follower follows.

use heddledb::testing::SimulatedDisk;
use heddledb::{
    DataType, Database, Options, ProtocolKind, Range, Result, TableChange, TableDefinition, Value, key, row,
    set,
};

use crate::checkpoint::journal::{DIRECTORY, options};
use crate::follower::companion::*;
use crate::support::split::in_time;

const ROWS: i64 = 20;
const LONG: &str = "a default that is too long for a word";

fn open(options: Options) -> Database {
    Database::open(DIRECTORY, options).expect("opens")
}

fn rows(db: &Database) -> Vec<Vec<Value>> {
    let items = db.table("item").expect("the table");
    let all = |tx: &heddledb::Tx<'_, '_>| -> Result<Vec<Vec<Value>>> {
        tx.scan(&items, Range::all())?.map(|row| Ok(row?.to_values())).collect()
    };
    db.run(all).expect("read")
}

fn add(db: &Database, name: &str, data_type: DataType, default: impl Into<Value>) {
    db.change_table("item", TableChange::new().add_column(name, data_type, default)).expect("added");
}

/// A follower's checkpoint, and a database that is opened from it.
fn checkpoint(db: &Database, disk: &SimulatedDisk, protocol: ProtocolKind, what: &str) {
    let report = db.checkpoint().expect("whole");
    assert!(report.by_follower, "{protocol}, {what}");
    let copy = open(options(&disk.crash_image(report.number.into()), protocol));
    assert_eq!(rows(&copy), rows(db), "{protocol}, {what}");
    assert!(copy.recovery().checkpoint > 0, "{protocol}, {what}");
    copy.check().expect("consistent");
}

fn follow_added_columns(protocol: ProtocolKind) {
    let (disk, place) = (SimulatedDisk::new(), Place::new());
    let db = open(place.with(options(&disk, protocol)));
    let definition = TableDefinition::new("item").column("id", DataType::Int64).primary_key(["id"]);
    let items = db.create_table(definition).expect("created");
    db.run(|tx| (0..ROWS).try_for_each(|id| tx.insert(&items, row![id]))).expect("filled");
    let write = |body: &dyn Fn(&heddledb::Tx<'_, '_>) -> Result<()>| db.run(body).expect("written");
    // Before it comes: rows that were written since, and rows that were not.
    add(&db, "n", DataType::Int64, 7);
    write(&|tx| tx.update(&items, key![1], set! { n: 70 }));
    assert!(!db.checkpoint().expect("whole").by_follower);
    write(&|tx| tx.add(&items, key![2], "n", 1));
    let companion = place.follow(disk.clone());
    wait_for_follower(&db);
    checkpoint(&db, &disk, protocol, "added before");
    // While it follows.
    add(&db, "text", DataType::Text, LONG);
    write(&|tx| tx.update(&items, key![2], set! { text: "short" }));
    write(&|tx| tx.update(&items, key![3], set! { text: "written, and longer than a word", n: 3 }));
    checkpoint(&db, &disk, protocol, "added while it follows");
    add(&db, "more", DataType::Int64, 9);
    write(&|tx| (0..5).try_for_each(|id| tx.add(&items, key![id], "more", id)));
    write(&|tx| tx.insert(&items, row![ROWS, 1, "whole", 2]));
    write(&|tx| tx.delete(&items, key![4]).map(drop));
    checkpoint(&db, &disk, protocol, "added twice");
    let last = rows(&db);
    db.close().expect("durable");
    assert_eq!(companion.errors(), []);
    companion.end();
    let db = open(options(&disk, protocol));
    assert_eq!(rows(&db), last, "{protocol}");
}

#[test]
fn a_follower_has_the_columns_that_are_added_before_and_while_it_follows() {
    for &protocol in ProtocolKind::ALL {
        in_time(move || follow_added_columns(protocol));
    }
}
