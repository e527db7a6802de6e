//! The two transactions, as procedures with one action per probe and as closures.

use std::hint::black_box;
use std::sync::Arc;

use heddledb::{
    Action, ActionContext, Args, Column, DataType, Database, Error, Output, Procedure, ProcedureDefinition,
    Result, Row, Table, key,
};

use super::{PROBES, TABLE};
use crate::pause::Pause;

/// The table, and the columns that probes touch.
pub(super) struct Probes {
    table: Table,
    updates: Column,
    echo: Column,
    pause: Pause,
}

impl Probes {
    pub fn new(table: Table, pause: Pause) -> Result<Self> {
        Ok(Self { updates: table.column("updates")?, echo: table.column("echo")?, table, pause })
    }

    /// Looks at a record, as a reading transaction does.
    fn look(&self, row: Option<Row<'_>>, record: i64) -> Result<i64> {
        let updates = row.ok_or_else(|| missing(record))?.int(self.updates)?;
        self.pause.take();
        Ok(updates)
    }
}

fn missing(record: i64) -> Error {
    Error::MissingKey { table: TABLE.to_owned(), key: record.to_string() }
}

/// A procedure with one action for each of its twenty arguments.
fn register(db: &Database, name: &str, action: impl Fn(usize) -> Action) -> Result<Procedure> {
    let mut definition = ProcedureDefinition::new(name);
    for place in 0..PROBES {
        definition = definition.parameter(format!("record_{place}"), DataType::Int64);
    }
    db.register_anonymous(
        definition
            .phase((0..PROBES).map(|place| action(place).key(move |args, key| key.push(args.int(place)?)))),
    )
}

pub(super) fn register_read(db: &Database, probes: &Arc<Probes>) -> Result<Procedure> {
    register(db, "probe-read", |place| {
        let probes = Arc::clone(probes);
        Action::read(&probes.table.clone()).body(move |action: &ActionContext| {
            let record = action.args().int(place)?;
            // The value is not used; the compiler must not remove the read.
            black_box(probes.look(action.get()?, record)?);
            Ok(())
        })
    })
}

pub(super) fn register_update(db: &Database, probes: &Arc<Probes>) -> Result<Procedure> {
    register(db, "probe-update", |place| {
        let probes = Arc::clone(probes);
        Action::write(&probes.table.clone()).body(move |action: &ActionContext| {
            let raised = probes.look(action.get()?, action.args().int(place)?)? + 1;
            action.update(&[(probes.updates, raised.into()), (probes.echo, raised.into())])
        })
    })
}

/// Runs the same transactions on the caller's own thread.
pub(super) fn run_closure(db: &Database, probes: &Probes, read_only: bool, args: &Args) -> Result<Output> {
    if read_only { run_read(db, probes, args) } else { run_update(db, probes, args) }
}

fn run_read(db: &Database, probes: &Probes, args: &Args) -> Result<Output> {
    db.run(|tx| {
        for place in 0..args.len() {
            let record = args.int(place)?;
            black_box(probes.look(tx.get(&probes.table, key![record])?, record)?);
        }
        Ok(Output::default())
    })
}

fn run_update(db: &Database, probes: &Probes, args: &Args) -> Result<Output> {
    db.run(|tx| {
        for place in 0..args.len() {
            let record = args.int(place)?;
            let raised = probes.look(tx.get(&probes.table, key![record])?, record)? + 1;
            let changes = [(probes.updates, raised.into()), (probes.echo, raised.into())];
            tx.update(&probes.table, key![record], &changes)?;
        }
        Ok(Output::default())
    })
}
