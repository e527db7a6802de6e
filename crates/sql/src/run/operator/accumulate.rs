//! Calls of aggregates: which rows they are fed, in which order, and how often.
//!
//! # Invariants
//! - Rows of a call with DISTINCT or ORDER BY are kept until the group ends; all others are accumulated at once.

use std::cmp::Ordering;

use hashbrown::HashSet;
use smallvec::SmallVec;

use crate::error::{Result, SqlError};
use crate::functions::{Accumulator, FunctionContext, FunctionKind};
use crate::plan::node::{AggregateCall, SortKey};
use crate::run::Run;
use crate::run::batch::Batch;
use crate::run::memory::row_bytes;
use crate::run::operator::sorted_rows::Sorted;
use crate::run::order::compare_values;
use crate::types::Value;

/// The state of one call in one group.
pub(crate) enum State {
    /// `count(*)` and `count(x)`, which need no state of their own.
    Count(i64),
    Plain(Box<dyn Accumulator>),
    /// Equal arguments count once; they are fed in order at the end, as PostgreSQL does, which sorts to find equal ones.
    Distinct(Box<dyn Accumulator>, Box<HashSet<SmallVec<[Value; 1]>>>),
    /// Rows of arguments and sort keys, fed in order at the end.
    Ordered(Box<dyn Accumulator>, Box<Batch>),
}

/// Whether a call is `count`, which is fed without a call.
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

    /// Takes a row in.
    pub(crate) fn add(&mut self, call: &AggregateCall, run: &mut Run<'_>, row: &[Value]) -> Result<()> {
        if let Some(filter) = call.filter
            && !matches!(row[filter], Value::Bool(true))
        {
            return Ok(());
        }
        if call.function.is_strict && call.arguments.iter().any(|&slot| row[slot].is_null()) {
            return Ok(());
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
                    run.memory.charge(row_bytes(&arguments) + 32)?;
                    seen.insert(arguments.into_iter().collect());
                }
            }
            State::Ordered(_, rows) => {
                let slots = call.arguments.iter().copied().chain(call.order.iter().map(|key| key.slot));
                rows.push(slots.map(|slot| row[slot].clone()));
                run.memory.charge(row_bytes(rows.row(rows.len() - 1)))?;
            }
        }
        Ok(())
    }

    /// Takes in what another state has accumulated of other rows.
    pub(crate) fn merge(&mut self, run: &mut Run<'_>, other: State) -> Result<()> {
        match (self, other) {
            (State::Count(mine), State::Count(theirs)) => {
                *mine += theirs;
                Ok(())
            }
            (State::Plain(mine), State::Plain(theirs)) => mine.merge(theirs),
            (State::Distinct(_, mine), State::Distinct(_, theirs)) => {
                for arguments in *theirs {
                    if !mine.contains(&arguments) {
                        run.memory.charge(row_bytes(&arguments) + 32)?;
                        mine.insert(arguments);
                    }
                }
                Ok(())
            }
            _ => Err(SqlError::internal("states of aggregates with an order cannot be merged")),
        }
    }

    /// The result; `direct`: what an ordered-set aggregate takes besides its rows.
    pub(crate) fn finish(self, call: &AggregateCall, run: &mut Run<'_>, direct: &[Value]) -> Result<Value> {
        match self {
            State::Count(count) => Ok(Value::Int8(count)),
            State::Plain(accumulator) => accumulator.finish(&mut context(run, call), direct),
            State::Distinct(mut accumulator, seen) => {
                let mut distinct: Vec<_> = seen.into_iter().collect();
                if call.function.name != "count" {
                    distinct.sort_unstable_by(|left, right| nulls_last(left, right));
                }
                for arguments in distinct {
                    accumulator.accumulate(&mut context(run, call), &arguments)?;
                }
                accumulator.finish(&mut context(run, call), direct)
            }
            State::Ordered(mut accumulator, rows) => {
                let width = call.arguments.len();
                let place = |(at, key): (usize, &SortKey)| SortKey { slot: width + at, ..*key };
                let keys: Vec<SortKey> = call.order.iter().enumerate().map(place).collect();
                let mut sorted = Sorted::new(*rows, &keys);
                let mut seen: HashSet<Vec<Value>> = HashSet::new();
                while let Some(batch) = sorted.next(usize::MAX) {
                    for row in batch.rows() {
                        if call.distinct && !seen.insert(row[..width].to_vec()) {
                            continue;
                        }
                        accumulator.accumulate(&mut context(run, call), &row[..width])?;
                    }
                }
                accumulator.finish(&mut context(run, call), direct)
            }
        }
    }
}

/// The order of ORDER BY without further words.
fn nulls_last(left: &[Value], right: &[Value]) -> Ordering {
    let pairs = left.iter().zip(right);
    let key = SortKey { slot: 0, descending: false, nulls_first: false };
    pairs
        .map(|(left, right)| compare_values(left, right, &key))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

fn arguments(call: &AggregateCall, row: &[Value]) -> SmallVec<[Value; 1]> {
    call.arguments.iter().map(|&slot| row[slot].clone()).collect()
}

fn context<'c>(run: &'c mut Run<'_>, call: &'c AggregateCall) -> FunctionContext<'c> {
    FunctionContext { environment: run.environment, argument_types: &call.types, result_type: call.result }
}
