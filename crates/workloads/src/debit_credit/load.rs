//! Fills the bank.
//!
//! Invariants: a branch's own record is inserted last, in the same transaction as its last accounts, so
//! that a branch that is there is whole, and a load that was cut short can be continued.

use heddledb::{Database, Tx, key, row};

use super::tables::{
    ACCOUNT_FILLER, BRANCH_FILLER, FLOOR, OPENING_BALANCE, TELLER_FILLER, Tables, access_code,
};
use super::{DebitCredit, TELLERS_PER_BRANCH};
use crate::{Error, Result};

/// Records per loading transaction.
const BATCH: i64 = 1_000;

/// Makes the tables and branches that are missing.
pub(super) fn load(settings: &DebitCredit, db: &Database) -> Result<()> {
    let tables = Tables::create(db)?;
    let accounts = i64::from(settings.accounts_per_branch);
    for branch in 1..=i64::from(settings.branches) {
        if db.run(|tx| tx.exists(&tables.branch, key![branch]))? {
            continue;
        }
        for first in (1..=accounts).step_by(BATCH as usize) {
            let last = accounts.min(first + BATCH - 1);
            db.run(|tx| {
                insert_accounts(tx, &tables, branch, first, last)?;
                if last == accounts { insert_branch(tx, &tables, branch) } else { Ok(()) }
            })?;
        }
    }
    check_size(settings, db, &tables)
}

/// Inserts the accounts of a range, leaving out those that an interrupted load has left.
pub(super) fn insert_accounts(
    tx: &Tx,
    tables: &Tables,
    branch: i64,
    first: i64,
    last: i64,
) -> heddledb::Result<()> {
    let filler = [b'a'; ACCOUNT_FILLER];
    for account in first..=last {
        if !tx.exists(&tables.account, key![branch, account])? {
            let code = access_code(branch, account);
            tx.insert(&tables.account, row![branch, account, OPENING_BALANCE, FLOOR, code, &filler[..]])?;
        }
    }
    Ok(())
}

fn insert_branch(tx: &Tx, tables: &Tables, branch: i64) -> heddledb::Result<()> {
    let filler = [b't'; TELLER_FILLER];
    for teller in 1..=TELLERS_PER_BRANCH {
        tx.insert(&tables.teller, row![branch, teller, 0, &filler[..]])?;
    }
    let filler = [b'b'; BRANCH_FILLER];
    tx.insert(&tables.branch, row![branch, 0, &filler[..]])
}

/// A bank of another size in the directory would make calls miss, or leave accounts out.
fn check_size(settings: &DebitCredit, db: &Database, tables: &Tables) -> Result<()> {
    let (branches, accounts) = (i64::from(settings.branches), i64::from(settings.accounts_per_branch));
    let fits = db.run(|tx| {
        Ok(!tx.exists(&tables.branch, key![branches + 1])?
            && tx.exists(&tables.account, key![branches, accounts])?
            && !tx.exists(&tables.account, key![branches, accounts + 1])?)
    })?;
    if fits {
        return Ok(());
    }
    Err(Error::Unusable(format!(
        "the database holds a bank of another size than {branches} branches of {accounts} accounts; give the \
         --branches and --accounts-per-branch with which it was made, or another --dir"
    )))
}
