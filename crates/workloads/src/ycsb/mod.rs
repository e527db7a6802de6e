//! YCSB as research engines run it: a transaction does a number of operations on different records of one table; an
//! operation reads a record, or writes it.
//!
//! | kind of writes | what a write does | table |
//! | --- | --- | --- |
//! | blind | puts a new value, without looking at the old one | `ycsb` |
//! | `rmw` | reads the record, and writes what it computed from what it read: a counter, one higher | `ycsb_rmw` |
//!
//! A transaction's reads precede its writes, so that an action is known to read or to write before it runs:
//! there is a procedure for each number of writes.
//!
//! Invariants: in `ycsb_rmw` the counters add up to the write operations of committed transactions, so that
//! a lost update shows; in `ycsb` every value is one that some transaction has written to that very record, whole.

mod procedure;
#[cfg(test)]
mod tests;
mod value;

use std::sync::Arc;

use heddledb::{DataType, Database, PrimaryIndex, Procedure, Table, TableDefinition};
use serde_json::json;

use crate::calls::{Call, Calls};
use crate::pause::Pause;
use crate::workload::{Bound, Generator, Workload, in_range, random_of};
use crate::zipf::PopularKeys;
use crate::{Error, Result, scan};
use value::{Form, Kind};

/// Names of the transactions: those with a write, and those without.
const TRANSACTIONS: [&str; 2] = ["read-only", "read-write"];

/// The most operations of a transaction.
const MOST_OPERATIONS: usize = 64;

/// Number of choices of a key that are skipped when all of them have been taken already.
const TRIES: usize = 32;

/// Records per loading transaction.
const BATCH: i64 = 1_000;

/// The settings of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ycsb {
    /// Number of records.
    pub records: u32,
    /// Operations of a transaction.
    pub operations: usize,
    /// Percentage of reads among the operations.
    pub read_percent: f64,
    /// True if a write reads first.
    pub read_modify_write: bool,
    /// Skew of records: the k-th most popular is chosen in proportion to 1 / k^alpha.
    pub alpha: f64,
    /// Bytes of a record's value.
    pub value_size: u32,
    /// A pause after each operation.
    pub pause: Pause,
}

impl Default for Ycsb {
    fn default() -> Self {
        Self {
            records: 1_000_000,
            operations: 10,
            read_percent: 50.0,
            read_modify_write: false,
            alpha: 0.0,
            value_size: 8,
            pause: Pause::NONE,
        }
    }
}

impl Ycsb {
    /// The default settings, with writes that read first.
    pub fn read_modify_write() -> Self {
        Self { read_modify_write: true, ..Self::default() }
    }

    fn check_settings(&self) -> Result<()> {
        in_range("records", self.records, 2, 100_000_000)?;
        in_range("ops", self.operations, 1, MOST_OPERATIONS.min(self.records as usize))?;
        in_range("read-percent", self.read_percent, 0.0, 100.0)?;
        in_range("alpha", self.alpha, 0.0, 20.0)?;
        in_range("value-size", self.value_size, 8, 4_096)
    }

    fn kind(&self) -> Kind {
        if self.read_modify_write { Kind::Counter } else { Kind::Blind }
    }

    fn table(&self) -> &'static str {
        self.tables()[0]
    }

    /// The sum of all counters, or 0 for blind writes; or what is wrong.
    fn sum(&self, db: &Database, table: &Table) -> Result<u64, String> {
        let form = Form::of_table(table).map_err(|error| error.to_string())?;
        let kind = self.kind();
        let sum = scan::fold(
            db,
            table,
            || Ok(0),
            |sum, row| {
                if let Ok(raised) = sum {
                    *sum = form.check(kind, row)?.map(|count| *raised + count);
                }
                Ok(())
            },
        );
        sum.map_err(|error| format!("the records can't be read: {error}"))?
    }
}

impl Workload for Ycsb {
    fn name(&self) -> &'static str {
        "ycsb"
    }

    fn tables(&self) -> &'static [&'static str] {
        if self.read_modify_write { &["ycsb_rmw"] } else { &["ycsb"] }
    }

    fn transactions(&self) -> &'static [&'static str] {
        &TRANSACTIONS
    }

    fn transaction_of(&self, procedure: usize) -> usize {
        // A procedure's place is its number of writes.
        procedure.min(1)
    }

    fn parameters(&self) -> Vec<(&'static str, serde_json::Value)> {
        vec![
            ("records", json!(self.records)),
            ("ops", json!(self.operations)),
            ("read_percent", json!(self.read_percent)),
            ("rmw", json!(self.read_modify_write)),
            ("alpha", json!(self.alpha)),
            ("value_size", json!(self.value_size)),
            ("think_us", json!(self.pause.as_microseconds())),
        ]
    }

    fn load(&self, db: &Database) -> Result<()> {
        self.check_settings()?;
        let table = match scan::table_if_there(db, self.table())? {
            Some(table) => table,
            None => db.create_table(definition(self.table(), self.value_size))?,
        };
        let form = self.form(&table)?;
        let kind = self.kind();
        scan::load_in_order(db, &table, i64::from(self.records), "records", BATCH, |tx, key| {
            form.insert(tx, &table, key, kind.first(key))
        })
    }

    fn bind(&self, db: &Database, callers: usize) -> Result<Box<dyn Bound>> {
        self.check_settings()?;
        let table = db.table(self.table())?;
        let operations = procedure::Operations::new(&table, self.form(&table)?, self.kind(), self.pause);
        // For each caller its own: clients' calls count handles, and would hand a shared one's count to and fro.
        let procedures = (0..callers.max(1)).map(|_| operations.register_all(db, self.operations));
        Ok(Box::new(Records {
            settings: *self,
            procedures: procedures.collect::<Result<_, _>>()?,
            keys: Arc::new(PopularKeys::new(u64::from(self.records), self.alpha)),
        }))
    }

    fn marks(&self, db: &Database) -> Result<u64> {
        match scan::table_if_there(db, self.table())? {
            Some(table) => self.sum(db, &table).map_err(Error::Unusable),
            None => Ok(0),
        }
    }

    fn check(&self, db: &Database, marks: Option<u64>) -> Result<(), String> {
        let table = scan::table_if_there(db, self.table()).map_err(|error| error.to_string())?;
        let sum = table.map_or(Ok(0), |table| self.sum(db, &table))?;
        match marks {
            // Blind writes overwrite each other: how many there were can't be seen afterwards.
            Some(committed) if self.read_modify_write && committed != sum => {
                Err(format!("the counters add up to {sum}, but {committed} record updates were committed"))
            }
            _ => Ok(()),
        }
    }

    fn check_acknowledged(&self, _db: &Database, keys: &[String]) -> Result<(), String> {
        match keys.first() {
            None => Ok(()),
            Some(key) => Err(format!("{key:?} was not written by ycsb, which acknowledges no keys")),
        }
    }
}

impl Ycsb {
    /// The form of the table's values, which must be of the size that was asked for.
    fn form(&self, table: &Table) -> Result<Form> {
        let form = Form::of_table(table)?.with_size(self.value_size);
        form.ok_or_else(|| {
            Error::Unusable(format!(
                "the database's values are of another size than --value-size {}; give the one with which it was made, \
                 or another --dir",
                self.value_size
            ))
        })
    }
}

/// Values of 8 bytes are integers, larger ones byte strings.
fn definition(name: &str, value_size: u32) -> TableDefinition {
    let data_type = if value_size == 8 { DataType::Int64 } else { DataType::Bytes };
    TableDefinition::new(name)
        .column("id", DataType::Int64)
        .column(value::COLUMN, data_type)
        .not_null()
        .primary_key(["id"])
        .primary_index(PrimaryIndex::Hash)
}

/// The benchmark on an open database.
struct Records {
    settings: Ycsb,
    /// Each caller's procedures, by the number of writes.
    procedures: Vec<Vec<Procedure>>,
    keys: Arc<PopularKeys>,
}

impl Bound for Records {
    fn generator(&self, seed: u64, caller: usize) -> Result<Box<dyn Generator>> {
        Ok(Box::new(Caller {
            procedures: self.procedures[caller % self.procedures.len()].clone(),
            operations: self.settings.operations,
            records: i64::from(self.settings.records),
            keys: Arc::clone(&self.keys),
            reads_below: (self.settings.read_percent / 100.0 * 2_f64.powi(64)) as u64,
            random: random_of(seed, caller),
        }))
    }

    fn acknowledgement(&self, _call: Call<'_>) -> Option<String> {
        None
    }
}

/// The calls of one caller.
struct Caller {
    procedures: Vec<Procedure>,
    operations: usize,
    records: i64,
    keys: Arc<PopularKeys>,
    /// A random number below it makes an operation a read.
    reads_below: u64,
    random: fastrand::Rng,
}

impl Caller {
    /// A key that is not among those taken already.
    fn another_key(&mut self, taken: &[i64]) -> i64 {
        for _ in 0..TRIES {
            let key = self.keys.choose(&mut self.random);
            if !taken.contains(&key) {
                return key;
            }
        }
        // With a very high exponent nearly every choice is the same one. Then it is a key of no popularity.
        let mut key = self.random.i64(1..=self.records);
        while taken.contains(&key) {
            key = key % self.records + 1;
        }
        key
    }
}

impl Generator for Caller {
    fn procedures(&self) -> &[Procedure] {
        &self.procedures
    }

    fn fill(&mut self, calls: &mut Calls, at_most: usize) -> Result<bool> {
        while calls.len() < at_most {
            let mut arguments = [0; MOST_OPERATIONS + 1];
            let mut writes = 0;
            for operation in 0..self.operations {
                arguments[operation] = self.another_key(&arguments[..operation]);
                writes += usize::from(self.random.u64(..) >= self.reads_below);
            }
            // What blind writes are made of.
            arguments[self.operations] = self.random.i64(..);
            calls.add_integers(writes, writes as u32, &arguments[..=self.operations]);
        }
        Ok(true)
    }
}
