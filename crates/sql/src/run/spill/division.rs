//! Rows divided into files by a hash of some of their values, so that rows with equal values are in the same part.
//!
//! # Invariants
//! - Each division of a part looks at other bits of the hash, from the highest ones down: hash tables use the lowest.

use super::{Reader, Writer};
use crate::error::Result;
use crate::types::Value;

/// The number of parts into which rows are divided.
const PARTS: usize = 16;
/// The number of divisions after which the bits of a hash have been used.
const LEVELS: u32 = 15;

/// Rows that are being divided; each part has a file for each side.
pub(crate) struct Division<const SIDES: usize> {
    files: Vec<[Writer; SIDES]>,
    level: u32,
}

/// A part, with how often its rows were divided.
pub(crate) struct Part<const SIDES: usize> {
    files: [Writer; SIDES],
    level: u32,
}

impl<const SIDES: usize> Division<SIDES> {
    /// Divides rows that were not divided before, or those of a part.
    pub(crate) fn new(level: u32) -> Division<SIDES> {
        let files = || std::array::from_fn(|_| Writer::new());
        Division { files: (0..PARTS).map(|_| files()).collect(), level }
    }

    fn file(&mut self, side: usize, hash: u64) -> &mut Writer {
        let shift = 60 - 4 * (self.level % LEVELS);
        &mut self.files[(hash >> shift) as usize % PARTS][side]
    }

    /// Adds a row to a side.
    ///
    /// # Errors
    /// Those of the temporary file.
    pub(crate) fn push(&mut self, side: usize, hash: u64, row: &[Value]) -> Result<()> {
        self.file(side, hash).push(row)
    }

    /// Adds a row with one more value.
    ///
    /// # Errors
    /// Same errors as [`push`](Self::push).
    pub(crate) fn push_with(&mut self, side: usize, hash: u64, row: &[Value], last: Value) -> Result<()> {
        self.file(side, hash).push_with(row, last)
    }

    /// The parts.
    pub(crate) fn into_parts(self) -> impl Iterator<Item = Part<SIDES>> {
        let level = self.level + 1;
        self.files.into_iter().map(move |files| Part { files, level })
    }
}

impl<const SIDES: usize> Part<SIDES> {
    /// Its sides, and the level of a division of its rows.
    ///
    /// # Errors
    /// Those of the temporary files.
    pub(crate) fn read(self) -> Result<([Reader; SIDES], u32)> {
        let readers: Vec<Reader> = self.files.into_iter().map(Writer::into_reader).collect::<Result<_>>()?;
        let readers = readers.try_into();
        let readers =
            readers.map_err(|_| crate::error::SqlError::internal("a part has another number of sides"))?;
        Ok((readers, self.level))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::order::{hash_slots, hashing};

    #[test]
    fn equal_values_are_in_the_same_part_at_each_level() {
        let hashing = hashing();
        for level in [0, 1, 14, 15, 40] {
            let mut division = Division::<2>::new(level);
            for number in 0..2_000_i64 {
                let row = [Value::Int8(number % 500)];
                let hash = hash_slots(&hashing, &row, &[0]);
                division.push(0, hash, &row).unwrap();
                division.push_with(1, hash, &row, Value::Int8(number)).unwrap();
            }
            let (mut total, mut parts) = (0, 0);
            for part in division.into_parts() {
                let ([mut left, mut right], next) = part.read().unwrap();
                assert_eq!(next, level + 1);
                let mut values = std::collections::HashSet::new();
                while let Some(batch) = left.next().unwrap() {
                    values.extend(batch.rows().map(|row| row[0].any_int()));
                    total += batch.len();
                }
                while let Some(batch) = right.next().unwrap() {
                    assert!(batch.rows().all(|row| values.contains(&row[0].any_int()) && row.len() == 2));
                }
                parts += usize::from(!values.is_empty());
            }
            assert!(total == 2_000 && parts > 8, "{level}: {parts}");
        }
    }
}
