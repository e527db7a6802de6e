//! The three tables. Money is in cents; each account's row counts what was moved in and out, and how often it changed.

use heddledb::{Column, DataType, Database, PrimaryIndex, Result, Table, TableDefinition, row};

use crate::scan;

pub(super) const ACCOUNT: &str = "account_owner";
pub(super) const SAVINGS: &str = "savings";
pub(super) const CHECKING: &str = "checking";

/// Names of the tables, in the order in which they are created.
pub(super) const NAMES: [&str; 3] = [ACCOUNT, SAVINGS, CHECKING];

/// The first balance of each account, in cents.
pub(super) const START: i64 = 1_000_000;

/// Customers per loading transaction.
const BATCH: i64 = 1_000;

/// Savings or checking accounts.
#[derive(Clone)]
pub(super) struct Accounts {
    pub table: Table,
    pub balance: Column,
    pub moved_in: Column,
    pub moved_out: Column,
    pub changes: Column,
}

impl Accounts {
    fn open(db: &Database, name: &str) -> Result<Self> {
        let table = db.table(name)?;
        Ok(Self {
            balance: table.column("balance")?,
            moved_in: table.column("moved_in")?,
            moved_out: table.column("moved_out")?,
            changes: table.column("changes")?,
            table,
        })
    }
}

/// The tables of an open database.
#[derive(Clone)]
pub(super) struct Tables {
    pub account: Table,
    pub savings: Accounts,
    pub checking: Accounts,
}

impl Tables {
    pub fn open(db: &Database) -> Result<Self> {
        Ok(Self {
            account: db.table(ACCOUNT)?,
            savings: Accounts::open(db, SAVINGS)?,
            checking: Accounts::open(db, CHECKING)?,
        })
    }
}

fn account() -> TableDefinition {
    TableDefinition::new(ACCOUNT)
        .column("custid", DataType::Int64)
        .column("name", DataType::Text)
        .not_null()
        .primary_key(["custid"])
        .primary_index(PrimaryIndex::Hash)
}

fn accounts(name: &str) -> TableDefinition {
    let definition = TableDefinition::new(name).column("custid", DataType::Int64).references(ACCOUNT);
    ["balance", "moved_in", "moved_out", "changes"]
        .iter()
        .fold(definition, |definition, column| definition.column(*column, DataType::Int64).not_null())
        .primary_key(["custid"])
        .primary_index(PrimaryIndex::Hash)
}

/// Makes the tables and customers that are missing.
pub(super) fn load(db: &Database, customers: i64) -> crate::Result<()> {
    for definition in [account(), accounts(SAVINGS), accounts(CHECKING)] {
        if scan::table_if_there(db, definition.name())?.is_none() {
            db.create_table(definition)?;
        }
    }
    let Tables { account, savings, checking } = Tables::open(db)?;
    scan::load_in_order(db, &account, customers, "customers", BATCH, |tx, customer| {
        for accounts in [&savings, &checking] {
            tx.insert(&accounts.table, row![customer, START, 0, 0, 0])?;
        }
        tx.insert(&account, row![customer, format!("customer {customer}").as_str()])
    })
}
