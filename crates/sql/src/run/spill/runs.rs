//! Sorted runs of rows on disk, and their merge (Knuth, The Art of Computer Programming, volume 3, 5.4).
//!
//! # Invariants
//! - The merge is stable: of rows with equal keys those of an earlier run come first.
//! - At most [`RUNS_MAX`] runs of a level are open, or fewer of wide rows; beyond, they are merged into one run of the next level.
//! - No more than that many are merged at once: each has a batch in memory.

use super::{Reader, Writer};
use crate::error::Result;
use crate::plan::node::SortKey;
use crate::run::batch::Batch;
use crate::run::operator::sorted_rows::Sorted;
use crate::run::order::compare_rows;
use crate::types::Value;

/// The limit of runs that are merged at once.
const RUNS_MAX: usize = 32;
/// The least number of runs of wide rows that are merged at once, and the limit of their batches' memory beyond that.
const RUNS_MIN: usize = 4;
const HEADS_BYTES: usize = 2 << 20;

/// Sorted runs.
#[derive(Default)]
pub(crate) struct SortedRuns {
    /// The runs by level; those of a higher level are earlier.
    levels: Vec<Vec<Writer>>,
    /// The memory of the largest batch.
    batch_bytes: usize,
}

impl SortedRuns {
    /// Returns true if there is no run.
    pub(crate) fn is_empty(&self) -> bool {
        self.levels.is_empty()
    }

    /// Adds rows as a run.
    ///
    /// # Errors
    /// Those of the temporary files.
    pub(crate) fn sort(&mut self, rows: Batch, keys: &[SortKey]) -> Result<()> {
        let mut writer = Writer::new();
        let mut sorted = Sorted::new(rows, keys);
        while let Some(batch) = sorted.next_batch() {
            writer.write(&batch)?;
        }
        self.push(writer, keys)
    }

    /// Adds a run of rows that are in order.
    ///
    /// # Errors
    /// Same errors as [`sort`](Self::sort).
    pub(crate) fn push(&mut self, run: Writer, keys: &[SortKey]) -> Result<()> {
        let (mut run, mut level) = (run, 0);
        self.batch_bytes = self.batch_bytes.max(run.bytes_max);
        loop {
            if level == self.levels.len() {
                self.levels.push(Vec::new());
            }
            self.levels[level].push(run);
            if self.levels[level].len() < self.runs_max() {
                return Ok(());
            }
            run = merged(std::mem::take(&mut self.levels[level]), keys)?;
            level += 1;
        }
    }

    /// The number of runs that are merged at once.
    fn runs_max(&self) -> usize {
        (HEADS_BYTES / self.batch_bytes.max(1)).clamp(RUNS_MIN, RUNS_MAX)
    }

    /// All rows, in order.
    ///
    /// # Errors
    /// Same errors as [`sort`](Self::sort).
    pub(crate) fn merge(self, keys: &[SortKey]) -> Result<Merging> {
        let runs_max = self.runs_max();
        let mut runs: Vec<Writer> = self.levels.into_iter().rev().flatten().collect();
        while runs.len() > runs_max {
            // The last ones are the shortest.
            let first = runs.len() - (runs.len() - runs_max + 1).min(runs_max);
            let last = runs.split_off(first);
            runs.push(merged(last, keys)?);
        }
        Merging::of(runs)
    }
}

/// One run of the rows of several.
fn merged(runs: Vec<Writer>, keys: &[SortKey]) -> Result<Writer> {
    let mut merging = Merging::of(runs)?;
    let mut run = Writer::new();
    while let Some(batch) = merging.next(keys)? {
        run.write(&batch)?;
    }
    Ok(run)
}

/// Sorted rows on disk, with the row that is to be given next.
struct Head {
    reader: Reader,
    batch: Batch,
    position: usize,
}

impl Head {
    fn row(&self) -> &[Value] {
        self.batch.row(self.position)
    }

    /// Advances to the next row; returns false if there is none.
    fn advance(&mut self) -> Result<bool> {
        self.position += 1;
        if self.position < self.batch.len() {
            return Ok(true);
        }
        self.position = 0;
        match self.reader.next()? {
            Some(batch) => {
                self.batch = batch;
                Ok(true)
            }
            None => Ok(false),
        }
    }
}

/// Runs that are being merged.
pub(crate) struct Merging {
    heads: Vec<Head>,
}

impl Merging {
    fn of(runs: Vec<Writer>) -> Result<Merging> {
        let mut heads = Vec::with_capacity(runs.len());
        for writer in runs {
            let mut reader = writer.into_reader()?;
            if let Some(batch) = reader.next()? {
                heads.push(Head { reader, batch, position: 0 });
            }
        }
        Ok(Merging { heads })
    }

    /// The next rows; none if there are no more. The keys are those of the runs.
    ///
    /// # Errors
    /// Those of the temporary files.
    pub(crate) fn next(&mut self, keys: &[SortKey]) -> Result<Option<Batch>> {
        let Some(first) = self.heads.first() else { return Ok(None) };
        let mut batch = Batch::new(first.batch.width());
        while !batch.is_full() && !self.heads.is_empty() {
            let mut least = 0;
            for other in 1..self.heads.len() {
                if compare_rows(self.heads[other].row(), self.heads[least].row(), keys).is_lt() {
                    least = other;
                }
            }
            batch.push_row(self.heads[least].row());
            if !self.heads[least].advance()? {
                self.heads.remove(least);
            }
        }
        Ok(Some(batch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: SortKey = SortKey { slot: 0, descending: false, nulls_first: false };

    fn numbers(merging: &mut Merging) -> Vec<(i64, i64)> {
        let mut found = Vec::new();
        while let Some(batch) = merging.next(&[KEY]).unwrap() {
            found.extend(batch.rows().map(|row| (row[0].any_int(), row[1].any_int())));
        }
        found
    }

    #[test]
    fn any_number_of_runs_merge_into_a_stable_order() {
        for count in [0, 1, 2, RUNS_MAX - 1, RUNS_MAX, RUNS_MAX + 1, RUNS_MAX * RUNS_MAX + 3] {
            let mut runs = SortedRuns::default();
            let mut all = Vec::new();
            for run in 0..count as i64 {
                let mut rows = Batch::new(2);
                for number in 0..3 {
                    let row = ((run * 7 + number * 5) % 11, run * 3 + number);
                    all.push(row);
                    rows.push([Value::Int8(row.0), Value::Int8(row.1)]);
                }
                runs.sort(rows, &[KEY]).unwrap();
                assert!(runs.levels.iter().all(|level| level.len() < RUNS_MAX));
            }
            assert_eq!(runs.is_empty(), count == 0);
            all.sort_by_key(|row| row.0);
            assert_eq!(numbers(&mut runs.merge(&[KEY]).unwrap()), all, "{count}");
        }
    }

    #[test]
    fn long_runs_are_read_in_batches() {
        let mut runs = SortedRuns::default();
        let wide = "w".repeat(5_000);
        for run in 0..3 {
            let mut rows = Batch::new(3);
            (0..2_000).rev().for_each(|number| {
                rows.push([Value::Int8(number), Value::Int8(run), Value::text(wide.as_str())]);
            });
            runs.sort(rows, &[KEY]).unwrap();
        }
        let found = numbers(&mut runs.merge(&[KEY]).unwrap());
        assert!(found.is_sorted() && found.len() == 6_000);
    }
}
