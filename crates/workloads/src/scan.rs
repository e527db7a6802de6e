//! Whole-table reads for loading and checking.

use heddledb::{Database, Error, Range, Result, Row, Table};

/// Calls `each` with every row of a table, in one transaction. `start` makes the result anew whenever the
/// transaction has to run again.
pub(crate) fn fold<T>(
    db: &Database,
    table: &Table,
    start: impl Fn() -> T,
    each: impl Fn(&mut T, &Row<'_>) -> Result<()>,
) -> Result<T> {
    db.run(|tx| {
        let mut result = start();
        for row in tx.scan(table, Range::all())? {
            each(&mut result, &row?)?;
        }
        Ok(result)
    })
}

/// The table of this name, or `None` where the database has none.
pub(crate) fn table_if_there(db: &Database, name: &str) -> Result<Option<Table>> {
    match db.table(name) {
        Ok(table) => Ok(Some(table)),
        Err(Error::UnknownTable { .. }) => Ok(None),
        Err(other) => Err(other),
    }
}

/// How many rows a table has.
pub(crate) fn count(db: &Database, table: &Table) -> Result<u64> {
    fold(
        db,
        table,
        || 0,
        |rows, _| {
            *rows += 1;
            Ok(())
        },
    )
}
