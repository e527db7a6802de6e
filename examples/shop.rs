//! A shop with a flash sale: rows as structs, an error type of its own, a check, and a stock that many buy from at once.
//!
//! ```sh
//! cargo run -p heddledb --example shop
//! ```

use heddledb::{Database, Error, Sequence, SequenceDefinition, Table, TableOf, Timestamp};

#[derive(Debug, PartialEq, Table)]
struct Item {
    #[table(key)]
    id: i64,
    name: String,
    price: i64,
    /// Changed by additions, which do not conflict with each other; the check refuses one sale too many.
    #[table(check = "stock >= 0")]
    stock: i64,
}

#[derive(Debug, PartialEq, Table)]
#[table(name = "orders", index(by_customer(customer, id)))]
struct Order {
    #[table(key)]
    id: i64,
    customer: String,
    #[table(references = "item")]
    item: i64,
    quantity: u32,
    placed: Timestamp,
}

/// The errors of this program: the engine's become one of them by `?`.
#[derive(Debug, thiserror::Error)]
enum ShopError {
    #[error("there is no item {0}")]
    NoSuchItem(i64),
    #[error("item {0} is sold out")]
    SoldOut(i64),
    #[error(transparent)]
    Database(Error),
}

impl From<Error> for ShopError {
    fn from(error: Error) -> ShopError {
        ShopError::Database(error)
    }
}

struct Shop {
    db: Database,
    items: TableOf<Item>,
    orders: TableOf<Order>,
    numbers: Sequence,
}

impl Shop {
    fn open(db: Database) -> Result<Shop, Error> {
        let numbers = db.create_sequence(SequenceDefinition::new("order_number").start(1000))?;
        Ok(Shop { items: db.table_of()?, orders: db.table_of()?, numbers, db })
    }

    /// Places an order, or says why not; then it has left no trace.
    fn buy(&self, customer: &str, item: i64, quantity: u32) -> Result<i64, ShopError> {
        let id = self.numbers.next()?;
        let bought = self.db.try_run(|tx| {
            if !tx.exists(&self.items, item)? {
                return Err(ShopError::NoSuchItem(item));
            }
            let order =
                Order { id, customer: customer.to_string(), item, quantity, placed: Timestamp::now() };
            tx.add(&self.items, item, "stock", -i64::from(quantity))?;
            Ok(tx.insert(&self.orders, &order)?)
        });
        match bought {
            Ok(()) => Ok(id),
            Err(ShopError::Database(Error::CheckViolation { .. })) => Err(ShopError::SoldOut(item)),
            Err(error) => Err(error),
        }
    }

    fn orders_of(&self, customer: &str) -> Result<Vec<Order>, Error> {
        self.db.read(|snapshot| snapshot.scan_index(&self.orders, "by_customer", customer)?.collect())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let shop = Shop::open(Database::in_memory()?)?; // Database::open("shop", …) keeps it
    shop.db.run(|tx| {
        tx.insert(&shop.items, &Item { id: 1, name: "pen".into(), price: 190, stock: 100 })?;
        tx.insert(&shop.items, &Item { id: 2, name: "ink".into(), price: 450, stock: 5 })
    })?;

    // A hundred pens, and four times forty customers who want one.
    let sold: usize = std::thread::scope(|scope| {
        let buyers: Vec<_> = (0..4)
            .map(|crowd| {
                let shop = &shop;
                scope.spawn(move || {
                    (0..40)
                        .filter(|number| shop.buy(&format!("customer {crowd}/{number}"), 1, 1).is_ok())
                        .count()
                })
            })
            .collect();
        buyers.into_iter().map(|buyer| buyer.join().unwrap_or(0)).sum()
    });
    let pen = shop.db.run(|tx| tx.get(&shop.items, 1))?.ok_or(ShopError::NoSuchItem(1))?;
    println!("{sold} pens sold for {} each, {} left", pen.price, pen.stock);
    assert_eq!((sold, pen.stock), (100, 0));

    assert!(matches!(shop.buy("Ada", 1, 1), Err(ShopError::SoldOut(1))));
    assert!(matches!(shop.buy("Ada", 9, 1), Err(ShopError::NoSuchItem(9))));
    let number = shop.buy("Ada", 2, 5)?;
    let orders = shop.orders_of("Ada")?;
    println!("Ada's orders: {orders:?}");
    assert_eq!((orders.len(), orders[0].id, orders[0].quantity), (1, number, 5));
    shop.db.check()?;
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("the example runs");
}
