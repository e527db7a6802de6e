//! Fills the tables as clause 4.3.3 has it.
//!
//! Invariants: a batch is one transaction, whose content depends on its place alone. So the first row of a
//! batch shows if all of it is there, and a load that was cut short can be continued.

use fastrand::Rng;
use heddledb::{Database, Decimal, Result, Table, Timestamp, Tx, ValueRef, key, row};

use super::Tpcc;
use super::random_values::{LAST_NAMES, LastName, NAMES_OF_LOAD, Uneven, data, digits, text};
use super::tables::{DISTRICTS, Tables};
use crate::Error;

/// Items and stocks of a loading transaction.
const BATCH: i64 = 2_000;
/// Customers and orders of a loading transaction.
const SMALL_BATCH: i64 = 500;

/// The time of all events that are there at first: a moment of 2026.
const THEN: i64 = 1_767_225_600_000_000;

/// The first payment of each customer, in cents.
pub(super) const FIRST_PAYMENT: i64 = 1_000;

/// The caller in the keys of the first payments.
pub(super) const FIRST_CALLER: i64 = 0;

/// An amount of cents.
pub(super) fn money(cents: i64) -> Result<Decimal> {
    Decimal::new(cents.into(), 2)
}

/// A tax or a discount, in hundredths of a percent.
fn share(random: &mut Rng, highest: i64) -> Result<Decimal> {
    Decimal::new(random.i64(0..=highest).into(), 4)
}

/// The number of a district's first orders that have been delivered already.
pub(super) fn delivered_at_first(customers: i64) -> i64 {
    customers * 7 / 10
}

/// The arguments of a loading transaction.
struct Loader<'a> {
    db: &'a Database,
    tables: &'a Tables,
    items: i64,
    customers: i64,
    then: Timestamp,
}

/// Makes the tables and rows that are missing.
pub(super) fn load(settings: &Tpcc, db: &Database) -> crate::Result<()> {
    let tables = &Tables::create(db, settings.apart)?;
    let loader = Loader {
        db,
        tables,
        items: settings.items.into(),
        customers: settings.customers.into(),
        then: Timestamp::from_microseconds(THEN)?,
    };
    check_size(settings, &loader)?;
    loader.in_batches(&tables.item, &[], loader.items, BATCH, Loader::insert_item)?;
    for warehouse in 1..=i64::from(settings.warehouses) {
        loader.load_warehouse(warehouse)?;
    }
    check_size(settings, &loader)
}

/// Another size in the directory would make calls miss, or leave rows out.
fn check_size(settings: &Tpcc, loader: &Loader<'_>) -> crate::Result<()> {
    let (tables, warehouses) = (loader.tables, i64::from(settings.warehouses));
    let (items, customers) = (loader.items, loader.customers);
    let fits = loader.db.run(|tx| {
        Ok(!tx.exists(&tables.warehouse, key![warehouses + 1])?
            && !tx.exists(&tables.item, key![items + 1])?
            && !tx.exists(&tables.customer, key![1, 1, customers + 1])?
            && (!tx.exists(&tables.warehouse, key![1])?
                || tx.exists(&tables.item, key![items])?
                    && tx.exists(&tables.customer, key![1, 1, customers])?))
    })?;
    if fits {
        return Ok(());
    }
    Err(Error::Unusable(format!(
        "the database is of another size than {warehouses} warehouses, {items} items and {customers} customers a \
         district; give the --warehouses, --items and --customers with which it was made, or another --dir"
    )))
}

impl Loader<'_> {
    /// Inserts the rows 1 to `count` under a prefix of their keys, those of a batch together.
    fn in_batches(
        &self,
        table: &Table,
        prefix: &[i64],
        count: i64,
        batch: i64,
        insert: impl Fn(&Self, &Tx<'_, '_>, &[i64], i64, &mut Rng) -> Result<()>,
    ) -> Result<()> {
        for first in (1..=count).step_by(batch as usize) {
            let key: Vec<ValueRef<'_>> = prefix.iter().chain([&first]).map(|part| (*part).into()).collect();
            self.db.run(|tx| {
                if tx.exists(table, &key)? {
                    return Ok(());
                }
                let places = prefix.iter().chain([&first]);
                let seed = places.fold(table.name().len() as u64, |seed, part| {
                    (seed ^ *part as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23)
                });
                let random = &mut Rng::with_seed(seed);
                (first..=count.min(first + batch - 1))
                    .try_for_each(|row| insert(self, tx, prefix, row, random))
            })?;
        }
        Ok(())
    }

    fn insert_item(&self, tx: &Tx<'_, '_>, _: &[i64], item: i64, random: &mut Rng) -> Result<()> {
        let (image, name) = (random.i64(1..=10_000), text(random, 14..=24));
        let price = money(random.i64(100..=10_000))?;
        tx.insert(&self.tables.item, row![item, image, &name, price, &data(random)])
    }

    /// The warehouse's own row is inserted last: a warehouse whose row is there is whole.
    fn load_warehouse(&self, warehouse: i64) -> Result<()> {
        let Loader { db, tables, customers, .. } = *self;
        if db.run(|tx| tx.exists(&tables.warehouse, key![warehouse]))? {
            return Ok(());
        }
        self.in_batches(&tables.stock, &[warehouse], self.items, BATCH, Loader::insert_stock)?;
        for district in 1..=DISTRICTS {
            let prefix = [warehouse, district];
            self.in_batches(&tables.customer, &prefix, customers, SMALL_BATCH, Loader::insert_customer)?;
            let buyers = self.buyers(&prefix);
            self.in_batches(
                &tables.orders,
                &prefix,
                customers,
                SMALL_BATCH,
                |loader, tx, prefix, order, random| {
                    loader.insert_order(tx, prefix, order, buyers[order as usize - 1], random)
                },
            )?;
        }
        let own = |loader: &Self, tx: &Tx<'_, '_>, _: &[i64], _: i64, random: &mut Rng| {
            (1..=DISTRICTS)
                .try_for_each(|district| loader.insert_district(tx, warehouse, district, random))?;
            loader.insert_warehouse(tx, warehouse, random)
        };
        self.in_batches(&tables.district, &[warehouse], 1, 1, own)
    }

    fn insert_stock(&self, tx: &Tx<'_, '_>, prefix: &[i64], item: i64, random: &mut Rng) -> Result<()> {
        let quantity = random.i64(10..=100);
        let districts: [String; DISTRICTS as usize] = std::array::from_fn(|_| text(random, 24..=24));
        let data = data(random);
        let mut row: Vec<ValueRef<'_>> = row![prefix[0], item, quantity].to_vec();
        row.extend(districts.iter().map(ValueRef::from));
        row.extend(row![0, 0, 0, &data]);
        tx.insert(&self.tables.stock, row)
    }

    fn insert_customer(
        &self,
        tx: &Tx<'_, '_>,
        prefix: &[i64],
        customer: i64,
        random: &mut Rng,
    ) -> Result<()> {
        let &[warehouse, district] = prefix else { return Ok(()) };
        let names = Uneven::last_names(NAMES_OF_LOAD, self.customers);
        let number = if customer <= LAST_NAMES { customer - 1 } else { names.choose(random) };
        let (last, first) = (LastName::new(number), text(random, 8..=16));
        let (address, phone) = (Address::new(random), digits(random, 16));
        let credit = if random.u32(0..10) == 0 { "BC" } else { "GC" };
        let (discount, payment) = (share(random, 5_000)?, money(FIRST_PAYMENT)?);
        let data = text(random, 300..=500);
        let mut row: Vec<ValueRef<'_>> =
            row![warehouse, district, customer, &first, "OE", last.as_str()].to_vec();
        row.extend(address.values());
        row.extend(row![&phone, self.then, credit, money(5_000_000)?, discount]);
        row.extend(row![money(-FIRST_PAYMENT)?, payment, 1, 0, &data]);
        tx.insert(&self.tables.customer, row)?;
        let sequence = (district - 1) * self.customers + customer;
        let of = text(random, 12..=24);
        tx.insert(
            &self.tables.history,
            row![
                warehouse,
                FIRST_CALLER,
                sequence,
                customer,
                district,
                warehouse,
                district,
                self.then,
                payment,
                &of
            ],
        )
    }

    /// The customers of a district's first orders: all of them, in random order.
    fn buyers(&self, prefix: &[i64]) -> Vec<i64> {
        let mut buyers: Vec<i64> = (1..=self.customers).collect();
        Rng::with_seed(prefix.iter().fold(7, |seed, part| seed * 31 + *part as u64)).shuffle(&mut buyers);
        buyers
    }

    fn insert_order(
        &self,
        tx: &Tx<'_, '_>,
        prefix: &[i64],
        order: i64,
        customer: i64,
        random: &mut Rng,
    ) -> Result<()> {
        let &[warehouse, district] = prefix else { return Ok(()) };
        let is_delivered = order <= delivered_at_first(self.customers);
        let carrier = is_delivered.then(|| random.i64(1..=10));
        let lines = random.i64(5..=15);
        tx.insert(
            &self.tables.orders,
            row![warehouse, district, order, customer, self.then, carrier, lines, 1],
        )?;
        if !is_delivered {
            tx.insert(&self.tables.new_order, row![warehouse, district, order])?;
        }
        for line in 1..=lines {
            let (item, info) = (random.i64(1..=self.items), text(random, 24..=24));
            let amount = if is_delivered { 0 } else { random.i64(1..=999_999) };
            let delivered = is_delivered.then_some(self.then);
            let amount = money(amount)?;
            tx.insert(
                &self.tables.order_line,
                row![warehouse, district, order, line, item, warehouse, delivered, 5, amount, &info],
            )?;
        }
        Ok(())
    }

    fn insert_district(
        &self,
        tx: &Tx<'_, '_>,
        warehouse: i64,
        district: i64,
        random: &mut Rng,
    ) -> Result<()> {
        let (name, address) = (text(random, 6..=10), Address::new(random));
        let paid = money(FIRST_PAYMENT * self.customers)?;
        let mut row: Vec<ValueRef<'_>> = row![warehouse, district, &name].to_vec();
        row.extend(address.values());
        row.extend(row![share(random, 2_000)?, paid, self.customers + 1]);
        tx.insert(&self.tables.district, row)
    }

    fn insert_warehouse(&self, tx: &Tx<'_, '_>, warehouse: i64, random: &mut Rng) -> Result<()> {
        let (name, address) = (text(random, 6..=10), Address::new(random));
        let paid = money(FIRST_PAYMENT * self.customers * DISTRICTS)?;
        let mut row: Vec<ValueRef<'_>> = row![warehouse, &name].to_vec();
        row.extend(address.values());
        row.extend(row![share(random, 2_000)?, paid]);
        tx.insert(&self.tables.warehouse, row)
    }
}

/// Two streets, city, state, zip code.
struct Address([String; 5]);

impl Address {
    fn new(random: &mut Rng) -> Self {
        let mut part = |longest| text(random, if longest == 2 { 2..=2 } else { 10..=longest });
        let [one, two, city, state] = [20, 20, 20, 2].map(&mut part);
        Self([one, two, city, state.to_uppercase(), digits(random, 4) + "11111"])
    }

    fn values(&self) -> impl Iterator<Item = ValueRef<'_>> {
        self.0.iter().map(ValueRef::from)
    }
}
