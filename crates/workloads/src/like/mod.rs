//! LIKE of "Phase Reconciliation" (2014): users like pages, and some pages are liked by nearly all.
//!
//! A `like` takes a user, all alike, and a page, after Zipf: the user's row gets the page as its last one and one like
//! more, and the page one like more. The page's count is only added to, so that likes of a popular page need not meet.
//! A `read` takes a user and a page in the same way, and reads the user's row and the page's count.
//!
//! Invariants: the likes of all pages and the likes of all users are both the number of committed `like`s;
//! a user without a like has no last page, and every other one's is a page.

mod check;
mod procedure;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use heddledb::{Column, DataType, Database, PrimaryIndex, Procedure, Table, TableDefinition, row};
use serde_json::json;

use crate::calls::{Call, Calls};
use crate::functions::{FunctionCall, Functions};
use crate::pause::Pause;
use crate::workload::{Bound, Generator, Workload, in_range, random_of};
use crate::zipf::PopularKeys;
use crate::{Result, scan};

const PAGE: &str = "page";
const USER: &str = "user";

/// Names of the tables, in the order in which they are created and filled: a load that was cut short lacks
/// users.
const TABLES: [&str; 2] = [PAGE, USER];

/// Names of the two transactions; their places are [`LIKE`] and [`READ`].
const TRANSACTIONS: [&str; 2] = ["like", "read"];
const LIKE: usize = 0;
const READ: usize = 1;

/// The last page of a user without a like. Pages are numbered from 1.
const NO_PAGE: i64 = 0;

/// Records per loading transaction.
const BATCH: i64 = 1_000;

/// The settings of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Like {
    /// Number of users.
    pub users: u32,
    /// Number of pages.
    pub pages: u32,
    /// Skew of pages: the k-th most popular is chosen in proportion to 1 / k^alpha.
    pub alpha: f64,
    /// Percentage of likes among the transactions.
    pub write_percent: f64,
    /// A pause after each access.
    pub pause: Pause,
}

impl Default for Like {
    fn default() -> Self {
        Self { users: 1_000_000, pages: 1_000_000, alpha: 1.4, write_percent: 50.0, pause: Pause::NONE }
    }
}

impl Like {
    fn check_settings(&self) -> Result<()> {
        in_range("users", self.users, 1, 100_000_000)?;
        in_range("pages", self.pages, 1, 100_000_000)?;
        in_range("alpha", self.alpha, 0.0, 20.0)?;
        in_range("write-percent", self.write_percent, 0.0, 100.0)
    }
}

/// The tables of an open database, with handles of the columns that calls touch.
#[derive(Clone)]
struct Tables {
    page: Table,
    page_likes: Column,
    user: Table,
    user_likes: Column,
    last_page: Column,
}

impl Tables {
    fn open(db: &Database) -> heddledb::Result<Self> {
        let (page, user) = (db.table(PAGE)?, db.table(USER)?);
        Ok(Self {
            page_likes: page.column("likes")?,
            user_likes: user.column("likes")?,
            last_page: user.column("last_page")?,
            page,
            user,
        })
    }
}

fn page() -> TableDefinition {
    TableDefinition::new(PAGE)
        .column("id", DataType::Int64)
        .column("likes", DataType::Int64)
        .not_null()
        .primary_key(["id"])
        .primary_index(PrimaryIndex::Hash)
}

fn user() -> TableDefinition {
    TableDefinition::new(USER)
        .column("id", DataType::Int64)
        .column("likes", DataType::Int64)
        .not_null()
        .column("last_page", DataType::Int64)
        .not_null()
        .primary_key(["id"])
        .primary_index(PrimaryIndex::Hash)
}

impl Workload for Like {
    fn name(&self) -> &'static str {
        "like"
    }

    fn tables(&self) -> &'static [&'static str] {
        &TABLES
    }

    fn transactions(&self) -> &'static [&'static str] {
        &TRANSACTIONS
    }

    fn parameters(&self) -> Vec<(&'static str, serde_json::Value)> {
        vec![
            ("users", json!(self.users)),
            ("pages", json!(self.pages)),
            ("alpha", json!(self.alpha)),
            ("write_percent", json!(self.write_percent)),
            ("think_us", json!(self.pause.as_microseconds())),
        ]
    }

    fn load(&self, db: &Database) -> Result<()> {
        self.check_settings()?;
        for definition in [page(), user()] {
            if scan::table_if_there(db, definition.name())?.is_none() {
                db.create_table(definition)?;
            }
        }
        let tables = Tables::open(db)?;
        scan::load_in_order(db, &tables.page, i64::from(self.pages), "pages", BATCH, |tx, id| {
            tx.insert(&tables.page, row![id, 0])
        })?;
        scan::load_in_order(db, &tables.user, i64::from(self.users), "users", BATCH, |tx, id| {
            tx.insert(&tables.user, row![id, 0, NO_PAGE])
        })
    }

    fn bind(&self, db: &Database, callers: usize) -> Result<Box<dyn Bound>> {
        self.check_settings()?;
        let tables = Tables::open(db)?;
        // One of each for each caller: clients' calls count handles, and would hand a shared one's count to and fro.
        let procedures = (0..callers.max(1)).map(|_| procedure::register(db, &tables, self.pause));
        Ok(Box::new(Site {
            settings: *self,
            procedures: procedures.collect::<Result<_, _>>()?,
            pages: Arc::new(PopularKeys::new(u64::from(self.pages), self.alpha)),
        }))
    }

    fn functions(&self) -> Option<Functions> {
        let calls =
            vec![FunctionCall::of_integers("like_page", 2), FunctionCall::of_integers("read_likes", 2)];
        Some(Functions { script: include_str!("../../sql/like.sql"), calls })
    }

    fn marks(&self, db: &Database) -> Result<u64> {
        check::marks(db)
    }

    fn check(&self, db: &Database, marks: Option<u64>) -> Result<(), String> {
        check::check(db, marks)
    }

    fn check_acknowledged(&self, _db: &Database, keys: &[String]) -> Result<(), String> {
        match keys.first() {
            None => Ok(()),
            Some(key) => Err(format!("{key:?} was not written by like, which acknowledges no keys")),
        }
    }
}

/// The benchmark on an open database.
struct Site {
    settings: Like,
    /// Each caller's procedures, at their places [`LIKE`] and [`READ`].
    procedures: Vec<[Procedure; 2]>,
    pages: Arc<PopularKeys>,
}

impl Bound for Site {
    fn generator(&self, seed: u64, caller: usize) -> Result<Box<dyn Generator>> {
        Ok(Box::new(Visitor {
            procedures: self.procedures[caller % self.procedures.len()].clone(),
            users: u64::from(self.settings.users),
            pages: Arc::clone(&self.pages),
            writes_below: (self.settings.write_percent / 100.0 * 2_f64.powi(64)) as u64,
            random: random_of(seed, caller),
        }))
    }

    fn acknowledgement(&self, _call: Call<'_>) -> Option<String> {
        None
    }
}

/// The calls of one caller.
struct Visitor {
    procedures: [Procedure; 2],
    users: u64,
    pages: Arc<PopularKeys>,
    /// A random number below it makes a like.
    writes_below: u64,
    random: fastrand::Rng,
}

impl Generator for Visitor {
    fn procedures(&self) -> &[Procedure] {
        &self.procedures
    }

    fn fill(&mut self, calls: &mut Calls, at_most: usize) -> Result<bool> {
        while calls.len() < at_most {
            let likes = self.random.u64(..) < self.writes_below;
            let user = self.random.u64(0..self.users) as i64 + 1;
            let page = self.pages.choose(&mut self.random);
            let (procedure, marks) = if likes { (LIKE, 1) } else { (READ, 0) };
            calls.add_integers(procedure, marks, &[user, page]);
        }
        Ok(true)
    }
}
