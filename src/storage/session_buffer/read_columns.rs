//! The columns of a row that a session has used, and the values that they had.
//!
//! A row is validated by its stamp, unless the statements that read it said which columns they use. Then the values of these columns are
//! kept, and a later stamp is forgiven where the columns still have them.
//!
//! Invariants: two rows of one table have the same bytes for a set of columns exactly if each of these columns has the same value, or is NULL, in
//! both. The bytes are those that the record holds, so that -0 and 0, and decimals that only look alike, are different values.

use crate::storage::record::Record;
use crate::storage::row::RowLayout;
use crate::storage::versions::{Found, Versions};
use crate::storage::word::ABSENT;

/// The columns of a row that are kept take at most this many bytes; the stamp of one that has more counts.
const MAX_VALUE_BYTES: usize = 4 << 10;
/// The number of columns that can be distinguished; one behind them counts as the whole row.
const MAX_COLUMNS: usize = 63;

/// A set of a table's columns, by their positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ColumnSet(u64);

impl ColumnSet {
    pub(crate) const NONE: ColumnSet = ColumnSet(0);
    /// The whole row, whatever columns it has.
    pub(crate) const WHOLE: ColumnSet = ColumnSet(u64::MAX);

    /// The columns at these positions.
    pub(crate) fn of(positions: impl IntoIterator<Item = usize>) -> ColumnSet {
        positions.into_iter().fold(ColumnSet::NONE, |set, position| set.union(ColumnSet::one(position)))
    }

    /// The column at this position.
    pub(crate) fn one(position: usize) -> ColumnSet {
        if position < MAX_COLUMNS { ColumnSet(1 << position) } else { ColumnSet::WHOLE }
    }

    /// Returns true if it is the whole row.
    pub(crate) fn is_whole(self) -> bool {
        self == ColumnSet::WHOLE
    }

    pub(crate) fn union(self, other: ColumnSet) -> ColumnSet {
        ColumnSet(self.0 | other.0)
    }

    /// Returns true if a column is in both.
    pub(crate) fn meets(self, other: ColumnSet) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns true if all columns of the other set are in this one.
    pub(crate) fn contains(self, other: ColumnSet) -> bool {
        other.0 & !self.0 == 0
    }

    /// The positions of its columns, of a table that has this many.
    pub(crate) fn positions(self, columns: usize) -> impl Iterator<Item = usize> {
        (0..columns).filter(move |&position| self.meets(ColumnSet::one(position)))
    }
}

/// Columns of a row with their values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReadColumns {
    columns: ColumnSet,
    values: Box<[u8]>,
}

impl ReadColumns {
    /// The columns whose values these are.
    pub(crate) fn columns(&self) -> ColumnSet {
        self.columns
    }

    /// The word of a record, and the values that some of its columns have under it; `None` if there is no row, or if they are too
    /// long to be kept.
    pub(crate) fn read(
        layout: &RowLayout,
        record: Record<'_>,
        columns: ColumnSet,
        row: &mut [u64],
    ) -> (u64, Option<ReadColumns>) {
        let word = record.read(layout, row);
        // SAFETY: the copy is a row of this layout; the record is pinned, and with it the blocks that the copy refers to.
        let values = (word & ABSENT == 0).then(|| unsafe { ReadColumns::of(layout, row, columns) }).flatten();
        (word, values)
    }

    /// Same as [`read`](Self::read), of the record as it was in a snapshot of this epoch.
    pub(crate) fn read_as_of(
        versions: &Versions,
        (layout, record): (&RowLayout, Record<'_>),
        epoch: u64,
        columns: ColumnSet,
        row: &mut [u64],
    ) -> (Found, Option<ReadColumns>) {
        if columns.is_whole() {
            return (versions.read(layout, record, epoch, &mut []), None);
        }
        let found = versions.read(layout, record, epoch, row);
        let is_row = matches!(found, Found::Row(_));
        // SAFETY: as in `read`; a version's blocks are freed no sooner than the record's.
        let values = is_row.then(|| unsafe { ReadColumns::of(layout, row, columns) }).flatten();
        (found, values)
    }

    /// The columns of a row.
    ///
    /// # Safety
    /// `row` is one of this layout, whose blocks are alive.
    unsafe fn of(layout: &RowLayout, row: &[u64], columns: ColumnSet) -> Option<ReadColumns> {
        let mut values = Vec::new();
        for position in columns.positions(layout.len()) {
            // SAFETY: the caller's promise.
            unsafe { layout.append_value(row, position, &mut values) };
            if values.len() > MAX_VALUE_BYTES {
                return None;
            }
        }
        Some(ReadColumns { columns, values: values.into_boxed_slice() })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bumpalo::Bump;

    use super::{ColumnSet, MAX_VALUE_BYTES, ReadColumns};
    use crate::storage::definition::TableDefinition;
    use crate::storage::read_set::Part;
    use crate::storage::row::RowLayout;
    use crate::storage::session_buffer::{Comparison, Observed};
    use crate::storage::word::Stamp;
    use crate::types::{DataType, ValueRef};

    fn layout() -> RowLayout {
        let definition = TableDefinition::new("t").column("id", DataType::Int64).column("n", DataType::Int64);
        let definition = definition.column("x", DataType::Text).column("y", DataType::Text);
        RowLayout::new(&definition.column("f", DataType::Float64).primary_key(["id"]))
    }

    fn columns(layout: &RowLayout, values: [ValueRef<'_>; 5], set: ColumnSet) -> Option<ReadColumns> {
        let (arena, mut row) = (Bump::new(), vec![0; layout.words()]);
        for (position, value) in values.into_iter().enumerate() {
            layout.put(&mut row, position, value, &arena).expect("memory");
        }
        // SAFETY: the row is of this layout, and its blocks are in the arena.
        unsafe { ReadColumns::of(layout, &row, set) }
    }

    fn values<'v>(n: ValueRef<'v>, x: &'v str, y: &'v str, f: f64) -> [ValueRef<'v>; 5] {
        [ValueRef::Int(1), n, ValueRef::Text(x), ValueRef::Text(y), ValueRef::Float(f)]
    }

    #[test]
    fn different_values_have_different_bytes() {
        let (layout, all) = (layout(), ColumnSet::of(0..5));
        let rows = [
            values(ValueRef::Int(0), "", "", 0.0),
            values(ValueRef::Null, "", "", 0.0),
            values(ValueRef::Int(0), "", "", -0.0),
            values(ValueRef::Int(0), "ab", "c", 0.0),
            values(ValueRef::Int(0), "a", "bc", 0.0),
            values(ValueRef::Int(0), "a text of a block", "c", 0.0),
            values(ValueRef::Int(0), "a text of a blocks", "c", 0.0),
        ];
        for (at, row) in rows.iter().enumerate() {
            for (other_at, other) in rows.iter().enumerate() {
                let [one, other] = [*row, *other].map(|row| columns(&layout, row, all));
                assert_eq!(one == other, at == other_at, "{row:?} and {other:?}");
            }
        }
        let of_key = ColumnSet::one(0);
        assert_eq!(columns(&layout, rows[0], of_key), columns(&layout, rows[3], of_key));
    }

    #[test]
    fn long_values_are_not_kept() {
        let (layout, long) = (layout(), "x".repeat(MAX_VALUE_BYTES));
        let row = values(ValueRef::Null, &long, "", 0.0);
        assert!(columns(&layout, row, ColumnSet::one(2)).is_none());
        assert!(columns(&layout, row, ColumnSet::one(3)).is_some());
    }

    #[test]
    fn a_set_with_a_column_that_cannot_be_distinguished_is_the_whole_row() {
        assert!(ColumnSet::of([1, 62]).contains(ColumnSet::one(62)));
        assert!(!ColumnSet::of(0..63).is_whole() && ColumnSet::of([1, 63]).is_whole());
        assert!(ColumnSet::WHOLE.contains(ColumnSet::one(70)) && ColumnSet::WHOLE.meets(ColumnSet::one(70)));
        assert!(!ColumnSet::NONE.meets(ColumnSet::WHOLE) && ColumnSet::one(3).contains(ColumnSet::NONE));
        assert_eq!(ColumnSet::of([4, 1]).positions(5).collect::<Vec<_>>(), [1, 4]);
    }

    #[test]
    fn a_later_stamp_is_forgiven_where_the_columns_have_their_values() {
        let layout = layout();
        let observed = |sequence: u64, n: i64, set: ColumnSet| Observed {
            part: Part::Row,
            present: true,
            stamp: Stamp::new(5, sequence),
            is_bound: false,
            phase: 0,
            columns: columns(&layout, values(ValueRef::Int(n), "", "", 0.0), set).map(Arc::new),
        };
        let (number, text) = (ColumnSet::one(1), ColumnSet::one(2));
        let before = observed(1, 7, number);
        assert_eq!(before.compare(&observed(2, 7, number)), Comparison::Same);
        assert_eq!(before.compare(&observed(2, 8, number)), Comparison::Changed);
        assert_eq!(before.compare(&observed(2, 7, text)), Comparison::Changed, "not of the same columns");
        let by_stamp = Observed { columns: None, ..before.clone() };
        assert_eq!(by_stamp.compare(&observed(2, 7, number)), Comparison::Changed);
        assert_eq!(
            before.compare(&Observed { columns: None, ..observed(2, 7, number) }),
            Comparison::Changed
        );
        let of_snapshot = Observed { is_bound: true, ..before.clone() };
        let later = Observed { stamp: Stamp::new(9, 1), ..observed(1, 7, number) };
        assert_eq!(of_snapshot.compare(&later), Comparison::Same);
        let gone = Observed { present: false, columns: None, ..before.clone() };
        assert_eq!(before.compare(&gone), Comparison::Changed);
        assert!(before.covers(Part::Row, number) && before.covers(Part::Existence, ColumnSet::NONE));
        assert!(
            !before.covers(Part::Row, number.union(text)) && by_stamp.covers(Part::Row, ColumnSet::WHOLE)
        );
    }
}
