//! Locks of ranges and of keys that are not there keep phantoms out, and nothing else.

use std::thread;

use heddledb::{DataType, PrimaryIndex, Range, TableDefinition, Tx, key, row};

use super::{Blocked, Holder, count, database};
use crate::support::concurrent::{accounts, balance, watched};

#[test]
fn a_key_that_was_not_there_does_not_come_while_its_reader_runs() {
    watched(|| {
        let db = database();
        let table = accounts(&db, 1);
        thread::scope(|scope| {
            let holder = Holder::start(scope, &db, |tx| {
                assert!(!tx.exists(&table, key![7])?);
                Ok(())
            });
            let insert = Blocked::start(scope, &db, |tx| tx.insert(&table, row![7, 1]));
            holder.finish();
            insert.result();
        });
        assert_eq!(balance(&db, &table, 7), Some(1));
    });
}

#[test]
fn a_range_keeps_phantoms_out_and_nothing_else() {
    watched(|| {
        let db = database();
        let table = accounts(&db, 10);
        let range = || Range::from(key![2]).to(key![20]);
        thread::scope(|scope| {
            let (table, db) = (&table, &db);
            let holder = Holder::start(scope, db, move |tx| {
                assert_eq!(count(tx, table, range())?, 8);
                Ok(())
            });
            let inside = Blocked::start(scope, db, |tx| tx.insert(table, row![15, 100]));
            let leaving = Blocked::start(scope, db, |tx| tx.delete(table, key![9]));
            // Outside of it, and beside it, there is nothing to wait for.
            db.run(|tx| tx.insert(table, row![20, 100])).expect("the range ends before it");
            assert!(db.run(|tx| tx.delete(table, key![1])).expect("the range begins after it"));
            // (Not up to 15: a thread that waits comes before a newer range.)
            assert_eq!(db.run(|tx| count(tx, table, Range::from(key![3]).to(key![9]))).expect("a scan"), 6);
            assert!(inside.is_blocked() && leaving.is_blocked());
            holder.finish();
            inside.result();
            assert!(leaving.result());
        });
        assert_eq!(db.run(|tx| count(tx, &table, range())).expect("a scan"), 8);
        db.check().expect("consistent");
    });
}

#[test]
fn a_range_waits_for_an_insert_in_it_and_for_no_other() {
    watched(|| {
        let db = database();
        let table = accounts(&db, 3);
        thread::scope(|scope| {
            let (table, db) = (&table, &db);
            let holder = Holder::start(scope, db, |tx| tx.insert(table, row![7, 100]));
            let scan = Blocked::start(scope, db, |tx| count(tx, table, Range::from(key![5]).to(key![9])));
            assert_eq!(db.run(|tx| count(tx, table, Range::all().to(key![7]))).expect("a scan"), 3);
            holder.finish();
            assert_eq!(scan.result(), 1);
        });
    });
}

/// A table without an ordered index, and one with secondary indexes.
#[test]
fn ranges_of_hash_tables_and_of_secondary_indexes_keep_phantoms_out_too() {
    watched(|| {
        let db = database();
        let table = db
            .create_table(
                TableDefinition::new("person")
                    .column("id", DataType::Int64)
                    .column("age", DataType::Int64)
                    .primary_key(["id"])
                    .primary_index(PrimaryIndex::Hash)
                    .index("by_age", ["age"]),
            )
            .expect("a table");
        db.run(|tx| (0..10).try_for_each(|id| tx.insert(&table, row![id, id * 10]))).expect("rows");
        let ages = |tx: &Tx<'_, '_>, range| {
            tx.scan_index(&table, "by_age", range)?.try_fold(0, |n, row| row.map(|_| n + 1))
        };
        thread::scope(|scope| {
            let (table, db) = (&table, &db);
            let holder = Holder::start(scope, db, move |tx| {
                assert_eq!(ages(tx, Range::from(key![20]).to(key![50]))?, 3);
                Ok(())
            });
            let comes = Blocked::start(scope, db, |tx| tx.insert(table, row![50, 33]));
            let moves = Blocked::start(scope, db, |tx| tx.update(table, key![8], &[("age", 25.into())]));
            db.run(|tx| tx.update(table, key![7], &[("age", 90.into())])).expect("it moves outside");
            db.run(|tx| tx.insert(table, row![51, 50])).expect("it comes in outside");
            holder.finish();
            comes.result();
            moves.result();
            let all = Holder::start(scope, db, move |tx| {
                assert_eq!(count(tx, table, Range::all())?, 12);
                Ok(())
            });
            let comes = Blocked::start(scope, db, |tx| tx.insert(table, row![60, 1000]));
            all.finish();
            comes.result();
        });
        assert_eq!(db.run(|tx| ages(tx, Range::from(key![20]).to(key![50]))).expect("a scan"), 5);
        db.check().expect("consistent");
    });
}
