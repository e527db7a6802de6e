//! Collects the reads and writes of a body's statements.
//!
//! # Invariants
//! - A variable's [`Origin`] is of level 0 only if its value follows from the arguments alone; where a call is collected, it then
//!   has that value.

use std::sync::Arc;

use heddledb::Value as Stored;

use crate::bind::VariableRef;
use crate::catalog::Table;
use crate::error::{Result, SqlError};
use crate::plan::expression::Expr;
use crate::plan::scan::key_columns;
use crate::routine::footprint::accesses::{Access, Mode, Reason, accesses};
use crate::routine::footprint::expressions::{depends_on, shown};
use crate::routine::footprint::nested::located;
use crate::routine::footprint::{FlowGraph, Gap, GraphAction, Place};
use crate::routine::query::{Execution, Frame, QueryPlan};
use crate::run::operator::scan::stored_key;
use crate::types::Value;

/// The limit of keys that a call declares; one with more runs as a closure.
pub(crate) const KEYS_MAX: usize = 4_096;

/// The origin of a variable's value.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    /// 0: the arguments alone; else the number of the phase after which it is known.
    pub level: u32,
    /// The computation whose result it is, if it is not known before the call runs.
    pub open: Option<Arc<str>>,
}

impl Default for Origin {
    fn default() -> Self {
        Origin::ARGUMENTS
    }
}

impl Origin {
    /// The arguments alone.
    pub(crate) const ARGUMENTS: Origin = Origin { level: 0, open: None };

    /// The origin of a value that is known only when the call runs.
    pub(crate) fn open(level: u32, what: &str) -> Origin {
        Origin { level: level.max(1), open: Some(what.into()) }
    }

    /// Returns true if the value is known before the call runs.
    pub(crate) fn is_known(&self) -> bool {
        self.open.is_none()
    }

    /// The origin of a value that depends on both.
    pub(crate) fn and(self, other: Origin) -> Origin {
        Origin { level: self.level.max(other.level), open: other.open.or(self.open) }
    }
}

/// A statement of a body, at its place.
pub(crate) struct Site<'s> {
    pub line: u32,
    pub is_repeated: bool,
    /// The level of the conditions around it.
    pub control: u32,
    pub frame: &'s dyn Frame,
    /// Returns the origin of a variable's value.
    pub origin: &'s dyn Fn(&VariableRef) -> Origin,
    /// Returns the name of a variable.
    pub name: &'s dyn Fn(&VariableRef) -> String,
}

/// A key that a call declares.
#[derive(Debug)]
pub(crate) struct Declared {
    pub table: Arc<Table>,
    pub mode: Mode,
    /// The whole key, or its first values.
    pub key: Vec<Stored>,
}

/// See the module's description.
pub(crate) struct Collector {
    pub graph: FlowGraph,
    /// The keys, where they are those of a call.
    pub call: Option<Vec<Declared>>,
    /// True if rows that are found by whole primary keys are read ahead.
    pub reads_ahead: bool,
    /// The last phase so far.
    pub phases: u32,
    /// The routines whose bodies are around, and the places of their calls.
    pub(super) around: Vec<(u32, Arc<str>)>,
    /// The number of blocks with handlers around the statement: no operation of their statements is left to the commit.
    pub protected: u32,
    /// The fields that the trigger's function that was walked last assigns to NEW.
    pub new_fields: NewFields,
}

/// The fields that a trigger's function assigns to NEW.
#[derive(Debug, Default)]
pub(crate) struct NewFields {
    pub names: Vec<String>,
    /// The row is assigned as a whole, or another one is returned.
    pub is_replaced: bool,
}

impl Collector {
    /// Collects a flow graph.
    pub(crate) fn of_graph() -> Collector {
        Collector {
            graph: FlowGraph::default(),
            call: None,
            reads_ahead: false,
            phases: 0,
            around: Vec::new(),
            protected: 0,
            new_fields: NewFields::default(),
        }
    }

    /// Collects the keys of a call.
    pub(crate) fn of_call() -> Collector {
        Collector { call: Some(Vec::new()), ..Collector::of_graph() }
    }

    /// A line of the body that is walked.
    fn place(&self, line: u32) -> Place {
        let within = self.around.last().map(|(_, within)| within.clone()).unwrap_or_default();
        Place { within, line }
    }

    pub(crate) fn is_of_call(&self) -> bool {
        self.call.is_some()
    }

    pub(crate) fn gap(&mut self, line: u32, reason: impl Into<Reason>) {
        let gap = Gap { place: self.place(line), reason: reason.into() };
        if !self.graph.gaps.contains(&gap) {
            self.graph.gaps.push(gap);
        }
    }

    /// Collects the accesses of a statement, and returns the origin of its result.
    ///
    /// # Errors
    /// A key of the call cannot be computed, or there are too many.
    pub(crate) fn statement(
        &mut self,
        plan: &QueryPlan,
        site: &Site<'_>,
        execution: &mut Execution<'_>,
    ) -> Result<Origin> {
        let depends = plan.variables.iter().map(|variable| (site.origin)(variable));
        let depends = depends.fold(Origin::ARGUMENTS, Origin::and);
        let phase = depends.level.max(site.control) + 1;
        if let Some(reason) = &plan.undeclared {
            self.gap(site.line, reason.clone());
            return Ok(Origin::open(phase, reason));
        }
        let accesses = match accesses(&plan.planned) {
            Ok(accesses) => accesses,
            Err(reason) => {
                self.gap(site.line, reason);
                return Ok(Origin::open(phase, "a statement that is not derived"));
            }
        };
        if !plan.routines.is_empty() {
            let calls = located(plan);
            self.calls(plan, &calls, site, execution)?;
        }
        if let (Some(expression), true) = (plan.expression(), accesses.all.is_empty()) {
            return Ok(match depends_on(expression, &mut |_| {}) {
                Ok(()) => depends,
                Err(reason) if plan.routines.is_empty() => Origin::open(depends.level, &reason),
                Err(reason) => Origin::open(depends.level.max(self.phases), &reason),
            });
        }
        self.phases = self.phases.max(phase);
        let is_lookup = is_lookup(plan, &accesses.all, self.reads_ahead) && depends.is_known();
        for access in &accesses.all {
            self.access(plan, access, phase, site, execution)?;
        }
        if let (true, true, Some(action)) = (is_lookup, self.reads_ahead, self.graph.actions.last_mut()) {
            action.is_ahead = true;
        }
        for change in accesses.changes {
            self.triggers(plan, change, phase, site, execution)?;
        }
        Ok(match is_lookup {
            true => Origin { level: phase, open: None },
            false => Origin::open(phase, &format!("the result of line {}", site.line)),
        })
    }

    fn access(
        &mut self,
        plan: &QueryPlan,
        access: &Access<'_>,
        phase: u32,
        site: &Site<'_>,
        execution: &mut Execution<'_>,
    ) -> Result<()> {
        let columns = key_columns(access.table);
        let mut open = None;
        let known = access.key.iter().take_while(|value| {
            open = open_part(plan, value, site);
            open.is_none()
        });
        let known: Vec<&Expr> = known.copied().collect();
        let is_complete = known.len() == access.key.len();
        let each = access.each.filter(|array| is_complete && open_part(plan, array, site).is_none());
        let index = access.index.filter(|(_, values)| {
            access.mode == Mode::Read && values.iter().all(|value| open_part(plan, value, site).is_none())
        });
        if known.is_empty() && each.is_none() && index.is_none() {
            let table = &access.table.name;
            self.gap(
                site.line,
                match open {
                    Some(reason) => format!("the key of {table} depends on {reason}"),
                    None => format!("no part of the key of {table} is given"),
                },
            );
            return Ok(());
        }
        if self.call.is_some() {
            return self.declare(plan, access, (&known, each), site, execution);
        }
        let name_of = |number: usize| plan.variables.get(number).map_or("?".to_string(), site.name);
        let mut key: Vec<(usize, String)> =
            columns.iter().zip(&known).map(|(&column, value)| (column, shown(value, &name_of))).collect();
        if let (Some(array), Some(&column)) = (each, columns.get(known.len())) {
            key.push((column, format!("each of {}", shown(array, &name_of))));
        }
        if open.is_none() && key.len() < columns.len() && access.index.is_none() {
            open = Some("a range of keys".to_string());
        }
        self.graph.actions.push(GraphAction {
            place: self.place(site.line),
            phase,
            table: access.table.clone(),
            mode: self.mode_of(access),
            key,
            open,
            index: index.map(|(name, values)| {
                let values: Vec<String> = values.iter().map(|value| shown(value, &name_of)).collect();
                format!("{name} ({})", values.join(", "))
            }),
            is_repeated: site.is_repeated || each.is_some(),
            commutes: if self.protected > 0 { Vec::new() } else { access.commutes.clone() },
            foreign_key: access.foreign_key.map(str::to_string),
            is_ahead: false,
        });
        Ok(())
    }

    /// The mode of an access: within handlers an operation reads its row.
    fn mode_of(&self, access: &Access<'_>) -> Mode {
        match access.mode {
            Mode::Commute if self.protected > 0 => Mode::Write,
            mode => mode,
        }
    }

    /// Computes the keys of an access, which begin with these values.
    fn declare(
        &mut self,
        plan: &QueryPlan,
        access: &Access<'_>,
        (known, each): (&[&Expr], Option<&Expr>),
        site: &Site<'_>,
        execution: &mut Execution<'_>,
    ) -> Result<()> {
        let table = access.table;
        let columns = key_columns(table);
        let mut key = Vec::with_capacity(columns.len());
        for (&column, value) in columns.iter().zip(known) {
            let value = plan.evaluate_part(value, execution, site.frame)?;
            // A value that no key has: nothing is accessed.
            let Some(stored) = stored_key(table, column, &value) else { return Ok(()) };
            key.push(stored);
        }
        let mut keys = vec![key];
        if let (Some(array), Some(&column)) = (each, columns.get(known.len())) {
            let Value::Array(array) = plan.evaluate_part(array, execution, site.frame)? else {
                return Ok(());
            };
            let beginning = keys.pop().unwrap_or_default();
            let values = array.values.iter().filter_map(|value| stored_key(table, column, value));
            keys.extend(values.map(|last| beginning.iter().cloned().chain([last]).collect()));
        }
        let mode = self.mode_of(access);
        let declared = self.call.get_or_insert_default();
        declared.extend(keys.into_iter().map(|key| Declared { table: table.clone(), mode, key }));
        match declared.len() <= KEYS_MAX {
            true => Ok(()),
            false => Err(SqlError::internal("a call declares too many keys")),
        }
    }
}

/// The origin of the value of an expression of a plan.
pub(super) fn origin_of(plan: &QueryPlan, value: &Expr, site: &Site<'_>) -> Origin {
    let mut origin = Origin::ARGUMENTS;
    let depends = depends_on(value, &mut |number| {
        if let Some(variable) = plan.variables.get(number) {
            origin = std::mem::take(&mut origin).and((site.origin)(variable));
        }
    });
    match depends {
        Err(reason) => origin.and(Origin::open(1, &reason)),
        Ok(()) => origin,
    }
}

/// The reason why a part of a key is not declared; `None` if it is declared.
fn open_part(plan: &QueryPlan, value: &Expr, site: &Site<'_>) -> Option<Reason> {
    origin_of(plan, value, site).open.map(|what| what.to_string())
}

/// Returns true if a statement looks up one row in a unique index, or by its primary key where that is read ahead: a
/// call does that before it declares the keys that depend on the row.
fn is_lookup(plan: &QueryPlan, accesses: &[Access<'_>], reads_ahead: bool) -> bool {
    let [access] = accesses else { return false };
    let has_all = |(name, values): (&str, &[Expr])| {
        let mut indexes = access.table.indexes.iter();
        indexes.any(|index| index.name == name && index.unique && index.columns.len() == values.len())
    };
    let is_one_row = match access.index {
        Some(index) => has_all(index),
        None => reads_ahead && access.each.is_none() && access.key.len() == access.table.key.len(),
    };
    // A subquery of an expression is evaluated with it, when the call runs.
    is_one_row
        && !plan.is_volatile
        && access.mode == Mode::Read
        && plan.command == "SELECT"
        && plan.expression().is_none()
}
