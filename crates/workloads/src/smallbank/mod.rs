//! SmallBank: a bank whose customers have a savings and a checking account each.
//!
//! Three tables, five transactions of two to five records, all of which read what they change. Some accounts are a hot
//! spot, as in the conflict prediction paper: nine of ten transactions are on the first fifty.
//!
//! | transaction | % | what it does |
//! | --- | --- | --- |
//! | `amalgamate` | 4 | moves all that a customer has into another one's checking account |
//! | `balance` | 24 | reads both of a customer's accounts |
//! | `deposit-checking` | 24 | pays into a checking account |
//! | `transact-savings` | 24 | pays into or out of a savings account; fails if that is not covered |
//! | `write-check` | 24 | takes a check's amount out of a checking account, and a penalty if both accounts do not cover it |
//!
//! Invariants: of every account, the balance is what it began with, and what has been moved in, less what
//! has been moved out; so is the sum of all of them. A committed call leaves one mark on each account that it has
//! written, which its row counts.

mod check;
mod generator;
mod procedure;
mod tables;
#[cfg(test)]
mod tests;

use heddledb::Database;
use serde_json::json;

use crate::functions::{FunctionCall, Functions};
use crate::mix::Mix;
use crate::pause::Pause;
use crate::workload::{Bound, Workload, in_range};
use crate::{Error, Result};

/// The transactions, by their places.
pub(crate) mod transaction {
    pub const NAMES: [&str; 5] =
        ["amalgamate", "balance", "deposit-checking", "transact-savings", "write-check"];
    pub const AMALGAMATE: usize = 0;
    pub const BALANCE: usize = 1;
    pub const DEPOSIT_CHECKING: usize = 2;
    pub const TRANSACT_SAVINGS: usize = 3;
}

/// The settings of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SmallBank {
    /// Number of customers, with two accounts each.
    pub accounts: u32,
    /// The only transaction that is made, by its place in [`SmallBank::TRANSACTIONS`]; otherwise the mix.
    pub only: Option<usize>,
    /// Number of customers, from the first on, that are the hot spot; 0: no hot spot.
    pub hot: u32,
    /// Percentage of transactions on the hot spot.
    pub hot_percent: f64,
    /// A pause after each access.
    pub pause: Pause,
}

impl Default for SmallBank {
    fn default() -> Self {
        Self { accounts: 10_000, only: None, hot: 50, hot_percent: 90.0, pause: Pause::NONE }
    }
}

impl SmallBank {
    /// The names of the transactions.
    pub const TRANSACTIONS: &[&str] = &transaction::NAMES;

    fn check_settings(&self) -> Result<()> {
        in_range("accounts", self.accounts, 2, 10_000_000)?;
        in_range("hot", self.hot, 0, self.accounts)?;
        in_range("hot-percent", self.hot_percent, 0.0, 100.0)?;
        if self.hot == 1 {
            return Err(Error::Unusable(
                "--hot 1 is no hot spot for two customers; give 2 or more".to_owned(),
            ));
        }
        match self.only {
            Some(place) if place >= transaction::NAMES.len() => {
                Err(Error::Unusable(format!("there is no transaction number {place}")))
            }
            _ => Ok(()),
        }
    }

    fn mix(&self) -> Mix {
        self.only.map_or_else(|| Mix::of_shares(&[4, 24, 24, 24, 24]), Mix::only)
    }
}

impl Workload for SmallBank {
    fn name(&self) -> &'static str {
        "smallbank"
    }

    fn tables(&self) -> &'static [&'static str] {
        &tables::NAMES
    }

    fn transactions(&self) -> &'static [&'static str] {
        Self::TRANSACTIONS
    }

    fn partition_key(&self) -> Option<&'static str> {
        Some("account_owner.custid")
    }

    fn parameters(&self) -> Vec<(&'static str, serde_json::Value)> {
        let only = self.only.and_then(|place| transaction::NAMES.get(place));
        let mut parameters = vec![("accounts", json!(self.accounts))];
        parameters.extend(only.map(|only| ("only", json!(only))));
        parameters.extend([("hot", json!(self.hot)), ("hot_percent", json!(self.hot_percent))]);
        parameters.push(("think_us", json!(self.pause.as_microseconds())));
        parameters
    }

    fn load(&self, db: &Database) -> Result<()> {
        self.check_settings()?;
        tables::load(db, i64::from(self.accounts))
    }

    fn bind(&self, db: &Database, callers: usize) -> Result<Box<dyn Bound>> {
        self.check_settings()?;
        Ok(Box::new(generator::Bank::bind(*self, db, callers)?))
    }

    fn functions(&self) -> Option<Functions> {
        let call = FunctionCall::of_integers;
        let calls = vec![
            call("amalgamate", 2),
            call("balance", 1),
            call("deposit_checking", 2),
            call("transact_savings", 2),
            call("write_check", 2),
        ];
        Some(Functions { script: include_str!("../../sql/smallbank.sql"), calls })
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
            Some(key) => Err(format!("{key:?} was not written by smallbank, which acknowledges no keys")),
        }
    }
}
