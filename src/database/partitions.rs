//! Whose the data are, under a protocol whose executors own them: boundaries by hand, and what there is to see of them.

use super::Database;
use crate::error::{Error, Result};
use crate::pipeline::nesting;
use crate::protocol::local::local_lock::partition_hash_of_key;
use crate::table::Table;
use crate::types::ValueRef;

/// What one executor owns.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Partition {
    /// Where its range of all places begins, 0 to 1.
    pub from: f64,
    /// Where it ends.
    pub to: f64,
    /// Its share of the last moments' requests, or of their time where some take much longer than others, 0 to 1.
    pub share: f64,
    /// How often its range has changed.
    pub moves: u64,
}

/// All places, as a number.
const ALL: f64 = 18_446_744_073_709_551_616.0;

/// Boundaries as shares of all places, as places.
fn places(boundaries: &[f64], executors: usize) -> Result<Vec<u64>> {
    let expected = executors.saturating_sub(1);
    let ascend = boundaries.is_sorted() && boundaries.iter().all(|boundary| (0.0..=1.0).contains(boundary));
    if boundaries.len() != expected || !ascend {
        return Err(Error::InvalidOption {
            option: "boundaries",
            given: format!("{boundaries:?}"),
            expected: format!("{expected} numbers that ascend from 0 to 1"),
        });
    }
    // The conversion saturates at the last place.
    Ok(boundaries.iter().map(|boundary| (boundary * ALL) as u64).collect())
}

impl Database {
    /// What each executor owns, in order; nothing, under protocols without executors.
    #[must_use]
    pub fn partitions(&self) -> Vec<Partition> {
        let Some(executors) = self.shared.input().executors() else { return Vec::new() };
        let place = |start: &u64| *start as f64 / ALL;
        let (starts, shares, moves) = executors.partitions();
        let ends = starts.iter().map(place).chain([1.0]);
        let ranges = [0.0].into_iter().chain(starts.iter().map(place)).zip(ends);
        let rest = shares.into_iter().zip(moves);
        ranges.zip(rest).map(|((from, to), (share, moves))| Partition { from, to, share, moves }).collect()
    }

    /// Moves the boundaries between executors: where the range of each but the first begins, as shares of all places. Calls
    /// go on meanwhile; it returns when the executors concerned have gone over. Boundaries that move by themselves
    /// (`Options::moving_boundaries`) may move on from there.
    ///
    /// # Errors
    /// Not one boundary less than executors, or they don't ascend from 0 to 1; the protocol has no executors, and there is
    /// more than none; the database is being closed; a call's body asks for it.
    pub fn move_boundaries(&self, boundaries: &[f64]) -> Result<()> {
        nesting::check("moving boundaries")?;
        let executors = self.shared.input().executors();
        let starts = places(boundaries, executors.map_or(1, |executors| executors.len()))?;
        executors.map_or(Ok(()), |executors| executors.repartition(&starts))
    }

    /// Which executor owns the rows that have this key, or this beginning of one, now. None: they are everybody's, because
    /// the routing columns are not among these, or the protocol has no executors.
    ///
    /// # Errors
    /// The key does not fit the table.
    pub fn executor_of<'k>(&self, table: &Table, key: impl AsRef<[ValueRef<'k>]>) -> Result<Option<usize>> {
        let (core, values) = (table.core(), key.as_ref());
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
    fn boundaries_are_shares_of_all_places() {
        assert_eq!(places(&[0.0, 0.5, 1.0], 4).expect("they ascend"), [0, 1 << 63, u64::MAX]);
        assert!(places(&[], 1).expect("there are none").is_empty());
    }

    #[test]
    fn boundaries_that_do_not_ascend_or_are_too_many_are_refused() {
        for (boundaries, executors) in
            [(&[0.5, 0.4][..], 3), (&[-0.1], 2), (&[1.5], 2), (&[f64::NAN], 2), (&[0.5], 3), (&[0.5], 1)]
        {
            let refused = places(boundaries, executors).expect_err("they are wrong");
            assert!(matches!(refused, Error::InvalidOption { option: "boundaries", .. }), "{refused}");
        }
    }
}
