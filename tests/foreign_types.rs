//! Values of the crates chrono, uuid and rust_decimal as columns, keys and arguments, by feature:
//! `cargo test -p heddledb --features chrono,uuid,rust_decimal,serde --test foreign_types --test serde_rows`.

use chrono::{DateTime, NaiveDate, Utc};
use heddledb::{Database, Error, Result, Table, TableOf, key, row, set};
use rust_decimal::Decimal;
use uuid::Uuid;

#[derive(Clone, Debug, PartialEq, Table)]
struct Order {
    #[table(key)]
    id: Uuid,
    #[table(key)]
    day: NaiveDate,
    at: DateTime<Utc>,
    shipped: Option<DateTime<Utc>>,
    #[table(data_type = "decimal(12, 2)")]
    total: Decimal,
    #[table(data_type = "decimal(12, 2)")]
    refund: Option<Decimal>,
    parent: Option<Uuid>,
    due: Option<NaiveDate>,
}

fn order() -> Order {
    Order {
        id: Uuid::from_u128(0x67e5_5044_10b1_426f_9247_bb68_0e5f_e0c8),
        day: NaiveDate::from_ymd_opt(2024, 2, 29).expect("a day"),
        at: "2024-02-29T10:00:00.25Z".parse().expect("a time"),
        shipped: None,
        total: Decimal::new(1990, 2),
        refund: Some(Decimal::new(5, 1)),
        parent: Some(Uuid::nil()),
        due: None,
    }
}

fn orders() -> (Database, TableOf<Order>) {
    let db = Database::in_memory().expect("it opens");
    let orders = db.table_of::<Order>().expect("it is made");
    db.run(|tx| tx.insert(&orders, &order())).expect("it is inserted");
    (db, orders)
}

#[test]
fn structs_have_columns_of_the_crates_types() {
    let (db, orders) = orders();
    let Order { id, day, .. } = order();
    assert_eq!(db.run(|tx| tx.get(&orders, (id, day))), Ok(Some(order())));
    let changed = Order { shipped: Some("1969-12-31T23:59:59.999999Z".parse().expect("a time")), ..order() };
    db.run(|tx| tx.update_row(&orders, &changed)).expect("it is changed");
    assert_eq!(db.run(|tx| tx.get(&orders, key![id, day])), Ok(Some(changed)));
}

#[test]
fn rows_and_updates_take_them_and_give_them_back() {
    let (db, orders) = orders();
    let Order { id, day, at, .. } = order();
    let total = Decimal::new(1234, 2);
    db.run(|tx| {
        tx.update(&orders, (id, day), set! { total: total, due: Some(day), parent: None::<Uuid> }).map(drop)
    })
    .expect("it is changed");
    let read: Result<(Decimal, Option<NaiveDate>, Option<Uuid>, DateTime<Utc>)> = db.run(|tx| {
        let table = db.table("order")?;
        let row = tx.get(&table, (id, day))?.ok_or_else(|| heddledb::fail("no order"))?;
        Ok((row.read("total")?, row.read("due")?, row.read("parent")?, row.get("at")?.try_into()?))
    });
    assert_eq!(read, Ok((total, Some(day), None, at)));
    assert_eq!(row![id, day, at, total].len(), 4);
}

#[test]
fn values_that_do_not_fit_are_refused() {
    let (db, orders) = orders();
    let Order { id, day, .. } = order();
    let inexact = db.run(|tx| tx.update(&orders, (id, day), set! { total: Decimal::new(1, 3) }).map(drop));
    assert!(matches!(inexact, Err(Error::Inexact { .. })), "{inexact:?}");
    let wide = Order { total: Decimal::new(i64::MAX, 2), ..order() };
    let wide = db.run(|tx| tx.update_row(&orders, &wide));
    assert!(matches!(wide, Err(Error::Overflow { .. })), "{wide:?}");
    assert_eq!(db.run(|tx| tx.get(&orders, (id, day))), Ok(Some(order())));
}
