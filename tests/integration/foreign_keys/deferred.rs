//! Deferred foreign keys hold at the end of the transaction.

use heddledb::{ReferentialAction, key, row};

use crate::foreign_keys::rig::{by_code, by_key, everywhere, no_parent, still_referenced};

#[test]
fn a_parent_may_come_after_its_child() {
    everywhere(&by_key().deferred(), |rig| {
        rig.db
            .run(|tx| {
                tx.insert(&rig.children, row![13, 3, 0])?;
                tx.update(&rig.children, key![11], &[("parent", 4.into())])?;
                tx.insert(&rig.parents, row![3, 30, 0])?;
                tx.insert(&rig.parents, row![4, 40, 0])
            })
            .expect("all exist in the end");
        assert_eq!(rig.children(), [(11, Some(4)), (12, Some(1)), (13, Some(3))]);
        no_parent(rig.db.run(|tx| tx.insert(&rig.children, row![14, 5, 0])));
        no_parent(rig.db.run(|tx| {
            tx.insert(&rig.parents, row![5, 50, 0])?;
            tx.insert(&rig.children, row![14, 5, 0])?;
            tx.delete(&rig.parents, key![5])
        }));
        assert_eq!(rig.children().len(), 3);
    });
}

#[test]
fn a_child_may_leave_after_its_parent() {
    everywhere(&by_key().deferred(), |rig| {
        still_referenced(rig.db.run(|tx| tx.delete(&rig.parents, key![1])));
        rig.db
            .run(|tx| {
                tx.delete(&rig.parents, key![1])?;
                tx.delete(&rig.children, key![11])?;
                tx.update(&rig.children, key![12], &[("parent", 2.into())])
            })
            .expect("nothing refers to it in the end");
        assert_eq!(rig.children(), [(12, Some(2))]);
        rig.db
            .run(|tx| {
                tx.delete(&rig.parents, key![2])?;
                tx.insert(&rig.parents, row![2, 21, 1])
            })
            .expect("it exists again");
        assert_eq!(rig.parents(), [(2, Some(21)), (9, Some(90))]);
    });
}

#[test]
fn another_row_may_take_over_what_is_referred_to() {
    everywhere(&by_code().deferred(), |rig| {
        rig.db
            .run(|tx| {
                tx.update(&rig.parents, key![1], &[("code", Option::<i64>::None.into())])?;
                tx.update(&rig.parents, key![2], &[("code", 10.into())])
            })
            .expect("another row has the code");
        still_referenced(rig.db.run(|tx| tx.add(&rig.parents, key![2], "code", 1)));
        assert_eq!(rig.parents(), [(1, None), (2, Some(10)), (9, Some(90))]);
    });
}

#[test]
fn actions_and_restrictions_are_not_deferred() {
    everywhere(&by_key().deferred().on_delete(ReferentialAction::Restrict), |rig| {
        still_referenced(rig.db.run(|tx| {
            tx.delete(&rig.parents, key![1])?;
            tx.delete(&rig.children, key![11])?;
            tx.delete(&rig.children, key![12])
        }));
    });
    everywhere(&by_key().deferred().on_delete(ReferentialAction::SetDefault), |rig| {
        rig.db
            .run(|tx| {
                tx.delete(&rig.parents, key![9])?;
                tx.delete(&rig.parents, key![1])?;
                assert_eq!(
                    tx.get(&rig.children, key![11])?.map(|row| row.int("parent")).transpose()?,
                    Some(9)
                );
                tx.insert(&rig.parents, row![9, 91, 0])
            })
            .expect("the default exists in the end");
        no_parent(rig.db.run(|tx| {
            tx.insert(&rig.parents, row![1, 10, 0])?;
            tx.insert(&rig.children, row![13, 1, 0])?;
            tx.delete(&rig.parents, key![1])?;
            tx.update(&rig.children, key![13], &[("parent", 8.into())])
        }));
        assert_eq!(rig.children(), [(11, Some(9)), (12, Some(9))]);
    });
}

#[test]
fn a_child_that_returns_to_a_parent_which_has_gone_is_refused() {
    for action in [ReferentialAction::SetNull, ReferentialAction::SetDefault] {
        everywhere(&by_key().deferred().on_delete(action), |rig| {
            no_parent(rig.db.run(|tx| {
                tx.delete(&rig.parents, key![1])?;
                tx.update(&rig.children, key![11], &[("parent", 1.into())])
            }));
            assert_eq!(rig.children(), [(11, Some(1)), (12, Some(1))]);
        });
    }
}

#[test]
fn what_a_savepoint_takes_back_is_not_checked() {
    everywhere(&by_key().deferred(), |rig| {
        rig.db
            .run(|tx| {
                let savepoint = tx.savepoint();
                tx.insert(&rig.children, row![13, 3, 0])?;
                tx.delete(&rig.parents, key![1])?;
                tx.rollback_to(&savepoint);
                tx.insert(&rig.children, row![14, 2, 0])
            })
            .expect("committed");
        assert_eq!(rig.children().len(), 3);
    });
}

#[test]
fn a_session_checks_when_it_commits() {
    everywhere(&by_key().deferred(), |rig| {
        let mut session = rig.db.session().expect("a session");
        session.begin().expect("begun");
        session.run(|tx| tx.insert(&rig.children, row![13, 3, 0])).expect("deferred");
        session.run(|tx| tx.delete(&rig.parents, key![1])).expect("deferred");
        no_parent(session.commit());
        assert_eq!(rig.children().len(), 2);
        session.begin().expect("begun");
        session.run(|tx| tx.insert(&rig.children, row![13, 3, 0])).expect("deferred");
        session.run(|tx| tx.insert(&rig.parents, row![3, 30, 0])).expect("inserted");
        session.commit().expect("it exists");
        no_parent(session.run(|tx| tx.insert(&rig.children, row![14, 4, 0])));
        session
            .run(|tx| {
                tx.insert(&rig.children, row![14, 4, 0])?;
                tx.insert(&rig.parents, row![4, 40, 0])
            })
            .expect("by itself, it is a transaction");
        assert_eq!(rig.children().len(), 4);
    });
}
