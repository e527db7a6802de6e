//! The two transactions.

use heddledb::{Action, DataType, Database, Procedure, ProcedureDefinition, Result, row};

use super::{THE_BOARD, Tables};
use crate::pause::Pause;

/// Places of the arguments; a view has the first only.
const ITEM: usize = 0;
const AMOUNT: usize = 1;
pub(super) const CALLER: usize = 2;
pub(super) const NUMBER: usize = 3;

/// Registers `order` and `view`.
pub(super) fn register(db: &Database, tables: &Tables, pause: Pause) -> Result<[Procedure; 2]> {
    let order = ["item", "amount", "caller", "number"]
        .into_iter()
        .fold(ProcedureDefinition::new("order"), |order, name| order.parameter(name, DataType::Int64))
        .phase([take(tables, pause)?, enter(tables, pause), offer(tables, pause)]);
    let view =
        ProcedureDefinition::new("view").parameter("item", DataType::Int64).phase([look(tables, pause)?]);
    Ok([db.register(order)?, db.register(view)?])
}

/// One piece less, one order more.
fn take(tables: &Tables, pause: Pause) -> Result<Action> {
    let (stock, orders) = (tables.item.column("stock")?, tables.item.column("orders")?);
    Ok(Action::commute(&tables.item).key(|args, key| key.push(args.int(ITEM)?)).body(move |action| {
        action.add(stock, -1)?;
        action.add(orders, 1)?;
        pause.take();
        Ok(())
    }))
}

/// The order's row in the ledger.
fn enter(tables: &Tables, pause: Pause) -> Action {
    Action::write(&tables.ledger)
        .key(|args, key| {
            key.push(args.int(CALLER)?)?;
            key.push(args.int(NUMBER)?)
        })
        .body(move |action| {
            let args = action.args();
            let (item, amount) = (args.int(ITEM)?, args.int(AMOUNT)?);
            action.insert(row![args.int(CALLER)?, args.int(NUMBER)?, item, amount])?;
            pause.take();
            Ok(())
        })
}

/// The order may be one of the largest.
fn offer(tables: &Tables, pause: Pause) -> Action {
    Action::commute(&tables.board).key(|_, key| key.push(THE_BOARD)).body(move |action| {
        let args = action.args();
        let order = row![args.int(AMOUNT)?, args.int(CALLER)?, args.int(NUMBER)?];
        action.top_k_insert("largest", &order, &row![args.int(ITEM)?])?;
        pause.take();
        Ok(())
    })
}

/// One look at the item's page more.
fn look(tables: &Tables, pause: Pause) -> Result<Action> {
    let views = tables.item.column("views")?;
    Ok(Action::commute(&tables.item).key(|args, key| key.push(args.int(ITEM)?)).body(move |action| {
        action.add(views, 1)?;
        pause.take();
        Ok(())
    }))
}
