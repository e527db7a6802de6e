//! Rows some of whose columns are split: what is hidden is never seen as what it is not, and what is not split is as
//! always.

use std::cell::Cell;
use std::time::Duration;

use heddledb::{Database, Error, Range, Result, SplitOperation, Table, Value, ValueRef, key};

use crate::support::split::*;

/// Long enough for a few calls in one split phase.
const PHASE: f64 = 30.0;

/// A table whose row 3 is labelled.
fn labelled(phase_milliseconds: f64) -> (Database, Table) {
    let (db, table) = in_memory(phase_milliseconds);
    label_row(&db, &table, 3);
    (db, table)
}

/// The number of calls that a body stashes inside of one split phase.
fn stashed_by(db: &Database, table: &Table, mut body: impl FnMut()) -> u64 {
    in_one_split_phase(db, table, || {
        let before = report(db).stashed;
        body();
        report(db).stashed - before
    })
}

#[test]
fn a_reader_of_other_columns_is_not_stashed() {
    in_time(|| {
        let (db, table) = labelled(PHASE);
        let first_rows = || Range::from(key![0]).to(key![5]);
        let stashed = stashed_by(&db, &table, || {
            let exists = db.run(|tx| tx.exists(&table, key![3]));
            assert_eq!(exists, Ok(true));
            let plain = db.run(|tx| tx.get(&table, key![3])?.ok_or(Error::Closed)?.int("plain"));
            assert_eq!(plain, Ok(0));
            let notes = db.run(|tx| {
                let rows = tx.scan(&table, first_rows())?;
                rows.map(|row| Ok(row?.text("note")?.to_string())).collect::<Result<Vec<_>>>()
            });
            assert_eq!(notes.map(|notes| notes.len()), Ok(5));
            let by_tag = db.run(|tx| {
                let rows = tx.scan_index(&table, "board_by_tag", Range::prefix(key![0]))?;
                rows.map(|row| row?.int("id")).collect::<Result<Vec<_>>>()
            });
            assert_eq!(by_tag, Ok((0..10).collect()));
        });
        assert_eq!(stashed, 0);
    });
}

#[test]
fn an_index_on_another_column_follows_while_the_row_is_split() {
    in_time(|| {
        let (db, table) = labelled(PHASE);
        let ids = |tag: i64| {
            db.run(|tx| {
                let rows = tx.scan_index(&table, "board_by_tag", Range::prefix(key![tag]))?;
                rows.map(|row| row?.int("id")).collect::<Result<Vec<_>>>()
            })
        };
        let stashed = stashed_by(&db, &table, || {
            for tag in [77, 78, 0] {
                db.run(|tx| {
                    tx.update(&table, key![3], &[("tag", tag.into())])?;
                    tx.add(&table, key![3], "n", 1)
                })
                .expect("committed");
                assert!(ids(tag).is_ok_and(|ids| ids.contains(&3)), "tag {tag}");
            }
            assert_eq!((ids(77), ids(78)), (Ok(vec![]), Ok(vec![])));
        });
        assert_eq!(stashed, 0);
        assert!(int(&db, &table, 3, "n").is_ok_and(|n| n > 0 && n % 3 == 0));
        db.check().expect("consistent");
    });
}

/// Every way of looking at a hidden column, in a split phase: the body may get an error or a NULL, its caller never.
#[test]
fn every_look_at_a_hidden_column_waits_and_gets_its_value() {
    in_time(|| {
        let (db, table) = labelled(8.0);
        let look = |name: &str, expected: &str, look: &dyn Fn(heddledb::Row<'_>) -> Result<String>| {
            let runs = Cell::new(0);
            let stashed = stashed_by_ending(&db, &table, || {
                runs.set(0);
                let seen = db.run(|tx| {
                    runs.set(runs.get() + 1);
                    look(tx.get(&table, key![3])?.ok_or(Error::Closed)?)
                });
                assert!(seen.as_ref().is_ok_and(|seen| seen.contains(expected)), "{name}: {seen:?}");
            });
            assert!(stashed > 0 && runs.get() > 1, "{name}: {stashed} stashed, {} runs", runs.get());
        };
        db.run(|tx| tx.add(&table, key![3], "n", 4_711)).expect("an addition");
        look("int", "4711", &|row| Ok(row.int("n")?.to_string()));
        look("get", "4711", &|row| Ok(format!("{:?}", row.get("n")?)));
        look("is_null", "false", &|row| Ok(row.is_null("n")?.to_string()));
        look("to_values", "4711", &|row| {
            let values = row.to_values();
            let split = ["n", "high", "product", "best", "top"].len();
            let nulls = values[1..=split + 1].iter().filter(|value| **value == Value::Null).count();
            Ok(format!("{values:?}, {}", if nulls > 0 { "4711 is hidden" } else { "whole" }))
        });
        look("Debug", "4711", &|row| Ok(format!("{row:?}")));
        look("an error that the body swallows", "4711", &|row| {
            Ok(row.int("n").map_or_else(|_| "swallowed".to_string(), |n| n.to_string()))
        });
        look("the wrong type", "an error", &|row| {
            Ok(row.text("n").map_or_else(|error| format!("an error: {error}"), str::to_string))
        });
        look("an ordered tuple", "Tuple", &|row| Ok(format!("{:?}", row.get("best")?.to_value())));
        look("a panic", "4711", &|row| match row.get("n")? {
            ValueRef::Int(n) => Ok(n.to_string()),
            other => panic!("a NOT NULL column holds {other:?}"),
        });
        look("an error of its own", "4711", &|row| {
            let n = row.int("n").map_err(|_| heddledb::fail("a column without a value"))?;
            Ok(n.to_string())
        });
    });
}

/// The number of calls that are stashed by a body that begins in a split phase and waits for its end.
fn stashed_by_ending(db: &Database, table: &Table, mut body: impl FnMut()) -> u64 {
    for _ in 0..50 {
        wait_for_split(db, table);
        let before = report(db);
        if !before.columns.iter().any(|column| column.now) {
            continue;
        }
        body();
        let stashed = report(db).stashed - before.stashed;
        if stashed > 0 {
            return stashed;
        }
    }
    0
}

#[test]
fn scans_over_split_rows_see_every_value() {
    in_time(|| {
        let (db, table) = labelled(4.0);
        for round in 1..=10 {
            wait_for_split(&db, &table);
            db.run(|tx| tx.add(&table, key![3], "n", 5)).expect("an addition");
            let sum = db.run(|tx| {
                let mut rows = tx.scan(&table, Range::all())?;
                rows.try_fold(0, |sum, row| Ok(sum + row?.int("n")?))
            });
            assert_eq!(sum, Ok(5 * round));
            let by_tag = db.run(|tx| {
                let rows = tx.scan_index(&table, "board_by_tag", Range::prefix(key![0]).reverse())?;
                rows.map(|row| Ok(row?.to_values()[1].clone())).collect::<Result<Vec<_>>>()
            });
            assert!(
                by_tag.is_ok_and(|all| all.contains(&Value::Int(5 * round)) && !all.contains(&Value::Null))
            );
        }
    });
}

#[test]
fn a_split_record_is_deleted_and_inserted_again_and_split_again() {
    in_time(|| {
        let (db, table) = labelled(4.0);
        for round in 0..8 {
            // The label alone does not split what is not there, nor does it keep it from coming back.
            wait_until("the record is split", || {
                db.run(|tx| tx.add(&table, key![3], "n", 1)).expect("an addition");
                is_split(&db)
            });
            let n = db.run(|tx| {
                let n = tx.get(&table, key![3])?.ok_or(Error::Closed)?.int("n")?;
                assert!(tx.delete(&table, key![3])?);
                Ok(n)
            });
            assert!(n.as_ref().is_ok_and(|&n| n > 0), "round {round}: {n:?}");
            let missing = db.run(|tx| tx.add(&table, key![3], "n", 1));
            assert!(matches!(missing, Err(Error::MissingKey { .. })), "{missing:?}");
            assert_eq!(db.run(|tx| tx.exists(&table, key![3])), Ok(false));
            db.run(|tx| insert_row(tx, &table, 3)).expect("inserted again");
            assert_eq!(int(&db, &table, 3, "n"), Ok(0));
        }
        // Without a look at it before, too.
        wait_until("a blind delete of a split record", || {
            db.run(|tx| tx.add(&table, key![3], "n", 1)).expect("an addition");
            let before = report(&db).stashed;
            assert_eq!(db.run(|tx| tx.delete(&table, key![3])), Ok(true));
            let duplicate = db.run(|tx| {
                insert_row(tx, &table, 3)?;
                insert_row(tx, &table, 4)
            });
            assert!(matches!(duplicate, Err(Error::DuplicateKey { .. })), "{duplicate:?}");
            db.run(|tx| insert_row(tx, &table, 3)).expect("inserted again");
            report(&db).stashed > before
        });
        let duplicate = db.run(|tx| insert_row(tx, &table, 3));
        assert!(matches!(duplicate, Err(Error::DuplicateKey { .. })), "{duplicate:?}");
        db.check().expect("consistent");
    });
}

/// Another operation, a set, and an update that follows from what was read: on a split column all of them wait.
#[test]
fn whatever_the_column_is_not_split_for_waits_and_is_done() {
    in_time(|| {
        let (db, table) = labelled(4.0);
        let mut expected = 0;
        for round in 0..12_i64 {
            wait_for_split(&db, &table);
            db.run(|tx| tx.add(&table, key![3], "n", 10)).expect("an addition");
            expected += 10;
            match round % 4 {
                0 => db.run(|tx| tx.max(&table, key![3], "n", 500)).map(|()| expected = expected.max(500)),
                1 => db.run(|tx| tx.update(&table, key![3], &[("n", 7.into())])).map(|()| expected = 7),
                2 => db
                    .run(|tx| {
                        let n = tx.get(&table, key![3])?.ok_or(Error::Closed)?.int("n")?;
                        tx.update(&table, key![3], &[("n", (n * 2).into())])
                    })
                    .map(|()| expected *= 2),
                // Its own addition is seen by whichever thread made it.
                _ => db
                    .run(|tx| {
                        tx.add(&table, key![3], "n", 1)?;
                        tx.get(&table, key![3])?.ok_or(Error::Closed)?.int("n")
                    })
                    .map(|n| {
                        expected += 1;
                        assert_eq!(n, expected);
                    }),
            }
            .expect("committed");
            assert_eq!(int(&db, &table, 3, "n"), Ok(expected), "round {round}");
        }
    });
}

#[test]
fn without_its_label_a_column_is_split_no_more() {
    in_time(|| {
        let (db, table) = in_memory(2.0);
        db.split(&table, key![3], "n", SplitOperation::ADD).expect("a label");
        wait_for_split(&db, &table);
        db.unsplit(&table, key![3], "n").expect("a label less");
        wait_until("the last split phase has ended", || !is_split(&db));
        let before = report(&db);
        for round in 1..=20 {
            db.run(|tx| tx.add(&table, key![3], "n", 1)).expect("an addition");
            assert_eq!(int(&db, &table, 3, "n"), Ok(round));
            std::thread::sleep(Duration::from_millis(1));
        }
        let after = report(&db);
        // One was perhaps decided on before.
        assert!(after.split <= before.split + 1 && after.stashed <= before.stashed + 1, "{after:?}");
    });
}

/// A label is for one operation; the last one counts.
#[test]
fn a_label_for_another_operation_takes_the_place_of_the_first() {
    in_time(|| {
        let (db, table) = in_memory(2.0);
        for operation in [SplitOperation::ADD, SplitOperation::MAX, SplitOperation::ADD] {
            db.split(&table, key![3], "n", operation).expect("a label");
            wait_until("it is split for that", || {
                db.run(|tx| tx.add(&table, key![PLAIN_ROW], "plain", 1)).expect("an addition");
                report(&db).columns.iter().any(|column| column.now && column.operation == operation)
            });
        }
        let refused = db.split(&table, key![3], "tag", SplitOperation::ADD);
        assert!(matches!(refused, Err(Error::InvalidValue { .. })), "{refused:?}");
        let refused = db.split(&table, key![3], "note", SplitOperation::ADD);
        assert!(refused.is_err(), "{refused:?}");
        // A row that is not there yet is split once it is.
        db.unsplit(&table, key![3], "n").expect("a label less");
        db.split(&table, key![50], "n", SplitOperation::ADD).expect("a label");
        db.run(|tx| insert_row(tx, &table, 50)).expect("inserted");
        wait_until("the new row is split", || {
            db.run(|tx| tx.add(&table, key![50], "n", 1)).expect("an addition");
            report(&db).columns.iter().any(|column| column.now && column.key == "50")
        });
    });
}
