//! The output of handles and definitions with `{:?}`: their names and their state, never the data behind them.

use std::any::type_name;
use std::fmt::{Debug, Formatter, Result};

use crate::database::Placing;
use crate::pipeline::call::Submitted;
use crate::procedure::{
    Action, ActionContext, ActionWith, EachAction, KeyBuilder, LongValues, Predicate, ProcedureDefinition,
};
use crate::session::{Canceler, Session};
use crate::table::TableLookup;
use crate::transaction::{Scan, Tx};
use crate::worker::{Executed, Worker};

/// Prints a type's name and some of what it tells.
macro_rules! debug {
    ($($type:ty: $this:ident => $name:literal $($field:ident: $value:expr),*;)*) => {$(
        impl Debug for $type {
            fn fmt(&self, formatter: &mut Formatter<'_>) -> Result {
                let $this = self;
                formatter.debug_struct($name)$(.field(stringify!($field), &$value))*.finish_non_exhaustive()
            }
        }
    )*};
}

impl<T> Debug for Scan<'_, '_, T> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> Result {
        formatter.debug_struct("Scan").finish_non_exhaustive()
    }
}

impl<P> Debug for ActionWith<P> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> Result {
        formatter.debug_struct("ActionWith").field("parameters", &type_name::<P>()).finish_non_exhaustive()
    }
}

debug! {
    Session: this => "Session" state: this.state();
    Canceler: _this => "Canceler";
    Submitted: this => "Submitted" is_done: this.is_done();
    Executed<'_>: this => "Executed" epoch: this.epoch(), attempts: this.attempts(), failed: this.failed();
    Worker<'_>: this => "Worker" durable_epoch: this.durable_epoch();
    Tx<'_, '_>: _this => "Tx";
    Action: this => "Action" table: this.table.definition().name(), mode: this.mode;
    EachAction: _this => "EachAction";
    ProcedureDefinition: this => "ProcedureDefinition" name: this.name, parameters: this.parameters, phases: this.phases;
    Predicate: this => "Predicate" table: this.table.definition().name();
    LongValues<'_>: _this => "LongValues";
    KeyBuilder<'_>: _this => "KeyBuilder";
    ActionContext<'_, '_>: this => "ActionContext" table: this.table.definition().name(), args: this.args();
    Placing: _this => "Placing";
    TableLookup<'_>: this => "TableLookup" table: this.0.definition().name();
}
