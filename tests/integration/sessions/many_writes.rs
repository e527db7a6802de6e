//! Sessions that write very many rows: what their inserts imply, what is undone of them, and what they reserve.

use std::collections::BTreeMap;
use std::time::Duration;

use heddledb::{Error, ProtocolKind, Range, Result, Session, Timeout, Tx, fail, key, row};

use crate::sessions::rig::{Rig, under_every_protocol};

/// Inserts items of these numbers.
fn insert(rig: &Rig, tx: &Tx<'_, '_>, ids: impl IntoIterator<Item = i64>) -> Result<()> {
    ids.into_iter().try_for_each(|id| tx.insert(&rig.items, row![id, id * 10, id % 2, id]))
}

/// A session that has seen item 5 to be free, by something that was undone, and has written another item.
fn after_an_undone_insert(rig: &Rig, undone: impl Fn(&mut Session)) -> Session {
    let mut session = rig.begin();
    undone(&mut session);
    session.run(|tx| insert(rig, tx, [6])).expect("an insert");
    session
}

#[test]
fn a_key_that_a_rival_takes_is_a_conflict_of_the_insert_at_the_commit() {
    under_every_protocol(|rig| {
        let mut session = rig.begin();
        session.run(|tx| insert(rig, tx, 5..50)).expect("inserts");
        rig.db.run(|tx| insert(rig, tx, [20])).expect("a rival's insert");
        assert_eq!(session.commit(), Err(Error::Conflict), "{}", rig.protocol);
        assert_eq!(rig.all().len(), 5);
        rig.db.check().expect("consistent");
    });
}

#[test]
fn a_code_that_a_rival_takes_is_a_conflict_of_the_insert_at_the_commit() {
    under_every_protocol(|rig| {
        let mut session = rig.begin();
        session.run(|tx| insert(rig, tx, 5..50)).expect("inserts");
        rig.db.run(|tx| tx.insert(&rig.items, row![100, 1, 1, 20])).expect("a rival's insert");
        assert_eq!(session.commit(), Err(Error::Conflict), "{}", rig.protocol);
        rig.db.check().expect("consistent");
    });
}

#[test]
fn a_key_that_came_and_went_meanwhile_is_free() {
    under_every_protocol(|rig| {
        let mut session = rig.begin();
        session.run(|tx| insert(rig, tx, 5..50)).expect("inserts");
        rig.db.run(|tx| insert(rig, tx, [20])).expect("a rival's insert");
        rig.db.run(|tx| tx.delete(&rig.items, key![20])).expect("a rival's delete");
        session.commit().expect("a commit");
        assert_eq!(rig.all().len(), 49, "{}", rig.protocol);
        rig.db.check().expect("consistent");
    });
}

#[test]
fn what_an_undone_insert_has_seen_stays_seen() {
    under_every_protocol(|rig| {
        let undone: [&dyn Fn(&mut Session); 4] = [
            // By a savepoint of the session's.
            &|session| {
                let before = session.savepoint().expect("a savepoint");
                session.run(|tx| insert(rig, tx, [5])).expect("an insert");
                session.rollback_to(&before).expect("a rollback");
            },
            // By one within an access.
            &|session| {
                let body = |tx: &Tx<'_, '_>| {
                    let before = tx.savepoint();
                    insert(rig, tx, [5])?;
                    tx.rollback_to(&before);
                    Ok(())
                };
                session.run(body).expect("an access");
            },
            // With the access that fails.
            &|session| {
                let failed = session.run(|tx| insert(rig, tx, [5]).and(Err::<(), _>(fail("enough"))));
                assert!(failed.is_err());
            },
            // With the statement that fails: the code of item 1.
            &|session| {
                let failed = session.run(|tx| tx.insert(&rig.items, row![5, 50, 1, 1]));
                assert!(matches!(failed, Err(Error::DuplicateKey { .. })));
            },
        ];
        for (number, undone) in undone.iter().enumerate() {
            let mut session = after_an_undone_insert(rig, undone);
            rig.db.run(|tx| tx.insert(&rig.items, row![5, 1, 1, 50])).expect("a rival's insert");
            assert_eq!(session.commit(), Err(Error::Conflict), "{} {number}", rig.protocol);
            rig.db.run(|tx| tx.delete(&rig.items, key![5])).expect("a delete");
            let mut session = after_an_undone_insert(rig, undone);
            session.commit().expect("a commit");
            rig.db.run(|tx| tx.delete(&rig.items, key![6])).expect("a delete");
        }
    });
}

#[test]
fn a_state_in_which_an_own_key_is_taken_is_never_seen() {
    under_every_protocol(|rig| {
        let mut session = rig.begin();
        session.run(|tx| insert(rig, tx, [5])).expect("an insert");
        rig.db
            .run(|tx| {
                insert(rig, tx, [5])?;
                tx.update(&rig.items, key![1], &[("value", 77.into())])
            })
            .expect("a rival");
        assert_eq!(rig.read(&mut session, 1), Err(Error::Conflict), "{}", rig.protocol);
    });
}

#[test]
fn a_key_that_was_read_before_a_rival_deleted_it_cannot_be_inserted() {
    under_every_protocol(|rig| {
        let mut session = rig.begin();
        rig.write(&mut session, 1, 11).expect("an update");
        assert_eq!(rig.read(&mut session, 3), Ok(Some(30)));
        rig.db.run(|tx| tx.delete(&rig.items, key![3])).expect("a rival's delete");
        let inserted = session.run(|tx| insert(rig, tx, [3]));
        assert_eq!(inserted, Err(Error::Conflict), "{}", rig.protocol);
    });
}

#[test]
fn many_writes_in_many_accesses_come_to_what_a_map_comes_to() {
    under_every_protocol(|rig| {
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        let mut session = rig.begin();
        let mut model: BTreeMap<i64, i64> = rig.all().into_iter().collect();
        let mut points = Vec::new();
        for step in 0..120 {
            match random.u32(0..8) {
                0 => points.push((session.savepoint().expect("a savepoint"), model.clone())),
                1 if !points.is_empty() => {
                    points.truncate(random.usize(1..=points.len()));
                    let (point, then) = points.last().expect("a point");
                    session.rollback_to(point).expect("a rollback");
                    model = then.clone();
                }
                2 | 3 => {
                    let ids: Vec<i64> = (0..20).map(|_| random.i64(1..400)).collect();
                    for id in ids {
                        let known = model.insert(id, step);
                        let write = |tx: &Tx<'_, '_>| match known {
                            Some(_) => tx.update(&rig.items, key![id], &[("value", step.into())]),
                            None => tx.insert(&rig.items, row![id, step, id % 2, id]),
                        };
                        session.run(write).expect("a write");
                    }
                }
                4 => {
                    let free: Vec<i64> = (1..400).filter(|id| !model.contains_key(id)).take(60).collect();
                    session.run(|tx| insert(rig, tx, free.iter().copied())).expect("inserts");
                    model.extend(free.iter().map(|&id| (id, id * 10)));
                }
                5 => {
                    let (from, to) = (random.i64(1..400), random.i64(1..400));
                    let gone = session.run(|tx| {
                        (from..to).filter(|&id| model.contains_key(&id)).try_fold(0, |count, id| {
                            tx.delete(&rig.items, key![id]).map(|gone| count + i64::from(gone))
                        })
                    });
                    let expected = (from..to).filter(|id| model.remove(id).is_some()).count() as i64;
                    assert_eq!(gone, Ok(expected), "seed {seed}");
                }
                _ => {
                    let seen = rig.scan(&mut session, Range::all()).expect("a scan");
                    assert!(seen.into_iter().eq(model.clone()), "{} seed {seed}", rig.protocol);
                }
            }
        }
        session.commit().expect("a commit");
        assert!(rig.all().into_iter().eq(model), "{} seed {seed}", rig.protocol);
        rig.db.check().expect("consistent");
    });
}

#[test]
fn only_the_first_of_very_many_keys_are_reserved() {
    // Reservations are the same under all of them.
    [ProtocolKind::Optimistic].map(Rig::again).iter().for_each(|rig| {
        let mut many = rig.begin();
        many.run(|tx| insert(rig, tx, 1_000..13_000)).expect("inserts");
        let mut rival = rig.begin();
        rival.set_wait_timeout(Some(Duration::from_millis(1))).expect("a timer");
        let waited = rival.run(|tx| insert(rig, tx, [1_000]));
        assert_eq!(waited, Err(Error::TimedOut { what: Timeout::Wait }), "{}", rig.protocol);
        rival.rollback().expect("a rollback");
        rival.begin().expect("a transaction");
        rival.run(|tx| insert(rig, tx, [12_999])).expect("a key that is not reserved");
        rival.commit().expect("a commit");
        assert_eq!(many.commit(), Err(Error::Conflict));
        // The retry meets the row, and waits for what others have reserved before it.
        let mut first = rig.begin();
        first.run(|tx| insert(rig, tx, [12_000])).expect("an insert");
        many.begin().expect("a transaction");
        many.set_wait_timeout(Some(Duration::from_millis(1))).expect("a timer");
        let waited = many.run(|tx| insert(rig, tx, 1_000..12_999));
        assert_eq!(waited, Err(Error::TimedOut { what: Timeout::Wait }));
        many.rollback().expect("a rollback");
        first.rollback().expect("a rollback");
        many.begin().expect("a transaction");
        many.run(|tx| insert(rig, tx, 1_000..12_999)).expect("inserts");
        many.commit().expect("a commit");
        assert_eq!(rig.all().len(), 4 + 12_000);
    });
}
