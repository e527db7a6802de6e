//! Grouping and sorting by several threads: each takes a part of the rows of one scan, then the groups or the sorted parts are
//! merged.
//!
//! # Invariants
//! - Only on snapshots, which several threads can read; only what is the same in every thread: no volatile or stable function, no
//!   subquery, no row of a query around, and no aggregate that needs an order.
//! - Right sides of hash joins on the way are read once, before the threads start. The threads end before this function does.
//!
//! # Concurrency
//! Threads share the plan, the parameters, the snapshot and the right sides, all read-only; each has its own run.

use std::sync::Arc;
use std::time::Duration;

use crate::access::{RowScan, SharedRows};
use crate::error::{Result, SqlError, SqlState};
use crate::functions::Volatility;
use crate::interrupt::{self, Interrupt};
use crate::plan::expression::{Expr, SubPlan, SubPlanKind};
use crate::plan::node::{AggregateCall, AggregateNode, HashNode, JoinKind, Node, Path, Plan, ScanNode};
use crate::run::Run;
use crate::run::batch::Batch;
use crate::run::large_values::LargeValues;
use crate::run::memory::{Memory, row_bytes};
use crate::run::operator::aggregate::{Aggregate, Groups};
use crate::run::operator::hash_join::HashJoin;
use crate::run::operator::operator;
use crate::run::operator::scan::requests;
use crate::types::environment::FormatSettings;
use crate::types::{Environment, Value};

/// The least expected cost, in rows looked at, for which several threads are worth their start, and the least number of
/// rows of the divided scan.
const COST_MIN: f64 = 40_000.0;
const ROWS_MIN: f64 = 4_000.0;
/// The limit of threads that a statement uses.
const THREADS_MAX: usize = 8;
/// The interval at which the statement's thread checks if it is canceled.
const INTERRUPT_INTERVAL: Duration = Duration::from_millis(20);

/// The work of a thread on its part of the rows.
pub(crate) trait PartWork<'e>: Sync {
    /// The result of the work.
    type Output: Send;

    /// Does the work, in a run of its own.
    fn run<'p>(&self, run: &mut Run<'p>) -> Result<Self::Output>
    where
        'e: 'p;
}

/// Grouping a part of the rows.
struct Grouping<'e>(&'e AggregateNode);

impl<'e> PartWork<'e> for Grouping<'e> {
    type Output = Groups;

    fn run<'p>(&self, run: &mut Run<'p>) -> Result<Groups>
    where
        'e: 'p,
    {
        Aggregate::in_memory(self.0, run)
    }
}

/// Collecting a part of the rows.
struct Collecting<'e>(&'e Plan);

impl<'e> PartWork<'e> for Collecting<'e> {
    type Output = Vec<Batch>;

    fn run<'p>(&self, run: &mut Run<'p>) -> Result<Vec<Batch>>
    where
        'e: 'p,
    {
        let mut rows = operator(self.0, run)?;
        let mut batches = Vec::new();
        while let Some(batch) = rows.next(run)? {
            run.memory.charge(batch.rows().map(row_bytes).sum())?;
            batches.push(batch);
        }
        Ok(batches)
    }
}

/// All rows of a plan, in their order; `None` if one thread is to read them.
pub(crate) fn rows_in_parallel<'e>(plan: &'e Plan, run: &mut Run<'e>) -> Result<Option<Vec<Batch>>> {
    let parts = in_parallel(plan, run, &Collecting(plan))?;
    Ok(parts.map(|parts| parts.into_iter().flatten().collect()))
}

/// The groups of each thread's part; `None` if one thread is to do it all.
pub(crate) fn groups_in_parallel<'e>(
    node: &'e AggregateNode,
    run: &mut Run<'e>,
) -> Result<Option<Vec<Groups>>> {
    let is_plain = |call: &AggregateCall| {
        call.order.is_empty() && call.direct.is_empty() && call.function.name != "mode"
    };
    match node.calls.iter().all(is_plain) {
        true => in_parallel(&node.input, run, &Grouping(node)),
        false => Ok(None),
    }
}

/// The results of the work for each part of the input's rows, in the order of the parts; `None` if one thread is to do
/// it all.
pub(crate) fn in_parallel<'e, W: PartWork<'e>>(
    input: &'e Plan,
    run: &mut Run<'e>,
    work: &W,
) -> Result<Option<Vec<W::Output>>> {
    let mut found = Found::default();
    let Some((id, scan)) = partible(input, &mut found) else { return Ok(None) };
    let Some(shared) = run.rows.shared() else { return Ok(None) };
    let is_small = input.cost < COST_MIN || scan.estimated_rows < ROWS_MIN;
    if is_small || run.counts.is_some() || run.part.is_some() {
        return Ok(None);
    }
    // The system reads files to tell: ask late.
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    if threads < 2 {
        return Ok(None);
    }
    let Some((index, range)) = requests(scan, run, &[])?.lone_range() else { return Ok(None) };
    let name = index.map(|index| scan.table.indexes[index].name.as_str());
    let parts = shared.parts(&scan.table.engine, name, range, Some(scan.decoder.columns()), threads)?;
    let mut known = Vec::new();
    for subquery in found.subqueries {
        // A value that fails here may not be needed for any row: then one thread finds out.
        match run.subquery(subquery, &[]) {
            Ok(value) => known.push((subquery.cache, value)),
            Err(error) if error.is_retryable() => return Err(error),
            Err(_) => return Ok(None),
        }
    }
    if scan.filter.as_ref().is_some_and(|filter| never_holds(filter, &known)) {
        return Ok(Some(Vec::new()));
    }
    let result = read_builds(&found.joins, run).and_then(|builds| match builds {
        Builds::Read => run_parts(work, run, shared, (id, parts), &known).map(Some),
        Builds::RejectAll => Ok(Some(Vec::new())),
        Builds::TooLarge => Ok(None),
    });
    // One thread divides what does not fit into files: it needs the memory.
    forget_builds(&found.joins, run);
    let Some(results) = result? else { return Ok(None) };
    let too_large =
        |result: &Result<W::Output>| matches!(result, Err(error) if error.state() == SqlState::OUT_OF_MEMORY);
    if results.iter().any(too_large) {
        return Ok(None);
    }
    results.into_iter().collect::<Result<Vec<_>>>().map(Some)
}

/// The result of reading the right sides of joins.
enum Builds {
    Read,
    /// One of them has no rows, so that the joins return none.
    RejectAll,
    /// The right sides do not fit into memory.
    TooLarge,
}

/// Reads the right sides of joins, the cheapest first: if it has no rows, the others are not read.
fn read_builds<'e>(joins: &[(usize, &'e HashNode)], run: &mut Run<'e>) -> Result<Builds> {
    let mut joins = joins.to_vec();
    joins.sort_by(|(_, one), (_, other)| one.right.cost.total_cmp(&other.right.cost));
    for (id, join) in joins {
        match HashJoin::read_build(join, run) {
            Ok(build) if build.rejects_all(join.kind) => {
                return Ok(Builds::RejectAll);
            }
            Ok(build) => run.builds.insert(id, build),
            Err(error) if error.state() == SqlState::OUT_OF_MEMORY => return Ok(Builds::TooLarge),
            Err(error) => return Err(error),
        };
    }
    Ok(Builds::Read)
}

/// Releases the memory of right sides.
fn forget_builds(joins: &[(usize, &HashNode)], run: &mut Run<'_>) {
    for (id, _) in joins {
        run.builds.remove(id);
    }
}

/// Returns true if a condition compares with a subquery whose value is NULL: then it is true for no row, and nothing is
/// joined.
fn never_holds(condition: &Expr, known: &[(usize, Value)]) -> bool {
    let is_null = |side: &Expr| match side {
        Expr::Subquery(subquery) => {
            known.iter().any(|(cache, value)| *cache == subquery.cache && value.is_null())
        }
        _ => false,
    };
    match condition {
        Expr::And(parts) => parts.iter().any(|part| never_holds(part, known)),
        Expr::Compare(_, sides) => sides.iter().any(is_null),
        _ => false,
    }
}

/// Does the work for each part by a thread of its own.
fn run_parts<'e, W: PartWork<'e>>(
    work: &W,
    run: &mut Run<'e>,
    shared: &'e (dyn SharedRows + Sync),
    (id, parts): (usize, Vec<Box<dyn RowScan + Send>>),
    known: &[(usize, Value)],
) -> Result<Vec<Result<W::Output>>> {
    let (parameters, sizes) = (run.parameters, run.sizes);
    let count = parts.len();
    let memories: Vec<Memory> = parts.iter().map(|_| run.memory.share(count)).collect();
    let (hashing, formats, builds) = (&run.hashing, run.environment.formats().clone(), &run.builds);
    let (stop, waiting) = (Interrupt::new(), std::thread::current());
    let environment = &mut *run.environment;
    let state_memory = environment.state_memory();
    std::thread::scope(|scope| {
        let start = |(part, memory)| {
            let formats = formats.clone();
            let (stop, waiting) = (stop.clone(), &waiting);
            let state_memory = state_memory.share(1);
            scope.spawn(move || {
                let _entered = interrupt::enter(Some(stop.clone()));
                let large_values = LargeValues::new(state_memory.share(1));
                let mut environment = PartEnvironment { formats, stop, state_memory, large_values };
                let mut mine = Run::new(shared.as_rows(), None, &mut environment, parameters, sizes, memory);
                mine.hashing = hashing.clone();
                mine.part = Some((id, part));
                mine.builds = builds.clone();
                known.iter().for_each(|(cache, value)| mine.know_subquery(*cache, value.clone()));
                let output = work.run(&mut mine);
                waiting.unpark();
                output
            })
        };
        let threads: Vec<_> = parts.into_iter().zip(memories).map(start).collect();
        let mut interrupted = Ok(());
        while threads.iter().any(|thread| !thread.is_finished()) {
            std::thread::park_timeout(INTERRUPT_INTERVAL);
            if interrupted.is_ok() {
                interrupted = environment.check_interrupt();
                if interrupted.is_err() {
                    stop.cancel();
                }
            }
        }
        let panicked = |_| Err(SqlError::internal("a thread of the statement panicked"));
        let results = threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect();
        interrupted.map(|()| results)
    })
}

/// The session as expressions in these threads see it: the formats, and the interrupt of the statement.
struct PartEnvironment {
    formats: FormatSettings,
    stop: Arc<Interrupt>,
    state_memory: Memory,
    large_values: LargeValues,
}

impl Environment for PartEnvironment {
    fn formats(&self) -> &FormatSettings {
        &self.formats
    }

    fn transaction_start(&self) -> i64 {
        0
    }

    fn random_bits(&mut self) -> u64 {
        0
    }

    fn note_value(&mut self, value: &Value) -> Result<()> {
        self.large_values.note(value)
    }

    fn require_value(&mut self, bytes: usize) -> Result<()> {
        self.large_values.require(bytes)
    }

    fn state_memory(&self) -> Memory {
        self.state_memory.share(1)
    }

    fn check_interrupt(&mut self) -> Result<()> {
        self.stop.check()
    }
}

/// The nodes found on the way to a scan that can be divided; their values and rows are there before the threads start.
#[derive(Default)]
struct Found<'e> {
    joins: Vec<(usize, &'e HashNode)>,
    /// Subqueries that see nothing of the row.
    subqueries: Vec<&'e SubPlan>,
}

impl<'e> Found<'e> {
    /// Returns true if expressions have the same value in every thread.
    fn admits(&mut self, exprs: impl IntoIterator<Item = &'e Expr>) -> bool {
        exprs.into_iter().all(|expr| is_same_everywhere(expr, &mut self.subqueries))
    }
}

/// The scan whose rows can be divided, with its number.
fn partible<'e>(plan: &'e Plan, found: &mut Found<'e>) -> Option<(usize, &'e ScanNode)> {
    match &plan.node {
        Node::Scan(scan) => {
            let is_range = matches!(scan.path, Path::Full | Path::Ranges { .. });
            (is_range && found.admits(&scan.filter)).then_some((plan.id, scan))
        }
        Node::Filter { input, condition } if found.admits([condition]) => partible(input, found),
        Node::Project { input, expressions } if found.admits(expressions) => partible(input, found),
        Node::Hash(node) => {
            let keeps_right = matches!(node.kind, JoinKind::Right | JoinKind::Full);
            if keeps_right || !found.admits(&node.condition) {
                return None;
            }
            found.joins.push((plan.id, node));
            partible(&node.left, found)
        }
        Node::Lookup(node) => {
            let looked_up = node.scan.path.exprs();
            if !found.admits(node.condition.iter().chain(&node.scan.filter).chain(looked_up)) {
                return None;
            }
            partible(&node.left, found)
        }
        _ => None,
    }
}

/// Returns true if an expression depends on nothing but the row, the parameters, the formats, and values of subqueries
/// that see nothing of the row.
fn is_same_everywhere<'e>(expr: &'e Expr, subqueries: &mut Vec<&'e SubPlan>) -> bool {
    match expr {
        Expr::Call(call) if call.function.volatility != Volatility::Immutable => return false,
        Expr::Subquery(subquery) => {
            let is_value = matches!(subquery.kind, SubPlanKind::Scalar(_) | SubPlanKind::Exists);
            let is_fixed = is_value && subquery.bindings.is_empty() && subquery.is_stable;
            subqueries.extend(is_fixed.then_some(&**subquery));
            return is_fixed;
        }
        Expr::InList(list) if list.constants.is_some() => {
            return is_same_everywhere(&list.operand, subqueries);
        }
        Expr::Outer(_) | Expr::IsDistinct(..) | Expr::NullIf(..) => return false,
        _ => {}
    }
    let mut all = true;
    let is_known = expr.parts(&mut |part| all &= is_same_everywhere(part, subqueries));
    is_known && all
}
