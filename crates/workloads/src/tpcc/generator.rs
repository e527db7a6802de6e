//! The generator: draws the transaction type, the warehouse, the customer and the amounts of each call.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use heddledb::{Database, Procedure, Range, key};

use super::check::{DELIVERED, INSERTED};
use super::procedure::{self, MOST_LINES, new_order_argument, payment_argument, place};
use super::random_values::{NAMES_OF_RUN, Uneven};
use super::tables::{DISTRICTS, Tables};
use super::{TRANSACTIONS, Tpcc};
use crate::Result;
use crate::calls::{Call, Calls};
use crate::mix::Mix;
use crate::workload::{Bound, Generator, random_of};
use crate::zipf::PopularKeys;

/// Percentage of customers that give their last name.
const BY_NAME_PERCENT: u32 = 60;

/// Percentage of order lines that another warehouse supplies.
const REMOTE_LINE_PERCENT: u32 = 1;

/// Percentage of orders that name an item that does not exist.
const UNUSED_ITEM_PERCENT: u32 = 1;

/// The benchmark on an open database.
pub(super) struct Wholesaler {
    settings: Tpcc,
    /// One list for each caller: clients' calls count handles, and would hand a shared one's count to and fro.
    procedures: Vec<Vec<Procedure>>,
    /// Popularity of the warehouses, where they are not alike.
    popular: Option<Arc<PopularKeys>>,
    /// The number of the next caller: above those of every earlier run, so that history keys never meet.
    next_caller: AtomicI64,
}

impl Wholesaler {
    pub fn bind(settings: Tpcc, db: &Database, callers: usize) -> Result<Self> {
        let tables = Tables::open(db)?;
        let procedures = (0..callers.max(1)).map(|_| procedure::register_all(db, &tables, settings.pause));
        let warehouses = u64::from(settings.warehouses);
        Ok(Self {
            settings,
            procedures: procedures.collect::<Result<_, _>>()?,
            popular: (settings.alpha > 0.0).then(|| Arc::new(PopularKeys::new(warehouses, settings.alpha))),
            next_caller: AtomicI64::new(first_free_caller(&settings, db, &tables)?),
        })
    }
}

/// One above the highest caller in the history of any warehouse.
fn first_free_caller(settings: &Tpcc, db: &Database, tables: &Tables) -> heddledb::Result<i64> {
    db.run(|tx| {
        let mut free = 1;
        for warehouse in 1..=i64::from(settings.warehouses) {
            let newest = Range::prefix(key![warehouse]).reverse().limit(1);
            for row in tx.scan(&tables.history, newest)? {
                free = free.max(row?.int("h_caller")? + 1);
            }
        }
        Ok(free)
    })
}

impl Bound for Wholesaler {
    fn generator(&self, seed: u64, caller: usize) -> Result<Box<dyn Generator>> {
        let settings = &self.settings;
        let (customers, items) = (i64::from(settings.customers), i64::from(settings.items));
        let warehouses = i64::from(settings.warehouses);
        Ok(Box::new(Caller {
            procedures: self.procedures[caller % self.procedures.len()].clone(),
            warehouses,
            home: settings.home.then(|| Home::of(caller, self.procedures.len(), warehouses)),
            popular: self.popular.clone(),
            shift: (settings.shift_seconds > 0.0).then(|| Duration::from_secs_f64(settings.shift_seconds)),
            some_are_popular: true,
            items,
            remote_below: (settings.remote_percent / 100.0 * 2_f64.powi(64)) as u64,
            customer: Uneven::customers(customers),
            last_name: Uneven::last_names(NAMES_OF_RUN, customers),
            item: Uneven::items(items),
            mix: settings.mix(),
            random: random_of(seed, caller),
            // Relaxed: only the number itself has to be unique; no other data is published with it.
            caller: self.next_caller.fetch_add(1, Ordering::Relaxed),
            sequence: 0,
            now: 0,
        }))
    }

    fn acknowledgement(&self, call: Call<'_>) -> Option<String> {
        // A payment's history can be found; an order's number is chosen by its district.
        if ![place::PAYMENT, place::PAYMENT_BY_NAME].contains(&call.procedure) {
            return None;
        }
        let number = |place| call.args.int(place).ok();
        let warehouse = number(payment_argument::WAREHOUSE)?;
        Some(format!(
            "{warehouse} {} {}",
            number(payment_argument::CALLER)?,
            number(payment_argument::SEQUENCE)?
        ))
    }
}

/// The warehouses whose terminals one caller simulates: every `apart`-th from the first on. Callers divide
/// the warehouses among themselves; where there are more callers than warehouses, several are at one.
#[derive(Clone, Copy)]
struct Home {
    first: i64,
    apart: i64,
    len: i64,
}

impl Home {
    fn of(caller: usize, callers: usize, warehouses: i64) -> Self {
        let (caller, apart) = (caller as i64, (callers as i64).min(warehouses));
        let first = caller % apart + 1;
        Home { first, apart, len: (warehouses - first) / apart + 1 }
    }

    fn choose(self, random: &mut fastrand::Rng) -> i64 {
        match self.len {
            1 => self.first,
            len => self.first + random.i64(0..len) * self.apart,
        }
    }
}

/// The calls of one caller.
struct Caller {
    procedures: Vec<Procedure>,
    warehouses: i64,
    /// Its own warehouses, if it stays there.
    home: Option<Home>,
    popular: Option<Arc<PopularKeys>>,
    /// Time at which some warehouses become more popular, and length of that period. `None` if they always
    /// are.
    shift: Option<Duration>,
    /// True if some are now.
    some_are_popular: bool,
    items: i64,
    /// A random number below it makes a payment one of another warehouse's customer.
    remote_below: u64,
    customer: Uneven,
    last_name: Uneven,
    item: Uneven,
    mix: Mix,
    random: fastrand::Rng,
    caller: i64,
    sequence: i64,
    /// The time in microseconds, read once for the calls of a group.
    now: i64,
}

impl Caller {
    #[inline]
    fn warehouse(&mut self) -> i64 {
        match (self.home, &self.popular) {
            (Some(home), _) => home.choose(&mut self.random),
            (None, Some(popular)) if self.some_are_popular => popular.choose(&mut self.random),
            (None, _) => self.random.i64(1..=self.warehouses),
        }
    }

    /// Another warehouse, where there is one.
    fn other_than(&mut self, warehouse: i64) -> i64 {
        if self.warehouses == 1 {
            return warehouse;
        }
        let other = self.random.i64(1..self.warehouses);
        other + i64::from(other >= warehouse)
    }

    /// A customer's number, or its last name's; and which of the two.
    #[inline]
    fn customer(&mut self) -> (i64, bool) {
        if self.random.u32(0..100) < BY_NAME_PERCENT {
            (self.last_name.choose(&mut self.random), true)
        } else {
            (self.customer.choose(&mut self.random) + 1, false)
        }
    }

    fn add(&mut self, calls: &mut Calls) {
        let transaction = self.mix.choose(&mut self.random);
        let (warehouse, district) = (self.warehouse(), self.random.i64(1..=DISTRICTS));
        match TRANSACTIONS[transaction] {
            "new-order" => self.add_new_order(calls, warehouse, district),
            "payment" => self.add_payment(calls, warehouse, district),
            "order-status" => {
                let (customer, by_name) = self.customer();
                let procedure = if by_name { place::ORDER_STATUS_BY_NAME } else { place::ORDER_STATUS };
                calls.add_integers(procedure, 0, &[warehouse, district, customer]);
            }
            "delivery" => {
                let carrier = self.random.i64(1..=10);
                calls.add_integers(place::DELIVERY, DELIVERED, &[warehouse, carrier, self.now]);
            }
            _ => {
                let threshold = self.random.i64(10..=20);
                calls.add_integers(place::STOCK_LEVEL, 0, &[warehouse, district, threshold]);
            }
        }
    }

    fn add_new_order(&mut self, calls: &mut Calls, warehouse: i64, district: i64) {
        use new_order_argument::{
            CUSTOMER, DATE, DISTRICT, ITEM, LINES, QUANTITY, SUPPLIER, WAREHOUSE, of_line,
        };
        // Lines that are not used are zeros, so that every order has as many arguments, which cost nothing to renew.
        let mut arguments = [0; of_line(MOST_LINES)];
        let lines = self.random.usize(5..=MOST_LINES);
        arguments[WAREHOUSE] = warehouse;
        arguments[DISTRICT] = district;
        arguments[CUSTOMER] = self.customer.choose(&mut self.random) + 1;
        arguments[LINES] = lines as i64;
        arguments[DATE] = self.now;
        for line in arguments[of_line(0)..of_line(lines)].chunks_exact_mut(3) {
            line[ITEM] = self.item.choose(&mut self.random) + 1;
            let remote = self.random.u32(0..100) < REMOTE_LINE_PERCENT;
            line[SUPPLIER] = if remote { self.other_than(warehouse) } else { warehouse };
            line[QUANTITY] = self.random.i64(1..=10);
        }
        if self.random.u32(0..100) < UNUSED_ITEM_PERCENT {
            arguments[of_line(lines - 1) + ITEM] = self.items + 1;
        }
        calls.add_integers(place::NEW_ORDER, INSERTED, &arguments);
    }

    fn add_payment(&mut self, calls: &mut Calls, warehouse: i64, district: i64) {
        let remote = self.random.u64(..) < self.remote_below;
        let (customer_warehouse, customer_district) = if remote {
            (self.other_than(warehouse), self.random.i64(1..=DISTRICTS))
        } else {
            (warehouse, district)
        };
        let (customer, by_name) = self.customer();
        let amount = self.random.i64(100..=500_000);
        self.sequence += 1;
        let (now, caller, sequence) = (self.now, self.caller, self.sequence);
        let arguments = [
            warehouse,
            district,
            customer_warehouse,
            customer_district,
            customer,
            amount,
            now,
            caller,
            sequence,
        ];
        let procedure = if by_name { place::PAYMENT_BY_NAME } else { place::PAYMENT };
        calls.add_integers(procedure, INSERTED, &arguments);
    }
}

impl Generator for Caller {
    fn procedures(&self) -> &[Procedure] {
        &self.procedures
    }

    fn fill(&mut self, calls: &mut Calls, at_most: usize) -> Result<bool> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.now = i64::try_from(since.as_micros()).unwrap_or_default();
        if let Some(shift) = self.shift {
            self.some_are_popular = (shift..2 * shift).contains(&calls.elapsed());
        }
        while calls.len() < at_most {
            self.add(calls);
        }
        Ok(true)
    }
}
