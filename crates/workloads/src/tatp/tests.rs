//! All transactions under every protocol, their failing shares, the uneven choice, and that the check sees what is
//! lost or astray.

use heddledb::{Args, Durability, Error, Options, ProtocolKind, args, key, row};

use super::generator::Choice;
use super::procedure::reason;
use super::tables::*;
use super::*;
use crate::calls::Calls;
use crate::scan;
use crate::workload::{Generator, next_calls};

fn memory() -> Database {
    Database::in_memory_with(Options::default().durability(Durability::None)).unwrap()
}

fn small() -> Tatp {
    Tatp { subscribers: 300, ..Tatp::default() }
}

fn loaded(settings: &Tatp) -> (Database, Box<dyn Bound>) {
    let db = memory();
    settings.load(&db).unwrap();
    let bound = settings.bind(&db, 2).unwrap();
    (db, bound)
}

/// Makes calls one after another; gives the marks of those that were committed, and for each transaction how many
/// were, and of how many.
fn make(db: &Database, generator: &mut dyn Generator, calls: &Calls) -> (u64, [(usize, usize); 8]) {
    let (mut marks, mut ended) = (0, [(0, 0); 8]);
    for place in 0..calls.len() {
        let call = calls.get(place).unwrap();
        let committed = match db.call(&generator.procedures()[call.procedure], call.args.clone()) {
            Ok(_) => true,
            Err(Error::Failed { .. } | Error::DuplicateKey { .. }) => false,
            Err(other) => panic!("{other}"),
        };
        ended[call.procedure].0 += usize::from(committed);
        ended[call.procedure].1 += 1;
        marks += if committed { u64::from(call.marks) } else { 0 };
    }
    (marks, ended)
}

#[test]
fn the_mix_is_as_specified_and_about_a_quarter_fails() {
    let (db, bound) = loaded(&small());
    let before = small().marks(&db).unwrap();
    assert_eq!(small().check(&db, Some(before)), Ok(()));
    let mut generator = bound.generator(1, 0).unwrap();
    let calls = next_calls(generator.as_mut(), 8_000);
    let (marks, ended) = make(&db, generator.as_mut(), &calls);
    let shares = ended.map(|(_, made)| made as f64 / 80.0);
    for (found, wanted) in shares.iter().zip([35.0, 10.0, 35.0, 2.0, 14.0, 2.0, 2.0, 0.0]) {
        assert!((found - wanted).abs() < 2.0, "{shares:?}");
    }
    // What the definitions lead to, in the same order; the small database and few calls make it rough.
    let wanted = [1.0, 0.148, 0.625, 0.625, 1.0, 0.3125, 0.3125];
    for ((committed, made), wanted) in ended.iter().zip(wanted) {
        let found = *committed as f64 / *made as f64;
        let most = if *made > 500 { 0.06 } else { 0.15 };
        assert!((found - wanted).abs() < most, "{found} is not about {wanted}: {ended:?}");
    }
    assert_eq!(small().check(&db, Some(before + marks)), Ok(()));
    db.check().unwrap();
}

#[test]
fn every_protocol_leaves_a_register_that_holds_together() {
    for protocol in ProtocolKind::ALL {
        let options = Options::default().durability(Durability::None).protocol(*protocol).workers(2);
        let db = Database::in_memory_with(options).unwrap();
        let settings = Tatp { subscribers: 20, transactions: Transactions::Paper, ..small() };
        settings.load(&db).unwrap();
        let before = settings.marks(&db).unwrap();
        let bound = settings.bind(&db, 3).unwrap();
        let marks: u64 = std::thread::scope(|scope| {
            let callers = (0..3).map(|caller| {
                let (db, mut generator) = (&db, bound.generator(7, caller).unwrap());
                scope.spawn(move || {
                    let calls = next_calls(generator.as_mut(), 500);
                    make(db, generator.as_mut(), &calls).0
                })
            });
            callers.collect::<Vec<_>>().into_iter().map(|caller| caller.join().unwrap()).sum()
        });
        assert_eq!(settings.check(&db, Some(before + marks)), Ok(()), "{protocol}");
        db.check().unwrap();
    }
}

#[test]
fn updates_by_number_are_counted_to_the_last() {
    for probe_records in [1, 10, 100] {
        let only = Transactions::Only(transaction::UPDATE_BY_NUMBER);
        let settings = Tatp { transactions: only, probe_records, ..small() };
        let (db, bound) = loaded(&settings);
        let before = settings.marks(&db).unwrap();
        let mut generator = bound.generator(1, 0).unwrap();
        let calls = next_calls(generator.as_mut(), 50);
        let (marks, ended) = make(&db, generator.as_mut(), &calls);
        assert_eq!(ended[transaction::UPDATE_BY_NUMBER], (50, 50));
        assert_eq!(settings.marks(&db).unwrap(), before + marks);
        assert_eq!(settings.check(&db, Some(before + marks)), Ok(()));
        let table = db.table(SUBSCRIBER).unwrap();
        let id = calls.get(0).unwrap().args.int(0).unwrap();
        db.run(|tx| tx.add(&table, key![id], "msc_location", -1)).unwrap();
        let wrong = settings.check(&db, Some(before + marks)).unwrap_err();
        assert!(wrong.contains("record updates are counted"), "{wrong}");
    }
}

#[test]
fn one_transaction_alone_is_made() {
    for (place, name) in Tatp::TRANSACTIONS.iter().enumerate() {
        let settings = Tatp { transactions: Transactions::Only(place), ..small() };
        let (db, bound) = loaded(&settings);
        let mut generator = bound.generator(1, 0).unwrap();
        assert_eq!(generator.procedures()[place].name(), *name);
        assert_eq!(generator.procedures()[place].is_read_only(), place <= transaction::GET_ACCESS_DATA);
        let calls = next_calls(generator.as_mut(), 100);
        assert!(calls.made().iter().all(|(procedure, _)| *procedure == place));
        let (_, ended) = make(&db, generator.as_mut(), &calls);
        assert!(ended[place].0 > 0, "{name}");
        assert!(settings.parameters().contains(&("only", json!(name))));
    }
}

/// Calls a transaction once.
fn call(db: &Database, bound: &dyn Bound, place: usize, args: Args) -> Result<(), String> {
    let generator = bound.generator(1, 0).unwrap();
    db.call(&generator.procedures()[place], args).map(drop).map_err(|error| error.to_string())
}

#[test]
fn calls_fail_by_name_and_leave_no_trace() {
    let (db, bound) = loaded(&small());
    let before = small().marks(&db).unwrap();
    let tables = Tables::open(&db).unwrap();
    // A subscriber without the facility of type 2.
    let lacking = (1..=300_i64)
        .find(|id| !db.run(|tx| tx.exists(&tables.special_facility, key![*id, 2])).unwrap())
        .unwrap();
    let failed = |place, args| call(&db, bound.as_ref(), place, args).unwrap_err();
    let expected = |found: String, reason: &str| assert!(found.contains(reason), "{found} is not {reason}");
    expected(failed(transaction::GET_SUBSCRIBER_DATA, args![301]), reason::NO_SUBSCRIBER);
    expected(failed(transaction::UPDATE_LOCATION, args![301, 0]), reason::NO_SUBSCRIBER);
    expected(failed(transaction::GET_ACCESS_DATA, args![301, 1]), reason::NO_ACCESS_INFO);
    expected(failed(transaction::GET_NEW_DESTINATION, args![lacking, 2, 0, 1]), reason::NO_FACILITY);
    expected(failed(transaction::UPDATE_SUBSCRIBER_DATA, args![lacking, 2, 1]), reason::NO_FACILITY);
    expected(failed(transaction::INSERT_CALL_FORWARDING, args![lacking, 2, 0, 8, 1]), reason::NO_FACILITY);
    expected(failed(transaction::DELETE_CALL_FORWARDING, args![lacking, 2, 0]), reason::NO_FORWARDING);
    expected(failed(transaction::UPDATE_BY_NUMBER, args![300, 2]), reason::NO_SUBSCRIBER);
    assert_eq!(small().marks(&db).unwrap(), before);
    assert_eq!(small().check(&db, Some(before)), Ok(()));
}

#[test]
fn a_forwarding_that_was_inserted_is_found_and_is_there_once() {
    let (db, bound) = loaded(&small());
    let tables = Tables::open(&db).unwrap();
    db.run(|tx| {
        (0..3).try_for_each(|start| tx.delete(&tables.call_forwarding, key![7, 1, start * 8]).map(drop))?;
        tx.delete(&tables.special_facility, key![7, 1])?;
        tx.insert(&tables.special_facility, row![7, 1, true, 0, 0, "ABCDE"])?;
        tx.update(&tables.subscriber, key![7], &[("bit_1", false.into())])
    })
    .unwrap();
    let made = |place, args| call(&db, bound.as_ref(), place, args);
    assert!(made(transaction::GET_NEW_DESTINATION, args![7, 1, 16, 9]).is_err());
    made(transaction::INSERT_CALL_FORWARDING, args![7, 1, 8, 12, 555]).unwrap();
    assert!(made(transaction::INSERT_CALL_FORWARDING, args![7, 1, 8, 13, 556]).is_err());
    for (from, until, is_found) in [(8, 11, true), (16, 11, true), (8, 12, false), (0, 11, false)] {
        let found = made(transaction::GET_NEW_DESTINATION, args![7, 1, from, until]);
        assert_eq!(found.is_ok(), is_found, "{from} to {until}");
    }
    made(transaction::UPDATE_SUBSCRIBER_DATA, args![7, 1, 255]).unwrap();
    assert!(db.run(|tx| tx.get(&tables.subscriber, key![7])?.unwrap().boolean("bit_1")).unwrap());
    assert_eq!(small().check(&db, None), Ok(()));
    made(transaction::DELETE_CALL_FORWARDING, args![7, 1, 8]).unwrap();
    assert!(made(transaction::DELETE_CALL_FORWARDING, args![7, 1, 8]).is_err());
}

#[test]
fn the_check_sees_what_is_lost_or_astray() {
    let wrong = |damage: &dyn Fn(&Database, &Tables)| {
        let (db, _bound) = loaded(&small());
        let marks = small().marks(&db).unwrap();
        damage(&db, &Tables::open(&db).unwrap());
        small().check(&db, Some(marks)).unwrap_err()
    };
    let update = |column: &'static str, value: i64| {
        wrong(&move |db, tables| {
            db.run(|tx| tx.update(&tables.subscriber, key![7], &[(column, value.into())])).unwrap();
        })
    };
    assert!(update("vlr_location", location(8, 0x123_4567)).contains("was never written"));
    assert!(update("msc_location", 0).contains("before the first one"));
    let lost = wrong(&|db, tables| {
        let first = db.run(|tx| {
            let row = tx.scan(&tables.call_forwarding, heddledb::Range::all())?.next().unwrap()?;
            Ok([row.int("s_id")?, row.int("sf_type")?, row.int("start_time")?])
        });
        let [id, kind, start] = first.unwrap();
        db.run(|tx| tx.delete(&tables.call_forwarding, key![id, kind, start])).unwrap();
    });
    assert!(lost.contains("inserted and not deleted"), "{lost}");
    let bit = wrong(&|db, tables| {
        db.run(|tx| {
            (1..=4).try_for_each(|kind| match tx.exists(&tables.special_facility, key![7, kind])? {
                true => tx.update(&tables.special_facility, key![7, kind], &[("data_a", 2.into())]),
                false => Ok(()),
            })?;
            tx.update(&tables.subscriber, key![7], &[("bit_1", true.into())])
        })
        .unwrap();
    });
    assert!(bit.contains("bit_1 of subscriber 7 is 1"), "{bit}");
    let gone = wrong(&|db, tables| {
        assert!(db.run(|tx| tx.delete(&tables.subscriber, key![7])).unwrap());
    });
    assert!(gone.contains("subscriber 7 has services"), "{gone}");
    let stray = wrong(&|db, tables| {
        db.run(|tx| tx.insert(&tables.access_info, row![7, 9, 0, 0, "ABC", "ABCDE"])).unwrap();
    });
    assert!(stray.contains("type 9"), "{stray}");
}

#[test]
fn subscribers_are_chosen_unevenly_and_the_hot_spot_takes_its_share() {
    let mut random = fastrand::Rng::with_seed(5);
    let even = Choice::new(&Tatp::default());
    let mut found = vec![0_u32; 100_001];
    (0..1_000_000).for_each(|_| found[even.choose(&mut random) as usize] += 1);
    assert_eq!(found[0], 0);
    // Joining by OR makes numbers with all low bits set common, and those without them rare.
    let common = found[65_536];
    assert!(common > 100, "{common}");
    assert!(found.iter().filter(|count| **count == 0).count() > 10_000);
    let hot = Choice::new(&Tatp { hot: 20, hot_percent: 90.0, ..Tatp::default() });
    let in_spot = (0..10_000).filter(|_| hot.choose(&mut random) <= 20).count();
    assert!((8_800..9_200).contains(&in_spot), "{in_spot}");
}

#[test]
fn a_load_cut_short_goes_on_as_it_began() {
    let (db, _bound) = loaded(&Tatp { subscribers: 150, ..small() });
    small().load(&db).unwrap();
    let (whole, _bound) = loaded(&small());
    for name in NAMES {
        let rows = |db: &Database| scan::count(db, &db.table(name).unwrap()).unwrap();
        assert_eq!(rows(&db), rows(&whole), "{name}");
    }
    assert_eq!(small().marks(&db).unwrap(), small().marks(&whole).unwrap());
    let fewer = Tatp { subscribers: 10, ..small() };
    assert!(fewer.load(&db).unwrap_err().to_string().contains("--subscribers 300"));
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    let message = |settings: Tatp| settings.load(&memory()).unwrap_err().to_string();
    assert!(message(Tatp { subscribers: 0, ..small() }).contains("--subscribers"));
    assert!(message(Tatp { hot: 301, ..small() }).contains("--hot"));
    assert!(message(Tatp { hot: 1, hot_percent: 101.0, ..small() }).contains("--hot-percent"));
    assert!(message(Tatp { hot_percent: 90.0, ..small() }).contains("--hot N"));
    assert!(message(Tatp { probe_records: 301, ..small() }).contains("--probe-records"));
    assert!(message(Tatp { transactions: Transactions::Only(8), ..small() }).contains("number 8"));
}

#[test]
fn seeds_repeat_and_callers_differ() {
    let (_db, bound) = loaded(&small());
    let calls =
        |seed, caller| next_calls(bound.generator(seed, caller).unwrap().as_mut(), 50).made().to_vec();
    assert_eq!(calls(3, 0), calls(3, 0));
    assert_ne!(calls(3, 0), calls(3, 1));
    assert_ne!(calls(3, 0), calls(4, 0));
}

#[test]
fn a_database_without_the_tables_has_nothing_to_check_and_nothing_is_acknowledged() {
    assert_eq!(small().check(&memory(), None), Ok(()));
    assert_eq!(small().marks(&memory()).unwrap(), 0);
    assert_eq!(small().check_acknowledged(&memory(), &[]), Ok(()));
    assert!(small().check_acknowledged(&memory(), &["1".to_owned()]).is_err());
}
