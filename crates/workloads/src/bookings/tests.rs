//! Both transactions, their references, and that the check sees bookings counted on one side only.

use heddledb::{Durability, Error, Options, ValueRef, key, row};

use super::*;
use crate::workload::next_calls;

fn memory() -> Database {
    Database::in_memory_with(Options::default().durability(Durability::None)).unwrap()
}

fn small() -> Bookings {
    Bookings { nights: 30, guides: 5, ..Bookings::default() }
}

fn loaded(settings: &Bookings) -> (Database, Box<dyn Bound>) {
    let db = memory();
    settings.load(&db).unwrap();
    let bound = settings.bind(&db, 2).unwrap();
    (db, bound)
}

fn count(db: &Database, table: &str, column: &str, id: i64) -> i64 {
    let table = db.table(table).unwrap();
    db.run(|tx| tx.get(&table, key![id])?.ok_or(Error::Closed)?.int(column)).unwrap()
}

#[test]
fn stays_count_at_their_nights_and_tours_at_their_guides() {
    let (db, bound) = loaded(&small());
    let procedures = bound.generator(1, 0).unwrap().procedures().to_vec();
    db.call(&procedures[STAY], heddledb::args![1, 4, 6]).unwrap();
    db.call(&procedures[STAY], heddledb::args![2, 6, 6]).unwrap();
    db.call(&procedures[TOUR], heddledb::args![3, 5]).unwrap();
    let guests: Vec<i64> = (3..=7).map(|night| count(&db, NIGHT, "guests", night)).collect();
    assert_eq!(guests, [0, 1, 1, 2, 0]);
    assert_eq!((count(&db, GUIDE, "tours", 5), count(&db, GUIDE, "tours", 4)), (1, 0));
    assert_eq!((small().marks(&db).unwrap(), small().check(&db, Some(3))), (3, Ok(())));
    assert!(small().check(&db, Some(4)).unwrap_err().contains("4 were committed"));
    let twice = db.call(&procedures[TOUR], heddledb::args![3, 4]);
    assert!(matches!(twice, Err(Error::DuplicateKey { .. })), "{twice:?}");
    assert_eq!(small().check(&db, Some(3)), Ok(()), "a call that failed has counted nowhere");
}

#[test]
fn generated_calls_are_in_range_and_no_two_have_a_number() {
    for settings in [small(), Bookings { longest_stay: 30, tour_percent: 0.0, ..small() }] {
        let (db, bound) = loaded(&settings);
        let mut numbers = std::collections::BTreeSet::new();
        for caller in 0..2 {
            let mut generator = bound.generator(7, caller).unwrap();
            let calls = next_calls(generator.as_mut(), 2_000);
            for (procedure, args) in calls.made() {
                assert!(numbers.insert(args.int(0).unwrap()), "a number that is another's: {args:?}");
                let (first, last) = (args.int(1).unwrap(), args.int(args.len() - 1).unwrap());
                assert!(*procedure == TOUR || (1..=30).contains(&first) && (first..=30).contains(&last));
                assert!(*procedure == STAY || (1..=5).contains(&first));
            }
            for (procedure, args) in &calls.made()[..200] {
                db.call(&generator.procedures()[*procedure], args.clone()).unwrap();
            }
            let tours = calls.made().iter().filter(|(procedure, _)| *procedure == TOUR).count();
            assert!(if settings.tour_percent > 0.0 { (850..1_150).contains(&tours) } else { tours == 0 });
        }
        assert_eq!(settings.check(&db, Some(400)), Ok(()));
        // Another run continues with numbers that no booking has.
        let again = settings.bind(&db, 1).unwrap().generator(7, 0).unwrap().fill_one();
        assert!(again > 400 && !numbers.range(..400).any(|number| *number == again));
    }
}

/// The number of a generator's next booking.
trait FillOne {
    fn fill_one(self) -> i64;
}

impl FillOne for Box<dyn Generator> {
    fn fill_one(mut self) -> i64 {
        next_calls(self.as_mut(), 1).made()[0].1.int(0).unwrap()
    }
}

#[test]
fn the_check_sees_what_is_counted_on_one_side_only() {
    let (db, bound) = loaded(&small());
    let procedures = bound.generator(1, 0).unwrap().procedures().to_vec();
    db.call(&procedures[STAY], heddledb::args![1, 4, 6]).unwrap();
    let (night, guide, booking) =
        (db.table(NIGHT).unwrap(), db.table(GUIDE).unwrap(), db.table(BOOKING).unwrap());
    let complains = |part: &str| {
        let wrong = small().check(&db, None).unwrap_err();
        assert!(wrong.contains(part), "{wrong}");
    };
    db.run(|tx| tx.add(&night, key![5], "guests", 1)).unwrap();
    complains("night 5 has 2 guests, but bookings say 1");
    db.run(|tx| tx.add(&night, key![5], "guests", -2)).unwrap();
    complains("night 5 has 0 guests, but bookings say 1");
    db.run(|tx| tx.add(&night, key![5], "guests", 1)).unwrap();
    db.run(|tx| tx.add(&guide, key![2], "tours", 1)).unwrap();
    complains("guide 2 has 1 tours, but bookings say 0");
    db.run(|tx| tx.insert(&booking, row![9, ValueRef::Null, ValueRef::Null, 2])).unwrap();
    assert_eq!(small().check(&db, Some(2)), Ok(()));
    db.run(|tx| tx.insert(&booking, row![10, 1, ValueRef::Null, 2])).unwrap();
    complains("booking 10 is neither");
}

#[test]
fn acknowledged_bookings_are_looked_up() {
    let (db, bound) = loaded(&small());
    let procedures = bound.generator(1, 0).unwrap().procedures().to_vec();
    let args = heddledb::args![77, 3];
    db.call(&procedures[TOUR], args.clone()).unwrap();
    let key = bound.acknowledgement(Call { procedure: TOUR, marks: 1, args: &args }).unwrap();
    assert_eq!(small().check_acknowledged(&db, &[key]), Ok(()));
    let lost = small().check_acknowledged(&db, &["77".to_owned(), "78".to_owned()]).unwrap_err();
    assert!(lost.contains("78"), "{lost}");
    assert!(small().check_acknowledged(&db, &["x".to_owned()]).is_err());
    assert_eq!(small().check_acknowledged(&memory(), &[]), Ok(()));
    assert!(small().check_acknowledged(&memory(), &["1".to_owned()]).is_err());
}

#[test]
fn settings_out_of_range_are_refused() {
    for wrong in [
        Bookings { nights: 0, ..small() },
        Bookings { longest_stay: 31, ..small() },
        Bookings { longest_stay: 0, ..small() },
        Bookings { guides: 0, ..small() },
        Bookings { alpha: f64::NAN, ..small() },
        Bookings { tour_percent: 101.0, ..small() },
    ] {
        assert!(wrong.load(&memory()).is_err(), "{wrong:?}");
    }
}
