//! Grouping by hash: a state of each aggregate for each group.
//!
//! # Invariants
//! - Without keys there is one group, even of no rows.
//! - With several grouping sets, a row is in one group of each; a result row says in its last slot of which set it is.
//! - Beyond the memory limit, rows of groups that are not there yet are written to files, divided by the hash of their keys, and
//!   grouped part after part when the groups in memory have been given.

use hashbrown::HashTable;

use crate::error::Result;
use crate::plan::node::AggregateNode;
use crate::run::Run;
use crate::run::batch::{BATCH_ROWS, Batch};
use crate::run::memory::row_bytes;
use crate::run::operator::accumulate::State;
use crate::run::operator::{Operator, Running};
use crate::run::order::hash_slots;
use crate::run::spill::{Reader, Writer};
use crate::types::Value;

/// What a state is charged.
const STATE_BYTES: usize = 96;
/// Into how many files rows are divided.
const PARTS: usize = 16;

pub(crate) struct Aggregate<'e> {
    node: &'e AggregateNode,
    input: Option<Running<'e>>,
    groups: Groups,
    given: usize,
    /// Rows on disk, each part with how often it was divided.
    parts: Vec<(Writer, u32)>,
}

/// The groups: their keys and states, one after the other.
struct Groups {
    /// The number of the grouping set, then the keys; those that the set lacks are NULL.
    keys: Batch,
    states: Vec<Option<State>>,
    table: HashTable<u32>,
    bytes: usize,
}

impl Groups {
    fn new(keys: usize) -> Groups {
        Groups { keys: Batch::new(keys + 1), states: Vec::new(), table: HashTable::new(), bytes: 0 }
    }
}

impl<'e> Aggregate<'e> {
    pub(crate) fn new(node: &'e AggregateNode, input: Running<'e>) -> Aggregate<'e> {
        Aggregate {
            node,
            input: Some(input),
            groups: Groups::new(node.keys.len()),
            given: 0,
            parts: Vec::new(),
        }
    }

    /// The group of a row in a set. None: there is no room for another group.
    fn group(
        &mut self,
        run: &mut Run<'e>,
        row: &[Value],
        set: usize,
        is_bounded: bool,
    ) -> Result<Option<usize>> {
        let node = self.node;
        let is_whole = node.sets.len() == 1 && node.sets[set].len() == node.keys.len();
        let in_set = |at: usize| is_whole || node.sets[set].contains(&at);
        let mut hash = set as u64;
        for (at, slot) in node.keys.iter().enumerate() {
            if in_set(at) {
                hash = hash.rotate_left(5) ^ hash_slots(&run.hashing, row, &[*slot]);
            }
        }
        let hash = hash_slots(&run.hashing, &[Value::Int8(hash as i64)], &[0]);
        let keys = &self.groups.keys;
        let same = |group: &u32| {
            let group = keys.row(*group as usize);
            let mut slots = node.keys.iter().enumerate();
            matches!(group[0], Value::Int4(of) if of as usize == set)
                && slots.all(|(at, slot)| !in_set(at) || group[at + 1] == row[*slot])
        };
        if let Some(group) = self.groups.table.find(hash, same) {
            return Ok(Some(*group as usize));
        }
        let keys: Vec<Value> = std::iter::once(Value::Int4(set as i32))
            .chain(node.keys.iter().enumerate().map(|(at, slot)| match in_set(at) {
                true => row[*slot].clone(),
                false => Value::Null,
            }))
            .collect();
        let bytes = row_bytes(&keys) + 24 + node.calls.len() * STATE_BYTES;
        if is_bounded && !run.memory.has_room(bytes) && self.groups.keys.len() > BATCH_ROWS {
            return Ok(None);
        }
        run.memory.charge(bytes)?;
        self.groups.bytes += bytes;
        let number = self.groups.keys.len();
        self.groups.keys.push(keys);
        for call in &node.calls {
            self.groups.states.push(Some(State::new(call, run)?));
        }
        self.insert(run, hash, number);
        Ok(Some(number))
    }

    fn insert(&mut self, run: &Run<'e>, hash: u64, number: usize) {
        let (node, keys) = (self.node, &self.groups.keys);
        let hasher = |group: &u32| {
            let group = keys.row(*group as usize);
            let set = match group[0] {
                Value::Int4(set) => set as usize,
                _ => 0,
            };
            let is_whole = node.sets.len() == 1 && node.sets[set].len() == node.keys.len();
            let mut hash = set as u64;
            for at in 0..node.keys.len() {
                if is_whole || node.sets[set].contains(&at) {
                    hash = hash.rotate_left(5) ^ hash_slots(&run.hashing, group, &[at + 1]);
                }
            }
            hash_slots(&run.hashing, &[Value::Int8(hash as i64)], &[0])
        };
        self.groups.table.insert_unique(hash, number as u32, hasher);
    }

    fn accumulate(&mut self, run: &mut Run<'e>, group: usize, row: &[Value]) -> Result<()> {
        let count = self.node.calls.len();
        let states = &mut self.groups.states[group * count..(group + 1) * count];
        for (state, call) in states.iter_mut().zip(&self.node.calls) {
            if let Some(state) = state {
                state.add(call, run, row)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, run: &mut Run<'e>, batch: &Batch, files: &mut Vec<Writer>) -> Result<()> {
        // Groups of several sets are not divided into files.
        let is_bounded = self.node.sets.len() == 1;
        for row in batch.rows() {
            for set in 0..self.node.sets.len() {
                match self.group(run, row, set, is_bounded)? {
                    Some(group) => self.accumulate(run, group, row)?,
                    None => self.put_aside(run, row, files)?,
                }
            }
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

    fn read_input(&mut self, run: &mut Run<'e>, mut input: Running<'e>) -> Result<()> {
        let mut files = Vec::new();
        while let Some(batch) = input.next(run)? {
            self.add(run, &batch, &mut files)?;
        }
        self.parts.extend(files.into_iter().map(|file| (file, 1)));
        let is_empty = self.groups.keys.is_empty();
        for set in 0..self.node.sets.len() {
            // A set without keys is one group, even of no rows.
            if is_empty && self.node.sets[set].is_empty() {
                let row = vec![Value::Null; self.node.input.width];
                self.group(run, &row, set, false)?;
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
            self.add(run, &batch, &mut files)?;
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
        if let Some(input) = self.input.take() {
            self.read_input(run, input)?;
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
