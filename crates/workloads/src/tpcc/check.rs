//! Checks that the books agree: the consistency conditions 1 to 12 of clause 3.3.2, each by its number, and
//! what stocks and customers count themselves.
//!
//! Condition 11 is meant for a database in which nothing has been delivered yet; here it counts the deliveries besides,
//! which the customers know.
//!
//! Orders and payments leave a mark each, which a row shows. How many orders a delivery finds can't be known before: its
//! marks are many, and marks are compared up to a multiple of them.

mod books;
mod conditions;

use heddledb::Database;

use self::books::Books;
use super::tables::{HISTORY, ORDERS};
use crate::scan;

/// Marks of an order or a payment: a row.
pub(super) const INSERTED: u32 = 1;
/// Marks of a delivery.
pub(super) const DELIVERED: u32 = 65_537;

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
    scan::check_acknowledged(db, HISTORY, "payment", keys)
}
