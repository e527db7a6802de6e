//! Checks that every cent is where it was moved.

use heddledb::{Database, Snapshot};

use super::tables::{ACCOUNT, CHECKING, SAVINGS, START};
use crate::scan;

/// The sums of all accounts of a table.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    accounts: i128,
    balance: i128,
    moved_in: i128,
    moved_out: i128,
    changes: u64,
}

impl Sums {
    fn and(self, other: Sums) -> Sums {
        Sums {
            accounts: self.accounts + other.accounts,
            balance: self.balance + other.balance,
            moved_in: self.moved_in + other.moved_in,
            moved_out: self.moved_out + other.moved_out,
            changes: self.changes + other.changes,
        }
    }
}

/// The changes of all accounts.
pub(super) fn marks(db: &Database) -> crate::Result<u64> {
    let mut changes = 0;
    for name in [SAVINGS, CHECKING] {
        changes += sums((db, &db.snapshot()?), name)?.0.changes;
    }
    Ok(changes)
}

/// The sums of a table, and its first account that is wrong on its own. A table that is missing counts as empty, because a
/// load may have been cut short.
fn sums((db, snapshot): (&Database, &Snapshot), name: &str) -> heddledb::Result<(Sums, Option<String>)> {
    let Some(table) = scan::table_if_there(db, name)? else { return Ok(Default::default()) };
    scan::fold_in(snapshot, &table, <(Sums, Option<String>)>::default(), |(sums, wrong), row| {
        let (balance, changes) = (row.int("balance")?, row.int("changes")?);
        let (moved_in, moved_out) = (row.int("moved_in")?, row.int("moved_out")?);
        let all = Sums {
            accounts: 1,
            balance: balance.into(),
            moved_in: moved_in.into(),
            moved_out: moved_out.into(),
            changes: changes.unsigned_abs(),
        };
        *sums = sums.and(all);
        let is_wrong = balance != START + moved_in - moved_out || changes < 0;
        let is_wrong = is_wrong || changes == 0 && balance != START;
        if is_wrong && wrong.is_none() {
            let customer = row.int("custid")?;
            *wrong = Some(format!(
                "{name} of customer {customer}: {balance} cents are not {START} + {moved_in} moved in - {moved_out} \
                 moved out, in {changes} changes"
            ));
        }
        Ok(())
    })
}

/// Checks each account alone, the total, and the number of changes where it is known.
pub(super) fn check(db: &Database, marks: Option<u64>) -> Result<(), String> {
    let snapshot = db.snapshot().map_err(|error| error.to_string())?;
    let of = |name| sums((db, &snapshot), name).map_err(|error| format!("{name} can't be read: {error}"));
    let ((savings, wrong_saving), (checking, wrong_checking)) = (of(SAVINGS)?, of(CHECKING)?);
    if let Some(wrong) = wrong_saving.or(wrong_checking) {
        return Err(wrong);
    }
    let owners = match scan::table_if_there(db, ACCOUNT) {
        Ok(Some(table)) => scan::count_in(&snapshot, &table),
        Ok(None) => Ok(0),
        Err(error) => Err(error),
    };
    let owners = i128::from(owners.map_err(|error| format!("{ACCOUNT} can't be read: {error}"))?);
    if savings.accounts != owners || checking.accounts != owners {
        return Err(format!(
            "{owners} customers have {} savings and {} checking accounts",
            savings.accounts, checking.accounts
        ));
    }
    let all = savings.and(checking);
    let expected = all.accounts * i128::from(START) + all.moved_in - all.moved_out;
    if all.balance != expected {
        return Err(format!("all accounts have {} cents together, not {expected}", all.balance));
    }
    match marks {
        Some(marks) if marks != all.changes => {
            Err(format!("accounts have changed {} times, but {marks} changes were committed", all.changes))
        }
        _ => Ok(()),
    }
}
