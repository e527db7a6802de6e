//! Whole transactions of the protocols that let calls run side by side: reads against installs, commits that take two
//! records from each other, and the anomalies that the validation must prevent.

use std::sync::Arc;
use std::thread;

use super::stand::Stand;
use super::{LARGE, MIDDLE, Model};
use crate::error::Error;
use crate::protocol::ProtocolKind;

pub(super) const MODELS: &[Model] = &[
    Model::new("transactions::a_reader_sees_whole_rows", MIDDLE, a_reader_sees_whole_rows),
    Model::new("transactions::additions_are_all_there", MIDDLE, additions_are_all_there),
    Model::new("transactions::two_records_in_opposite_order", LARGE, two_records_in_opposite_order),
    Model::new("transactions::no_write_skew", LARGE, no_write_skew),
    Model::new("transactions::no_read_skew", LARGE, no_read_skew),
    Model::new("transactions::no_lost_update", LARGE, no_lost_update),
    Model::new("transactions::no_update_is_lost_at_a_change", LARGE, no_update_is_lost_at_a_change),
    Model::new("transactions::no_half_is_read_at_a_change", LARGE, no_half_is_read_at_a_change),
];

/// Models that make records while threads run: for the random checker.
pub(super) const RANDOM: &[Model] = &[
    Model::new(
        "transactions::a_placeholder_is_filled_or_collected",
        MIDDLE,
        a_placeholder_is_filled_or_collected,
    ),
    Model::new(
        "transactions::no_two_insert_what_the_other_missed",
        LARGE,
        no_two_insert_what_the_other_missed,
    ),
    Model::new("transactions::a_deleted_key_comes_in_again", LARGE, a_deleted_key_comes_in_again),
];

const KIND: ProtocolKind = ProtocolKind::Optimistic;

/// Two transactions read and save one record, while another protocol, which locks no record, is put in force.
fn no_update_is_lost_at_a_change() {
    let stand = Stand::new(KIND, &[(1, 0, 0)]);
    let save = |stand: &Stand| {
        stand.transact(|body| {
            let (left, right) = body.get(1)?.unwrap_or_default();
            body.set(1, left + 1, right + 1)
        });
    };
    let other = beside(&stand, save);
    let changer = beside(&stand, |stand| stand.change(ProtocolKind::Serial));
    save(&stand);
    other.join().expect("it commits");
    changer.join().expect("the change is made");
    assert_eq!(stand.transact(|body| body.get(1)), Some((2, 2)));
}

/// A transaction reads two records that another one changes together, while the protocol changes.
fn no_half_is_read_at_a_change() {
    let stand = Stand::new(KIND, &[(1, 0, 0), (2, 0, 0)]);
    let writer = beside(&stand, |stand| {
        stand.change(ProtocolKind::Serial);
        stand.transact(|body| body.set(2, 5, 5).and_then(|()| body.set(1, 5, 5)));
    });
    let rows = stand.transact(|body| Ok([body.get(1)?, body.get(2)?]));
    assert!(rows[0] == rows[1], "half a transaction: {rows:?}");
    writer.join().expect("it commits");
}

fn beside<T: Send + 'static>(
    stand: &Arc<Stand>,
    run: impl FnOnce(&Stand) -> T + Send + 'static,
) -> thread::JoinHandle<T> {
    let stand = stand.clone();
    thread::spawn(move || run(&stand))
}

/// The writer keeps both columns equal; a thread that sees them different has seen half an install.
fn a_reader_sees_whole_rows() {
    let stand = Stand::new(KIND, &[(1, 0, 0)]);
    let writer = beside(&stand, |stand| stand.transact(|body| body.set(1, 5, 5)));
    let row = stand.transact(|body| {
        let row = body.get(1)?;
        assert!(matches!(row, Some((left, right)) if left == right), "half an install: {row:?}");
        Ok(row)
    });
    assert!(row == Some((0, 0)) || row == Some((5, 5)));
    writer.join().expect("it commits");
    assert_eq!(stand.transact(|body| body.get(1)), Some((5, 5)));
}

fn additions_are_all_there() {
    let stand = Stand::new(KIND, &[(1, 0, 0)]);
    let other = beside(&stand, |stand| stand.transact(|body| body.add(1, 1)));
    stand.transact(|body| body.add(1, 10));
    other.join().expect("it commits");
    assert_eq!(stand.transact(|body| body.get(1)), Some((11, 0)));
}

/// Two commits write the same two records, each in its own order: neither waits forever, and no record has one's
/// write and the other record the other's.
fn two_records_in_opposite_order() {
    let stand = Stand::new(KIND, &[(1, 0, 0), (2, 0, 0)]);
    let other = beside(&stand, |stand| {
        stand.transact(|body| body.set(2, 7, 7).and_then(|()| body.set(1, 7, 7)));
    });
    stand.transact(|body| body.set(1, 5, 5).and_then(|()| body.set(2, 5, 5)));
    other.join().expect("it commits");
    let rows = stand.transact(|body| Ok([body.get(1)?, body.get(2)?]));
    assert!(rows[0] == rows[1], "{rows:?}");
}

/// Each reads both, and takes one away if the sum allows it: not both may.
fn no_write_skew() {
    let stand = Stand::new(KIND, &[(1, 1, 0), (2, 1, 0)]);
    let take = |from: i64| {
        move |stand: &Stand| {
            stand.transact(|body| {
                let of = |id| body.get(id).map(|row| row.map_or(0, |(left, _)| left));
                if of(1)? + of(2)? >= 2 {
                    body.set(from, 0, 0)?;
                }
                Ok(())
            });
        }
    };
    let other = beside(&stand, take(2));
    take(1)(&stand);
    other.join().expect("it commits");
    let rows = stand.transact(|body| Ok([body.get(1)?, body.get(2)?]));
    assert!(rows.contains(&Some((1, 0))), "both took one away: {rows:?}");
}

/// A reader of two records sees both before the writer or both after it, if it commits.
fn no_read_skew() {
    let stand = Stand::new(KIND, &[(1, 0, 0), (2, 0, 0)]);
    let writer = beside(&stand, |stand| {
        stand.transact(|body| body.set(1, 5, 5).and_then(|()| body.set(2, 5, 5)));
    });
    let rows = stand.transact(|body| Ok([body.get(1)?, body.get(2)?]));
    assert!(rows[0] == rows[1], "a reader has committed with {rows:?}");
    writer.join().expect("it commits");
}

/// Each adds one to what it has read.
fn no_lost_update() {
    let stand = Stand::new(KIND, &[(1, 0, 0)]);
    let increment = |stand: &Stand| {
        stand.transact(|body| {
            let (left, _) = body.get(1)?.unwrap_or_default();
            body.set(1, left + 1, 0)
        });
    };
    let other = beside(&stand, increment);
    increment(&stand);
    other.join().expect("it commits");
    assert_eq!(stand.transact(|body| body.get(1)), Some((2, 0)));
}

/// One inserts and releases, so that its placeholder is collected; one inserts the same key and commits; one reads.
fn a_placeholder_is_filled_or_collected() {
    let stand = Stand::new(KIND, &[(1, 0, 0)]);
    let quitter = beside(&stand, |stand| {
        let given_up = stand.attempt(1, |body| body.insert(5, 1, 1).and(Err::<(), _>(Error::Conflict)));
        assert!(given_up.is_err());
    });
    let inserter = beside(&stand, |stand| stand.transact(|body| body.insert(5, 9, 9)));
    let row = stand.transact(|body| body.get(5));
    assert!(row.is_none_or(|row| row == (9, 9)), "{row:?}");
    quitter.join().expect("it aborts");
    inserter.join().expect("it commits");
    assert_eq!(stand.transact(|body| body.get(5)), Some((9, 9)), "a committed row is lost");
}

/// Each inserts its own key unless the other's is there: not both may.
fn no_two_insert_what_the_other_missed() {
    let stand = Stand::new(KIND, &[(1, 0, 0)]);
    let insert = |own: i64, other: i64| {
        move |stand: &Stand| {
            stand.transact(|body| if body.get(other)?.is_none() { body.insert(own, 1, 1) } else { Ok(()) });
        }
    };
    let other = beside(&stand, insert(6, 5));
    insert(5, 6)(&stand);
    other.join().expect("it commits");
    let rows = stand.transact(|body| Ok([body.get(5)?, body.get(6)?]));
    assert!(rows.iter().flatten().count() == 1, "each has inserted what the other has missed: {rows:?}");
}

/// One deletes a row, with enough deleted before that the collector runs; one inserts it again as soon as it
/// can; one reads. The delete's leftover must not take the new row with it.
fn a_deleted_key_comes_in_again() {
    let stand = Stand::new(KIND, &[(1, 3, 3)]);
    heddle_model_doors::execution::prepare(|| {
        for id in 100..163 {
            stand.transact(|body| body.insert(id, 0, 0));
            stand.transact(|body| body.delete(id));
        }
    });
    let deleter = beside(&stand, |stand| assert!(stand.transact(|body| body.delete(1))));
    let inserter = beside(&stand, |stand| {
        while !stand.transact(|body| {
            let gone = body.get(1)?.is_none();
            if gone {
                body.insert(1, 9, 9)?;
            }
            Ok(gone)
        }) {
            heddle_model_doors::thread::yield_now();
        }
    });
    let row = stand.transact(|body| body.get(1));
    assert!([None, Some((3, 3)), Some((9, 9))].contains(&row), "{row:?}");
    deleter.join().expect("it commits");
    inserter.join().expect("it commits");
    assert_eq!(stand.transact(|body| body.get(1)), Some((9, 9)), "a committed row is lost");
}
