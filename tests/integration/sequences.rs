//! Sequences: each value is given once, by whichever threads, under every protocol, and across crashes.

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use heddledb::testing::{Fault, Operation, SimulatedDisk};
use heddledb::{
    DataType, Database, Durability, Error, Options, ProtocolKind, Sequence, SequenceDefinition,
    TableDefinition, row,
};

fn under_every_protocol(test: impl Fn(&Database, ProtocolKind)) {
    for &protocol in ProtocolKind::ALL {
        let options = Options::default().protocol(protocol).durability(Durability::None).workers(2);
        test(&Database::in_memory_with(options).expect("options"), protocol);
    }
}

fn on(disk: &SimulatedDisk) -> Database {
    let options = Options::default().log(|log| log.buffer_bytes(1 << 18).segment_bytes(1 << 20)).workers(2);
    Database::open("/db", options.disk(Arc::new(disk.clone()))).expect("a database")
}

fn take(sequence: &Sequence, count: usize) -> Vec<i64> {
    (0..count).map(|_| sequence.next().expect("a value")).collect()
}

#[test]
fn one_client_sees_one_value_after_the_other() {
    under_every_protocol(|db, protocol| {
        let sequence = db.create_sequence(SequenceDefinition::new("s")).expect("a sequence");
        assert_eq!(take(&sequence, 5_000), (1..=5_000).collect::<Vec<_>>(), "{protocol}");
        let odd = db
            .create_sequence(SequenceDefinition::new("odd").start(-3).min(-9).increment(2))
            .expect("a sequence");
        assert_eq!(take(&odd, 4), [-3, -1, 1, 3]);
        assert_eq!(db.sequence("s").expect("it is there").next(), Ok(5_001));
    });
}

#[test]
fn threads_get_all_values_and_none_twice() {
    const EACH: usize = 3_000;
    under_every_protocol(|db, protocol| {
        for cache in [1, 7, 100] {
            let name = format!("cached {cache}");
            let sequence =
                db.create_sequence(SequenceDefinition::new(name).cache(cache)).expect("a sequence");
            let all: Vec<Vec<i64>> = thread::scope(|scope| {
                let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| take(&sequence, EACH))).collect();
                threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
            });
            let given: HashSet<i64> = all.iter().flatten().copied().collect();
            assert_eq!(given.len(), 8 * EACH, "{protocol}, cache {cache}: a value was given twice");
            if cache == 1 {
                assert!(all.iter().all(|values| values.is_sorted()), "one order for all");
                assert_eq!(given.into_iter().max(), Some(8 * EACH as i64), "{protocol}: without gaps");
            }
        }
    });
}

#[test]
fn values_that_transactions_take_are_unique_whatever_becomes_of_them() {
    under_every_protocol(|db, protocol| {
        let sequence = db.create_sequence(SequenceDefinition::new("id")).expect("a sequence");
        let definition = TableDefinition::new("t").column("id", DataType::Int64).primary_key(["id"]);
        let table = db.create_table(definition).expect("a table");
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..200 {
                        let inserted = db.run(|tx| {
                            tx.insert(&table, row![sequence.next()?])?;
                            if round % 5 == 0 { Err(heddledb::fail("its own")) } else { Ok(()) }
                        });
                        assert_eq!(inserted.is_err(), round % 5 == 0, "{protocol}: {inserted:?}");
                    }
                    let mut session = db.session().expect("a session");
                    for _ in 0..50 {
                        session.run(|tx| tx.insert(&table, row![sequence.next()?])).expect("a row");
                    }
                });
            }
        });
        let count = db.read(|snapshot| Ok(snapshot.scan(&table, heddledb::Range::all())?.count()));
        assert_eq!(count, Ok(4 * (160 + 50)), "{protocol}");
    });
}

#[test]
fn a_sequence_is_set_and_goes_on_from_there() {
    under_every_protocol(|db, protocol| {
        for cache in [1, 10] {
            let name = format!("cached {cache}");
            let sequence = db
                .create_sequence(SequenceDefinition::new(name).max(1_000).cache(cache))
                .expect("a sequence");
            assert_eq!((sequence.peek(), sequence.next()), (Some(1), Ok(1)), "{protocol}");
            sequence.set(500).expect("it is between the bounds");
            assert_eq!(take(&sequence, 3), [500, 501, 502]);
            sequence.set(500).expect("again");
            assert_eq!(sequence.next(), Ok(500));
            assert!(matches!(sequence.set(1_001), Err(Error::InvalidSequence { .. })));
            // Inside a body, too: it is retried until the value is set.
            assert_eq!(db.run(|_| sequence.set(7)), Ok(()));
            assert_eq!(sequence.next(), Ok(7), "{protocol}");
            sequence.set(1_000).expect("the last one");
            assert_eq!(sequence.next(), Ok(1_000));
            assert!(matches!(sequence.next(), Err(Error::SequenceExhausted { .. })));
            sequence.set(3).expect("it goes on");
            assert_eq!(sequence.next(), Ok(3));
        }
        let cyclic = SequenceDefinition::new("cyclic").min(1).max(3).cycle(true);
        assert_eq!(take(&db.create_sequence(cyclic).expect("a sequence"), 8), [1, 2, 3, 1, 2, 3, 1, 2]);
    });
}

#[test]
fn what_is_wrong_is_reported() {
    under_every_protocol(|db, _| {
        let made = db.create_sequence(SequenceDefinition::new("s")).expect("a sequence");
        let twice = db.create_sequence(SequenceDefinition::new("s").start(5));
        assert!(matches!(twice, Err(Error::SequenceExists { .. })), "{twice:?}");
        assert!(matches!(db.sequence("t"), Err(Error::UnknownSequence { .. })));
        assert!(matches!(db.drop_sequence("t"), Err(Error::UnknownSequence { .. })));
        let wrong = db.create_sequence(SequenceDefinition::new("w").increment(0));
        assert!(matches!(wrong, Err(Error::InvalidSequence { .. })), "{wrong:?}");
        assert_eq!(
            db.sequences().expect("a list"),
            [made.definition().clone().start(1).min(1).max(i64::MAX)]
        );
        db.drop_sequence("s").expect("it is there");
        assert!(matches!(made.next(), Err(Error::UnknownSequence { .. })));
        assert_eq!(db.sequences().expect("a list"), []);
        let again = db.create_sequence(SequenceDefinition::new("s")).expect("the name is free");
        assert_eq!(again.next(), Ok(1));
        let nested = db.run(|_| Ok(db.create_sequence(SequenceDefinition::new("n"))));
        assert!(matches!(nested, Ok(Err(Error::Nested { .. }))), "{nested:?}");
        db.clone().close().expect("closed");
        assert_eq!(again.next(), Err(Error::Closed));
    });
}

#[test]
fn a_database_that_was_closed_goes_on_without_a_gap() {
    let disk = SimulatedDisk::new();
    let db = on(&disk);
    let sequence = db.create_sequence(SequenceDefinition::new("s")).expect("a sequence");
    assert_eq!(take(&sequence, 100).last(), Some(&100));
    db.close().expect("closed");
    let db = on(&disk);
    let sequence = db.sequence("s").expect("it is there");
    assert_eq!(take(&sequence, 3), [101, 102, 103]);
}

#[test]
fn no_value_is_given_again_after_a_power_loss_at_any_moment() {
    for cache in [1, 5] {
        let disk = SimulatedDisk::new();
        let db = on(&disk);
        let sequence = db.create_sequence(SequenceDefinition::new("s").cache(cache)).expect("a sequence");
        for moment in 0..60 {
            let given: HashSet<i64> = take(&sequence, 1 + moment * 3 % 17).into_iter().collect();
            let crashed = on(&disk.crash_image(moment as u64));
            let again = crashed.sequence("s").expect("it was durable");
            let highest = given.iter().max().expect("a value");
            assert!(take(&again, 40).iter().all(|value| value > highest), "moment {moment}, cache {cache}");
        }
    }
}

#[test]
fn when_the_log_has_failed_no_value_is_given_that_is_not_reserved() {
    let disk = SimulatedDisk::new();
    let db = on(&disk);
    let sequence = db.create_sequence(SequenceDefinition::new("s")).expect("a sequence");
    let mut given = take(&sequence, 10);
    disk.fail_from_now(Operation::Sync, Fault::InputOutput);
    let refused = loop {
        match sequence.next() {
            Ok(value) => given.push(value),
            Err(error) => break error,
        }
        assert!(given.len() < 1_000_000, "it never ends");
    };
    assert!(
        matches!(refused, Error::LogFailed { .. } | Error::NoLogSpace { .. } | Error::LogNotExtended { .. }),
        "{refused}"
    );
    assert!(given.is_sorted());
    let crashed = on(&disk.crash_image(1));
    let next = crashed.sequence("s").expect("it was durable").next().expect("a value");
    assert!(next > *given.last().expect("values"), "{next} after {given:?}");
}

/// In a child process: gives values, and says each one once it has it.
#[test]
fn child_that_gives_values_until_it_is_killed() {
    let Ok(path) = std::env::var("HEDDLE_SEQUENCE_CHILD") else { return };
    let db = Database::open(path, Options::default()).expect("a database");
    let sequence =
        db.sequence("s").or_else(|_| db.create_sequence(SequenceDefinition::new("s"))).expect("a sequence");
    loop {
        println!("value {}", sequence.next().expect("a value"));
    }
}

#[test]
fn no_value_is_given_again_after_the_process_was_killed() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut highest = 0;
    for round in 1..=6 {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["sequences::child_that_gives_values_until_it_is_killed", "--exact", "--nocapture"])
            .env("HEDDLE_SEQUENCE_CHILD", directory.path().join("db"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        let value = |line: String| line.strip_prefix("value ").and_then(|text| text.parse::<i64>().ok());
        let mut given = 0;
        for value in output.lines().map_while(Result::ok).filter_map(value) {
            assert!(value > highest, "round {round}: {value} after {highest}");
            highest = value;
            given += 1;
            if given == 700 * round {
                child.kill().expect("killed");
            }
        }
        assert!(given >= 700 * round);
        child.wait().expect("it has ended");
    }
}

#[test]
fn of_threads_that_open_one_sequence_each_gets_it() {
    for _ in 0..20 {
        let db = Database::in_memory().expect("it opens");
        let mut all: Vec<i64> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let sequence = db.open_sequence(SequenceDefinition::new("s")).expect("it is opened");
                        sequence.next().expect("a value")
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        all.sort_unstable();
        assert_eq!(all, [1, 2, 3, 4]);
    }
}

#[test]
fn a_sequence_that_is_made_again_after_a_drop_begins_anew_whoever_does_it() {
    let db = Database::in_memory().expect("it opens");
    let made = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..1_000 {
                    let sequence = match db.create_sequence(SequenceDefinition::new("s")) {
                        Err(Error::SequenceExists { .. }) => continue,
                        created => created.expect("it is made"),
                    };
                    assert_eq!(sequence.next().expect("a value"), 1);
                    db.drop_sequence("s").expect("it is dropped by whom it was made");
                    // Relaxed: read once the threads have ended.
                    made.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_ne!(made.into_inner(), 0);
}
