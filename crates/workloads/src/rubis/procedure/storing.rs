//! The five transactions that write: inserts, and operations that commute.

use heddledb::{Action, ProcedureDefinition, Result, Table, row};

use super::{Bid, NewUser, Offer, Remark};
use crate::pause::Pause;
use crate::rubis::lists::nothing;
use crate::rubis::tables::{NewItem, Tables};
use crate::rubis::transaction::{NAMES, REGISTER_USER, STORE_BID, STORE_BUY_NOW, STORE_COMMENT, STORE_ITEM};

/// The definitions, each at its place behind those that only read.
pub(super) fn definitions(tables: &Tables, pause: Pause) -> Result<Vec<ProcedureDefinition>> {
    let new = |place: usize| ProcedureDefinition::new(NAMES[place]);
    Ok(vec![
        new(REGISTER_USER).phase([register(tables, pause)]),
        new(STORE_ITEM).phase([
            offer(tables, pause),
            without_bids(tables, pause)?,
            enter(&tables.category_items, |offer| offer.category, pause),
            enter(&tables.region_items, |offer| offer.region, pause),
        ]),
        new(STORE_BID).phase([bid(tables, pause), count(tables, pause)?, rank(tables, pause)?]),
        new(STORE_BUY_NOW).phase([take(tables, pause)?, buy(tables, pause)]),
        new(STORE_COMMENT).phase([comment(tables, pause), rate(tables, pause)?]),
    ])
}

fn register(tables: &Tables, pause: Pause) -> Action {
    Action::write(&tables.user).with::<NewUser>().key(|user, key| key.push(user.id)).body(
        move |user, action| {
            let name = format!("user{}", user.id);
            action.insert(row![user.id, user.region, user.date, 0, name.as_str()])?;
            pause.take();
            Ok(())
        },
    )
}

fn offer(tables: &Tables, pause: Pause) -> Action {
    Action::write(&tables.item).with::<Offer>().key(|offer, key| key.push(offer.id)).body(
        move |offer, action| {
            let item = NewItem {
                id: offer.id,
                seller: offer.seller,
                category: offer.category,
                region: offer.region,
                date: offer.date,
            };
            action.insert(item.row(&item.name()))?;
            pause.take();
            Ok(())
        },
    )
}

/// The lists of an item without bids.
fn without_bids(tables: &Tables, pause: Pause) -> Result<Action> {
    let nothing = nothing()?;
    Ok(Action::write(&tables.item_bids).with::<Offer>().key(|offer, key| key.push(offer.id)).body(
        move |offer, action| {
            action.insert(row![offer.id, None::<i64>, &nothing])?;
            pause.take();
            Ok(())
        },
    ))
}

/// The item in a list of newest ones.
fn enter(list: &Table, key_of: fn(Offer) -> i64, pause: Pause) -> Action {
    Action::commute(list).with::<Offer>().key(move |offer, key| key.push(key_of(offer))).body(
        move |offer, action| {
            action.top_k_insert("newest", &row![offer.date, offer.id], &row![offer.seller])?;
            pause.take();
            Ok(())
        },
    )
}

fn bid(tables: &Tables, pause: Pause) -> Action {
    let key_of = |bid: Bid| [bid.bidder, bid.id];
    Action::write(&tables.bid)
        .with::<Bid>()
        .key(move |bid, key| key_of(bid).into_iter().try_for_each(|part| key.push(part)))
        .body(move |bid, action| {
            action.insert(row![bid.bidder, bid.id, bid.item, bid.amount, bid.date])?;
            pause.take();
            Ok(())
        })
}

/// One bid more for the item, and perhaps the highest one.
fn count(tables: &Tables, pause: Pause) -> Result<Action> {
    let (bids, max_bid) = (tables.item.column("bids")?, tables.item.column("max_bid")?);
    Ok(Action::commute(&tables.item).with::<Bid>().key(|bid, key| key.push(bid.item)).body(
        move |bid, action| {
            action.add(bids, 1)?;
            action.max(max_bid, bid.amount)?;
            pause.take();
            Ok(())
        },
    ))
}

/// The bid's bidder, if it is the highest one, and its place among the highest.
fn rank(tables: &Tables, pause: Pause) -> Result<Action> {
    let (winner, highest) = (tables.item_bids.column("winner")?, tables.item_bids.column("highest")?);
    Ok(Action::commute(&tables.item_bids).with::<Bid>().key(|bid, key| key.push(bid.item)).body(
        move |bid, action| {
            let (order, payload) = (row![bid.amount, bid.id], row![bid.bidder]);
            action.ordered_put(winner, &order, &payload)?;
            action.top_k_insert(highest, &order, &payload)?;
            pause.take();
            Ok(())
        },
    ))
}

/// One piece less.
fn take(tables: &Tables, pause: Pause) -> Result<Action> {
    let quantity = tables.item.column("quantity")?;
    Ok(Action::commute(&tables.item).with::<Bid>().key(|sale, key| key.push(sale.item)).body(
        move |_, action| {
            action.add(quantity, -1)?;
            pause.take();
            Ok(())
        },
    ))
}

fn buy(tables: &Tables, pause: Pause) -> Action {
    Action::write(&tables.buy_now)
        .with::<Bid>()
        .key(|sale, key| {
            key.push(sale.bidder)?;
            key.push(sale.id)
        })
        .body(move |sale, action| {
            action.insert(row![sale.bidder, sale.id, sale.item, sale.date])?;
            pause.take();
            Ok(())
        })
}

fn comment(tables: &Tables, pause: Pause) -> Action {
    Action::write(&tables.comment)
        .with::<Remark>()
        .key(|remark, key| {
            key.push(remark.receiver)?;
            key.push(remark.id)
        })
        .body(move |remark, action| {
            action.insert(row![
                remark.receiver,
                remark.id,
                remark.author,
                remark.item,
                remark.rating,
                remark.date
            ])?;
            pause.take();
            Ok(())
        })
}

/// The comment's rating, at its receiver's.
fn rate(tables: &Tables, pause: Pause) -> Result<Action> {
    let rating = tables.user.column("rating")?;
    Ok(Action::commute(&tables.user).with::<Remark>().key(|remark, key| key.push(remark.receiver)).body(
        move |remark, action| {
            action.add(rating, remark.rating)?;
            pause.take();
            Ok(())
        },
    ))
}
