//! The transactions: one procedure for each number of writes among the operations.

use std::hint::black_box;

use heddledb::{
    Action, ActionContext, DataType, Database, Error, Procedure, ProcedureDefinition, Result, Row, Table,
    ValueRef,
};

use super::value::{Form, Kind, blind};
use crate::pause::Pause;

/// The operations on a table.
#[derive(Clone)]
pub(super) struct Operations {
    table: Table,
    form: Form,
    kind: Kind,
    pause: Pause,
}

impl Operations {
    pub fn new(table: &Table, form: Form, kind: Kind, pause: Pause) -> Self {
        Self { table: table.clone(), form, kind, pause }
    }

    /// Registers procedures of this many operations, with no write up to writes only. Their arguments are the keys, and
    /// what blind writes are made of.
    pub fn register_all(&self, db: &Database, operations: usize) -> Result<Vec<Procedure>> {
        (0..=operations).map(|writes| self.register(db, operations, writes)).collect()
    }

    fn register(&self, db: &Database, operations: usize, writes: usize) -> Result<Procedure> {
        let mut definition = ProcedureDefinition::new(format!("ycsb-{writes}-writes"));
        for place in 0..operations {
            definition = definition.parameter(format!("record_{place}"), DataType::Int64);
        }
        let reads = operations - writes;
        let actions = (0..operations).map(|place| {
            let action = match self.kind {
                _ if place < reads => self.read(place),
                Kind::Counter => self.count(place),
                Kind::Blind => self.put(place, operations),
            };
            action.key(move |args, key| key.push(args.int(place)?))
        });
        db.register_anonymous(definition.parameter("random", DataType::Int64).phase(actions))
    }

    fn read(&self, place: usize) -> Action {
        let (form, pause) = (self.form, self.pause);
        Action::read(&self.table).body(move |action: &ActionContext| {
            // The value is not used; the compiler must not remove the read.
            black_box(form.integer(&present(action, place)?)?);
            pause.take();
            Ok(())
        })
    }

    /// Reads a record, and writes what it has computed from what it read.
    fn count(&self, place: usize) -> Action {
        let (form, pause) = (self.form, self.pause);
        Action::write(&self.table).body(move |action: &ActionContext| {
            let raised = form.value(form.integer(&present(action, place)?)? + 1);
            action.update(&[(form.column(), ValueRef::from(&raised))])?;
            pause.take();
            Ok(())
        })
    }

    /// Writes a record without looking at it.
    fn put(&self, place: usize, random: usize) -> Action {
        let (form, pause) = (self.form, self.pause);
        Action::write(&self.table).body(move |action: &ActionContext| {
            let args = action.args();
            let value = form.value(blind(args.int(place)?, args.int(random)?));
            action.update(&[(form.column(), ValueRef::from(&value))])?;
            pause.take();
            Ok(())
        })
    }
}

/// The row of an action's key, which is one of the records.
fn present<'a>(action: &ActionContext<'_, 'a>, place: usize) -> Result<Row<'a>> {
    let row = action.get()?;
    row.ok_or_else(|| Error::MissingKey {
        table: "ycsb".to_owned(),
        key: action.args().get(place).map_or_else(|_| String::new(), ToString::to_string),
    })
}
