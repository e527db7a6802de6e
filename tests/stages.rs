//! Execution, log and output on one thread (`Stages::Single`): calls are told when they are durable, and nothing that a
//! call or the closing of the database waits for is left to a thread that waits itself.

#[path = "support/logged.rs"]
mod logged;

use heddledb::testing::SimulatedDisk;
use heddledb::{
    Action, DataType, Database, Durability, Error, Options, Procedure, ProcedureDefinition, ProtocolKind,
    SerialVariant, Stages, args, key,
};
use logged::*;

const CALLS: i64 = 500;

fn single(options: Options) -> Options {
    options.stages(Stages::Single).workers(1)
}

/// A procedure that adds to a row.
fn adding(bank: &Bank) -> Procedure {
    let table = bank.table.clone();
    let definition = ProcedureDefinition::new("add").parameter("id", DataType::Int64).action(
        Action::commute(&bank.table, &["id"]).run(move |context| context.add(&table, "value", 1)),
    );
    bank.db.register(definition).expect("a procedure")
}
