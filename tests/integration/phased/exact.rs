//! Errors stay exact: of all operations that would pass a column's bounds none succeeds, and no other fails.

use std::sync::Barrier;
use std::thread;

use heddledb::{
    Database, Durability, Error, Options, PhasedOptions, ProtocolKind, ProtocolOptions, SplitOperation,
    Table, key,
};

use crate::support::split::*;

const THREADS: i64 = 8;

/// Threads add to a counter that is `room` below its maximum, each six times as often as would be its share; gives back
/// how many additions succeeded. Afterwards it is full.
fn fill(db: &Database, table: &Table, column: &str, (room, maximum): (i64, i64)) -> i64 {
    let start = Barrier::new(THREADS as usize);
    let tries = 6 * room / THREADS + 1;
    let succeeded = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    let results = (0..tries).map(|_| db.run(|tx| tx.add(table, key![1], column, 1)));
                    results
                        .filter(|result| match result {
                            Ok(()) => true,
                            Err(Error::Overflow { what, .. }) if what.ends_with(column) => false,
                            Err(error) => panic!("{error}"),
                        })
                        .count() as i64
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    assert_eq!(int(db, table, 1, column), Ok(maximum), "{column}");
    succeeded
}

fn a_nearly_full_counter(protocol: ProtocolKind, labelled: bool, room: i64) {
    let options = Options::default()
        .protocol(ProtocolOptions::from(protocol).phased(PhasedOptions::default().phase_milliseconds(3.0)))
        .durability(Durability::None);
    let db = Database::in_memory_with(options).expect("options");
    let table = board(&db);
    for (column, maximum) in [("small", i64::from(i32::MAX)), ("n", i64::MAX)] {
        db.run(|tx| tx.update(&table, key![1], &[(column, (maximum - room).into())])).expect("an update");
        if labelled {
            db.split(&table, key![1], column, SplitOperation::ADD).expect("a label");
        }
        if labelled && db.phases().is_some() {
            // The additions come in a split phase that began with exactly this much room.
            wait_until("it is split", || {
                db.run(|tx| tx.add(&table, key![PLAIN_ROW], "plain", 1)).expect("an addition");
                report(&db).columns.iter().any(|split| split.now && split.column == column)
            });
        }
        let succeeded = fill(&db, &table, column, (room, maximum));
        assert_eq!(succeeded, room, "{}, {column}, labelled: {labelled}", protocol.name());
    }
}

/// Every protocol, and some rounds of it: what the threads do when is not the same twice.
fn under_every_protocol(labelled: bool, room: i64) {
    for _ in 0..3 {
        ProtocolKind::ALL.iter().for_each(|&protocol| a_nearly_full_counter(protocol, labelled, room));
    }
}

#[test]
fn exactly_as_many_additions_succeed_as_there_is_room_for_under_every_protocol() {
    in_time(|| under_every_protocol(false, 10));
}

#[test]
fn a_label_changes_nothing_about_it_under_any_protocol() {
    in_time(|| under_every_protocol(true, 10));
}

/// Enough room that every worker context has an escrow quota, which its slice takes; and the last additions go by the
/// whole value.
#[test]
fn where_slices_take_the_most_of_the_room_the_rest_is_found_too() {
    in_time(|| under_every_protocol(true, 200));
}

/// Products grow fast: the bound of each worker context's share is soon met, and the rest goes by the whole value.
#[test]
fn a_split_product_reaches_its_last_value_and_fails_there() {
    in_time(|| {
        let (db, table) = in_memory(1.0);
        db.split(&table, key![1], "product", SplitOperation::MULTIPLY).expect("a label");
        wait_for_split(&db, &table);
        let succeeded: usize = thread::scope(|scope| {
            let double = || db.run(|tx| tx.multiply(&table, key![1], "product", 2));
            let threads: Vec<_> =
                (0..4).map(|_| scope.spawn(move || (0..40).filter(|_| double().is_ok()).count())).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        assert_eq!((succeeded, int(&db, &table, 1, "product")), (62, Ok(1 << 62)));
        let refused = db.run(|tx| tx.multiply(&table, key![1], "product", 2));
        assert!(matches!(refused, Err(Error::Overflow { .. })), "{refused:?}");
        // A zero is no operand of a slice; it succeeds all the same.
        db.run(|tx| tx.multiply(&table, key![1], "product", 0)).expect("a product");
        assert_eq!(int(&db, &table, 1, "product"), Ok(0));
    });
}

/// A call that fails in the middle of a split phase has changed nothing: neither the slices that took its first
/// operations, nor the rest.
#[test]
fn a_call_that_overflows_one_split_column_leaves_the_others_as_they_were() {
    in_time(|| {
        let (db, table) = in_memory(1.0);
        db.run(|tx| tx.update(&table, key![2], &[("small", i64::from(i32::MAX).into())])).expect("an update");
        for (id, column) in [(1, "n"), (2, "small")] {
            db.split(&table, key![id], column, SplitOperation::ADD).expect("a label");
        }
        wait_for_split(&db, &table);
        for round in 0..30_i64 {
            db.run(|tx| tx.add(&table, key![1], "n", 1)).expect("an addition");
            let refused = db.run(|tx| {
                tx.add(&table, key![1], "n", 100)?;
                tx.add(&table, key![PLAIN_ROW], "n", 100)?;
                tx.add(&table, key![2], "small", 1)
            });
            assert!(matches!(refused, Err(Error::Overflow { .. })), "round {round}: {refused:?}");
            // What is not one of the column's operations has its own error, and is no reason to wait for long.
            let wrong = db.run(|tx| tx.add(&table, key![1], "n", "no number"));
            assert!(matches!(wrong, Err(Error::WrongType { .. })), "{wrong:?}");
        }
        assert_eq!(int(&db, &table, 1, "n"), Ok(30));
        assert_eq!(int(&db, &table, PLAIN_ROW, "n"), Ok(0));
    });
}
