//! Checks that stock, orders, ledger and leaderboard agree, in one snapshot: at the end, and during the run.

use std::collections::BTreeSet;

use heddledb::{Database, Error, Range, Snapshot, Table, Value, key};

use super::{BOARD, ITEM, LEDGER, THE_BOARD, TOP, board_entry};
use crate::scan;
use crate::workload::integers_of_key;

/// The sums of all items.
#[derive(Default)]
struct Items {
    /// The orders of each item, from 1 on.
    orders: Vec<i64>,
    views: i64,
    /// The first item that is wrong on its own.
    wrong: Option<String>,
}

/// The sums of the ledger.
struct Ledger {
    /// The orders of each item, from 1 on.
    orders: Vec<i64>,
    /// Orders of items that there are not.
    strange: Option<i64>,
    /// The largest orders: amount, caller, number.
    largest: BTreeSet<(i64, i64, i64)>,
}

/// Orders and views that were committed.
pub(super) fn marks(db: &Database) -> crate::Result<u64> {
    let Some(table) = scan::table_if_there(db, ITEM)? else { return Ok(0) };
    let items = db.read(|snapshot| items(snapshot, &table))?;
    Ok((items.orders.iter().sum::<i64>() + items.views).unsigned_abs())
}

/// The highest caller in the ledger; 0: there is none.
pub(super) fn highest_caller(db: &Database, ledger: &Table) -> heddledb::Result<i64> {
    db.read(|snapshot| {
        let mut last = snapshot.scan(ledger, Range::all().reverse().limit(1))?;
        last.next().map_or(Ok(0), |row| row?.row().int("caller"))
    })
}

/// Checks everything, and the number of marks where it is known. Tables that are missing count as empty, because a load may
/// have been cut short.
pub(super) fn check(db: &Database, marks: Option<u64>) -> Result<(), String> {
    let failed = |error: Error| format!("the sale can't be read: {error}");
    let table = |name| scan::table_if_there(db, name).map_err(failed);
    let (Some(item), Some(board), Some(ledger)) = (table(ITEM)?, table(BOARD)?, table(LEDGER)?) else {
        return if marks.unwrap_or(0) == 0 {
            Ok(())
        } else {
            Err("tables of the sale are missing".to_owned())
        };
    };
    let snapshot = db.snapshot().map_err(failed)?;
    let items = items(&snapshot, &item).map_err(failed)?;
    let ledger = ledger_of(&snapshot, &ledger, items.orders.len()).map_err(failed)?;
    if let Some(wrong) = items.wrong {
        return Err(wrong);
    }
    if let Some(strange) = ledger.strange {
        return Err(format!("the ledger has an order of item {strange}, which there is not"));
    }
    let of_items = items.orders.iter().zip(&ledger.orders).zip(1..);
    if let Some(((orders, entered), id)) =
        of_items.into_iter().find(|((orders, entered), _)| orders != entered)
    {
        return Err(format!("item {id} has {orders} orders, but {entered} in the ledger"));
    }
    let largest = board_of(&snapshot, &board).map_err(failed)?;
    if largest.as_ref().is_some_and(|largest| *largest != ledger.largest) {
        return Err(format!(
            "the leaderboard has {largest:?}, but the largest orders are {:?}",
            ledger.largest
        ));
    }
    let found = (items.orders.iter().sum::<i64>() + items.views).unsigned_abs();
    match marks {
        Some(marks) if marks != found => {
            Err(format!("there are {found} orders and views, but {marks} were committed"))
        }
        _ => Ok(()),
    }
}

/// Looks for acknowledged orders in the ledger.
pub(super) fn check_acknowledged(db: &Database, keys: &[String]) -> Result<(), String> {
    let failed = |error: Error| format!("the ledger can't be read: {error}");
    let ledger = match scan::table_if_there(db, LEDGER).map_err(failed)? {
        Some(ledger) => ledger,
        None if keys.is_empty() => return Ok(()),
        None => return Err(format!("{} orders were acknowledged, but there is no ledger", keys.len())),
    };
    let snapshot = db.snapshot().map_err(failed)?;
    for text in keys {
        let order = integers_of_key(text, 2)?;
        if !snapshot.exists(&ledger, key![order[0], order[1]]).map_err(failed)? {
            return Err(format!("the order acknowledged as {text} is not in the ledger"));
        }
    }
    Ok(())
}

fn items(snapshot: &Snapshot, table: &Table) -> heddledb::Result<Items> {
    scan::fold_in(snapshot, table, Items::default(), |items, row| {
        let int = |column: &str| row.int(column);
        let (id, offered, stock, orders) = (int("id")?, int("offered")?, int("stock")?, int("orders")?);
        let place = usize::try_from(id).unwrap_or_default();
        if items.orders.len() < place {
            items.orders.resize(place, 0);
        }
        if let Some(of_item) = place.checked_sub(1).and_then(|place| items.orders.get_mut(place)) {
            *of_item = orders;
        }
        items.views += int("views")?;
        if (stock < 0 || offered - stock != orders) && items.wrong.is_none() {
            items.wrong = Some(format!(
                "item {id} has {stock} of {offered} in stock, and {orders} orders, which does not add up"
            ));
        }
        Ok(())
    })
}

fn ledger_of(snapshot: &Snapshot, table: &Table, items: usize) -> heddledb::Result<Ledger> {
    let nothing = Ledger { orders: vec![0; items], strange: None, largest: BTreeSet::new() };
    scan::fold_in(snapshot, table, nothing, |ledger, row| {
        let item = row.int("item")?;
        let place = usize::try_from(item - 1).ok();
        match place.and_then(|place| ledger.orders.get_mut(place)) {
            Some(orders) => *orders += 1,
            None => ledger.strange = Some(item),
        }
        ledger.largest.insert((row.int("amount")?, row.int("caller")?, row.int("number")?));
        if ledger.largest.len() > TOP as usize {
            ledger.largest.pop_first();
        }
        Ok(())
    })
}

/// The orders on the leaderboard; `None` if it has no row yet.
fn board_of(snapshot: &Snapshot, table: &Table) -> heddledb::Result<Option<BTreeSet<(i64, i64, i64)>>> {
    let Some(row) = snapshot.get(table, key![THE_BOARD])? else { return Ok(None) };
    let Value::TopK(largest) = row.row().get("largest")?.to_value() else { return Ok(None) };
    let entries = largest.rows(&board_entry()?)?.into_iter().map(|entry| match entry[..] {
        [Value::Int(amount), Value::Int(caller), Value::Int(number), _] => (amount, caller, number),
        _ => (0, 0, 0),
    });
    Ok(Some(entries.collect()))
}
