//! The functions in SQL that do what the procedures do, at their places.

use super::{new_order_argument as order, payment_argument as pay};
use crate::functions::{Argument, FunctionCall, Functions};
use crate::tpcc::random_values::LastName;
use Argument::{Cents, Integer, Integers, Null, Time};

/// The functions.
pub(in crate::tpcc) fn functions() -> Functions {
    let name = |place| Argument::Text(place, |number| LastName::new(number).as_str().to_owned());
    let status = |customer: [Argument; 2]| {
        FunctionCall::new("order_status", [&[Integer(0), Integer(1)], &customer[..]].concat())
    };
    let calls = vec![
        new_order(),
        payment([Integer(pay::CUSTOMER), Null]),
        payment([Null, name(pay::CUSTOMER)]),
        status([Integer(2), Null]),
        status([Null, name(2)]),
        FunctionCall::new("delivery", [Integer(0), Integer(1), Time(2)]),
        FunctionCall::of_integers("stock_level", 3),
    ];
    Functions { script: include_str!("../../../sql/tpcc.sql"), calls }
}

fn new_order() -> FunctionCall {
    let of_lines = |argument| Integers { first: order::of_line(0) + argument, step: 3, count: order::LINES };
    let [items, suppliers, quantities] = [order::ITEM, order::SUPPLIER, order::QUANTITY].map(of_lines);
    let at = [order::WAREHOUSE, order::DISTRICT, order::CUSTOMER].map(Integer);
    FunctionCall::new("new_order", [&at[..], &[items, suppliers, quantities, Time(order::DATE)]].concat())
}

/// `customer`: its number and its last name, one of which is NULL.
fn payment(customer: [Argument; 2]) -> FunctionCall {
    let at = [pay::WAREHOUSE, pay::DISTRICT, pay::CUSTOMER_WAREHOUSE, pay::CUSTOMER_DISTRICT].map(Integer);
    let rest = [Cents(pay::AMOUNT), Time(pay::DATE), Integer(pay::CALLER), Integer(pay::SEQUENCE)];
    FunctionCall::new("payment", [&at[..], &customer[..], &rest[..]].concat())
}
