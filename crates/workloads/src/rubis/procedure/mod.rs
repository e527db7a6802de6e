//! The transactions as procedures: what they read in `reading`, what they write in `storing`.

mod reading;
mod storing;

use heddledb::{Composite, Database, Procedure, Result, fail};

use super::tables::Tables;
use crate::pause::Pause;

/// The arguments of a transaction that reads: what is looked at.
#[derive(Composite)]
pub(super) struct Look {
    pub id: i64,
    /// The user that a comment form is for.
    pub user: i64,
}

/// The arguments of a new user.
#[derive(Composite)]
pub(super) struct NewUser {
    pub id: i64,
    pub region: i64,
    pub date: i64,
}

/// The arguments of a new item.
#[derive(Composite)]
pub(super) struct Offer {
    pub id: i64,
    pub seller: i64,
    pub category: i64,
    pub region: i64,
    pub date: i64,
}

/// The arguments of a bid, and of a purchase, which has no amount.
#[derive(Composite)]
pub(super) struct Bid {
    pub bidder: i64,
    pub id: i64,
    pub item: i64,
    pub amount: i64,
    pub date: i64,
}

/// The arguments of a comment.
#[derive(Composite)]
pub(super) struct Remark {
    pub receiver: i64,
    pub id: i64,
    pub author: i64,
    pub item: i64,
    pub rating: i64,
    pub date: i64,
}

/// Registers all transactions, each at its place.
pub(super) fn register_all(db: &Database, tables: &Tables, pause: Pause) -> Result<Vec<Procedure>> {
    let definitions =
        reading::definitions(tables, pause)?.into_iter().chain(storing::definitions(tables, pause)?);
    definitions.map(|definition| db.register_anonymous(definition)).collect()
}

fn missing(what: &str) -> heddledb::Error {
    fail(format!("there is no such {what}"))
}
