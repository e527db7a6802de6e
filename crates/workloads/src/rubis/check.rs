//! Checks, in one snapshot, that what the site materializes agrees with its bids, purchases, comments and items.

use std::collections::{BTreeMap, BTreeSet};

use heddledb::{Database, Error, Result, Row, Snapshot, Table, key};

use super::lists::{ENTRIES, Entry, entries, entry_of};
use super::tables::{FIRST_MADE, QUANTITY, Tables};
use super::transaction::{STORE_BID, STORE_BUY_NOW, STORE_COMMENT};
use crate::scan;
use crate::workload::integers_of_key;

/// The largest entries: what a list must have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Largest(BTreeSet<(Entry, i64)>);

impl Largest {
    fn add(&mut self, entry: Entry, user: i64) {
        self.0.insert((entry, user));
        if self.0.len() > ENTRIES as usize {
            self.0.pop_first();
        }
    }
}

/// The trades with one item.
#[derive(Debug, Default)]
struct Trades {
    bids: i64,
    highest: Largest,
    sold: i64,
}

/// The sums over all rows that calls have made.
#[derive(Default)]
struct Sums {
    items: BTreeMap<i64, Trades>,
    /// Each receiver's rating.
    ratings: BTreeMap<i64, i64>,
    categories: BTreeMap<i64, Largest>,
    regions: BTreeMap<i64, Largest>,
    /// Rows that calls have made.
    marks: u64,
    wrong: Option<String>,
}

impl Sums {
    fn blame(&mut self, wrong: impl FnOnce() -> String) {
        if self.wrong.is_none() {
            self.wrong = Some(wrong());
        }
    }

    fn trades(&mut self, row: &Row<'_>) -> Result<&mut Trades> {
        self.marks += 1;
        Ok(self.items.entry(row.int("item")?).or_default())
    }

    fn bid(&mut self, row: &Row<'_>) -> Result<()> {
        let trades = self.trades(row)?;
        trades.bids += 1;
        trades.highest.add((row.int("amount")?, row.int("id")?), row.int("bidder")?);
        Ok(())
    }

    fn comment(&mut self, row: &Row<'_>) -> Result<()> {
        self.marks += 1;
        *self.ratings.entry(row.int("receiver")?).or_default() += row.int("rating")?;
        Ok(())
    }

    fn user(&mut self, row: &Row<'_>) -> Result<()> {
        let (id, rating) = (row.int("id")?, row.int("rating")?);
        self.marks += u64::from(id >= FIRST_MADE);
        let expected = self.ratings.remove(&id).unwrap_or_default();
        if rating != expected {
            self.blame(|| {
                format!("user {id} has the rating {rating}, but its comments add up to {expected}")
            });
        }
        Ok(())
    }

    fn item(&mut self, row: &Row<'_>) -> Result<()> {
        let int = |column: &str| row.int(column);
        let (id, bids, max_bid) = (int("id")?, int("bids")?, int("max_bid")?);
        self.marks += u64::from(id >= FIRST_MADE);
        let entry = ((int("date")?, id), int("seller")?);
        self.categories.entry(int("category")?).or_default().add(entry.0, entry.1);
        self.regions.entry(int("region")?).or_default().add(entry.0, entry.1);
        let none = Trades::default();
        let trades = self.items.get(&id).unwrap_or(&none);
        let highest = trades.highest.0.last().map_or(0, |((amount, _), _)| *amount);
        let (expected, sold) = (trades.bids, trades.sold);
        if (bids, max_bid) != (expected, highest) {
            self.blame(|| {
                format!("item {id} has {bids} bids up to {max_bid}, but there are {expected} up to {highest}")
            });
        }
        let quantity = int("quantity")?;
        if quantity != QUANTITY - sold {
            self.blame(|| {
                format!("item {id} has {quantity} pieces left of {QUANTITY}, of which {sold} are sold")
            });
        }
        Ok(())
    }

    /// An item's list of bids; it is looked at once.
    fn bids(&mut self, row: &Row<'_>) -> Result<()> {
        let id = row.int("id")?;
        let trades = self.items.remove(&id).unwrap_or_default();
        let list = Largest(entries(row, "highest")?.into_iter().collect());
        let winner = row.ordered_tuple("winner")?.and_then(|winner| entry_of(&winner));
        let expected = trades.highest.0.last().copied();
        if list != trades.highest {
            self.blame(|| format!("the highest bids for item {id} are {:?}, not {list:?}", trades.highest));
        }
        if winner != expected {
            self.blame(|| format!("item {id} is won by {winner:?}, but the highest bid is {expected:?}"));
        }
        Ok(())
    }
}

/// Compares the lists of newest items with the items.
fn lists(snapshot: &Snapshot, table: &Table, expected: BTreeMap<i64, Largest>) -> Result<Option<String>> {
    let (wrong, _) = scan::fold_in(snapshot, table, (None, expected), |(wrong, expected), row| {
        let id = row.int("id")?;
        let list = Largest(entries(row, "newest")?.into_iter().collect());
        let newest = expected.remove(&id).unwrap_or_default();
        if list != newest && wrong.is_none() {
            *wrong = Some(format!("list {id} of {} is {list:?}, not {newest:?}", table.name()));
        }
        Ok(())
    })?;
    Ok(wrong)
}

/// The tables, if all of them are there: a load may have been cut short.
fn tables(db: &Database) -> Result<Option<Tables>> {
    match Tables::open(db) {
        Ok(tables) => Ok(Some(tables)),
        Err(Error::UnknownTable { .. }) => Ok(None),
        Err(other) => Err(other),
    }
}

fn sums(snapshot: &Snapshot, tables: &Tables) -> Result<Sums> {
    let sums = scan::fold_in(snapshot, &tables.bid, Sums::default(), Sums::bid)?;
    let sums = scan::fold_in(snapshot, &tables.buy_now, sums, |sums, row| {
        sums.trades(row)?.sold += 1;
        Ok(())
    })?;
    let sums = scan::fold_in(snapshot, &tables.comment, sums, Sums::comment)?;
    let sums = scan::fold_in(snapshot, &tables.user, sums, Sums::user)?;
    let sums = scan::fold_in(snapshot, &tables.item, sums, Sums::item)?;
    let mut sums = scan::fold_in(snapshot, &tables.item_bids, sums, Sums::bids)?;
    if let Some((user, _)) = sums.ratings.pop_first() {
        sums.blame(|| format!("there are comments on user {user}, which there is not"));
    }
    if let Some((item, _)) = sums.items.pop_first() {
        sums.blame(|| format!("there are bids or purchases of item {item}, which there is not"));
    }
    Ok(sums)
}

/// Rows that committed calls have made.
pub(super) fn marks(db: &Database) -> crate::Result<u64> {
    let Some(tables) = tables(db)? else { return Ok(0) };
    let made = |marks: &mut u64, row: &Row<'_>| {
        *marks += u64::from(row.int("id")? >= FIRST_MADE);
        Ok(())
    };
    let all = [&tables.bid, &tables.buy_now, &tables.comment, &tables.user, &tables.item];
    let count = |snapshot: &Snapshot| {
        all.into_iter().try_fold(0, |marks, table| scan::fold_in(snapshot, table, marks, made))
    };
    Ok(db.read(count)?)
}

/// The highest number of a row; 0: there is none.
pub(super) fn highest_number(db: &Database, tables: &Tables) -> Result<i64> {
    let highest = |highest: &mut i64, row: &Row<'_>| {
        *highest = (*highest).max(row.int("id")?);
        Ok(())
    };
    let all = [&tables.bid, &tables.buy_now, &tables.comment, &tables.user, &tables.item];
    db.read(|snapshot| {
        all.into_iter().try_fold(0, |number, table| scan::fold_in(snapshot, table, number, highest))
    })
}

/// Checks everything, and the number of marks where it is known.
pub(super) fn check(db: &Database, marks: Option<u64>) -> std::result::Result<(), String> {
    let failed = |error: Error| format!("the site can't be read: {error}");
    let Some(tables) = tables(db).map_err(failed)? else {
        let lost = marks.unwrap_or(0) > 0;
        return if lost { Err("tables of the site are missing".to_owned()) } else { Ok(()) };
    };
    let found = db.read(|snapshot| {
        let mut sums = sums(snapshot, &tables)?;
        let (categories, regions) = (std::mem::take(&mut sums.categories), std::mem::take(&mut sums.regions));
        let category = lists(snapshot, &tables.category_items, categories)?;
        let region = lists(snapshot, &tables.region_items, regions)?;
        sums.wrong = sums.wrong.or(category).or(region);
        Ok(sums)
    });
    let found = found.map_err(failed)?;
    match (found.wrong, marks) {
        (Some(wrong), _) => Err(wrong),
        (None, Some(marks)) if marks != found.marks => {
            Err(format!("calls have made {} rows, but {marks} were committed", found.marks))
        }
        _ => Ok(()),
    }
}

/// Looks for what was acknowledged.
pub(super) fn check_acknowledged(db: &Database, keys: &[String]) -> std::result::Result<(), String> {
    let failed = |error: Error| format!("the site can't be read: {error}");
    let tables = match tables(db).map_err(failed)? {
        Some(tables) => tables,
        None if keys.is_empty() => return Ok(()),
        None => return Err(format!("{} calls were acknowledged, but there are no tables", keys.len())),
    };
    let snapshot = db.snapshot().map_err(failed)?;
    for text in keys {
        let parts = integers_of_key(text, 3)?;
        let table = match usize::try_from(parts[0]) {
            Ok(STORE_BID) => &tables.bid,
            Ok(STORE_BUY_NOW) => &tables.buy_now,
            Ok(STORE_COMMENT) => &tables.comment,
            _ => return Err(format!("the acknowledged key {text:?} was not written by this workload")),
        };
        if !snapshot.exists(table, key![parts[1], parts[2]]).map_err(failed)? {
            return Err(format!("what was acknowledged as {text} is not in {}", table.name()));
        }
    }
    Ok(())
}
