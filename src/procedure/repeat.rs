//! Procedures with repeated actions: how many rows a call touches depends on its arguments.
//!
//! A repeated action has as many instances as the arguments say. Each instance is a reference of the footprint
//! like any other action: declared before the call runs, looked up and fetched with the others.
//!
//! Invariants: a procedure without repeated actions pays nothing for those that have some. Which of the two a
//! procedure is, is settled when it is registered; of a repeating one, footprints note for each reference which
//! instance of which action it is, and only the functions of this file look at that.

use std::cell::RefCell;
use std::mem::take;

use crossbeam_epoch::Guard;

use crate::error::{Error, Result};
use crate::pipeline::call::{Found, Gathered};
use crate::procedure::context::{ActionContext, KeyBuilder, Running, Values};
use crate::procedure::definition::Action;
use crate::procedure::long_values;
use crate::procedure::run::{find_ahead, refer, run_action};
use crate::protocol::attempt::Attempt;
use crate::protocol::footprint::{Footprint, Instance, Reference};
use crate::types::Args;

/// The most instances that one action may have in a call: its footprint is kept and looked through as a whole.
const MAXIMAL_INSTANCES: usize = 1 << 16;

/// Returns the number of instances.
pub(crate) type CountOfArgs = Box<dyn Fn(&Args) -> Result<usize> + Send + Sync>;
/// Pushes an instance's key, from the arguments and the instance's number.
pub(crate) type KeyOfInstance = Box<dyn Fn(&Args, usize, &mut KeyBuilder<'_>) -> Result<()> + Send + Sync>;
/// Pushes an instance's key, from the arguments, from what earlier phases found, and from the instance's number.
pub(crate) type KeyOfFound =
    Box<dyn Fn(&Args, &Values, usize, &mut KeyBuilder<'_>) -> Result<()> + Send + Sync>;
/// The body of an instance.
pub(crate) type BodyOfInstance = Box<dyn Fn(&ActionContext<'_, '_>, usize) -> Result<()> + Send + Sync>;

/// The parts of a repeated action.
pub(crate) struct Each {
    pub(crate) count: CountOfArgs,
    pub(crate) key: KeyOfInstance,
    pub(crate) key_from: Option<KeyOfFound>,
    pub(crate) body: BodyOfInstance,
}

/// A repeated action that still needs its body: see [`Action::each`].
#[must_use = "it is an action once it has a body"]
pub struct EachAction {
    pub(super) action: Action,
    pub(super) count: CountOfArgs,
    pub(super) key: KeyOfInstance,
    pub(super) key_from: Option<KeyOfFound>,
}

impl EachAction {
    /// Declares the rows of an instance, where they depend on values of an earlier phase: same as [`Action::key_from`],
    /// for each instance. The key passed to `each` is its prefix.
    ///
    /// ```
    /// # use heddledb::{Action, DataType, Database, Durability, Options, ProcedureDefinition, TableDefinition, args, row};
    /// # let db = Database::in_memory()?;
    /// # let stock = db.create_table(
    /// #     TableDefinition::new("stock").column("item", DataType::Int64).column("n", DataType::Int64).primary_key(["item"]),
    /// # )?;
    /// # db.run(|tx| (1..=9).try_for_each(|item| tx.insert(&stock, row![item, 100])))?;
    /// // Two items, which the first phase chooses.
    /// let choose = Action::read(&stock).body(|action| {
    ///     (0..2).for_each(|place| action.set_value(place, 3 + place as i64));
    ///     Ok(())
    /// });
    /// let take = Action::commute(&stock)
    ///     .each(|_| Ok(2), |_, _, _| Ok(()))
    ///     .key_from(|_, values, place, key| key.push(values.int(place)?))
    ///     .body(|action, _| action.add("n", -1));
    /// let order = db.register(ProcedureDefinition::new("order").phase([choose]).phase([take]))?;
    /// db.call(&order, args![])?;
    /// # assert_eq!(db.run(|tx| tx.get(&stock, heddledb::key![4])?.unwrap().int("n"))?, 99);
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    pub fn key_from(
        mut self,
        key: impl Fn(&Args, &Values, usize, &mut KeyBuilder<'_>) -> Result<()> + Send + Sync + 'static,
    ) -> EachAction {
        self.key_from = Some(Box::new(key));
        self
    }

    /// Sets the body of each instance; it receives its number, counted from 0. It may be executed several
    /// times, and on any thread.
    #[must_use]
    pub fn body(
        self,
        body: impl Fn(&ActionContext<'_, '_>, usize) -> Result<()> + Send + Sync + 'static,
    ) -> Action {
        let EachAction { count, key, key_from, action } = self;
        let each = Each { count, key, key_from, body: Box::new(body) };
        Action { each: Some(Box::new(each)), ..action }
    }
}

/// The actions of a procedure of which at least one is repeated.
pub(super) struct Repeating {
    /// The actions of all phases, in order.
    pub(super) actions: Box<[Action]>,
    /// Number of actions up to the end of each phase.
    pub(super) phase_ends: Box<[usize]>,
}

impl Repeating {
    pub(super) fn new(actions: Box<[Action]>, phase_ends: Box<[usize]>) -> Repeating {
        Repeating { actions, phase_ends }
    }

    /// Puts a reference for each instance of each action, in order.
    pub(super) fn footprint(&self, args: &Args, into: &mut Footprint) -> Result<()> {
        into.instances.clear();
        for (number, action) in self.actions.iter().enumerate() {
            let count = match &action.each {
                None => 1,
                Some(each) => self.checked(action, (each.count)(args)?)?,
            };
            for instance in 0..count {
                let place = into.instances.len();
                into.instances.push(Instance { action: number as u32, number: instance as u32 });
                if place == into.references.len() {
                    into.references.push(Reference::default());
                }
                refer(action, &mut into.references[place], |builder| match (&action.each, &action.key) {
                    (Some(each), _) => (each.key)(args, instance, builder),
                    (None, Some(key)) => key(args, builder),
                    (None, None) => Ok(()),
                })?;
            }
        }
        into.references.truncate(into.instances.len());
        Ok(())
    }

    fn checked(&self, action: &Action, count: usize) -> Result<usize> {
        if count <= MAXIMAL_INSTANCES {
            return Ok(count);
        }
        Err(Error::InvalidValue {
            what: format!("the number of repetitions on {:?}", action.table.definition().name()),
            detail: format!(
                "{count} are more than {MAXIMAL_INSTANCES}; declare the beginning of their keys in one action"
            ),
        })
    }

    /// Each reference with its action.
    pub(super) fn declared<'f>(
        &'f self,
        footprint: &'f Footprint,
    ) -> impl Iterator<Item = (&'f Action, &'f Reference)> {
        let instances = footprint.instances.iter().zip(&footprint.references);
        instances.map(|(instance, reference)| (&self.actions[instance.action as usize], reference))
    }

    pub(super) fn prefetch(&self, footprint: &Footprint, guard: &Guard) {
        for (action, reference) in self.declared(footprint).filter(|(_, reference)| reference.whole) {
            action.table.prefetch(reference.hash, guard);
        }
    }

    pub(super) fn find(&self, footprint: &Footprint, found: &mut Vec<Found>, guard: &Guard) {
        let declared = self.declared(footprint);
        found.extend(declared.map(|(action, reference)| find_ahead(action, reference, guard)));
    }

    pub(super) fn fetch_long_values(&self, args: &Args, footprint: &Footprint, found: &[Found]) {
        let actions = footprint.instances.iter().map(|instance| &self.actions[instance.action as usize]);
        long_values::fetch(args, actions.zip(found));
    }

    /// Runs the bodies phase after phase.
    pub(super) fn run(
        &self,
        attempt: &Attempt<'_>,
        args: &Args,
        footprint: &Footprint,
        found: &[Found],
        gathered: &RefCell<Gathered>,
    ) -> Result<()> {
        let Footprint { references, instances, .. } = footprint;
        let mut values = take(&mut gathered.borrow_mut().values);
        let mut left = instances.iter().zip(references).zip(found).peekable();
        for &end in &self.phase_ends {
            let call = Running { attempt, args, values: &values, gathered };
            while let Some(((instance, declared), found)) =
                left.next_if(|((instance, _), _)| (instance.action as usize) < end)
            {
                let action = &self.actions[instance.action as usize];
                run_action(action, instance.number as usize, &call, declared, *found)?;
            }
            values.take(&mut gathered.borrow_mut().fresh);
        }
        values.clear();
        gathered.borrow_mut().values = values;
        Ok(())
    }
}
