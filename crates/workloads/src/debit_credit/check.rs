//! Checks that the books agree, to the cent.

use std::collections::BTreeMap;

use heddledb::{Database, Result, Row, Snapshot};

use super::TELLERS_PER_BRANCH;
use super::tables::{ACCOUNT, BRANCH, HISTORY, OPENING_BALANCE, TELLER};
use crate::scan;

/// One branch's figures in the tables. Sums are wide, so that a damaged balance can't overflow them.
#[derive(Debug, Default)]
struct Books {
    /// The balance in the branch's own record; `None` while the branch is only partly loaded.
    branch: Option<i128>,
    tellers: i128,
    teller_records: i64,
    history_written_here: i128,
    accounts: i128,
    history_of_accounts: i128,
}

type Bank = BTreeMap<i64, Books>;

/// Checks all branches, and the number of history records where it is known.
pub(super) fn check(db: &Database, marks: Option<u64>) -> Result<(), String> {
    let (bank, history_records) = db
        .read(|snapshot| read(db, snapshot))
        .map_err(|error| format!("reading the bank failed: {error}"))?;
    if let Some(expected) = marks
        && expected != history_records
    {
        return Err(format!("history has {history_records} records, but {expected} calls were committed"));
    }
    bank.iter().try_for_each(|(branch, books)| books.check(*branch))
}

impl Books {
    fn check(&self, branch: i64) -> Result<(), String> {
        self.equal(branch, "tellers and history", self.tellers, self.history_written_here)?;
        self.equal(branch, "accounts and their history", self.accounts, self.history_of_accounts)?;
        match self.branch {
            Some(balance) => {
                self.equal(branch, "balance and tellers", balance, self.tellers)?;
                self.equal(branch, "number of tellers", self.teller_records.into(), TELLERS_PER_BRANCH.into())
            }
            None => {
                self.equal(branch, "history of a branch that does not exist", self.history_written_here, 0)
            }
        }
    }

    fn equal(&self, branch: i64, what: &str, left: i128, right: i128) -> Result<(), String> {
        if left == right {
            return Ok(());
        }
        Err(format!("branch {branch}, {what}: {left} is not {right} (in cents)"))
    }
}

/// Reads all four tables in one snapshot; a table that is missing counts as empty, because a load may have been cut short.
fn read(db: &Database, snapshot: &Snapshot) -> Result<(Bank, u64)> {
    let mut bank = Bank::new();
    add_table((db, snapshot), BRANCH, &mut bank, |bank, row| {
        books(bank, row, "branch")?.branch = Some(row.int("balance")?.into());
        Ok(())
    })?;
    add_table((db, snapshot), TELLER, &mut bank, |bank, row| {
        let books = books(bank, row, "branch")?;
        books.tellers += i128::from(row.int("balance")?);
        books.teller_records += 1;
        Ok(())
    })?;
    add_table((db, snapshot), ACCOUNT, &mut bank, |bank, row| {
        books(bank, row, "branch")?.accounts += i128::from(row.int("balance")?) - i128::from(OPENING_BALANCE);
        Ok(())
    })?;
    let history_records = add_table((db, snapshot), HISTORY, &mut bank, |bank, row| {
        let amount = i128::from(row.int("amount")?);
        books(bank, row, "branch")?.history_written_here += amount;
        books(bank, row, "account_branch")?.history_of_accounts += amount;
        Ok(())
    })?;
    Ok((bank, history_records))
}

fn books<'a>(bank: &'a mut Bank, row: &Row<'_>, column: &str) -> Result<&'a mut Books> {
    Ok(bank.entry(row.int(column)?).or_default())
}

/// Adds every row of a table to the books, and gives the number of rows.
fn add_table(
    (db, snapshot): (&Database, &Snapshot),
    name: &str,
    bank: &mut Bank,
    add: impl Fn(&mut Bank, &Row<'_>) -> Result<()>,
) -> Result<u64> {
    let Some(table) = scan::table_if_there(db, name)? else { return Ok(0) };
    let (_, rows) = scan::fold_in(snapshot, &table, (bank, 0), |(bank, rows), row| {
        *rows += 1;
        add(bank, row)
    })?;
    Ok(rows)
}

/// Checks that the history record of every acknowledged call is there.
pub(super) fn check_acknowledged(db: &Database, keys: &[String]) -> Result<(), String> {
    scan::check_acknowledged(db, HISTORY, "call", keys)
}
