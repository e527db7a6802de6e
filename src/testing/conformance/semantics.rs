//! Semantics on one thread: one transaction after the other, whose answers are known.

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use heddledb::{PrimaryIndex, Range, Result, Tx};

use super::generator::{Shape, script};
use super::model::{Model, Row};
use super::oracle::judge;
use super::perform::{insert, make_table};
use super::script::{Script, read_folder};
use super::script_run::{Played, play};
use super::script_thread::Way;
use super::{Subject, seeds};

/// The time after which a step counts as hung: there is no conflict here.
const PATIENCE: Duration = Duration::from_secs(60);

/// The scripts of `tests/scripts/semantics`: every step answers what is written there.
pub fn golden(subject: &Subject) {
    let scripts = read_folder("semantics");
    assert!(!scripts.is_empty());
    for (name, script) in scripts {
        for way in Way::ALL {
            let played = play(subject, &script, way, PATIENCE);
            if let Err(what) = compare(&script, &played) {
                panic!("{} {way:?}: {name}: {what}", subject.name);
            }
        }
    }
}

/// True in the crate's own tests, where an index node has few enough entries that a call's own inserts split those that
/// it has read. Elsewhere the suite is compiled for tests, too, but beside an engine with nodes of the usual size.
const SMALL_NODES: bool = matches!(env!("CARGO_CRATE_NAME").as_bytes(), b"heddledb");

/// Random scripts answer what the model does and what they do under the reference.
pub fn random(subject: &Subject, reference: &Subject) {
    let shape = Shape { transactions: 30, steps: 12, keys: 6, overlapping: false };
    for seed in seeds(6) {
        let script = script(seed, shape);
        for way in Way::ALL {
            let context = format!("HEDDLE_SEED={seed} {} {way:?}", subject.name);
            let played = play(subject, &script, way, PATIENCE);
            if let Err(what) = judge(&script, &played) {
                panic!("{context}: {what}");
            }
            let reference = play(reference, &script, way, PATIENCE);
            for (one, other) in played.seen.iter().zip(&reference.seen) {
                assert_eq!(one.outcome, other.outcome, "{context}: {:?}", one.steps);
                // A thread that meets a split column waits, and is retried; and a call goes on where partitions have moved.
                assert!(
                    one.attempts == 1 || subject.labels || subject.moves || SMALL_NODES,
                    "{context}: alone, and retried: {:?}",
                    one.steps
                );
            }
            assert_eq!(played.end, reference.end, "{context}");
        }
    }
}

/// The number of rows that [`own_inserts`] inserts: far more than a node of any index has room for.
const MANY: i64 = 300;

/// A transaction that reads ranges and fills them itself splits index nodes which it has read by its own doing: that
/// must not be taken for a rival's forever.
pub fn own_inserts(subject: &Subject) {
    for index in [PrimaryIndex::Ordered, PrimaryIndex::Hash, PrimaryIndex::Both] {
        let (db, name) = (subject.database(), subject.name.clone());
        let _mover = subject.disturb(&db);
        let (done, finished) = channel();
        // Not scoped: a thread that finds that it hangs must be able to say so.
        thread::spawn(move || {
            let table = make_table(&db, index, &Model { indexed: true, ..Model::default() });
            let count = |tx: &Tx<'_, '_>| -> Result<(usize, usize)> {
                let (all, tags) = (Range::all(), Range::all());
                Ok((tx.scan(&table, all)?.count(), tx.scan_index(&table, "tag", tags)?.count()))
            };
            let before = db.statistics();
            let counts = db.run(|tx| {
                let before = count(tx)?;
                for key in 0..MANY {
                    let row = Row { n: 1, tag: Some(key), code: Some(key), ..Row::default() };
                    insert(tx, &table, key, &row)?;
                }
                Ok((before, count(tx)?))
            });
            let _ = done.send((counts, (db.statistics() - before).aborted));
        });
        let many = MANY as usize;
        let expected = Ok(((0, 0), (many, many)));
        match finished.recv_timeout(Duration::from_secs(20)) {
            Ok((counts, aborted)) => {
                assert_eq!(counts, expected, "{name} {index:?}");
                // Changes of the protocol have it retried. A hash index's segment that is split is not followed; it is
                // split once.
                let is_exact = index == PrimaryIndex::Ordered && !subject.changes;
                assert!(!is_exact || aborted == 0, "{name}: {aborted} futile attempts");
            }
            Err(_) => panic!("{name} {index:?}: it hangs, because it conflicts with itself"),
        }
    }
}

/// Compares with what the script says, and with the model.
fn compare(script: &Script, played: &Played) -> std::result::Result<(), String> {
    let mut next = vec![0; script.transactions];
    for one in &script.schedule {
        let outcome = &played.seen[one.transaction].outcome;
        let at = &mut next[one.transaction];
        let found = if one.step.is_end() { Some(&outcome.outcome) } else { outcome.answers.get(*at) };
        *at += 1;
        let what = format!("T{} {}", one.transaction + 1, one.step);
        match (&one.expected, found) {
            (None, _) => return Err(format!("{what}: the script must say what it answers")),
            (Some(expected), Some(found)) if expected == found => {}
            (Some(expected), found) => return Err(format!("{what} => {found:?} instead of {expected:?}")),
        }
    }
    judge(script, played)
}

#[cfg(test)]
mod tests {
    use super::*;
    use heddledb::Options;

    #[test]
    fn an_answer_that_is_not_the_scripts_is_reported() {
        let subject = Subject {
            name: "default".to_string(),
            options: Options::default(),
            labels: false,
            moves: false,
            changes: false,
        };
        for (text, what) in [
            ("T1 get x => 1\nT1 commit => ok", None),
            ("T1 get x => 2\nT1 commit => ok", Some("get x n => Some(\"1\") instead of \"2\"")),
            ("T1 get x => 1\nT1 fail => ok", Some("fail => Some(\"failed\") instead of \"ok\"")),
            ("T1 get x\nT1 commit => ok", Some("must say")),
        ] {
            let script = Script::parse(&format!("title: a\nstart: insert x 1\n{text}")).expect("a script");
            let reported = compare(&script, &play(&subject, &script, Way::Closure, PATIENCE));
            match what {
                None => assert_eq!(reported, Ok(())),
                Some(what) => assert!(reported.expect_err("a difference").contains(what)),
            }
        }
    }
}
