//! The debit-credit benchmark of 1985: a bank's customers pay in and draw out at the tellers of its branches.
//!
//! One call changes the balances of an account, a teller and a branch, and writes one history record. The account
//! checks an access code and a balance floor; a call that fails on them leaves no trace.
//!
//! Every key begins with the branch, so that a site or a dataset can hold a whole branch. A history key is (branch,
//! caller, sequence): each caller appends at its own end of the ordered index, and callers of later runs on the same
//! directory take higher numbers.
//!
//! Invariant, per branch and to the cent: what the tellers' balances changed by is what the branch's
//! balance changed by, and the sum of the history written there; what the accounts' balances changed by is the sum
//! of the history of those accounts, wherever it was written.

mod check;
mod generator;
mod load;
mod procedure;
mod tables;
#[cfg(test)]
mod tests;

use heddledb::Database;
use serde_json::json;

use crate::functions::{FunctionCall, Functions};
use crate::pause::Pause;
use crate::workload::{Bound, Workload, in_range};
use crate::{Result, scan};

#[cfg(test)]
pub(crate) use procedure::BAD_CODE;

/// Tellers of each branch, as the scale rules have it.
pub(crate) const TELLERS_PER_BRANCH: i64 = 10;

/// The settings of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DebitCredit {
    /// Number of branches.
    pub branches: u32,
    /// Number of accounts of each branch.
    pub accounts_per_branch: u32,
    /// Percentage of calls that give a wrong access code.
    pub bad_percent: f64,
    /// True if transactions are TPC-B's: no access code and no floor, larger amounts, and the account's
    /// balance is returned.
    pub tpc_b: bool,
    /// A pause after each access.
    pub pause: Pause,
}

impl Default for DebitCredit {
    fn default() -> Self {
        Self {
            branches: 1,
            accounts_per_branch: 100_000,
            bad_percent: 0.0,
            tpc_b: false,
            pause: Pause::default(),
        }
    }
}

impl DebitCredit {
    /// The size at which TPK was measured in 1988: 15 branches, 150 tellers, 15,000 accounts.
    pub fn tpk() -> Self {
        Self { branches: 15, accounts_per_branch: 1_000, ..Self::default() }
    }

    /// TPC-B (1990): the transaction profile and the sizes of a branch; its scaling rules give the number of branches.
    pub fn tpc_b() -> Self {
        Self { tpc_b: true, ..Self::default() }
    }

    fn check_settings(&self) -> Result<()> {
        in_range("branches", self.branches, 1, 10_000)?;
        in_range("accounts-per-branch", self.accounts_per_branch, 1, 100_000_000)?;
        in_range("bad-percent", self.bad_percent, 0.0, 100.0)
    }
}

impl Workload for DebitCredit {
    fn name(&self) -> &'static str {
        "debit-credit"
    }

    fn tables(&self) -> &'static [&'static str] {
        &tables::NAMES
    }

    fn transactions(&self) -> &'static [&'static str] {
        if self.tpc_b { &["tpc-b"] } else { &["debit-credit"] }
    }

    fn parameters(&self) -> Vec<(&'static str, serde_json::Value)> {
        vec![
            ("branches", json!(self.branches)),
            ("tellers", json!(i64::from(self.branches) * TELLERS_PER_BRANCH)),
            ("accounts_per_branch", json!(self.accounts_per_branch)),
            ("bad_percent", json!(self.bad_percent)),
            ("tpc_b", json!(self.tpc_b)),
            ("think_us", json!(self.pause.as_microseconds())),
        ]
    }

    fn load(&self, db: &Database) -> Result<()> {
        self.check_settings()?;
        load::load(self, db)
    }

    fn bind(&self, db: &Database, callers: usize) -> Result<Box<dyn Bound>> {
        self.check_settings()?;
        Ok(Box::new(generator::Bank::bind(*self, db, callers)?))
    }

    fn functions(&self) -> Option<Functions> {
        let name = if self.tpc_b { "tpc_b" } else { "debit_credit" };
        let script = include_str!("../../sql/debit-credit.sql");
        Some(Functions { script, calls: vec![FunctionCall::of_integers(name, 8)] })
    }

    fn marks(&self, db: &Database) -> Result<u64> {
        match scan::table_if_there(db, tables::HISTORY)? {
            Some(history) => Ok(scan::count(db, &history)?),
            None => Ok(0),
        }
    }

    fn check(&self, db: &Database, marks: Option<u64>) -> Result<(), String> {
        check::check(db, marks)
    }

    fn check_acknowledged(&self, db: &Database, keys: &[String]) -> Result<(), String> {
        check::check_acknowledged(db, keys)
    }
}
