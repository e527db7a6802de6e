//! The microbenchmarks of "Phase Reconciliation" (2014): a call adds 1 to one of a million keys.
//!
//! | workload | which key |
//! | --- | --- |
//! | `incr1` | one hot key takes a share of the calls; the others are chosen evenly. The hot key may move |
//! | `incrz` | Zipf: the k-th most popular key in proportion to 1 / k^alpha |
//!
//! `--rmw` reads the value, adds 1 and writes it, so that rivals conflict; without it the addition is blind and commutes.
//! `operations` has the other commutative operations.
//!
//! Invariants: the sum of all values is the number of committed transactions, and no value ever falls.

mod contender;
mod keys;
mod operations;
#[cfg(test)]
mod tests;

use heddledb::{
    Action, ActionContext, DataType, Database, PrimaryIndex, Procedure, ProcedureDefinition, Table,
    TableDefinition, row,
};
use serde_json::json;

use crate::calls::{Call, Calls};
use crate::pause::Pause;
use crate::workload::{Bound, Generator, Workload, in_range, random_of};
use crate::{Error, Result, scan};
use keys::Choice;

pub use contender::AtomicCounters;
pub use operations::{Operation, Operations};

/// The column that is added to.
const VALUE: &str = "value";

/// Records per loading transaction.
const BATCH: i64 = 1_000;

/// The settings of either benchmark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Increment {
    /// Number of keys, from 1 on.
    pub keys: u32,
    /// The choice of a call's key.
    pub pattern: Pattern,
    /// True if a transaction reads the value, adds, and writes it, instead of adding blindly.
    pub read_modify_write: bool,
    /// A pause between the read and the write, or after the addition.
    pub pause: Pause,
}

/// The choice of a call's key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// `incr1`: one hot key, and all others alike.
    OneHot {
        /// Percentage of calls on the hot key.
        percent: f64,
        /// Seconds after which another key becomes the hot one; 0: never.
        rotate_seconds: f64,
    },
    /// `incrz`: some keys more popular than others.
    Zipf {
        /// The exponent: the k-th most popular key is chosen in proportion to 1 / k^alpha.
        alpha: f64,
    },
}

impl Increment {
    /// `incr1` as it is usually run.
    pub fn one_hot() -> Self {
        Self {
            keys: 1_000_000,
            pattern: Pattern::OneHot { percent: 10.0, rotate_seconds: 0.0 },
            read_modify_write: false,
            pause: Pause::NONE,
        }
    }

    /// `incrz` as it is usually run.
    pub fn zipf() -> Self {
        Self { pattern: Pattern::Zipf { alpha: 1.0 }, ..Self::one_hot() }
    }

    fn check_settings(&self) -> Result<()> {
        in_range("keys", self.keys, 2, 100_000_000)?;
        match self.pattern {
            Pattern::OneHot { percent, rotate_seconds } => {
                in_range("hot-percent", percent, 0.0, 100.0)?;
                in_range("rotate-seconds", rotate_seconds, 0.0, 86_400.0)
            }
            Pattern::Zipf { alpha } => in_range("alpha", alpha, 0.0, 20.0),
        }
    }

    fn table(&self) -> &'static str {
        self.tables()[0]
    }

    /// The calls of one caller.
    fn adder(&self, procedures: Vec<Procedure>, seed: u64, caller: usize) -> Adder {
        Adder { procedures, choice: Choice::new(self), random: random_of(seed, caller) }
    }

    fn sum(&self, db: &Database, table: &Table) -> Result<u64, String> {
        let sum = scan::fold(
            db,
            table,
            || Ok(0),
            |sum, row| {
                let value = row.int(VALUE)?;
                *sum = match (u64::try_from(value), &sum) {
                    (Ok(value), Ok(sum)) => Ok(sum + value),
                    (Err(_), Ok(_)) => Err(format!("key {} has fallen to {value}", row.int("id")?)),
                    (_, Err(first)) => Err(first.clone()),
                };
                Ok(())
            },
        );
        sum.map_err(|error| format!("the counters can't be read: {error}"))?
    }
}

impl Workload for Increment {
    fn name(&self) -> &'static str {
        self.table()
    }

    fn tables(&self) -> &'static [&'static str] {
        match self.pattern {
            Pattern::OneHot { .. } => &["incr1"],
            Pattern::Zipf { .. } => &["incrz"],
        }
    }

    fn transactions(&self) -> &'static [&'static str] {
        &["increment"]
    }

    fn parameters(&self) -> Vec<(&'static str, serde_json::Value)> {
        let mut parameters = vec![("keys", json!(self.keys))];
        match self.pattern {
            Pattern::OneHot { percent, rotate_seconds } => {
                parameters.push(("hot_percent", json!(percent)));
                parameters.push(("rotate_seconds", json!(rotate_seconds)));
            }
            Pattern::Zipf { alpha } => parameters.push(("alpha", json!(alpha))),
        }
        parameters.push(("rmw", json!(self.read_modify_write)));
        parameters.push(("think_us", json!(self.pause.as_microseconds())));
        parameters
    }

    fn load(&self, db: &Database) -> Result<()> {
        self.check_settings()?;
        let table = match scan::table_if_there(db, self.table())? {
            Some(table) => table,
            None => db.create_table(definition(self.table()))?,
        };
        scan::load_in_order(db, &table, i64::from(self.keys), "keys", BATCH, |tx, key| {
            tx.insert(&table, row![key, 0])
        })
    }

    fn bind(&self, db: &Database, callers: usize) -> Result<Box<dyn Bound>> {
        self.check_settings()?;
        let table = db.table(self.table())?;
        // One for each caller: clients' calls count handles, and would hand the count of a shared one to and fro.
        let procedures = (0..callers.max(1)).map(|_| register(db, &table, self)).collect::<Result<_, _>>()?;
        Ok(Box::new(Counters { settings: *self, procedures }))
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
            Some(committed) if committed != sum => {
                Err(format!("the values add up to {sum}, but {committed} increments were committed"))
            }
            _ => Ok(()),
        }
    }

    fn check_acknowledged(&self, _db: &Database, keys: &[String]) -> Result<(), String> {
        match keys.first() {
            None => Ok(()),
            Some(key) => {
                Err(format!("{key:?} was not written by {}, which acknowledges no keys", self.name()))
            }
        }
    }
}

fn definition(name: &str) -> TableDefinition {
    TableDefinition::new(name)
        .column("id", DataType::Int64)
        .column(VALUE, DataType::Int64)
        .not_null()
        .primary_key(["id"])
        .primary_index(PrimaryIndex::Hash)
}

fn register(db: &Database, table: &Table, settings: &Increment) -> heddledb::Result<Procedure> {
    let (value, pause) = (table.column(VALUE)?, settings.pause);
    let action = if settings.read_modify_write {
        Action::write(table).key(|args, key| key.push(args.int(0)?)).body(move |action: &ActionContext| {
            let read = action.get()?.map_or(Ok(0), |row| row.int(value))?;
            pause.take();
            action.update(&[(VALUE, (read + 1).into())])
        })
    } else {
        Action::commute(table).key(|args, key| key.push(args.int(0)?)).body(move |action: &ActionContext| {
            action.add(value, 1)?;
            pause.take();
            Ok(())
        })
    };
    db.register_anonymous(
        ProcedureDefinition::new("increment").parameter("id", DataType::Int64).phase([action]),
    )
}

/// The counters of an open database.
struct Counters {
    settings: Increment,
    procedures: Vec<Procedure>,
}

impl Bound for Counters {
    fn generator(&self, seed: u64, caller: usize) -> Result<Box<dyn Generator>> {
        let procedure = self.procedures[caller % self.procedures.len()].clone();
        Ok(Box::new(self.settings.adder(vec![procedure], seed, caller)))
    }

    fn acknowledgement(&self, _call: Call<'_>) -> Option<String> {
        None
    }
}

/// The calls of one caller.
struct Adder {
    procedures: Vec<Procedure>,
    choice: Choice,
    random: fastrand::Rng,
}

impl Generator for Adder {
    fn procedures(&self) -> &[Procedure] {
        &self.procedures
    }

    fn fill(&mut self, calls: &mut Calls, at_most: usize) -> Result<bool> {
        let wanted = at_most.saturating_sub(calls.len());
        self.choice
            .choose_each(calls.elapsed(), &mut self.random, wanted, |key| calls.add_integers(0, 1, &[key]));
        Ok(true)
    }
}
