//! Right sides of LATERAL joins, kept by the values that they saw of the left side's row: equal values do not execute
//! them twice.
//!
//! # Invariants
//! - A right side is kept when it was read to its end, and only where the same values give the same rows.
//! - What is kept takes at most a share of what the statement's memory has left at first, and beyond it right sides run each
//!   time.

use std::cell::RefCell;
use std::rc::Rc;

use hashbrown::HashMap;

use crate::error::Result;
use crate::run::Run;
use crate::run::batch::Batch;
use crate::run::memory::{Held, row_bytes};
use crate::run::operator::{Operator, Running};
use crate::types::Value;

/// The divisor of the statement's memory that gives the part for kept right sides.
const MEMORY_PARTS: usize = 8;
/// The memory of an entry besides its rows.
const ENTRY_BYTES: usize = 96;

/// The right sides of one join.
#[derive(Clone)]
pub(crate) struct KeptSides(Rc<RefCell<Sides>>);

struct Sides {
    by_seen: HashMap<Vec<Value>, Rc<Vec<Batch>>>,
    held: Held,
    /// The limit of memory held.
    limit: usize,
}

impl Sides {
    /// Holds more, if it may; returns true if it does.
    fn hold(&mut self, run: &mut Run<'_>, bytes: usize) -> bool {
        let is_admitted = self.held.bytes() + bytes <= self.limit && run.memory.has_room(bytes);
        if is_admitted {
            self.held.take(&mut run.memory, bytes);
        }
        is_admitted
    }
}

impl KeptSides {
    pub(crate) fn new(run: &Run<'_>) -> KeptSides {
        let limit = run.memory.limit().saturating_sub(run.memory.used()) / MEMORY_PARTS;
        let sides = Sides { by_seen: HashMap::new(), held: Held::default(), limit };
        KeptSides(Rc::new(RefCell::new(sides)))
    }

    /// The rows that these values gave.
    pub(crate) fn get<'e>(&self, seen: &[Value]) -> Option<Running<'e>> {
        let batches = self.0.borrow().by_seen.get(seen)?.clone();
        Some(Box::new(Again { batches, position: 0 }))
    }

    /// Lets a right side keep its rows when it ends.
    pub(crate) fn keeping<'e>(&self, run: &mut Run<'e>, seen: Vec<Value>, rows: Running<'e>) -> Running<'e> {
        let bytes = row_bytes(&seen) + ENTRY_BYTES;
        match self.0.borrow_mut().hold(run, bytes) {
            true => Box::new(Keeping { sides: self.clone(), rows, read: Some((seen, Vec::new())), bytes }),
            false => rows,
        }
    }
}

/// Rows that are kept.
struct Again {
    batches: Rc<Vec<Batch>>,
    position: usize,
}

impl<'e> Operator<'e> for Again {
    fn next(&mut self, _run: &mut Run<'e>) -> Result<Option<Batch>> {
        self.position += 1;
        Ok(self.batches.get(self.position - 1).cloned())
    }
}

/// A right side that is being read for the first time.
struct Keeping<'e> {
    sides: KeptSides,
    rows: Running<'e>,
    /// The values that it saw, and its rows so far; `None` if they are not kept.
    read: Option<(Vec<Value>, Vec<Batch>)>,
    bytes: usize,
}

impl<'e> Operator<'e> for Keeping<'e> {
    fn next(&mut self, run: &mut Run<'e>) -> Result<Option<Batch>> {
        let batch = self.rows.next(run)?;
        let mut sides = self.sides.0.borrow_mut();
        match (&batch, &mut self.read) {
            (Some(batch), Some((_, batches))) => {
                let bytes = batch.rows().map(row_bytes).sum();
                if sides.hold(run, bytes) {
                    self.bytes += bytes;
                    batches.push(batch.clone());
                } else {
                    self.read = None;
                }
            }
            (None, read) => {
                if let Some((seen, batches)) = read.take() {
                    self.bytes = 0;
                    sides.by_seen.insert(seen, Rc::new(batches));
                }
            }
            _ => {}
        }
        Ok(batch)
    }
}

impl Drop for Keeping<'_> {
    fn drop(&mut self) {
        // A right side that was not read to its end is not kept.
        let held = &mut self.sides.0.borrow_mut().held;
        held.shrink_to(held.bytes().saturating_sub(self.bytes));
    }
}
