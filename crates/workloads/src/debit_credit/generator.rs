//! The generator: draws the teller, the account and the amount of each deposit or withdrawal.

use std::sync::atomic::{AtomicI64, Ordering};

use heddledb::{Database, Output, Procedure, Range, key};

use super::procedure::{self, argument};
use super::tables::{Tables, access_code};
use super::{DebitCredit, TELLERS_PER_BRANCH};
use crate::Result;
use crate::calls::{Call, Calls};
use crate::workload::{Bound, Generator, random_of};

/// Percentage of accounts of another branch than the teller's, if there is another one.
const REMOTE_PERCENT: u32 = 15;

/// The largest amount of one call, in cents.
const LARGEST_AMOUNT: i64 = 99_999;
/// The largest amount of one call in TPC-B (clause 5.3.6), in cents.
const LARGEST_AMOUNT_TPC_B: i64 = 999_999;

/// The bank, open for business.
pub(super) struct Bank {
    settings: DebitCredit,
    tables: Tables,
    /// One for each caller: a handle is counted, and callers that share one would hand its count to and fro.
    procedures: Vec<Procedure>,
    /// The number of the next caller: above those of every earlier run, so that history keys never meet.
    next_caller: AtomicI64,
}

impl Bank {
    pub fn bind(settings: DebitCredit, db: &Database, callers: usize) -> Result<Self> {
        let tables = Tables::open(db)?;
        let procedures = (0..callers.max(1))
            .map(|_| procedure::register(db, &tables, &settings))
            .collect::<Result<Vec<_>, _>>()?;
        let next_caller = AtomicI64::new(first_free_caller(&settings, db, &tables)?);
        Ok(Self { settings, tables, procedures, next_caller })
    }
}

/// One above the highest caller in the history of any branch.
fn first_free_caller(settings: &DebitCredit, db: &Database, tables: &Tables) -> heddledb::Result<i64> {
    db.run(|tx| {
        let mut free = 1;
        for branch in 1..=i64::from(settings.branches) {
            let newest = Range::prefix(key![branch]).reverse().limit(1);
            for row in tx.scan(&tables.history, newest)? {
                free = free.max(row?.int("caller")? + 1);
            }
        }
        Ok(free)
    })
}

impl Bound for Bank {
    fn generator(&self, seed: u64, caller: usize) -> Result<Box<dyn Generator>> {
        Ok(Box::new(Caller {
            settings: self.settings,
            procedure: self.procedures[caller % self.procedures.len()].clone(),
            random: random_of(seed, caller),
            // Relaxed: only the number itself has to be unique; no other data is published with it.
            caller: self.next_caller.fetch_add(1, Ordering::Relaxed),
            sequence: 0,
        }))
    }

    fn run_closure(&self, db: &Database, call: Call<'_>) -> heddledb::Result<Output> {
        procedure::run_closure(db, &self.tables, &self.settings, call.args)
    }

    fn acknowledgement(&self, call: Call<'_>) -> Option<String> {
        let number = |place| call.args.int(place).ok();
        let branch = number(argument::BRANCH)?;
        Some(format!("{branch} {} {}", number(argument::CALLER)?, number(argument::SEQUENCE)?))
    }
}

/// The calls of one caller.
struct Caller {
    settings: DebitCredit,
    procedure: Procedure,
    random: fastrand::Rng,
    caller: i64,
    sequence: i64,
}

impl Caller {
    fn add(&mut self, calls: &mut Calls) {
        let branches = i64::from(self.settings.branches);
        let branch = self.random.i64(1..=branches);
        let mut account_branch = branch;
        if branches > 1 && self.random.u32(0..100) < REMOTE_PERCENT {
            // One of the others: skip over the own branch.
            account_branch = self.random.i64(1..branches);
            account_branch += i64::from(account_branch >= branch);
        }
        let account = self.random.i64(1..=i64::from(self.settings.accounts_per_branch));
        let teller = self.random.i64(1..=TELLERS_PER_BRANCH);
        let largest = if self.settings.tpc_b { LARGEST_AMOUNT_TPC_B } else { LARGEST_AMOUNT };
        let amount = self.random.i64(-largest..=largest);
        let mut code = access_code(account_branch, account);
        if self.settings.bad_percent > 0.0 && self.random.f64() * 100.0 < self.settings.bad_percent {
            code += 1;
        }
        self.sequence += 1;
        let (caller, sequence) = (self.caller, self.sequence);
        calls.add_integers(0, 1, &[account_branch, account, branch, teller, amount, code, caller, sequence]);
    }
}

impl Generator for Caller {
    fn procedures(&self) -> &[Procedure] {
        std::slice::from_ref(&self.procedure)
    }

    fn fill(&mut self, calls: &mut Calls, at_most: usize) -> Result<bool> {
        while calls.len() < at_most {
            self.add(calls);
        }
        Ok(true)
    }
}
