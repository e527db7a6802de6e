//! The commit contract: all or nothing, stamps that rise, and nothing of a failed commit is left anywhere.

mod straight_line;
mod words;

use super::*;
use crate::base::atomics::Ordering;
use crate::operation::Operation;
use crate::storage::definition::TableDefinition;
use crate::storage::rig::{Rig, Way, Writer};
use crate::types::{DataType, Value};

fn rig() -> Rig {
    Rig::new(
        TableDefinition::new("t")
            .column("id", DataType::Int64)
            .column("number", DataType::Int64)
            .column("text", DataType::Text)
            .primary_key(["id"]),
    )
}

fn row(key: i64, number: i64) -> [Value; 3] {
    [Value::Int(key), Value::Int(number), Value::Text(format!("a text that needs a block, {number}"))]
}

#[test]
fn stamps_rise_with_every_commit_over_deletes_and_epochs() {
    let rig = rig();
    let mut last = Stamp::ZERO;
    for round in 0..20 {
        let stamp = rig.commit(|writer| writer.insert(&row(1, round))).expect("committed");
        assert!(stamp > last);
        assert_eq!(rig.word(1), Some(stamp.present()));
        let deleted = rig.commit(|writer| writer.delete(1)).expect("committed");
        assert!(deleted > stamp);
        assert_eq!(rig.word(1), Some(deleted.absent()), "who misses it meets the stamp of its end");
        last = deleted;
        if round % 3 == 0 {
            rig.seal();
            assert_eq!(rig.store.epochs().current(), last.epoch() + 1);
        }
    }
}

#[test]
fn a_commit_whose_reads_do_not_hold_changes_nothing_and_logs_nothing() {
    let rig = rig();
    rig.commit(|writer| writer.insert(&row(1, 1))).expect("committed");
    rig.seal();
    let before = (rig.rows(), rig.records());
    let failed = rig.commit_if(
        || false,
        |writer| {
            writer.set(1, 2, &Value::Text("another text that needs a block".into()));
            writer.insert(&row(2, 2));
        },
    );
    assert!(matches!(failed, Err(CommitFailure::Conflict)), "{failed:?}");
    assert_eq!((rig.rows(), rig.records()), before, "its placeholder has gone too");
    assert!(rig.seal().is_empty());
    rig.commit(|writer| writer.insert(&row(2, 2))).expect("the key is free");
}

#[test]
fn an_overflow_refuses_the_whole_call() {
    let rig = rig();
    rig.commit(|writer| writer.insert(&row(1, i64::MAX))).expect("committed");
    rig.seal();
    let before = rig.rows();
    let refused = rig.commit(|writer| {
        writer.insert(&row(2, 2));
        writer.operate(1, 1, Operation::Add, &Value::Int(1));
    });
    let Err(CommitFailure::Refused(error, _)) = refused else { panic!("{refused:?}") };
    assert!(matches!(*error, Error::Overflow { .. }), "{error:?}");
    assert_eq!(rig.rows(), before);
    assert!(rig.seal().is_empty());
}

#[test]
fn too_little_room_in_the_log_is_said_with_what_is_needed() {
    let rig = rig();
    let failed = rig.commit(|writer| {
        writer.set_log_credit(10);
        writer.insert(&row(1, 1));
    });
    let Err(CommitFailure::NeedsLogSpace(bytes)) = failed else { panic!("{failed:?}") };
    assert_eq!(rig.row(1), None);
    let stamp = rig.commit(|writer| {
        writer.set_log_credit(bytes);
        writer.insert(&row(1, 1));
    });
    assert!(stamp.is_ok());
    assert_eq!(rig.seal().len(), bytes);
}

#[test]
fn a_full_epoch_takes_no_commit_and_the_next_one_does() {
    let rig = rig();
    rig.store.limit_epochs(2);
    for key in 1..3 {
        rig.commit(|writer| writer.insert(&row(key, 0))).expect("room for two");
    }
    let failed = rig.commit(|writer| writer.insert(&row(3, 0)));
    assert!(matches!(failed, Err(CommitFailure::EpochFull)), "{failed:?}");
    assert_eq!((rig.row(3), rig.records()), (None, 2));
    let failed = rig.commit_if(|| false, |writer| writer.insert(&row(3, 0)));
    assert!(matches!(failed, Err(CommitFailure::Conflict)), "what fails is not counted");
    rig.seal();
    rig.commit(|writer| writer.insert(&row(3, 0))).expect("a new epoch");
}

/// By the straight line, and by the general way.
#[test]
fn what_the_validation_meets_is_below_the_stamp_and_never_of_a_later_epoch() {
    for columns in [1..2, 1..3] {
        let rig = rig();
        rig.commit(|writer| writer.insert(&row(1, 1))).expect("committed");
        rig.seal();
        let epoch = rig.store.epochs().current();
        let commit = |met: Stamp| {
            let validate = |seen: &Cell<Stamp>| {
                seen.set(seen.get().max(met));
                true
            };
            rig.commit_as(&InOrder, validate, |writer| {
                columns.clone().for_each(|column| writer.set(1, column, &row(1, 2)[column]));
            })
        };
        assert_eq!(commit(Stamp::new(epoch, 70)).expect("committed"), Stamp::new(epoch, 71));
        let (rows, word) = (rig.rows(), rig.word(1));
        let later = commit(Stamp::new(epoch + 1, 1));
        assert!(matches!(later, Err(CommitFailure::Conflict)), "{later:?}");
        assert_eq!((rig.rows(), rig.word(1)), (rows, word));
        rig.seal();
        assert_eq!(commit(Stamp::new(epoch + 1, 1)).expect("committed"), Stamp::new(epoch + 1, 2));
    }
}

#[test]
fn a_row_that_comes_and_goes_in_one_call_leaves_nothing() {
    let rig = rig();
    rig.commit(|writer| {
        writer.insert(&row(1, 1));
        writer.delete(1);
    })
    .expect("committed");
    assert_eq!((rig.row(1), rig.records()), (None, 0));
}

#[test]
fn a_row_that_goes_and_comes_in_one_call_is_the_new_one() {
    let rig = rig();
    rig.commit(|writer| writer.insert(&row(1, 1))).expect("committed");
    rig.commit(|writer| {
        writer.set(1, 1, &Value::Int(99));
        writer.delete(1);
        writer.insert(&row(1, 2));
        writer.operate(1, 1, Operation::Add, &Value::Int(5));
    })
    .expect("committed");
    let mut expected = row(1, 2).to_vec();
    expected[1] = Value::Int(7);
    assert_eq!(rig.row(1), Some(expected));
}

/// Readers copy rows while a writer changes text and number together: they must never see one without the other.
#[test]
fn a_reader_never_sees_half_an_install() {
    let rig = rig();
    rig.commit(|writer| writer.insert(&row(1, 0))).expect("committed");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let Some(found) = rig.row(1) else { panic!("it was never deleted") };
                    let Value::Int(number) = found[1] else { panic!("{found:?}") };
                    assert_eq!(found, row(1, number));
                }
            });
        }
        for number in 1..5_000 {
            let [_, value, text] = row(1, number);
            rig.commit(|writer| {
                writer.set(1, 1, &value);
                writer.set(1, 2, &text);
            })
            .expect("committed");
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_commit_of_a_generation_that_is_over_locks_no_record() {
    let rig = rig();
    rig.commit(|writer| writer.insert(&row(1, 1))).expect("committed");
    rig.seal();
    let before = (rig.rows(), rig.records());
    let ways: [&dyn Fn(&mut Writer<'_>); 3] = [
        // In a straight line.
        &|writer| writer.operate(1, 1, Operation::Add, &Value::Int(5)),
        &|writer| writer.set(1, 2, &Value::Text("another text that needs a block".into())),
        &|writer| writer.insert(&row(2, 2)),
    ];
    for write in ways {
        // What is validated is validated while the write set is locked: it is not asked.
        let ask = |_: &Cell<Stamp>| panic!("a record was locked for a commit that is too late");
        let (failed, _) = rig.commit_in(Way::Late, &InOrder, ask, write);
        assert!(matches!(failed, Err(CommitFailure::Conflict)), "{failed:?}");
        assert_eq!((rig.rows(), rig.records()), before);
    }
    rig.commit(|writer| writer.insert(&row(3, 3))).expect("the next attempt is of the new generation");
}
