//! What the tables say, gathered by warehouse, district, customer and stock.
//!
//! Amounts are cents, and sums are wide, so that a damaged amount can't overflow them.

use std::collections::{BTreeMap, HashMap};

use heddledb::{Database, Range, Result, Row, Table, key};

use crate::scan;
use crate::tpcc::tables::{
    CUSTOMER, DISTRICT, HISTORY, ITEM, NEW_ORDER, ORDER_LINE, ORDERS, STOCK, WAREHOUSE,
};

/// Everything that the conditions speak of.
#[derive(Default)]
pub(super) struct Books {
    pub warehouses: BTreeMap<i64, Warehouse>,
    /// By warehouse and number.
    pub districts: BTreeMap<(i64, i64), District>,
    /// By warehouse and item.
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
    /// What it was paid, and its next order's number; `None` while it is only partly loaded.
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
    /// What the history says of its payments.
    pub history: i128,
    pub payments_in_history: i64,
    /// What its delivered orders are worth.
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

/// What a stock says about the orders that it has supplied, less what the order lines say.
#[derive(Default, PartialEq, Eq)]
pub(super) struct Stock {
    pub is_there: bool,
    pub quantity: i128,
    pub orders: i128,
    pub remote: i128,
}

fn cents(row: &Row<'_>, column: &str) -> Result<i128> {
    Ok(row.decimal(column)?.unscaled())
}

impl Books {
    /// Reads all tables; one that is missing counts as empty, because a load may have been cut short.
    pub fn read(db: &Database) -> Result<Self> {
        let mut books = Self::default();
        books.add_table(db, WAREHOUSE, Self::add_warehouse)?;
        books.add_table(db, DISTRICT, Self::add_district)?;
        books.add_table(db, CUSTOMER, Self::add_customer)?;
        books.add_table(db, HISTORY, Self::add_payment)?;
        books.add_table(db, ORDERS, Self::add_order)?;
        books.add_table(db, NEW_ORDER, Self::add_new_order)?;
        books.add_table(db, STOCK, Self::add_stock)?;
        if let Some(item) = scan::table_if_there(db, ITEM)? {
            books.items = scan::count(db, &item)?;
        }
        if let Some(order_line) = scan::table_if_there(db, ORDER_LINE)? {
            books.add_lines(db, &order_line)?;
        }
        Ok(books)
    }

    /// Orders and payments, of all districts.
    pub fn orders_and_payments(&self) -> u64 {
        self.districts.values().map(|district| district.orders.len() as u64 + district.payments).sum()
    }

    fn add_table(
        &mut self,
        db: &Database,
        name: &str,
        add: impl Fn(&mut Self, &Row<'_>) -> Result<()>,
    ) -> Result<()> {
        let Some(table) = scan::table_if_there(db, name)? else { return Ok(()) };
        self.add_range(db, &table, &Range::all(), add)
    }

    /// A transaction for each range. A check runs by itself, so no transaction runs again; but one that would, is not to
    /// count twice.
    fn add_range(
        &mut self,
        db: &Database,
        table: &Table,
        range: &Range,
        add: impl Fn(&mut Self, &Row<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut has_begun = false;
        db.run(|tx| {
            if std::mem::replace(&mut has_begun, true) {
                return Err(heddledb::fail("the tables change while they are checked"));
            }
            for row in tx.scan(table, range.clone())? {
                add(self, &row?)?;
            }
            Ok(())
        })
    }

    /// Order lines are many: a transaction for each district keeps what is read at a time small.
    fn add_lines(&mut self, db: &Database, table: &Table) -> Result<()> {
        let districts: Vec<(i64, i64)> = self.districts.keys().copied().collect();
        for (warehouse, district) in districts {
            self.add_range(db, table, &Range::prefix(key![warehouse, district]), Self::add_line)?;
        }
        Ok(())
    }

    fn district(&mut self, row: &Row<'_>, warehouse: &str, district: &str) -> Result<&mut District> {
        Ok(self.districts.entry((row.int(warehouse)?, row.int(district)?)).or_default())
    }

    fn add_warehouse(&mut self, row: &Row<'_>) -> Result<()> {
        self.warehouses.entry(row.int("w_id")?).or_default().paid = Some(cents(row, "w_ytd")?);
        Ok(())
    }

    fn add_district(&mut self, row: &Row<'_>) -> Result<()> {
        let own = (cents(row, "d_ytd")?, row.int("d_next_o_id")?);
        self.district(row, "d_w_id", "d_id")?.own = Some(own);
        Ok(())
    }

    fn add_customer(&mut self, row: &Row<'_>) -> Result<()> {
        let customer = Customer {
            is_there: true,
            balance: cents(row, "c_balance")?,
            paid: cents(row, "c_ytd_payment")?,
            payments: row.int("c_payment_cnt")?,
            deliveries: row.int("c_delivery_cnt")?,
            ..Customer::default()
        };
        self.district(row, "c_w_id", "c_d_id")?.customers.insert(row.int("c_id")?, customer);
        Ok(())
    }

    fn add_payment(&mut self, row: &Row<'_>) -> Result<()> {
        let amount = cents(row, "h_amount")?;
        self.warehouses.entry(row.int("h_w_id")?).or_default().history += amount;
        let district = self.district(row, "h_w_id", "h_d_id")?;
        district.history += amount;
        district.payments += 1;
        let customers = &mut self.district(row, "h_c_w_id", "h_c_d_id")?.customers;
        let customer = customers.entry(row.int("h_c_id")?).or_default();
        customer.history += amount;
        customer.payments_in_history += 1;
        Ok(())
    }

    fn add_order(&mut self, row: &Row<'_>) -> Result<()> {
        let order = Order {
            is_there: true,
            customer: row.int("o_c_id")?,
            has_carrier: !row.is_null("o_carrier_id")?,
            lines: row.int("o_ol_cnt")?,
            ..Order::default()
        };
        self.district(row, "o_w_id", "o_d_id")?.orders.insert(row.int("o_id")?, order);
        Ok(())
    }

    fn add_new_order(&mut self, row: &Row<'_>) -> Result<()> {
        let order = row.int("no_o_id")?;
        self.district(row, "no_w_id", "no_d_id")?.new_orders.push(order);
        Ok(())
    }

    fn add_stock(&mut self, row: &Row<'_>) -> Result<()> {
        let stock = self.stocks.entry((row.int("s_w_id")?, row.int("s_i_id")?)).or_default();
        stock.is_there = true;
        stock.quantity += i128::from(row.int("s_ytd")?);
        stock.orders += i128::from(row.int("s_order_cnt")?);
        stock.remote += i128::from(row.int("s_remote_cnt")?);
        Ok(())
    }

    /// After orders, customers and stocks.
    fn add_line(&mut self, row: &Row<'_>) -> Result<()> {
        let (warehouse, supplier) = (row.int("ol_w_id")?, row.int("ol_supply_w_id")?);
        let (number, is_delivered) = (row.int("ol_o_id")?, !row.is_null("ol_delivery_d")?);
        let district = self.district(row, "ol_w_id", "ol_d_id")?;
        // As many orders as customers were there at first, and no stock has supplied them.
        let is_first = number <= district.customers.len() as i64;
        district.order_lines += 1;
        let order = district.orders.entry(number).or_default();
        order.lines_found += 1;
        order.lines_delivered += i64::from(is_delivered);
        if is_delivered {
            let customer = district.customers.entry(order.customer).or_default();
            customer.delivered += cents(row, "ol_amount")?;
        }
        if !is_first {
            let stock = self.stocks.entry((supplier, row.int("ol_i_id")?)).or_default();
            stock.quantity -= i128::from(row.int("ol_quantity")?);
            stock.orders -= 1;
            stock.remote -= i128::from(supplier != warehouse);
        }
        Ok(())
    }
}
