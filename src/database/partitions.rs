//! The executors' partitions, under a protocol whose executors own the data: repartitioning by hand, and reports.

use super::Database;
use crate::error::{Error, Result};
use crate::pipeline::nesting;
use crate::protocol::local::local_lock::partition_hash_of_key;
use crate::table::Table;
use crate::types::IntoKey;

/// The part of the data that one executor owns.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Partition {
    /// Start of its range of partition hashes, 0 to 1.
    pub from: f64,
    /// End of its range.
    pub to: f64,
    /// Its share of the recent requests, or of their time if some take much longer than others, 0 to 1.
    pub share: f64,
    /// Number of changes of its range.
    pub moves: u64,
}

/// The number of partition hashes.
const ALL: f64 = 18_446_744_073_709_551_616.0;

/// Boundaries, given as shares of all partition hashes, as hashes.
fn hashes(boundaries: &[f64], executors: usize) -> Result<Vec<u64>> {
    let expected = executors.saturating_sub(1);
    let ascend = boundaries.is_sorted() && boundaries.iter().all(|boundary| (0.0..=1.0).contains(boundary));
    if boundaries.len() != expected || !ascend {
        return Err(Error::InvalidOption {
            option: "boundaries",
            given: format!("{boundaries:?}"),
            expected: format!("{expected} numbers that ascend from 0 to 1"),
        });
    }
    // The conversion saturates at the last hash.
    Ok(boundaries.iter().map(|boundary| (boundary * ALL) as u64).collect())
}

impl Database {
    /// Returns the partition of each executor, in order; none, under protocols without executors.
    #[must_use]
    pub fn partitions(&self) -> Vec<Partition> {
        let Some(executors) = self.shared.input().executors() else { return Vec::new() };
        let share = |start: &u64| *start as f64 / ALL;
        let (starts, shares, moves) = executors.partitions();
        let ends = starts.iter().map(share).chain([1.0]);
        let ranges = [0.0].into_iter().chain(starts.iter().map(share)).zip(ends);
        let rest = shares.into_iter().zip(moves);
        ranges.zip(rest).map(|((from, to), (share, moves))| Partition { from, to, share, moves }).collect()
    }

    /// Moves ranges between executors: `boundaries` says where the range of each but the first begins, as shares of all
    /// partition hashes. Transactions continue meanwhile; the call returns when the executors concerned have
    /// drained. The resource manager (`PartitionedOptions::repartitioning`) may move the ranges on from
    /// there.
    ///
    /// # Errors
    /// The number of boundaries is not one less than the number of executors, or they do not ascend from 0 to
    /// 1; the protocol has no executors and there is a boundary; the database is being closed; the caller is
    /// a transaction's body.
    pub fn repartition(&self, boundaries: &[f64]) -> Result<()> {
        nesting::check("repartitioning")?;
        let executors = self.shared.input().executors();
        let starts = hashes(boundaries, executors.map_or(1, |executors| executors.len()))?;
        executors.map_or(Ok(()), |executors| executors.repartition(&starts))
    }

    /// Returns the executor that owns the rows with this key, or this prefix of a key, now; `None` if they belong to
    /// several executors, because the prefix does not contain the routing columns, or the protocol has no executors.
    ///
    /// # Errors
    /// The key does not fit the table.
    pub fn executor_of<'k>(&self, table: &Table, key: impl IntoKey<'k>) -> Result<Option<usize>> {
        let (core, values) = (table.core(), key.into_key());
        let values = values.as_ref();
        let key = core.encode_key(values, false)?;
        let executors = self.shared.input().executors();
        Ok(executors
            .and_then(|all| partition_hash_of_key(core, &key, values.len()).map(|hash| all.owner_of(hash))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boundaries_are_shares_of_all_hashes() {
        assert_eq!(hashes(&[0.0, 0.5, 1.0], 4).expect("they ascend"), [0, 1 << 63, u64::MAX]);
        assert!(hashes(&[], 1).expect("there are none").is_empty());
    }

    #[test]
    fn boundaries_that_do_not_ascend_or_are_too_many_are_refused() {
        for (boundaries, executors) in
            [(&[0.5, 0.4][..], 3), (&[-0.1], 2), (&[1.5], 2), (&[f64::NAN], 2), (&[0.5], 3), (&[0.5], 1)]
        {
            let refused = hashes(boundaries, executors).expect_err("they are wrong");
            assert!(matches!(refused, Error::InvalidOption { option: "boundaries", .. }), "{refused}");
        }
    }
}
