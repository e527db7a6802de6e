//! Rows sorted in memory.
//!
//! # Invariants
//! - The sort is stable.
//! - Rows are compared by an abbreviation of their first key before they are compared themselves: a number such that of two
//!   values the one that comes first never has the greater number.

use std::cmp::Ordering;

use crate::plan::node::SortKey;
use crate::run::batch::{BATCH_ROWS, Batch};
use crate::run::order::compare_rows;
use crate::types::Value;
use crate::types::numeric::Numeric;

/// Rows, and the order in which they are given.
pub(crate) struct Sorted {
    rows: Batch,
    /// The rows' positions with the abbreviations of their keys.
    order: Vec<(u64, u32)>,
    /// True if there are abbreviations; if not, all are 0.
    is_abbreviated: bool,
    given: usize,
}

impl Sorted {
    /// Sorts rows.
    pub(crate) fn new(rows: Batch, keys: &[SortKey]) -> Sorted {
        let abbreviated = |(position, row): (usize, &[Value])| {
            Some((abbreviation(&row[keys.first()?.slot], keys.first()?)?, position as u32))
        };
        let order: Option<Vec<(u64, u32)>> = rows.rows().enumerate().map(abbreviated).collect();
        let is_abbreviated = order.is_some();
        let mut order =
            order.unwrap_or_else(|| (0..rows.len() as u32).map(|position| (0, position)).collect());
        order.sort_by(|left, right| {
            let whole = || compare_rows(rows.row(left.1 as usize), rows.row(right.1 as usize), keys);
            left.0.cmp(&right.0).then_with(whole)
        });
        Sorted { rows, order, is_abbreviated, given: 0 }
    }

    /// The next rows, moved out.
    pub(crate) fn next(&mut self, limit: usize) -> Option<Batch> {
        let count = (self.order.len() - self.given).min(limit);
        if count == 0 {
            return None;
        }
        let mut batch = Batch::with_capacity(self.rows.width(), count);
        for _ in 0..count {
            self.move_next(&mut batch);
        }
        Some(batch)
    }

    /// The next rows, as many as an operator passes on at a time, moved out.
    pub(crate) fn next_batch(&mut self) -> Option<Batch> {
        let mut batch =
            Batch::with_capacity(self.rows.width(), (self.order.len() - self.given).min(BATCH_ROWS));
        while self.given < self.order.len() && !batch.is_full() {
            self.move_next(&mut batch);
        }
        (!batch.is_empty()).then_some(batch)
    }

    /// Moves the next row, of which there is one, to a batch.
    fn move_next(&mut self, batch: &mut Batch) {
        let position = self.order[self.given].1 as usize;
        batch.push(self.rows.row_mut(position).iter_mut().map(std::mem::take));
        self.given += 1;
    }

    /// The abbreviation of the next row, and the row.
    fn head(&self) -> Option<(u64, &[Value])> {
        self.order
            .get(self.given)
            .map(|&(abbreviation, position)| (abbreviation, self.rows.row(position as usize)))
    }
}

/// The next rows of all parts together. Of equal rows, the earlier part's come first.
pub(crate) fn merge_sorted(parts: &mut [Sorted], keys: &[SortKey]) -> Option<Batch> {
    if let [only] = parts {
        return only.next_batch();
    }
    let is_abbreviated = parts.iter().all(|part| part.is_abbreviated);
    let width = parts.iter().map(|part| part.rows.width()).max()?;
    let mut batch = Batch::with_capacity(width, BATCH_ROWS);
    while !batch.is_full() {
        let mut least: Option<(usize, (u64, &[Value]))> = None;
        for (number, part) in parts.iter().enumerate() {
            let Some(head) = part.head() else { continue };
            let is_less = least.is_none_or(|(_, (abbreviation, row))| {
                let first = if is_abbreviated { head.0.cmp(&abbreviation) } else { Ordering::Equal };
                first.then_with(|| compare_rows(head.1, row, keys)).is_lt()
            });
            if is_less {
                least = Some((number, head));
            }
        }
        let Some((number, _)) = least else { break };
        parts[number].move_next(&mut batch);
    }
    (!batch.is_empty()).then_some(batch)
}

/// The abbreviation of a value in an order by this key; `None` if its type has none.
fn abbreviation(value: &Value, key: &SortKey) -> Option<u64> {
    if value.is_null() {
        return Some(if key.nulls_first { 0 } else { u64::MAX });
    }
    let ascending = ascending(value)?;
    Some(if key.descending { !ascending } else { ascending })
}

fn ascending(value: &Value) -> Option<u64> {
    Some(match value {
        Value::Bool(value) => u64::from(*value),
        Value::Int2(value) => signed(i64::from(*value)),
        Value::Int4(value) | Value::Date(value) | Value::Enum(value) => signed(i64::from(*value)),
        Value::Int8(value) | Value::Time(value) | Value::Timestamp(value) | Value::Timestamptz(value) => {
            signed(*value)
        }
        Value::Oid(value) => u64::from(*value),
        Value::Float4(value) => float(f64::from(*value)),
        Value::Float8(value) => float(*value),
        // The part before the point.
        Value::Numeric(Numeric::Small { coefficient, scale }) => {
            signed(coefficient.div_euclid(10_i64.checked_pow(u32::from(*scale))?))
        }
        Value::Text(text) => leading(text.as_bytes()),
        Value::Bpchar(text) => leading(text.trim_end_matches(' ').as_bytes()),
        Value::Bytes(bytes) => leading(bytes),
        Value::Uuid(bytes) => leading(bytes),
        _ => return None,
    })
}

fn signed(value: i64) -> u64 {
    value as u64 ^ 1 << 63
}

/// NaN is above every number, and -0 equals 0.
fn float(value: f64) -> u64 {
    if value.is_nan() {
        return u64::MAX;
    }
    let bits = (value + 0.0).to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

/// The first eight bytes.
fn leading(bytes: &[u8]) -> u64 {
    let mut first = [0; 8];
    let count = bytes.len().min(8);
    first[..count].copy_from_slice(&bytes[..count]);
    u64::from_be_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(descending: bool, nulls_first: bool) -> SortKey {
        SortKey { slot: 0, descending, nulls_first }
    }

    fn numeric(text: &str) -> Value {
        Value::Numeric(text.parse().unwrap())
    }

    /// Values of each kind, in order; the equal ones beside each other.
    fn columns() -> Vec<Vec<Value>> {
        let floats = [f64::NEG_INFINITY, -2.5, -0.0, 0.0, 1e-300, 3.0, f64::INFINITY, f64::NAN];
        vec![
            [i64::MIN, -1, 0, 1, i64::MAX].map(Value::Int8).to_vec(),
            vec![Value::Int2(-3), Value::Int8(-3), Value::Int4(7), Value::Int8(1 << 40)],
            floats.map(Value::Float8).to_vec(),
            ["-12.5", "-0.3", "0.00", "0", "0.1", "0.10", "1", "1.01", "99999999.9"].map(numeric).to_vec(),
            ["-1e30", "-12.5", "3", "1e30", "NaN"].map(numeric).to_vec(),
            ["", "a", "a ", "abcdefgh", "abcdefghi", "abcdefgi", "b", "\u{10ffff}"].map(Value::text).to_vec(),
            ["", "  ", "a ", "a", "ab"].map(|text| Value::Bpchar(text.into())).to_vec(),
            [&[][..], &[0], &[0, 0], &[255; 9]].map(Value::bytes).to_vec(),
            vec![Value::Date(i32::MIN), Value::Date(0), Value::Date(i32::MAX)],
            vec![Value::Bool(false), Value::Bool(true)],
        ]
    }

    fn sorted(values: &[Value], key: SortKey) -> Vec<String> {
        let mut rows = Batch::new(2);
        for (number, value) in values.iter().enumerate() {
            rows.push([value.clone(), Value::Int4(number as i32)]);
        }
        let rows = Sorted::new(rows, &[key]).next(usize::MAX).unwrap_or_default();
        rows.rows().map(|row| format!("{row:?}")).collect()
    }

    /// The result of a plain stable sort.
    fn expected(values: &[Value], key: SortKey) -> Vec<String> {
        let numbered = values.iter().cloned().enumerate();
        let mut rows: Vec<[Value; 2]> =
            numbered.map(|(number, value)| [value, Value::Int4(number as i32)]).collect();
        rows.sort_by(|left, right| compare_rows(left, right, &[key]));
        rows.iter().map(|row| format!("{row:?}")).collect()
    }

    #[test]
    fn abbreviations_change_no_order() {
        for column in columns() {
            for shift in 0..column.len() {
                let mut values = column.clone();
                values.rotate_left(shift);
                values.insert(values.len() / 2, Value::Null);
                values.extend(column.iter().rev().cloned());
                for (descending, nulls_first) in [(false, false), (false, true), (true, false), (true, true)]
                {
                    let key = key(descending, nulls_first);
                    assert_eq!(sorted(&values, key), expected(&values, key));
                }
            }
        }
    }

    #[test]
    fn parts_merge_as_if_they_were_sorted_together() {
        for column in columns() {
            let values: Vec<Value> = column.iter().chain([&Value::Null]).cycle().take(23).cloned().collect();
            let key = key(true, false);
            for cut in [0, 1, 7, 23] {
                let part = |values: &[Value], first: usize| {
                    let mut rows = Batch::new(2);
                    for (number, value) in values.iter().enumerate() {
                        rows.push([value.clone(), Value::Int4((first + number) as i32)]);
                    }
                    Sorted::new(rows, &[key])
                };
                let mut parts = [part(&values[..cut], 0), part(&values[cut..], cut)];
                let mut merged = Vec::new();
                while let Some(batch) = merge_sorted(&mut parts, &[key]) {
                    merged.extend(batch.rows().map(|row| format!("{row:?}")));
                }
                assert_eq!(merged, expected(&values, key));
            }
        }
    }
}
