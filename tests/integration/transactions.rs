//! Transactions by closures: reading one's own writes, savepoints, ranges, operations, large transactions.

mod operations;
mod ranges;
mod savepoints;

use std::sync::Barrier;
use std::thread;

use heddledb::testing::SimulatedDisk;
use heddledb::{
    Database, Durability, Error, Options, PrimaryIndex, Range, SerialOptions, Table, Value, ValueRef, fail,
    key, row,
};
use tables::{account_definition, counter_definition, dump, first_column, in_memory, on_disk, open, refused};

use crate::support::tables;

fn each_kind() -> impl Iterator<Item = (Database, Table)> {
    [PrimaryIndex::Hash, PrimaryIndex::Ordered, PrimaryIndex::Both].into_iter().map(|kind| {
        let db = in_memory();
        let table = db.create_table(counter_definition().primary_index(kind)).unwrap();
        (db, table)
    })
}

#[test]
fn a_transaction_reads_its_own_writes() {
    for (db, table) in each_kind() {
        db.run(|tx| tx.insert(&table, row![1, 10])).unwrap();
        db.run(|tx| {
            let n = |id: i64| tx.get(&table, key![id])?.map(|row| row.int("n")).transpose();
            tx.insert(&table, row![2, 20])?;
            assert!(tx.exists(&table, key![2])?);
            assert_eq!(n(2)?, Some(20));
            let before = tx.get(&table, key![1])?.unwrap();
            tx.update(&table, key![1], &[("n", 11.into())])?;
            tx.add(&table, key![1], "n", 5)?;
            tx.add(&table, key![2], "n", 5)?;
            assert_eq!((n(1)?, n(2)?), (Some(16), Some(25)));
            assert_eq!(before.int("n")?, 10, "a row stays as it was read");
            let mut all = first_column(tx.scan(&table, Range::all()))?;
            all.sort_unstable();
            assert_eq!(all, [1, 2]);
            assert!(tx.delete(&table, key![1])?);
            assert!(!tx.exists(&table, key![1])? && n(1)?.is_none());
            assert_eq!(first_column(tx.scan(&table, Range::all()))?, [2]);
            Ok(())
        })
        .unwrap();
        assert_eq!(dump(&db, &table), [row![2, 25].map(Value::from)]);
        db.check().unwrap();
    }
}

#[test]
fn a_row_may_go_and_come_again_in_one_transaction() {
    for (db, table) in each_kind() {
        db.run(|tx| tx.insert(&table, row![1, 10])).unwrap();
        db.run(|tx| {
            for round in 0..5 {
                assert!(tx.delete(&table, key![1])?);
                refused(tx.add(&table, key![1], "n", 1), &["(1)"]);
                tx.insert(&table, row![1, round])?;
                refused(tx.insert(&table, row![1, 0]), &["(1)"]);
                tx.add(&table, key![1], "n", 100)?;
                assert_eq!(tx.get(&table, key![1])?.unwrap().int("n")?, round + 100);
            }
            tx.insert(&table, row![2, None::<i64>])?;
            tx.delete(&table, key![2]).map(drop)
        })
        .unwrap();
        assert_eq!(dump(&db, &table), [row![1, 104].map(Value::from)]);
        // A NULL, and a text that needs room of its own, do not come back with the row.
        db.run(|tx| {
            tx.update(&table, key![1], &[("n", ValueRef::Null)])?;
            tx.delete(&table, key![1])?;
            tx.insert(&table, row![1, 7])
        })
        .unwrap();
        assert_eq!(dump(&db, &table), [row![1, 7].map(Value::from)]);
        db.run(|tx| tx.delete(&table, key![1]).map(drop)).unwrap();
        assert!(dump(&db, &table).is_empty());
        db.run(|tx| tx.insert(&table, row![1, 8])).unwrap();
        assert_eq!(dump(&db, &table), [row![1, 8].map(Value::from)]);
        db.check().unwrap();
    }
}

#[test]
fn an_error_or_a_panic_leaves_no_trace() {
    let db = in_memory();
    let table = db.create_table(account_definition()).unwrap();
    db.run(|tx| tx.insert(&table, row![1, "ada", 7, 100, 1])).unwrap();
    let before = dump(&db, &table);
    let change = |tx: &heddledb::Tx<'_, '_>| {
        tx.insert(&table, row![2, "bea", 7, 200, 2])?;
        tx.update(&table, key![1], &[("name", "eve".into()), ("branch", 9.into())])?;
        tx.add(&table, key![1], "balance", 5)
    };
    let failed = db.run(|tx| change(tx).and(Err::<(), _>(fail("changed my mind"))));
    assert_eq!(failed, Err(Error::Failed { message: "changed my mind".to_string() }));
    assert_eq!(dump(&db, &table), before);
    let panicked = db.run(|tx| -> heddledb::Result<()> {
        change(tx)?;
        std::panic::resume_unwind(Box::new("out of luck"))
    });
    let error = refused(panicked, &["out of luck", "no trace", "the database goes on"]);
    assert!(matches!(error, Error::Panicked { .. }));
    assert_eq!(dump(&db, &table), before);
    db.check().unwrap();
    db.run(change).unwrap();
    assert_eq!(dump(&db, &table).len(), 2);
    db.check().unwrap();
}

#[test]
fn a_value_comes_back_from_a_closure() {
    let (db, table) = each_kind().next().unwrap();
    assert_eq!(db.run(|_| Ok("a value")).unwrap(), "a value");
    let mut runs = 0;
    db.run(|tx| {
        runs += 1;
        if runs < 3 { Err(Error::Conflict) } else { tx.insert(&table, row![1, runs]) }
    })
    .unwrap();
    assert_eq!(dump(&db, &table), [row![1, 3].map(Value::from)]);
}

#[test]
fn an_overflow_at_commit_is_reported_only_of_a_state_that_there_was() {
    // In every state a + b is within the bounds: only a thread that sees a of one state and b of another can overflow.
    let db = in_memory();
    let table = db.create_table(counter_definition()).unwrap();
    db.run(|tx| {
        tx.insert(&table, row![1, 10])?;
        tx.insert(&table, row![2, 0])
    })
    .unwrap();
    for round in 0..40 {
        db.run(|tx| {
            tx.update(&table, key![1], &[("n", 10.into())])?;
            tx.update(&table, key![2], &[("n", 0.into())])
        })
        .unwrap();
        let both_have_read = Barrier::new(2);
        let first_time = |runs: &mut u32| {
            *runs += 1;
            if *runs == 1 {
                both_have_read.wait();
            }
        };
        thread::scope(|scope| {
            let mover = scope.spawn(|| {
                let mut runs = 0;
                db.run(|tx| {
                    tx.update(&table, key![1], &[("n", 0.into())])?;
                    tx.update(&table, key![2], &[("n", i64::MAX.into())])?;
                    first_time(&mut runs);
                    Ok(())
                })
            });
            let mut runs = 0;
            let added = db.run(|tx| {
                let a = tx.get(&table, key![1])?.unwrap().int("n")?;
                tx.add(&table, key![2], "n", a)?;
                first_time(&mut runs);
                Ok(())
            });
            assert_eq!(added, Ok(()), "round {round}");
            mover.join().unwrap().unwrap();
        });
    }
}

#[test]
fn a_transaction_of_ten_thousand_rows_is_whole() {
    let disk = SimulatedDisk::new();
    let db = open(&disk);
    let table = db.create_table(account_definition()).unwrap();
    let insert_all = |tx: &heddledb::Tx<'_, '_>| {
        for id in 0..10_000_i64 {
            tx.insert(&table, row![id, &*format!("account number {id}"), id % 100, id, 0])?;
        }
        Ok(())
    };
    refused(db.run(|tx| insert_all(tx).and(Err::<(), _>(fail("not yet")))), &["not yet"]);
    assert!(dump(&db, &table).is_empty());
    db.run(insert_all).unwrap();
    db.run(|tx| {
        for id in 0..10_000_i64 {
            match id % 3 {
                0 => drop(tx.delete(&table, key![id])?),
                1 => tx.add(&table, key![id], "balance", 1)?,
                _ => tx.update(&table, key![id], &[("branch", (id % 7).into())])?,
            }
        }
        let savepoint = tx.savepoint();
        (1..10_000).step_by(3).try_for_each(|id: i64| tx.delete(&table, key![id]).map(drop))?;
        tx.rollback_to(&savepoint);
        Ok(())
    })
    .unwrap();
    let before = dump(&db, &table);
    assert_eq!(before.len(), 6_666);
    db.check().unwrap();
    db.close().unwrap();
    let db = open(&disk);
    assert_eq!(dump(&db, &db.table("account").unwrap()), before);
    db.check().unwrap();
}

#[test]
fn a_very_large_transaction_is_committed_whole_and_recovered() {
    // Many segments and log buffers in one transaction.
    let rows = if cfg!(debug_assertions) { 100_000 } else { 1_000_000 };
    let disk = SimulatedDisk::new();
    let options = || {
        on_disk(&disk)
            .log(|log| log.segment_bytes(256 << 10).buffer_bytes(64 << 10))
            .durability(Durability::Group)
    };
    let db = Database::open(tables::DATABASE, options()).unwrap();
    let table = db.create_table(counter_definition().primary_index(PrimaryIndex::Hash)).unwrap();
    db.run(|tx| (0..rows).try_for_each(|id| tx.insert(&table, row![id, id * 2]))).unwrap();
    let sum = |db: &Database| {
        let table = db.table("counter").unwrap();
        db.run(|tx| {
            tx.scan(&table, Range::all())?
                .try_fold((0_i64, 0_i64), |(count, sum), row| Ok((count + 1, sum + row?.int("n")?)))
        })
        .unwrap()
    };
    let expected = (rows, rows * (rows - 1));
    assert_eq!(sum(&db), expected);
    db.close().unwrap();
    let db = Database::open(tables::DATABASE, options()).unwrap();
    assert_eq!(sum(&db), expected);
    assert!(db.recovery().transactions >= 2);
}

#[test]
fn options_of_every_kind_run_the_same_transaction() {
    for partitions in [1, 3] {
        for variant in heddledb::SerialVariant::ALL {
            for durability in Durability::ALL {
                let disk = SimulatedDisk::new();
                let options = || -> Options {
                    on_disk(&disk)
                        .protocol(SerialOptions::default().partitions(partitions).variant(*variant))
                        .durability(*durability)
                };
                let db = Database::open(tables::DATABASE, options()).unwrap();
                let table = db.create_table(account_definition()).unwrap();
                for id in 0..10_i64 {
                    db.run(|tx| tx.insert(&table, row![id, &*format!("n{id}"), id, id, id])).unwrap();
                }
                db.run(|tx| tx.add(&table, key![3], "branch", 4)).unwrap();
                assert_eq!(dump(&db, &table)[3][2], Value::from(7));
                db.check().unwrap();
                db.close().unwrap();
                let db = Database::open(tables::DATABASE, options()).unwrap();
                assert_eq!(db.tables().len(), usize::from(*durability != Durability::None));
                db.check().unwrap();
            }
        }
    }
}
