//! Joins by hash: the right side is put into a hash table, in which the left side's rows are looked up.
//!
//! # Invariants
//! - A NULL key has no partner.
//! - Beyond the memory limit both sides are divided by the hash of their keys into files, and the parts are joined one after
//!   the other; a part that is still too large is divided again, by other bits, a few times at most, then joined piece by piece.

use std::sync::Arc;

use crate::error::Result;
use crate::plan::explain::startup;
use crate::plan::node::{HashNode, JoinKind};
use crate::run::Run;
use crate::run::batch::{Batch, Side};
use crate::run::memory::{Held, row_bytes};
use crate::run::operator::join_index::{BYTES_PER_ROW, END, JoinIndex};
use crate::run::operator::parallel::rows_in_parallel;
use crate::run::operator::spilled_join::Parts;
use crate::run::operator::{Operator, Running, operator};
use crate::run::order::Hashing;
use crate::types::Value;

pub(crate) struct HashJoin<'e> {
    node: &'e HashNode,
    left: Running<'e>,
    right: Option<Running<'e>>,
    build: Arc<Build>,
    /// The rows of the right side that have had a partner, if the join needs them.
    matched: Vec<bool>,
    /// The left side's batch and how far it has been joined.
    probe: Option<(Batch, usize)>,
    /// The next candidate of the row that is being joined, and whether it has had a partner, if the result was full before.
    candidate: Option<(u32, bool)>,
    /// The parts that are still to be joined on disk.
    parts: Option<Parts>,
    /// The row of the right side to look at next for rows without a partner.
    unmatched: Option<usize>,
}

/// The right side.
#[derive(Default)]
pub(crate) struct Build {
    rows: Batch,
    index: JoinIndex,
    /// The memory of the rows and the index, until no join and no filter uses them.
    held: Held,
}

impl Build {
    fn new(node: &HashNode) -> Build {
        Build { rows: Batch::new(node.right.width), ..Build::default() }
    }

    fn add(&mut self, batch: Batch) {
        if self.rows.is_empty() {
            self.rows = batch;
        } else {
            self.rows.append(batch);
        }
    }

    /// Reads all rows of a right side.
    fn read<'e>(&mut self, node: &'e HashNode, run: &mut Run<'e>) -> Result<()> {
        let mut right = match rows_in_parallel(&node.right, run)? {
            Some(batches) => Box::new(Ready(batches.into_iter())),
            None => operator(&node.right, run)?,
        };
        while let Some(batch) = right.next(run)? {
            self.held.charge(&mut run.memory, batch_bytes(&batch))?;
            self.add(batch);
        }
        self.index(node, run)
    }

    /// Returns true if the right side has no rows and the join returns none without a partner: the left side is not
    /// read then.
    pub(crate) fn rejects_all(&self, kind: JoinKind) -> bool {
        self.rows.is_empty() && matches!(kind, JoinKind::Inner | JoinKind::Semi)
    }

    /// Makes the keys of all rows known.
    fn index(&mut self, node: &HashNode, run: &mut Run<'_>) -> Result<()> {
        let memory = &mut run.memory;
        let can_spare = |bytes: usize| memory.can_spare(bytes);
        self.index = JoinIndex::new(&self.rows, &node.right_keys, &run.hashing, can_spare);
        match self.index.bytes_beyond_rows() {
            0 => Ok(()),
            bytes => self.held.charge(&mut run.memory, bytes),
        }
    }

    /// The first row of the right side whose keys equal those in these slots of a row; [`END`] if there is none.
    #[inline]
    fn find(&self, node: &HashNode, hashing: &Hashing, row: &[Value], slots: &[usize]) -> u32 {
        self.index.find(&self.rows, &node.right_keys, hashing, row, slots)
    }
}

/// The keys of a right side, for operators of the left side: rows whose keys are not among them have no partner.
#[derive(Clone)]
pub(crate) struct KeyFilter<'e> {
    node: &'e HashNode,
    build: Arc<Build>,
    /// The slots of the keys in the rows of the operator that has the filter.
    pub(crate) slots: Vec<usize>,
}

impl KeyFilter<'_> {
    /// Returns the filter for rows that have the keys in these slots.
    pub(crate) fn with_slots(self, slots: Vec<usize>) -> Self {
        KeyFilter { slots, ..self }
    }

    /// Returns true if a row has a partner, as far as its keys, which are in these slots, decide.
    #[inline]
    pub(crate) fn admits(&self, hashing: &Hashing, row: &[Value], slots: &[usize]) -> bool {
        self.build.find(self.node, hashing, row, slots) != END
    }
}

/// Batches that have been read.
struct Ready(std::vec::IntoIter<Batch>);

impl<'e> Operator<'e> for Ready {
    fn next(&mut self, _run: &mut Run<'e>) -> Result<Option<Batch>> {
        Ok(self.0.next())
    }
}

/// An operator of which one batch has been read.
struct Begun<'e> {
    first: Option<Batch>,
    rest: Running<'e>,
}

impl<'e> Operator<'e> for Begun<'e> {
    fn next(&mut self, run: &mut Run<'e>) -> Result<Option<Batch>> {
        match self.first.take() {
            Some(batch) => Ok(Some(batch)),
            None => self.rest.next(run),
        }
    }
}

/// The memory of a batch of the right side.
pub(super) fn batch_bytes(batch: &Batch) -> usize {
    batch.rows().map(row_bytes).sum::<usize>() + BYTES_PER_ROW * batch.len()
}

impl<'e> HashJoin<'e> {
    pub(crate) fn new(node: &'e HashNode, left: Running<'e>, right: Running<'e>) -> HashJoin<'e> {
        HashJoin {
            node,
            left,
            right: Some(right),
            build: Arc::default(),
            matched: Vec::new(),
            probe: None,
            candidate: None,
            parts: None,
            unmatched: None,
        }
    }

    /// A join with a right side that was read already.
    pub(crate) fn with_build(node: &'e HashNode, left: Running<'e>, build: Arc<Build>) -> HashJoin<'e> {
        let mut join = HashJoin {
            node,
            left,
            right: None,
            build,
            matched: Vec::new(),
            probe: None,
            candidate: None,
            parts: None,
            unmatched: None,
        };
        join.filter_left();
        join
    }

    /// Lets the left side leave out rows without a partner, if many have none.
    fn filter_left(&mut self) {
        if self.node.drops_left {
            let (build, slots) = (self.build.clone(), self.node.left_keys.clone());
            self.left.drop_unmatched(KeyFilter { node: self.node, build, slots });
        }
    }

    /// Reads a right side as a whole.
    pub(crate) fn read_build(node: &'e HashNode, run: &mut Run<'e>) -> Result<Arc<Build>> {
        let mut build = Build::new(node);
        build.read(node, run)?;
        Ok(Arc::new(build))
    }

    /// Returns true if the left side has rows, or if that does not decide whether the right side is to be read.
    fn has_left(&mut self, run: &mut Run<'e>) -> Result<bool> {
        // A left side that is to look for partners itself has not begun before the right side is read. One whose first row costs
        // more than the whole right side is not asked first: the right side may have no rows.
        let is_slow = startup(&self.node.left) > self.node.right.cost;
        if self.tracks_matches() || self.node.drops_left || is_slow {
            return Ok(true);
        }
        let first = self.left.next(run)?;
        let rest = std::mem::replace(&mut self.left, Box::new(Ready(Vec::new().into_iter())));
        let has_rows = first.is_some();
        if has_rows {
            self.left = Box::new(Begun { first, rest });
        }
        Ok(has_rows)
    }

    fn tracks_matches(&self) -> bool {
        matches!(self.node.kind, JoinKind::Right | JoinKind::Full)
    }

    /// Reads the right side.
    fn build(&mut self, run: &mut Run<'e>, mut right: Running<'e>) -> Result<()> {
        if let Some(batches) = rows_in_parallel(&self.node.right, run)? {
            right = Box::new(Ready(batches.into_iter()));
        }
        let mut build = Build::new(self.node);
        while let Some(batch) = right.next(run)? {
            let bytes = batch_bytes(&batch);
            if !build.held.admit(&mut run.memory, bytes) {
                let read = (&mut build.rows, &mut build.held);
                self.parts = Some(Parts::divide(self.node, run, read, batch, &mut right, &mut self.left)?);
                return self.next_part(run).map(|_| ());
            }
            build.add(batch);
        }
        if build.rejects_all(self.node.kind) {
            self.left = Box::new(Ready(Vec::new().into_iter()));
        }
        build.index(self.node, run)?;
        self.start_probing(build);
        self.filter_left();
        Ok(())
    }

    fn start_probing(&mut self, build: Build) {
        if self.tracks_matches() {
            self.matched = vec![false; build.rows.len()];
        }
        self.build = Arc::new(build);
    }

    /// Advances to the next part on disk; returns false if there is none.
    fn next_part(&mut self, run: &mut Run<'e>) -> Result<bool> {
        self.build = Arc::default();
        self.unmatched = None;
        let Some(parts) = &mut self.parts else { return Ok(false) };
        let Some((rows, held)) = parts.next_right(self.node, run)? else { return Ok(false) };
        let mut build = Build { rows, held, ..Build::default() };
        build.index(self.node, run)?;
        self.start_probing(build);
        Ok(true)
    }

    /// The next batch of the left side.
    fn next_left(&mut self, run: &mut Run<'e>) -> Result<Option<Batch>> {
        match &mut self.parts {
            Some(parts) => parts.next_left(run),
            None => self.left.next(run),
        }
    }

    /// Joins one row of the left side; false if the result is full before it is done.
    fn join_row(
        &mut self,
        run: &mut Run<'e>,
        build: &Build,
        row: &[Value],
        result: &mut Batch,
    ) -> Result<bool> {
        let node = self.node;
        let first = || (build.find(node, &run.hashing, row, &node.left_keys), false);
        let (mut at, mut found) = self.candidate.take().unwrap_or_else(first);
        while at != END {
            if found && result.is_full() {
                self.candidate = Some((at, found));
                return Ok(false);
            }
            let position = at as usize;
            at = build.index.next(at);
            let partner = build.rows.row(position);
            if let Some(condition) = &node.condition
                && !run.holds_joined(condition, node.seen.as_ref(), row, partner)?
            {
                continue;
            }
            found = true;
            match node.kind {
                JoinKind::Semi | JoinKind::Anti => break,
                _ => result.push_picked(node.output.as_ref(), Side::Row(row), Side::Row(partner)),
            }
            if let Some(matched) = self.matched.get_mut(position) {
                *matched = true;
            }
        }
        let (was_found, is_last) = self.parts.as_mut().map_or((false, true), |parts| parts.note(found));
        let is_absent = is_last && !found && !was_found;
        let is_given = match node.kind {
            JoinKind::Semi => found && !was_found,
            JoinKind::Anti => is_absent && self.may_be_absent(row),
            JoinKind::Left | JoinKind::Full => is_absent,
            JoinKind::Inner | JoinKind::Right => false,
        };
        if is_given {
            let missing = if node.kind.shows_right() { node.right.width } else { 0 };
            result.push_picked(node.output.as_ref(), Side::Row(row), Side::Missing(missing));
        }
        Ok(true)
    }

    /// Returns true if `NOT IN` is true for a row without a partner, and not NULL.
    fn may_be_absent(&self, row: &[Value]) -> bool {
        // Those of parts on disk have been left out.
        if !self.node.null_aware || self.parts.is_some() || self.build.rows.is_empty() {
            return true;
        }
        !self.build.index.has_null && self.node.left_keys.iter().all(|&slot| !row[slot].is_null())
    }

    /// Rows of the right side that have had no partner.
    fn rest(&mut self, from: usize, result: &mut Batch) {
        let missing = Side::Missing(self.node.left.width);
        let mut position = from;
        while position < self.build.rows.len() && !result.is_full() {
            if !self.matched[position] {
                let row = Side::Row(self.build.rows.row(position));
                result.push_picked(self.node.output.as_ref(), missing, row);
            }
            position += 1;
        }
        self.unmatched = Some(position);
    }

    fn width(&self) -> usize {
        match &self.node.output {
            Some(output) => output.width(),
            None if self.node.kind.shows_right() => self.node.left.width + self.node.right.width,
            None => self.node.left.width,
        }
    }
}

impl<'e> Operator<'e> for HashJoin<'e> {
    fn drop_unmatched(&mut self, filter: KeyFilter<'e>) {
        // Rows of the left side may go if each row of the result has one.
        if !matches!(self.node.kind, JoinKind::Inner | JoinKind::Left | JoinKind::Semi | JoinKind::Anti)
            || self.node.condition.is_some()
            || self.parts.is_some()
        {
            return;
        }
        let slot = |slot: &usize| match &self.node.output {
            Some(output) => output.left.get(*slot).copied(),
            None => (*slot < self.node.left.width).then_some(*slot),
        };
        if let Some(slots) = filter.slots.iter().map(slot).collect() {
            self.left.drop_unmatched(filter.with_slots(slots));
        }
    }

    fn next(&mut self, run: &mut Run<'e>) -> Result<Option<Batch>> {
        if let Some(right) = self.right.take() {
            if !self.has_left(run)? {
                return Ok(None);
            }
            self.build(run, right)?;
        }
        let mut result = Batch::new(self.width());
        loop {
            if let Some(from) = self.unmatched {
                self.rest(from, &mut result);
                if !result.is_empty() {
                    return Ok(Some(result));
                }
                if !self.next_part(run)? {
                    return Ok(None);
                }
            }
            let (batch, mut position) = match self.probe.take() {
                Some(probe) => probe,
                None => match self.next_left(run)? {
                    Some(batch) => (batch, 0),
                    None if self.tracks_matches() => {
                        self.unmatched = Some(0);
                        continue;
                    }
                    None if self.next_part(run)? => continue,
                    None => return Ok(None),
                },
            };
            let build = self.build.clone();
            while position < batch.len() && !result.is_full() {
                if !self.join_row(run, &build, batch.row(position), &mut result)? {
                    break;
                }
                position += 1;
            }
            if position < batch.len() {
                self.probe = Some((batch, position));
            }
            if !result.is_empty() {
                return Ok(Some(result));
            }
            run.check_interrupt()?;
        }
    }
}
