//! The steps of random transactions: their reads and writes, and their notes.

use std::collections::HashMap;
use std::ops::Range as Span;

use heddledb::{OwnedRow, Range, Result, Row, Snapshot, Table, Tx, fail, key, row};

use super::super::graph::Event;
use super::KEYS;

#[derive(Clone)]
pub(super) struct Tables {
    pub(super) items: Table,
    pub(super) counters: Table,
}

/// One step of a transaction.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Read(i64),
    Exists(i64),
    /// Reads a row and writes this value, which no other thread writes; or -1: deletes it.
    Write(i64, i64),
    Scan(i64, i64, bool),
    /// The first rows from a key on, or up to it: this many.
    First(i64, usize, bool),
    ScanIndex(bool),
    Count(i64),
    /// Adds this power of two to a counter.
    Add(i64, u32),
    Fail,
}

/// The observations of a body so far: the part of an event that it can know.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) event: Event,
}

impl Seen {
    /// Notes what was read; what the transaction itself has written it must see so.
    fn row(&mut self, key: i64, value: Option<i64>) {
        let known = match self.event.writes.get(&key) {
            Some(own) => *own,
            None => *self.event.reads.entry(key).or_insert(value),
        };
        // An attempt may see such a thing, but its result must never be returned.
        self.event.torn |= known != value;
    }
}

impl Tables {
    /// Performs one step, and notes it.
    pub(super) fn step(&self, tx: &Tx<'_, '_>, step: Step, seen: &mut Seen) -> Result<()> {
        match step {
            Step::Read(key) => {
                let row = tx.get(&self.items, key![key])?;
                seen.row(key, row.map(|row| row.int("value")).transpose()?);
            }
            Step::Exists(key) => {
                let there = tx.exists(&self.items, key![key])?;
                let row = tx.get(&self.items, key![key])?;
                seen.event.torn |= there != row.is_some();
                seen.row(key, row.map(|row| row.int("value")).transpose()?);
            }
            Step::Write(key, value) => {
                self.step(tx, Step::Read(key), seen)?;
                if value == -1 {
                    tx.delete(&self.items, key![key])?;
                } else if tx.exists(&self.items, key![key])? {
                    tx.update(&self.items, key![key], &[("value", value.into())])?;
                } else {
                    tx.insert(&self.items, row![key, value])?;
                }
                seen.event.writes.insert(key, (value != -1).then_some(value));
            }
            Step::Scan(from, to, backward) => {
                let range = Range::from(key![from]).to(key![to]);
                let found = rows(tx.scan(&self.items, turned(range, backward))?, pair, seen)?;
                noted(&found, from..to, seen);
            }
            Step::First(key, limit, backward) => {
                let range = turned(beginning(key, backward), backward).limit(limit);
                let found = rows(tx.scan(&self.items, range)?, pair, seen)?;
                noted_first(&found, (key, limit, backward), seen);
            }
            Step::ScanIndex(backward) => {
                let range = turned(Range::all(), backward);
                let found = rows(tx.scan_index(&self.items, "by_value", range)?, pair, seen)?;
                noted_in_order(&found, backward, seen);
            }
            Step::Count(_) | Step::Add(..) => self.count(tx, step, seen)?,
            Step::Fail => return Err(fail("its own")),
        }
        Ok(())
    }

    /// Performs one step that reads, in a snapshot; others are left out.
    pub(super) fn look(&self, snapshot: &Snapshot, step: Step, seen: &mut Seen) -> Result<()> {
        match step {
            Step::Read(key) | Step::Write(key, _) => {
                let row = snapshot.get(&self.items, key![key])?;
                seen.row(key, row.map(|row| row.int("value")).transpose()?);
            }
            Step::Exists(key) => {
                let there = snapshot.exists(&self.items, key![key])?;
                let row = snapshot.get(&self.items, key![key])?;
                seen.event.torn |= there != row.is_some();
                seen.row(key, row.map(|row| row.int("value")).transpose()?);
            }
            Step::Scan(from, to, backward) => {
                let range = turned(Range::from(key![from]).to(key![to]), backward);
                let parts = snapshot.scan_parts(&self.items, range, 3)?;
                let found = rows(parts.into_iter().flatten(), owned_pair, seen)?;
                noted(&found, from..to, seen);
            }
            Step::First(key, limit, backward) => {
                let range = turned(beginning(key, backward), backward).limit(limit);
                let found = rows(snapshot.scan(&self.items, range)?, owned_pair, seen)?;
                noted_first(&found, (key, limit, backward), seen);
            }
            Step::ScanIndex(backward) => {
                let range = turned(Range::all(), backward);
                let found = rows(snapshot.scan_index(&self.items, "by_value", range)?, owned_pair, seen)?;
                noted_in_order(&found, backward, seen);
            }
            Step::Count(key) | Step::Add(key, _) => {
                if let Some(row) = snapshot.get(&self.counters, key![key])? {
                    let n = row.int("n")?;
                    seen.event.torn |= *seen.event.counted.entry(key).or_insert(n) != n;
                }
            }
            Step::Fail => {}
        }
        Ok(())
    }

    fn count(&self, tx: &Tx<'_, '_>, step: Step, seen: &mut Seen) -> Result<()> {
        match step {
            Step::Count(key) if !seen.event.added.contains_key(&key) => {
                if let Some(row) = tx.get(&self.counters, key![key])? {
                    let n = row.int("n")?;
                    seen.event.torn |= *seen.event.counted.entry(key).or_insert(n) != n;
                }
            }
            Step::Add(key, bit) if !seen.event.added.contains_key(&key) => {
                tx.add(&self.counters, key![key], "n", 1_i64 << bit)?;
                seen.event.added.insert(key, 1 << bit);
            }
            _ => {}
        }
        Ok(())
    }
}

fn turned(range: Range, backward: bool) -> Range {
    if backward { range.reverse() } else { range }
}

/// The range from a key on, or up to it.
fn beginning(key: i64, backward: bool) -> Range {
    if backward { Range::all().to(key![key]) } else { Range::from(key![key]) }
}

/// A row's key and value.
fn pair(row: Row<'_>) -> Result<(i64, i64)> {
    Ok((row.int("id")?, row.int("value")?))
}

fn owned_pair(row: OwnedRow) -> Result<(i64, i64)> {
    pair(row.row())
}

/// Every row of a scan: key and value.
pub(super) fn rows<R>(
    scan: impl Iterator<Item = Result<R>>,
    pair: impl Fn(R) -> Result<(i64, i64)>,
    seen: &mut Seen,
) -> Result<Vec<(i64, i64)>> {
    let mut found = Vec::new();
    for row in scan {
        let (key, value) = pair(row?)?;
        seen.event.torn |= found.iter().any(|&(other, _)| other == key);
        found.push((key, value));
    }
    Ok(found)
}

/// Notes what a scan of the first rows from a key on, or up to it, has found.
fn noted_first(found: &[(i64, i64)], (key, limit, backward): (i64, usize, bool), seen: &mut Seen) {
    // As far as the last row it says what is there; where there are fewer, to the end.
    let end = found.last().map(|last| last.0).filter(|_| found.len() == limit);
    let read = match (backward, end) {
        _ if limit == 0 => 0..0,
        (false, end) => key..end.map_or(KEYS, |end| end + 1),
        (true, end) => end.unwrap_or(0)..key,
    };
    noted(found, read, seen);
}

/// Notes what a scan of the whole index has found.
fn noted_in_order(found: &[(i64, i64)], backward: bool, seen: &mut Seen) {
    let values: Vec<_> = found.iter().map(|row| row.1).collect();
    let in_order = if backward { values.is_sorted_by(|a, b| a >= b) } else { values.is_sorted() };
    seen.event.torn |= !in_order;
    noted(found, 0..KEYS, seen);
}

/// Notes what a scan of these keys has found.
fn noted(found: &[(i64, i64)], keys: Span<i64>, seen: &mut Seen) {
    let mut left: HashMap<_, _> = found.iter().copied().collect();
    for key in keys {
        seen.row(key, left.remove(&key));
    }
    seen.event.torn |= !left.is_empty();
}
