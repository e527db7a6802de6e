//! A row without a primary key.

use heddledb::Table;

#[derive(Table)]
struct Item {
    id: i64,
    name: String,
}

fn main() {}
