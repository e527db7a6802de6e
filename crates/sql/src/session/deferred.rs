//! Deferred foreign keys, deferred unique constraints, deferred triggers, and SET CONSTRAINTS.
//!
//! A deferrable constraint that does not hold when a statement ends is noted with its values. The end of the transaction, and SET
//! CONSTRAINTS … IMMEDIATE, look at the noted values again: COMMIT does in a block, and outside of one the attempt that the
//! statement is does, behind all that functions and procedures have written.
//!
//! # Invariants
//! - What is noted may be too much, never too little: notes of attempts that were retried and of statements that were
//!   rolled back stay, because a value without referencing rows violates nothing.
//! - Notes live until the transaction ends.
//! - A deferred trigger is kept with its rows and fires once. Those of attempts that were retried, and of what was rolled back to
//!   a savepoint, are forgotten.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::access::{self, RunsIn};
use crate::catalog::relation::MIXED_KEY;
use crate::catalog::{Catalog, Event, ForeignKey, Table, Trigger};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::ObjectName;
use crate::routine::trigger::Firing;
use crate::run::{Access, Recheck};
use crate::session::Severity;
use crate::session::connection::Connection;
use crate::session::environment::SessionEnvironment;
use crate::session::transaction::Transaction;
use crate::types::text::to_text;
use crate::types::{DeferrableKey, Environment, KeySide, Value};

/// The limit of noted values for each constraint. Beyond it, all rows of the table are checked.
const VALUES_MAX: usize = 100_000;

/// A constraint: the oid of its table and the name of its constraint.
type Constraint = (u32, String);
/// The values to look at, with their places in the order in which they were noted; `None` for all rows.
type Noted = Option<HashMap<(Vec<Value>, KeySide), u64>>;

/// The modes set by SET CONSTRAINTS: which constraints are deferred. A rollback to a savepoint restores them.
#[derive(Clone, Default)]
struct Modes {
    /// The mode set for ALL; `single` has those set for single constraints after that.
    all: Option<bool>,
    single: HashMap<Constraint, bool>,
}

/// A point to which a rollback returns: the modes, and the numbers of triggers that were kept and that have fired.
#[derive(Clone, Default)]
pub(crate) struct DeferredMark {
    modes: Modes,
    triggers: (usize, usize),
}

/// A trigger that is to fire when the transaction ends, with its rows.
struct DeferredTrigger {
    trigger: Trigger,
    table: Arc<Table>,
    event: Event,
    old: Option<Vec<Value>>,
    new: Option<Vec<Value>>,
}

/// The constraints that a transaction still has to check.
#[derive(Default)]
pub(crate) struct Deferred {
    modes: Modes,
    /// The triggers in the order in which they fire; `None` for those that have fired.
    triggers: Vec<Option<Arc<DeferredTrigger>>>,
    /// Those that have fired, with their places.
    fired: Vec<(usize, Arc<DeferredTrigger>)>,
    /// The numbers of both when the statement began.
    of_statement: (usize, usize),
    noted: HashMap<Constraint, (u64, Noted)>,
    /// The number of values noted so far.
    count: u64,
}

impl Deferred {
    /// Forgets everything: the transaction has ended.
    pub fn clear(&mut self) {
        if self.modes.all.is_some() || !self.modes.single.is_empty() || !self.is_empty() {
            *self = Deferred::default();
        }
    }

    /// Returns true if nothing is to be checked, and no trigger to fire.
    fn is_empty(&self) -> bool {
        self.noted.is_empty() && self.triggers.is_empty()
    }

    /// Begins a statement.
    pub fn begin_statement(&mut self) {
        self.of_statement = (self.triggers.len(), self.fired.len());
    }

    /// Begins another attempt of the statement.
    pub fn begin_attempt(&mut self) {
        self.forget_triggers(self.of_statement);
    }

    /// Keeps the first triggers, and lets those that fired after others fire again.
    fn forget_triggers(&mut self, (kept, fired): (usize, usize)) {
        self.triggers.truncate(kept);
        for (place, trigger) in self.fired.drain(fired.min(self.fired.len())..) {
            if let Some(slot) = self.triggers.get_mut(place) {
                *slot = Some(trigger);
            }
        }
    }

    /// The point that is reached.
    pub fn mark(&self) -> DeferredMark {
        DeferredMark { modes: self.modes.clone(), triggers: (self.triggers.len(), self.fired.len()) }
    }

    /// Returns to a point.
    pub fn restore(&mut self, mark: &DeferredMark) {
        self.modes = mark.modes.clone();
        self.forget_triggers(mark.triggers);
    }

    /// Returns true if a constraint is deferred now; `by_default` where SET CONSTRAINTS has said nothing.
    fn waits(&self, constraint: &Constraint, by_default: bool) -> bool {
        self.modes.single.get(constraint).copied().or(self.modes.all).unwrap_or(by_default)
    }

    /// Keeps a trigger with its rows, if it is deferred now, and returns the memory that they use.
    pub fn take_trigger(&mut self, firing: &Firing<'_>) -> Option<usize> {
        let trigger = firing.trigger;
        if !self.waits(&(trigger.table, trigger.name.clone()), trigger.is_deferred) {
            return None;
        }
        let bytes = |row: Option<&[Value]>| row.map_or(0, crate::run::memory::row_bytes);
        self.triggers.push(Some(Arc::new(DeferredTrigger {
            trigger: trigger.clone(),
            table: firing.table.clone(),
            event: firing.event,
            old: firing.old.map(<[Value]>::to_vec),
            new: firing.new.map(<[Value]>::to_vec),
        })));
        Some(size_of::<DeferredTrigger>() + bytes(firing.old) + bytes(firing.new))
    }

    /// Notes values that do not satisfy a constraint, if it is deferred now.
    pub fn take(&mut self, key: DeferrableKey<'_>, values: &[Value], side: KeySide) -> bool {
        let constraint = (key.table, key.name.to_string());
        if !self.waits(&constraint, key.deferred) {
            return false;
        }
        self.count += 1;
        let first = || (self.count, Some(HashMap::new()));
        let (_, noted) = self.noted.entry(constraint).or_insert_with(first);
        if let Some(values_noted) = noted {
            values_noted.entry((values.to_vec(), side)).or_insert(self.count);
            if values_noted.len() > VALUES_MAX {
                *noted = None;
            }
        }
        true
    }

    /// Sets the mode of these constraints, as SET CONSTRAINTS does; an empty list means ALL.
    fn set(&mut self, named: &[Constraint], deferred: bool) {
        if named.is_empty() {
            self.modes.single.clear();
            self.modes.all = Some(deferred);
        }
        self.modes.single.extend(named.iter().map(|constraint| (constraint.clone(), deferred)));
    }
}

impl SessionEnvironment {
    /// Checks every constraint that was deferred, where a transaction of one statement ends, and gives its notifications their
    /// place.
    ///
    /// # Errors
    /// 23503 and 23505 for the first that does not hold.
    pub(super) fn end_attempt(&mut self, access: Access<'_>) -> Result<()> {
        if access.runs_in() == RunsIn::Block {
            return Ok(());
        }
        if !self.deferred.is_empty() {
            let catalog = self.catalog.clone();
            self.check_deferred(&catalog, access, &[])?;
        }
        self.order_notifications();
        Ok(())
    }

    /// Checks these constraints, if they were deferred, and fires these triggers; an empty list means all. What the
    /// triggers write is checked, too, and fires triggers of its own.
    fn check_deferred(
        &mut self,
        catalog: &Catalog,
        access: Access<'_>,
        constraints: &[Constraint],
    ) -> Result<()> {
        let (mut next, mut has_fired) = (0, true);
        while std::mem::take(&mut has_fired) {
            self.check_noted(catalog, access, constraints)?;
            while next < self.deferred.triggers.len() {
                let is_meant = |of: &Arc<DeferredTrigger>| {
                    let is_named =
                        |named: &Constraint| (named.0, &named.1) == (of.trigger.table, &of.trigger.name);
                    constraints.is_empty() || constraints.iter().any(is_named)
                };
                let waiting = self.deferred.triggers[next].take_if(|it| is_meant(it));
                if let Some(waiting) = &waiting {
                    self.deferred.fired.push((next, waiting.clone()));
                }
                next += 1;
                if let Some(waiting) = waiting {
                    has_fired = true;
                    self.fire_deferred(access, &waiting)?;
                }
            }
        }
        Ok(())
    }

    fn fire_deferred(&mut self, access: Access<'_>, waiting: &DeferredTrigger) -> Result<()> {
        self.check_interrupt()?;
        let DeferredTrigger { trigger, table, event, old, new } = waiting;
        let (old, new) = (old.as_deref(), new.as_deref());
        let firing = Firing { trigger, table, event: *event, old, new, changed: None };
        crate::routine::trigger::fire(self, &firing, access).map(|_| ())
    }

    /// Checks these constraints, if they were deferred; an empty list means all.
    fn check_noted(
        &mut self,
        catalog: &Catalog,
        access: Access<'_>,
        constraints: &[Constraint],
    ) -> Result<()> {
        let mut constraints = match constraints {
            [] => self.deferred.noted.keys().cloned().collect(),
            some => some.to_vec(),
        };
        let first = |constraint: &Constraint| self.deferred.noted.get(constraint).map(|(first, _)| *first);
        constraints.sort_by_key(first);
        constraints.iter().try_for_each(|constraint| self.check_constraint(catalog, access, constraint))
    }

    fn check_constraint(
        &mut self,
        catalog: &Catalog,
        access: Access<'_>,
        constraint: &Constraint,
    ) -> Result<()> {
        let Some((_, noted)) = self.deferred.noted.get(constraint).cloned() else { return Ok(()) };
        let noted = noted.map(in_order);
        let (oid, name) = constraint;
        // A table or constraint that was dropped since constrains nothing.
        let Some(child) = catalog.table_by_oid(*oid).cloned() else { return Ok(()) };
        if let Some(number) = child.indexes.iter().position(|index| index.name == *name) {
            let repeated = {
                let mut recheck = Recheck::new(access, self);
                let values = |noted: Vec<_>| noted.into_iter().map(|(values, _)| values);
                match noted {
                    None => recheck.repeated_of_all(&child, number)?,
                    Some(noted) => recheck.repeated(&child, number, values(noted))?,
                }
            };
            return match repeated {
                None => Ok(()),
                Some(values) => Err(self.not_unique(&child, number, &values)),
            };
        }
        let Some(key) = child.foreign_keys.iter().find(|key| key.name == *name) else { return Ok(()) };
        let Some(parent) = catalog.table_by_oid(key.table).cloned() else { return Ok(()) };
        let wrong = {
            let mut recheck = Recheck::new(access, self);
            let referencing = |values| (values, KeySide::Referencing);
            match noted {
                None => recheck.orphan_of_all(&child, key, &parent)?.map(referencing),
                Some(noted) => recheck.orphan(&child, key, &parent, noted)?,
            }
        };
        match wrong {
            None => Ok(()),
            Some((values, side)) => Err(self.violation(&child, &parent, key, &values, side)),
        }
    }

    fn not_unique(&self, table: &Table, index: usize, values: &[Value]) -> SqlError {
        let index = &table.indexes[index];
        let columns: Vec<usize> = index.columns.iter().map(|column| column.column).collect();
        let message = format!("duplicate key value violates unique constraint \"{}\"", index.name);
        let detail = format!("Key {} already exists.", self.key_text(table, &columns, values));
        SqlError::new(SqlState::UNIQUE_VIOLATION, message)
            .with_detail(detail)
            .with_table(&table.schema, &table.name)
            .with_constraint(&index.name)
    }

    /// Columns and their values, as details show them.
    fn key_text(&self, table: &Table, columns: &[usize], values: &[Value]) -> String {
        let names: Vec<&str> = columns.iter().map(|&column| table.columns[column].name.as_str()).collect();
        let shown = columns
            .iter()
            .zip(values)
            .map(|(&column, value)| to_text(self, table.columns[column].ty, value).unwrap_or_default());
        format!("({})=({})", names.join(", "), shown.collect::<Vec<_>>().join(", "))
    }

    fn violation(
        &self,
        child: &Table,
        parent: &Table,
        key: &ForeignKey,
        values: &[Value],
        side: KeySide,
    ) -> SqlError {
        let text = |table: &Table, columns: &[usize]| self.key_text(table, columns, values);
        let (message, detail) = match side {
            KeySide::Referencing => (
                format!(
                    "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
                    child.name, key.name
                ),
                match values.iter().any(Value::is_null) {
                    true => MIXED_KEY.to_string(),
                    false => {
                        format!(
                            "Key {} is not present in table \"{}\".",
                            text(child, &key.columns),
                            parent.name
                        )
                    }
                },
            ),
            KeySide::Referenced => (
                format!(
                    "update or delete on table \"{}\" violates foreign key constraint \"{}\" on table \"{}\"",
                    parent.name, key.name, child.name
                ),
                format!(
                    "Key {} is still referenced from table \"{}\".",
                    text(parent, &key.references),
                    child.name
                ),
            ),
        };
        SqlError::new(SqlState::FOREIGN_KEY_VIOLATION, message)
            .with_detail(detail)
            .with_table(&child.schema, &child.name)
            .with_constraint(&key.name)
    }

    /// SET CONSTRAINTS in a body; no names: ALL.
    ///
    /// # Errors
    /// Same errors as [`deferrable`](Self::deferrable); of constraints that are immediate from here on and do not hold,
    /// 23503 and 23505.
    pub(crate) fn set_constraints(
        &mut self,
        access: Access<'_>,
        names: &[ObjectName],
        deferred: bool,
    ) -> Result<()> {
        let catalog = self.catalog.clone();
        let named = self.deferrable(&catalog, names)?;
        self.deferred.set(&named, deferred);
        if deferred { Ok(()) } else { self.check_deferred(&catalog, access, &named) }
    }

    /// The deferrable constraints of these names.
    ///
    /// # Errors
    /// 42704 if there is none of a name; 42809 if one is not deferrable.
    fn deferrable(&self, catalog: &Catalog, names: &[ObjectName]) -> Result<Vec<Constraint>> {
        let mut all = Vec::new();
        for name in names {
            all.extend(self.deferrable_of(catalog, name)?);
        }
        Ok(all)
    }

    fn deferrable_of(&self, catalog: &Catalog, name: &ObjectName) -> Result<Vec<Constraint>> {
        let path = self.path();
        let mut found = Vec::new();
        for table in catalog.tables() {
            let in_schema = match name.schema() {
                Some(schema) => table.schema == schema,
                None => path.contains(&table.schema),
            };
            if !in_schema {
                continue;
            }
            let keys = table.foreign_keys.iter().filter(|key| key.name == name.last());
            found.extend(keys.map(|key| (table.oid, key.deferrable || key.deferred)));
            let unique = table.indexes.iter().filter(|index| index.constraint && index.name == name.last());
            found.extend(unique.map(|index| (table.oid, index.deferral.is_some())));
            let is_key = table.key_name.as_deref() == Some(name.last());
            found.extend(is_key.then_some((table.oid, false)));
            let named = |trigger: &&Arc<Trigger>| trigger.is_constraint && trigger.name == name.last();
            let triggers = catalog.triggers_of(table.oid).iter().filter(named);
            found.extend(triggers.map(|trigger| (table.oid, trigger.is_deferrable)));
        }
        if found.is_empty() {
            let message = format!("constraint \"{}\" does not exist", name.last());
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
        }
        if found.iter().any(|(_, is_deferrable)| !is_deferrable) {
            let message = format!("constraint \"{}\" is not deferrable", name.last());
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        Ok(found.into_iter().map(|(oid, _)| (oid, name.last().to_string())).collect())
    }
}

fn in_order(noted: HashMap<(Vec<Value>, KeySide), u64>) -> Vec<(Vec<Value>, KeySide)> {
    let mut noted: Vec<_> = noted.into_iter().collect();
    noted.sort_by_key(|(_, place)| *place);
    noted.into_iter().map(|(noted, _)| noted).collect()
}

impl Transaction {
    /// Checks the deferred constraints of the open transaction.
    ///
    /// # Errors
    /// Same errors as [`SessionEnvironment::end_attempt`]; the engine's.
    pub(super) fn check_deferred(
        &mut self,
        environment: &mut SessionEnvironment,
        catalog: &Catalog,
    ) -> Result<()> {
        if environment.deferred.is_empty() {
            return Ok(());
        }
        access::run_in(&mut self.session, |access| environment.check_deferred(catalog, access, &[]))
    }
}

impl Connection {
    /// Checks every constraint that was deferred in the open transaction.
    ///
    /// # Errors
    /// 23503 and 23505 for the first that does not hold.
    pub(super) fn check_deferred(&mut self) -> Result<()> {
        let catalog = self.current_catalog();
        self.transaction.check_deferred(&mut self.environment, &catalog)
    }

    /// SET CONSTRAINTS; no names: ALL.
    pub(super) fn set_constraints(&mut self, names: &[ObjectName], deferred: bool) -> Result<&'static str> {
        const TAG: &str = "SET CONSTRAINTS";
        if self.transaction.is_idle() {
            let message = "SET CONSTRAINTS can only be used in transaction blocks";
            self.environment.add_notice(Severity::Warning, SqlState::NO_ACTIVE_SQL_TRANSACTION, message);
            self.environment.deferrable(&self.current_catalog(), names)?;
            return Ok(TAG);
        }
        let catalog = self.current_catalog();
        let environment = &mut self.environment;
        let named = environment.deferrable(&catalog, names)?;
        environment.deferred.set(&named, deferred);
        if !deferred && !environment.deferred.is_empty() {
            access::run_in(&mut self.transaction.session, |access| {
                environment.check_deferred(&catalog, access, &named)
            })?;
        }
        Ok(TAG)
    }
}
