//! Payment (clause 2.5): a customer pays an amount, which warehouse, district and customer keep account of.
//!
//! A customer with bad credit gets the payment written into its data. The history tells where it was paid, which the
//! first phase finds.

use std::hint::black_box;

use heddledb::{
    Action, ActionContext, Args, Column, Decimal, LongValues, ProcedureDefinition, Result, Row, Table,
    Timestamp, Value, ValueRef, row,
};

use super::{Search, customer, missing, push, with_parameters};
use crate::pause::Pause;
use crate::tpcc::load::money;
use crate::tpcc::tables::Tables;

/// Places of the call's arguments.
pub(in crate::tpcc) mod argument {
    pub const WAREHOUSE: usize = 0;
    pub const DISTRICT: usize = 1;
    pub const CUSTOMER_WAREHOUSE: usize = 2;
    pub const CUSTOMER_DISTRICT: usize = 3;
    /// The customer's number, or the number of its last name.
    pub const CUSTOMER: usize = 4;
    /// The amount in cents.
    pub const AMOUNT: usize = 5;
    pub const DATE: usize = 6;
    pub const CALLER: usize = 7;
    pub const SEQUENCE: usize = 8;
}
use argument::*;

const NAMES: [&str; 9] =
    ["w_id", "d_id", "c_w_id", "c_d_id", "customer", "h_amount", "h_date", "caller", "sequence"];

/// Numbers of values.
mod value {
    pub const WAREHOUSE_NAME: usize = 0;
    pub const DISTRICT_NAME: usize = 1;
    pub const CUSTOMER: usize = 2;
}

/// The most bytes of a customer's data.
const DATA_BYTES: usize = 500;

pub(super) fn definition(tables: &Tables, search: Search, pause: Pause) -> Result<ProcedureDefinition> {
    let warehouse = place(&tables.warehouse, "w", value::WAREHOUSE_NAME, pause)?
        .key(|args, key| push(args, [WAREHOUSE], key));
    let district = place(&tables.district, "d", value::DISTRICT_NAME, pause)?
        .key(|args, key| push(args, [WAREHOUSE, DISTRICT], key));
    let pay = pay(tables, pause)?;
    let whole_key = [CUSTOMER_WAREHOUSE, CUSTOMER_DISTRICT, CUSTOMER];
    Ok(match search {
        Search::ByNumber => {
            let pay = pay.key(move |args, key| push(args, whole_key, key));
            with_parameters("payment", NAMES)
                .phase([warehouse, district, pay])
                .phase([history(tables, pause)])
        }
        Search::ByName => {
            let district_of = [CUSTOMER_WAREHOUSE, CUSTOMER_DISTRICT];
            let find = customer::find_by_name(tables, district_of, CUSTOMER, value::CUSTOMER, pause)?;
            let pay =
                pay.key(move |args, key| push(args, district_of, key)).key_from(move |args, values, key| {
                    push(args, district_of, key)?;
                    key.push(values.int(value::CUSTOMER)?)
                });
            with_parameters("payment-by-name", NAMES)
                .phase([warehouse, district, find])
                .phase([pay, history(tables, pause)])
        }
    })
}

fn amount(action: &ActionContext<'_, '_>) -> Result<Decimal> {
    money(action.args().int(AMOUNT)?)
}

/// A warehouse or a district: gives name and address, and takes the payment.
fn place(table: &Table, prefix: &str, name_value: usize, pause: Pause) -> Result<Action> {
    let column = |name: &str| table.column(&format!("{prefix}_{name}"));
    let (name, paid) = (column("name")?, column("ytd")?);
    let address =
        [column("street_1")?, column("street_2")?, column("city")?, column("state")?, column("zip")?];
    let table_name = table.name().to_owned();
    Ok(Action::write(table).body(move |action: &ActionContext| {
        let row = action.get()?.ok_or_else(|| missing(&table_name, action.args()))?;
        look_at(&row, &address)?;
        action.add(paid, amount(action)?)?;
        action.set_value(name_value, row.text(name)?);
        pause.take();
        Ok(())
    }))
}

/// Reads texts for the terminal.
fn look_at(row: &Row<'_>, texts: &[Column]) -> Result<()> {
    texts.iter().try_for_each(|column| {
        black_box(row.text(*column)?);
        Ok(())
    })
}

/// The customer's account.
fn pay(tables: &Tables, pause: Pause) -> Result<Action> {
    let column = |name: &str| tables.customer.column(name);
    let (id, credit, data) = (column("c_id")?, column("c_credit")?, column("c_data")?);
    let (balance, paid, payments) =
        (column("c_balance")?, column("c_ytd_payment")?, column("c_payment_cnt")?);
    let names = ["c_first", "c_middle", "c_last", "c_street_1", "c_street_2", "c_city", "c_state", "c_zip"];
    let texts = names.into_iter().chain(["c_phone"]).map(column).collect::<Result<Vec<_>>>()?;
    let numbers = [column("c_credit_lim")?, column("c_discount")?, balance];
    let since = column("c_since")?;
    let looked_at = texts.clone();
    let long_values =
        move |_: &Args, long: &mut LongValues<'_>| looked_at.iter().try_for_each(|column| long.of(*column));
    Ok(Action::write(&tables.customer).long_values(long_values).body(move |action: &ActionContext| {
        let row = action.get()?.ok_or_else(|| missing("customer", action.args()))?;
        look_at(&row, &texts)?;
        black_box(row.timestamp(since)?);
        for number in numbers {
            black_box(row.decimal(number)?);
        }
        action.add(balance, money(-action.args().int(AMOUNT)?)?)?;
        action.add(paid, amount(action)?)?;
        action.add(payments, 1)?;
        if row.text(credit)? == "BC" {
            let noted = note(action, row.int(id)?, row.text(data)?)?;
            action.update(&[(data, ValueRef::Text(&noted))])?;
        }
        pause.take();
        Ok(())
    }))
}

/// A customer's data with the payment before what they were.
fn note(action: &ActionContext<'_, '_>, customer: i64, data: &str) -> Result<String> {
    use std::fmt::Write;
    let mut noted = String::with_capacity(DATA_BYTES + 64);
    for place in [customer].into_iter().map(Ok).chain(
        [CUSTOMER_DISTRICT, CUSTOMER_WAREHOUSE, DISTRICT, WAREHOUSE]
            .into_iter()
            .map(|place| action.args().int(place)),
    ) {
        // Writing to a text does not fail.
        let _ = write!(noted, "{} ", place?);
    }
    let _ = write!(noted, "{}|", amount(action)?);
    let rest = DATA_BYTES.saturating_sub(noted.len()).min(data.len());
    // Data are letters and digits, so that they can be cut anywhere.
    noted.push_str(data.get(..rest).unwrap_or_default());
    Ok(noted)
}

fn history(tables: &Tables, pause: Pause) -> Action {
    Action::write(&tables.history).key(|args, key| push(args, [WAREHOUSE, CALLER, SEQUENCE], key)).body(
        move |action: &ActionContext| {
            let (args, values) = (action.args(), action.values());
            // By number, no phase has looked for the customer.
            let customer = match values.get(value::CUSTOMER) {
                Ok(found) => found.as_value_ref(),
                Err(_) => args.int(CUSTOMER)?.into(),
            };
            let (Value::Text(warehouse), Value::Text(district)) =
                (values.get(value::WAREHOUSE_NAME)?, values.get(value::DISTRICT_NAME)?)
            else {
                return Err(missing("warehouse", args));
            };
            let mut data = String::with_capacity(24);
            data.extend([warehouse, "    ", district]);
            action.insert(row![
                args.int(WAREHOUSE)?,
                args.int(CALLER)?,
                args.int(SEQUENCE)?,
                customer,
                args.int(CUSTOMER_DISTRICT)?,
                args.int(CUSTOMER_WAREHOUSE)?,
                args.int(DISTRICT)?,
                Timestamp::from_microseconds(args.int(DATE)?)?,
                amount(action)?,
                &data,
            ])?;
            pause.take();
            Ok(())
        },
    )
}
