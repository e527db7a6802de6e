//! Delivery (clause 2.7): the oldest order of each of the ten districts that has not been delivered, in one transaction.
//!
//! A district without one is left out, and that is no failure.

use heddledb::{Action, ActionContext, ProcedureDefinition, Range, Result, Timestamp, Value, key};

use super::{cents, missing, push, with_parameters};
use crate::pause::Pause;
use crate::tpcc::load::money;
use crate::tpcc::tables::{DISTRICTS, Tables};

/// Places of the call's arguments.
const WAREHOUSE: usize = 0;
const CARRIER: usize = 1;
const DATE: usize = 2;

/// Numbers of values, for each district.
mod value {
    use super::DISTRICTS;

    /// The order that is delivered; NULL: there is none.
    pub const fn order(district: i64) -> usize {
        (district - 1) as usize
    }

    pub const fn customer(district: i64) -> usize {
        (district - 1 + DISTRICTS) as usize
    }

    /// The place of the order's value, in cents.
    pub const fn amount(district: i64) -> usize {
        (district - 1 + 2 * DISTRICTS) as usize
    }
}

pub(super) fn definition(tables: &Tables, pause: Pause) -> Result<ProcedureDefinition> {
    Ok(with_parameters("delivery", ["w_id", "o_carrier_id", "ol_delivery_d"])
        .phase([oldest(tables, pause)?])
        .phase([orders(tables, pause)?, lines(tables, pause)?])
        .phase([customers(tables, pause)?]))
}

/// Takes the oldest new order of each district away.
fn oldest(tables: &Tables, pause: Pause) -> Result<Action> {
    let (table, id) = (tables.new_order.clone(), tables.new_order.column("no_o_id")?);
    let take = Action::write(&tables.new_order)
        .each(
            |_| Ok(DISTRICTS as usize),
            |args, place, key| {
                push(args, [WAREHOUSE], key)?;
                key.push(place as i64 + 1)
            },
        )
        .body(move |action: &ActionContext, place| {
            let (warehouse, district, tx) = (action.args().int(WAREHOUSE)?, place as i64 + 1, action.tx());
            let oldest = tx.scan(&table, Range::prefix(key![warehouse, district]).limit(1))?.next();
            let order = match oldest {
                None => Value::Null,
                Some(row) => {
                    let order = row?.int(id)?;
                    tx.delete(&table, key![warehouse, district, order])?;
                    Value::Int(order)
                }
            };
            action.set_value(value::order(district), order);
            pause.take();
            Ok(())
        });
    Ok(take)
}

/// Calls `each` with the district and the number of every order that is delivered.
fn for_each_order(
    action: &ActionContext<'_, '_>,
    mut each: impl FnMut(i64, i64) -> Result<()>,
) -> Result<()> {
    for district in 1..=DISTRICTS {
        if let Value::Int(order) = *action.values().get(value::order(district))? {
            each(district, order)?;
        }
    }
    Ok(())
}

fn orders(tables: &Tables, pause: Pause) -> Result<Action> {
    let table = tables.orders.clone();
    let (carrier, customer) = (table.column("o_carrier_id")?, table.column("o_c_id")?);
    let update = Action::write(&tables.orders).key(|args, key| push(args, [WAREHOUSE], key)).body(
        move |action: &ActionContext| {
            let (args, tx) = (action.args(), action.tx());
            let warehouse = args.int(WAREHOUSE)?;
            for_each_order(action, |district, order| {
                let key = key![warehouse, district, order];
                let row = tx.get(&table, key)?.ok_or_else(|| missing("orders", args))?;
                action.set_value(value::customer(district), row.int(customer)?);
                tx.update(&table, key, &[(carrier, args.int(CARRIER)?.into())])?;
                pause.take();
                Ok(())
            })
        },
    );
    Ok(update)
}

fn lines(tables: &Tables, pause: Pause) -> Result<Action> {
    let table = tables.order_line.clone();
    let (number, amount, delivered) =
        (table.column("ol_number")?, table.column("ol_amount")?, table.column("ol_delivery_d")?);
    let update = Action::write(&tables.order_line).key(|args, key| push(args, [WAREHOUSE], key)).body(
        move |action: &ActionContext| {
            let (args, tx) = (action.args(), action.tx());
            let (warehouse, now) = (args.int(WAREHOUSE)?, Timestamp::from_microseconds(args.int(DATE)?)?);
            for_each_order(action, |district, order| {
                let mut sum = 0;
                for row in tx.scan(&table, Range::prefix(key![warehouse, district, order]))? {
                    let row = row?;
                    sum += cents(&row, amount)?;
                    let key = key![warehouse, district, order, row.int(number)?];
                    tx.update(&table, key, &[(delivered, now.into())])?;
                }
                action.set_value(value::amount(district), sum);
                pause.take();
                Ok(())
            })
        },
    );
    Ok(update)
}

fn customers(tables: &Tables, pause: Pause) -> Result<Action> {
    let table = tables.customer.clone();
    let (balance, deliveries) = (table.column("c_balance")?, table.column("c_delivery_cnt")?);
    let add = Action::commute(&tables.customer).key(|args, key| push(args, [WAREHOUSE], key)).body(
        move |action: &ActionContext| {
            let (tx, values) = (action.tx(), action.values());
            let warehouse = action.args().int(WAREHOUSE)?;
            for_each_order(action, |district, _| {
                let key = key![warehouse, district, values.int(value::customer(district))?];
                tx.add(&table, key, balance, money(values.int(value::amount(district))?)?)?;
                tx.add(&table, key, deliveries, 1)?;
                pause.take();
                Ok(())
            })
        },
    );
    Ok(add)
}
