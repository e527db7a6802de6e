//! The effects of the usual writes to a record, for commits that need no copy of the row: numbers that change, times that
//! are set, and an inserted row. The gain is stated where it is used (`commit::one_word`, `commit::simple_writes`).

use super::{IntChange, Kind, Stored, WriteSet, decimal};
use crate::operation::Operation;

/// A write to a column that holds a number in one word. Decimals are unscaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NumberChange {
    /// The operation; `None` if the column gets the number.
    pub(crate) operation: Option<Operation>,
    pub(crate) number: i64,
    /// The number of its digits behind the point; `None` if it is an integer.
    pub(crate) scale: Option<u8>,
}

/// A write to a column that has one word, and no bytes elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WordChange {
    /// The column holds a number.
    Number(NumberChange),
    /// The column gets this day or time, in its own unit.
    Time(i64),
}

impl WordChange {
    #[inline]
    fn new(operation: Option<Operation>, value: Stored) -> Option<WordChange> {
        match (value, operation) {
            (Stored::Int(number), _) => {
                Some(WordChange::Number(NumberChange { operation, number, scale: None }))
            }
            (Stored::Decimal(halves, scale), _) => {
                let number = i64::try_from(decimal(halves, scale).unscaled()).ok()?;
                Some(WordChange::Number(NumberChange { operation, number, scale: Some(scale) }))
            }
            (Stored::Timestamp(time), None) => Some(WordChange::Time(time.microseconds())),
            (Stored::Date(date), None) => Some(WordChange::Time(i64::from(date.days()))),
            _ => None,
        }
    }
}

impl WriteSet {
    /// The column and the change, if one integer, or one operation with an integer, is all that is written to the
    /// record at `position`.
    #[inline]
    pub(crate) fn only_int_change(&self, position: usize) -> Option<(usize, IntChange)> {
        let touched = &self.touched[position];
        if touched.first != touched.last {
            return None;
        }
        match self.writes[touched.first as usize].kind {
            Kind::Set { column, value: Stored::Int(value) } => {
                Some((usize::from(column), IntChange::Set(value)))
            }
            Kind::Operate { column, operation, operand: Stored::Int(operand) } => {
                Some((usize::from(column), IntChange::Operate(operation, operand)))
            }
            _ => None,
        }
    }

    /// Looks at the writes to the record at `position`, in order, for as long as they change numbers or set times, and
    /// `visit` can make something of them. `None` if not to the end.
    #[inline]
    pub(crate) fn word_changes(
        &self,
        position: usize,
        mut visit: impl FnMut(usize, WordChange) -> Option<()>,
    ) -> Option<()> {
        for kind in self.chain(position) {
            let (column, change) = match *kind {
                Kind::Set { column, value } => (column, WordChange::new(None, value)?),
                Kind::Operate { column, operation, operand } => {
                    (column, WordChange::new(Some(operation), operand)?)
                }
                Kind::Insert { .. } | Kind::Delete | Kind::Bound { .. } => return None,
            };
            visit(usize::from(column), change)?;
        }
        Some(())
    }

    /// Returns true if a delete is all that is written to the record at `position`.
    #[inline]
    pub(crate) fn is_only_delete(&self, position: usize) -> bool {
        let touched = &self.touched[position];
        touched.first == touched.last && matches!(self.writes[touched.first as usize].kind, Kind::Delete)
    }

    /// The words of an inserted row, if it is all that is written to the record at `position`, and the bytes that were
    /// put aside for long values.
    #[inline]
    pub(crate) fn only_insert(&self, position: usize) -> Option<(&[u64], &[u8])> {
        let touched = &self.touched[position];
        match self.writes[touched.first as usize].kind {
            Kind::Insert { words } if touched.first == touched.last => {
                let (start, length) = (words as usize, touched.table().layout().words());
                Some((&self.words[start..start + length], &self.bytes))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::definition::TableDefinition;
    use crate::storage::record::RecordPointer;
    use crate::storage::table::TableCore;
    use crate::types::key::key_word_of;
    use crate::types::{DataType, Decimal, Timestamp, ValueRef};

    fn table() -> TableCore {
        let definition = TableDefinition::new("t")
            .column("id", DataType::Int64)
            .column("text", DataType::Text)
            .column("money", DataType::Decimal { precision: 12, scale: 2 })
            .column("time", DataType::Timestamp)
            .primary_key(["id"]);
        TableCore::new(1, &std::sync::Arc::default(), 16, definition)
    }

    /// Runs a check on a set with the writes that `write` makes to one record.
    fn with_writes(
        write: impl FnOnce(&mut WriteSet, &TableCore, RecordPointer),
        check: impl FnOnce(&WriteSet),
    ) {
        let (table, mut set) = (table(), WriteSet::default());
        let record = RecordPointer::allocate(0, b"key", 0);
        write(&mut set, &table, record);
        check(&set);
        // SAFETY: made above and not shared.
        unsafe { record.free() };
    }

    fn changes(set: &WriteSet) -> Option<Vec<(usize, WordChange)>> {
        let mut changes = Vec::new();
        set.word_changes(0, |column, change| {
            changes.push((column, change));
            Some(())
        })?;
        Some(changes)
    }

    fn money(unscaled: i64) -> ValueRef<'static> {
        ValueRef::Decimal(Decimal::from_stored(i128::from(unscaled), 2))
    }

    fn time(microseconds: i64) -> ValueRef<'static> {
        ValueRef::Timestamp(Timestamp::from_stored(microseconds))
    }

    #[test]
    fn numbers_and_times_come_in_the_order_of_the_writes() {
        let write = |set: &mut WriteSet, table: &TableCore, record| {
            set.set(table, record, 0, ValueRef::Int(7));
            set.operate(table, record, 2, Operation::Add, money(-150));
            set.set(table, record, 3, time(5));
            set.operate(table, record, 0, Operation::Max, ValueRef::Int(9));
        };
        with_writes(write, |set| {
            let number =
                |operation, number, scale| WordChange::Number(NumberChange { operation, number, scale });
            let expected = [
                (0, number(None, 7, None)),
                (2, number(Some(Operation::Add), -150, Some(2))),
                (3, WordChange::Time(5)),
                (0, number(Some(Operation::Max), 9, None)),
            ];
            assert_eq!(changes(set).as_deref(), Some(&expected[..]));
            assert_eq!(set.only_int_change(0), None, "it is not all that is written");
            assert!(set.only_insert(0).is_none());
        });
    }

    #[test]
    fn anything_else_is_no_change_of_words() {
        type Write = fn(&mut WriteSet, &TableCore, RecordPointer);
        let others: [Write; 5] = [
            |set, table, record| set.set(table, record, 1, ValueRef::Text("text")),
            |set, table, record| set.set(table, record, 2, ValueRef::Null),
            |set, table, record| set.delete(table, record),
            |set, table, record| set.operate(table, record, 3, Operation::Max, time(1)),
            |set, table, record| {
                let wide = ValueRef::Decimal(Decimal::from_stored(i128::MAX / 2, 2));
                set.operate(table, record, 2, Operation::Add, wide);
            },
        ];
        for other in others {
            with_writes(
                |set, table, record| {
                    set.set(table, record, 0, ValueRef::Int(1));
                    other(set, table, record);
                },
                |set| assert_eq!(changes(set), None),
            );
        }
    }

    #[test]
    fn a_row_that_comes_in_is_given_only_where_nothing_else_is_written() {
        let row = [ValueRef::Int(3), ValueRef::Text("longer than a word"), money(1), time(1)];
        with_writes(
            |set, table, record| set.insert(table, record, row.into_iter()),
            |set| {
                let (words, aside) = set.only_insert(0).expect("a row");
                let key = key_word_of(3);
                assert_eq!((words[1], words[3], aside), (key, 1, &b"longer than a word"[..]));
            },
        );
        with_writes(
            |set, table, record| {
                set.insert(table, record, row.into_iter());
                set.set(table, record, 2, money(2));
            },
            |set| assert!(set.only_insert(0).is_none()),
        );
    }
}
