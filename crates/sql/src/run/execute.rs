//! The execution of a planned statement, compiled or not: its writes, and the rows that it returns.

use hashbrown::HashSet;

use super::Run;
use super::access::Access;
use super::counts::NodeCounts;
use crate::error::Result;
use crate::plan::statement::{Action, Planned};
use crate::run::batch::Batch;
use crate::run::memory::{MEMORY_BYTES_DEFAULT, Memory};
use crate::run::operator::{Running, operator};
use crate::run::parameters::Parameters;
use crate::run::write::{self, Written};
use crate::types::{Environment, Value};

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
    let options = RunOptions { memory: environment.memory(), counts: planned.age.counts_now() };
    let (count, counts) = execute_with(planned, access, parameters, environment, options, sink)?;
    planned.age.note(&counts);
    Ok(count)
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
    let limit = Memory::new(MEMORY_BYTES_DEFAULT);
    let view = access.view(planned.has_routines);
    let mut run = Run::new(view.rows(), access.writes, environment, parameters.into(), planned.sizes, limit);
    (run.runs_in, run.is_ordinary) = (access.runs_in, access.is_ordinary);
    let count = procedure.run(&mut run, row)?;
    run.environment.check_interrupt()?;
    Ok(count)
}

/// The options of an execution.
#[derive(Debug)]
pub(crate) struct RunOptions {
    /// The memory that the statement may use.
    pub(crate) memory: Memory,
    /// True if the work of each node is counted.
    pub(crate) counts: bool,
}

/// Executes a statement as [`execute`] does, and also returns the work of each node, if that was counted.
///
/// # Errors
/// Same errors as [`execute`].
pub(crate) fn execute_with<'p>(
    planned: &Planned,
    access: Access<'_>,
    parameters: impl Into<Parameters<'p>>,
    environment: &mut dyn Environment,
    options: RunOptions,
    sink: &mut dyn FnMut(Batch) -> Result<()>,
) -> Result<(u64, Vec<NodeCounts>)> {
    let view = access.view(planned.writes || planned.has_routines);
    let mut run =
        Run::new(view.rows(), access.writes, environment, parameters.into(), planned.sizes, options.memory);
    (run.runs_in, run.is_ordinary) = (access.runs_in, access.is_ordinary);
    run.moment = view.moment();
    run.interleaves = planned.calls;
    run.written = (!planned.first.is_empty()).then(HashSet::new);
    run.counts = options.counts.then(|| vec![NodeCounts::default(); planned.sizes.nodes]);
    planned.ctes.iter().for_each(|(number, plan)| run.define_cte(*number, plan));
    run.first = planned.first.iter().map(|(number, action)| (*number, action)).collect();
    let count = match &planned.action {
        Action::Query(plan) => {
            let mut rows = operator(plan, &mut run)?;
            let mut count = 0;
            while let Some(batch) = run.next_of(&mut rows)? {
                count += batch.len() as u64;
                sink(batch)?;
            }
            run.finish()?;
            count
        }
        action => {
            let Written { count, mut returned } = run.act(action)?;
            run.finish()?;
            let mut given = 0;
            while let Some(batch) = returned.rows_from(given)? {
                given += batch.len();
                sink(batch)?;
            }
            count
        }
    };
    run.environment.check_interrupt()?;
    Ok((count, run.counts.take().unwrap_or_default()))
}

impl<'e> Run<'e> {
    /// The next rows; one row, where what is computed from it may see what was written for the one before.
    pub(crate) fn next_of(&mut self, rows: &mut Running<'e>) -> Result<Option<Batch>> {
        if self.interleaves {
            rows.expect_few(1);
        }
        rows.next(self)
    }

    /// Runs a statement in WITH, if it has not been run, when its rows are asked for.
    pub(crate) fn run_first(&mut self, number: usize) -> Result<()> {
        let Some(at) = self.first.iter().position(|(of, _)| *of == number) else { return Ok(()) };
        let (number, action) = self.first.remove(at);
        let written = self.act(action)?;
        self.set_work_table(number, written.returned);
        Ok(())
    }

    /// Runs the statements in WITH whose rows nothing has asked for, the last one first as PostgreSQL does, and ends all
    /// writes.
    fn finish(&mut self) -> Result<()> {
        while let Some((_, action)) = self.first.pop() {
            self.act(action)?;
        }
        write::end(self)
    }

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
