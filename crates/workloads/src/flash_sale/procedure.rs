//! The two transactions.

use heddledb::{Action, Composite, Database, Procedure, ProcedureDefinition, Result, row};

use super::{THE_BOARD, Tables};
use crate::pause::Pause;

/// Places of an order's arguments, for those that read them without the struct.
pub(super) const CALLER: usize = 2;
pub(super) const NUMBER: usize = 3;

/// The arguments of an order.
#[derive(Composite)]
struct Order {
    item: i64,
    amount: i64,
    caller: i64,
    number: i64,
}

/// The arguments of a view.
#[derive(Composite)]
struct View {
    item: i64,
}

/// Registers `order` and `view`.
pub(super) fn register(db: &Database, tables: &Tables, pause: Pause) -> Result<[Procedure; 2]> {
    let order = ProcedureDefinition::new("order").phase([
        take(tables, pause)?,
        enter(tables, pause),
        offer(tables, pause),
    ]);
    let view = ProcedureDefinition::new("view").phase([look(tables, pause)?]);
    Ok([db.register_anonymous(order)?, db.register_anonymous(view)?])
}

/// One piece less, one order more.
fn take(tables: &Tables, pause: Pause) -> Result<Action> {
    let (stock, orders) = (tables.item.column("stock")?, tables.item.column("orders")?);
    Ok(Action::commute(&tables.item).with::<Order>().key(|order, key| key.push(order.item)).body(
        move |_, action| {
            action.add(stock, -1)?;
            action.add(orders, 1)?;
            pause.take();
            Ok(())
        },
    ))
}

/// The order's row in the ledger.
fn enter(tables: &Tables, pause: Pause) -> Action {
    Action::write(&tables.ledger)
        .with::<Order>()
        .key(|order, key| {
            key.push(order.caller)?;
            key.push(order.number)
        })
        .body(move |order, action| {
            action.insert(row![order.caller, order.number, order.item, order.amount])?;
            pause.take();
            Ok(())
        })
}

/// The order may be one of the largest.
fn offer(tables: &Tables, pause: Pause) -> Action {
    Action::commute(&tables.board).with::<Order>().key(|_, key| key.push(THE_BOARD)).body(
        move |order, action| {
            let placed = row![order.amount, order.caller, order.number];
            action.top_k_insert("largest", &placed, &row![order.item])?;
            pause.take();
            Ok(())
        },
    )
}

/// One look at the item's page more.
fn look(tables: &Tables, pause: Pause) -> Result<Action> {
    let views = tables.item.column("views")?;
    Ok(Action::commute(&tables.item).with::<View>().key(|view, key| key.push(view.item)).body(
        move |_, action| {
            action.add(views, 1)?;
            pause.take();
            Ok(())
        },
    ))
}
