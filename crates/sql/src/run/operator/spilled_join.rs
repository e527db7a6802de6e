//! The two sides of a hash join on disk, divided by the hash of their keys.
//!
//! # Invariants
//! - Rows with equal keys are in the same part, unless a key is NULL.
//! - A part whose right side does not fit into memory is divided again by other bits of the hash, at most [`DIVISIONS_MAX`] times,
//!   and not if that has not divided it: most of its rows have the same key. Then its right side is joined piece by piece, each
//!   with the whole left side.
//! - Rows for which `NOT IN` is NULL are left out when the sides are divided: those with a NULL key, all if the right side has a
//!   NULL.
//! - A row of the left side knows whether it had a partner in an earlier piece.

use crate::error::Result;
use crate::plan::node::{HashNode, JoinKind};
use crate::run::Run;
use crate::run::batch::Batch;
use crate::run::memory::{Held, row_bytes};
use crate::run::operator::Running;
use crate::run::operator::hash_join::batch_bytes;
use crate::run::operator::join_index::BYTES_PER_ROW;
use crate::run::order::hash_slots;
use crate::run::spill::{Reader, Writer};
use crate::types::Value;

/// The number of parts into which each division divides.
const PARTS: usize = 16;
/// The limit of divisions of rows; each division looks at four more bits of the hash.
const DIVISIONS_MAX: u32 = 5;

/// Both sides of a part.
struct Part {
    left: Writer,
    right: Writer,
    right_bytes: usize,
    divisions: u32,
}

/// The parts that are left, and the one that is being joined.
pub(crate) struct Parts {
    waiting: Vec<Part>,
    current: Option<Current>,
}

/// The part that is being joined.
struct Current {
    left: Reader,
    right: Reader,
    /// The rows read ahead of the right side that belong to the next piece.
    ahead: Option<Batch>,
    /// True for each row of the left side with a partner, if there are several pieces and the join asks for it.
    found: Option<Vec<bool>>,
    /// The number of the left side's row that is joined next.
    position: usize,
    held: Held,
}

fn part_of(hash: u64, division: u32) -> usize {
    // The highest bits: the hash table uses the others.
    (hash >> (60 - 4 * division)) as usize % PARTS
}

fn empty_parts(divisions: u32) -> Vec<Part> {
    let part = || Part { left: Writer::new(), right: Writer::new(), right_bytes: 0, divisions };
    (0..PARTS).map(|_| part()).collect()
}

/// Returns true if the join needs to know if a row of the left side has a partner at all.
fn tracks_left(node: &HashNode) -> bool {
    matches!(node.kind, JoinKind::Left | JoinKind::Full | JoinKind::Semi | JoinKind::Anti)
}

/// Returns true if rows of the right side that have no partner are not in the result.
fn drops_nulls(node: &HashNode) -> bool {
    !matches!(node.kind, JoinKind::Right | JoinKind::Full)
}

fn has_null(row: &[Value], keys: &[usize]) -> bool {
    keys.iter().any(|&slot| row[slot].is_null())
}

/// Divides rows of a side. Those of the right side with a NULL key have no partner: they are left out, or are added to
/// the smallest part if they are in the result.
fn scatter(
    node: &HashNode,
    run: &mut Run<'_>,
    parts: &mut [Part],
    batch: &Batch,
    division: u32,
    is_right: bool,
) -> Result<()> {
    let keys = if is_right { &node.right_keys } else { &node.left_keys };
    for row in batch.rows() {
        let mut part = part_of(hash_slots(&run.hashing, row, keys), division);
        if (is_right || node.null_aware) && has_null(row, keys) {
            if drops_nulls(node) {
                continue;
            }
            part = (0..PARTS).min_by_key(|&part| parts[part].right_bytes).unwrap_or(part);
        }
        let part = &mut parts[part];
        if is_right {
            part.right_bytes += row_bytes(row) + BYTES_PER_ROW;
            part.right.push(row)?;
        } else {
            part.left.push(row)?;
        }
    }
    run.check_interrupt()
}

impl Current {
    fn new(part: Part) -> Result<Current> {
        let (left, right) = (part.left.into_reader()?, part.right.into_reader()?);
        Ok(Current { left, right, ahead: None, found: None, position: 0, held: Held::default() })
    }

    /// The next rows of the right side, as many as fit and at least a batch, and their memory.
    fn next_piece(&mut self, node: &HashNode, run: &mut Run<'_>) -> Result<(Batch, Held)> {
        let (mut rows, mut held) = (Batch::new(node.right.width), Held::default());
        loop {
            let next = match self.ahead.take() {
                Some(batch) => Some(batch),
                None => self.right.next()?,
            };
            let Some(batch) = next else { return Ok((rows, held)) };
            if !held.admit_first(&mut run.memory, batch_bytes(&batch)) {
                self.ahead = Some(batch);
                if tracks_left(node) {
                    self.found.get_or_insert_default();
                }
                return Ok((rows, held));
            }
            rows.append(batch);
        }
    }
}

impl Parts {
    /// Divides what was read of the right side and is charged, the rest of it, and the left side.
    pub(crate) fn divide<'e>(
        node: &HashNode,
        run: &mut Run<'e>,
        (read, held): (&mut Batch, &mut Held),
        batch: Batch,
        right: &mut Running<'e>,
        left: &mut Running<'e>,
    ) -> Result<Parts> {
        let mut parts = empty_parts(1);
        let is_null =
            |batch: &Batch| node.null_aware && batch.rows().any(|row| has_null(row, &node.right_keys));
        let mut holds_nowhere = is_null(read) || is_null(&batch);
        scatter(node, run, &mut parts, read, 0, true)?;
        // The sides need the memory for their own operators.
        *read = Batch::default();
        held.clear();
        scatter(node, run, &mut parts, &batch, 0, true)?;
        while let Some(batch) = right.next(run)? {
            holds_nowhere |= is_null(&batch);
            scatter(node, run, &mut parts, &batch, 0, true)?;
        }
        while let Some(batch) = left.next(run)? {
            if !holds_nowhere {
                scatter(node, run, &mut parts, &batch, 0, false)?;
            }
        }
        Ok(Parts { waiting: parts, current: None })
    }

    /// The right side of the next part, or its next piece, and what it takes; none if all are done.
    pub(crate) fn next_right(&mut self, node: &HashNode, run: &mut Run<'_>) -> Result<Option<(Batch, Held)>> {
        if let Some(current) = &mut self.current
            && current.ahead.is_some()
        {
            current.position = 0;
            current.left.rewind()?;
            return current.next_piece(node, run).map(Some);
        }
        self.current = None;
        while let Some(part) = self.waiting.pop() {
            if !run.memory.admits(0, part.right_bytes) && part.divisions < DIVISIONS_MAX {
                self.divide_again(node, run, part)?;
                continue;
            }
            let current = self.current.insert(Current::new(part)?);
            return current.next_piece(node, run).map(Some);
        }
        Ok(None)
    }

    fn divide_again(&mut self, node: &HashNode, run: &mut Run<'_>, part: Part) -> Result<()> {
        let mut parts = empty_parts(part.divisions + 1);
        for (writer, is_right) in [(part.right, true), (part.left, false)] {
            let mut reader = writer.into_reader()?;
            while let Some(batch) = reader.next()? {
                scatter(node, run, &mut parts, &batch, part.divisions, is_right)?;
            }
        }
        // Equal keys stay together: another division would write the same rows again.
        let whole = parts.iter_mut().find(|divided| divided.right_bytes == part.right_bytes);
        whole.into_iter().for_each(|whole| whole.divisions = DIVISIONS_MAX);
        self.waiting.append(&mut parts);
        Ok(())
    }

    /// The next rows of the left side of the part whose right side was given last.
    pub(crate) fn next_left(&mut self, run: &mut Run<'_>) -> Result<Option<Batch>> {
        let Some(current) = &mut self.current else { return Ok(None) };
        let batch = current.left.next()?;
        if let (Some(batch), Some(found)) = (&batch, &mut current.found)
            && found.len() < current.position + batch.len()
        {
            current.held.take(&mut run.memory, batch.len());
            found.resize(current.position + batch.len(), false);
        }
        Ok(batch)
    }

    /// Advances to the next row of the left side, for which a partner was found or not. Returns true, first, if one was
    /// found in an earlier piece, and second, if this piece is the last one.
    pub(crate) fn note(&mut self, is_found: bool) -> (bool, bool) {
        let Some(current) = &mut self.current else { return (false, true) };
        let before = current.found.as_mut().and_then(|found| found.get_mut(current.position));
        current.position += 1;
        let was_found = before.is_some_and(|found| std::mem::replace(found, *found || is_found));
        (was_found, current.ahead.is_none())
    }
}
