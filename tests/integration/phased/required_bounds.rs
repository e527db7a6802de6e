//! Bounds that transactions ask for: they hold to the last unit beside operations that ask for none.

use std::sync::Barrier;

use super::*;

#[test]
fn required_bounds_hold_to_the_last_unit_beside_operations_without_them() {
    in_time(|| {
        for &protocol in ProtocolKind::ALL {
            let options = Options::default().durability(Durability::None);
            let options = match protocol {
                ProtocolKind::Phased => options.protocol(PhasedOptions::default().phase_milliseconds(2.0)),
                other => options.protocol(other),
            };
            let db = Database::in_memory_with(options).expect("options");
            let items = unchecked(&db, 1_500);
            label(&db, &items);
            let (sold, all) = (AtomicI64::new(0), Barrier::new(THREADS as usize));
            thread::scope(|scope| {
                for thread in 0..THREADS {
                    let (db, items, sold, all) = (&db, &items, &sold, &all);
                    scope.spawn(move || {
                        // First some put back what others take, without a bound.
                        for round in 0..50 {
                            let (taken, done) = match (thread + round) % 4 {
                                0 => (-1, db.run(|tx| tx.add(items, key![1], "stock", 1))),
                                _ => (1, take(db, items, 1, 0)),
                            };
                            done.expect("there is enough for all of these");
                            sold.fetch_add(taken, Ordering::Relaxed);
                        }
                        all.wait();
                        loop {
                            match take(db, items, 1, 0) {
                                Ok(()) => sold.fetch_add(1, Ordering::Relaxed),
                                Err(Error::Overflow { what, .. }) if what == "item.stock" => return,
                                Err(error) => panic!("{error}"),
                            };
                        }
                    });
                }
            });
            let left = int(&db, &items, 1, "stock");
            assert_eq!((left, sold.into_inner()), (Ok(0), 1_500), "{}", protocol.name());
        }
    });
}

#[test]
fn null_is_within_no_bounds_and_decimals_are_counted_in_their_last_digit() {
    for &protocol in ProtocolKind::ALL {
        let options = Options::default().durability(Durability::None).protocol(protocol);
        let db = Database::in_memory_with(options).expect("options");
        let items = unchecked(&db, 5);
        let of = |id: i64, column: &str, bounds: std::ops::RangeInclusive<i64>| {
            db.run(|tx| tx.require_within(&items, key![id], column, bounds.clone()))
        };
        assert!(of(1, "stock", 5..=5).is_ok());
        assert!(matches!(of(1, "stock", 6..=9), Err(Error::Overflow { .. })));
        assert!(matches!(of(2, "stock", i64::MIN..=i64::MAX), Err(Error::Overflow { .. })));
        assert!(of(1, "money", 150..=150).is_ok());
        assert!(matches!(of(1, "money", 0..=149), Err(Error::Overflow { .. })));
        assert!(matches!(of(1, "name", 0..=1), Err(Error::WrongType { .. })));
        assert!(matches!(of(8, "stock", 0..=1), Err(Error::MissingKey { .. })));
        // In a session it is known at the access, and holds at the commit.
        let mut session = db.session().expect("a session");
        session.begin().expect("begun");
        let take = |tx: &heddledb::Tx<'_, '_>| {
            tx.add(&items, key![1], "stock", -3)?;
            tx.require_within(&items, key![1], "stock", 0..=i64::MAX)
        };
        session.run(take).expect("there are enough");
        assert!(matches!(session.run(take), Err(Error::Overflow { .. })));
        db.run(|tx| tx.add(&items, key![1], "stock", -4)).expect("another transaction is first");
        assert!(matches!(session.commit(), Err(Error::Conflict)), "{}", protocol.name());
        assert_eq!(int(&db, &items, 1, "stock"), Ok(1));
    }
}
