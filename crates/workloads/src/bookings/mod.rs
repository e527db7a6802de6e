//! Bookings: transactions whose conflicts no key tells beforehand, only intervals and inserted values.
//!
//! A `stay` inserts a booking of some nights in a row, and reads and raises the guests of each. A `tour` inserts a booking
//! of a guide, and reads and raises the tours of that guide. The only key that a call names is that of its booking, which no
//! other call has: so of two rivals the schedule knows nothing by their keys. What it can count by is declared: the
//! interval of nights, and the guide that is inserted ([`heddledb::Predicate`]).
//!
//! Invariants:
//! - Each night has as many guests as bookings include it, and each guide as many tours as bookings name them.
//! - The number of bookings is the number of committed transactions.

mod check;
mod procedure;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use heddledb::{Column, DataType, Database, Procedure, Table, TableDefinition, row};
use serde_json::json;

use crate::calls::{Call, Calls};
use crate::pause::Pause;
use crate::workload::{Bound, Generator, Workload, in_range, random_of};
use crate::zipf::PopularKeys;
use crate::{Result, scan};

const NIGHT: &str = "night";
const GUIDE: &str = "guide";
const BOOKING: &str = "booking";

/// Names of the tables, in the order in which they are created and filled: a load that was cut short lacks
/// bookings.
const TABLES: [&str; 3] = [NIGHT, GUIDE, BOOKING];

/// Names of the two transactions; their places are [`STAY`] and [`TOUR`].
const TRANSACTIONS: [&str; 2] = ["stay", "tour"];
const STAY: usize = 0;
const TOUR: usize = 1;

/// Records per loading transaction.
const BATCH: i64 = 1_000;

/// Bookings that a caller numbers before it takes more numbers.
const NUMBERS: i64 = 1_024;

/// The settings of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bookings {
    /// Number of nights, from 1 on.
    pub nights: u32,
    /// The most nights of a stay; the least is 1.
    pub longest_stay: u32,
    /// Number of guides, from 1 on.
    pub guides: u32,
    /// Skew of first nights and guides: the k-th most popular is chosen in proportion to 1 / k^alpha.
    pub alpha: f64,
    /// Percentage of tours among the transactions.
    pub tour_percent: f64,
    /// True if intervals and inserted values are declared. Otherwise a schedule has keys only.
    pub declared: bool,
    /// A pause after each access.
    pub pause: Pause,
}

impl Default for Bookings {
    fn default() -> Self {
        Self {
            nights: 365,
            longest_stay: 7,
            guides: 50,
            alpha: 0.8,
            tour_percent: 50.0,
            declared: true,
            pause: Pause::NONE,
        }
    }
}

impl Bookings {
    fn check_settings(&self) -> Result<()> {
        in_range("nights", self.nights, 1, 10_000_000)?;
        in_range("longest-stay", self.longest_stay, 1, self.nights.min(10_000))?;
        in_range("guides", self.guides, 1, 10_000_000)?;
        in_range("alpha", self.alpha, 0.0, 20.0)?;
        in_range("tour-percent", self.tour_percent, 0.0, 100.0)
    }
}

/// The tables of an open database, with handles of the columns that calls change.
#[derive(Clone)]
struct Tables {
    night: Table,
    guests: Column,
    guide: Table,
    tours: Column,
    booking: Table,
}

impl Tables {
    fn open(db: &Database) -> heddledb::Result<Self> {
        let (night, guide) = (db.table(NIGHT)?, db.table(GUIDE)?);
        let (guests, tours) = (night.column("guests")?, guide.column("tours")?);
        Ok(Self { night, guests, guide, tours, booking: db.table(BOOKING)? })
    }
}

/// Numbered rows that are counted at.
fn counted(name: &str, count: &str) -> TableDefinition {
    TableDefinition::new(name)
        .column("id", DataType::Int64)
        .column(count, DataType::Int64)
        .not_null()
        .primary_key(["id"])
}

/// A stay has nights and no guide, a tour a guide and no nights.
fn booking() -> TableDefinition {
    TableDefinition::new(BOOKING)
        .column("id", DataType::Int64)
        .column("first_night", DataType::Int64)
        .references(NIGHT)
        .column("last_night", DataType::Int64)
        .references(NIGHT)
        .column("guide", DataType::Int64)
        .references(GUIDE)
        .primary_key(["id"])
}

impl Workload for Bookings {
    fn name(&self) -> &'static str {
        "bookings"
    }

    fn tables(&self) -> &'static [&'static str] {
        &TABLES
    }

    fn transactions(&self) -> &'static [&'static str] {
        &TRANSACTIONS
    }

    fn parameters(&self) -> Vec<(&'static str, serde_json::Value)> {
        vec![
            ("nights", json!(self.nights)),
            ("longest_stay", json!(self.longest_stay)),
            ("guides", json!(self.guides)),
            ("alpha", json!(self.alpha)),
            ("tour_percent", json!(self.tour_percent)),
            ("keys_only", json!(!self.declared)),
            ("think_us", json!(self.pause.as_microseconds())),
        ]
    }

    fn load(&self, db: &Database) -> Result<()> {
        self.check_settings()?;
        for definition in [counted(NIGHT, "guests"), counted(GUIDE, "tours"), booking()] {
            if scan::table_if_there(db, definition.name())?.is_none() {
                db.create_table(definition)?;
            }
        }
        let tables = Tables::open(db)?;
        for (table, records, option) in
            [(&tables.night, self.nights, "nights"), (&tables.guide, self.guides, "guides")]
        {
            scan::load_in_order(db, table, i64::from(records), option, BATCH, |tx, id| {
                tx.insert(table, row![id, 0])
            })?;
        }
        Ok(())
    }

    fn bind(&self, db: &Database, callers: usize) -> Result<Box<dyn Bound>> {
        self.check_settings()?;
        let tables = Tables::open(db)?;
        // One of each for each caller: clients' calls count handles, and would hand a shared one's count to and fro.
        let procedures = (0..callers.max(1)).map(|_| procedure::register(db, &tables, self));
        Ok(Box::new(Office {
            settings: *self,
            procedures: procedures.collect::<Result<_, _>>()?,
            nights: Arc::new(PopularKeys::new(u64::from(self.nights), self.alpha)),
            guides: Arc::new(PopularKeys::new(u64::from(self.guides), self.alpha)),
            next_number: Arc::new(AtomicI64::new(check::highest_number(db, &tables.booking)? + 1)),
        }))
    }

    fn marks(&self, db: &Database) -> Result<u64> {
        let Some(booking) = scan::table_if_there(db, BOOKING)? else { return Ok(0) };
        Ok(scan::count(db, &booking)?)
    }

    fn check(&self, db: &Database, marks: Option<u64>) -> Result<(), String> {
        check::check(db, marks)
    }

    fn check_acknowledged(&self, db: &Database, keys: &[String]) -> Result<(), String> {
        check::check_acknowledged(db, keys)
    }
}

/// The benchmark on an open database.
struct Office {
    settings: Bookings,
    /// Each caller's procedures, at their places [`STAY`] and [`TOUR`].
    procedures: Vec<[Procedure; 2]>,
    nights: Arc<PopularKeys>,
    guides: Arc<PopularKeys>,
    /// The number of the next booking that no caller has taken.
    next_number: Arc<AtomicI64>,
}

impl Bound for Office {
    fn generator(&self, seed: u64, caller: usize) -> Result<Box<dyn Generator>> {
        Ok(Box::new(Clerk {
            procedures: self.procedures[caller % self.procedures.len()].clone(),
            settings: self.settings,
            nights: Arc::clone(&self.nights),
            guides: Arc::clone(&self.guides),
            next_number: Arc::clone(&self.next_number),
            numbers: 0..0,
            tours_below: (self.settings.tour_percent / 100.0 * 2_f64.powi(64)) as u64,
            random: random_of(seed, caller),
        }))
    }

    fn acknowledgement(&self, call: Call<'_>) -> Option<String> {
        call.args.int(procedure::NUMBER).ok().map(|number| number.to_string())
    }
}

/// The calls of one caller.
struct Clerk {
    procedures: [Procedure; 2],
    settings: Bookings,
    nights: Arc<PopularKeys>,
    guides: Arc<PopularKeys>,
    next_number: Arc<AtomicI64>,
    /// Numbers of bookings that are this caller's.
    numbers: Range<i64>,
    /// A random number below it makes a tour.
    tours_below: u64,
    random: fastrand::Rng,
}

impl Clerk {
    fn number(&mut self) -> i64 {
        if self.numbers.is_empty() {
            // Relaxed: nothing else is seen through it.
            let first = self.next_number.fetch_add(NUMBERS, Ordering::Relaxed);
            self.numbers = first..first + NUMBERS;
        }
        self.numbers.next().unwrap_or(i64::MAX)
    }
}

impl Generator for Clerk {
    fn procedures(&self) -> &[Procedure] {
        &self.procedures
    }

    fn fill(&mut self, calls: &mut Calls, at_most: usize) -> Result<bool> {
        while calls.len() < at_most {
            let number = self.number();
            if self.random.u64(..) < self.tours_below {
                let guide = self.guides.choose(&mut self.random);
                calls.add_integers(TOUR, 1, &[number, guide]);
            } else {
                let first = self.nights.choose(&mut self.random);
                let nights = i64::from(self.random.u32(1..=self.settings.longest_stay));
                let last = (first + nights - 1).min(i64::from(self.settings.nights));
                calls.add_integers(STAY, 1, &[number, first, last]);
            }
        }
        Ok(true)
    }
}
