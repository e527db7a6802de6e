//! The ways to change rows: procedures, workers, sessions; each leads to the same checks and actions.

use heddledb::{
    Action, DataType, Error, ForeignKey, Procedure, ProcedureDefinition, ReferentialAction, Values, args,
    key, row,
};

use crate::foreign_keys::rig::{Rig, by_key, everywhere, no_parent, still_referenced};

fn insert_child(rig: &Rig) -> Procedure {
    let insert = Action::write(&rig.children).key(|args, key| key.push(args.int(0)?));
    let insert = insert.body(|action| {
        let (id, parent) = (action.args().int(0)?, action.args().int(1)?);
        action.insert(row![id, parent, 0])
    });
    let definition = ProcedureDefinition::new("insert child").parameter("id", DataType::Int64);
    rig.db.register(definition.parameter("parent", DataType::Int64).phase([insert])).expect("registered")
}

fn delete_parent(rig: &Rig) -> Procedure {
    let delete = Action::write(&rig.parents).key(|args, key| key.push(args.int(0)?));
    let delete = delete.body(|action| action.delete().map(drop));
    let definition = ProcedureDefinition::new("delete parent").parameter("id", DataType::Int64);
    rig.db.register(definition.phase([delete])).expect("registered")
}

#[test]
fn procedures_check_and_cascade_beyond_what_they_declare() {
    everywhere(&by_key().on_delete(ReferentialAction::Cascade), |rig| {
        let (insert, delete) = (insert_child(rig), delete_parent(rig));
        rig.db.call(&insert, args![13, 2]).expect("2 exists");
        no_parent(rig.db.call(&insert, args![14, 3]));
        rig.db.call(&delete, args![1]).expect("its children go");
        assert_eq!(rig.children(), [(13, Some(2))]);
        let mut worker = rig.db.worker().expect("a worker");
        no_parent(worker.execute(&insert, args![14, 1]).wait());
        worker.execute(&insert, args![14, 9]).wait().expect("9 exists");
        worker.execute(&delete, args![2]).wait().expect("its child goes");
        assert_eq!(rig.children(), [(14, Some(9))]);
    });
    everywhere(&by_key(), |rig| {
        let (insert, delete) = (insert_child(rig), delete_parent(rig));
        still_referenced(rig.db.call(&delete, args![1]));
        rig.db.call(&delete, args![2]).expect("nothing refers to it");
        no_parent(rig.db.call(&insert, args![13, 2]));
    });
}

#[test]
fn a_procedure_sees_what_its_other_actions_have_written() {
    for key_of in [by_key(), by_key().deferred(), by_key().on_delete(ReferentialAction::Cascade)] {
        everywhere(&key_of, |rig| {
            let parent = Action::write(&rig.parents).key(|args, key| key.push(args.int(0)?));
            let parent = parent.body(|action| action.insert(row![action.args().int(0)?, 77, 0]));
            let child = |place: usize| {
                let child = Action::write(&rig.children).key(move |args, key| key.push(args.int(place)?));
                child.body(move |action| {
                    action.insert(row![action.args().int(place)?, action.args().int(0)?, 0])
                })
            };
            let definition = ProcedureDefinition::new("both")
                .parameter("parent", DataType::Int64)
                .parameter("child", DataType::Int64)
                .parameter("other", DataType::Int64);
            let both = definition.phase([parent, child(1)]).phase([child(2)]);
            let both = rig.db.register(both).expect("registered");
            rig.db.call(&both, args![3, 13, 14]).expect("the parent comes first");
            assert_eq!(rig.children()[2..], [(13, Some(3)), (14, Some(3))]);
        });
    }
}

#[test]
fn calls_of_a_group_see_what_earlier_ones_have_written() {
    for key_of in [by_key(), by_key().on_delete(ReferentialAction::Cascade)] {
        everywhere(&key_of, |rig| {
            let parent = Action::write(&rig.parents).key(|args, key| key.push(args.int(0)?));
            let parent =
                parent.body(|action| action.insert(row![action.args().int(0)?, Option::<i64>::None, 0]));
            let parent =
                ProcedureDefinition::new("insert parent").parameter("id", DataType::Int64).phase([parent]);
            let procedures =
                [rig.db.register(parent).expect("registered"), insert_child(rig), delete_parent(rig)];
            let mut calls = Vec::new();
            for id in 100..140 {
                calls.extend([(0, args![id]), (1, args![1_000 + id, id])]);
            }
            calls.push((2, args![9]));
            let (mut worker, mut done) = (rig.db.worker().expect("a worker"), Vec::new());
            worker.execute_group(&procedures, &calls, &mut done);
            done.into_iter().for_each(|one| drop(one.wait().expect("in the order of the group")));
            assert_eq!(rig.children().len(), 42);
        });
    }
}

#[test]
fn keys_that_values_lead_to_are_checked_like_others() {
    everywhere(&by_key().on_delete(ReferentialAction::SetNull), |rig| {
        let look = Action::read(&rig.children).key(|args, key| key.push(args.int(0)?)).body(|action| {
            let parent = action.get()?.map(|row| row.int("parent")).transpose()?;
            action.set_value(0, parent.unwrap_or(0));
            Ok(())
        });
        let delete = Action::write(&rig.parents)
            .key_from(|_, values: &Values, key| key.push(values.int(0)?))
            .body(|action| action.delete().map(drop));
        let definition = ProcedureDefinition::new("orphan").parameter("child", DataType::Int64);
        let orphan = rig.db.register(definition.phase([look]).phase([delete])).expect("registered");
        rig.db.call(&orphan, args![11]).expect("its parent goes");
        assert_eq!(rig.children(), [(11, None), (12, None)]);
    });
}

#[test]
fn operations_of_a_procedure_need_a_declared_write_on_columns_of_a_foreign_key() {
    everywhere(&by_key(), |rig| {
        let action = |write: bool, column: &'static str| {
            let action = if write { Action::write(&rig.children) } else { Action::commute(&rig.children) };
            action.key(|_, key| key.push(11)).body(move |action| action.add(column, 1))
        };
        let call = |name: &str, write: bool, column| {
            let definition = ProcedureDefinition::new(name).phase([action(write, column)]);
            rig.db.call(&rig.db.register(definition).expect("registered"), args![])
        };
        call("counts", false, "n").expect("no foreign key concerns it");
        call("moves", true, "parent").expect("2 exists");
        no_parent(call("moves away", true, "parent"));
        assert!(matches!(call("moves by operation", false, "parent"), Err(Error::OutsideFootprint { .. })));
        assert_eq!(rig.children()[0], (11, Some(2)));
    });
}

#[test]
fn a_session_meets_violations_at_its_accesses_and_sees_what_cascades() {
    everywhere(&by_key().on_delete(ReferentialAction::Cascade), |rig| {
        let mut session = rig.db.session().expect("a session");
        session.begin().expect("begun");
        no_parent(session.run(|tx| tx.insert(&rig.children, row![13, 3, 0])));
        session.run(|tx| tx.insert(&rig.parents, row![3, 30, 0])).expect("inserted");
        session.run(|tx| tx.insert(&rig.children, row![13, 3, 0])).expect("it exists now");
        let savepoint = session.savepoint().expect("a savepoint");
        session.run(|tx| tx.delete(&rig.parents, key![1])).expect("with its children");
        assert!(!session.run(|tx| tx.exists(&rig.children, key![11])).expect("a look"));
        session.rollback_to(&savepoint).expect("back");
        assert!(session.run(|tx| tx.exists(&rig.children, key![11])).expect("a look"));
        session.run(|tx| tx.delete(&rig.parents, key![3])).expect("with its child");
        session.commit().expect("committed");
        assert_eq!(rig.children(), [(11, Some(1)), (12, Some(1))]);
    });
}

#[test]
fn of_two_sessions_one_fails_that_take_each_other_s_ground() {
    everywhere(&by_key(), |rig| {
        for parent_first in [false, true] {
            let (mut first, mut second) =
                (rig.db.session().expect("a session"), rig.db.session().expect("a session"));
            first.begin().expect("begun");
            second.begin().expect("begun");
            let inserted = first.run(|tx| tx.insert(&rig.children, row![13, 2, 0]));
            let deleted = second.run(|tx| tx.delete(&rig.parents, key![2]));
            let (inserted, deleted) = match parent_first {
                true => {
                    let deleted = deleted.map(drop).and_then(|()| second.commit());
                    (inserted.and_then(|()| first.commit()), deleted)
                }
                false => {
                    let inserted = inserted.and_then(|()| first.commit());
                    (inserted, deleted.map(drop).and_then(|()| second.commit()))
                }
            };
            let _ = (first.rollback(), second.rollback());
            assert!(inserted.is_ok() != deleted.is_ok(), "{inserted:?} {deleted:?}");
            rig.check();
            rig.db
                .run(|tx| {
                    tx.delete(&rig.children, key![13])?;
                    if !tx.exists(&rig.parents, key![2])? {
                        tx.insert(&rig.parents, row![2, 20, 0])?;
                    }
                    Ok(())
                })
                .expect("as before");
        }
    });
}

#[test]
fn changes_of_a_parent_and_inserts_of_its_children_do_not_conflict() {
    everywhere(&by_key(), |rig| {
        let mut session = rig.db.session().expect("a session");
        session.begin().expect("begun");
        session.run(|tx| tx.insert(&rig.children, row![13, 2, 0])).expect("2 exists");
        rig.db.run(|tx| tx.update(&rig.parents, key![2], &[("n", 5.into())])).expect("changed meanwhile");
        rig.db.run(|tx| tx.add(&rig.parents, key![2], "n", 1)).expect("changed meanwhile");
        session.commit().expect("that it exists is all that was read");
    });
}

#[test]
fn a_dependent_of_a_dependent_follows() {
    everywhere(&by_key().on_delete(ReferentialAction::Cascade), |rig| {
        let toys = heddledb::TableDefinition::new("toy")
            .column("id", DataType::Int64)
            .column("child", DataType::Int64)
            .primary_key(["id"])
            .foreign_key(
                ForeignKey::new("of_child", ["child"], "child").on_delete(ReferentialAction::SetNull),
            );
        let toys = rig.db.create_table(toys).expect("toys");
        rig.db.run(|tx| (1..=2).try_for_each(|id| tx.insert(&toys, row![id, 10 + id]))).expect("toys");
        rig.db.call(&delete_parent(rig), args![1]).expect("its children go, the toys stay");
        let toys = rig.db.run(|tx| crate::foreign_keys::rig::pairs(tx, &toys, "child")).expect("a scan");
        assert_eq!((rig.children(), toys), (vec![], vec![(1, None), (2, None)]));
    });
}
