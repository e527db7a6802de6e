//! Order status (clause 2.6): a customer's last order, and its lines.

use std::hint::black_box;

use heddledb::{Action, ActionContext, ProcedureDefinition, Range, Result, Row, key};

use super::{Search, cents, customer, missing, push, with_parameters};
use crate::pause::Pause;
use crate::tpcc::tables::{BY_CUSTOMER, Tables};

/// Places of the call's arguments.
const WAREHOUSE: usize = 0;
const DISTRICT: usize = 1;
/// The customer's number, or the number of its last name.
const CUSTOMER: usize = 2;

/// Numbers of values.
mod value {
    pub const ORDER: usize = 0;
    pub const CUSTOMER: usize = 1;
}

pub(super) fn definition(tables: &Tables, search: Search, pause: Pause) -> Result<ProcedureDefinition> {
    let names = ["w_id", "d_id", "customer"];
    let (look, last_order) = (look_at_customer(tables, pause)?, last_order(tables, search, pause)?);
    let lines = lines(tables, pause)?;
    Ok(match search {
        Search::ByNumber => {
            let look = look.key(|args, key| push(args, [WAREHOUSE, DISTRICT, CUSTOMER], key));
            with_parameters("order-status", names).phase([look, last_order]).phase([lines])
        }
        Search::ByName => {
            let find =
                customer::find_by_name(tables, [WAREHOUSE, DISTRICT], CUSTOMER, value::CUSTOMER, pause)?;
            let look =
                look.key(|args, key| push(args, [WAREHOUSE, DISTRICT], key)).key_from(|args, values, key| {
                    push(args, [WAREHOUSE, DISTRICT], key)?;
                    key.push(values.int(value::CUSTOMER)?)
                });
            with_parameters("order-status-by-name", names)
                .phase([find])
                .phase([look, last_order])
                .phase([lines])
        }
    })
}

fn look_at_customer(tables: &Tables, pause: Pause) -> Result<Action> {
    let column = |name: &str| tables.customer.column(name);
    let names = [column("c_first")?, column("c_middle")?, column("c_last")?];
    let balance = column("c_balance")?;
    Ok(Action::read(&tables.customer).body(move |action: &ActionContext| {
        let row = action.get()?.ok_or_else(|| missing("customer", action.args()))?;
        for name in names {
            black_box(row.text(name)?);
        }
        black_box(cents(&row, balance)?);
        pause.take();
        Ok(())
    }))
}

/// The last order of the customer, if there is one.
fn last_order(tables: &Tables, search: Search, pause: Pause) -> Result<Action> {
    let table = tables.orders.clone();
    let column = |name: &str| table.column(name);
    let (id, entered, carrier) = (column("o_id")?, column("o_entry_d")?, column("o_carrier_id")?);
    let read = Action::read(&tables.orders).key(|args, key| push(args, [WAREHOUSE, DISTRICT], key)).body(
        move |action: &ActionContext| {
            let args = action.args();
            let customer = match search {
                Search::ByNumber => args.int(CUSTOMER)?,
                Search::ByName => action.values().int(value::CUSTOMER)?,
            };
            let all = Range::prefix(key![args.int(WAREHOUSE)?, args.int(DISTRICT)?, customer]);
            let mut newest_first = action.tx().scan_index(&table, BY_CUSTOMER, all.reverse().limit(1))?;
            if let Some(row) = newest_first.next() {
                let row = row?;
                black_box((row.timestamp(entered)?, row.get(carrier)?));
                action.set_value(value::ORDER, row.int(id)?);
            }
            pause.take();
            Ok(())
        },
    );
    Ok(read)
}

fn lines(tables: &Tables, pause: Pause) -> Result<Action> {
    let table = tables.order_line.clone();
    let column = |name: &str| table.column(name);
    let integers = [column("ol_i_id")?, column("ol_supply_w_id")?, column("ol_quantity")?];
    let (amount, delivered) = (column("ol_amount")?, column("ol_delivery_d")?);
    let look = move |row: &Row<'_>| {
        for integer in integers {
            black_box(row.int(integer)?);
        }
        black_box((cents(row, amount)?, row.get(delivered)?));
        Ok(())
    };
    let read = Action::read(&tables.order_line).key(|args, key| push(args, [WAREHOUSE, DISTRICT], key)).body(
        move |action: &ActionContext| {
            let (args, values) = (action.args(), action.values());
            let Ok(order) = values.int(value::ORDER) else { return Ok(()) };
            let all = Range::prefix(key![args.int(WAREHOUSE)?, args.int(DISTRICT)?, order]);
            for row in action.tx().scan(&table, all)? {
                look(&row?)?;
            }
            pause.take();
            Ok(())
        },
    );
    Ok(read)
}
