//! TPC-C, revision 5.11: a wholesaler takes orders, payments and deliveries in its warehouses.
//!
//! Nine tables, five transactions. Everything is there but terminals: a caller waits neither for a keyboard nor for a
//! reader, so results are no tpmC.
//!
//! | transaction | % | `neworder-payment` | what it does |
//! | --- | --- | --- | --- |
//! | `new-order` | 45 | 50 | 5 to 15 lines, each taken from a stock; one in a hundred fails as the last thing it does |
//! | `payment` | 43 | 50 | warehouse, district, customer and history; 60 % find the customer by name |
//! | `order-status` | 4 | | a customer's last order; 60 % by name |
//! | `delivery` | 4 | | the oldest new order of each of ten districts, in one transaction |
//! | `stock-level` | 4 | | the stocks of about two hundred items |
//!
//! Every key but the item's begins with the warehouse. Footprints that are known from the arguments alone are
//! declared by them; those that only an earlier phase finds are declared by warehouse and district.
//!
//! Invariants: the twelve conditions of clause 3.3.2, and what the stocks say about their orders (`check`).

mod check;
#[cfg(test)]
mod executors_used;
mod generator;
mod load;
mod procedure;
mod random_values;
pub mod reports;
mod tables;
#[cfg(test)]
mod tests;

use heddledb::Database;
use serde_json::json;

use crate::functions::Functions;
use crate::mix::Mix;
use crate::pause::Pause;
use crate::workload::{Bound, Workload, in_range};
use crate::{Error, Result};

/// Names of the transactions.
const TRANSACTIONS: [&str; 5] = ["new-order", "payment", "order-status", "delivery", "stock-level"];

/// The transactions that are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transactions {
    /// The specification's mix.
    Full,
    /// Half new orders, half payments.
    NewOrderAndPayment,
    /// One of them alone, by its place in [`Tpcc::TRANSACTIONS`].
    Only(usize),
}

/// The settings of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tpcc {
    /// Number of warehouses.
    pub warehouses: u32,
    /// Number of items, each in the stock of every warehouse.
    pub items: u32,
    /// Number of customers of each district, and of its first orders.
    pub customers: u32,
    /// The transactions that are made.
    pub transactions: Transactions,
    /// Skew of warehouses: the k-th most popular is chosen in proportion to 1 / k^alpha.
    pub alpha: f64,
    /// Seconds of the measured time for which warehouses are alike before some become more popular, for as
    /// many seconds, after which they are alike again; 0: some are more popular from the beginning to the
    /// end.
    pub shift_seconds: f64,
    /// Percentage of payments by another warehouse's customer.
    pub remote_percent: f64,
    /// True if each caller stays at warehouses of its own, as the specification has it (clause 2.4.1.1: a
    /// terminal's warehouse never changes), instead of choosing any for each call.
    pub home: bool,
    /// True if a warehouse's stock is divided among executors.
    pub apart: bool,
    /// A pause after each access.
    pub pause: Pause,
}

impl Default for Tpcc {
    fn default() -> Self {
        Self {
            warehouses: 2,
            items: 100_000,
            customers: 3_000,
            transactions: Transactions::Full,
            alpha: 0.0,
            shift_seconds: 0.0,
            remote_percent: 15.0,
            home: true,
            apart: false,
            pause: Pause::NONE,
        }
    }
}

impl Tpcc {
    /// The names of the transactions.
    pub const TRANSACTIONS: &[&str] = &TRANSACTIONS;

    fn check_settings(&self) -> Result<()> {
        in_range("warehouses", self.warehouses, 1, 10_000)?;
        in_range("items", self.items, 20, 10_000_000)?;
        in_range("customers", self.customers, 10, 100_000)?;
        in_range("alpha", self.alpha, 0.0, 20.0)?;
        in_range("shift-seconds", self.shift_seconds, 0.0, 86_400.0)?;
        in_range("remote-percent", self.remote_percent, 0.0, 100.0)?;
        if self.home && self.alpha > 0.0 {
            return Err(Error::Unusable(
                "--terminals home keeps each caller at its own warehouses, and --alpha chooses one for each call; give one \
                 of them"
                    .to_owned(),
            ));
        }
        match self.transactions {
            Transactions::Only(place) if place >= TRANSACTIONS.len() => {
                Err(Error::Unusable(format!("there is no transaction number {place}")))
            }
            _ => Ok(()),
        }
    }

    fn mix(&self) -> Mix {
        match self.transactions {
            Transactions::Full => Mix::of_shares(&[45, 43, 4, 4, 4]),
            Transactions::NewOrderAndPayment => Mix::of_shares(&[50, 50]),
            Transactions::Only(place) => Mix::only(place),
        }
    }
}

impl Workload for Tpcc {
    fn name(&self) -> &'static str {
        "tpcc"
    }

    fn tables(&self) -> &'static [&'static str] {
        &tables::NAMES
    }

    fn transactions(&self) -> &'static [&'static str] {
        Self::TRANSACTIONS
    }

    fn transaction_of(&self, procedure: usize) -> usize {
        use procedure::place;
        match procedure {
            place::NEW_ORDER => 0,
            place::PAYMENT | place::PAYMENT_BY_NAME => 1,
            place::ORDER_STATUS | place::ORDER_STATUS_BY_NAME => 2,
            place::DELIVERY => 3,
            _ => 4,
        }
    }

    fn partition_key(&self) -> Option<&'static str> {
        Some("warehouse.w_id")
    }

    fn parameters(&self) -> Vec<(&'static str, serde_json::Value)> {
        let transactions = match self.transactions {
            Transactions::Full => ("mix", json!("full")),
            Transactions::NewOrderAndPayment => ("mix", json!("neworder-payment")),
            Transactions::Only(place) => ("only", json!(TRANSACTIONS.get(place))),
        };
        let mut parameters = vec![
            ("warehouses", json!(self.warehouses)),
            ("items", json!(self.items)),
            ("customers", json!(self.customers)),
            transactions,
            ("alpha", json!(self.alpha)),
            ("shift_seconds", json!(self.shift_seconds)),
            ("remote_percent", json!(self.remote_percent)),
            ("terminals", json!(if self.home { "home" } else { "any" })),
            ("think_us", json!(self.pause.as_microseconds())),
        ];
        if self.apart {
            parameters.push(("routing", json!("apart")));
        }
        parameters
    }

    fn load(&self, db: &Database) -> Result<()> {
        self.check_settings()?;
        load::load(self, db)
    }

    fn bind(&self, db: &Database, callers: usize) -> Result<Box<dyn Bound>> {
        self.check_settings()?;
        Ok(Box::new(generator::Wholesaler::bind(*self, db, callers)?))
    }

    fn functions(&self) -> Option<Functions> {
        Some(procedure::functions())
    }

    fn marks(&self, db: &Database) -> Result<u64> {
        check::marks(db)
    }

    fn check(&self, db: &Database, marks: Option<u64>) -> Result<(), String> {
        check::check(db, marks)
    }

    fn check_acknowledged(&self, db: &Database, keys: &[String]) -> Result<(), String> {
        check::check_acknowledged(db, keys)
    }
}
