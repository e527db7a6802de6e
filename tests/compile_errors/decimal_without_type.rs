//! A decimal that does not say how many digits it has.

use heddledb::{Decimal, Table};

#[derive(Table)]
struct Item {
    #[table(key)]
    id: i64,
    price: Decimal,
}

fn main() {}
