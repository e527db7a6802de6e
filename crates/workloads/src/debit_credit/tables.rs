//! The four tables, and what a fresh record holds.
//!
//! Branch, teller and account records are 128 bytes: their fixed columns, and a filler for the rest. History records
//! are small, because millions of them are written.

use heddledb::{Column, DataType, Database, PrimaryIndex, Result, Table, TableDefinition};

pub(crate) const BRANCH: &str = "branch";
pub(crate) const TELLER: &str = "teller";
pub(crate) const ACCOUNT: &str = "account";
pub(crate) const HISTORY: &str = "history";

/// Names of the tables, in the order in which they are created: a database whose creation was cut short lacks
/// the last ones.
pub(crate) const NAMES: [&str; 4] = [BRANCH, TELLER, ACCOUNT, HISTORY];

/// The balance of a fresh account, in cents.
pub(crate) const OPENING_BALANCE: i64 = 100_000;

/// The lowest balance of an account, in cents.
pub(crate) const FLOOR: i64 = -100_000_000;

/// Fillers bring each record to 128 bytes: two or three 8-byte columns, and an account's 4-byte code.
pub(crate) const BRANCH_FILLER: usize = 128 - 8 - 8;
pub(crate) const TELLER_FILLER: usize = 128 - 8 - 8 - 8;
pub(crate) const ACCOUNT_FILLER: usize = 128 - 8 - 8 - 8 - 8 - 4;

/// The access code of an account: four digits that depend on the account alone, so that both sides know it.
pub(crate) fn access_code(branch: i64, account: i64) -> i64 {
    // An odd multiplier spreads neighbors; the high bits are the well mixed ones.
    let mixed = (branch.wrapping_mul(1_000_003) ^ account).wrapping_mul(0x5851_F42D_4C95_7F2D);
    (mixed >> 33).rem_euclid(10_000)
}

/// The tables of an open database, with handles of the columns that calls touch.
#[derive(Clone)]
pub(crate) struct Tables {
    pub branch: Table,
    pub teller: Table,
    pub account: Table,
    pub history: Table,
    pub branch_balance: Column,
    pub teller_balance: Column,
    pub account_balance: Column,
    pub account_floor: Column,
    pub account_code: Column,
}

impl Tables {
    /// Looks the tables up, and makes those that are missing.
    pub fn create(db: &Database) -> Result<Self> {
        for definition in [branch(), teller(), account(), history()] {
            if crate::scan::table_if_there(db, definition.name())?.is_none() {
                db.create_table(definition)?;
            }
        }
        Self::open(db)
    }

    /// Looks the tables up.
    pub fn open(db: &Database) -> Result<Self> {
        let (branch, teller) = (db.table(BRANCH)?, db.table(TELLER)?);
        let (account, history) = (db.table(ACCOUNT)?, db.table(HISTORY)?);
        Ok(Self {
            branch_balance: branch.column("balance")?,
            teller_balance: teller.column("balance")?,
            account_balance: account.column("balance")?,
            account_floor: account.column("floor")?,
            account_code: account.column("code")?,
            branch,
            teller,
            account,
            history,
        })
    }
}

fn branch() -> TableDefinition {
    TableDefinition::new(BRANCH)
        .column("branch", DataType::Int64)
        .column("balance", DataType::Int64)
        .not_null()
        .column("filler", DataType::Bytes)
        .not_null()
        .primary_key(["branch"])
        .primary_index(PrimaryIndex::Hash)
}

fn teller() -> TableDefinition {
    TableDefinition::new(TELLER)
        .column("branch", DataType::Int64)
        .references(BRANCH)
        .column("teller", DataType::Int64)
        .column("balance", DataType::Int64)
        .not_null()
        .column("filler", DataType::Bytes)
        .not_null()
        .primary_key(["branch", "teller"])
        .primary_index(PrimaryIndex::Hash)
}

fn account() -> TableDefinition {
    TableDefinition::new(ACCOUNT)
        .column("branch", DataType::Int64)
        .references(BRANCH)
        .column("account", DataType::Int64)
        .column("balance", DataType::Int64)
        .not_null()
        .column("floor", DataType::Int64)
        .not_null()
        .column("code", DataType::Int32)
        .not_null()
        .column("filler", DataType::Bytes)
        .not_null()
        .primary_key(["branch", "account"])
        .primary_index(PrimaryIndex::Hash)
}

fn history() -> TableDefinition {
    TableDefinition::new(HISTORY)
        .column("branch", DataType::Int32)
        .column("caller", DataType::Int32)
        .column("sequence", DataType::Int64)
        .column("teller", DataType::Int32)
        .not_null()
        .column("account_branch", DataType::Int32)
        .not_null()
        .column("account", DataType::Int32)
        .not_null()
        .column("amount", DataType::Int64)
        .not_null()
        .primary_key(["branch", "caller", "sequence"])
        .primary_index(PrimaryIndex::Ordered)
}
