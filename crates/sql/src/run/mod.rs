//! The executor of plans: expression evaluation, operators, and the statements that write.
//!
//! ```text
//! evaluate, subquery   expressions over a row             operator/   each node of a plan, in batches of rows
//! batch, order         rows, how they compare and hash    write/      INSERT, UPDATE, DELETE, MERGE and what they check
//! memory, spill        limits, and rows on disk           parameters  where the parameters' values are
//! large_values         values that count in the memory by themselves
//! ```
//!
//! # Invariants
//! - A run belongs to one attempt of one transaction: all of its results are discarded when the attempt aborts.

pub(crate) mod batch;
mod evaluate;
pub(crate) mod large_values;
pub(crate) mod memory;
pub(crate) mod operator;
pub(crate) mod order;
pub(crate) mod parameters;
mod spill;
mod subquery;
#[cfg(test)]
mod tests;
mod write;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use hashbrown::HashMap;

use crate::access::{RowScan, Rows, RunsIn, Writes};
use crate::error::{Result, SqlError};
use crate::plan::expression::Expr;
use crate::plan::node::Plan;
use crate::plan::statement::{Action, Planned};
use crate::run::batch::Batch;
use crate::run::large_values::LARGE_BYTES;
use crate::run::memory::{Held, Memory};
use crate::run::operator::Build;
use crate::run::order::Hashing;
use crate::run::parameters::Parameters;
use crate::run::subquery::Cached;
use crate::run::write::{Postponed, Written};
use crate::types::{Environment, PlainEnvironment, Value};

pub(crate) use spill::KeptRows;
pub(crate) use write::{commute, next_row_number};

/// The execution state of one statement (PostgreSQL's `EState`).
pub(crate) struct Run<'e> {
    pub(crate) rows: &'e dyn Rows,
    /// `None`: the statement is read-only.
    pub(crate) writes: Option<&'e dyn Writes>,
    /// Whether the engine or a session runs the statement, and whether in an open transaction.
    pub(crate) runs_in: RunsIn,
    pub(crate) environment: &'e mut dyn Environment,
    pub(crate) parameters: Parameters<'e>,
    pub(crate) memory: Memory,
    pub(crate) hashing: Hashing,
    /// A buffer for the joined row that is being tested; reused to avoid allocations.
    pub(crate) joined: Vec<Value>,
    /// The operand of the innermost CASE around.
    case_operand: Value,
    /// Made when it is asked for: statements of a few rows by their keys have nothing of it.
    numbered: Option<Box<Numbered<'e>>>,
    /// In a parallel scan: the scan's number, and the part of its rows that this run reads instead of all of them.
    pub(crate) part: Option<(usize, Box<dyn RowScan + Send>)>,
    /// Hash tables of hash joins that parallel runs share, by the joins' numbers.
    pub(crate) builds: HashMap<usize, Arc<Build>, Hashing>,
    /// How many rows each node has returned, if they are counted (EXPLAIN ANALYZE).
    pub(crate) counts: Option<Vec<u64>>,
    pub(crate) sizes: Sizes,
    interrupt: u32,
}

/// What a statement with subqueries or common table expressions has, by number.
struct Numbered<'e> {
    /// The values of outer rows that correlated subqueries refer to.
    outer: Vec<Value>,
    /// The rows of common table expressions so far, and those of work tables.
    ctes: Vec<Option<Rc<RefCell<KeptRows>>>>,
    cte_plans: Vec<Option<&'e Plan>>,
    pulled: Vec<Pulled<'e>>,
    cached: Vec<Option<Cached>>,
    /// What these results take.
    cached_memory: Held,
}

impl Numbered<'_> {
    fn new(sizes: Sizes) -> Self {
        Numbered {
            outer: filled(sizes.outers, || Value::Null),
            ctes: filled(sizes.kept, || None),
            cte_plans: filled(sizes.kept, || None),
            pulled: filled(sizes.kept, Pulled::default),
            cached: filled(sizes.caches, || None),
            cached_memory: Held::default(),
        }
    }
}

/// How far a common table expression has been evaluated.
#[derive(Default)]
enum Pulled<'e> {
    /// Not at all.
    #[default]
    NotBegun,
    /// As far as its references have asked for rows.
    Begun(operator::Running<'e>),
    /// All of its rows are kept.
    Ended,
}

/// How many values of each kind a statement numbers: the sizes of a run's vectors.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sizes {
    pub(crate) outers: usize,
    pub(crate) caches: usize,
    pub(crate) kept: usize,
    pub(crate) nodes: usize,
}

impl<'e> Run<'e> {
    pub(crate) fn new(
        rows: &'e dyn Rows,
        writes: Option<&'e dyn Writes>,
        environment: &'e mut dyn Environment,
        parameters: Parameters<'e>,
        sizes: Sizes,
        memory: Memory,
    ) -> Run<'e> {
        let hashing = order::hashing();
        Run {
            rows,
            writes,
            runs_in: RunsIn::Engine,
            environment,
            parameters,
            memory,
            hashing: hashing.clone(),
            joined: Vec::new(),
            case_operand: Value::Null,
            numbered: None,
            part: None,
            builds: HashMap::with_hasher(hashing),
            counts: None,
            sizes,
            interrupt: 0,
        }
    }

    /// What the statement reads and writes through, for the statements of routines that it calls.
    pub(crate) fn access(&self) -> Access<'e> {
        Access { rows: self.rows, writes: self.writes, runs_in: self.runs_in }
    }

    fn numbered(&mut self) -> &mut Numbered<'e> {
        self.numbered.get_or_insert_with(|| Box::new(Numbered::new(self.sizes)))
    }

    /// The outer value with this number.
    pub(crate) fn outer(&mut self, number: usize) -> &Value {
        &self.numbered().outer[number]
    }

    /// Sets the outer value with this number.
    pub(crate) fn set_outer(&mut self, number: usize, value: Value) {
        self.numbered().outer[number] = value;
    }

    /// Sets the plan of a common table expression, and discards its materialized rows.
    pub(crate) fn define_cte(&mut self, number: usize, plan: &'e Plan) {
        let numbered = self.numbered();
        numbered.cte_plans[number] = Some(plan);
        numbered.ctes[number] = None;
        numbered.pulled[number] = Pulled::NotBegun;
    }

    /// Rows of a common table expression from this number on, which is evaluated as far as its references ask for rows: a
    /// recursion that never ends can be read under a LIMIT.
    pub(crate) fn cte_rows(&mut self, number: usize, from: usize) -> Result<Option<Batch>> {
        loop {
            let numbered = self.numbered();
            if let Some(rows) = &numbered.ctes[number]
                && let Some(batch) = rows.borrow_mut().rows_from(from)?
            {
                return Ok(Some(batch));
            }
            let mut operator = match std::mem::take(&mut numbered.pulled[number]) {
                Pulled::Begun(operator) => operator,
                Pulled::Ended => {
                    numbered.pulled[number] = Pulled::Ended;
                    return Ok(None);
                }
                Pulled::NotBegun => {
                    let Some(plan) = numbered.cte_plans[number] else {
                        return Err(SqlError::internal("a common table expression has not been defined"));
                    };
                    let rows = KeptRows::in_half(&self.memory);
                    self.numbered().ctes[number] = Some(Rc::new(RefCell::new(rows)));
                    operator::operator(plan, self)?
                }
            };
            let next = operator.next(self)?;
            let rows = self.work_table(number);
            self.numbered().pulled[number] = match next {
                Some(batch) => {
                    rows.borrow_mut().push_batch(Some(&mut self.memory), batch)?;
                    Pulled::Begun(operator)
                }
                None => Pulled::Ended,
            };
        }
    }

    /// Sets the rows that a recursion's next round reads, or those that a statement in WITH has returned.
    pub(crate) fn set_work_table(&mut self, number: usize, rows: KeptRows) {
        let numbered = self.numbered();
        numbered.ctes[number] = Some(Rc::new(RefCell::new(rows)));
        numbered.pulled[number] = Pulled::Ended;
    }

    pub(crate) fn work_table(&mut self, number: usize) -> Rc<RefCell<KeptRows>> {
        let rows = &mut self.numbered().ctes[number];
        rows.get_or_insert_with(|| Rc::new(RefCell::new(KeptRows::of_operator()))).clone()
    }

    /// All rows of a plan.
    pub(crate) fn collect(&mut self, plan: &'e Plan) -> Result<KeptRows> {
        let mut operator = operator::operator(plan, self)?;
        let mut rows = KeptRows::in_half(&self.memory);
        while let Some(batch) = operator.next(self)? {
            rows.push_batch(Some(&mut self.memory), batch)?;
        }
        Ok(rows)
    }

    /// Whether a blind write reserves its row first. Commutative operations wait for reservations of other sessions, but
    /// make none, since several sessions may apply them concurrently.
    pub(crate) fn reserves(&self, commutes: bool) -> bool {
        match self.runs_in {
            RunsIn::Engine => false,
            RunsIn::Autocommit => true,
            RunsIn::Block => !commutes,
        }
    }

    /// Checks for a cancellation, on every 64th call (PostgreSQL's `CHECK_FOR_INTERRUPTS`).
    ///
    /// # Errors
    /// 57014, or another error of the session.
    pub(crate) fn check_interrupt(&mut self) -> Result<()> {
        self.interrupt = self.interrupt.wrapping_add(1);
        if self.interrupt.is_multiple_of(64) { self.environment.check_interrupt() } else { Ok(()) }
    }
}

/// A vector of `count` elements; allocates nothing if `count` is 0.
#[inline]
fn filled<T>(count: usize, each: impl FnMut() -> T) -> Vec<T> {
    if count == 0 { Vec::new() } else { std::iter::repeat_with(each).take(count).collect() }
}

/// The interfaces through which a statement reads and writes.
#[derive(Clone, Copy)]
pub struct Access<'e> {
    rows: &'e dyn Rows,
    writes: Option<&'e dyn Writes>,
    runs_in: RunsIn,
}

impl<'e> Access<'e> {
    /// Access for read-only statements.
    pub(crate) fn reads(rows: &'e dyn Rows) -> Access<'e> {
        Access { rows, writes: None, runs_in: RunsIn::Engine }
    }

    /// A point to which what was written can be taken back; none where nothing can be written.
    pub(crate) fn savepoint(&self) -> Option<heddledb::Savepoint> {
        self.writes.map(Writes::savepoint)
    }

    /// Takes back what was written since the savepoint.
    pub(crate) fn rollback_to(&self, savepoint: Option<&heddledb::Savepoint>) {
        if let (Some(writes), Some(savepoint)) = (self.writes, savepoint) {
            writes.rollback_to(savepoint);
        }
    }

    /// The interface for reads.
    pub(crate) fn rows(&self) -> &'e dyn Rows {
        self.rows
    }

    /// Access for all statements; `rows` and `writes` must belong to the same transaction.
    pub(crate) fn writes(rows: &'e dyn Rows, writes: &'e dyn Writes, runs_in: RunsIn) -> Access<'e> {
        Access { rows, writes: Some(writes), runs_in }
    }
}

/// Runs a statement, passes the rows that it returns to `sink`, and returns the number of rows returned or written. A statement
/// that was interrupted never succeeds: the last poll is behind its last row.
///
/// # Errors
/// Those of the statement and of the sink.
pub(crate) fn execute<'p>(
    planned: &Planned,
    access: Access<'_>,
    parameters: impl Into<Parameters<'p>>,
    environment: &mut dyn Environment,
    sink: &mut dyn FnMut(Batch) -> Result<()>,
) -> Result<u64> {
    let options = RunOptions { memory: environment.memory(), counts: false };
    execute_with(planned, access, parameters, environment, options, sink).map(|(count, _)| count)
}

/// Runs a compiled statement, appends the row that it returns, if any, to `row`, and returns the number of rows returned
/// or written. `None`: nothing was done, and the caller must use [`execute`] instead.
///
/// # Errors
/// The statement's.
pub(crate) fn execute_compiled<'p>(
    planned: &Planned,
    access: Access<'_>,
    parameters: impl Into<Parameters<'p>>,
    environment: &mut dyn Environment,
    row: &mut Vec<Value>,
) -> Result<Option<u64>> {
    let Some(procedure) = &planned.procedure else { return Ok(None) };
    // It reads and writes a few rows.
    let limit = Memory::new(memory::MEMORY_BYTES_DEFAULT);
    let mut run = Run::new(access.rows, access.writes, environment, parameters.into(), planned.sizes, limit);
    run.runs_in = access.runs_in;
    let count = procedure.run(&mut run, row)?;
    run.environment.check_interrupt()?;
    Ok(count)
}

/// The value of a statement's one expression.
///
/// # Errors
/// The expression's.
pub(crate) fn evaluate_alone<'p>(
    expression: &Expr,
    planned: &Planned,
    access: Access<'_>,
    parameters: impl Into<Parameters<'p>>,
    environment: &mut dyn Environment,
) -> Result<Value> {
    let limit = Memory::new(memory::MEMORY_BYTES_DEFAULT);
    let mut run = Run::new(access.rows, access.writes, environment, parameters.into(), planned.sizes, limit);
    run.runs_in = access.runs_in;
    run.evaluate(expression, &[])
}

/// How a statement runs.
#[derive(Debug)]
pub(crate) struct RunOptions {
    /// The memory that the statement may use.
    pub(crate) memory: Memory,
    /// Whether to count the rows that each node returns.
    pub(crate) counts: bool,
}

/// As [`execute`]; also returns the number of rows that each node has returned, if they were counted.
///
/// # Errors
/// As [`execute`].
pub(crate) fn execute_with<'p>(
    planned: &Planned,
    access: Access<'_>,
    parameters: impl Into<Parameters<'p>>,
    environment: &mut dyn Environment,
    options: RunOptions,
    sink: &mut dyn FnMut(Batch) -> Result<()>,
) -> Result<(u64, Vec<u64>)> {
    let postponed = access.writes.filter(|_| !planned.first.is_empty()).map(Postponed::new);
    let (rows, writes) = match &postponed {
        Some(postponed) => (postponed as &dyn Rows, Some(postponed as &dyn Writes)),
        None => (access.rows, access.writes),
    };
    let mut run = Run::new(rows, writes, environment, parameters.into(), planned.sizes, options.memory);
    run.runs_in = access.runs_in;
    run.counts = options.counts.then(|| vec![0; planned.sizes.nodes]);
    planned.ctes.iter().for_each(|(number, plan)| run.define_cte(*number, plan));
    for (number, action) in &planned.first {
        let written = run.act(action)?;
        run.set_work_table(*number, written.returned);
        postponed.iter().for_each(Postponed::take_back);
    }
    let count = match &planned.action {
        Action::Query(plan) => {
            let mut rows = operator::operator(plan, &mut run)?;
            let mut count = 0;
            while let Some(batch) = rows.next(&mut run)? {
                count += batch.len() as u64;
                sink(batch)?;
            }
            count
        }
        action => {
            let Written { count, mut returned } = run.act(action)?;
            let mut given = 0;
            while let Some(batch) = returned.rows_from(given)? {
                given += batch.len();
                sink(batch)?;
            }
            count
        }
    };
    postponed.iter().try_for_each(Postponed::do_again)?;
    run.environment.check_interrupt()?;
    Ok((count, run.counts.take().unwrap_or_default()))
}

impl<'e> Run<'e> {
    fn act(&mut self, action: &'e Action) -> Result<Written> {
        match action {
            Action::Query(plan) => {
                let returned = self.collect(plan)?;
                Ok(Written { count: returned.len() as u64, returned })
            }
            Action::Insert(plan) => write::insert(self, plan),
            Action::Update(plan) => write::update(self, plan),
            Action::Delete(plan) => write::delete(self, plan),
            Action::Merge(plan) => write::merge(self, plan),
        }
    }
}

/// What expressions see that the planner evaluates: large values are computed by each execution, which counts them.
fn planning_environment() -> PlainEnvironment {
    let mut environment = PlainEnvironment::new(0);
    environment.value_limit = LARGE_BYTES;
    environment
}

/// Evaluates a constant expression.
pub(crate) fn constant_value(expr: &Expr) -> Result<Value> {
    let mut environment = planning_environment();
    let mut run =
        Run::new(&NoRows, None, &mut environment, Parameters::Values(&[]), Sizes::default(), Memory::new(0));
    run.evaluate(expr, &[])
}

/// Evaluates an expression without subqueries and parameters for rows that the planner has at hand.
///
/// # Errors
/// The expression's.
pub(crate) fn evaluate_rows<'r>(
    expr: &Expr,
    rows: impl Iterator<Item = &'r [Value]>,
    each: &mut dyn FnMut(usize, Value),
) -> Result<()> {
    let mut environment = planning_environment();
    let mut run =
        Run::new(&NoRows, None, &mut environment, Parameters::Values(&[]), Sizes::default(), Memory::new(0));
    for (at, row) in rows.enumerate() {
        each(at, run.evaluate(expr, row)?);
    }
    Ok(())
}

/// Evaluates an expression that reads no table, where statements run.
///
/// # Errors
/// The expression's.
pub(crate) fn value_alone(expr: &Expr, environment: &mut dyn Environment) -> Result<Value> {
    let limit = Memory::new(memory::MEMORY_BYTES_DEFAULT);
    let mut run = Run::new(&NoRows, None, environment, Parameters::Values(&[]), Sizes::default(), limit);
    run.evaluate(expr, &[])
}

/// The reads of a constant expression: there are no tables.
struct NoRows;

impl Rows for NoRows {
    fn get(
        &self,
        _table: &heddledb::Table,
        _key: &[heddledb::ValueRef<'_>],
        _each: &mut dyn FnMut(&heddledb::Row<'_>) -> Result<()>,
    ) -> Result<bool> {
        Ok(false)
    }

    fn exists(&self, _table: &heddledb::Table, _key: &[heddledb::ValueRef<'_>]) -> Result<bool> {
        Ok(false)
    }

    fn scan<'s>(
        &'s self,
        _table: &heddledb::Table,
        _index: Option<&str>,
        _range: heddledb::Range,
        _columns: Option<&[heddledb::Column]>,
    ) -> Result<Box<dyn crate::access::RowScan + 's>> {
        Err(SqlError::internal("constants read no tables"))
    }
}
