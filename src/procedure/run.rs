//! Execution of a registered procedure: footprint, look-ups, bodies phase by phase.
//!
//! A procedure declares the keys of its actions as functions of the arguments. So all keys are known before a body
//! runs: the schedule and the protocol use them as the footprint, and their records are looked up and fetched while
//! earlier calls of the group run. A body finds its record at hand. An action whose key depends on earlier phases'
//! values is looked up when its phase begins.

use std::cell::RefCell;
use std::mem::take;

use crossbeam_epoch::Guard;

use crate::base::atomics::{AtomicU64, Ordering};
use crate::error::{Error, Result};
use crate::pipeline::call::{Found, Gathered, Parts, Routine};
use crate::pipeline::execute::keep_panics_in;
use crate::pipeline::partition::plan::Failures;
use crate::procedure::context::{ActionContext, KeyBuilder, Running, Values};
use crate::procedure::definition::{Action, ProcedureDefinition};
use crate::procedure::long_values;
use crate::procedure::references::{Naming, ReferencePlan};
use crate::procedure::repeat::Repeating;
use crate::protocol::attempt::Attempt;
use crate::protocol::footprint::{Footprint, Mode, Reference, Routed};
use crate::schedule::reference::{Form, References, Scalar};
use crate::storage::foreign_keys::Reach;
use crate::storage::record::Record;
use crate::storage::table::TableCore;
use crate::types::{Args, DataType, Value, assignment};

/// A procedure that a database has taken.
pub(crate) struct Registered {
    store: u64,
    name: String,
    parameters: Vec<(String, DataType)>,
    takes_any_arguments: bool,
    /// The actions of all phases, in order; none if one is repeated, and `repeating` has them.
    pub(super) actions: Box<[Action]>,
    /// Number of actions up to the end of each phase.
    pub(super) phase_ends: Box<[usize]>,
    /// The actions, if one of them is repeated.
    pub(super) repeating: Option<Box<Repeating>>,
    /// Number of references that every call makes; an impossible number if an action is repeated.
    references: usize,
    read_only: bool,
    /// True if an action declares long values that it reads.
    has_long_values: bool,
    /// The plan for its calls' references for the scheduler.
    plan: ReferencePlan,
    failures: Failures,
    /// The schema's generation in which its tables were found to be current.
    generation: AtomicU64,
}

/// Checks an action of the phase of this number, from 1.
///
/// # Errors
/// What is wrong with it.
fn check_action(action: &Action, phase: usize) -> std::result::Result<(), String> {
    let table = action.table.definition().name();
    if action.body.is_none() && action.each.is_none() {
        return Err(format!("an action on {table:?} in phase {phase} has no body"));
    }
    if action.each.is_some() && (action.body.is_some() || action.key.is_some() || action.key_from.is_some()) {
        return Err(format!(
            "a repeated action on {table:?} in phase {phase} has a second key or body; leave out what stands beside \
             each(..).body(..)"
        ));
    }
    if action.is_led() && phase == 1 {
        return Err(format!("key_from on {table:?} in the first phase: no phase comes before it"));
    }
    Ok(())
}

impl Registered {
    /// Takes a definition for the store of this identity.
    ///
    /// # Errors
    /// [`Error::InvalidProcedure`], [`Error::ForeignTable`], [`Error::UnknownColumn`]; the partition key's.
    pub(crate) fn new(
        store: u64,
        mut definition: ProcedureDefinition,
        naming: &Naming<'_>,
    ) -> Result<Registered> {
        definition.settle_parameters()?;
        let wrong = |detail: String| Error::InvalidProcedure { procedure: definition.name.clone(), detail };
        let mut phase_ends = Vec::new();
        let mut actions = 0;
        for (number, phase) in definition.phases.iter().enumerate() {
            actions += phase.len();
            phase_ends.push(actions);
            for action in phase {
                if action.table.store() != store {
                    return Err(Error::ForeignTable { table: action.table.definition().name().to_string() });
                }
                check_action(action, number + 1).map_err(wrong)?;
            }
        }
        if actions == 0 {
            return Err(wrong("it has no action; add .phase([..])".to_string()));
        }
        for (name, data_type) in &definition.parameters {
            if let Err(error) = data_type.validate() {
                return Err(wrong(format!("parameter {name:?}: {error}")));
            }
        }
        if let Some(foreign) = definition.predicates.iter().find(|one| one.table.store() != store) {
            return Err(Error::ForeignTable { table: foreign.table.definition().name().to_string() });
        }
        let ProcedureDefinition { name, parameters, takes_any_arguments, phases, predicates } = definition;
        let actions: Box<[Action]> = phases.into_iter().flatten().collect();
        let plan = ReferencePlan::new(&name, actions.iter(), predicates, naming)?;
        let read_only = actions.iter().all(|action| action.mode == Mode::Read);
        let has_long_values = actions.iter().any(|action| action.long.is_some());
        let mut registered = Registered {
            failures: Failures::default(),
            generation: AtomicU64::new(u64::MAX),
            store,
            name,
            parameters,
            takes_any_arguments,
            references: actions.len(),
            actions,
            phase_ends: phase_ends.into(),
            repeating: None,
            read_only,
            has_long_values,
            plan,
        };
        registered.set_repeating_apart();
        Ok(registered)
    }

    /// Puts the actions where a call looks for them if one is repeated.
    fn set_repeating_apart(&mut self) {
        if self.actions.iter().any(|action| action.each.is_some()) {
            let (actions, phase_ends) = (take(&mut self.actions), take(&mut self.phase_ends));
            self.repeating = Some(Box::new(Repeating::new(actions, phase_ends)));
            self.references = usize::MAX;
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    #[inline]
    pub(crate) fn store(&self) -> u64 {
        self.store
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only
    }

    #[inline]
    fn check_arguments(&self, args: &Args) -> Result<()> {
        if self.takes_any_arguments {
            return Ok(());
        }
        if args.len() != self.parameters.len() {
            return self.wrong_number(args.len());
        }
        for (value, (name, data_type)) in args[..].iter().zip(&self.parameters) {
            if matches!((value, data_type), (Value::Int(_), DataType::Int64)) {
                continue;
            }
            assignment::check(value.into(), data_type, false, name)?;
        }
        Ok(())
    }

    #[cold]
    fn wrong_number(&self, given: usize) -> Result<()> {
        let expected = self.parameters.len();
        Err(Error::WrongArguments { procedure: self.name.clone(), expected, given })
    }
}

/// Computes what an action touches; `into` is used again from call to call.
#[inline]
pub(super) fn refer(
    action: &Action,
    into: &mut Reference,
    fill: impl FnOnce(&mut KeyBuilder<'_>) -> Result<()>,
) -> Result<()> {
    let table = &*action.table;
    into.key.clear();
    let mut builder = KeyBuilder::new(table, &mut into.key);
    fill(&mut builder)?;
    let (columns, first) = (builder.columns(), builder.first);
    let key = into.key.as_slice();
    into.table = table.id();
    into.whole = columns == table.key_kinds().len();
    into.hash = if into.whole { table.hash(key) } else { 0 };
    into.mode = action.mode;
    into.routing = match columns {
        0 => Routed::Unknown,
        1 => Routed::Prefix(key.len() as u16),
        _ => Routed::Prefix(first),
    };
    if table.has_own_routing_columns() {
        into.routing = Routed::of_own_columns(table, key, columns);
    }
    into.reach = if action.mode == Mode::Write { table.reach() } else { Reach::Nothing };
    into.has_secondary_indexes = !table.secondary().is_empty();
    into.resolved_ahead = false;
    into.validated = false;
    Ok(())
}

impl Routine for Registered {
    fn failures(&self) -> &Failures {
        &self.failures
    }

    fn footprint(&self, args: &Args, into: &mut Footprint) -> Result<()> {
        self.check_arguments(args)?;
        into.writes = !self.read_only;
        if into.references.len() != self.references {
            if let Some(repeating) = &self.repeating {
                return repeating.footprint(args, into);
            }
            into.references.resize_with(self.references, Reference::default);
        }
        for (action, into) in self.actions.iter().zip(&mut into.references) {
            match &action.key {
                Some(key) => refer(action, into, |builder| key(args, builder))?,
                None => refer(action, into, |_| Ok(()))?,
            }
        }
        Ok(())
    }

    fn references(
        &self,
        args: &Args,
        footprint: &Footprint,
        form: Form,
        into: &mut References,
    ) -> Result<()> {
        self.plan.collect(args, footprint, form, into)
    }

    fn partition_value(&self, args: &Args, footprint: &Footprint) -> Result<Option<Scalar>> {
        self.plan.partition_value(args, footprint)
    }

    #[inline]
    fn prefetch(&self, footprint: &Footprint, guard: &Guard) {
        if self.actions.len() != footprint.references.len() {
            return self.prefetch_repeating(footprint, guard);
        }
        for (action, reference) in self.actions.iter().zip(&footprint.references) {
            if reference.whole {
                action.table.prefetch(reference.hash, guard);
            }
        }
    }

    #[inline]
    fn find(&self, footprint: &Footprint, found: &mut Vec<Found>, guard: &Guard) {
        if self.actions.len() != footprint.references.len() {
            return self.find_repeating(footprint, found, guard);
        }
        // Not by a zip, which would compute both addresses from a number for each action.
        let mut references = footprint.references.iter();
        for action in &self.actions {
            let Some(reference) = references.next() else { break };
            found.push(find_ahead(action, reference, guard));
        }
    }

    #[inline]
    fn fetch_long_values(&self, args: &Args, footprint: &Footprint, found: &[Found]) {
        if self.has_long_values {
            self.fetch_any_long_values(args, footprint, found);
        }
    }

    #[inline(always)]
    fn run(
        &self,
        attempt: &Attempt<'_>,
        args: &Args,
        footprint: &Footprint,
        found: &[Found],
        gathered: &RefCell<Gathered>,
    ) -> Result<()> {
        self.check_schema(attempt)?;
        if self.phase_ends.len() == 1 {
            let call = Running { attempt, args, values: Values::none(), gathered };
            return run_actions(&self.actions, &call, &footprint.references, found);
        }
        self.run_phases(attempt, args, footprint, found, gathered)
    }

    fn parts(&self) -> &dyn Parts {
        self
    }
}

impl Registered {
    /// Refuses to run in a schema in which a table of the procedure's is another one.
    ///
    /// # Errors
    /// [`Error::TableChanged`], [`Error::TableDropped`].
    #[inline]
    pub(super) fn check_schema(&self, attempt: &Attempt<'_>) -> Result<()> {
        // Relaxed: only a generation that was checked is ever stored, so an old one costs another check.
        if attempt.generation() == self.generation.load(Ordering::Relaxed) {
            Ok(())
        } else {
            self.check_tables(attempt)
        }
    }

    /// Each reference of a footprint, with its table.
    pub(super) fn declared<'f>(&'f self, footprint: &'f Footprint) -> Vec<(&'f TableCore, &'f Reference)> {
        let table = |(action, reference): (&'f Action, &'f Reference)| (&*action.table, reference);
        match &self.repeating {
            Some(repeating) => repeating.declared(footprint).map(table).collect(),
            None => self.actions.iter().zip(&footprint.references).map(table).collect(),
        }
    }

    #[cold]
    fn check_tables(&self, attempt: &Attempt<'_>) -> Result<()> {
        let repeating = self.repeating.iter().flat_map(|repeating| &repeating.actions);
        for action in self.actions.iter().chain(repeating) {
            attempt.hold(&action.table)?;
        }
        self.generation.store(attempt.generation(), Ordering::Relaxed);
        Ok(())
    }

    #[inline(never)]
    fn prefetch_repeating(&self, footprint: &Footprint, guard: &Guard) {
        if let Some(repeating) = &self.repeating {
            repeating.prefetch(footprint, guard);
        }
    }

    #[inline(never)]
    fn fetch_any_long_values(&self, args: &Args, footprint: &Footprint, found: &[Found]) {
        let _ = keep_panics_in(|| {
            match &self.repeating {
                Some(repeating) => repeating.fetch_long_values(args, footprint, found),
                None => long_values::fetch(args, self.actions.iter().zip(found)),
            }
            Ok(())
        });
    }

    #[inline(never)]
    fn find_repeating(&self, footprint: &Footprint, found: &mut Vec<Found>, guard: &Guard) {
        if let Some(repeating) = &self.repeating {
            repeating.find(footprint, found, guard);
        }
    }

    /// Runs phase after phase.
    #[inline(never)]
    fn run_phases(
        &self,
        attempt: &Attempt<'_>,
        args: &Args,
        footprint: &Footprint,
        found: &[Found],
        gathered: &RefCell<Gathered>,
    ) -> Result<()> {
        if let Some(repeating) = &self.repeating {
            return repeating.run(attempt, args, footprint, found, gathered);
        }
        let (mut values, mut start) = (take(&mut gathered.borrow_mut().values), 0);
        for &end in &self.phase_ends {
            let call = Running { attempt, args, values: &values, gathered };
            let (actions, declared) = (&self.actions[start..end], &footprint.references[start..end]);
            run_actions(actions, &call, declared, &found[start..end])?;
            values.take(&mut gathered.borrow_mut().fresh);
            start = end;
        }
        values.clear();
        gathered.borrow_mut().values = values;
        Ok(())
    }
}

impl<'a> Running<'_, 'a> {
    /// The table of an action of the procedure that runs.
    #[inline]
    pub(super) fn table_of(&self, action: &Action) -> &'a TableCore {
        // SAFETY: an attempt runs one call, and what runs a call keeps its procedure, and with it the procedure's tables,
        // until the attempt has ended.
        unsafe { &*std::ptr::from_ref::<TableCore>(&action.table) }
    }
}

/// Runs the actions of one phase, for each of which there are a reference and what was found.
#[inline(always)]
fn run_actions<'a>(
    actions: &[Action],
    call: &Running<'_, 'a>,
    declared: &[Reference],
    found: &[Found],
) -> Result<()> {
    debug_assert!(actions.len() == declared.len() && actions.len() == found.len());
    for ((action, declared), found) in actions.iter().zip(declared).zip(found) {
        // SAFETY: the caller is pinned since before it looked the footprint's keys up.
        let found: Option<Record<'a>> = found.map(|at| unsafe { at.as_record() });
        let Some(body) = &action.body else { continue };
        if action.key_from.is_some() {
            run_led(action, 0, call, declared, found)?;
            continue;
        }
        let _scope = call.attempt.enter_scope(declared);
        body(&ActionContext { call, table: call.table_of(action), reference: declared, found })?;
    }
    Ok(())
}

/// Looks the record of an action's key up, if the whole key is known beforehand, and asks for it to be fetched.
#[inline(always)]
pub(super) fn find_ahead(action: &Action, reference: &Reference, guard: &Guard) -> Found {
    let wanted = reference.whole && (!action.is_led() || reference.resolved_ahead);
    let record = if wanted { action.table.find_ahead(reference.hash, &reference.key, guard) } else { None };
    record.map(|record| {
        action.table.prefetch_record(record);
        record.pointer()
    })
}

/// Asks for the blocks to be fetched that these words of a record's row lead to.
pub(super) fn fetch_blocks(found: Found, words: &[usize]) {
    // SAFETY: the caller is pinned since before it looked the footprint's keys up.
    let record: Option<Record<'_>> = found.map(|at| unsafe { at.as_record() });
    if let Some(record) = record {
        record.prefetch_blocks(words);
    }
}

/// Runs an action of a procedure that repeats some, or one instance of a repeated one.
pub(super) fn run_action<'a>(
    action: &Action,
    instance: usize,
    call: &Running<'_, 'a>,
    declared: &Reference,
    found: Found,
) -> Result<()> {
    // SAFETY: the caller is pinned since before it looked the footprint's keys up.
    let found: Option<Record<'a>> = found.map(|at| unsafe { at.as_record() });
    if action.is_led() {
        return run_led(action, instance, call, declared, found);
    }
    let _scope = call.attempt.enter_scope(declared);
    run_body(
        action,
        instance,
        &ActionContext { call, table: call.table_of(action), reference: declared, found },
    )
}

/// Runs the body of an action, or of one instance of a repeated one.
#[inline]
pub(super) fn run_body(action: &Action, instance: usize, context: &ActionContext<'_, '_>) -> Result<()> {
    match (&action.each, &action.body) {
        (Some(each), _) => (each.body)(context, instance),
        (None, Some(body)) => body(context),
        (None, None) => Ok(()),
    }
}

/// Runs an action whose key depends on what earlier phases found. `found`: the record, where they were looked up ahead.
#[inline(never)]
fn run_led<'a>(
    action: &Action,
    instance: usize,
    call: &Running<'_, 'a>,
    declared: &Reference,
    found: Option<Record<'a>>,
) -> Result<()> {
    let led_to = lead_to(action, instance, call.args, call.values, declared)?;
    if declared.resolved_ahead && led_to.key != declared.key {
        return Err(call.attempt.was_misrouted());
    }
    let _scope = call.attempt.enter_scope(&led_to);
    run_body(
        action,
        instance,
        &ActionContext { call, table: call.table_of(action), reference: &led_to, found },
    )
}

/// The reference to which earlier phases' values lead an action whose key depends on them.
pub(super) fn lead_to(
    action: &Action,
    instance: usize,
    args: &Args,
    values: &Values,
    declared: &Reference,
) -> Result<Reference> {
    let mut led_to = Reference::default();
    let of_instance = action.each.as_ref().and_then(|each| each.key_from.as_ref());
    refer(action, &mut led_to, |builder| match (of_instance, &action.key_from) {
        (Some(key), _) => key(args, values, instance, builder),
        (None, Some(key)) => key(args, values, builder),
        (None, None) => Ok(()),
    })?;
    // What was locked for the transaction is what it declared.
    led_to.reach = declared.reach;
    if declared.resolved_ahead || led_to.key.starts_with(&declared.key) {
        return Ok(led_to);
    }
    let table = action.table.definition().name();
    Err(Error::OutsideFootprint {
        what: format!("the key on {table:?} that an earlier phase led to does not begin as declared"),
    })
}
