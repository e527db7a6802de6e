//! The operations of a transaction, both kinds of writes, both forms of values, and that the check sees what is lost,
//! torn or astray.

use heddledb::{Durability, Options, ValueRef, key};

use super::*;
use crate::workload::next_calls;

fn memory() -> Database {
    Database::in_memory_with(Options::default().durability(Durability::None)).unwrap()
}

fn small() -> Ycsb {
    Ycsb { records: 200, ..Ycsb::default() }
}

/// Both kinds of writes, both forms of values.
fn all_small() -> Vec<Ycsb> {
    [(false, 8), (true, 8), (false, 100), (true, 20)]
        .map(|(read_modify_write, value_size)| Ycsb { read_modify_write, value_size, ..small() })
        .into()
}

fn loaded(settings: &Ycsb) -> (Database, Box<dyn Bound>) {
    let db = memory();
    settings.load(&db).unwrap();
    let bound = settings.bind(&db, 2).unwrap();
    (db, bound)
}

#[test]
fn every_write_is_counted_or_puts_a_value_of_its_own() {
    for settings in all_small() {
        let (db, bound) = loaded(&settings);
        assert_eq!(settings.check(&db, Some(0)), Ok(()));
        let mut generator = bound.generator(1, 0).unwrap();
        let calls = next_calls(generator.as_mut(), 100);
        for (procedure, args) in calls.made() {
            db.call(&generator.procedures()[*procedure], args.clone()).unwrap();
        }
        let writes: u64 = calls.marks().iter().copied().map(u64::from).sum();
        assert!((400..600).contains(&writes), "{writes} of 1,000");
        assert_eq!(settings.check(&db, Some(writes)), Ok(()), "{settings:?}");
        let counted = if settings.read_modify_write { writes } else { 0 };
        assert_eq!(settings.marks(&db).unwrap(), counted);
        if settings.read_modify_write {
            let wrong = settings.check(&db, Some(writes + 1)).unwrap_err();
            assert!(wrong.contains("record updates were committed"), "{wrong}");
        }
    }
}

#[test]
fn reads_only_and_writes_only_are_what_they_say() {
    for (read_percent, writes) in [(100.0, 0), (0.0, 10)] {
        let settings = Ycsb { read_percent, ..small() };
        let (_db, bound) = loaded(&settings);
        let mut generator = bound.generator(1, 0).unwrap();
        let calls = next_calls(generator.as_mut(), 50);
        for (procedure, _) in calls.made() {
            assert_eq!(*procedure, writes);
            assert_eq!(generator.procedures()[*procedure].is_read_only(), writes == 0);
            assert_eq!(
                settings.transactions()[settings.transaction_of(*procedure)] == "read-only",
                writes == 0
            );
        }
    }
}

#[test]
fn records_of_a_transaction_differ_however_popular_one_is() {
    for alpha in [0.0, 0.99, 3.0, 20.0] {
        let settings = Ycsb { records: 12, alpha, ..small() };
        let (_db, bound) = loaded(&settings);
        let calls = next_calls(bound.generator(1, 0).unwrap().as_mut(), 100);
        for (_, args) in calls.made() {
            let mut keys: Vec<i64> = (0..10).map(|place| args.int(place).unwrap()).collect();
            keys.sort_unstable();
            assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "{keys:?}");
            assert!(keys.iter().all(|key| (1..=12).contains(key)));
        }
    }
}

#[test]
fn popular_records_are_in_more_transactions() {
    let settings = Ycsb { records: 10_000, alpha: 0.99, ..small() };
    let keys = PopularKeys::new(10_000, 0.99);
    let (_db, bound) = loaded(&settings);
    let calls = next_calls(bound.generator(4, 0).unwrap().as_mut(), 2_000);
    let with =
        |key| calls.made().iter().filter(|(_, args)| (0..10).any(|place| args.int(place) == Ok(key))).count();
    let found = [0, 10, 1_000].map(|rank| with(keys.key_of(rank)));
    assert!(found[0] > 1_000 && found[0] > 3 * found[1] && found[1] > 10 * found[2], "{found:?}");
}

#[test]
fn the_check_sees_values_torn_astray_and_fallen() {
    let wrong = |settings: Ycsb, value: ValueRef<'_>| {
        let (db, _bound) = loaded(&settings);
        let table = db.table(settings.table()).unwrap();
        db.run(|tx| tx.update(&table, key![7], &[(value::COLUMN, value)])).unwrap();
        settings.check(&db, None).unwrap_err()
    };
    let [blind, counted, blind_bytes, counted_bytes] = all_small()[..] else { panic!("four") };
    assert!(wrong(blind, value::blind(8, 5).into()).contains("was never written"));
    assert!(wrong(counted, (-1).into()).contains("fallen to -1"));
    let mut torn = value::blind(7, 5).to_le_bytes().repeat(12);
    torn.push(0);
    assert!(wrong(blind_bytes, ValueRef::Bytes(&torn)).contains("parts of two values"));
    assert!(wrong(counted_bytes, ValueRef::Bytes(b"short")).contains("5 bytes"));
}

#[test]
fn a_lost_update_shows() {
    let settings = Ycsb { read_percent: 0.0, ..Ycsb { records: 200, ..Ycsb::read_modify_write() } };
    let (db, bound) = loaded(&settings);
    let mut generator = bound.generator(1, 0).unwrap();
    let calls = next_calls(generator.as_mut(), 3);
    for (procedure, args) in calls.made() {
        db.call(&generator.procedures()[*procedure], args.clone()).unwrap();
    }
    assert_eq!(settings.check(&db, Some(30)), Ok(()));
    let table = db.table(settings.table()).unwrap();
    let key = calls.made()[0].1.int(0).unwrap();
    db.run(|tx| tx.add(&table, key![key], value::COLUMN, -1)).unwrap();
    assert!(settings.check(&db, Some(30)).unwrap_err().contains("29"));
}

#[test]
fn a_load_cut_short_goes_on_and_another_size_is_refused() {
    for settings in all_small() {
        let (db, _bound) = loaded(&settings);
        Ycsb { records: 2_500, ..settings }.load(&db).unwrap();
        assert_eq!(scan::count(&db, &db.table(settings.table()).unwrap()).unwrap(), 2_500);
        assert!(settings.load(&db).unwrap_err().to_string().contains("--records 2500"));
        let other =
            Ycsb { records: 2_500, value_size: if settings.value_size == 8 { 16 } else { 8 }, ..settings };
        assert!(other.load(&db).unwrap_err().to_string().contains("--value-size"));
        assert!(other.bind(&db, 1).is_err());
    }
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    let message = |settings: Ycsb| settings.load(&memory()).unwrap_err().to_string();
    assert!(message(Ycsb { records: 1, ..small() }).contains("--records"));
    assert!(message(Ycsb { operations: 0, ..small() }).contains("--ops"));
    assert!(message(Ycsb { operations: 6, records: 5, ..small() }).contains("--ops"));
    assert!(message(Ycsb { operations: 65, ..small() }).contains("--ops"));
    assert!(message(Ycsb { read_percent: -1.0, ..small() }).contains("--read-percent"));
    assert!(message(Ycsb { alpha: -1.0, ..small() }).contains("--alpha"));
    assert!(message(Ycsb { value_size: 7, ..small() }).contains("--value-size"));
}

#[test]
fn seeds_repeat_and_callers_differ() {
    let (_db, bound) = loaded(&small());
    let keys = |seed, caller| {
        let calls = next_calls(bound.generator(seed, caller).unwrap().as_mut(), 20);
        calls.made().iter().map(|(_, args)| args.int(0).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(keys(3, 0), keys(3, 0));
    assert_ne!(keys(3, 0), keys(3, 1));
    assert_ne!(keys(3, 0), keys(4, 0));
}

#[test]
fn a_database_without_the_table_has_nothing_to_check_and_nothing_is_acknowledged() {
    for settings in all_small() {
        assert_eq!(settings.check(&memory(), None), Ok(()));
        assert_eq!(settings.marks(&memory()).unwrap(), 0);
        assert_eq!(settings.check_acknowledged(&memory(), &[]), Ok(()));
        assert!(settings.check_acknowledged(&memory(), &["1".to_owned()]).is_err());
    }
}
