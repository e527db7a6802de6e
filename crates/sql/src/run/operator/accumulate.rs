//! Calls of aggregates: the rows that they are fed, in their order, equal ones once or each time.
//!
//! # Invariants
//! - Rows of a call with DISTINCT or ORDER BY are kept until the group ends; all others are accumulated at once.
//! - Of a call with both, rows with equal arguments are beside each other in the order: what it does not say is decided by
//!   the arguments, as in PostgreSQL.

use hashbrown::HashSet;
use smallvec::SmallVec;

use crate::error::{Result, SqlError};
use crate::functions::{Accumulator, FunctionContext, FunctionKind};
use crate::plan::node::{AggregateCall, SortKey};
use crate::run::Run;
use crate::run::batch::Batch;
use crate::run::memory::{Held, row_bytes};
use crate::run::operator::sorted_rows::Sorted;
use crate::run::operator::spilled_states::GroupRows;
use crate::types::Value;

/// The state of one call in one group.
pub(crate) enum State {
    /// `count(*)` and `count(x)`, which need no state of their own.
    Count(i64),
    Plain(Box<dyn Accumulator>),
    /// Equal arguments count once; they are fed in order at the end, as PostgreSQL does, which sorts to find equal ones.
    /// The rows that are here are not in a file.
    Distinct(Box<dyn Accumulator>, Box<HashSet<SmallVec<[Value; 1]>>>),
    /// Rows of arguments and sort keys, fed in order at the end.
    Ordered(Box<dyn Accumulator>, Box<Batch>),
}

/// Returns true if a call is `count`, which is fed without a call.
fn is_count(call: &AggregateCall) -> bool {
    call.function.name == "count" && !call.distinct && call.order.is_empty()
}

impl State {
    pub(crate) fn new(call: &AggregateCall, run: &mut Run<'_>) -> Result<State> {
        if is_count(call) {
            return Ok(State::Count(0));
        }
        let FunctionKind::Aggregate { start, .. } = call.function.kind else {
            return Err(SqlError::internal(format!("{} is not an aggregate", call.function.name)));
        };
        let accumulator = start(&context(run, call));
        Ok(if !call.order.is_empty() {
            State::Ordered(accumulator, Box::new(Batch::new(call.arguments.len() + call.order.len())))
        } else if call.distinct {
            State::Distinct(accumulator, Box::default())
        } else {
            State::Plain(accumulator)
        })
    }

    /// Adds a row; returns the memory of a row that is kept, which the caller counts.
    #[inline]
    pub(crate) fn add(&mut self, call: &AggregateCall, run: &mut Run<'_>, row: &[Value]) -> Result<usize> {
        if let Some(filter) = call.filter
            && !matches!(row[filter], Value::Bool(true))
        {
            return Ok(0);
        }
        if call.function.is_strict && call.arguments.iter().any(|&slot| row[slot].is_null()) {
            return Ok(0);
        }
        match self {
            State::Count(count) => *count += 1,
            State::Plain(accumulator) => {
                let mut context = context(run, call);
                match call.arguments[..] {
                    [slot] => accumulator.accumulate(&mut context, std::slice::from_ref(&row[slot]))?,
                    _ => accumulator.accumulate(&mut context, &arguments(call, row))?,
                }
            }
            State::Distinct(_, seen) => {
                let arguments = arguments(call, row);
                if !seen.contains(&arguments) {
                    let bytes = entry_bytes(&arguments);
                    seen.insert(arguments.into_iter().collect());
                    return Ok(bytes);
                }
            }
            State::Ordered(_, rows) => {
                let slots = call.arguments.iter().copied().chain(call.order.iter().map(|key| key.slot));
                rows.push(slots.map(|slot| row[slot].clone()));
                return Ok(row_bytes(rows.row(rows.len() - 1)));
            }
        }
        Ok(0)
    }

    /// The memory of the rows that are kept of a call without ORDER BY.
    pub(crate) fn kept_bytes(&self) -> usize {
        match self {
            State::Distinct(_, seen) => seen.iter().map(|arguments| entry_bytes(arguments)).sum(),
            State::Count(_) | State::Plain(_) | State::Ordered(..) => 0,
        }
    }

    /// Moves out the rows that are kept: the arguments, then what they are ordered by.
    pub(crate) fn take_rows(&mut self) -> Batch {
        match self {
            State::Distinct(_, seen) => {
                let mut rows = Batch::new(seen.iter().next().map_or(0, |arguments| arguments.len()));
                std::mem::take(&mut **seen).into_iter().for_each(|arguments| rows.push(arguments));
                rows
            }
            State::Ordered(_, rows) => {
                let empty = Batch::new(rows.width());
                std::mem::replace(&mut **rows, empty)
            }
            State::Count(_) | State::Plain(_) => Batch::default(),
        }
    }

    /// Merges the state that was accumulated of other rows; `held` holds the memory of its kept rows.
    pub(crate) fn merge(&mut self, run: &mut Run<'_>, held: &mut Held, other: State) -> Result<()> {
        match (self, other) {
            (State::Count(mine), State::Count(theirs)) => {
                *mine += theirs;
                Ok(())
            }
            (State::Plain(mine), State::Plain(theirs)) => mine.merge(theirs),
            (State::Distinct(_, mine), State::Distinct(_, theirs)) => {
                for arguments in *theirs {
                    if !mine.contains(&arguments) {
                        held.charge(&mut run.memory, entry_bytes(&arguments))?;
                        mine.insert(arguments);
                    }
                }
                Ok(())
            }
            _ => Err(SqlError::internal("states of aggregates with an order cannot be merged")),
        }
    }

    /// The result. `direct`: the arguments of an ordered-set aggregate besides its rows; `spilled`: the rows that are
    /// not here.
    pub(crate) fn finish(
        self,
        call: &AggregateCall,
        run: &mut Run<'_>,
        direct: &[Value],
        spilled: Option<GroupRows<'_>>,
    ) -> Result<Value> {
        let mut state = self;
        let rows = state.take_rows();
        let mut accumulator = match state {
            State::Count(count) => return Ok(Value::Int8(count)),
            State::Plain(accumulator) => return accumulator.finish(&mut context(run, call), direct),
            State::Distinct(accumulator, _) | State::Ordered(accumulator, _) => accumulator,
        };
        let width = call.arguments.len();
        // Rows in memory without an order are a set.
        let may_repeat = call.distinct && (spilled.is_some() || !call.order.is_empty());
        let mut last: Option<SmallVec<[Value; 1]>> = None;
        let mut feed = |row: &[Value]| -> Result<()> {
            if may_repeat {
                if last.as_ref().is_some_and(|last| last[..] == row[..width]) {
                    return Ok(());
                }
                last = Some(row[..width].into());
            }
            accumulator.accumulate(&mut context(run, call), &row[..width])
        };
        match spilled {
            Some(mut spilled) => spilled.each(&mut feed)?,
            // The order makes no difference.
            None if call.function.name == "count" && call.order.is_empty() => {
                rows.rows().try_for_each(&mut feed)?
            }
            None => {
                let mut sorted = Sorted::new(rows, &feeding_order(call));
                while let Some(batch) = sorted.next(usize::MAX) {
                    batch.rows().try_for_each(&mut feed)?;
                }
            }
        }
        accumulator.finish(&mut context(run, call), direct)
    }
}

/// The memory of one entry in a set of different arguments.
fn entry_bytes(arguments: &[Value]) -> usize {
    row_bytes(arguments) + 32
}

/// Returns true if a call's rows are kept.
pub(crate) fn keeps_rows(call: &AggregateCall) -> bool {
    call.distinct || !call.order.is_empty()
}

/// The order in which rows of arguments and sort keys are fed.
pub(crate) fn feeding_order(call: &AggregateCall) -> Vec<SortKey> {
    let width = call.arguments.len();
    let place = |(at, key): (usize, &SortKey)| SortKey { slot: width + at, ..*key };
    let mut keys: Vec<SortKey> = call.order.iter().enumerate().map(place).collect();
    if call.distinct {
        // The order of ORDER BY without further words.
        let argument = |slot| SortKey { slot, descending: false, nulls_first: false };
        keys.extend((0..width).map(argument));
    }
    keys
}

fn arguments(call: &AggregateCall, row: &[Value]) -> SmallVec<[Value; 1]> {
    call.arguments.iter().map(|&slot| row[slot].clone()).collect()
}

fn context<'c>(run: &'c mut Run<'_>, call: &'c AggregateCall) -> FunctionContext<'c> {
    FunctionContext { environment: run.environment, argument_types: &call.types, result_type: call.result }
}
