//! Stock level (clause 2.8): how many of the items in a district's last twenty orders are running out.

use std::hint::black_box;

use heddledb::{Action, ActionContext, ProcedureDefinition, Range, Result, key};

use super::{missing, push, with_parameters};
use crate::pause::Pause;
use crate::tpcc::tables::Tables;

/// Places of the call's arguments.
const WAREHOUSE: usize = 0;
const DISTRICT: usize = 1;
const THRESHOLD: usize = 2;

/// Number of orders that are examined.
const ORDERS: i64 = 20;

/// Numbers of values.
const NEXT_ORDER: usize = 0;
/// The items, every one once: a vector.
const ITEMS: usize = 1;

pub(super) fn definition(tables: &Tables, pause: Pause) -> Result<ProcedureDefinition> {
    Ok(with_parameters("stock-level", ["w_id", "d_id", "threshold"])
        .phase([district(tables, pause)?])
        .phase([lines(tables, pause)?])
        .phase([stocks(tables, pause)?]))
}

fn district(tables: &Tables, pause: Pause) -> Result<Action> {
    let next = tables.district.column("d_next_o_id")?;
    let read = Action::read(&tables.district).key(|args, key| push(args, [WAREHOUSE, DISTRICT], key)).body(
        move |action: &ActionContext| {
            let row = action.get()?.ok_or_else(|| missing("district", action.args()))?;
            action.set_value(NEXT_ORDER, row.int(next)?);
            pause.take();
            Ok(())
        },
    );
    Ok(read)
}

fn lines(tables: &Tables, pause: Pause) -> Result<Action> {
    let (table, item) = (tables.order_line.clone(), tables.order_line.column("ol_i_id")?);
    let read = Action::read(&tables.order_line).key(|args, key| push(args, [WAREHOUSE, DISTRICT], key)).body(
        move |action: &ActionContext| {
            let args = action.args();
            let (warehouse, district) = (args.int(WAREHOUSE)?, args.int(DISTRICT)?);
            let next = action.values().int(NEXT_ORDER)?;
            let mut items = Vec::with_capacity(15 * ORDERS as usize);
            let last_orders = Range::prefix(key![warehouse, district])
                .starting_at(key![warehouse, district, next - ORDERS])
                .to(key![warehouse, district, next]);
            for row in action.tx().scan(&table, last_orders)? {
                items.push(row?.int(item)?);
            }
            items.sort_unstable();
            items.dedup();
            action.set_any(ITEMS, items);
            pause.take();
            Ok(())
        },
    );
    Ok(read)
}

fn stocks(tables: &Tables, pause: Pause) -> Result<Action> {
    let (table, quantity) = (tables.stock.clone(), tables.stock.column("s_quantity")?);
    let read = Action::read(&tables.stock).key(|args, key| push(args, [WAREHOUSE], key)).body(
        move |action: &ActionContext| {
            let (args, tx) = (action.args(), action.tx());
            let (warehouse, threshold) = (args.int(WAREHOUSE)?, args.int(THRESHOLD)?);
            let items = action.values().any::<Vec<i64>>(ITEMS)?;
            let mut running_out = 0;
            let keys = items.iter().map(|item| key![warehouse, item]);
            tx.get_each(&table, keys, |row| {
                let row = row.ok_or_else(|| missing("stock", args))?;
                running_out += i64::from(row.int(quantity)? < threshold);
                Ok(())
            })?;
            black_box(running_out);
            pause.take();
            Ok(())
        },
    );
    Ok(read)
}
