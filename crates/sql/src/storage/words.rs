//! Columns of the engine whose values are one word, as values of SQL: reports read them without asking each value for its type.
//!
//! # Invariants
//! - A word becomes the value that [`decode`](super::decode) makes of the stored value.

use heddledb::DataType;

use crate::storage::{UNIX_EPOCH_MICROSECONDS, decimal_of};
use crate::types::datetime::UNIX_EPOCH_DAYS;
use crate::types::numeric::Numeric;
use crate::types::{Modifier, Type, Value};

/// The meaning of the 64-bit words in which the engine stores a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Words {
    Bool,
    Int2,
    Int4,
    Int8,
    Date,
    Time,
    Timestamp,
    Timestamptz,
    /// A date or a timestamp of the engine's type, counted from 1970.
    EngineDate,
    EngineTimestamptz,
    /// A `numeric` of up to 18 digits, with this number of digits behind the point.
    Numeric(u16),
}

impl Words {
    /// Returns the meaning of the words of an engine column for a SQL column; `None` if the column is read by
    /// [`decode`](super::decode).
    pub(crate) fn of(ty: Type, modifier: Modifier, stored: &DataType) -> Option<Words> {
        Some(match (ty, stored) {
            (Type::Bool, DataType::Bool) => Words::Bool,
            (Type::Int2, DataType::Int32 | DataType::Int64) => Words::Int2,
            (Type::Int4, DataType::Int32 | DataType::Int64) => Words::Int4,
            (Type::Int8, DataType::Int32 | DataType::Int64) => Words::Int8,
            (Type::Date, DataType::Int32 | DataType::Int64) => Words::Date,
            (Type::Time, DataType::Int64) => Words::Time,
            (Type::Timestamp, DataType::Int64) => Words::Timestamp,
            (Type::Timestamptz, DataType::Int64) => Words::Timestamptz,
            (Type::Date, DataType::Date) => Words::EngineDate,
            (Type::Timestamptz, DataType::Timestamp) => Words::EngineTimestamptz,
            (Type::Numeric, &DataType::Decimal { precision, scale }) if precision <= 18 => {
                let keeps_scale = decimal_of(modifier).is_none_or(|(_, shown)| shown == scale);
                return keeps_scale.then_some(Words::Numeric(u16::from(scale)));
            }
            _ => return None,
        })
    }

    /// The value that a word is.
    #[inline]
    pub(crate) fn value(self, word: i64) -> Value {
        match self {
            Words::Bool => Value::Bool(word != 0),
            Words::Int2 => Value::Int2(word as i16),
            Words::Int4 => Value::Int4(word as i32),
            Words::Int8 => Value::Int8(word),
            Words::Date => Value::Date(word as i32),
            Words::Time => Value::Time(word),
            Words::Timestamp => Value::Timestamp(word),
            Words::Timestamptz => Value::Timestamptz(word),
            Words::EngineDate => Value::Date(word as i32 - UNIX_EPOCH_DAYS),
            Words::EngineTimestamptz => Value::Timestamptz(word - UNIX_EPOCH_MICROSECONDS),
            Words::Numeric(scale) => Value::Numeric(Numeric::Small { coefficient: word, scale }),
        }
    }
}

#[cfg(test)]
mod tests {
    use heddledb::{Date, Decimal, Timestamp, ValueRef};

    use super::*;
    use crate::storage::decode;

    fn same(ty: Type, modifier: Modifier, data: DataType, stored: ValueRef<'_>, word: i64) {
        let words = Words::of(ty, modifier, &data).unwrap();
        assert_eq!(
            format!("{:?}", words.value(word)),
            format!("{:?}", decode(ty, modifier, stored).unwrap()),
            "{ty:?} {word}"
        );
    }

    #[test]
    fn words_are_the_values_that_are_decoded() {
        for number in [0, 1, -7, 32_767, -32_768] {
            let int = ValueRef::Int(number);
            same(Type::Int2, Modifier::NONE, DataType::Int32, int, number);
            same(Type::Int4, Modifier::NONE, DataType::Int32, int, number);
            same(Type::Int8, Modifier::NONE, DataType::Int64, int, number);
            same(Type::Date, Modifier::NONE, DataType::Int32, int, number);
            same(Type::Time, Modifier::NONE, DataType::Int64, int, number);
            same(Type::Timestamp, Modifier::NONE, DataType::Int64, int, number);
            same(Type::Timestamptz, Modifier::NONE, DataType::Int64, int, number);
            let time = ValueRef::Timestamp(Timestamp::from_microseconds(number).unwrap());
            same(Type::Timestamptz, Modifier::ENGINE_TIME, DataType::Timestamp, time, number);
            let date = ValueRef::Date(Date::from_days(number as i32).unwrap());
            same(Type::Date, Modifier::ENGINE_TIME, DataType::Date, date, number);
        }
    }

    #[test]
    fn booleans_are_words() {
        for (stored, word) in [(false, 0), (true, 1)] {
            same(Type::Bool, Modifier::NONE, DataType::Bool, ValueRef::Bool(stored), word);
        }
    }

    #[test]
    fn decimals_keep_their_scale() {
        for scale in [0, 2, 18] {
            let data = DataType::Decimal { precision: 18, scale };
            for digits in [0, 5, -250, 999_999_999_999_999_999] {
                let stored = ValueRef::Decimal(Decimal::new(i128::from(digits), scale).unwrap());
                same(Type::Numeric, Modifier::numeric(18, i32::from(scale)), data.clone(), stored, digits);
            }
        }
    }

    #[test]
    fn what_is_no_word_is_left_alone() {
        let wide = DataType::Decimal { precision: 19, scale: 2 };
        assert_eq!(Words::of(Type::Numeric, Modifier::numeric(19, 2), &wide), None);
        let other_scale = DataType::Decimal { precision: 12, scale: 2 };
        assert_eq!(Words::of(Type::Numeric, Modifier::numeric(12, 4), &other_scale), None);
        for data in [DataType::Text, DataType::Bytes, DataType::Float64, DataType::Bool, DataType::Uuid] {
            assert_eq!(Words::of(Type::Text, Modifier::NONE, &data), None);
        }
        assert_eq!(Words::of(Type::Float8, Modifier::NONE, &DataType::Float64), None);
    }
}
