//! New order (clause 2.4): an order of 5 to 15 lines, each of which takes its item from a warehouse's stock.
//!
//! Items and stocks are one action each, repeated for each line, so that all records of an order are known beforehand.
//! One order in a hundred names an item that there is not: it fails when all the rest has been done.

use std::hint::black_box;
use std::sync::Arc;

use heddledb::{Action, ActionContext, Args, ProcedureDefinition, Result, Value, ValueRef, fail, row};

use super::{MOST_LINES, cents, missing, push, with_parameters};
use crate::pause::Pause;
use crate::tpcc::load::money;
use crate::tpcc::random_values::is_original;
use crate::tpcc::tables::{DISTRICTS, Tables, dist_column};

/// The reason of an order that names an item that there is not.
pub(in crate::tpcc) const UNUSED_ITEM: &str = "item number is not valid";

/// Places of the call's arguments.
pub(in crate::tpcc) mod argument {
    pub const WAREHOUSE: usize = 0;
    pub const DISTRICT: usize = 1;
    pub const CUSTOMER: usize = 2;
    pub const LINES: usize = 3;
    pub const DATE: usize = 4;

    /// The place of a line's three arguments: item, supplying warehouse, quantity.
    pub const fn of_line(line: usize) -> usize {
        5 + 3 * line
    }
    pub const ITEM: usize = 0;
    pub const SUPPLIER: usize = 1;
    pub const QUANTITY: usize = 2;
}
use argument::*;

/// Numbers of values.
mod value {
    pub const ORDER: usize = 0;
    pub const WAREHOUSE_TAX: usize = 1;
    pub const DISTRICT_TAX: usize = 2;
    pub const DISCOUNT: usize = 3;

    /// The price of a line's item, twice, and one more if it is original; NULL if there is no such item.
    pub const fn price(line: usize) -> usize {
        4 + line
    }

    /// The place of the stock's information about the district, behind [`ORIGINAL`](super::ORIGINAL) or
    /// [`GENERIC`](super::GENERIC); NULL if there is no such stock.
    pub const fn info(lines: usize, line: usize) -> usize {
        4 + lines + line
    }
}

/// Prefixes of a stock's information: its data say that it is original, or not.
const ORIGINAL: char = 'B';
const GENERIC: char = 'G';

pub(super) fn definition(tables: &Tables, pause: Pause) -> Result<ProcedureDefinition> {
    let mut definition = with_parameters("new-order", ["w_id", "d_id", "c_id", "o_ol_cnt", "o_entry_d"]);
    for line in 1..=MOST_LINES {
        let names = ["i_id", "supply_w_id", "quantity"].map(|name| format!("{name}_{line}"));
        definition = names
            .into_iter()
            .fold(definition, |definition, name| definition.parameter(name, heddledb::DataType::Int64));
    }
    Ok(definition
        .phase([
            district(tables, pause)?,
            warehouse(tables, pause)?,
            customer(tables, pause)?,
            items(tables, pause)?,
            stocks(tables, pause)?,
        ])
        .phase([orders(tables, pause), new_order(tables, pause), order_lines(tables, pause)]))
}

/// The number of an order's lines; at most as many as there are arguments.
fn lines(args: &Args) -> Result<usize> {
    Ok(usize::try_from(args.int(LINES)?).map_or(0, |lines| lines.min(MOST_LINES)))
}

/// An argument of a line.
#[inline]
fn of(args: &Args, line: usize, place: usize) -> Result<i64> {
    args.int(of_line(line) + place)
}

/// Takes the next order number.
fn district(tables: &Tables, pause: Pause) -> Result<Action> {
    let (tax, next) = (tables.district.column("d_tax")?, tables.district.column("d_next_o_id")?);
    let take = Action::write(&tables.district).key(|args, key| push(args, [WAREHOUSE, DISTRICT], key)).body(
        move |action: &ActionContext| {
            let row = action.get()?.ok_or_else(|| missing("district", action.args()))?;
            let order = row.int(next)?;
            action.update(&[(next, (order + 1).into())])?;
            action.set_value(value::ORDER, order);
            action.set_value(value::DISTRICT_TAX, row.decimal(tax)?.unscaled() as i64);
            pause.take();
            Ok(())
        },
    );
    Ok(take)
}

fn warehouse(tables: &Tables, pause: Pause) -> Result<Action> {
    let tax = tables.warehouse.column("w_tax")?;
    let read = Action::read(&tables.warehouse).key(|args, key| push(args, [WAREHOUSE], key)).body(
        move |action: &ActionContext| {
            let row = action.get()?.ok_or_else(|| missing("warehouse", action.args()))?;
            action.set_value(value::WAREHOUSE_TAX, row.decimal(tax)?.unscaled() as i64);
            pause.take();
            Ok(())
        },
    );
    Ok(read)
}

fn customer(tables: &Tables, pause: Pause) -> Result<Action> {
    let discount = tables.customer.column("c_discount")?;
    let (last, credit) = (tables.customer.column("c_last")?, tables.customer.column("c_credit")?);
    let read = Action::read(&tables.customer)
        .key(|args, key| push(args, [WAREHOUSE, DISTRICT, CUSTOMER], key))
        .long_values(move |_, long| long.of(last))
        .body(move |action: &ActionContext| {
            let row = action.get()?.ok_or_else(|| missing("customer", action.args()))?;
            black_box((row.text(last)?, row.text(credit)?));
            action.set_value(value::DISCOUNT, row.decimal(discount)?.unscaled() as i64);
            pause.take();
            Ok(())
        });
    Ok(read)
}

fn items(tables: &Tables, pause: Pause) -> Result<Action> {
    let item = &tables.item;
    let (name, price, data) = (item.column("i_name")?, item.column("i_price")?, item.column("i_data")?);
    let read = Action::read(item)
        .each(lines, |args, line, key| key.push(of(args, line, ITEM)?))
        .long_values(move |_, long| [name, data].into_iter().try_for_each(|column| long.of(column)))
        .body(move |action: &ActionContext, line| {
            let found = match action.get()? {
                None => Value::Null,
                Some(row) => {
                    black_box(row.text(name)?);
                    Value::Int(2 * cents(&row, price)? + i64::from(is_original(row.text(data)?)))
                }
            };
            action.set_value(value::price(line), found);
            pause.take();
            Ok(())
        });
    Ok(read)
}

fn stocks(tables: &Tables, pause: Pause) -> Result<Action> {
    let stock = &tables.stock;
    let column = |name: &str| stock.column(name);
    let (quantity, sum, data) = (column("s_quantity")?, column("s_ytd")?, column("s_data")?);
    let (orders, remote) = (column("s_order_cnt")?, column("s_remote_cnt")?);
    let infos =
        (1..=DISTRICTS).map(|district| column(&dist_column(district))).collect::<Result<Arc<[_]>>>()?;
    let info_of = move |args: &Args| {
        let place = usize::try_from(args.int(DISTRICT)? - 1).ok();
        place.and_then(|place| infos.get(place).copied()).ok_or_else(|| missing("district", args))
    };
    let reported = info_of.clone();
    let take = Action::write(stock)
        .each(lines, |args, line, key| {
            key.push(of(args, line, SUPPLIER)?)?;
            key.push(of(args, line, ITEM)?)
        })
        .long_values(move |args, long| {
            long.of(data)?;
            long.of(reported(args)?)
        })
        .body(move |action: &ActionContext, line| {
            let (args, lines) = (action.args(), lines(action.args())?);
            let Some(row) = action.get()? else {
                // There is no such item either: the order fails by that.
                action.set_value(value::info(lines, line), Value::Null);
                return Ok(());
            };
            let (there, ordered) = (row.int(quantity)?, of(args, line, QUANTITY)?);
            let left = if there >= ordered + 10 { there - ordered } else { there - ordered + 91 };
            action.update(&[(quantity, left.into())])?;
            action.add(sum, ordered)?;
            action.add(orders, 1)?;
            if of(args, line, SUPPLIER)? != args.int(WAREHOUSE)? {
                action.add(remote, 1)?;
            }
            let mut reported = String::with_capacity(32);
            reported.push(if is_original(row.text(data)?) { ORIGINAL } else { GENERIC });
            reported.push_str(row.text(info_of(args)?)?);
            action.set_value(value::info(lines, line), reported);
            pause.take();
            Ok(())
        });
    Ok(take)
}

fn orders(tables: &Tables, pause: Pause) -> Action {
    Action::write(&tables.orders)
        .key(|args, key| push(args, [WAREHOUSE, DISTRICT], key))
        .key_from(|args, values, key| {
            push(args, [WAREHOUSE, DISTRICT], key)?;
            key.push(values.int(value::ORDER)?)
        })
        .body(move |action: &ActionContext| {
            let (args, order) = (action.args(), action.values().int(value::ORDER)?);
            let (warehouse, lines) = (args.int(WAREHOUSE)?, lines(args)?);
            let mut all_local = true;
            for line in 0..lines {
                all_local &= of(args, line, SUPPLIER)? == warehouse;
            }
            action.insert(row![
                warehouse,
                args.int(DISTRICT)?,
                order,
                args.int(CUSTOMER)?,
                heddledb::Timestamp::from_microseconds(args.int(DATE)?)?,
                ValueRef::Null,
                lines as i64,
                i64::from(all_local),
            ])?;
            pause.take();
            Ok(())
        })
}

fn new_order(tables: &Tables, pause: Pause) -> Action {
    Action::write(&tables.new_order)
        .key(|args, key| push(args, [WAREHOUSE, DISTRICT], key))
        .key_from(|args, values, key| {
            push(args, [WAREHOUSE, DISTRICT], key)?;
            key.push(values.int(value::ORDER)?)
        })
        .body(move |action: &ActionContext| {
            let args = action.args();
            let order = action.values().int(value::ORDER)?;
            action.insert(row![args.int(WAREHOUSE)?, args.int(DISTRICT)?, order])?;
            pause.take();
            Ok(())
        })
}

fn order_lines(tables: &Tables, pause: Pause) -> Action {
    Action::write(&tables.order_line)
        .key(|args, key| push(args, [WAREHOUSE, DISTRICT], key))
        .key_from(|args, values, key| {
            push(args, [WAREHOUSE, DISTRICT], key)?;
            key.push(values.int(value::ORDER)?)
        })
        .body(move |action: &ActionContext| {
            let (args, values) = (action.args(), action.values());
            let (warehouse, district) = (args.int(WAREHOUSE)?, args.int(DISTRICT)?);
            let (order, lines) = (values.int(value::ORDER)?, lines(args)?);
            let mut sum = 0;
            for line in 0..lines {
                let Value::Int(price) = *values.get(value::price(line))? else {
                    return Err(fail(UNUSED_ITEM));
                };
                let Value::Text(reported) = values.get(value::info(lines, line))? else {
                    return Err(missing("stock", args));
                };
                let (of_stock, info) = reported.split_at(1);
                let is_generic = of_stock.starts_with(GENERIC) || price & 1 == 0;
                let quantity = of(args, line, QUANTITY)?;
                let amount = quantity * (price >> 1);
                sum += amount;
                black_box(is_generic);
                action.insert(row![
                    warehouse,
                    district,
                    order,
                    line as i64 + 1,
                    of(args, line, ITEM)?,
                    of(args, line, SUPPLIER)?,
                    ValueRef::Null,
                    quantity,
                    money(amount)?,
                    info,
                ])?;
                pause.take();
            }
            let taxes = 10_000 + values.int(value::WAREHOUSE_TAX)? + values.int(value::DISTRICT_TAX)?;
            // What the customer receives.
            black_box(sum * (10_000 - values.int(value::DISCOUNT)?) / 10_000 * taxes / 10_000);
            Ok(())
        })
}
