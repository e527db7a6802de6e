//! The probes, their order and share, and that the check sees half updates.

use heddledb::{Durability, Options, key};

use super::*;
use crate::workload::next_calls;

fn memory() -> Database {
    Database::in_memory_with(Options::default().durability(Durability::None)).unwrap()
}

fn small(update_percent: f64) -> Probe {
    Probe { records: 200, update_percent, pause: Pause::default() }
}

#[test]
fn updates_are_counted_twenty_times_by_procedure_and_by_closure() {
    let settings = small(50.0);
    let db = memory();
    settings.load(&db).unwrap();
    let bound = settings.bind(&db, 1).unwrap();
    let mut generator = bound.generator(5, 0).unwrap();
    let mut updates = 0;
    let calls = next_calls(generator.as_mut(), 100);
    for (round, call) in (0..100).filter_map(|place| Some((place, calls.get(place)?))) {
        updates += u64::from(call.marks);
        if round % 2 == 0 {
            db.call(&generator.procedures()[call.procedure], call.args.clone()).unwrap();
        } else {
            bound.run_closure(&db, call).unwrap();
        }
    }
    assert!((30..70).contains(&updates), "{updates}");
    assert_eq!(settings.marks(&db).unwrap(), updates);
    assert_eq!(settings.check(&db, Some(updates)), Ok(()));
    assert!(settings.check(&db, Some(updates + 1)).is_err());
}

#[test]
fn keys_are_different_and_in_order() {
    let settings = Probe { records: 25, ..small(0.0) };
    let db = memory();
    settings.load(&db).unwrap();
    let bound = settings.bind(&db, 1).unwrap();
    let mut generator = bound.generator(5, 0).unwrap();
    let calls = next_calls(generator.as_mut(), 50);
    for call in (0..50).filter_map(|place| calls.get(place)) {
        assert!(call.is_read_only());
        let keys: Vec<i64> = (0..PROBES).map(|place| call.args.int(place).unwrap()).collect();
        assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "{keys:?}");
        assert!(keys.iter().all(|key| (1..=25).contains(key)));
    }
}

#[test]
fn the_check_sees_a_half_transaction_and_a_half_record() {
    let settings = small(100.0);
    let db = memory();
    settings.load(&db).unwrap();
    let table = db.table(TABLE).unwrap();
    let change = |column: &'static str| db.run(|tx| tx.add(&table, key![3], column, 1)).unwrap();
    change("updates");
    assert!(settings.check(&db, None).unwrap_err().contains("record 3"));
    change("echo");
    assert!(settings.check(&db, None).unwrap_err().contains("multiple of 20"));
}

#[test]
fn a_load_cut_short_goes_on_and_another_size_is_refused() {
    let db = memory();
    small(0.0).load(&db).unwrap();
    Probe { records: 2_500, ..small(0.0) }.load(&db).unwrap();
    assert_eq!(scan::count(&db, &db.table(TABLE).unwrap()).unwrap(), 2_500);
    let message = small(0.0).load(&db).unwrap_err().to_string();
    assert!(message.contains("--records 2500"), "{message}");
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    let message = |settings: Probe| settings.load(&memory()).unwrap_err().to_string();
    assert!(message(Probe { records: 19, ..small(0.0) }).contains("--records"));
    assert!(message(small(-1.0)).contains("--update-percent"));
    assert!(message(small(f64::NAN)).contains("--update-percent"));
}

#[test]
fn probes_acknowledge_nothing() {
    let settings = small(100.0);
    let db = memory();
    settings.load(&db).unwrap();
    let bound = settings.bind(&db, 1).unwrap();
    let calls = next_calls(bound.generator(1, 0).unwrap().as_mut(), 1);
    assert_eq!(bound.acknowledgement(calls.get(0).unwrap()), None);
    assert_eq!(settings.check_acknowledged(&db, &[]), Ok(()));
    assert!(settings.check_acknowledged(&db, &["1 2 3".to_owned()]).is_err());
}

#[test]
fn a_database_without_the_table_has_nothing_to_check() {
    assert_eq!(small(0.0).check(&memory(), None), Ok(()));
    assert_eq!(small(0.0).marks(&memory()).unwrap(), 0);
}
