//! Grouping by hash: a state of each aggregate for each group.
//!
//! # Invariants
//! - Without keys there is one group, even of no rows.
//! - With several grouping sets, a row is in one group of each; a result row says in its last slot of which set it is.
//! - Beyond the memory limit, rows of groups that are not there yet are written to files, divided by the hash of their keys, and
//!   grouped part after part when the groups in memory have been given. From the first such row on, no group is added in memory,
//!   even if the input releases some: rows of that group may be in a file.
//! - At least one group is in memory before rows are written, so that each part has fewer groups than the whole.
//! - With several grouping sets, a row in a file is there for one of them, whose number is in one more slot.

use std::hash::{BuildHasher, Hash, Hasher};

use hashbrown::HashTable;

use crate::error::Result;
use crate::plan::node::AggregateNode;
use crate::run::Run;
use crate::run::batch::Batch;
use crate::run::memory::{Held, row_bytes};
use crate::run::operator::accumulate::State;
use crate::run::operator::parallel::groups_in_parallel;
use crate::run::operator::spilled_states::SpilledStates;
use crate::run::operator::{Operator, operator};
use crate::run::order::Hashing;
use crate::run::spill::{Division, Part};
use crate::types::Value;

/// The memory charged for a state.
const STATE_BYTES: usize = 96;
/// The group number of a row that is in a file.
const IN_FILE: u32 = u32::MAX;

pub(crate) struct Aggregate<'e> {
    node: &'e AggregateNode,
    has_read: bool,
    groups: Groups,
    given: usize,
    /// The rows kept for calls with DISTINCT or ORDER BY.
    spilled: SpilledStates,
    /// The files to which rows of other groups are written, and the level of their division; `None` if all of a part's
    /// rows fit.
    division: Option<Division<1>>,
    level: u32,
    /// Parts that are to be grouped.
    parts: Vec<Part<1>>,
}

/// The groups: their keys and states, one after the other.
pub(crate) struct Groups {
    /// The number of the grouping set, then the keys; those that the set lacks are NULL.
    keys: Batch,
    states: Vec<Option<State>>,
    table: HashTable<u32>,
    held: Held,
}

/// The behavior beyond the memory limit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beyond {
    /// The operator fails with 53200.
    Fails,
    /// Rows are written to files.
    Spills,
}

/// Returns true if a set has the key at this position.
#[inline]
fn in_set(node: &AggregateNode, set: usize, at: usize) -> bool {
    node.sets[set].len() == node.keys.len() || node.sets[set].contains(&at)
}

/// The hash of a group, by its set and its keys.
#[inline]
fn hash_group<'v>(
    node: &AggregateNode,
    hashing: &Hashing,
    set: usize,
    key: impl Fn(usize) -> &'v Value,
) -> u64 {
    let mut hasher = hashing.build_hasher();
    hasher.write_usize(set);
    for at in 0..node.keys.len() {
        if in_set(node, set, at) {
            key(at).hash(&mut hasher);
        }
    }
    hasher.finish()
}

fn set_of(group: &[Value]) -> usize {
    match group[0] {
        Value::Int4(set) => set as usize,
        _ => 0,
    }
}

impl Groups {
    pub(crate) fn new(keys: usize) -> Groups {
        Groups {
            keys: Batch::new(keys + 1),
            states: Vec::new(),
            table: HashTable::new(),
            held: Held::default(),
        }
    }

    /// The group with these keys.
    #[inline]
    fn find<'v>(
        &self,
        node: &AggregateNode,
        hash: u64,
        set: usize,
        key: impl Fn(usize) -> &'v Value,
    ) -> Option<usize> {
        let same = |group: &u32| {
            let group = self.keys.row(*group as usize);
            set_of(group) == set
                && (0..node.keys.len()).all(|at| !in_set(node, set, at) || group[at + 1] == *key(at))
        };
        self.table.find(hash, same).map(|group| *group as usize)
    }

    /// Adds a group without states.
    fn add(&mut self, node: &AggregateNode, hashing: &Hashing, hash: u64, keys: Vec<Value>) -> usize {
        let number = self.keys.len();
        self.keys.push(keys);
        let keys = &self.keys;
        let hasher = |group: &u32| {
            let group = keys.row(*group as usize);
            hash_group(node, hashing, set_of(group), |at| &group[at + 1])
        };
        self.table.insert_unique(hash, number as u32, hasher);
        number
    }

    /// Merges the groups of another part of the rows.
    pub(crate) fn merge(&mut self, node: &AggregateNode, run: &mut Run<'_>, other: Groups) -> Result<()> {
        let count = node.calls.len();
        let mut states = other.states.into_iter();
        for group in other.keys.rows() {
            let set = set_of(group);
            let hash = hash_group(node, &run.hashing, set, |at| &group[at + 1]);
            let theirs = states.by_ref().take(count);
            match self.find(node, hash, set, |at| &group[at + 1]) {
                Some(number) => {
                    let mine = &mut self.states[number * count..(number + 1) * count];
                    for (mine, theirs) in mine.iter_mut().zip(theirs) {
                        if let (Some(mine), Some(theirs)) = (mine, theirs) {
                            mine.merge(run, &mut self.held, theirs)?;
                        }
                    }
                }
                None => {
                    let first = self.states.len();
                    self.states.extend(theirs);
                    let kept: usize = self.states[first..].iter().flatten().map(State::kept_bytes).sum();
                    let bytes = row_bytes(group) + 24 + count * STATE_BYTES + kept;
                    self.held.charge(&mut run.memory, bytes)?;
                    self.add(node, &run.hashing, hash, group.to_vec());
                }
            }
        }
        Ok(())
    }
}

impl<'e> Aggregate<'e> {
    pub(crate) fn new(node: &'e AggregateNode) -> Aggregate<'e> {
        Aggregate {
            node,
            has_read: false,
            groups: Groups::new(node.keys.len()),
            given: 0,
            spilled: SpilledStates::default(),
            division: None,
            level: 0,
            parts: Vec::new(),
        }
    }

    /// All groups of the input, in memory.
    ///
    /// # Errors
    /// 53200: they do not fit.
    pub(crate) fn in_memory(node: &'e AggregateNode, run: &mut Run<'e>) -> Result<Groups> {
        let mut input = operator(&node.input, run)?;
        let mut aggregate = Aggregate::new(node);
        while let Some(batch) = input.next(run)? {
            aggregate.add(run, &batch, Beyond::Fails)?;
        }
        Ok(aggregate.groups)
    }

    /// The group of a row in a set; `None` if there is no room for another group.
    #[inline]
    fn group(
        &mut self,
        run: &mut Run<'e>,
        row: &[Value],
        set: usize,
        beyond: Beyond,
    ) -> Result<Option<usize>> {
        let node = self.node;
        if node.keys.is_empty() && node.sets.len() == 1 && !self.groups.keys.is_empty() {
            return Ok(Some(0));
        }
        let key = |at: usize| &row[node.keys[at]];
        let hash = hash_group(node, &run.hashing, set, key);
        if let Some(group) = self.groups.find(node, hash, set, key) {
            return Ok(Some(group));
        }
        if self.division.is_some() {
            self.put_aside(hash, row, set)?;
            return Ok(None);
        }
        let keys =
            (0..node.keys.len()).map(|at| if in_set(node, set, at) { key(at).clone() } else { Value::Null });
        let keys: Vec<Value> = std::iter::once(Value::Int4(set as i32)).chain(keys).collect();
        let bytes = row_bytes(&keys) + 24 + node.calls.len() * STATE_BYTES;
        match beyond {
            Beyond::Fails => self.groups.held.charge(&mut run.memory, bytes)?,
            // Sets without keys have one group each.
            Beyond::Spills if node.sets[set].is_empty() => self.groups.held.take(&mut run.memory, bytes),
            Beyond::Spills if self.groups.held.admit_first(&mut run.memory, bytes) => {}
            Beyond::Spills => {
                self.put_aside(hash, row, set)?;
                return Ok(None);
            }
        }
        let number = self.groups.add(node, &run.hashing, hash, keys);
        for call in &node.calls {
            self.groups.states.push(Some(State::new(call, run)?));
        }
        Ok(Some(number))
    }

    /// Feeds the rows of a batch to the states of their groups, call by call.
    fn accumulate(&mut self, run: &mut Run<'e>, batch: &Batch, groups: &[u32], beyond: Beyond) -> Result<()> {
        let count = self.node.calls.len();
        for (at, call) in self.node.calls.iter().enumerate() {
            for (row, &group) in batch.rows().zip(groups).filter(|(_, group)| **group != IN_FILE) {
                let Some(state) = &mut self.groups.states[group as usize * count + at] else { continue };
                let bytes = state.add(call, run, row)?;
                if bytes == 0 {
                    continue;
                }
                match beyond {
                    Beyond::Fails => self.groups.held.charge(&mut run.memory, bytes)?,
                    Beyond::Spills if self.spilled.add(run, bytes) => {
                        self.spilled.write(run, &self.node.calls, &mut self.groups.states)?;
                    }
                    Beyond::Spills => {}
                }
            }
        }
        Ok(())
    }

    /// Groups the rows of a batch.
    fn add(&mut self, run: &mut Run<'e>, batch: &Batch, beyond: Beyond) -> Result<()> {
        let node = self.node;
        let mut groups = Vec::with_capacity(batch.len());
        let set_slot = node.input.width;
        if batch.width() > set_slot {
            // From a file.
            for row in batch.rows() {
                let set = usize::try_from(row[set_slot].any_int()).unwrap_or_default();
                groups.push(self.group(run, row, set, beyond)?.map_or(IN_FILE, |group| group as u32));
            }
            self.accumulate(run, batch, &groups, beyond)?;
            return run.check_interrupt();
        }
        for set in 0..node.sets.len() {
            groups.clear();
            for row in batch.rows() {
                groups.push(self.group(run, row, set, beyond)?.map_or(IN_FILE, |group| group as u32));
            }
            self.accumulate(run, batch, &groups, beyond)?;
        }
        run.check_interrupt()
    }

    fn put_aside(&mut self, hash: u64, row: &[Value], set: usize) -> Result<()> {
        let division = match &mut self.division {
            Some(division) => division,
            None => self.division.insert(Division::new(self.level)),
        };
        let row = &row[..self.node.input.width];
        match self.node.sets.len() {
            1 => division.push(0, hash, row),
            _ => division.push_with(0, hash, row, Value::Int4(set as i32)),
        }
    }

    /// Ends the reading of the input, or of a part.
    fn finish_reading(&mut self, run: &mut Run<'e>) -> Result<()> {
        self.parts.extend(self.division.take().into_iter().flat_map(Division::into_parts));
        self.spilled.finish_reading(run, &self.node.calls, &mut self.groups.states)
    }

    fn read_input(&mut self, run: &mut Run<'e>) -> Result<()> {
        if let Some(parts) = groups_in_parallel(self.node, run)? {
            for part in parts {
                self.groups.merge(self.node, run, part)?;
            }
        } else {
            let mut input = operator(&self.node.input, run)?;
            while let Some(batch) = input.next(run)? {
                self.add(run, &batch, Beyond::Spills)?;
            }
        }
        self.finish_reading(run)?;
        let is_empty = self.groups.keys.is_empty();
        for set in 0..self.node.sets.len() {
            // A set without keys is one group, even of no rows.
            if is_empty && self.node.sets[set].is_empty() {
                let row = vec![Value::Null; self.node.input.width];
                self.group(run, &row, set, Beyond::Spills)?;
            }
        }
        Ok(())
    }

    fn release(&mut self) {
        self.groups = Groups::new(self.node.keys.len());
        self.spilled.clear();
    }

    /// Groups the next part on disk; returns false if there is none.
    fn next_part(&mut self, run: &mut Run<'e>) -> Result<bool> {
        let Some(part) = self.parts.pop() else { return Ok(false) };
        self.release();
        self.given = 0;
        let ([mut reader], level) = part.read()?;
        self.level = level;
        while let Some(batch) = reader.next()? {
            self.add(run, &batch, Beyond::Spills)?;
        }
        self.finish_reading(run)?;
        Ok(true)
    }

    fn give(&mut self, run: &mut Run<'e>) -> Result<Option<Batch>> {
        let node = self.node;
        let (keys, count) = (node.keys.len(), node.calls.len());
        let numbered = node.sets.len() != 1;
        let mut result = Batch::new(keys + count + usize::from(numbered));
        while self.given < self.groups.keys.len() && !result.is_full() {
            let group = self.given;
            self.given += 1;
            let values = self.groups.keys.row(group).to_vec();
            let row = result.push_nulls();
            row[..keys].clone_from_slice(&values[1..]);
            for (at, call) in node.calls.iter().enumerate() {
                let direct = call.direct.iter().map(|direct| run.evaluate(direct, &values[1..]));
                let direct = direct.collect::<Result<Vec<_>>>()?;
                if let Some(state) = self.groups.states[group * count + at].take() {
                    row[keys + at] = state.finish(call, run, &direct, self.spilled.rows(at, group))?;
                }
            }
            if numbered {
                row[keys + count] = values[0].clone();
            }
        }
        Ok((!result.is_empty()).then_some(result))
    }
}

impl<'e> Operator<'e> for Aggregate<'e> {
    fn next(&mut self, run: &mut Run<'e>) -> Result<Option<Batch>> {
        if !self.has_read {
            self.has_read = true;
            self.read_input(run)?;
        }
        loop {
            if let Some(batch) = self.give(run)? {
                return Ok(Some(batch));
            }
            if !self.next_part(run)? {
                self.release();
                return Ok(None);
            }
        }
    }
}
