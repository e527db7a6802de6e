//! The conditions, each of which is reported by its number when it does not hold.

use super::books::{Books, Customer, District, Order, Stock, Warehouse};
use crate::tpcc::load::delivered_at_first;

/// Checks all of them. Warehouses that are only partly loaded are left out.
pub(super) fn check(books: &Books) -> Result<(), String> {
    for (number, warehouse) in &books.warehouses {
        check_warehouse(books, *number, warehouse)?;
    }
    for (place, district) in &books.districts {
        if let Some((paid, next_order)) = district.own {
            check_district(*place, district, paid, next_order)?;
        }
    }
    let mut stocks = books.stocks.iter();
    stocks.try_for_each(|(place, stock)| check_stock(*place, stock))
}

/// A sum that is not what another one says.
fn equal(condition: &str, at: &str, what: &str, left: i128, right: i128) -> Result<(), String> {
    if left == right {
        return Ok(());
    }
    Err(format!("condition {condition}, {at}: {what}: {left} is not {right}"))
}

fn check_warehouse(books: &Books, number: i64, warehouse: &Warehouse) -> Result<(), String> {
    let Some(paid) = warehouse.paid else { return Ok(()) };
    let districts = books.districts.range((number, i64::MIN)..=(number, i64::MAX));
    let of_districts = districts.filter_map(|(_, district)| Some(district.own?.0)).sum();
    let at = format!("warehouse {number}");
    equal("1", &at, "W_YTD and the sum of D_YTD", paid, of_districts)?;
    equal("8", &at, "W_YTD and the sum of H_AMOUNT", paid, warehouse.history)?;
    let stocks = books.stocks.iter().filter(|((of, _), stock)| *of == number && stock.is_there).count();
    equal("stock", &at, "stocks and items", stocks as i128, books.items.into())
}

fn check_district(
    (warehouse, number): (i64, i64),
    district: &District,
    paid: i128,
    next_order: i64,
) -> Result<(), String> {
    let at = &format!("district {number} of warehouse {warehouse}");
    check_numbers(at, district, next_order)?;
    let lines: i64 = district.orders.values().map(|order| order.lines).sum();
    equal("4", at, "the sum of O_OL_CNT and the order lines", lines.into(), district.order_lines.into())?;
    let mut is_new = district.new_orders.clone();
    is_new.sort_unstable();
    for (number, order) in &district.orders {
        check_order(&format!("order {number} of {at}"), order, is_new.binary_search(number).is_ok())?;
    }
    for number in &district.new_orders {
        if !district.orders.contains_key(number) {
            return Err(format!("condition 5, {at}: new order {number} has no order"));
        }
    }
    equal("9", at, "D_YTD and the sum of H_AMOUNT", paid, district.history)?;
    for (number, customer) in &district.customers {
        check_customer(&format!("customer {number} of {at}"), customer)?;
    }
    let deliveries: i64 = district.customers.values().map(|customer| customer.deliveries).sum();
    let delivered = delivered_at_first(district.customers.len() as i64) + deliveries;
    let others = district.orders.len() as i128 - district.new_orders.len() as i128;
    equal("11", at, "orders less new orders, and orders delivered", others, delivered.into())
}

/// Order numbers: the next one, the last one, and the new ones without a gap.
fn check_numbers(at: &str, district: &District, next_order: i64) -> Result<(), String> {
    let last = i128::from(next_order) - 1;
    let greatest = district.orders.keys().max().copied().unwrap_or_default();
    equal("2", at, "D_NEXT_O_ID - 1 and the greatest O_ID", last, greatest.into())?;
    let new = &district.new_orders;
    if let (Some(first), Some(greatest)) = (new.iter().min(), new.iter().max()) {
        equal("2", at, "D_NEXT_O_ID - 1 and the greatest NO_O_ID", last, (*greatest).into())?;
        let span = i128::from(*greatest) - i128::from(*first) + 1;
        equal("3", at, "new orders and the span of their numbers", new.len() as i128, span)?;
    }
    Ok(())
}

fn check_order(at: &str, order: &Order, is_new: bool) -> Result<(), String> {
    if !order.is_there {
        return Err(format!("condition 6, {at}: it has order lines, but is not there"));
    }
    if order.has_carrier == is_new {
        let found = if is_new { "it has a carrier and is new" } else { "it has no carrier and is not new" };
        return Err(format!("condition 5, {at}: {found}"));
    }
    equal("6", at, "O_OL_CNT and its order lines", order.lines.into(), order.lines_found.into())?;
    let delivered = if order.has_carrier { order.lines } else { 0 };
    equal("7", at, "order lines delivered", order.lines_delivered.into(), delivered.into())
}

fn check_customer(at: &str, customer: &Customer) -> Result<(), String> {
    if !customer.is_there {
        return Err(format!("condition 10, {at}: it has orders or payments, but is not there"));
    }
    let owed = customer.delivered - customer.history;
    equal("10", at, "C_BALANCE, and orders delivered less H_AMOUNT", customer.balance, owed)?;
    let sum = customer.balance + customer.paid;
    equal("12", at, "C_BALANCE + C_YTD_PAYMENT, and orders delivered", sum, customer.delivered)?;
    let (counted, found) = (customer.payments.into(), customer.payments_in_history.into());
    equal("payments", at, "C_PAYMENT_CNT and its payments in the history", counted, found)
}

fn check_stock((warehouse, item): (i64, i64), stock: &Stock) -> Result<(), String> {
    let at = format!("item {item} of warehouse {warehouse}");
    equal("stock", &at, "S_YTD less the quantities ordered", stock.quantity, 0)?;
    equal("stock", &at, "S_ORDER_CNT less the order lines", stock.orders, 0)?;
    equal("stock", &at, "S_REMOTE_CNT less the order lines of other warehouses", stock.remote, 0)
}
