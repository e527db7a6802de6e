//! A procedure in parts: for execution of the actions of one call on several threads.
//!
//! A part is one reference of the footprint: an action, or an instance of a repeated one. What a body may reach is
//! checked as ever: it is the reference, as it was declared, or as earlier phases' values have led to it.

use std::cell::RefCell;
use std::ops::Range;

use crossbeam_epoch::Guard;

use crate::error::Result;
use crate::pipeline::call::{Found, Gathered, Parts};
use crate::procedure::context::{ActionContext, Running, Values};
use crate::procedure::definition::Action;
use crate::procedure::run::{Registered, find_ahead, lead_to, run_body};
use crate::protocol::attempt::Attempt;
use crate::protocol::footprint::{Footprint, Instance};
use crate::storage::record::Record;
use crate::types::Args;

impl Registered {
    /// The action that a reference is of, and which of its instances.
    fn action(&self, footprint: &Footprint, number: usize) -> (&Action, usize) {
        match &self.repeating {
            None => (&self.actions[number], 0),
            Some(repeating) => {
                let Instance { action, number } = footprint.instances[number];
                (&repeating.actions[action as usize], number as usize)
            }
        }
    }
}

impl Parts for Registered {
    fn phases(&self) -> usize {
        self.repeating.as_ref().map_or(self.phase_ends.len(), |repeating| repeating.phase_ends.len())
    }

    fn references(&self, footprint: &Footprint, phase: usize) -> Range<usize> {
        let Some(repeating) = &self.repeating else {
            let start = phase.checked_sub(1).map_or(0, |before| self.phase_ends[before]);
            return start..self.phase_ends[phase];
        };
        let end = |phase: usize| {
            let actions = repeating.phase_ends[phase];
            footprint.instances.partition_point(|instance| (instance.action as usize) < actions)
        };
        phase.checked_sub(1).map_or(0, end)..end(phase)
    }

    fn is_led(&self, footprint: &Footprint, number: usize) -> bool {
        self.action(footprint, number).0.is_led()
    }

    fn lead(&self, args: &Args, values: &Values, number: usize, footprint: &mut Footprint) -> Result<()> {
        let (action, instance) = self.action(footprint, number);
        let led_to = lead_to(action, instance, args, values, &footprint.references[number])?;
        footprint.references[number] = led_to;
        Ok(())
    }

    fn find(&self, footprint: &Footprint, number: usize, guard: &Guard) -> Found {
        find_ahead(self.action(footprint, number).0, &footprint.references[number], guard)
    }

    fn run(
        &self,
        attempt: &Attempt<'_>,
        (args, values, footprint): (&Args, &Values, &Footprint),
        number: usize,
        found: Found,
        gathered: &RefCell<Gathered>,
    ) -> Result<()> {
        self.check_schema(attempt)?;
        let (action, instance) = self.action(footprint, number);
        let reference = &footprint.references[number];
        // SAFETY: the caller is pinned since before it looked the key up.
        let found: Option<Record<'_>> = found.map(|at| unsafe { at.as_record() });
        let call = Running { attempt, args, values, gathered };
        let _scope = attempt.enter_scope(reference);
        let context = ActionContext { call: &call, table: call.table_of(action), reference, found };
        run_body(action, instance, &context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::call::Routine;
    use crate::procedure::Naming;
    use crate::{DataType, Database, Durability, Options, ProcedureDefinition, TableDefinition, args};

    fn database() -> (Database, crate::Table) {
        let db = Database::in_memory_with(Options::default().durability(Durability::None)).expect("options");
        let definition = TableDefinition::new("t").column("a", DataType::Int64).column("b", DataType::Int64);
        let table = db.create_table(definition.primary_key(["a", "b"])).expect("a table");
        (db, table)
    }

    #[test]
    fn references_belong_to_their_phases_and_are_led_where_values_say() {
        let (_db, table) = database();
        let first = |repeated: bool| {
            let action = crate::Action::read(&table);
            if repeated {
                action
                    .each(|args| Ok(args.int(0)? as usize), |_, instance, key| key.push(instance as i64))
                    .body(|_, _| Ok(()))
            } else {
                action.key(|_, key| key.push(1)).body(|_| Ok(()))
            }
        };
        for repeated in [false, true] {
            let led = crate::Action::read(&table)
                .key(|_, key| key.push(5))
                .key_from(|_, values, key| key.push(values.int(0)?).and_then(|()| key.push(9)))
                .body(|_| Ok(()));
            let definition = ProcedureDefinition::new("p").parameter("n", DataType::Int64);
            let definition = definition.phase([first(repeated)]).phase([led]);
            let naming = Naming { tables: &[], partition_key: None, is_partitioned: false };
            let procedure = Registered::new(table.shared().store(), definition, &naming).expect("sound");
            let mut footprint = Footprint::default();
            let args = args![3];
            procedure.footprint(&args, &mut footprint).expect("it fits");
            let count = if repeated { 3 } else { 1 };
            assert_eq!(procedure.phases(), 2);
            assert_eq!(Parts::references(&procedure, &footprint, 0), 0..count);
            assert_eq!(Parts::references(&procedure, &footprint, 1), count..count + 1);
            assert!(!procedure.is_led(&footprint, 0) && procedure.is_led(&footprint, count));
            assert!(!footprint.references[count].whole);
            let mut values = Values::default();
            values.take(&mut vec![(0, 6.into())]);
            assert!(
                procedure.lead(&args, &values, count, &mut footprint).is_err(),
                "it does not begin with 5"
            );
            values.take(&mut vec![(0, 5.into())]);
            procedure.lead(&args, &values, count, &mut footprint).expect("it does");
            assert!(footprint.references[count].whole);
        }
    }
}
