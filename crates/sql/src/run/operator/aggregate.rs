//! Grouping by hash: a state of each aggregate for each group.
//!
//! # Invariants
//! - Without keys there is one group, even of no rows.
//! - With several grouping sets, a row is in one group of each; a result row says in its last slot of which set it is.
//! - Beyond the memory limit, rows of groups that are not there yet are written to files, divided by the hash of their keys, and
//!   grouped part after part when the groups in memory have been given. From the first such row on, no group is added in memory,
//!   even if the input releases some: rows of that group may be in a file.

use std::hash::{BuildHasher, Hash, Hasher};

use hashbrown::HashTable;

use crate::error::Result;
use crate::plan::node::AggregateNode;
use crate::run::Run;
use crate::run::batch::{BATCH_ROWS, Batch};
use crate::run::memory::row_bytes;
use crate::run::operator::accumulate::State;
use crate::run::operator::parallel::groups_in_parallel;
use crate::run::operator::{Operator, operator};
use crate::run::order::{Hashing, hash_slots};
use crate::run::spill::{Reader, Writer};
use crate::types::Value;

/// What a state is charged.
const STATE_BYTES: usize = 96;
/// Into how many files rows are divided.
const PARTS: usize = 16;
/// In place of a group's number: the row is in a file.
const IN_FILE: u32 = u32::MAX;

pub(crate) struct Aggregate<'e> {
    node: &'e AggregateNode,
    has_read: bool,
    groups: Groups,
    given: usize,
    /// Rows on disk, each part with how often it was divided.
    parts: Vec<(Writer, u32)>,
}

/// The groups: their keys and states, one after the other.
pub(crate) struct Groups {
    /// The number of the grouping set, then the keys; those that the set lacks are NULL.
    keys: Batch,
    states: Vec<Option<State>>,
    table: HashTable<u32>,
    bytes: usize,
}

/// Which groups may be added in memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Room {
    /// All: rows cannot go to files.
    Unlimited,
    /// As many as the memory limit leaves room for.
    Limited,
    /// None: rows of other groups are in files.
    None,
}

/// Whether a set has the key at this position.
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
        Groups { keys: Batch::new(keys + 1), states: Vec::new(), table: HashTable::new(), bytes: 0 }
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

    /// Takes in the groups of another part of the rows.
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
                            mine.merge(run, theirs)?;
                        }
                    }
                }
                None => {
                    let bytes = row_bytes(group) + 24 + count * STATE_BYTES;
                    run.memory.charge(bytes)?;
                    self.bytes += bytes;
                    self.add(node, &run.hashing, hash, group.to_vec());
                    self.states.extend(theirs);
                }
            }
        }
        Ok(())
    }
}

impl<'e> Aggregate<'e> {
    pub(crate) fn new(node: &'e AggregateNode) -> Aggregate<'e> {
        Aggregate { node, has_read: false, groups: Groups::new(node.keys.len()), given: 0, parts: Vec::new() }
    }

    /// All groups of the input, in memory.
    ///
    /// # Errors
    /// 53200: they do not fit.
    pub(crate) fn in_memory(node: &'e AggregateNode, run: &mut Run<'e>) -> Result<Groups> {
        let mut input = operator(&node.input, run)?;
        let mut aggregate = Aggregate::new(node);
        while let Some(batch) = input.next(run)? {
            aggregate.add(run, &batch, None)?;
        }
        Ok(aggregate.groups)
    }

    /// The group of a row in a set. None: there is no room for another group.
    #[inline]
    fn group(&mut self, run: &mut Run<'e>, row: &[Value], set: usize, room: Room) -> Result<Option<usize>> {
        let node = self.node;
        if node.keys.is_empty() && node.sets.len() == 1 && !self.groups.keys.is_empty() {
            return Ok(Some(0));
        }
        let key = |at: usize| &row[node.keys[at]];
        let hash = hash_group(node, &run.hashing, set, key);
        if let Some(group) = self.groups.find(node, hash, set, key) {
            return Ok(Some(group));
        }
        if room == Room::None {
            return Ok(None);
        }
        let keys =
            (0..node.keys.len()).map(|at| if in_set(node, set, at) { key(at).clone() } else { Value::Null });
        let keys: Vec<Value> = std::iter::once(Value::Int4(set as i32)).chain(keys).collect();
        let bytes = row_bytes(&keys) + 24 + node.calls.len() * STATE_BYTES;
        let is_limited = room == Room::Limited && self.groups.keys.len() > BATCH_ROWS;
        if is_limited && !run.memory.has_room(bytes) {
            return Ok(None);
        }
        run.memory.charge(bytes)?;
        self.groups.bytes += bytes;
        let number = self.groups.add(node, &run.hashing, hash, keys);
        for call in &node.calls {
            self.groups.states.push(Some(State::new(call, run)?));
        }
        Ok(Some(number))
    }

    /// Feeds the rows of a batch to the states of their groups, call by call.
    fn accumulate(&mut self, run: &mut Run<'e>, batch: &Batch, groups: &[u32]) -> Result<()> {
        let count = self.node.calls.len();
        for (at, call) in self.node.calls.iter().enumerate() {
            for (row, &group) in batch.rows().zip(groups).filter(|(_, group)| **group != IN_FILE) {
                if let Some(state) = &mut self.groups.states[group as usize * count + at] {
                    state.add(call, run, row)?;
                }
            }
        }
        Ok(())
    }

    /// Groups the rows of a batch; without files, all groups stay in memory.
    fn add(&mut self, run: &mut Run<'e>, batch: &Batch, mut files: Option<&mut Vec<Writer>>) -> Result<()> {
        // Groups of several sets are not divided into files.
        let is_bounded = files.is_some() && self.node.sets.len() == 1;
        let mut groups = Vec::with_capacity(batch.len());
        for set in 0..self.node.sets.len() {
            groups.clear();
            for row in batch.rows() {
                let has_files = files.as_ref().is_some_and(|files| !files.is_empty());
                let room = match (is_bounded, has_files) {
                    (false, _) => Room::Unlimited,
                    (true, false) => Room::Limited,
                    (true, true) => Room::None,
                };
                groups.push(match (self.group(run, row, set, room)?, &mut files) {
                    (Some(group), _) => group as u32,
                    (None, Some(files)) => {
                        self.put_aside(run, row, files)?;
                        IN_FILE
                    }
                    (None, None) => IN_FILE,
                });
            }
            self.accumulate(run, batch, &groups)?;
        }
        run.check_interrupt()
    }

    fn put_aside(&self, run: &Run<'e>, row: &[Value], files: &mut Vec<Writer>) -> Result<()> {
        while files.len() < PARTS {
            files.push(Writer::new()?);
        }
        let hash = hash_slots(&run.hashing, row, &self.node.keys);
        // The bits that divide once do not divide what they have put together.
        let shift = 60 - 4 * self.parts.last().map_or(0, |(_, divisions)| divisions % 15);
        files[(hash >> shift) as usize % PARTS].push(row)
    }

    fn read_input(&mut self, run: &mut Run<'e>) -> Result<()> {
        let mut files = Vec::new();
        if let Some(parts) = groups_in_parallel(self.node, run)? {
            for part in parts {
                self.groups.merge(self.node, run, part)?;
            }
        } else {
            let mut input = operator(&self.node.input, run)?;
            while let Some(batch) = input.next(run)? {
                self.add(run, &batch, Some(&mut files))?;
            }
        }
        self.parts.extend(files.into_iter().map(|file| (file, 1)));
        let is_empty = self.groups.keys.is_empty();
        for set in 0..self.node.sets.len() {
            // A set without keys is one group, even of no rows.
            if is_empty && self.node.sets[set].is_empty() {
                let row = vec![Value::Null; self.node.input.width];
                self.group(run, &row, set, Room::Unlimited)?;
            }
        }
        Ok(())
    }

    /// Groups the next part on disk. Whether there is one.
    fn next_part(&mut self, run: &mut Run<'e>) -> Result<bool> {
        let Some((file, divisions)) = self.parts.pop() else { return Ok(false) };
        run.memory.release(self.groups.bytes);
        self.groups = Groups::new(self.node.keys.len());
        self.given = 0;
        let mut reader: Reader = file.into_reader()?;
        let mut files = Vec::new();
        let empty = Writer::new()?;
        self.parts.push((empty, divisions));
        while let Some(batch) = reader.next()? {
            self.add(run, &batch, Some(&mut files))?;
        }
        self.parts.pop();
        self.parts.extend(files.into_iter().map(|file| (file, divisions + 1)));
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
                    row[keys + at] = state.finish(call, run, &direct)?;
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
                run.memory.release(std::mem::take(&mut self.groups.bytes));
                return Ok(None);
            }
        }
    }
}
