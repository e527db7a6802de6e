//! A copy of a table with an integer key, which a feed keeps current.

use std::collections::BTreeMap;

use heddledb::{Change, ChangeBatch, Database, Feed, Range, Table, Value};

/// Rows by their key, each with all its values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Copy {
    pub rows: BTreeMap<i64, Vec<Value>>,
    /// True if the table was dropped.
    pub is_dropped: bool,
}

pub fn int(value: &Value) -> i64 {
    i64::try_from(value.as_value_ref()).expect("an integer")
}

impl Copy {
    /// Of a snapshot that is taken now; with its epoch.
    pub fn of(db: &Database, table: &Table) -> (Copy, u64) {
        let snapshot = db.snapshot().expect("a snapshot");
        let mut copy = Copy::default();
        for row in snapshot.scan(table, Range::all()).expect("a scan") {
            let values = row.expect("a row").to_values();
            copy.rows.insert(int(&values[0]), values);
        }
        (copy, snapshot.epoch())
    }

    /// Makes a change; a change that does not fit what is there is the feed's fault.
    pub fn change(&mut self, change: &Change) {
        match change {
            Change::Insert { key, row } => {
                let values = row.to_values();
                assert_eq!(values[0], key[0]);
                self.rows.insert(int(&key[0]), values);
            }
            Change::Update { key, columns } => {
                let row = self.rows.get_mut(&int(&key[0])).expect("an update of a row that is there");
                columns.apply_to(row).expect("it fits");
            }
            Change::Delete { key } => {
                self.rows.remove(&int(&key[0])).expect("a delete of a row that is there");
            }
            Change::Rewrite { .. } => self.rows.clear(),
            Change::AddColumn { value, .. } => self.rows.values_mut().for_each(|row| row.push(value.clone())),
            Change::Drop => self.is_dropped = true,
            other => panic!("an unknown change: {other:?}"),
        }
    }

    pub fn take(&mut self, batch: &ChangeBatch) {
        assert!(!batch.changes().is_empty());
        batch.into_iter().for_each(|change| self.change(change));
    }

    /// Reads on until everything durable through this epoch has come.
    pub fn follow(&mut self, feed: &mut Feed, epoch: u64) {
        while !feed.has_given(epoch) {
            if let Some(batch) = feed.next_timeout(std::time::Duration::from_millis(50)).expect("a batch") {
                self.take(&batch);
            }
        }
    }
}

/// The epoch of a snapshot that is taken now: everything that was committed before is of it, or of an earlier one.
pub fn now(db: &Database) -> u64 {
    db.snapshot().expect("a snapshot").epoch()
}
