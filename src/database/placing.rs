//! The placing of a call, apart from the call: so that a benchmark can measure it.

use std::sync::Arc;

use super::{Database, Shared};
use crate::error::Result;
use crate::pipeline::call::Routine;
use crate::pipeline::execute::compute_footprint;
use crate::procedure::Procedure;
use crate::protocol::footprint::Footprint;
use crate::schedule::Wanted;
use crate::schedule::reference::References;
use crate::types::Args;

/// A call that is placed again and again, and never runs.
#[doc(hidden)]
pub struct Placing {
    shared: Arc<Shared>,
    routine: Arc<dyn Routine>,
    args: Args,
    footprint: Footprint,
    references: References,
}

impl Database {
    /// Collects a call's references. For benchmarks: not part of the public interface.
    ///
    /// # Errors
    /// The arguments don't fit.
    #[doc(hidden)]
    pub fn placing(&self, procedure: &Procedure, args: Args) -> Result<Placing> {
        self.shared.check_procedure(procedure)?;
        let (mut footprint, routine) = (Footprint::default(), procedure.routine());
        compute_footprint(&*routine, &args, &mut footprint)?;
        let references = References::default();
        let mut placing = Placing { shared: self.shared.clone(), routine, args, footprint, references };
        placing.collect()?;
        Ok(placing)
    }
}

impl Placing {
    /// Collects the call's references from its footprint; gives their number.
    ///
    /// # Errors
    /// A predicate's own.
    pub fn collect(&mut self) -> Result<usize> {
        if let Wanted::References(form) = self.shared.input().schedule().wanted() {
            self.routine.references(&self.args, &self.footprint, form, &mut self.references)?;
        }
        Ok(self.references.as_slice().len())
    }

    /// The references that were collected, each once, in order.
    pub fn references(&self) -> Vec<u64> {
        let mut references = self.references.as_slice().to_vec();
        references.sort_unstable();
        references.dedup();
        references
    }

    /// Lets the schedule choose a queue for them.
    pub fn decide(&self) -> usize {
        self.shared.input().schedule().place(&self.references).map_or(0, |placement| placement.queue)
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        Action, DataType, Database, Durability, Options, PredictOptions, ProcedureDefinition,
        TableDefinition, args,
    };

    #[test]
    fn a_call_can_be_placed_without_running() {
        let options = Options::default().schedule(PredictOptions::default().history_seconds(0.0)).workers(3);
        let db = Database::in_memory_with(options.durability(Durability::None)).expect("it opens");
        let table = TableDefinition::new("t").column("id", DataType::Int64).primary_key(["id"]);
        let table = db.create_table(table).expect("it is made");
        let definition = ProcedureDefinition::new("p").parameter("id", DataType::Int64);
        let action = Action::read(&table).key(|args, key| key.push(args.int(0)?)).body(|_| Ok(()));
        let procedure = db.register(definition.phase([action])).expect("it is taken");
        let before = db.statistics().committed;
        let mut placing = db.placing(&procedure, args![7]).expect("it fits");
        assert_eq!(placing.collect().expect("it fits"), 1);
        assert_eq!(placing.references().len(), 1);
        let queues: std::collections::HashSet<usize> = (0..9).map(|_| placing.decide()).collect();
        assert_eq!(queues.len(), 3, "nothing is known of it: it goes to the emptiest");
        assert_eq!(db.statistics().committed, before, "it has never run");
        assert!(db.placing(&procedure, args!["x"]).is_err());
    }
}
