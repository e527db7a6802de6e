//! A checkpoint over several directories: they are written beside each other.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::thread;

use heddledb::testing::SimulatedDisk;
use heddledb::{DataType, Database, Options, TableDefinition, row};

/// Each directory has a thread, whatever the number of processors. Which of them finds something to copy in one checkpoint
/// depends on the machine, so checkpoints are made until all have.
#[test]
fn every_directory_has_a_thread_that_writes() {
    let disk = SimulatedDisk::new();
    let directories = ["one", "two", "three", "four"];
    let options =
        Options::default().disk(Arc::new(disk.clone())).checkpoints(|checkpoints| checkpoints.log_bytes(0));
    let options = directories.iter().fold(options, |options, directory| {
        options.checkpoints(|checkpoints| checkpoints.directory(directory))
    });
    let db = Database::open("database", options).expect("a database");
    let definition = TableDefinition::new("t").column("id", DataType::Int64).column("text", DataType::Text);
    let table = db.create_table(definition.primary_key(["id"])).expect("a table");
    let text = "x".repeat(1_000);
    for first in (0..4_000).step_by(100) {
        let insert = |id: i64, tx: &heddledb::Tx<'_, '_>| tx.insert(&table, row![id, text.as_str()]);
        db.run(|tx| (first..first + 100).try_for_each(|id| insert(id, tx))).expect("committed");
    }
    let writers = Arc::new(Mutex::new(BTreeSet::new()));
    let seen = writers.clone();
    disk.watch(move |_| {
        let name = thread::current().name().unwrap_or_default().to_string();
        seen.lock().expect("lock").insert(name);
    });
    let all = (0..directories.len()).map(|number| format!("heddle-checkpoint-{number}"));
    let all: BTreeSet<String> = all.collect();
    let complete = (0..1_000).any(|_| {
        db.checkpoint().expect("whole");
        all.is_subset(&writers.lock().expect("lock"))
    });
    assert!(complete, "{:?}", writers.lock().expect("lock"));
    disk.watch_no_more();
}
