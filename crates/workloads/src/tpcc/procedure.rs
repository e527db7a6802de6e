//! The five transactions. Payment and order status, which look a customer up by number or by last name, are two
//! procedures each: by number, everything is known beforehand.
//!
//! A phase passes its findings to the next one as values, whose numbers are named where they are set. Money
//! is passed in cents.

mod customer;
mod delivery;
mod functions;
mod new_order;
mod order_status;
mod payment;
mod stock_level;

use heddledb::{
    Args, Column, DataType, Database, Error, KeyBuilder, Procedure, ProcedureDefinition, Result, Row,
};

use super::tables::Tables;
use crate::pause::Pause;

pub(super) use functions::functions;
#[cfg(test)]
pub(super) use new_order::UNUSED_ITEM;
pub(super) use new_order::argument as new_order_argument;
pub(super) use payment::argument as payment_argument;

/// The procedures, by their places.
pub(super) mod place {
    pub const NEW_ORDER: usize = 0;
    pub const PAYMENT: usize = 1;
    pub const PAYMENT_BY_NAME: usize = 2;
    pub const ORDER_STATUS: usize = 3;
    pub const ORDER_STATUS_BY_NAME: usize = 4;
    pub const DELIVERY: usize = 5;
    pub const STOCK_LEVEL: usize = 6;
}

/// A thread that looks for a customer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Search {
    ByNumber,
    ByName,
}

/// The most lines of an order.
pub(super) const MOST_LINES: usize = 15;

/// Registers all procedures, each at its place.
pub(super) fn register_all(db: &Database, tables: &Tables, pause: Pause) -> Result<Vec<Procedure>> {
    let definitions = [
        new_order::definition(tables, pause)?,
        payment::definition(tables, Search::ByNumber, pause)?,
        payment::definition(tables, Search::ByName, pause)?,
        order_status::definition(tables, Search::ByNumber, pause)?,
        order_status::definition(tables, Search::ByName, pause)?,
        delivery::definition(tables, pause)?,
        stock_level::definition(tables, pause)?,
    ];
    definitions.into_iter().map(|definition| db.register_anonymous(definition)).collect()
}

fn with_parameters<'a>(name: &str, parameters: impl IntoIterator<Item = &'a str>) -> ProcedureDefinition {
    let definition = ProcedureDefinition::new(name);
    parameters.into_iter().fold(definition, |definition, name| definition.parameter(name, DataType::Int64))
}

/// Pushes arguments in order.
#[inline]
fn push<const N: usize>(args: &Args, places: [usize; N], key: &mut KeyBuilder<'_>) -> Result<()> {
    for place in places {
        key.push(args.int(place)?)?;
    }
    Ok(())
}

/// An amount of money in cents.
#[inline]
fn cents(row: &Row<'_>, column: Column) -> Result<i64> {
    // The columns have 12 digits, two of them behind the point.
    Ok(row.decimal(column)?.unscaled() as i64)
}

/// The error of a row that should exist and does not.
#[cold]
fn missing(table: &str, args: &Args) -> Error {
    Error::MissingKey { table: table.to_owned(), key: format!("{:?}", &args[..args.len().min(8)]) }
}
