//! Row counts by hash bucket, for the resource manager while there are no requests.
//!
//! The maintenance thread scans all tables, some thousand records at a time, and counts rows by hash buckets
//! ([`resource_manager`](super::resource_manager)). The counts are used once all tables were scanned; before that only a lower
//! bound of the number of rows is known. It scans while there are hardly any requests, and again after commits.
//!
//! # Invariants
//! A record that exists from the beginning of a scan to its end is counted once, because the pages of either index are sets of
//! keys that do not depend on other records. Absent records count as rows until they are collected: the result is an estimate.

use std::sync::Arc;

use crossbeam_epoch::pin;

use super::resource_manager::{BUCKETS, bucket_of};
use crate::protocol::local::local_lock::partition_hash_of_row;
use crate::storage::store::Store;
use crate::storage::table::{ScanPlace, TableCore};

/// Records of one observation, or a page more: about a millisecond of work.
const RECORDS_MAX: usize = 4_096;

/// A scan of all tables, and the result of the last one.
pub(super) struct RowCounter {
    /// Tables that are not scanned to their ends, the present one last; `None` if there is no scan.
    to_scan: Vec<Arc<TableCore>>,
    place: ScanPlace,
    /// The counts of this scan.
    counted: Box<[u32]>,
    /// The number of committed transactions when it began.
    committed: Option<u64>,
}

impl Default for RowCounter {
    fn default() -> RowCounter {
        RowCounter {
            to_scan: Vec::new(),
            place: ScanPlace::Start,
            counted: vec![0; BUCKETS].into(),
            committed: None,
        }
    }
}

impl RowCounter {
    /// Continues the scan. Returns the counts once all tables were scanned.
    pub(super) fn observe(&mut self, store: &Store) -> Option<&[u32]> {
        if self.to_scan.is_empty() {
            let committed = store.committed();
            if self.committed == Some(committed) {
                return None;
            }
            self.committed = Some(committed);
            self.to_scan = store.user_tables();
            self.place = ScanPlace::Start;
            self.counted.fill(0);
        }
        self.scan();
        self.to_scan.is_empty().then_some(&self.counted)
    }

    /// The rows that the present scan has counted so far.
    pub(super) fn seen(&self) -> u64 {
        self.counted.iter().map(|rows| u64::from(*rows)).sum()
    }

    fn scan(&mut self) {
        let (guard, mut left) = (pin(), RECORDS_MAX);
        while left > 0
            && let Some(table) = self.to_scan.last().cloned()
        {
            let mut records = Vec::new();
            let next = table.page_at(&self.place, &mut records, &guard);
            for record in &records {
                self.counted[bucket_of(partition_hash_of_row(&table, record.key()))] += 1;
            }
            // An empty page costs time, too.
            left = left.saturating_sub(records.len().max(1));
            match next {
                Some(next) => self.place = next,
                None => {
                    self.to_scan.pop();
                    self.place = ScanPlace::Start;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::atomics::Ordering;
    use crate::storage::definition::TableDefinition;
    use crate::storage::rig::Rig;
    use crate::types::{DataType, Value};

    /// Inserts the rows with these keys.
    fn insert(rig: &Rig, ids: std::ops::Range<i64>) {
        ids.for_each(|id| _ = rig.commit(|writer| writer.insert(&[Value::Int(id)])).expect("it commits"));
    }

    fn rig() -> Rig {
        Rig::new(TableDefinition::new("t").column("id", DataType::Int64).primary_key(["id"]))
    }

    /// Observes until all tables were scanned: the number of rows, and of observations.
    fn count(counter: &mut RowCounter, rig: &Rig) -> (u64, usize) {
        for look in 1..100 {
            if let Some(rows) = counter.observe(&rig.store) {
                return (rows.iter().map(|rows| u64::from(*rows)).sum(), look);
            }
        }
        panic!("it never ends");
    }

    #[test]
    fn every_row_is_counted_once_in_its_bucket() {
        let rig = rig();
        insert(&rig, 0..1_000);
        let mut counter = RowCounter::default();
        let rows = counter.observe(&rig.store).expect("one observation is enough").to_vec();
        for id in 0..1_000_i64 {
            let key = rig.table.encode_key(&[id.into()], true).expect("it fits");
            assert!(rows[bucket_of(partition_hash_of_row(&rig.table, &key))] > 0, "{id}");
        }
        assert_eq!((rows.iter().sum::<u32>(), counter.seen()), (1_000, 1_000));
        assert!(rows.iter().all(|rows| *rows <= 2), "neighbors are spread");
    }

    #[test]
    fn many_rows_take_several_observations() {
        let rig = rig();
        insert(&rig, 0..9_000);
        let mut counter = RowCounter::default();
        assert!(counter.observe(&rig.store).is_none() && (4_000..9_000).contains(&counter.seen()));
        let (rows, observations) = count(&mut counter, &rig);
        assert!(rows == 9_000 && observations == 2, "{rows} {observations}");
    }

    #[test]
    fn it_scans_again_after_commits_only() {
        let rig = rig();
        let mut counter = RowCounter::default();
        assert_eq!(count(&mut counter, &rig), (0, 1));
        assert!((0..3).all(|_| counter.observe(&rig.store).is_none()));
        insert(&rig, 0..10);
        // The pipeline counts committed transactions; the rig does not.
        rig.store
            .worker_contexts()
            .take()
            .worker_context()
            .counters
            .committed
            .fetch_add(10, Ordering::Relaxed);
        assert_eq!(count(&mut counter, &rig), (10, 1));
        assert!(counter.observe(&rig.store).is_none());
    }
}
