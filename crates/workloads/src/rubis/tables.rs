//! The tables, and what they are loaded with.

use heddledb::{DataType, Database, PrimaryIndex, Result, Table, TableDefinition, Tx, row};

use super::lists;
use crate::scan;

pub(super) const REGION: &str = "rubis_region";
pub(super) const CATEGORY: &str = "rubis_category";
pub(super) const USER: &str = "rubis_user";
pub(super) const ITEM: &str = "rubis_item";
pub(super) const BID: &str = "rubis_bid";
pub(super) const BUY_NOW: &str = "rubis_buy_now";
pub(super) const COMMENT: &str = "rubis_comment";
/// The lists that the paper's port adds.
pub(super) const ITEM_BIDS: &str = "rubis_item_bids";
pub(super) const CATEGORY_ITEMS: &str = "rubis_category_items";
pub(super) const REGION_ITEMS: &str = "rubis_region_items";

/// Names of the tables, in the order in which they are created and filled.
pub(super) const NAMES: [&str; 10] =
    [REGION, CATEGORY, REGION_ITEMS, CATEGORY_ITEMS, USER, ITEM_BIDS, BID, BUY_NOW, COMMENT, ITEM];

/// The check that keeps an item from being oversold.
pub(super) const IN_STOCK: &str = "rubis_item_in_stock";
/// Numbers of regions and categories (as RUBiS has them).
pub(super) const REGIONS: i64 = 62;
pub(super) const CATEGORIES: i64 = 20;
/// Pieces of an item: as many as no run sells.
pub(super) const QUANTITY: i64 = 1_000_000_000;
/// Numbers of rows that calls have made begin here: those below were loaded.
pub(super) const FIRST_MADE: i64 = 1 << 32;
/// Records per loading transaction.
const BATCH: i64 = 1_000;

/// The tables of an open database.
#[derive(Clone)]
pub(super) struct Tables {
    pub region: Table,
    pub category: Table,
    pub region_items: Table,
    pub category_items: Table,
    pub user: Table,
    pub item_bids: Table,
    pub bid: Table,
    pub buy_now: Table,
    pub comment: Table,
    pub item: Table,
}

impl Tables {
    pub fn open(db: &Database) -> Result<Self> {
        Ok(Self {
            region: db.table(REGION)?,
            category: db.table(CATEGORY)?,
            region_items: db.table(REGION_ITEMS)?,
            category_items: db.table(CATEGORY_ITEMS)?,
            user: db.table(USER)?,
            item_bids: db.table(ITEM_BIDS)?,
            bid: db.table(BID)?,
            buy_now: db.table(BUY_NOW)?,
            comment: db.table(COMMENT)?,
            item: db.table(ITEM)?,
        })
    }
}

/// A table with integer columns that are not NULL.
fn integers(name: &str, columns: &[&str]) -> TableDefinition {
    let add = |table: TableDefinition, column: &&str| table.column(*column, DataType::Int64).not_null();
    columns.iter().fold(TableDefinition::new(name), add)
}

/// A table whose key is its number alone, which is never scanned in order.
fn numbered(name: &str, columns: &[&str]) -> TableDefinition {
    integers(name, &["id"]).primary_key(["id"]).primary_index(PrimaryIndex::Hash).with_integers(columns)
}

trait WithIntegers {
    fn with_integers(self, columns: &[&str]) -> Self;
}

impl WithIntegers for TableDefinition {
    fn with_integers(self, columns: &[&str]) -> Self {
        columns.iter().fold(self, |table, column| table.column(*column, DataType::Int64).not_null())
    }
}

fn definitions() -> Result<[TableDefinition; 10]> {
    let named = |name| numbered(name, &[]).column("name", DataType::Text).not_null();
    let listed = |name| Ok(numbered(name, &[]).column("newest", lists::list_type()?).not_null());
    // A user's rows lie together.
    let owned = |name, owner, columns: &[&str]| {
        integers(name, &[owner, "id"]).with_integers(columns).primary_key([owner, "id"])
    };
    let item_bids = numbered(ITEM_BIDS, &[])
        .column("winner", DataType::OrderedTuple(lists::entry_type()?))
        .column("highest", lists::list_type()?)
        .not_null();
    let item = numbered(
        ITEM,
        &["seller", "category", "region", "date", "start_price", "quantity", "bids", "max_bid"],
    )
    .column("name", DataType::Text)
    .not_null()
    .check(IN_STOCK, "quantity >= 0");
    Ok([
        named(REGION),
        named(CATEGORY),
        listed(REGION_ITEMS)?,
        listed(CATEGORY_ITEMS)?,
        numbered(USER, &["region", "date", "rating"]).column("nickname", DataType::Text).not_null(),
        item_bids,
        owned(BID, "bidder", &["item", "amount", "date"]),
        owned(BUY_NOW, "buyer", &["item", "date"]),
        owned(COMMENT, "receiver", &["author", "item", "rating", "date"]),
        item,
    ])
}

/// Creates and fills what is missing.
pub(super) fn load(db: &Database, users: i64, items: i64) -> crate::Result<()> {
    for definition in definitions()? {
        if scan::table_if_there(db, definition.name())?.is_none() {
            db.create_table(definition)?;
        }
    }
    let tables = Tables::open(db)?;
    let empty = lists::nothing()?;
    for (table, lists, count, what) in [
        (&tables.region, &tables.region_items, REGIONS, "regions"),
        (&tables.category, &tables.category_items, CATEGORIES, "categories"),
    ] {
        scan::load_in_order(db, table, count, what, BATCH, |tx, id| {
            tx.insert(lists, row![id, &empty])?;
            tx.insert(table, row![id, format!("{what} {id}").as_str()])
        })?;
    }
    scan::load_in_order(db, &tables.user, users, "users", BATCH, |tx, id| {
        tx.insert(&tables.user, row![id, 1 + id % REGIONS, 0, 0, format!("user{id}").as_str()])
    })?;
    scan::load_in_order(db, &tables.item, items, "items", BATCH, |tx, id| {
        let item = NewItem {
            id,
            seller: 1 + id % users,
            category: 1 + id % CATEGORIES,
            region: 1 + id % REGIONS,
            date: id,
        };
        item.insert(tx, &tables, &empty)
    })
}

/// An item that is offered.
pub(super) struct NewItem {
    pub id: i64,
    pub seller: i64,
    pub category: i64,
    pub region: i64,
    pub date: i64,
}

impl NewItem {
    fn insert(&self, tx: &Tx<'_, '_>, tables: &Tables, no_bids: &heddledb::Value) -> Result<()> {
        tx.insert(&tables.item_bids, row![self.id, None::<i64>, no_bids])?;
        let (order, payload) = (row![self.date, self.id], row![self.seller]);
        tx.top_k_insert(&tables.category_items, self.category, "newest", &order, &payload)?;
        tx.top_k_insert(&tables.region_items, self.region, "newest", &order, &payload)?;
        tx.insert(&tables.item, self.row(&self.name()))
    }

    /// Its name.
    pub fn name(&self) -> String {
        format!("item {}", self.id)
    }

    /// Its row.
    pub fn row<'n>(&self, name: &'n str) -> [heddledb::ValueRef<'n>; 10] {
        row![self.id, self.seller, self.category, self.region, self.date, 1, QUANTITY, 0, 0, name]
    }
}
