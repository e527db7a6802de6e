//! Foreign keys come, go and follow names by schema changes, which they restrict.

use heddledb::{
    DataType, Database, Error, Options, Range, ReferentialAction, TableChange, Value, args, key, row,
};

use crate::foreign_keys::rig::{
    Rig, by_code, by_key, every_protocol, everywhere, no_parent, still_referenced,
};

fn change(rig: &Rig, table: &str, change: TableChange) -> heddledb::Result<()> {
    rig.db.change_table(table, change).map(drop)
}

#[test]
fn existing_rows_must_have_their_referenced_rows() {
    everywhere(&by_key(), |rig| {
        change(rig, "child", TableChange::new().drop_constraint("child_parent")).expect("dropped");
        rig.db.run(|tx| tx.insert(&rig.children, row![13, 3, 0])).expect("nothing refuses it");
        no_parent(change(rig, "child", TableChange::new().add_foreign_key(by_key())));
        assert!(rig.children.definition().foreign_keys().is_empty());
        rig.db
            .run(|tx| tx.update(&rig.children, key![13], &[("parent", Value::Null.as_value_ref())]))
            .expect("none");
        change(rig, "child", TableChange::new().add_foreign_key(by_key())).expect("all rows fit");
        no_parent(rig.db.run(|tx| tx.insert(&rig.children, row![14, 3, 0])));
        still_referenced(rig.db.run(|tx| tx.delete(&rig.parents, key![1])));
    });
}

#[test]
fn a_table_that_is_referred_to_stays() {
    everywhere(&by_code(), |rig| {
        let referenced = |result: heddledb::Result<()>| {
            let error = result.expect_err("it is referred to");
            assert!(
                matches!(&error, Error::TableReferenced { constraint, .. } if constraint == "child_code"),
                "{error}"
            );
            assert_eq!(error.sqlstate(), "2BP01");
        };
        referenced(rig.db.drop_table("parent"));
        referenced(rig.db.truncate(&["parent"]));
        referenced(change(rig, "parent", TableChange::new().drop_column("code")));
        referenced(change(rig, "parent", TableChange::new().drop_index("code")));
        referenced(change(rig, "parent", TableChange::new().data_type("code", DataType::Int32)));
        let mut session = rig.db.session().expect("a session");
        session.begin().expect("begun");
        referenced(session.drop_table("parent"));
        referenced(session.truncate(&["parent"]));
        referenced(session.change_table("parent", TableChange::new().drop_column("code")).map(drop));
        referenced(session.change_table("parent", TableChange::new().drop_index("code")).map(drop));
        session.rollback().expect("rolled back");
        rig.db.truncate(&["child", "parent"]).expect("all of them");
        assert_eq!((rig.parents().len(), rig.children().len()), (0, 0));
        no_parent(rig.db.run(|tx| tx.insert(&rig.children, row![1, 10, 0])));
        rig.db.run(|tx| tx.insert(&rig.parents, row![1, 10, 0])).expect("a parent");
        rig.db.run(|tx| tx.insert(&rig.children, row![1, 10, 0])).expect("its child");
        rig.db.truncate(&["child"]).expect("nothing refers to it");
        rig.db.run(|tx| tx.delete(&rig.parents, key![1])).expect("nothing refers to it");
    });
}

#[test]
fn without_its_children_a_table_can_go() {
    for options in every_protocol() {
        let rig = Rig::new(Database::in_memory_with(options).expect("options"), by_key());
        rig.db.drop_table("child").expect("nothing refers to it");
        rig.db.run(|tx| tx.delete(&rig.parents, key![1])).expect("nothing refers to it any more");
        rig.db.drop_table("parent").expect("nothing refers to it");
        assert!(rig.db.tables().is_empty());
    }
}

#[test]
fn names_are_followed() {
    everywhere(&by_code().on_update(ReferentialAction::Cascade), |rig| {
        change(rig, "parent", TableChange::new().rename("elder").rename_column("code", "mark"))
            .expect("renamed");
        change(rig, "child", TableChange::new().rename_constraint("child_code", "k")).expect("renamed");
        let key = rig.children.definition().foreign_keys()[0].clone();
        assert_eq!(
            (key.name(), key.table(), key.referenced_columns()),
            ("k", "elder", &["mark".to_string()][..])
        );
        rig.db.run(|tx| tx.update(&rig.parents, key![1], &[("mark", 15.into())])).expect("children follow");
        assert_eq!(rig.children(), [(11, Some(15)), (12, Some(15))]);
        change(rig, "child", TableChange::new().rename_column("parent", "of")).expect("renamed");
        assert_eq!(rig.children.definition().foreign_keys()[0].columns(), ["of"]);
        change(rig, "child", TableChange::new().rename_column("of", "parent")).expect("renamed");
        no_parent(rig.db.run(|tx| tx.insert(&rig.children, row![13, 10, 0])));
    });
}

#[test]
fn a_rebuilt_table_keeps_its_foreign_keys() {
    everywhere(&by_key().on_delete(ReferentialAction::Cascade), |rig| {
        let add = || TableChange::new().add_column("more", DataType::Int64, 1);
        change(rig, "parent", add()).expect("rebuilt");
        change(rig, "child", add()).expect("rebuilt");
        no_parent(rig.db.run(|tx| tx.insert(&rig.children, row![13, 3, 0, 0])));
        rig.db.run(|tx| tx.delete(&rig.parents, key![1])).expect("with its children");
        assert_eq!(rig.children(), []);
        change(rig, "child", TableChange::new().drop_column("parent")).expect("and its foreign key");
        assert!(rig.children.definition().foreign_keys().is_empty());
        let back = TableChange::new().add_column("parent", DataType::Int64, 7).add_foreign_key(by_key());
        change(rig, "child", back).expect("there are no rows");
    });
}

#[test]
fn converted_values_are_checked_on_both_sides() {
    everywhere(&by_key(), |rig| {
        let moved = |by: i64| {
            TableChange::new().convert("parent", DataType::Int64, move |value| match value {
                Value::Int(int) => Ok(Value::Int(int + by)),
                other => Ok(other),
            })
        };
        no_parent(change(rig, "child", moved(2)));
        change(rig, "child", moved(1)).expect("2 exists");
        assert_eq!(rig.children(), [(11, Some(2)), (12, Some(2))]);
    });
    everywhere(&by_code(), |rig| {
        let doubled = |of: i64| {
            TableChange::new().convert("code", DataType::Int64, move |value| match value {
                Value::Int(int) if int == of => Ok(Value::Int(int * 2 + 1)),
                other => Ok(other),
            })
        };
        no_parent(change(rig, "parent", doubled(10)));
        change(rig, "parent", doubled(90)).expect("no child refers to it");
        assert_eq!(rig.parents(), [(1, Some(10)), (2, Some(20)), (9, Some(181))]);
    });
}

#[test]
fn transactions_under_way_meet_a_foreign_key_that_comes() {
    // A transaction that has deleted a parent before children could refer to it does not commit behind them.
    for options in every_protocol() {
        let db = Database::in_memory_with(options).expect("options");
        let parents = db.create_table(crate::foreign_keys::rig::parents()).expect("parents");
        db.run(|tx| tx.insert(&parents, row![1, 10, 0])).expect("a parent");
        let mut session = db.session().expect("a session");
        session.begin().expect("begun");
        session.run(|tx| tx.delete(&parents, key![1])).expect("nothing refers to it");
        let children = db.create_table(crate::foreign_keys::rig::children(by_key())).expect("children");
        db.run(|tx| tx.insert(&children, row![11, 1, 0])).expect("its parent is there");
        session.commit().expect_err("a child has come");
        let rig = Rig { db, parents, children };
        rig.check();
        assert_eq!(rig.parents().len(), 1);
    }
}

#[test]
fn a_procedure_meets_a_foreign_key_that_comes() {
    for options in every_protocol() {
        let db = Database::in_memory_with(options).expect("options");
        let parents = db.create_table(crate::foreign_keys::rig::parents()).expect("parents");
        db.run(|tx| tx.insert(&parents, row![1, 10, 0])).expect("a parent");
        let delete = heddledb::Action::write(&parents).key(|_, key| key.push(1));
        let delete = delete.body(|action| action.delete().map(drop));
        let delete =
            db.register(heddledb::ProcedureDefinition::new("delete").phase([delete])).expect("registered");
        let children = db.create_table(crate::foreign_keys::rig::children(by_key())).expect("children");
        db.run(|tx| tx.insert(&children, row![11, 1, 0])).expect("its parent is there");
        still_referenced(db.call(&delete, args![]));
        Rig { db, parents, children }.check();
    }
}

#[test]
fn a_table_differs_by_its_foreign_keys() {
    let db =
        Database::in_memory_with(Options::default().durability(heddledb::Durability::None)).expect("options");
    let rig = Rig::new(db, by_key());
    rig.db.open_table(crate::foreign_keys::rig::children(by_key())).expect("the same");
    let other =
        rig.db.open_table(crate::foreign_keys::rig::children(by_key().on_delete(ReferentialAction::Cascade)));
    let difference = other.expect_err("another action").to_string();
    assert!(
        difference.contains("on delete no action") && difference.contains("on delete cascade"),
        "{difference}"
    );
    let unknown = rig.db.change_table("child", TableChange::new().drop_constraint("nothing"));
    assert!(unknown.expect_err("unknown").to_string().contains("child_parent"));
    let rows = rig.db.run(|tx| Ok(tx.scan_index(&rig.children, "child_parent", Range::all())?.count()));
    assert_eq!(rows, Ok(2), "the index that the foreign key has brought");
}
