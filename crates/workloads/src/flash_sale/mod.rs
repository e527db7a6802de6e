//! A flash sale: items with a stock that never falls below zero, orders that fail when an item is sold out, page views, and
//! a leaderboard of the largest orders.
//!
//! An `order` takes one piece of an item's stock, counts it at the item, enters the order in the ledger, and offers it to the
//! leaderboard: additions, an insert and a top-K insert, so that orders of one item need not meet while there is stock. A
//! `view` counts a look at an item's page. Items are chosen after Zipf.
//!
//! Invariants, in every snapshot: an item's stock, its orders and its rows in the ledger agree to the piece, none
//! is oversold, and the leaderboard has exactly the largest orders.

mod check;
mod procedure;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use heddledb::{
    DataType, Database, PrimaryIndex, Procedure, Table, TableDefinition, TopK, TupleType, Value, key, row,
};
use serde_json::json;

use crate::calls::{Call, Calls};
use crate::functions::{FunctionCall, Functions};
use crate::pause::Pause;
use crate::workload::{Bound, Generator, Workload, in_range, random_of};
use crate::zipf::PopularKeys;
use crate::{Error, Result, scan};

const ITEM: &str = "sale_item";
const BOARD: &str = "sale_board";
const LEDGER: &str = "sale_ledger";

/// Names of the tables, in the order in which they are created and filled.
const TABLES: [&str; 3] = [ITEM, BOARD, LEDGER];

/// Names of the two transactions; their places are [`ORDER`] and [`VIEW`].
const TRANSACTIONS: [&str; 2] = ["order", "view"];
const ORDER: usize = 0;
const VIEW: usize = 1;

/// The check that keeps an item from being oversold.
const IN_STOCK: &str = "sale_item_in_stock";
/// Orders on the leaderboard.
const TOP: u32 = 10;
/// The key of its only row.
const THE_BOARD: i64 = 1;
/// The largest amount of an order, in cents.
const LARGEST_AMOUNT: i64 = 1_000_000;
/// Records per loading transaction.
const BATCH: i64 = 1_000;

/// The settings of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlashSale {
    /// Number of items.
    pub items: u32,
    /// Pieces of each.
    pub stock: u32,
    /// Skew of items: the k-th most popular is chosen in proportion to 1 / k^alpha.
    pub alpha: f64,
    /// Percentage of page views among the transactions; the others are orders.
    pub view_percent: f64,
    /// True if orders are offered to the leaderboard, a top-K column. SQL has no such columns: there it is a
    /// query.
    pub board: bool,
    /// A pause after each access.
    pub pause: Pause,
}

impl Default for FlashSale {
    fn default() -> Self {
        Self {
            items: 1_000,
            stock: 1_000_000,
            alpha: 1.4,
            view_percent: 50.0,
            board: true,
            pause: Pause::NONE,
        }
    }
}

impl FlashSale {
    fn check_settings(&self) -> Result<()> {
        in_range("items", self.items, 1, 10_000_000)?;
        in_range("stock", self.stock, 0, u32::MAX)?;
        in_range("alpha", self.alpha, 0.0, 20.0)?;
        in_range("view-percent", self.view_percent, 0.0, 100.0)
    }

    /// Refuses a database whose orders were offered to the leaderboard if those to come are not, and the other way round.
    fn check_board(&self, db: &Database, tables: &Tables) -> Result<()> {
        let has_board = db.run(|tx| tx.exists(&tables.board, key![THE_BOARD]))?;
        if has_board != self.board && (has_board || scan::count(db, &tables.ledger)? > 0) {
            return Err(Error::Unusable(
                "the database's sale was run through another interface, with another leaderboard; give the \
                 --interface with which it was made, or another --dir"
                    .to_owned(),
            ));
        }
        Ok(())
    }
}

/// The tables of an open database.
#[derive(Clone)]
struct Tables {
    item: Table,
    board: Table,
    ledger: Table,
}

impl Tables {
    fn open(db: &Database) -> heddledb::Result<Self> {
        Ok(Self { item: db.table(ITEM)?, board: db.table(BOARD)?, ledger: db.table(LEDGER)? })
    }
}

/// An order on the leaderboard: its amount, the caller and the number that name it, so that no two are equal; and its item.
fn board_entry() -> heddledb::Result<TupleType> {
    TupleType::new(vec![DataType::Int64; 3], vec![DataType::Int64])
}

fn definitions() -> heddledb::Result<[TableDefinition; 3]> {
    let item = TableDefinition::new(ITEM).column("id", DataType::Int64);
    let item = ["offered", "stock", "orders", "views"]
        .into_iter()
        .fold(item, |item, column| item.column(column, DataType::Int64).not_null())
        .primary_key(["id"])
        .primary_index(PrimaryIndex::Hash)
        .check(IN_STOCK, "stock >= 0");
    let board = TableDefinition::new(BOARD)
        .column("id", DataType::Int64)
        .column("largest", DataType::TopK { limit: TOP, of: board_entry()? })
        .not_null()
        .primary_key(["id"]);
    let ledger = TableDefinition::new(LEDGER)
        .column("caller", DataType::Int64)
        .column("number", DataType::Int64)
        .column("item", DataType::Int64)
        .not_null()
        .column("amount", DataType::Int64)
        .not_null()
        .primary_key(["caller", "number"]);
    Ok([item, board, ledger])
}

impl Workload for FlashSale {
    fn name(&self) -> &'static str {
        "flash-sale"
    }

    fn tables(&self) -> &'static [&'static str] {
        &TABLES
    }

    fn transactions(&self) -> &'static [&'static str] {
        &TRANSACTIONS
    }

    fn parameters(&self) -> Vec<(&'static str, serde_json::Value)> {
        vec![
            ("items", json!(self.items)),
            ("stock", json!(self.stock)),
            ("alpha", json!(self.alpha)),
            ("view_percent", json!(self.view_percent)),
            ("think_us", json!(self.pause.as_microseconds())),
        ]
    }

    fn load(&self, db: &Database) -> Result<()> {
        self.check_settings()?;
        for definition in definitions()? {
            if scan::table_if_there(db, definition.name())?.is_none() {
                db.create_table(definition)?;
            }
        }
        let tables = Tables::open(db)?;
        let stock = i64::from(self.stock);
        scan::load_in_order(db, &tables.item, i64::from(self.items), "items", BATCH, |tx, id| {
            tx.insert(&tables.item, row![id, stock, stock, 0, 0])
        })?;
        self.check_board(db, &tables)?;
        if !self.board {
            return Ok(());
        }
        let nothing = Value::TopK(TopK::of(TOP, [])?);
        scan::load_in_order(db, &tables.board, 1, "boards", 1, |tx, id| {
            tx.insert(&tables.board, row![id, &nothing])
        })
    }

    fn bind(&self, db: &Database, callers: usize) -> Result<Box<dyn Bound>> {
        self.check_settings()?;
        let tables = Tables::open(db)?;
        // One of each for each caller: callers' calls count handles, and would hand a shared one's count to and fro.
        let procedures = (0..callers.max(1)).map(|_| procedure::register(db, &tables, self.pause));
        Ok(Box::new(Sale {
            settings: *self,
            procedures: procedures.collect::<Result<_, _>>()?,
            items: Arc::new(PopularKeys::new(u64::from(self.items), self.alpha)),
            next_caller: AtomicI64::new(check::highest_caller(db, &tables.ledger)? + 1),
        }))
    }

    fn functions(&self) -> Option<Functions> {
        let calls =
            vec![FunctionCall::of_integers("order_item", 4), FunctionCall::of_integers("view_item", 1)];
        Some(Functions { script: include_str!("../../sql/flash-sale.sql"), calls })
    }

    fn marks(&self, db: &Database) -> Result<u64> {
        check::marks(db)
    }

    fn check(&self, db: &Database, marks: Option<u64>) -> Result<(), String> {
        check::check(db, marks)
    }

    fn check_acknowledged(&self, db: &Database, keys: &[String]) -> Result<(), String> {
        check::check_acknowledged(db, keys)
    }

    fn is_audited(&self) -> bool {
        true
    }
}

/// The sale on an open database.
struct Sale {
    settings: FlashSale,
    /// Each caller's procedures, at their places [`ORDER`] and [`VIEW`].
    procedures: Vec<[Procedure; 2]>,
    items: Arc<PopularKeys>,
    /// Above the callers of every earlier run, so that orders never have the same name.
    next_caller: AtomicI64,
}

impl Bound for Sale {
    fn generator(&self, seed: u64, caller: usize) -> Result<Box<dyn Generator>> {
        Ok(Box::new(Customer {
            procedures: self.procedures[caller % self.procedures.len()].clone(),
            items: Arc::clone(&self.items),
            views_below: (self.settings.view_percent / 100.0 * 2_f64.powi(64)) as u64,
            random: random_of(seed, caller),
            // Relaxed: only the number itself has to be unique; no other data is published with it.
            caller: self.next_caller.fetch_add(1, Ordering::Relaxed),
            number: 0,
        }))
    }

    fn acknowledgement(&self, call: Call<'_>) -> Option<String> {
        let number = |place| call.args.int(place).ok();
        (call.procedure == ORDER).then_some(())?;
        Some(format!("{} {}", number(procedure::CALLER)?, number(procedure::NUMBER)?))
    }

    fn reason(&self, error: &heddledb::Error) -> Cow<'static, str> {
        match error {
            heddledb::Error::CheckViolation { constraint, .. } if constraint == IN_STOCK => {
                Cow::Borrowed("sold-out")
            }
            other => Cow::Owned(other.to_string()),
        }
    }
}

/// The calls of one caller.
struct Customer {
    procedures: [Procedure; 2],
    items: Arc<PopularKeys>,
    /// A random number below it makes a view.
    views_below: u64,
    random: fastrand::Rng,
    caller: i64,
    number: i64,
}

impl Generator for Customer {
    fn procedures(&self) -> &[Procedure] {
        &self.procedures
    }

    fn fill(&mut self, calls: &mut Calls, at_most: usize) -> Result<bool> {
        while calls.len() < at_most {
            let views = self.random.u64(..) < self.views_below;
            let item = self.items.choose(&mut self.random);
            if views {
                calls.add_integers(VIEW, 1, &[item]);
            } else {
                self.number += 1;
                let amount = self.random.i64(1..=LARGEST_AMOUNT);
                calls.add_integers(ORDER, 1, &[item, amount, self.caller, self.number]);
            }
        }
        Ok(true)
    }
}
