//! The bad-input file with its known counts, NULLs, what is made and what is not, and that the check sees differences.

use std::collections::BTreeMap;
use std::time::Duration;

use heddledb::{Durability, Options, Value};

use super::*;
use crate::calls::Calls;
use crate::workload::next_calls;

/// Good rows of the file, and the others by reason.
const GOOD: u64 = 26;
const BAD: [(&str, u64); 3] = [(DUPLICATE, 5), (UNKNOWN_CARRIER, 4), (UNPARSABLE, 10)];

fn data(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(file)
}

fn bad_file() -> Flights {
    Flights::from_input(&data("flights-bad.csv"), None, Pause::default()).unwrap()
}

/// Loads, and makes all calls of this many callers, one after another; gives the failures by reason.
fn run(flights: &Flights, callers: usize) -> (Database, BTreeMap<String, u64>) {
    let db = Database::in_memory_with(Options::default().durability(Durability::None)).unwrap();
    flights.load(&db).unwrap();
    let failures = call_all(flights, &db, callers);
    (db, failures)
}

fn call_all(flights: &Flights, db: &Database, callers: usize) -> BTreeMap<String, u64> {
    let bound = flights.bind(db, callers).unwrap();
    let mut failures = BTreeMap::new();
    for caller in 0..callers {
        let mut generator = bound.generator(0, caller).unwrap();
        let mut count = |reason: &str| *failures.entry(reason.to_owned()).or_default() += 1;
        let mut calls = Calls::default();
        let mut goes_on = true;
        while goes_on {
            calls.begin(Duration::ZERO);
            goes_on = generator.fill(&mut calls, 10).unwrap();
            calls.refused().iter().for_each(|refused| count(refused.reason));
            for (_, args) in calls.made() {
                if let Err(error) = db.call(&generator.procedures()[0], args.clone()) {
                    count(&bound.reason(&error));
                }
            }
        }
    }
    failures
}

fn known_failures() -> BTreeMap<String, u64> {
    BAD.into_iter().map(|(reason, rows)| (reason.to_owned(), rows)).collect()
}

#[test]
fn bad_rows_fail_for_their_known_reasons_and_the_rest_goes_on() {
    for callers in [1, 3] {
        let flights = bad_file();
        let (db, failures) = run(&flights, callers);
        assert_eq!(failures, known_failures(), "{callers} callers");
        assert_eq!(flights.marks(&db).unwrap(), GOOD);
        assert_eq!(flights.check(&db, Some(GOOD)), Ok(()), "{callers} callers");
        assert!(flights.check(&db, Some(GOOD + 1)).is_err());
    }
}

#[test]
fn the_plain_pass_counts_the_same_rows() {
    let flights = bad_file();
    let pass = pass_over_input(flights.source().unwrap()).unwrap();
    assert_eq!(pass.flights.len() as u64, GOOD);
    let counts: BTreeMap<_, _> = pass.rejected().iter().map(|one| (one.reason, one.count)).collect();
    assert_eq!(counts, BTreeMap::from(BAD));
}

#[test]
fn rejected_rows_are_named_by_their_lines() {
    let flights = bad_file();
    let (db, _) = run(&flights, 2);
    assert!(flights.rejected().is_empty(), "nothing is known before a check");
    assert_eq!(flights.check(&db, None), Ok(()));
    let file = std::fs::read_to_string(data("flights-bad.csv")).unwrap();
    let lines: Vec<&str> = file.lines().collect();
    for rejected in flights.rejected() {
        assert_eq!(rejected.first_lines.len() as u64, rejected.count.min(10));
        assert!(rejected.first_lines.is_sorted() && rejected.first_lines[0] > 1);
        for line in rejected.first_lines {
            let carrier = lines[line as usize - 1].split(',').nth(9);
            let is_unknown = !["UA", "AA", "B6", "DL", "EV"].contains(&carrier.unwrap_or_default());
            assert!(rejected.reason != UNKNOWN_CARRIER || is_unknown, "line {line}: {carrier:?}");
        }
    }
}

#[test]
fn failed_rows_leave_no_airport_and_no_plane() {
    let (db, _) = run(&bad_file(), 1);
    let (airport, plane) = (db.table(tables::AIRPORT).unwrap(), db.table(tables::PLANE).unwrap());
    let there = |table, name: &str| db.run(|tx| tx.exists(table, key![name])).unwrap();
    for made_by_good_rows in ["XXX", "YYY", "BQN", "SJU"] {
        assert!(there(&airport, made_by_good_rows), "{made_by_good_rows}");
    }
    for named_by_bad_rows in ["QQQ", "RRR", "SSS", "TTT", ""] {
        assert!(!there(&airport, named_by_bad_rows), "{named_by_bad_rows}");
    }
    assert!(there(&plane, "N7") && there(&plane, "N9"));
    for named_by_bad_rows in ["N404", "N405", "N406", ""] {
        assert!(!there(&plane, named_by_bad_rows), "{named_by_bad_rows}");
    }
}

#[test]
fn counters_maxima_sightings_and_worst_delays_are_as_counted_by_hand() {
    let (db, _) = run(&bad_file(), 2);
    let tables = Tables::open(&db).unwrap();
    db.run(|tx| {
        let american = tx.get(&tables.carrier, key!["AA"])?.unwrap();
        // One flight of 120 minutes, and one of which nothing is known.
        assert_eq!((american.int("flights")?, american.int("dep_delay_sum")?), (2, 120));
        assert_eq!((american.int("dep_delay_max")?, american.int("arr_delay_max")?), (120, 99));
        let delta = tx.get(&tables.carrier, key!["DL"])?.unwrap();
        assert_eq!(delta.int("flights")?, 0);
        for untouched in ["dep_delay_max", "dep_delay_min", "latest", "longest"] {
            assert!(delta.is_null(untouched)?, "{untouched}");
        }
        assert_eq!((american.int("dep_delay_min")?, american.int("late_sign")?), (120, -1));
        assert_eq!(delta.int("late_sign")?, 1);
        let la_guardia = tx.get(&tables.origin, key!["LGA"])?.unwrap();
        assert_eq!((la_guardia.int("flights")?, la_guardia.int("dep_delay_sum")?), (1, -4));
        assert!(tx.get(&tables.plane, key!["N3"])?.unwrap().is_null("sighting")?);
        Ok(())
    })
    .unwrap();
    let sighting = |plane: &str| {
        let value = db.run(|tx| Ok(tx.get(&tables.plane, key![plane])?.unwrap().get("sighting")?.to_value()));
        match value.unwrap() {
            Value::Tuple(tuple) => tuple.row(&tables::sighting_type().unwrap()).unwrap(),
            other => panic!("{plane} was seen: {other:?}"),
        }
    };
    assert_eq!(sighting("N1")[0].to_string(), "2013-01-05T10:00:00Z");
    assert_eq!(sighting("N1")[2..], [Value::from(500), Value::from("EWR"), Value::from("IAH")]);
    let worst =
        db.run(|tx| Ok(tx.get(&tables.origin, key!["EWR"])?.unwrap().get("worst")?.to_value())).unwrap();
    let Value::TopK(worst) = worst else { panic!("{worst:?}") };
    let worst = worst.rows(&tables::worst_type().unwrap()).unwrap();
    assert_eq!(worst[0][0], Value::from(300));
    // Of equal delays the one with the greater key is worse.
    assert_eq!(
        worst[1][..2],
        [Value::from(2), Value::from("2013-01-02T10:00:00Z".parse::<Timestamp>().unwrap())]
    );
}

#[test]
fn the_check_sees_a_difference_in_every_table() {
    let changes: [(&str, &str, &str); 3] = [
        (tables::CARRIER, "UA", "flights"),
        (tables::ORIGIN, "EWR", "arr_delay_sum"),
        (tables::DESTINATION, "IAH", "flights"),
    ];
    for (name, key, column) in changes {
        let flights = bad_file();
        let (db, _) = run(&flights, 1);
        let table = db.table(name).unwrap();
        db.run(|tx| tx.add(&table, key![key], column, 1)).unwrap();
        let message = flights.check(&db, None).unwrap_err();
        assert!(message.contains(name) && message.contains(key) && message.contains(column), "{message}");
        let message = Flights::from_tables().check(&db, None).unwrap_err();
        assert!(message.contains(name), "{message}");
    }
    for (name, key) in [(tables::AIRPORT, "XXX"), (tables::PLANE, "N7"), (tables::ORIGIN, "JFK")] {
        let flights = bad_file();
        let (db, _) = run(&flights, 1);
        let table = db.table(name).unwrap();
        assert!(db.run(|tx| tx.delete(&table, key![key])).unwrap());
        let message = flights.check(&db, None).unwrap_err();
        assert!(message.contains(key) && message.contains("missing"), "{message}");
        assert!(Flights::from_tables().check(&db, None).is_err());
    }
}

#[test]
fn the_check_sees_a_lost_and_a_changed_flight() {
    let flight = key!["2013-01-03T00:00:00Z".parse::<Timestamp>().unwrap(), "AA", 200];
    let flights = bad_file();
    let (db, _) = run(&flights, 1);
    let table = db.table(tables::FLIGHT).unwrap();
    db.run(|tx| tx.update(&table, flight, &[("dep_delay", 5.into())])).unwrap();
    assert!(flights.check(&db, None).unwrap_err().contains("flight"));
    db.run(|tx| tx.delete(&table, flight)).unwrap();
    assert!(flights.check(&db, None).unwrap_err().contains(&GOOD.to_string()));
}

#[test]
fn a_second_run_of_the_same_file_changes_nothing() {
    let flights = bad_file();
    let (db, _) = run(&flights, 2);
    flights.load(&db).unwrap();
    let failures = call_all(&flights, &db, 2);
    assert_eq!(failures[DUPLICATE], GOOD + 5);
    assert_eq!(flights.check(&db, Some(GOOD)), Ok(()));
}

#[test]
fn acknowledged_flights_are_found_again() {
    let flights = bad_file();
    let (db, _) = run(&flights, 1);
    let bound = flights.bind(&db, 1).unwrap();
    let calls = next_calls(bound.generator(0, 0).unwrap().as_mut(), 1);
    let key = bound.acknowledgement(calls.get(0).unwrap()).unwrap();
    assert_eq!(key, "2013-01-01T10:00:00Z UA 1");
    assert_eq!(flights.check_acknowledged(&db, &[key]), Ok(()));
    let lost = "2013-01-01T10:00:00Z UA 77".to_owned();
    assert!(flights.check_acknowledged(&db, &[lost]).unwrap_err().contains("UA 77"));
    assert!(flights.check_acknowledged(&db, &["1 2 3".to_owned()]).is_err());
}

#[test]
fn every_caller_is_dealt_to_once() {
    let flights = bad_file();
    let (db, _) = run(&flights, 1);
    let bound = flights.bind(&db, 2).unwrap();
    assert!(bound.generator(0, 0).is_ok());
    assert!(bound.generator(0, 0).is_err());
    assert!(bound.generator(0, 2).is_err());
}

#[test]
fn tables_alone_can_be_checked_but_not_filled() {
    let (db, _) = run(&bad_file(), 1);
    let alone = Flights::from_tables();
    assert_eq!(alone.check(&db, None), Ok(()));
    assert!(alone.load(&db).unwrap_err().to_string().contains("--input"));
    let empty = Database::in_memory_with(Options::default().durability(Durability::None)).unwrap();
    assert_eq!(alone.check(&empty, None), Ok(()));
    assert!(alone.check(&empty, Some(1)).is_err());
}
