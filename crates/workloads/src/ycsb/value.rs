//! The value of a record: an integer, or bytes in which that integer is repeated to the end, so that a torn
//! value shows.
//!
//! A blind write's integer depends on its record, so that a value in the wrong record shows, too.

use heddledb::{Column, DataType, Error, Result, Row, Table, Tx, Value, ValueRef, row};

/// The column's name.
pub(super) const COLUMN: &str = "value";

/// The meaning of the integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Number of the record's writes.
    Counter,
    /// Without a meaning; the low half is computed from the high half and the key.
    Blind,
}

impl Kind {
    /// The integer of a fresh record.
    pub fn first(self, key: i64) -> i64 {
        match self {
            Kind::Counter => 0,
            Kind::Blind => blind(key, 0),
        }
    }
}

/// The integer that a blind write puts into a record.
pub(super) fn blind(key: i64, random: i64) -> i64 {
    let high = random & !0xFFFF_FFFF;
    high | low_half(key, high)
}

fn low_half(key: i64, high: i64) -> i64 {
    // An odd multiplier mixes both into the high bits.
    let mixed = (key ^ high.rotate_right(17)).wrapping_mul(0x5851_F42D_4C95_7F2D);
    (mixed >> 32) & 0xFFFF_FFFF
}

/// The form in which records keep integers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    column: Column,
    /// Number of bytes; `None` for an integer.
    bytes: Option<usize>,
}

impl Form {
    /// The form of a table's column; the size of bytes is not known from it.
    pub fn of_table(table: &Table) -> Result<Self> {
        let column = table.column(COLUMN)?;
        let columns = table.definition().columns();
        let is_bytes = columns.iter().any(|one| one.name == COLUMN && one.data_type == DataType::Bytes);
        Ok(Self { column, bytes: is_bytes.then_some(0) })
    }

    /// Changes the size of values to this many bytes, if the column can have them.
    pub fn with_size(self, size: u32) -> Option<Self> {
        match (self.bytes, size) {
            (None, 8) => Some(self),
            (None, _) | (Some(_), 8) => None,
            (Some(_), size) => Some(Self { bytes: Some(size as usize), ..self }),
        }
    }

    /// The column.
    pub fn column(self) -> Column {
        self.column
    }

    /// The value that keeps an integer.
    #[inline]
    pub fn value(self, integer: i64) -> Value {
        match self.bytes {
            None => Value::Int(integer),
            Some(size) => Value::Bytes(repeated(integer, size)),
        }
    }

    /// The integer that a row keeps.
    #[inline]
    pub fn integer(self, row: &Row<'_>) -> Result<i64> {
        if self.bytes.is_none() {
            return row.int(self.column);
        }
        let bytes = row.bytes(self.column)?;
        match bytes.first_chunk() {
            Some(first) => Ok(i64::from_le_bytes(*first)),
            None => Err(Error::Failed { message: format!("a value of {} bytes", bytes.len()) }),
        }
    }

    /// Inserts a record.
    pub fn insert(self, tx: &Tx<'_, '_>, table: &Table, key: i64, integer: i64) -> Result<()> {
        let value = self.value(integer);
        tx.insert(table, row![key, ValueRef::from(&value)])
    }

    /// The number of increments of a record, and 0 for blind writes; or the violated condition.
    pub fn check(self, kind: Kind, row: &Row<'_>) -> Result<std::result::Result<u64, String>> {
        let (key, integer) = (row.int("id")?, self.integer(row)?);
        if self.bytes.is_some() {
            let bytes = row.bytes(self.column)?;
            if bytes != repeated(integer, bytes.len()) {
                return Ok(Err(format!("record {key} holds parts of two values")));
            }
        }
        Ok(match kind {
            Kind::Counter => {
                u64::try_from(integer).map_err(|_| format!("record {key} has fallen to {integer}"))
            }
            Kind::Blind if integer == blind(key, integer) => Ok(0),
            Kind::Blind => Err(format!("record {key} holds {integer}, which was never written to it")),
        })
    }
}

fn repeated(integer: i64, size: usize) -> Vec<u8> {
    integer.to_le_bytes().into_iter().cycle().take(size).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blind_values_tell_their_record() {
        for (key, random) in [(1, 0), (1, i64::MAX), (77, -1), (1_000_000, 0x1234_5678_9ABC_DEF0)] {
            let value = blind(key, random);
            assert_eq!(value, blind(key, value), "the low half follows from the high half");
            assert_eq!(value >> 32, random >> 32);
            assert_ne!(value, blind(key + 1, value));
        }
    }

    #[test]
    fn an_integer_is_repeated_to_the_end() {
        let bytes = repeated(0x0102_0304_0506_0708, 20);
        assert_eq!(bytes.len(), 20);
        assert_eq!(bytes[..8], [8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(bytes[8..16], bytes[..8]);
        assert_eq!(bytes[16..], bytes[..4]);
    }
}
