//! The figures of the tables, gathered by warehouse, district, customer and stock.
//!
//! Amounts are cents, and sums are wide, so that a damaged amount can't overflow them.

use std::collections::{BTreeMap, HashMap};

use heddledb::{Database, Range, Result, Snapshot, Table, ValueRef, key};

use crate::scan;
use crate::tpcc::tables::{
    CUSTOMER, DISTRICT, HISTORY, ITEM, NEW_ORDER, ORDER_LINE, ORDERS, STOCK, WAREHOUSE,
};

/// Everything that the conditions speak of.
#[derive(Default)]
pub(super) struct Books {
    pub warehouses: BTreeMap<i64, Warehouse>,
    /// Districts by warehouse and number.
    pub districts: BTreeMap<(i64, i64), District>,
    /// Stocks by warehouse and item.
    pub stocks: HashMap<(i64, i64), Stock>,
    pub items: u64,
}

#[derive(Default)]
pub(super) struct Warehouse {
    /// `None` while it is only partly loaded.
    pub paid: Option<i128>,
    pub history: i128,
}

#[derive(Default)]
pub(super) struct District {
    /// Sum of its payments, and its next order's number; `None` while it is only partly loaded.
    pub own: Option<(i128, i64)>,
    pub history: i128,
    pub payments: u64,
    pub customers: HashMap<i64, Customer>,
    pub orders: HashMap<i64, Order>,
    pub order_lines: i64,
    /// Numbers of new orders.
    pub new_orders: Vec<i64>,
}

#[derive(Default)]
pub(super) struct Customer {
    pub is_there: bool,
    pub balance: i128,
    pub paid: i128,
    pub payments: i64,
    pub deliveries: i64,
    /// Sum of its payments in the history.
    pub history: i128,
    pub payments_in_history: i64,
    /// Value of its delivered orders.
    pub delivered: i128,
}

#[derive(Default)]
pub(super) struct Order {
    pub is_there: bool,
    pub customer: i64,
    pub has_carrier: bool,
    pub lines: i64,
    pub lines_found: i64,
    pub lines_delivered: i64,
}

/// A stock's figures about the orders that it has supplied, less those of the order lines.
#[derive(Default, PartialEq, Eq)]
pub(super) struct Stock {
    pub is_there: bool,
    pub quantity: i128,
    pub orders: i128,
    pub remote: i128,
}

/// The number that is read for a column that is NULL.
const NULL: i64 = i64::MIN;

/// Some columns of a range's rows, as numbers: amounts in cents, times in microseconds.
fn numbers<const N: usize>(
    snapshot: &Snapshot,
    table: &Table,
    range: &Range,
    columns: [&str; N],
) -> Result<Vec<[i64; N]>> {
    let columns = columns.map(|name| table.column(name)).into_iter().collect::<Result<Vec<_>>>()?;
    let mut rows = Vec::new();
    for row in snapshot.scan(table, range.clone())? {
        let row = row?;
        let mut numbers = [NULL; N];
        for (number, column) in numbers.iter_mut().zip(&columns) {
            *number = match row.get(*column)? {
                ValueRef::Int(value) => value,
                // Amounts have 12 digits.
                ValueRef::Decimal(value) => value.unscaled() as i64,
                ValueRef::Timestamp(value) => value.microseconds(),
                _ => NULL,
            };
        }
        rows.push(numbers);
    }
    Ok(rows)
}

/// The tables as of one moment.
struct View<'d> {
    db: &'d Database,
    snapshot: &'d Snapshot,
}

/// Some columns of all rows of a table, as numbers. Empty if the table is missing, because a load may have
/// been cut short.
fn all<const N: usize>(view: &View<'_>, name: &str, columns: [&str; N]) -> Result<Vec<[i64; N]>> {
    match scan::table_if_there(view.db, name)? {
        Some(table) => numbers(view.snapshot, &table, &Range::all(), columns),
        None => Ok(Vec::new()),
    }
}

impl Books {
    /// Reads all tables.
    pub fn read(db: &Database) -> Result<Self> {
        db.read(|snapshot| Self::read_view(&View { db, snapshot }))
    }

    fn read_view(view: &View<'_>) -> Result<Self> {
        let mut books = Self { items: all(view, ITEM, ["i_id"])?.len() as u64, ..Self::default() };
        books.read_places(view)?;
        books.read_payments(view)?;
        books.read_orders(view)?;
        books.read_stocks(view)?;
        // Order lines are many: what is read at a time is kept small.
        if let Some(order_line) = scan::table_if_there(view.db, ORDER_LINE)? {
            let districts: Vec<(i64, i64)> = books.districts.keys().copied().collect();
            for place in districts {
                books.read_lines(view.snapshot, &order_line, place)?;
            }
        }
        Ok(books)
    }

    /// Orders and payments, of all districts.
    pub fn orders_and_payments(&self) -> u64 {
        self.districts.values().map(|district| district.orders.len() as u64 + district.payments).sum()
    }

    fn district(&mut self, warehouse: i64, district: i64) -> &mut District {
        self.districts.entry((warehouse, district)).or_default()
    }

    /// Warehouses, districts, customers.
    fn read_places(&mut self, view: &View<'_>) -> Result<()> {
        for [warehouse, paid] in all(view, WAREHOUSE, ["w_id", "w_ytd"])? {
            self.warehouses.entry(warehouse).or_default().paid = Some(paid.into());
        }
        let columns = ["d_w_id", "d_id", "d_ytd", "d_next_o_id"];
        for [warehouse, district, paid, next] in all(view, DISTRICT, columns)? {
            self.district(warehouse, district).own = Some((paid.into(), next));
        }
        let columns =
            ["c_w_id", "c_d_id", "c_id", "c_balance", "c_ytd_payment", "c_payment_cnt", "c_delivery_cnt"];
        for [warehouse, district, id, balance, paid, payments, deliveries] in all(view, CUSTOMER, columns)? {
            let customer = Customer {
                is_there: true,
                balance: balance.into(),
                paid: paid.into(),
                payments,
                deliveries,
                ..Customer::default()
            };
            self.district(warehouse, district).customers.insert(id, customer);
        }
        Ok(())
    }

    fn read_payments(&mut self, view: &View<'_>) -> Result<()> {
        let columns = ["h_w_id", "h_d_id", "h_c_w_id", "h_c_d_id", "h_c_id", "h_amount"];
        for [warehouse, district, of_warehouse, of_district, customer, amount] in all(view, HISTORY, columns)?
        {
            let amount = i128::from(amount);
            self.warehouses.entry(warehouse).or_default().history += amount;
            let paid_at = self.district(warehouse, district);
            paid_at.history += amount;
            paid_at.payments += 1;
            let customers = &mut self.district(of_warehouse, of_district).customers;
            let customer = customers.entry(customer).or_default();
            customer.history += amount;
            customer.payments_in_history += 1;
        }
        Ok(())
    }

    fn read_orders(&mut self, view: &View<'_>) -> Result<()> {
        let columns = ["o_w_id", "o_d_id", "o_id", "o_c_id", "o_carrier_id", "o_ol_cnt"];
        for [warehouse, district, id, customer, carrier, lines] in all(view, ORDERS, columns)? {
            let has_carrier = carrier != NULL;
            let order = Order { is_there: true, customer, has_carrier, lines, ..Order::default() };
            self.district(warehouse, district).orders.insert(id, order);
        }
        for [warehouse, district, id] in all(view, NEW_ORDER, ["no_w_id", "no_d_id", "no_o_id"])? {
            self.district(warehouse, district).new_orders.push(id);
        }
        Ok(())
    }

    fn read_stocks(&mut self, view: &View<'_>) -> Result<()> {
        let columns = ["s_w_id", "s_i_id", "s_ytd", "s_order_cnt", "s_remote_cnt"];
        for [warehouse, item, quantity, orders, remote] in all(view, STOCK, columns)? {
            let [quantity, orders, remote] = [quantity, orders, remote].map(i128::from);
            self.stocks.insert((warehouse, item), Stock { is_there: true, quantity, orders, remote });
        }
        Ok(())
    }

    /// A district's order lines, after orders, customers and stocks.
    fn read_lines(
        &mut self,
        snapshot: &Snapshot,
        table: &Table,
        (warehouse, number): (i64, i64),
    ) -> Result<()> {
        let columns = ["ol_o_id", "ol_i_id", "ol_supply_w_id", "ol_delivery_d", "ol_quantity", "ol_amount"];
        let lines = numbers(snapshot, table, &Range::prefix(key![warehouse, number]), columns)?;
        let district = self.districts.entry((warehouse, number)).or_default();
        // As many orders as customers were there at first, and no stock has supplied them.
        let first_orders = district.customers.len() as i64;
        for [order_number, item, supplier, delivered, quantity, amount] in lines {
            district.order_lines += 1;
            let order = district.orders.entry(order_number).or_default();
            order.lines_found += 1;
            if delivered != NULL {
                order.lines_delivered += 1;
                district.customers.entry(order.customer).or_default().delivered += i128::from(amount);
            }
            if order_number > first_orders {
                let stock = self.stocks.entry((supplier, item)).or_default();
                stock.quantity -= i128::from(quantity);
                stock.orders -= 1;
                stock.remote -= i128::from(supplier != warehouse);
            }
        }
        Ok(())
    }
}
