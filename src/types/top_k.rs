//! A top-K set: the greatest entries, at most one for each order, as a byte string.
//!
//! ```text
//! ┌ 4 bytes ┬ count × 4 bytes ──────────────────┬ entries, descending ─┐
//! │ count   │ where each entry ends, from the   │ each as an ordered   │
//! │         │ start of the entries              │ tuple                │
//! └─────────┴───────────────────────────────────┴──────────────────────┘
//! ```
//!
//! Invariants: entries descend strictly by order, and there are at most K. So the lowest entry is the last,
//! whether an entry enters a full set is one comparison, and an order is found by binary search. Of two entries of
//! equal order the one with the greater payload stays: what a set holds depends on what was put, never on the
//! sequence.

use std::cmp::Ordering;

use crate::error::{Error, Result};
use crate::types::tuple::{self, Entry};
use crate::types::{OrderedTuple, TupleType, Value, assignment};

/// The greatest entries, at most one for each order.
///
/// ```
/// use heddledb::{DataType, OrderedTuple, TopK, TupleType, Value, row};
/// let score = TupleType::new(vec![DataType::Int64], vec![DataType::Text])?;
/// let ada = OrderedTuple::new(&score, &row![10], &row!["Ada"])?;
/// let bea = OrderedTuple::new(&score, &row![12], &row!["Bea"])?;
/// let best = TopK::of(1, [&ada, &bea])?;
/// assert_eq!(best.rows(&score)?, [[Value::from(12), Value::from("Bea")]]);
/// # Ok::<(), heddledb::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TopK(Vec<u8>);

/// The bytes of the count, and of each entry's end.
const WORD: usize = 4;
/// Bytes of a set of one entry, without the entry's own.
pub(crate) const SET_OF_ONE_BYTES: usize = 2 * WORD;

impl TopK {
    /// The `limit` greatest of these entries.
    pub fn of<'a>(limit: u32, entries: impl IntoIterator<Item = &'a OrderedTuple>) -> Result<TopK> {
        let mut tuples: Vec<&[u8]> = entries.into_iter().map(OrderedTuple::as_bytes).collect();
        tuples.sort_unstable_by(|left, right| right.cmp(left));
        let mut kept = Vec::new();
        for bytes in tuples {
            push(&mut kept, bytes, limit)?;
        }
        let mut set = Vec::new();
        write(&kept, &mut set)?;
        Ok(TopK(set))
    }

    /// A set that the engine stored.
    pub(crate) fn from_stored(bytes: &[u8]) -> TopK {
        TopK(bytes.to_vec())
    }

    /// The entries as rows, from the greatest down: each has the columns of the order, then those of the payload.
    pub fn rows(&self, of: &TupleType) -> Result<Vec<Vec<Value>>> {
        let set = Set::parse(&self.0)?;
        (0..set.len()).map(|index| set.entry(index)?.row(of)).collect()
    }

    /// The set as it is stored.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The entries of a top-K set, or of a single tuple, which is a set of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Set<'a> {
    ends: &'a [[u8; WORD]],
    entries: &'a [u8],
    /// A tuple: its only entry takes up all bytes.
    single: bool,
}

impl<'a> Set<'a> {
    /// The empty set.
    pub(crate) const EMPTY: Set<'static> = Set { ends: &[], entries: &[], single: false };

    /// A set of one tuple.
    pub(crate) fn of_tuple(tuple: &'a [u8]) -> Set<'a> {
        Set { ends: &[], entries: tuple, single: true }
    }

    /// Parses the bytes of a set, without a look at its entries.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Set<'a>> {
        let too_short = || malformed("its count of entries does not fit");
        let (count, rest) = bytes.split_first_chunk::<WORD>().ok_or_else(too_short)?;
        let table = (u32::from_le_bytes(*count) as usize).checked_mul(WORD).ok_or_else(too_short)?;
        let (table, entries) = rest.split_at_checked(table).ok_or_else(too_short)?;
        let (ends, _) = table.as_chunks();
        Ok(Set { ends, entries, single: false })
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        if self.single { 1 } else { self.ends.len() }
    }

    /// The offset at which an entry begins; with the number of entries, the offset at which the last one ends.
    fn start(&self, index: usize) -> usize {
        match index.checked_sub(1).and_then(|previous| self.ends.get(previous)) {
            Some(end) => u32::from_le_bytes(*end) as usize,
            None => 0,
        }
    }

    /// An entry as a tuple's bytes.
    pub(crate) fn tuple(&self, index: usize) -> Result<&'a [u8]> {
        if self.single {
            return Ok(self.entries);
        }
        self.entries
            .get(self.start(index)..self.start(index + 1))
            .ok_or_else(|| malformed("an entry does not lie within it"))
    }

    /// An entry's parts; 0 is the greatest.
    pub(crate) fn entry(&self, index: usize) -> Result<Entry<'a>> {
        Entry::parse(self.tuple(index)?)
    }

    /// The entry with this order, or else where it would be.
    fn find(&self, order: &[u8]) -> Result<Result<usize, usize>> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.entry(middle)?.order.cmp(order) {
                Ordering::Greater => low = middle + 1,
                Ordering::Less => high = middle,
                Ordering::Equal => return Ok(Ok(middle)),
            }
        }
        Ok(Err(low))
    }
}

/// Puts one tuple into a set of at most `limit` entries. `out` becomes the new set; false if the set stays as it is.
pub(crate) fn insert(set: Set<'_>, tuple: &[u8], limit: u32, out: &mut Vec<u8>) -> Result<bool> {
    let new = Entry::parse(tuple)?;
    let count = set.len();
    let full = count >= limit as usize;
    if full && (count == 0 || new.order < set.entry(count - 1)?.order) {
        return Ok(false);
    }
    let (position, replaced) = match set.find(new.order)? {
        Ok(found) if new.payload <= set.entry(found)?.payload => return Ok(false),
        Ok(found) => (found, 1),
        Err(position) => (position, 0),
    };
    let mut kept = Vec::with_capacity(count + 1);
    for index in 0..position {
        kept.push(set.tuple(index)?);
    }
    kept.push(tuple);
    for index in position + replaced..count {
        kept.push(set.tuple(index)?);
    }
    kept.truncate(limit as usize);
    write(&kept, out)?;
    Ok(true)
}

/// The `limit` greatest entries of both sets. `out` becomes that set; false if it is `left`.
pub(crate) fn union(left: Set<'_>, right: Set<'_>, limit: u32, out: &mut Vec<u8>) -> Result<bool> {
    let mut kept: Vec<&[u8]> = Vec::with_capacity((left.len() + right.len()).min(limit as usize));
    let (mut left_index, mut right_index, mut changed) = (0, 0, false);
    while kept.len() < limit as usize && (left_index < left.len() || right_index < right.len()) {
        let from_left = right_index == right.len()
            || (left_index < left.len() && left.entry(left_index)? >= right.entry(right_index)?);
        if from_left {
            push(&mut kept, left.tuple(left_index)?, limit)?;
            left_index += 1;
        } else {
            changed |= push(&mut kept, right.tuple(right_index)?, limit)?;
            right_index += 1;
        }
    }
    if changed {
        write(&kept, out)?;
    }
    Ok(changed)
}

/// Appends a tuple to a descending sequence, unless it is full or ends with an entry of the same order.
fn push<'a>(kept: &mut Vec<&'a [u8]>, tuple: &'a [u8], limit: u32) -> Result<bool> {
    let order = Entry::parse(tuple)?.order;
    let is_repeated = match kept.last() {
        Some(last) => Entry::parse(last)?.order == order,
        None => false,
    };
    if is_repeated || kept.len() >= limit as usize {
        return Ok(false);
    }
    kept.push(tuple);
    Ok(true)
}

/// Replaces `out` by the set of these tuples, which descend.
fn write(tuples: &[&[u8]], out: &mut Vec<u8>) -> Result<()> {
    let length = WORD * (1 + tuples.len()) + tuples.iter().map(|tuple| tuple.len()).sum::<usize>();
    // The check leaves no count and no end that 32 bits do not hold.
    assignment::check_length(length, "a top-K set")?;
    out.clear();
    out.reserve(length);
    out.extend_from_slice(&(tuples.len() as u32).to_le_bytes());
    let mut end = 0;
    for tuple in tuples {
        end += tuple.len();
        out.extend_from_slice(&(end as u32).to_le_bytes());
    }
    tuples.iter().for_each(|tuple| out.extend_from_slice(tuple));
    Ok(())
}

/// Refuses bytes that are no set of at most `limit` entries of this type.
pub(crate) fn validate(bytes: &[u8], limit: u32, of: &TupleType) -> Result<()> {
    let set = Set::parse(bytes)?;
    if set.len() > limit as usize {
        return Err(malformed("it has more entries than its limit"));
    }
    if set.start(set.len()) != set.entries.len() {
        return Err(malformed("it has bytes behind its entries"));
    }
    let mut previous: Option<Entry<'_>> = None;
    for index in 0..set.len() {
        tuple::validate(set.tuple(index)?, of)?;
        let entry = set.entry(index)?;
        if previous.is_some_and(|previous| previous.order <= entry.order) {
            return Err(malformed("its entries do not descend"));
        }
        previous = Some(entry);
    }
    Ok(())
}

fn malformed(detail: &str) -> Error {
    Error::Malformed { what: "top-K set", detail: detail.to_owned() }
}

#[cfg(test)]
mod tests;
