//! Both benchmarks: load, calls, and that the check sees what was lost or doubled; and the contender.

use heddledb::{Durability, Options, key};

use super::*;
use crate::contender::Contender;
use crate::workload::next_calls;

fn memory() -> Database {
    Database::in_memory_with(Options::default().durability(Durability::None)).unwrap()
}

fn small() -> [Increment; 3] {
    let pattern = Pattern::OneHot { percent: 50.0, rotate_seconds: 0.0 };
    let one_hot = Increment { keys: 300, pattern, ..Increment::one_hot() };
    [one_hot, Increment { read_modify_write: true, ..one_hot }, Increment { keys: 300, ..Increment::zipf() }]
}

#[test]
fn every_call_adds_one() {
    for settings in small() {
        let db = memory();
        settings.load(&db).unwrap();
        let bound = settings.bind(&db, 2).unwrap();
        let mut generator = bound.generator(1, 0).unwrap();
        let calls = next_calls(generator.as_mut(), 200);
        for (transaction, args) in calls.made() {
            db.call(&generator.procedures()[*transaction], args.clone()).unwrap();
        }
        assert_eq!(settings.marks(&db).unwrap(), 200);
        assert_eq!(settings.check(&db, Some(200)), Ok(()));
        let wrong = settings.check(&db, Some(199)).unwrap_err();
        assert!(wrong.contains("200") && wrong.contains("199"), "{wrong}");
        let hot = db.table(settings.table()).unwrap();
        let hot = db.run(|tx| tx.get(&hot, key![1])?.unwrap().int(VALUE)).unwrap();
        assert!(matches!(settings.pattern, Pattern::Zipf { .. }) || (70..130).contains(&hot), "{hot}");
    }
}

#[test]
fn the_check_sees_a_lost_a_doubled_and_a_fallen_value() {
    for settings in small() {
        let db = memory();
        settings.load(&db).unwrap();
        let table = db.table(settings.table()).unwrap();
        let change = |by: i64| db.run(|tx| tx.add(&table, key![17], VALUE, by)).unwrap();
        change(1);
        assert!(settings.check(&db, Some(0)).is_err(), "one too many");
        assert!(settings.check(&db, Some(2)).is_err(), "one too few");
        assert_eq!(settings.check(&db, None), Ok(()));
        change(-2);
        assert!(settings.check(&db, None).unwrap_err().contains("key 17 has fallen to -1"));
    }
}

#[test]
fn a_load_cut_short_goes_on_and_another_size_is_refused() {
    for settings in small() {
        let db = memory();
        settings.load(&db).unwrap();
        Increment { keys: 2_500, ..settings }.load(&db).unwrap();
        assert_eq!(scan::count(&db, &db.table(settings.table()).unwrap()).unwrap(), 2_500);
        let message = settings.load(&db).unwrap_err().to_string();
        assert!(message.contains("--keys 2500"), "{message}");
    }
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    let message = |settings: Increment| settings.load(&memory()).unwrap_err().to_string();
    let one_hot = |percent, rotate_seconds| Pattern::OneHot { percent, rotate_seconds };
    let usual = Increment::one_hot();
    assert!(message(Increment { keys: 1, ..usual }).contains("--keys"));
    assert!(message(Increment { pattern: one_hot(101.0, 0.0), ..usual }).contains("--hot-percent"));
    assert!(message(Increment { pattern: one_hot(f64::NAN, 0.0), ..usual }).contains("--hot-percent"));
    assert!(message(Increment { pattern: one_hot(1.0, -1.0), ..usual }).contains("--rotate-seconds"));
    assert!(message(Increment { pattern: Pattern::Zipf { alpha: -0.1 }, ..usual }).contains("--alpha"));
}

#[test]
fn seeds_repeat_and_callers_differ() {
    for settings in small() {
        let db = memory();
        settings.load(&db).unwrap();
        let bound = settings.bind(&db, 2).unwrap();
        let keys = |seed, caller| {
            let calls = next_calls(bound.generator(seed, caller).unwrap().as_mut(), 30);
            calls.made().iter().map(|(_, args)| args.int(0).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(keys(3, 0), keys(3, 0));
        assert_ne!(keys(3, 0), keys(3, 1));
        assert_ne!(keys(3, 0), keys(4, 0));
    }
}

#[test]
fn the_contender_does_the_same_calls() {
    let settings = small()[0];
    let contender = AtomicCounters::new(settings).unwrap();
    let mut generator = contender.generator(3, 0);
    let calls = next_calls(generator.as_mut(), 100);
    contender.run(calls.made()).unwrap();
    assert_eq!(contender.check(100), Ok(()));
    assert!(contender.check(101).unwrap_err().contains("100"));
    let db = memory();
    settings.load(&db).unwrap();
    let bound = settings.bind(&db, 1).unwrap();
    assert_eq!(next_calls(bound.generator(3, 0).unwrap().as_mut(), 100).made(), calls.made());
    assert!(AtomicCounters::new(Increment { keys: 0, ..settings }).is_err());
}

#[test]
fn increments_acknowledge_nothing() {
    for settings in small() {
        assert_eq!(settings.check_acknowledged(&memory(), &[]), Ok(()));
        assert!(settings.check_acknowledged(&memory(), &["1".to_owned()]).is_err());
    }
}

#[test]
fn a_database_without_the_table_has_nothing_to_check() {
    for settings in small() {
        assert_eq!(settings.check(&memory(), None), Ok(()));
        assert_eq!(settings.marks(&memory()).unwrap(), 0);
        assert!(settings.check(&memory(), Some(1)).is_err());
    }
}
