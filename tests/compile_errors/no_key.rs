//! A key that is none.

use heddledb::{Database, Result};

struct ItemId(i64);

fn main() -> Result<()> {
    let db = Database::in_memory()?;
    let items = db.table("item")?;
    db.run(|tx| tx.exists(&items, ItemId(7))).map(drop)
}
