//! The two sides of a hash join on disk, divided by the hash of their keys.
//!
//! # Invariants
//! - Rows with equal keys are in the same part, unless a key is NULL. A part's right side is read into memory as a whole; if it does not fit, it is
//!   divided again by other bits of the hash, at most [`DIVISIONS_MAX`] times: then it fails with 53200.

use crate::error::Result;
use crate::plan::node::{HashNode, JoinKind};
use crate::run::Run;
use crate::run::batch::Batch;
use crate::run::memory::{Held, row_bytes};
use crate::run::operator::Running;
use crate::run::operator::join_index::BYTES_PER_ROW;
use crate::run::order::hash_slots;
use crate::run::spill::{Reader, Writer};

/// Into how many parts each division divides.
const PARTS: usize = 16;
/// How often rows are divided; each division looks at four more bits of the hash.
const DIVISIONS_MAX: u32 = 5;

/// Both sides of a part.
struct Part {
    left: Writer,
    right: Writer,
    right_bytes: usize,
    divisions: u32,
}

/// The parts that are left, and the left side of the one that is being joined.
pub(crate) struct Parts {
    waiting: Vec<Part>,
    left: Option<Reader>,
}

fn part_of(hash: u64, division: u32) -> usize {
    // The highest bits: the hash table uses the others.
    (hash >> (60 - 4 * division)) as usize % PARTS
}

fn empty_parts(divisions: u32) -> Result<Vec<Part>> {
    (0..PARTS)
        .map(|_| Ok(Part { left: Writer::new()?, right: Writer::new()?, right_bytes: 0, divisions }))
        .collect()
}

/// Whether rows of the right side that have no partner are not in the result.
fn drops_nulls(node: &HashNode) -> bool {
    !matches!(node.kind, JoinKind::Right | JoinKind::Full)
}

/// Divides rows of a side. Those of the right side with a NULL key have no partner: they are left out, or shared out evenly if
/// they are in the result.
fn scatter(
    node: &HashNode,
    run: &Run<'_>,
    parts: &mut [Part],
    batch: &Batch,
    division: u32,
    is_right: bool,
) -> Result<()> {
    let keys = if is_right { &node.right_keys } else { &node.left_keys };
    let mut nulls = 0;
    for row in batch.rows() {
        let mut part = part_of(hash_slots(&run.hashing, row, keys), division);
        if is_right && keys.iter().any(|&slot| row[slot].is_null()) {
            if drops_nulls(node) {
                continue;
            }
            part = nulls % PARTS;
            nulls += 1;
        }
        let part = &mut parts[part];
        if is_right {
            part.right_bytes += row_bytes(row) + BYTES_PER_ROW;
            part.right.push(row)?;
        } else {
            part.left.push(row)?;
        }
    }
    Ok(())
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
        let mut parts = empty_parts(1)?;
        scatter(node, run, &mut parts, read, 0, true)?;
        // The sides need the memory for their own operators.
        *read = Batch::default();
        held.clear();
        scatter(node, run, &mut parts, &batch, 0, true)?;
        while let Some(batch) = right.next(run)? {
            scatter(node, run, &mut parts, &batch, 0, true)?;
        }
        while let Some(batch) = left.next(run)? {
            scatter(node, run, &mut parts, &batch, 0, false)?;
        }
        Ok(Parts { waiting: parts, left: None })
    }

    /// The right side of the next part; none if all are done.
    pub(crate) fn next_right(&mut self, node: &HashNode, run: &mut Run<'_>) -> Result<Option<Batch>> {
        while let Some(part) = self.waiting.pop() {
            if !run.memory.admits(0, part.right_bytes) && part.divisions < DIVISIONS_MAX {
                self.divide_again(node, run, part)?;
                continue;
            }
            let mut rows = Batch::new(node.right.width);
            let mut reader = part.right.into_reader()?;
            while let Some(batch) = reader.next()? {
                rows.append(batch);
            }
            self.left = Some(part.left.into_reader()?);
            return Ok(Some(rows));
        }
        Ok(None)
    }

    fn divide_again(&mut self, node: &HashNode, run: &Run<'_>, part: Part) -> Result<()> {
        let mut parts = empty_parts(part.divisions + 1)?;
        for (writer, is_right) in [(part.right, true), (part.left, false)] {
            let mut reader = writer.into_reader()?;
            while let Some(batch) = reader.next()? {
                scatter(node, run, &mut parts, &batch, part.divisions, is_right)?;
            }
        }
        self.waiting.append(&mut parts);
        Ok(())
    }

    /// The next rows of the left side of the part whose right side was given last.
    pub(crate) fn next_left(&mut self) -> Result<Option<Batch>> {
        match &mut self.left {
            Some(reader) => reader.next(),
            None => Ok(None),
        }
    }
}
