//! RUBiS, an auction site, as "Phase Reconciliation" (2014, section 7) has it: users bid on items, comment on each other, browse.
//!
//! Seven tables, and three that hold what the paper's port adds: for each item its highest bids, for each category and each
//! region its newest items. There are 26 pages, of which 17 run a transaction; the others are forms and need none:
//!
//! | transaction | pages | what it does |
//! | --- | --- | --- |
//! | `browse-categories`, `browse-regions` | Browse, SelectCategory, BrowseCategoriesInRegion; BrowseRegions | reads the names |
//! | `search-category`, `search-region` | SearchItemsInCategory, SearchItemsInRegion | reads a list of newest items, and the items |
//! | `view-item`, `view-user`, `view-bid-history` | ViewItem, ViewUserInfo, ViewBidHistory | reads them; a history's bidders, too |
//! | `bid-form`, `buy-now-form`, `comment-form` | PutBid, BuyNow, PutComment | reads what the form shows |
//! | `authenticate`, `about-me` | the logins; AboutMe | reads a user; its bids, purchases and comments |
//! | `register-user` | RegisterUser | a new user |
//! | `store-item` | RegisterItem | a new item, which enters two lists |
//! | `store-bid` | StoreBid | a bid: one more, the highest one, its bidder, and the list of highest bids |
//! | `store-buy-now` | StoreBuyNow | a purchase, one piece less |
//! | `store-comment` | StoreComment | a comment, whose rating is added to its receiver's |
//!
//! The five that write use commutative operations only, so that bids on one item need not meet. Mix `b` is the bidding mix, 15 % of
//! which write, on items that are all alike; in mix `c` half are bids, and items are chosen after Zipf. The shares of the single
//! transactions are ours: the paper gives these sums.
//!
//! Invariants, in every snapshot: number, maximum and winner of an item's bids, and its list, are those of its bids; pieces that are
//! left and sold are those that were offered; a user's rating is the sum of the comments; the lists have exactly the newest
//! items. Each transaction that writes leaves one new row.

mod check;
mod generator;
mod lists;
mod procedure;
mod tables;
#[cfg(test)]
mod tests;
mod transaction;

use std::borrow::Cow;

use heddledb::Database;
use serde_json::json;

use crate::Result;
use crate::pause::Pause;
use crate::workload::{Bound, Workload, in_range};

/// A mix of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RubisMix {
    /// RUBiS-B: the bidding mix.
    Bidding,
    /// RUBiS-C: half of the transactions are bids.
    Contended,
}

impl RubisMix {
    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            RubisMix::Bidding => "b",
            RubisMix::Contended => "c",
        }
    }

    /// The skew of items that the paper's table 4 has.
    pub const fn alpha(self) -> f64 {
        match self {
            RubisMix::Bidding => 0.0,
            RubisMix::Contended => 1.8,
        }
    }
}

/// The settings of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rubis {
    /// Number of users that are loaded.
    pub users: u32,
    /// Number of items that are loaded.
    pub items: u32,
    /// The mix of transactions.
    pub mix: RubisMix,
    /// Skew of items: the k-th most popular is chosen in proportion to 1 / k^alpha; 0: all alike.
    pub alpha: f64,
    /// A pause after each access.
    pub pause: Pause,
}

impl Rubis {
    /// A mix with the paper's numbers of users and items, and its skew.
    pub const fn of(mix: RubisMix) -> Self {
        Self { users: 1_000_000, items: 33_000, mix, alpha: mix.alpha(), pause: Pause::NONE }
    }

    fn check_settings(&self) -> Result<()> {
        in_range("users", self.users, 2, 100_000_000)?;
        in_range("items", self.items, 1, 100_000_000)?;
        in_range("alpha", self.alpha, 0.0, 20.0)
    }
}

impl Default for Rubis {
    fn default() -> Self {
        Self::of(RubisMix::Bidding)
    }
}

impl Workload for Rubis {
    fn name(&self) -> &'static str {
        "rubis"
    }

    fn tables(&self) -> &'static [&'static str] {
        &tables::NAMES
    }

    fn transactions(&self) -> &'static [&'static str] {
        &transaction::NAMES
    }

    fn parameters(&self) -> Vec<(&'static str, serde_json::Value)> {
        vec![
            ("users", json!(self.users)),
            ("items", json!(self.items)),
            ("mix", json!(self.mix.name())),
            ("alpha", json!(self.alpha)),
            ("think_us", json!(self.pause.as_microseconds())),
        ]
    }

    fn load(&self, db: &Database) -> Result<()> {
        self.check_settings()?;
        tables::load(db, i64::from(self.users), i64::from(self.items))
    }

    fn bind(&self, db: &Database, callers: usize) -> Result<Box<dyn Bound>> {
        self.check_settings()?;
        Ok(Box::new(generator::Site::bind(*self, db, callers)?))
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
}

/// A short name for the reason why a call failed.
fn reason(error: &heddledb::Error) -> Cow<'static, str> {
    match error {
        heddledb::Error::CheckViolation { constraint, .. } if constraint == tables::IN_STOCK => {
            Cow::Borrowed("sold-out")
        }
        other => Cow::Owned(other.to_string()),
    }
}
