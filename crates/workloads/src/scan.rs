//! Whole tables: loading, counting, checking.

use heddledb::{Database, Error, Range, Result, Row, Snapshot, Table, Tx, key};

use crate::workload::integers_of_key;

/// Acknowledged keys looked up in one snapshot.
const BATCH: usize = 1_000;

/// Calls `each` with every row of a table, in a snapshot of its own.
pub(crate) fn fold<T>(
    db: &Database,
    table: &Table,
    start: impl FnOnce() -> T,
    each: impl Fn(&mut T, &Row<'_>) -> Result<()>,
) -> Result<T> {
    db.read(|snapshot| fold_in(snapshot, table, start(), each))
}

/// Calls `each` with every row of a table in a snapshot: so several tables can be compared while they are being changed.
pub(crate) fn fold_in<T>(
    snapshot: &Snapshot,
    table: &Table,
    mut result: T,
    each: impl Fn(&mut T, &Row<'_>) -> Result<()>,
) -> Result<T> {
    for row in snapshot.scan(table, Range::all())? {
        each(&mut result, &row?.row())?;
    }
    Ok(result)
}

/// The table of this name, or `None` where the database has none.
pub(crate) fn table_if_there(db: &Database, name: &str) -> Result<Option<Table>> {
    match db.table(name) {
        Ok(table) => Ok(Some(table)),
        Err(Error::UnknownTable { .. }) => Ok(None),
        Err(other) => Err(other),
    }
}

/// The number of a table's rows.
pub(crate) fn count(db: &Database, table: &Table) -> Result<u64> {
    db.read(|snapshot| count_in(snapshot, table))
}

/// The number of a table's rows in a snapshot.
pub(crate) fn count_in(snapshot: &Snapshot, table: &Table) -> Result<u64> {
    fold_in(snapshot, table, 0, |rows, _| {
        *rows += 1;
        Ok(())
    })
}

/// Checks that every acknowledged call of this kind has its row in a history whose key is three integers.
pub(crate) fn check_acknowledged(
    db: &Database,
    history: &str,
    kind: &str,
    keys: &[String],
) -> std::result::Result<(), String> {
    let history = match table_if_there(db, history) {
        Ok(Some(history)) => history,
        Ok(None) if keys.is_empty() => return Ok(()),
        Ok(None) => return Err(format!("{} {kind}s were acknowledged, but there is no history", keys.len())),
        Err(error) => return Err(format!("the history can't be read: {error}")),
    };
    for batch in keys.chunks(BATCH) {
        let parsed =
            batch.iter().map(|key| integers_of_key(key, 3)).collect::<std::result::Result<Vec<_>, _>>()?;
        let lost = db.read(|snapshot| {
            for (key, text) in parsed.iter().zip(batch) {
                if !snapshot.exists(&history, key![key[0], key[1], key[2]])? {
                    return Ok(Some(text));
                }
            }
            Ok(None)
        });
        match lost {
            Ok(None) => {}
            Ok(Some(key)) => return Err(format!("the {kind} acknowledged as {key} is not in the history")),
            Err(error) => return Err(format!("the history can't be read: {error}")),
        }
    }
    Ok(())
}

/// Inserts the records 1 to `records` that are not there yet, in that order and `batch` to a transaction, so that those
/// of a load that was cut short are the first ones. More of them than `records` are refused, by the name of the option.
pub(crate) fn load_in_order(
    db: &Database,
    table: &Table,
    records: i64,
    option: &str,
    batch: i64,
    insert: impl Fn(&Tx<'_, '_>, i64) -> Result<()>,
) -> crate::Result<()> {
    let there = count(db, table)? as i64;
    if there > records {
        return Err(crate::Error::Unusable(format!(
            "the database holds {there} records of {:?}; give --{option} {there}, or another --dir",
            table.name()
        )));
    }
    for first in (there + 1..=records).step_by(batch.max(1) as usize) {
        let last = records.min(first + batch - 1);
        db.run(|tx| (first..=last).try_for_each(|record| insert(tx, record)))?;
    }
    Ok(())
}
