//! A value that no column can hold.

use heddledb::{Database, Result, row};

struct Price(i64);

fn main() -> Result<()> {
    let db = Database::in_memory()?;
    let items = db.table("item")?;
    db.run(|tx| tx.insert(&items, row![7, Price(12)]))
}
