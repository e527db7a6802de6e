//! The whole engine: a database on the simulated disk, with its own threads.

use std::sync::Arc;
use std::thread;

use heddle_model_doors::execution::Bounds;

use super::Model;
use crate::database::Database;
use crate::options::{Durability, Options, Stages};
use crate::procedure::{Action, ProcedureDefinition};
use crate::protocol::ProtocolKind;
use crate::storage::definition::TableDefinition;
use crate::testing::SimulatedDisk;
use crate::types::{Args, DataType, ValueRef};

/// A run takes thousands of steps.
const WHOLE: Bounds = Bounds { interruptions: None, schedules: 100 };

pub(super) const MODELS: &[Model] = &[
    Model::new("pipeline::what_was_reported_is_on_disk", WHOLE, what_was_reported_is_on_disk),
    Model::new("pipeline::every_protocol_adds_all", WHOLE, every_protocol_adds_all),
    Model::new(
        "pipeline::callers_and_workers_run_every_call_once",
        WHOLE,
        callers_and_workers_run_every_call_once,
    ),
];

fn definition() -> TableDefinition {
    TableDefinition::new("item")
        .column("id", DataType::Int64)
        .column("value", DataType::Int64)
        .primary_key(["id"])
}

fn options(disk: &SimulatedDisk) -> Options {
    Options::default()
        .disk(Arc::new(disk.clone()))
        .log(|log| log.segment_bytes(64 << 10).buffer_bytes(4 << 10))
        .threads(|threads| threads.max_worker_contexts(4))
        .log(|log| log.waiter_slots(2))
        .threads(|threads| threads.stages(Stages::Staged))
        .workers(1)
}

/// Two callers commit; what each was acknowledged is in the image that a loss of power would leave at that moment.
fn what_was_reported_is_on_disk() {
    let disk = SimulatedDisk::new();
    let db = Database::open("bank", options(&disk)).expect("a new database");
    let table = db.create_table(definition()).expect("a new table");
    let run = {
        let (db, table, disk) = (db.clone(), table.clone(), disk.clone());
        move |id: i64| {
            db.run(|tx| tx.insert(&table, [ValueRef::Int(id), ValueRef::Int(0)])).expect("it commits");
            let image = disk.crash_image(id as u64);
            let again = Database::open("bank", options(&image)).expect("a database after a loss of power");
            let table = again.table("item").expect("its table");
            let there = again.run(|tx| tx.exists(&table, [ValueRef::Int(id)])).expect("a read");
            assert!(there, "{id} was acknowledged, and is lost");
            again.close().expect("it closes");
        }
    };
    let other = {
        let run = run.clone();
        thread::spawn(move || run(2))
    };
    run(1);
    other.join().expect("it ends");
    drop(run);
    db.close().expect("it closes");
}

/// Two callers add to one row, under each protocol.
fn every_protocol_adds_all() {
    for &protocol in ProtocolKind::ALL {
        let options = Options::default().protocol(protocol).durability(Durability::None).workers(1);
        let db = Database::in_memory_with(options.threads(|threads| threads.max_worker_contexts(4)))
            .expect("a new database");
        let table = db.create_table(definition()).expect("a new table");
        db.run(|tx| tx.insert(&table, [ValueRef::Int(1), ValueRef::Int(0)])).expect("it commits");
        let add = {
            let (db, table) = (db.clone(), table.clone());
            move || {
                for _ in 0..2 {
                    db.run(|tx| tx.add(&table, [ValueRef::Int(1)], "value", 1)).expect("it commits");
                }
            }
        };
        let other = thread::spawn(add.clone());
        add();
        other.join().expect("it ends");
        let read = db.run(|tx| tx.get(&table, [ValueRef::Int(1)])?.map(|row| row.int("value")).transpose());
        let sum = read.expect("a read");
        assert_eq!(sum, Some(4), "{protocol}");
        drop(add);
        db.close().expect("it closes");
    }
}

/// Two callers call a procedure: on their own threads while the worker sleeps, else through its queue.
fn callers_and_workers_run_every_call_once() {
    let options = Options::default().durability(Durability::None).workers(1);
    let options = options.threads(|threads| threads.max_worker_contexts(4).stages(Stages::Folded));
    let db = Database::in_memory_with(options).expect("a new database");
    let table = db.create_table(definition()).expect("a new table");
    db.run(|tx| tx.insert(&table, [ValueRef::Int(1), ValueRef::Int(0)])).expect("it commits");
    let add = ProcedureDefinition::new("add")
        .phase([Action::commute(&table).key(|_, key| key.push(1)).body(|action| action.add("value", 1))]);
    let add = db.register(add).expect("a procedure");
    let call = {
        let (db, add) = (db.clone(), add.clone());
        move || (0..2).for_each(|_| drop(db.call(&add, Args::default()).expect("it commits")))
    };
    let other = thread::spawn(call.clone());
    call();
    other.join().expect("it ends");
    let read = db.run(|tx| tx.get(&table, [ValueRef::Int(1)])?.map(|row| row.int("value")).transpose());
    assert_eq!(read.expect("a read"), Some(4));
    drop(call);
    db.close().expect("it closes");
}
