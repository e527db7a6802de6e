//! Columns that hold one number in one word: checks of such numbers, without a look at names and types.
//!
//! Invariants: each number that is accepted here is accepted unchanged by the full check, which also judges those that
//! are not accepted here.

use super::{ColumnLayout, RowLayout, Shape};
use crate::storage::definition::ColumnLimit;
use crate::types::key::int_of_key_word;
use crate::types::{DataType, ValueRef};

/// Texts of at most this many bytes are checked here: no bound of theirs is lower.
pub(super) const SHORT_TEXT: usize = 256;

/// A column outside of a key in the row that holds an integer, or a decimal of at most 18 digits, in one word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number {
    /// The position of its word.
    pub(crate) at: usize,
    /// The number of digits behind the point; `None` if it is an integer.
    pub(crate) scale: Option<u8>,
    bounds: (i64, i64),
}

impl Number {
    /// Returns true if the column may hold this number, which is unscaled if it is a decimal.
    #[inline]
    pub(crate) fn takes(&self, number: i64) -> bool {
        self.bounds.0 <= number && number <= self.bounds.1
    }
}

/// The least and the greatest number that a column's one word may hold; nothing lies between them if it holds none.
pub(super) fn bounds(data_type: &DataType, limit: ColumnLimit) -> (i64, i64) {
    let (least, most) = bounds_of_type(data_type);
    match limit {
        ColumnLimit::Between(low, high) => (least.max(low), most.min(high)),
        ColumnLimit::Free | ColumnLimit::Checked => (least, most),
    }
}

fn bounds_of_type(data_type: &DataType) -> (i64, i64) {
    match *data_type {
        DataType::Int32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        DataType::Int64 => (i64::MIN, i64::MAX),
        DataType::Decimal { precision, .. } if precision <= 18 => {
            let greatest = 10_i64.pow(u32::from(precision)) - 1;
            (-greatest, greatest)
        }
        _ => (1, 0),
    }
}

impl RowLayout {
    /// The column as one that holds a number in one word, if it does.
    #[inline]
    pub(crate) fn number(&self, position: usize) -> Option<Number> {
        let column = &self.columns[position];
        let scale = match column.shape {
            Shape::Int => None,
            Shape::Decimal { scale } => Some(scale),
            _ => return None,
        };
        Some(Number { at: column.word as usize, scale, bounds: column.bounds })
    }

    /// A column's integer; `None` if it is NULL, or holds something else.
    #[inline]
    pub(crate) fn int(&self, words: &[u64], position: usize) -> Option<i64> {
        let column = &self.columns[position];
        if self.is_null(words, position) {
            return None;
        }
        let word = words[column.word as usize];
        match column.shape {
            Shape::Int => Some(word as i64),
            Shape::KeyInt => Some(int_of_key_word(word)),
            _ => None,
        }
    }

    /// Same as [`number`](Self::number), if no check has to be evaluated when it changes.
    #[inline]
    pub(crate) fn unchecked_number(&self, position: usize) -> Option<Number> {
        if self.columns[position].limit == ColumnLimit::Checked { None } else { self.number(position) }
    }

    /// The position of the column's word, if it holds a day or a time, and no check has to be evaluated when it
    /// changes.
    #[inline]
    pub(crate) fn unchecked_time(&self, position: usize) -> Option<usize> {
        let column = &self.columns[position];
        let is_time = matches!(column.shape, Shape::Date | Shape::Timestamp);
        (is_time && column.limit != ColumnLimit::Checked).then_some(column.word as usize)
    }
}

/// Returns true if a text column certainly accepts the text, by a quick check.
#[inline]
pub(super) fn is_usual_text(text: &str) -> bool {
    text.len() <= SHORT_TEXT && !text.as_bytes().contains(&0)
}

impl ColumnLayout {
    /// The least and the greatest number that the column may hold, if it holds a number in one word. A decimal's are in its
    /// last digit.
    #[inline]
    pub(crate) fn bounds(&self) -> (i64, i64) {
        self.bounds
    }

    /// Returns true if the column's one word may hold this number, if it holds a number.
    #[inline]
    pub(super) fn is_within(&self, number: i64) -> bool {
        self.bounds.0 <= number && number <= self.bounds.1
    }

    /// Returns true if the column certainly accepts the value as it is, by a quick check.
    #[inline]
    pub(super) fn takes(&self, value: ValueRef<'_>) -> bool {
        let within = |number: i64| self.is_within(number);
        match (value, self.shape) {
            (ValueRef::Int(int), Shape::Int | Shape::KeyInt) => within(int),
            (ValueRef::Decimal(decimal), Shape::Decimal { scale }) => {
                decimal.scale() == scale && i64::try_from(decimal.unscaled()).is_ok_and(within)
            }
            (ValueRef::Text(text), Shape::Text) => is_usual_text(text),
            (ValueRef::Timestamp(_), Shape::Timestamp) => true,
            (ValueRef::Null, _) => !self.not_null,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::definition::TableDefinition;
    use crate::types::{Decimal, Timestamp, assignment};

    /// One nullable column of each of these types.
    fn layout(types: &[&str]) -> RowLayout {
        let mut definition = TableDefinition::new("t");
        for (number, text) in types.iter().enumerate() {
            let data_type: DataType = text.parse().expect("a type");
            definition = definition.column(format!("c{number}"), data_type);
        }
        RowLayout::new(&definition)
    }

    const TYPES: [&str; 9] = [
        "bool",
        "int32",
        "int64",
        "decimal(4,2)",
        "decimal(18,0)",
        "decimal(19,2)",
        "text",
        "bytes",
        "timestamp",
    ];

    #[test]
    fn what_is_taken_at_once_is_what_the_close_check_takes_unchanged() {
        let layout = layout(&TYPES);
        let long = "x".repeat(SHORT_TEXT + 1);
        let decimals =
            ["0", "99.99", "-99.99", "100.00", "1.5", "0.001", "999999999999999999", "12345678901234567890"];
        let mut values = vec![
            ValueRef::Null,
            ValueRef::Bool(true),
            ValueRef::Text(""),
            ValueRef::Text("a\0b"),
            ValueRef::Text(&long),
            ValueRef::Bytes(b"b"),
            ValueRef::Timestamp(Timestamp::from_microseconds(5).expect("within bounds")),
        ];
        values.extend([0, -1, i64::MIN, i64::MAX, 1 << 31, -(1 << 31), (1 << 31) - 1].map(ValueRef::Int));
        values.extend(decimals.map(|text| ValueRef::Decimal(text.parse::<Decimal>().expect("a decimal"))));
        let mut taken = 0;
        for (position, column) in layout.columns.iter().enumerate() {
            for &value in values.iter().filter(|value| column.takes(**value)) {
                taken += 1;
                let close = assignment::coerce(value, &column.data_type, column.not_null, &column.name);
                let close = close.unwrap_or_else(|error| panic!("{value:?} in {}: {error}", TYPES[position]));
                let same_scale = match (value, close) {
                    (ValueRef::Decimal(before), ValueRef::Decimal(after)) => before.scale() == after.scale(),
                    _ => true,
                };
                assert!(close == value && same_scale, "{value:?} in {}", TYPES[position]);
            }
        }
        assert!(taken > 2 * TYPES.len(), "the usual values are taken at once");
    }

    #[test]
    fn a_not_null_column_takes_no_null_at_once() {
        let definition = TableDefinition::new("t").column("a", DataType::Text).not_null();
        assert!(!RowLayout::new(&definition).columns[0].takes(ValueRef::Null));
    }

    #[test]
    fn a_time_is_no_number_and_has_one_word() {
        let layout = layout(&TYPES);
        let times: Vec<usize> =
            (0..TYPES.len()).filter(|&position| layout.unchecked_time(position).is_some()).collect();
        assert_eq!(times, [8]);
        assert_eq!(layout.unchecked_time(8), Some(layout.words_of(8).0.start));
    }

    #[test]
    fn numbers_have_the_bounds_of_their_types() {
        let layout = layout(&TYPES);
        let number = |position: usize| layout.number(position);
        for none in [0, 5, 6, 7, 8] {
            assert!(number(none).is_none(), "{}", TYPES[none]);
        }
        let narrow = number(1).expect("int32");
        assert!(narrow.takes(i64::from(i32::MAX)) && !narrow.takes(1 << 31) && narrow.scale.is_none());
        assert!(number(2).expect("int64").takes(i64::MIN));
        let decimal = number(3).expect("decimal(4,2)");
        assert_eq!(decimal.scale, Some(2));
        assert!(
            decimal.takes(9_999)
                && decimal.takes(-9_999)
                && !decimal.takes(10_000)
                && !decimal.takes(-10_000)
        );
    }
}
