//! Tests of the rows that refer to one that is deleted or changed: the catalogue of actions, as in
//! PostgreSQL.

use heddledb::{ForeignKey, ReferentialAction, key, row};

use crate::foreign_keys::rig::{actions, by_code, by_key, everywhere, no_parent, still_referenced};

#[test]
fn a_row_refers_to_one_that_exists_or_to_none() {
    everywhere(&by_key(), |rig| {
        let error = rig.db.run(|tx| tx.insert(&rig.children, row![13, 3, 0])).expect_err("no such parent");
        assert_eq!(
            error.to_string(),
            "table \"child\" violates the foreign key \"child_parent\": row (13) refers to row (3) of \"parent\", which does \
             not exist; insert that first"
        );
        no_parent(rig.db.run(|tx| tx.update(&rig.children, key![11], &[("parent", 3.into())])));
        assert_eq!(rig.children(), [(11, Some(1)), (12, Some(1))]);
        rig.db
            .run(|tx| tx.insert(&rig.children, row![13, Option::<i64>::None, 0]))
            .expect("it refers to none");
        rig.db.run(|tx| tx.update(&rig.children, key![11], &[("parent", 2.into())])).expect("it exists");
        assert_eq!(rig.children(), [(11, Some(2)), (12, Some(1)), (13, None)]);
    });
}

#[test]
fn a_referenced_row_is_deleted_as_the_action_says() {
    for action in actions() {
        everywhere(&by_key().on_delete(action), |rig| {
            let deleted = rig.db.run(|tx| tx.delete(&rig.parents, key![1]));
            let children = match action {
                ReferentialAction::NoAction | ReferentialAction::Restrict => {
                    still_referenced(deleted);
                    assert_eq!(rig.parents().len(), 3);
                    vec![(11, Some(1)), (12, Some(1))]
                }
                ReferentialAction::Cascade => vec![],
                ReferentialAction::SetNull => vec![(11, None), (12, None)],
                ReferentialAction::SetDefault => vec![(11, Some(9)), (12, Some(9))],
            };
            assert_eq!(rig.children(), children, "{action:?}");
            assert!(rig.db.run(|tx| tx.delete(&rig.parents, key![2])).expect("nothing refers to it"));
        });
    }
}

#[test]
fn referenced_values_change_as_the_action_says() {
    for action in actions() {
        let key_of = by_code().on_update(action).on_delete(ReferentialAction::SetNull);
        everywhere(&key_of, |rig| {
            rig.db.run(|tx| tx.update(&rig.parents, key![9], &[("code", 9.into())])).expect("the default");
            let code = |code: Option<i64>| {
                rig.db.run(|tx| tx.update(&rig.parents, key![1], &[("code", code.into()), ("n", 1.into())]))
            };
            code(Some(10)).expect("nothing changes");
            let changed = code(Some(15));
            let children = match action {
                ReferentialAction::NoAction | ReferentialAction::Restrict => {
                    still_referenced(changed);
                    assert_eq!(rig.parents()[0], (1, Some(10)));
                    vec![(11, Some(10)), (12, Some(10))]
                }
                ReferentialAction::Cascade => vec![(11, Some(15)), (12, Some(15))],
                ReferentialAction::SetNull => vec![(11, None), (12, None)],
                ReferentialAction::SetDefault => vec![(11, Some(9)), (12, Some(9))],
            };
            assert_eq!(rig.children(), children, "{action:?}");
            if action == ReferentialAction::Cascade {
                code(None).expect("it has no code then");
                assert_eq!(rig.children(), [(11, None), (12, None)]);
            }
        });
    }
}

#[test]
fn a_default_must_exist_too() {
    everywhere(&by_key().on_delete(ReferentialAction::SetDefault), |rig| {
        rig.db.run(|tx| tx.delete(&rig.parents, key![9])).expect("nothing refers to it");
        no_parent(rig.db.run(|tx| tx.delete(&rig.parents, key![1])));
        assert_eq!(rig.children(), [(11, Some(1)), (12, Some(1))]);
        assert_eq!(rig.parents().len(), 2);
    });
}

#[test]
fn an_access_that_is_refused_leaves_nothing() {
    everywhere(&by_key().on_delete(ReferentialAction::SetDefault), |rig| {
        rig.db.run(|tx| tx.delete(&rig.parents, key![9])).expect("nothing refers to it");
        rig.db
            .run(|tx| {
                tx.update(&rig.children, key![12], &[("n", 5.into())])?;
                no_parent(tx.delete(&rig.parents, key![1]));
                no_parent(tx.insert(&rig.children, row![14, 8, 0]));
                tx.insert(&rig.children, row![14, 2, 0])
            })
            .expect("the transaction goes on");
        assert_eq!(rig.children(), [(11, Some(1)), (12, Some(1)), (14, Some(2))]);
    });
}

#[test]
fn children_that_go_before_their_parent_do_not_hold_it() {
    for action in [ReferentialAction::NoAction, ReferentialAction::Restrict] {
        everywhere(&by_key().on_delete(action), |rig| {
            rig.db
                .run(|tx| {
                    still_referenced(tx.delete(&rig.parents, key![1]));
                    tx.delete(&rig.children, key![11])?;
                    tx.update(&rig.children, key![12], &[("parent", 2.into())])?;
                    tx.delete(&rig.parents, key![1])
                })
                .expect("nothing refers to it any more");
            assert_eq!(rig.children(), [(12, Some(2))]);
        });
    }
}

#[test]
fn a_parent_and_its_children_come_in_one_transaction() {
    everywhere(&by_key(), |rig| {
        rig.db
            .run(|tx| {
                no_parent(tx.insert(&rig.children, row![13, 3, 0]));
                tx.insert(&rig.parents, row![3, 30, 0])?;
                tx.insert(&rig.children, row![13, 3, 0])?;
                let savepoint = tx.savepoint();
                tx.insert(&rig.parents, row![4, 40, 0])?;
                tx.rollback_to(&savepoint);
                no_parent(tx.insert(&rig.children, row![14, 4, 0]));
                Ok(())
            })
            .expect("committed");
        assert_eq!(rig.children().last(), Some(&(13, Some(3))));
    });
}

#[test]
fn what_nothing_refers_by_changes_freely() {
    everywhere(&by_key(), |rig| {
        rig.db
            .run(|tx| {
                tx.update(&rig.parents, key![1], &[("n", 7.into()), ("code", 77.into())])?;
                tx.add(&rig.parents, key![1], "n", 1)?;
                tx.add(&rig.children, key![11], "n", 1)?;
                tx.delete(&rig.children, key![12])
            })
            .expect("no foreign key concerns this");
        assert_eq!((rig.parents()[0], rig.children()), ((1, Some(77)), vec![(11, Some(1))]));
    });
}

#[test]
fn operations_on_columns_of_a_foreign_key_are_checked() {
    everywhere(&by_key(), |rig| {
        rig.db.run(|tx| tx.add(&rig.children, key![11], "parent", 1)).expect("2 exists");
        no_parent(rig.db.run(|tx| tx.add(&rig.children, key![11], "parent", 1)));
        rig.db.run(|tx| tx.max(&rig.children, key![11], "parent", 9)).expect("9 exists");
        assert_eq!(rig.children(), [(11, Some(9)), (12, Some(1))]);
    });
    everywhere(&by_code().on_update(ReferentialAction::Cascade), |rig| {
        rig.db.run(|tx| tx.add(&rig.parents, key![1], "code", 5)).expect("children follow");
        assert_eq!(rig.children(), [(11, Some(15)), (12, Some(15))]);
    });
}

#[test]
fn a_restriction_refuses_at_once_and_no_action_after_what_else_the_access_does() {
    use heddledb::{DataType, Database, TableDefinition};
    // A toy belongs to a child and to its parent; both go with the parent.
    for (action, goes) in [(ReferentialAction::NoAction, true), (ReferentialAction::Restrict, false)] {
        for options in crate::foreign_keys::rig::every_protocol() {
            let db = Database::in_memory_with(options).expect("options");
            let rig = crate::foreign_keys::rig::Rig::new(db, by_key().on_delete(ReferentialAction::Cascade));
            let toys = TableDefinition::new("toy")
                .column("id", DataType::Int64)
                .column("child", DataType::Int64)
                .column("parent", DataType::Int64)
                .primary_key(["id"])
                .foreign_key(ForeignKey::new("of_parent", ["parent"], "parent").on_delete(action))
                .foreign_key(
                    ForeignKey::new("of_child", ["child"], "child").on_delete(ReferentialAction::Cascade),
                );
            let toys = rig.db.create_table(toys).expect("toys");
            rig.db.run(|tx| tx.insert(&toys, row![1, 11, 1])).expect("its child and parent exist");
            let deleted = rig.db.run(|tx| tx.delete(&rig.parents, key![1]));
            if goes {
                assert!(deleted.expect("nothing is left that refers to it"));
            } else {
                still_referenced(deleted);
            }
            assert_eq!(rig.children().is_empty(), goes);
            rig.check();
        }
    }
}
