//! How many rows there are, and where: what the resource manager goes by where nothing is asked for yet.
//!
//! The keeper walks through all tables, some thousand records at a look, and counts by stretches
//! ([`manager`](super::manager)). What it has counted counts once it has seen everything; only that there are *many* rows is
//! known before. It walks while next to nothing is asked for, and again when something was committed since.
//!
//! What it keeps true: a record that is there from a walk's beginning to its end is counted once (pages of either index are sets of keys that
//! do not depend on what else comes and goes). Absent records are counted as rows until they are collected: it is an estimate.

use std::sync::Arc;

use crossbeam_epoch::pin;

use super::manager::{STRETCHES, stretch_of};
use crate::protocol::local::claim::place_of_row;
use crate::storage::store::Store;
use crate::storage::table::{ScanPlace, TableCore};

/// So many records are counted at one look, or a page more: about a millisecond's work.
const RECORDS_A_LOOK: usize = 4_096;

/// Where a walk through all tables has got to, and what the last one has found.
pub(super) struct Survey {
    /// Tables that are not seen to their ends yet, the present one last; none: nobody walks.
    to_see: Vec<Arc<TableCore>>,
    place: ScanPlace,
    /// What this walk has counted.
    counted: Box<[u32]>,
    /// What had been committed when it began.
    committed: Option<u64>,
}

impl Default for Survey {
    fn default() -> Survey {
        Survey {
            to_see: Vec::new(),
            place: ScanPlace::Start,
            counted: vec![0; STRETCHES].into(),
            committed: None,
        }
    }
}

impl Survey {
    /// Goes on. What there is, once everything was seen.
    pub(super) fn look(&mut self, store: &Store) -> Option<&[u32]> {
        if self.to_see.is_empty() {
            let committed = store.committed();
            if self.committed == Some(committed) {
                return None;
            }
            self.committed = Some(committed);
            self.to_see = store.user_tables();
            self.place = ScanPlace::Start;
            self.counted.fill(0);
        }
        self.walk();
        self.to_see.is_empty().then_some(&self.counted)
    }

    /// How many rows the present walk has seen so far.
    pub(super) fn seen(&self) -> u64 {
        self.counted.iter().map(|rows| u64::from(*rows)).sum()
    }

    fn walk(&mut self) {
        let (guard, mut left) = (pin(), RECORDS_A_LOOK);
        while left > 0
            && let Some(table) = self.to_see.last().cloned()
        {
            let mut records = Vec::new();
            let next = table.page_at(&self.place, &mut records, &guard);
            for record in &records {
                self.counted[stretch_of(place_of_row(&table, record.key()))] += 1;
            }
            // An empty page costs something, too.
            left = left.saturating_sub(records.len().max(1));
            match next {
                Some(next) => self.place = next,
                None => {
                    self.to_see.pop();
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

    /// A table of integers from 0, this one to that one.
    fn insert(rig: &Rig, ids: std::ops::Range<i64>) {
        ids.for_each(|id| _ = rig.commit(|writer| writer.insert(&[Value::Int(id)])).expect("it commits"));
    }

    fn rig() -> Rig {
        Rig::new(TableDefinition::new("t").column("id", DataType::Int64).primary_key(["id"]))
    }

    /// Looks until all was seen, this time: how many rows, and in how many looks.
    fn count(survey: &mut Survey, rig: &Rig) -> (u64, usize) {
        for look in 1..100 {
            if let Some(rows) = survey.look(&rig.store) {
                return (rows.iter().map(|rows| u64::from(*rows)).sum(), look);
            }
        }
        panic!("it never ends");
    }

    #[test]
    fn every_row_is_counted_once_where_it_lies() {
        let rig = rig();
        insert(&rig, 0..1_000);
        let mut survey = Survey::default();
        let rows = survey.look(&rig.store).expect("one look is enough").to_vec();
        for id in 0..1_000_i64 {
            let key = rig.table.encode_key(&[id.into()], true).expect("it fits");
            assert!(rows[stretch_of(place_of_row(&rig.table, &key))] > 0, "{id}");
        }
        assert_eq!((rows.iter().sum::<u32>(), survey.seen()), (1_000, 1_000));
        assert!(rows.iter().all(|rows| *rows <= 2), "neighbours lie apart");
    }

    #[test]
    fn many_rows_take_several_looks() {
        let rig = rig();
        insert(&rig, 0..9_000);
        let mut survey = Survey::default();
        assert!(survey.look(&rig.store).is_none() && (4_000..9_000).contains(&survey.seen()));
        let (rows, looks) = count(&mut survey, &rig);
        assert!(rows == 9_000 && looks == 2, "{rows} {looks}");
    }

    #[test]
    fn it_walks_again_when_something_has_changed_and_not_otherwise() {
        let rig = rig();
        let mut survey = Survey::default();
        assert_eq!(count(&mut survey, &rig), (0, 1));
        assert!((0..3).all(|_| survey.look(&rig.store).is_none()));
        insert(&rig, 0..10);
        // Who executes calls counts them; the rig does not.
        rig.store.worker_contexts().at(0).counters.committed.fetch_add(10, Ordering::Relaxed);
        assert_eq!(count(&mut survey, &rig), (10, 1));
        assert!(survey.look(&rig.store).is_none());
    }
}
