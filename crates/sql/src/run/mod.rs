//! The executor of plans: expression evaluation, operators, and the statements that write.
//!
//! A plan is executed as a tree of operators. The one on top asks its inputs for batches of rows, so that the cost of a
//! call is paid once a batch, and no more rows are read than the statement needs. Statements that name one row by its
//! key are compiled instead (`compile`), and need no operators. All state of one execution is in a [`Run`], which
//! borrows the plan: a plan is shared, and is executed any number of times.
//!
//! ```text
//! execute       a planned statement; alone: an expression without a statement
//! access        the rows of the database that either may read and write
//! evaluate      expressions over a row
//! subquery      subqueries in expressions; keyed: correlated ones, answered for all rows at once
//! operator/     each node of a plan, in batches of rows
//! write/        INSERT, UPDATE, DELETE, MERGE and their checks
//! batch, order  rows; their comparison and hashing
//! parameters    the values of parameters
//! memory        limits of memory; large_values: values that are charged singly
//! spill         rows on disk
//! counts        the work of each node
//! ```
//!
//! # Invariants
//! - A run belongs to one attempt of one transaction: all of its results are discarded when the attempt aborts.

mod access;
mod alone;
pub(crate) mod batch;
mod counts;
mod evaluate;
mod execute;
mod keyed;
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

use hashbrown::{HashMap, HashSet};
use heddledb::Moment;

use crate::access::{RowScan, Rows, RunsIn, Writes};
use crate::error::{Result, SqlError};
use crate::plan::node::Plan;
use crate::plan::statement::Action;
use crate::run::batch::Batch;
use crate::run::keyed::Answers;
use crate::run::memory::{Held, Memory};
use crate::run::operator::Build;
use crate::run::order::Hashing;
use crate::run::parameters::Parameters;
use crate::run::subquery::Cached;
use crate::types::{Environment, Value};

pub(crate) use counts::NodeCounts;
pub(crate) use spill::KeptRows;
pub(crate) use write::{Recheck, commute, has_lost, may_refer, next_row_number};

pub use access::Access;
pub(crate) use alone::{constant_value, evaluate_alone, evaluate_rows, value_alone};
pub(crate) use execute::{RunOptions, execute, execute_compiled, execute_with};

/// The execution state of one statement (PostgreSQL's `EState`).
pub(crate) struct Run<'e> {
    pub(crate) rows: &'e dyn Rows,
    /// `None` if the statement is read-only.
    pub(crate) writes: Option<&'e dyn Writes>,
    /// The moment at which the statement began, if later writes are hidden from it.
    pub(crate) moment: Option<Moment>,
    /// True if it calls functions that write or see writes: rows are read one by one between its own writes.
    pub(crate) interleaves: bool,
    /// The rows that the statement itself has written, by table and key, if it has several parts that write.
    pub(crate) written: Option<HashSet<(u32, Vec<Value>)>>,
    /// The statements in WITH that have not been run.
    pub(crate) first: Vec<(usize, &'e Action)>,
    /// The work to do when all parts of the statement have written.
    pub(crate) endings: Vec<write::Ending<'e>>,
    /// The context in which the statement runs: the engine or a session, in an open transaction or not.
    pub(crate) runs_in: RunsIn,
    /// True if updates read the rows that they change: see [`Access`].
    pub(crate) is_ordinary: bool,
    pub(crate) environment: &'e mut dyn Environment,
    pub(crate) parameters: Parameters<'e>,
    pub(crate) memory: Memory,
    pub(crate) hashing: Hashing,
    /// A buffer for the joined row that is being tested; reused to avoid allocations.
    pub(crate) joined: Vec<Value>,
    /// The operand of the innermost CASE around.
    case_operand: Value,
    /// The numbered state, made when it is first needed: statements of a few rows by their keys need none.
    numbered: Option<Box<Numbered<'e>>>,
    /// The number of a parallel scan, and the part of its rows that this run reads instead of all of them.
    pub(crate) part: Option<(usize, Box<dyn RowScan + Send>)>,
    /// Hash tables of hash joins that parallel runs share, by the joins' numbers.
    pub(crate) builds: HashMap<usize, Arc<Build>, Hashing>,
    /// The work of each node, if that is counted (EXPLAIN ANALYZE).
    pub(crate) counts: Option<Vec<NodeCounts>>,
    pub(crate) sizes: Sizes,
    interrupt: u32,
}

/// The state of a statement with subqueries or common table expressions, by their numbers.
struct Numbered<'e> {
    /// The values of outer rows that correlated subqueries refer to.
    outer: Vec<Value>,
    /// The rows of common table expressions so far, and those of work tables.
    ctes: Vec<Option<Rc<RefCell<KeptRows>>>>,
    cte_plans: Vec<Option<&'e Plan>>,
    pulled: Vec<Pulled<'e>>,
    cached: Vec<Option<Cached>>,
    /// The answers of subqueries by the values that correlate them.
    answers: Vec<Answers>,
    /// The rows of functions in FROM that are called once, by the numbers of their nodes and their places there.
    functions: HashMap<(usize, usize), Rc<Vec<Value>>, Hashing>,
    /// The memory of these results.
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
            answers: filled(sizes.caches, Answers::default),
            functions: HashMap::with_hasher(order::hashing()),
            cached_memory: Held::default(),
        }
    }
}

/// The state of the evaluation of a common table expression.
#[derive(Default)]
enum Pulled<'e> {
    /// Not at all.
    #[default]
    NotBegun,
    /// Evaluation has begun: as many rows are kept as references have asked for.
    Begun(operator::Running<'e>),
    /// All of its rows are kept.
    Ended,
}

/// The number of values of each kind that a statement numbers: the sizes of a run's vectors.
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
            moment: None,
            interleaves: false,
            written: None,
            first: Vec::new(),
            endings: Vec::new(),
            runs_in: RunsIn::Engine,
            is_ordinary: false,
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

    /// The statement's own interfaces for reads and writes, for the statements of routines that it calls.
    pub(crate) fn access(&self) -> Access<'e> {
        let Run { rows, writes, runs_in, is_ordinary, .. } = *self;
        Access { rows, writes, runs_in, is_fixed: false, is_ordinary }
    }

    /// The rows as they are, the statement's own writes included: for constraints.
    pub(crate) fn latest(&self) -> &'e dyn Rows {
        match self.writes {
            Some(writes) => writes,
            None => self.rows,
        }
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

    /// The rows of a function in FROM that has been called.
    pub(crate) fn kept_function(&mut self, key: (usize, usize)) -> Option<Rc<Vec<Value>>> {
        self.numbered().functions.get(&key).cloned()
    }

    /// Keeps the rows of a function in FROM, and their memory, until the statement ends.
    pub(crate) fn keep_function(
        &mut self,
        key: (usize, usize),
        rows: Vec<Value>,
        mut held: Held,
    ) -> Rc<Vec<Value>> {
        let rows = Rc::new(rows);
        let numbered = self.numbered();
        numbered.cached_memory.absorb(&mut held);
        numbered.functions.insert(key, rows.clone());
        rows
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
        self.run_first(number)?;
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

    /// Reserves the row of a blind write first, in sessions. Commutative operations wait for reservations of other sessions, but
    /// make none, since several sessions may apply them concurrently.
    ///
    /// # Errors
    /// The engine's.
    pub(crate) fn reserve_to_write(
        &self,
        (table, key): (&heddledb::Table, &[heddledb::ValueRef<'_>]),
        commutes: bool,
    ) -> Result<()> {
        match self.runs_in {
            RunsIn::Engine => Ok(()),
            RunsIn::Block if commutes => Ok(()),
            RunsIn::Autocommit if commutes => self.rows.await_free(table, key),
            RunsIn::Autocommit | RunsIn::Block => self.rows.reserve(table, key),
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
