//! A struct that is another table's row.

use heddledb::{Database, Result, Table};

#[derive(Table)]
struct Item {
    #[table(key)]
    id: i64,
}

#[derive(Table)]
struct Order {
    #[table(key)]
    id: i64,
}

fn main() -> Result<()> {
    let db = Database::in_memory()?;
    let items = db.table_of::<Item>()?;
    db.run(|tx| tx.insert(&items, &Order { id: 7 }))
}
