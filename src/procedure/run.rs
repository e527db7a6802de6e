//! How a registered procedure runs: footprint, look-ups, bodies phase by phase.

use std::cell::RefCell;

use crossbeam_epoch::Guard;

use crate::error::{Error, Result};
use crate::pipeline::call::{Found, Output, Routine};
use crate::procedure::context::{ActionContext, Gathered, KeyBuilder, Values};
use crate::procedure::definition::{Action, ProcedureDefinition};
use crate::protocol::attempt::Attempt;
use crate::protocol::footprint::{Footprint, Mode, Reference};
use crate::storage::record::Record;
use crate::types::{Args, DataType, Value, check};

/// A procedure that a database has taken.
pub(crate) struct Registered {
    store: u64,
    definition: ProcedureDefinition,
    /// For each phase, how many actions come before it.
    starts: Vec<usize>,
    has_values: bool,
    action_count: usize,
}

impl Registered {
    /// Takes a definition for the store of this identity.
    ///
    /// # Errors
    /// [`Error::InvalidProcedure`], [`Error::ForeignTable`].
    pub(crate) fn new(store: u64, definition: ProcedureDefinition) -> Result<Registered> {
        let wrong =
            |detail: String| Err(Error::InvalidProcedure { procedure: definition.name.clone(), detail });
        let mut starts = Vec::new();
        let mut actions = 0;
        for (number, phase) in definition.phases.iter().enumerate() {
            starts.push(actions);
            actions += phase.len();
            for action in phase {
                let table = action.table.definition().name();
                if action.table.store() != store {
                    return Err(Error::ForeignTable { table: table.to_string() });
                }
                if action.body.is_none() {
                    return wrong(format!("an action on {table:?} in phase {} has no body", number + 1));
                }
                if action.key_from.is_some() && number == 0 {
                    return wrong(format!(
                        "key_from on {table:?} in the first phase: no phase comes before it"
                    ));
                }
            }
        }
        if actions == 0 {
            return wrong("it has no action; add .phase([..])".to_string());
        }
        for (name, data_type) in &definition.parameters {
            if let Err(error) = data_type.validate() {
                return wrong(format!("parameter {name:?}: {error}"));
            }
        }
        let has_values = definition.phases.len() > 1;
        Ok(Registered { store, definition, starts, has_values, action_count: actions })
    }

    pub(crate) fn name(&self) -> &str {
        &self.definition.name
    }

    pub(crate) fn store(&self) -> u64 {
        self.store
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.actions().all(|action| action.mode == Mode::Read)
    }

    fn actions(&self) -> impl Iterator<Item = &Action> {
        self.definition.phases.iter().flatten()
    }

    fn check_arguments(&self, args: &Args) -> Result<()> {
        if args.len() != self.definition.parameters.len() {
            return Err(Error::WrongArguments {
                procedure: self.definition.name.clone(),
                expected: self.definition.parameters.len(),
                given: args.len(),
            });
        }
        for (value, (name, data_type)) in args.iter().zip(&self.definition.parameters) {
            if matches!((value, data_type), (Value::Int(_), DataType::Int64)) {
                continue;
            }
            check::check(value.into(), data_type, false, name)?;
        }
        Ok(())
    }
}

/// Works out what an action touches; `into` is used again from call to call.
fn refer(
    action: &Action,
    into: &mut Reference,
    fill: impl FnOnce(&mut KeyBuilder<'_>) -> Result<()>,
) -> Result<()> {
    into.key.clear();
    let mut builder = KeyBuilder::new(&action.table, &mut into.key);
    fill(&mut builder)?;
    let (columns, first) = (builder.columns(), builder.first);
    into.table = action.table.id();
    into.whole = columns == action.table.definition().key().len();
    into.hash = if into.whole { action.table.hash(&into.key) } else { 0 };
    into.mode = action.mode;
    into.routing = (columns > 0).then_some(first);
    into.unrouted = !action.table.secondary().is_empty();
    Ok(())
}

impl Routine for Registered {
    fn footprint(&self, args: &Args, into: &mut Footprint) -> Result<()> {
        self.check_arguments(args)?;
        into.references.resize_with(self.action_count, Reference::default);
        for (action, into) in self.actions().zip(&mut into.references) {
            match &action.key {
                Some(key) => refer(action, into, |builder| key(args, builder))?,
                None => refer(action, into, |_| Ok(()))?,
            }
        }
        Ok(())
    }

    fn prefetch(&self, footprint: &Footprint, guard: &Guard) {
        for (action, reference) in self.actions().zip(&footprint.references) {
            if reference.whole {
                action.table.prefetch(reference.hash, guard);
            }
        }
    }

    fn find(&self, footprint: &Footprint, found: &mut Found, guard: &Guard) {
        found.clear();
        for (action, reference) in self.actions().zip(&footprint.references) {
            found.push(None);
            if !reference.whole || action.key_from.is_some() {
                continue;
            }
            if let Some(record) = action.table.find_ahead(reference.hash, &reference.key, guard)
                && let Some(last) = found.last_mut()
            {
                record.prefetch();
                *last = Some(record.pointer());
            }
        }
    }

    fn run(
        &self,
        attempt: &Attempt<'_>,
        args: &Args,
        footprint: &Footprint,
        found: &Found,
    ) -> Result<Output> {
        let gathered = RefCell::new(Gathered::default());
        let mut values = Values::default();
        for (phase, &start) in self.definition.phases.iter().zip(&self.starts) {
            for (number, action) in phase.iter().enumerate() {
                let declared = &footprint.references[start + number];
                // SAFETY: the caller is pinned since before it looked the footprint's keys up.
                let found = found.get(start + number).copied().flatten().map(|at| unsafe { at.as_record() });
                run_action(action, attempt, args, &values, &gathered, declared, found)?;
            }
            if self.has_values {
                gathered.borrow_mut().fresh.drain(..).for_each(|(number, value)| values.set(number, value));
            }
        }
        Ok(Output { rows: gathered.into_inner().rows })
    }
}

fn run_action<'a>(
    action: &Action,
    attempt: &Attempt<'a>,
    args: &Args,
    values: &Values,
    gathered: &RefCell<Gathered>,
    declared: &Reference,
    found: Option<Record<'a>>,
) -> Result<()> {
    let Some(body) = &action.body else { return Ok(()) };
    let narrowed;
    let (reference, found) = match &action.key_from {
        None => (declared, found),
        Some(key) => {
            let mut led_to = Reference::default();
            refer(action, &mut led_to, |builder| key(args, values, builder))?;
            if !led_to.key.starts_with(&declared.key) {
                let table = action.table.definition().name();
                return Err(Error::OutsideFootprint {
                    what: format!(
                        "the key on {table:?} that an earlier phase led to does not begin as declared"
                    ),
                });
            }
            narrowed = led_to;
            (&narrowed, None)
        }
    };
    let _scope = attempt.enter_scope(reference);
    let table = &*action.table;
    body(&ActionContext { attempt, table, reference, found, args, values, gathered })
}
