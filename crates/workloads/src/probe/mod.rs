//! The experiment of "Almost Serial Protocols" (2002): 20,000 records of 64 bytes in one hash table; a transaction
//! probes 20 of them in key order, and either reads all 20 or updates all 20.
//!
//! Invariants: an update raises the `updates` counter of 20 records by one each, so that their sum is 20
//! times the committed updates, and no record ever shows a counter that is another than its `echo`.

mod procedure;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use heddledb::{DataType, Database, Output, PrimaryIndex, Procedure, Snapshot, Table, TableDefinition, row};
use serde_json::json;

use crate::calls::{Call, Calls};
use crate::pause::Pause;
use crate::workload::{Bound, Generator, Workload, in_range, random_of};
use crate::{Result, scan};

/// The one table.
pub(crate) const TABLE: &str = "probe";

/// Records that a transaction probes.
pub(crate) const PROBES: usize = 20;

/// Names of the two transactions; their places are [`READ`] and [`UPDATE`].
const TRANSACTIONS: [&str; 2] = ["read", "update"];
const READ: usize = 0;
const UPDATE: usize = 1;

/// Three 8-byte columns and this many bytes make 64.
const FILLER: usize = 64 - 3 * 8;

/// Records per loading transaction.
const BATCH: i64 = 1_000;

/// The settings of the experiment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probe {
    /// Number of records.
    pub records: u32,
    /// Percentage of updates among the transactions.
    pub update_percent: f64,
    /// A pause after each probe.
    pub pause: Pause,
}

impl Default for Probe {
    fn default() -> Self {
        Self { records: 20_000, update_percent: 10.0, pause: Pause::default() }
    }
}

impl Probe {
    fn check_settings(&self) -> Result<()> {
        in_range("records", self.records, PROBES as u32, 100_000_000)?;
        in_range("update-percent", self.update_percent, 0.0, 100.0)
    }
}

impl Workload for Probe {
    fn name(&self) -> &'static str {
        "probe"
    }

    fn tables(&self) -> &'static [&'static str] {
        &[TABLE]
    }

    fn transactions(&self) -> &'static [&'static str] {
        &TRANSACTIONS
    }

    fn parameters(&self) -> Vec<(&'static str, serde_json::Value)> {
        vec![
            ("records", json!(self.records)),
            ("probes", json!(PROBES)),
            ("update_percent", json!(self.update_percent)),
            ("think_us", json!(self.pause.as_microseconds())),
        ]
    }

    fn load(&self, db: &Database) -> Result<()> {
        self.check_settings()?;
        let table = match scan::table_if_there(db, TABLE)? {
            Some(table) => table,
            None => db.create_table(definition())?,
        };
        let filler = [b'p'; FILLER];
        scan::load_in_order(db, &table, i64::from(self.records), "records", BATCH, |tx, record| {
            tx.insert(&table, row![record, 0, 0, &filler[..]])
        })
    }

    fn bind(&self, db: &Database, _callers: usize) -> Result<Box<dyn Bound>> {
        self.check_settings()?;
        let table = db.table(TABLE)?;
        let probes = Arc::new(procedure::Probes::new(table, self.pause)?);
        let read = procedure::register_read(db, &probes)?;
        let update = procedure::register_update(db, &probes)?;
        Ok(Box::new(Experiment { settings: *self, probes, procedures: [read, update] }))
    }

    fn marks(&self, db: &Database) -> Result<u64> {
        match scan::table_if_there(db, TABLE)? {
            Some(table) => Ok(sum_of_updates(&db.snapshot()?, &table)? / PROBES as u64),
            None => Ok(0),
        }
    }

    fn check(&self, db: &Database, marks: Option<u64>) -> Result<(), String> {
        let read = |error| format!("the probed records can't be read: {error}");
        let Some(table) = scan::table_if_there(db, TABLE).map_err(read)? else { return Ok(()) };
        let snapshot = db.snapshot().map_err(read)?;
        if let Some(record) = torn_record(&snapshot, &table).map_err(read)? {
            return Err(format!("record {record} holds one half of an update"));
        }
        let updates = sum_of_updates(&snapshot, &table).map_err(read)?;
        if !updates.is_multiple_of(PROBES as u64) {
            return Err(format!(
                "{updates} record updates are no multiple of {PROBES}: a transaction is half there"
            ));
        }
        match marks {
            Some(committed) if committed * PROBES as u64 != updates => Err(format!(
                "{updates} record updates are not {PROBES} times the {committed} committed updates"
            )),
            _ => Ok(()),
        }
    }

    fn check_acknowledged(&self, _db: &Database, keys: &[String]) -> Result<(), String> {
        match keys.first() {
            None => Ok(()),
            Some(key) => Err(format!("{key:?} was not written by probe, which acknowledges no keys")),
        }
    }
}

fn definition() -> TableDefinition {
    TableDefinition::new(TABLE)
        .column("record", DataType::Int64)
        .column("updates", DataType::Int64)
        .not_null()
        .column("echo", DataType::Int64)
        .not_null()
        .column("filler", DataType::Bytes)
        .not_null()
        .primary_key(["record"])
        .primary_index(PrimaryIndex::Hash)
}

fn sum_of_updates(snapshot: &Snapshot, table: &Table) -> heddledb::Result<u64> {
    scan::fold_in(snapshot, table, 0, |sum, row| {
        *sum += row.int("updates")?.unsigned_abs();
        Ok(())
    })
}

/// A record whose two counters differ.
fn torn_record(snapshot: &Snapshot, table: &Table) -> heddledb::Result<Option<i64>> {
    scan::fold_in(snapshot, table, None, |torn, row| {
        if row.int("updates")? != row.int("echo")? {
            *torn = Some(row.int("record")?);
        }
        Ok(())
    })
}

/// The experiment on an open database.
struct Experiment {
    settings: Probe,
    probes: Arc<procedure::Probes>,
    /// The procedures, at their places [`READ`] and [`UPDATE`].
    procedures: [Procedure; 2],
}

impl Bound for Experiment {
    fn generator(&self, seed: u64, caller: usize) -> Result<Box<dyn Generator>> {
        Ok(Box::new(Prober {
            settings: self.settings,
            procedures: self.procedures.clone(),
            random: random_of(seed, caller),
        }))
    }

    fn acknowledgement(&self, _call: Call<'_>) -> Option<String> {
        None
    }

    fn run_closure(&self, db: &Database, call: Call<'_>) -> heddledb::Result<Output> {
        procedure::run_closure(db, &self.probes, call.is_read_only(), call.args)
    }
}

/// The transactions of one caller.
struct Prober {
    settings: Probe,
    procedures: [Procedure; 2],
    random: fastrand::Rng,
}

impl Prober {
    /// Twenty different records in key order.
    fn keys(&mut self) -> [i64; PROBES] {
        let mut keys = [0; PROBES];
        let mut chosen = 0;
        while chosen < PROBES {
            let candidate = self.random.i64(1..=i64::from(self.settings.records));
            if !keys[..chosen].contains(&candidate) {
                keys[chosen] = candidate;
                chosen += 1;
            }
        }
        keys.sort_unstable();
        keys
    }
}

impl Generator for Prober {
    fn procedures(&self) -> &[Procedure] {
        &self.procedures
    }

    fn fill(&mut self, calls: &mut Calls, at_most: usize) -> Result<bool> {
        while calls.len() < at_most {
            // The share is of transactions, decided before the first probe.
            let updates = self.random.f64() * 100.0 < self.settings.update_percent;
            let keys = self.keys();
            let (transaction, marks) = if updates { (UPDATE, 1) } else { (READ, 0) };
            calls.add_integers(transaction, marks, &keys);
        }
        Ok(true)
    }
}
