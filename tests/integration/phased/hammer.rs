//! Mixed operations on three labelled rows, by few threads and by far more than there are processors.

use std::thread;

use heddledb::{Error, Range, Result, SplitOperation, Table, Tx, Value, key, row};

use crate::support::split::*;

const ROWS: i64 = 3;
/// All threads together make about this many calls.
const CALLS: i64 = 6_000;

/// The sums over all labelled rows that calls, all of which keep the balance, cannot change.
fn balance(tx: &Tx<'_, '_>, table: &Table) -> Result<(i64, i64)> {
    let mut sums = (0, 0);
    for row in tx.scan(table, Range::from(key![1]).to(key![1 + ROWS]))? {
        let row = row?;
        sums = (sums.0 + row.int("n")?, sums.1 + row.int("plain")?);
    }
    Ok(sums)
}

fn hammer(threads: i64) {
    let (db, table) = in_memory(1.0);
    for id in 1..=ROWS {
        label_row(&db, &table, id);
        db.split(&table, key![id], "plain", SplitOperation::ADD).expect("a label");
    }
    wait_for_split(&db, &table);
    let each = CALLS / threads;
    thread::scope(|scope| {
        for thread in 0..threads {
            let (db, table) = (&db, &table);
            scope.spawn(move || {
                for number in 0..each {
                    let (from, to) = (1 + number % ROWS, 1 + (number + 1 + thread % 2) % ROWS);
                    let order = number * threads + thread;
                    db.run(|tx| match number % 8 {
                        // Moved from one row to another: the sum stays.
                        0..=2 => {
                            tx.add(table, key![from], "plain", -number)?;
                            tx.add(table, key![to], "plain", number)?;
                            tx.add(table, key![from], "n", 1)
                        }
                        3 => {
                            tx.max(table, key![from], "high", order)?;
                            tx.ordered_put(table, key![from], "best", &row![order], &row![thread])?;
                            tx.top_k_insert(table, key![from], "top", &row![order], &row![thread])?;
                            tx.add(table, key![from], "n", 1)
                        }
                        4 => {
                            tx.multiply(table, key![from], "product", -1)?;
                            tx.add(table, key![from], "n", 1)
                        }
                        // The row's own column, beside the split ones.
                        5 => {
                            tx.update(table, key![from], &[("tag", number.into())])?;
                            tx.add(table, key![from], "n", 1)
                        }
                        6 => tx.add(table, key![from], "n", 1),
                        // Not what the column is split for.
                        _ if number % 64 == 7 => {
                            assert_eq!(balance(tx, table)?.1, 0, "half a transfer");
                            let n = tx.get(table, key![from])?.ok_or(Error::Closed)?.int("n")?;
                            tx.update(table, key![from], &[("n", (n + 1).into())])
                        }
                        _ => tx.add(table, key![to], "n", 1),
                    })
                    .expect("committed");
                }
            });
        }
    });
    assert_eq!(db.run(|tx| balance(tx, &table)), Ok((each * threads, 0)), "{threads} threads");
    check_highest(&db, &table, threads, each);
    db.check().expect("consistent");
    let report = report(&db);
    assert!(report.split > 0 && report.reconciliation > 0, "{report:?}");
}

/// The highest, the best and the top entries, and the products' signs, as they must come out.
fn check_highest(db: &heddledb::Database, table: &Table, threads: i64, each: i64) {
    for id in 1..=ROWS {
        let of_kind = |kind: i64| (0..each).filter(move |n| n % 8 == kind && 1 + n % ROWS == id);
        let mut puts: Vec<(i64, i64)> =
            of_kind(3).flat_map(|n| (0..threads).map(move |thread| (n * threads + thread, thread))).collect();
        puts.sort_by(|one, other| other.cmp(one));
        let negations = of_kind(4).count() as i64 * threads;
        let row = db.run(|tx| Ok(tx.get(table, key![id])?.expect("there").to_values())).expect("readable");
        let at = |column: &str| {
            let columns = table.definition().columns();
            &row[columns.iter().position(|other| other.name == column).expect("a column")]
        };
        assert_eq!(*at("high"), Value::Int(puts[0].0));
        assert_eq!(entries(at("best")), &puts[..1]);
        assert_eq!(entries(at("top")), &puts[..TOP as usize]);
        assert_eq!(*at("product"), Value::Int(if negations % 2 == 0 { 1 } else { -1 }));
    }
}

#[test]
fn one_thread() {
    in_time(|| hammer(1));
}

#[test]
fn two_threads() {
    in_time(|| hammer(2));
}

#[test]
fn eight_threads() {
    in_time(|| hammer(8));
}

#[test]
fn sixty_four_threads() {
    in_time(|| hammer(64));
}
