//! A range of a table's records that is read page by page, with nothing pinned in between: for snapshots, whose scans may
//! take their time, and may be cut into parts for several threads.
//!
//! # Invariants
//!
//! A record that is in the index from the scan's first page to its last is met exactly once: pages of either index are sets of
//! keys that do not depend on other inserts and deletes (see [`ScanPlace`](super::ScanPlace)). The parts of a scan have no key
//! in common, and together all keys of the scan.

use std::ops::Bound;

use crossbeam_epoch::Guard;

use super::TableCore;
use crate::error::Result;
use crate::storage::index::hash::HashCursor;
use crate::storage::record::Record;
use crate::types::key::EncodedKey;

/// See the top of the file.
#[derive(Clone, Debug)]
pub(crate) struct RangeScan {
    lower: Bound<EncodedKey>,
    upper: Bound<EncodedKey>,
    backward: bool,
    place: ScanCursor,
}

/// The beginning of the next page.
#[derive(Clone, Debug)]
enum ScanCursor {
    /// A key in the ordered index: from it on, or backward from it.
    Ordered(Bound<EncodedKey>),
    /// A place in the hash index, and the hash before which the scan ends.
    Hash(Option<HashCursor>, Option<u64>),
    End,
}

impl RangeScan {
    /// A scan of the keys between two bounds.
    ///
    /// # Errors
    /// The table has no ordered index, and the range is not the whole table, forward.
    pub(crate) fn new(
        table: &TableCore,
        lower: Bound<EncodedKey>,
        upper: Bound<EncodedKey>,
        backward: bool,
    ) -> Result<RangeScan> {
        let is_everything = !backward && matches!((&lower, &upper), (Bound::Unbounded, Bound::Unbounded));
        let place = if is_everything && table.ordered.is_none() {
            ScanCursor::Hash(None, None)
        } else {
            table.ordered()?;
            ScanCursor::Ordered(if backward { upper.clone() } else { lower.clone() })
        };
        Ok(RangeScan { lower, upper, backward, place })
    }

    /// Appends the next records of the range, present or not. Returns true if there may be more behind them.
    pub(crate) fn page<'g>(
        &mut self,
        table: &'g TableCore,
        records: &mut Vec<Record<'g>>,
        guard: &'g Guard,
    ) -> bool {
        let next = match (&self.place, &table.ordered, &table.hash) {
            (ScanCursor::Ordered(from), Some(_), _) => self.ordered_page(table, from, records, guard),
            (&ScanCursor::Hash(cursor, end), _, Some(index)) => {
                let next = index.page(cursor, records, &mut Vec::new(), guard);
                let next = next.filter(|next| end.is_none_or(|end| next.start() < end));
                next.map(|next| ScanCursor::Hash(Some(next), end))
            }
            _ => None,
        };
        self.place = next.unwrap_or(ScanCursor::End);
        !matches!(self.place, ScanCursor::End)
    }

    fn ordered_page<'g>(
        &self,
        table: &'g TableCore,
        from: &Bound<EncodedKey>,
        records: &mut Vec<Record<'g>>,
        guard: &'g Guard,
    ) -> Option<ScanCursor> {
        let index = table.ordered.as_ref()?;
        let (first, from) = (records.len(), as_slice(from));
        let page = if self.backward {
            index.page_backward(from, records, guard)
        } else {
            index.page_within(from, as_slice(&self.upper), records, guard)
        };
        // Before the range's beginning there are none: pages are read from there on, in order.
        let is_inside = |record: &Record<'_>| {
            if self.backward {
                !is_below(record.key(), &self.lower)
            } else {
                !is_above(record.key(), &self.upper)
            }
        };
        let inside = records[first..].partition_point(is_inside);
        let ends = first + inside < records.len();
        records.truncate(first + inside);
        let next = page.next.filter(|next| {
            !ends
                && if self.backward {
                    !is_at_or_below(next, &self.lower)
                } else {
                    !is_above(next, &self.upper)
                }
        })?;
        let next = EncodedKey::from(next);
        Some(ScanCursor::Ordered(if self.backward { Bound::Excluded(next) } else { Bound::Included(next) }))
    }

    /// Cuts a scan that has not begun into at most this many parts with about the same number of records, in their order.
    pub(crate) fn split(self, table: &TableCore, parts: usize, guard: &Guard) -> Vec<RangeScan> {
        let parts = parts.max(1);
        match (&self.place, &table.ordered, &table.hash) {
            (ScanCursor::Ordered(_), Some(index), _) => {
                let (lower, upper) = (as_slice(&self.lower), as_slice(&self.upper));
                let keys = index.separators((lower, upper), parts, guard);
                self.split_at(&evenly(keys, parts))
            }
            (ScanCursor::Hash(None, None), _, Some(index)) => {
                let width = u64::MAX / parts as u64;
                let mut starts: Vec<HashCursor> =
                    (0..parts as u64).map(|part| index.cursor_holding(part * width, guard)).collect();
                starts.dedup_by_key(|cursor| cursor.start());
                let ends = starts.iter().skip(1).map(|cursor| Some(cursor.start())).chain([None]);
                let places =
                    starts.iter().zip(ends).map(|(&cursor, end)| ScanCursor::Hash(Some(cursor), end));
                places.map(|place| RangeScan { place, ..self.clone() }).collect()
            }
            _ => vec![self],
        }
    }

    /// Cuts an ordered scan at these keys, which rise.
    fn split_at(self, keys: &[EncodedKey]) -> Vec<RangeScan> {
        let lowers = [self.lower.clone()].into_iter().chain(keys.iter().cloned().map(Bound::Included));
        let uppers = keys.iter().cloned().map(Bound::Excluded).chain([self.upper.clone()]);
        let mut parts: Vec<RangeScan> = lowers
            .zip(uppers)
            .map(|(lower, upper)| {
                let start = if self.backward { upper.clone() } else { lower.clone() };
                RangeScan { lower, upper, backward: self.backward, place: ScanCursor::Ordered(start) }
            })
            .collect();
        if self.backward {
            parts.reverse();
        }
        parts
    }
}

/// At most `parts - 1` of these keys, at even distances.
fn evenly(keys: Vec<EncodedKey>, parts: usize) -> Vec<EncodedKey> {
    let cuts = (parts - 1).min(keys.len());
    let (pieces, chosen) = (keys.len() + 1, (1..=cuts));
    chosen.map(|cut| keys[(cut * pieces / (cuts + 1)).saturating_sub(1)].clone()).collect()
}

fn as_slice(bound: &Bound<EncodedKey>) -> Bound<&[u8]> {
    bound.as_ref().map(EncodedKey::as_slice)
}

/// Returns true if a key is above everything in a range that ends at `upper`.
pub(crate) fn is_above(key: &[u8], upper: &Bound<EncodedKey>) -> bool {
    match upper {
        Bound::Included(upper) => key > upper.as_slice(),
        Bound::Excluded(upper) => key >= upper.as_slice(),
        Bound::Unbounded => false,
    }
}

/// Returns true if a key is below everything in a range that begins at `lower`.
pub(crate) fn is_below(key: &[u8], lower: &Bound<EncodedKey>) -> bool {
    match lower {
        Bound::Included(lower) => key < lower.as_slice(),
        Bound::Excluded(lower) => key <= lower.as_slice(),
        Bound::Unbounded => false,
    }
}

/// Returns true if nothing below a key is in a range that begins at `lower`.
fn is_at_or_below(key: &[u8], lower: &Bound<EncodedKey>) -> bool {
    match lower {
        Bound::Included(lower) | Bound::Excluded(lower) => key <= lower.as_slice(),
        Bound::Unbounded => false,
    }
}
