//! Whether the books agree: the consistency conditions 1 to 12 of clause 3.3.2, each by its number, and what stocks and
//! customers count themselves.
//!
//! Condition 11 is meant for a database in which nothing has been delivered yet; here it counts the deliveries besides,
//! which the customers know.
//!
//! Orders and payments leave a mark each, which a row shows. How many orders a delivery finds can't be known before: its
//! marks are many, and marks are compared up to a multiple of them.

mod books;
mod conditions;

use heddledb::{Database, key};

use self::books::Books;
use super::tables::{HISTORY, ORDERS};
use crate::scan;
use crate::workload::integers_of_key;

/// Marks of an order or a payment: a row.
pub(super) const INSERTED: u32 = 1;
/// Marks of a delivery.
pub(super) const DELIVERED: u32 = 65_537;

/// Acknowledged keys looked up per transaction.
const BATCH: usize = 1_000;

/// The marks that calls have left, as far as rows show them.
pub(super) fn marks(db: &Database) -> crate::Result<u64> {
    let mut marks = 0;
    for name in [ORDERS, HISTORY] {
        if let Some(table) = scan::table_if_there(db, name)? {
            marks += scan::count(db, &table)?;
        }
    }
    Ok(marks)
}

/// Checks all conditions, and the marks where they are known.
pub(super) fn check(db: &Database, marks: Option<u64>) -> Result<(), String> {
    let books = Books::read(db).map_err(|error| format!("the books can't be read: {error}"))?;
    conditions::check(&books)?;
    let (found, modulus) = (books.orders_and_payments(), u64::from(DELIVERED));
    match marks {
        Some(marks) if marks % modulus != found % modulus => Err(format!(
            "there are {found} orders and payments, but {} (or a multiple of {modulus} more) were committed",
            marks % modulus
        )),
        _ => Ok(()),
    }
}

/// Checks that the history of every acknowledged payment is there.
pub(super) fn check_acknowledged(db: &Database, keys: &[String]) -> Result<(), String> {
    let history = match scan::table_if_there(db, HISTORY) {
        Ok(Some(history)) => history,
        Ok(None) if keys.is_empty() => return Ok(()),
        Ok(None) => {
            return Err(format!("{} payments were acknowledged, but there is no history", keys.len()));
        }
        Err(error) => return Err(format!("the history can't be read: {error}")),
    };
    for batch in keys.chunks(BATCH) {
        let parsed = batch.iter().map(|key| integers_of_key(key, 3)).collect::<Result<Vec<_>, _>>()?;
        let lost = db.run(|tx| {
            for (key, text) in parsed.iter().zip(batch) {
                if !tx.exists(&history, key![key[0], key[1], key[2]])? {
                    return Ok(Some(text));
                }
            }
            Ok(None)
        });
        match lost {
            Ok(None) => {}
            Ok(Some(key)) => return Err(format!("the payment acknowledged as {key} is not in the history")),
            Err(error) => return Err(format!("the history can't be read: {error}")),
        }
    }
    Ok(())
}
