//! The steps of a serial phase, and which phases must be serial because their actions share tables.

use std::ops::Range;

use crate::protocol::footprint::{Mode, Reference};

/// A step of a serial phase: consecutive actions of one executor.
pub(super) struct Step {
    pub(super) executor: usize,
    pub(super) actions: Range<usize>,
}

/// Consecutive actions of one owner. `any`: an executor for actions without one owner.
pub(super) fn steps(first: usize, owners: &[Option<usize>], any: usize) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (number, owner) in (first..).zip(owners) {
        let executor = owner.unwrap_or(any);
        match steps.last_mut().filter(|step| step.executor == executor) {
            Some(step) => step.actions.end = number + 1,
            None => steps.push(Step { executor, actions: number..number + 1 }),
        }
    }
    steps
}

/// The last action, which does all of the work.
pub(super) fn last_step(range: Range<usize>, owners: &[Option<usize>], any: usize) -> Vec<Step> {
    let executor = owners.last().copied().flatten().unwrap_or(any);
    vec![Step { executor, actions: range.end - 1..range.end }]
}

/// Returns true if an action may write records of secondary indexes.
pub(super) fn writes_indexes(one: &Reference) -> bool {
    one.has_secondary_indexes && one.mode != Mode::Read
}

pub(super) fn accesses_table_of(references: &[Reference], one: &Reference) -> bool {
    references.iter().any(|other| other.table == one.table)
}

/// Returns true if one executor may write records of a table's indexes while another one accesses the table.
pub(super) fn shares_an_index(references: &[Reference], owners: &[Option<usize>]) -> bool {
    let all = || references.iter().zip(owners);
    all().filter(|(one, _)| writes_indexes(one)).any(|(written, owner)| {
        all().any(|(other, its_owner)| other.table == written.table && its_owner != owner)
    })
}
