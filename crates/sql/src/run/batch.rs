//! Batches: the rows that operators pass to each other, about a thousand at a time.
//!
//! # Invariants
//! - All rows of a batch have the same width; `values.len() == width * len`.
//! - A row is one slice of values, so that the evaluator reads a column by its slot without an indirection.

use crate::plan::node::Picked;
use crate::types::Value;

/// One part of a joined row.
#[derive(Clone, Copy)]
pub(crate) enum Side<'r> {
    Row(&'r [Value]),
    /// This many NULLs, in place of a row without a partner; zero if a join does not show a side.
    Missing(usize),
}

/// The number of rows that an operator puts into a batch before it passes the batch on.
pub(crate) const BATCH_ROWS: usize = 1_024;

/// The number of bytes owned by a batch's values on the heap at which an operator passes the batch on.
pub(crate) const BATCH_HEAP_BYTES: usize = 128 << 10;

/// Rows of one width, one after the other.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    width: usize,
    len: usize,
    values: Vec<Value>,
    /// The number of values whose heap memory is counted, and the counted bytes: at least the memory of the values that
    /// are left.
    measured: usize,
    heap_bytes: usize,
}

impl Batch {
    /// A batch without rows.
    pub(crate) fn new(width: usize) -> Batch {
        Batch { width, ..Batch::default() }
    }

    /// A batch without rows and with room for this many.
    pub(crate) fn with_capacity(width: usize, rows: usize) -> Batch {
        Batch { width, values: Vec::with_capacity(width * rows), ..Batch::default() }
    }

    /// The number of values in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there is no row.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns true if the batch holds as many rows, or as many bytes of values, as an operator passes on at a time.
    #[inline]
    pub(crate) fn is_full(&mut self) -> bool {
        self.heap_bytes += self.values[self.measured..].iter().map(Value::heap_size).sum::<usize>();
        self.measured = self.values.len();
        self.len >= BATCH_ROWS || self.heap_bytes >= BATCH_HEAP_BYTES
    }

    /// Notes that values were removed or moved.
    fn forget_measures(&mut self) {
        (self.measured, self.heap_bytes) = (0, 0);
    }

    /// The row at this position.
    ///
    /// # Panics
    /// There is no such row.
    pub fn row(&self, position: usize) -> &[Value] {
        &self.values[position * self.width..(position + 1) * self.width]
    }

    /// The row at this position, to change it in place.
    pub(crate) fn row_mut(&mut self, position: usize) -> &mut [Value] {
        &mut self.values[position * self.width..(position + 1) * self.width]
    }

    /// All rows in order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[Value]> {
        (0..self.len).map(|position| self.row(position))
    }

    /// Adds a row.
    pub(crate) fn push(&mut self, row: impl IntoIterator<Item = Value>) {
        self.values.extend(row);
        self.len += 1;
        debug_assert_eq!(self.values.len(), self.width * self.len);
    }

    /// Adds a row, whose values `fill` pushes.
    pub(crate) fn push_by<E>(
        &mut self,
        fill: impl FnOnce(&mut Vec<Value>) -> Result<(), E>,
    ) -> Result<(), E> {
        fill(&mut self.values).inspect_err(|_| self.values.truncate(self.width * self.len))?;
        self.len += 1;
        debug_assert_eq!(self.values.len(), self.width * self.len);
        Ok(())
    }

    /// Adds a row that is a copy of this one.
    pub(crate) fn push_row(&mut self, row: &[Value]) {
        debug_assert_eq!(row.len(), self.width);
        self.values.extend_from_slice(row);
        self.len += 1;
    }

    /// Adds a row that consists of these two parts.
    pub(crate) fn push_joined(&mut self, left: &[Value], right: &[Value]) {
        debug_assert_eq!(left.len() + right.len(), self.width);
        self.values.extend_from_slice(left);
        self.values.extend_from_slice(right);
        self.len += 1;
    }

    /// Adds a row of the picked slots of a joined row; a part that is missing is NULL. `None` picks all slots of both
    /// parts.
    pub(crate) fn push_picked(&mut self, picked: Option<&Picked>, left: Side<'_>, right: Side<'_>) {
        let all = |side: Side<'_>, values: &mut Vec<Value>| match side {
            Side::Row(row) => values.extend_from_slice(row),
            Side::Missing(width) => values.extend(std::iter::repeat_n(Value::Null, width)),
        };
        let some = |side: Side<'_>, slots: &[usize], values: &mut Vec<Value>| match side {
            Side::Row(row) => values.extend(slots.iter().map(|&slot| row[slot].clone())),
            Side::Missing(_) => values.extend(std::iter::repeat_n(Value::Null, slots.len())),
        };
        match picked {
            Some(picked) => {
                some(left, &picked.left, &mut self.values);
                some(right, &picked.right, &mut self.values);
            }
            None => {
                all(left, &mut self.values);
                all(right, &mut self.values);
            }
        }
        self.len += 1;
        debug_assert_eq!(self.values.len(), self.width * self.len);
    }

    /// Adds a row of NULLs, and gives it to fill in.
    pub(crate) fn push_nulls(&mut self) -> &mut [Value] {
        let start = self.values.len();
        self.values.resize(start + self.width, Value::Null);
        self.len += 1;
        &mut self.values[start..]
    }

    /// Removes the row that was added last.
    pub(crate) fn pop(&mut self) {
        if self.len > 0 {
            self.len -= 1;
            self.values.truncate(self.len * self.width);
            self.measured = self.measured.min(self.values.len());
        }
    }

    /// Keeps the first rows only.
    pub(crate) fn truncate(&mut self, rows: usize) {
        if rows < self.len {
            self.len = rows;
            self.values.truncate(rows * self.width);
            self.forget_measures();
        }
    }

    /// Removes the first rows.
    pub(crate) fn skip(&mut self, rows: usize) {
        let rows = rows.min(self.len);
        self.values.drain(..rows * self.width);
        self.len -= rows;
        self.forget_measures();
    }

    /// Keeps the rows for which this holds, in their order.
    pub(crate) fn retain<E>(&mut self, mut keep: impl FnMut(&[Value]) -> Result<bool, E>) -> Result<(), E> {
        let mut kept = 0;
        for position in 0..self.len {
            if keep(self.row(position))? {
                if kept != position {
                    for column in 0..self.width {
                        self.values.swap(kept * self.width + column, position * self.width + column);
                    }
                }
                kept += 1;
            }
        }
        self.truncate(kept);
        self.forget_measures();
        Ok(())
    }

    /// Appends all rows of a batch of the same width.
    pub(crate) fn append(&mut self, mut other: Batch) {
        debug_assert_eq!(self.width, other.width);
        self.values.append(&mut other.values);
        self.len += other.len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(rows: &[[i64; 2]]) -> Batch {
        let mut batch = Batch::new(2);
        rows.iter().for_each(|row| batch.push(row.map(Value::Int8)));
        batch
    }

    fn first(batch: &Batch) -> Vec<i64> {
        let int = |value: &Value| match value {
            Value::Int8(value) => *value,
            other => panic!("not an integer: {other:?}"),
        };
        batch.rows().map(|row| int(&row[0])).collect()
    }

    #[test]
    fn rows_come_in_the_order_in_which_they_were_added() {
        let batch = numbers(&[[1, 10], [2, 20], [3, 30]]);
        assert_eq!((batch.len(), batch.width()), (3, 2));
        assert_eq!(first(&batch), [1, 2, 3]);
    }

    #[test]
    fn rows_without_columns_are_counted() {
        let mut batch = Batch::new(0);
        batch.push([]);
        batch.push([]);
        assert_eq!(batch.rows().count(), 2);
        batch.skip(1);
        assert_eq!(batch.len(), 1);
    }

    #[test]
    fn retain_keeps_the_order() {
        let mut batch = numbers(&[[1, 0], [2, 1], [3, 0], [4, 1]]);
        let kept: Result<(), ()> = batch.retain(|row| Ok(matches!(row[1], Value::Int8(1))));
        assert_eq!(kept, Ok(()));
        assert_eq!(first(&batch), [2, 4]);
    }

    #[test]
    fn skip_and_truncate_cut_at_either_end() {
        let mut batch = numbers(&[[1, 0], [2, 0], [3, 0], [4, 0]]);
        batch.skip(1);
        batch.truncate(2);
        assert_eq!(first(&batch), [2, 3]);
        batch.skip(9);
        assert!(batch.is_empty());
    }
}
