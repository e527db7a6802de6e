//! Foreign keys of several columns, to unique columns, to the table itself, and with the indexes that there are.

use heddledb::{
    DataType, Database, Error, ForeignKey, PrimaryIndex, Range, ReferentialAction, TableDefinition, key, row,
};

use crate::foreign_keys::rig::{every_protocol, no_parent, pairs, still_referenced};

fn int(table: TableDefinition, columns: &[&str]) -> TableDefinition {
    columns.iter().fold(table, |table, column| table.column(*column, DataType::Int64))
}

#[test]
fn several_columns_refer_in_any_order_and_one_null_refers_to_nothing() {
    for options in every_protocol() {
        let db = Database::in_memory_with(options).expect("options");
        let rooms = int(TableDefinition::new("room"), &["house", "floor", "number"]);
        let rooms = db.create_table(rooms.primary_key(["house", "floor", "number"])).expect("rooms");
        let foreign = ForeignKey::new("in_room", ["n", "h", "f"], "room")
            .to_columns(["number", "house", "floor"])
            .on_delete(ReferentialAction::SetNull);
        let guests = int(TableDefinition::new("guest"), &["id", "h", "f", "n"]).primary_key(["id"]);
        let guests = db.create_table(guests.foreign_key(foreign)).expect("guests");
        db.run(|tx| tx.insert(&rooms, row![1, 2, 3])).expect("a room");
        db.run(|tx| tx.insert(&guests, row![1, 1, 2, 3])).expect("it exists");
        no_parent(db.run(|tx| tx.insert(&guests, row![2, 3, 2, 1])));
        db.run(|tx| tx.insert(&guests, row![2, 7, Option::<i64>::None, 7])).expect("it refers to none");
        no_parent(db.run(|tx| tx.update(&guests, key![2], &[("f", 7.into())])));
        db.run(|tx| tx.delete(&rooms, key![1, 2, 3])).expect("the guest stays");
        let left = db.run(|tx| Ok(tx.get(&guests, key![1])?.map(|row| row.to_values())));
        let nulls = left.expect("read").expect("there").iter().filter(|value| value.is_null()).count();
        assert_eq!(nulls, 3);
        db.check().expect("consistent");
    }
}

#[test]
fn a_tree_refers_to_itself_and_goes_with_its_root() {
    for options in every_protocol() {
        let db = Database::in_memory_with(options).expect("options");
        let nodes = int(TableDefinition::new("node"), &["id", "above"]).primary_key(["id"]);
        let above = ForeignKey::new("above", ["above"], "node").on_delete(ReferentialAction::Cascade);
        let nodes = db.create_table(nodes.foreign_key(above)).expect("nodes");
        db.run(|tx| {
            tx.insert(&nodes, row![1, 1])?;
            no_parent(tx.insert(&nodes, row![2, 3]));
            // A chain that no recursion would survive, and branches.
            (2..=3_000).try_for_each(|id| tx.insert(&nodes, row![id, id - 1]))?;
            (4_001..=4_010).try_for_each(|id| tx.insert(&nodes, row![id, 2]))?;
            tx.insert(&nodes, row![5_000, Option::<i64>::None])
        })
        .expect("a tree");
        db.run(|tx| tx.delete(&nodes, key![1_500])).expect("the lower half");
        assert_eq!(db.run(|tx| Ok(tx.scan(&nodes, Range::all())?.count())).expect("a scan"), 1_499 + 11);
        db.run(|tx| tx.delete(&nodes, key![1])).expect("the rest");
        assert_eq!(db.run(|tx| pairs(tx, &nodes, "above")).expect("a scan"), [(5_000, None)]);
        db.check().expect("consistent");
    }
}

#[test]
fn a_row_that_refers_to_itself_can_go() {
    for options in every_protocol() {
        let db = Database::in_memory_with(options).expect("options");
        let nodes = int(TableDefinition::new("node"), &["id", "above"]).primary_key(["id"]);
        let nodes =
            db.create_table(nodes.foreign_key(ForeignKey::new("above", ["above"], "node"))).expect("nodes");
        db.run(|tx| (1..=2).try_for_each(|id| tx.insert(&nodes, row![id, 1]))).expect("nodes");
        still_referenced(db.run(|tx| tx.delete(&nodes, key![1])));
        db.run(|tx| tx.delete(&nodes, key![2])).expect("a leaf");
        db.run(|tx| tx.delete(&nodes, key![1])).expect("only it referred to itself");
    }
}

#[test]
fn children_whose_key_begins_with_their_parent_need_no_other_index() {
    for kind in [PrimaryIndex::Both, PrimaryIndex::Ordered, PrimaryIndex::Hash] {
        for options in every_protocol() {
            let db = Database::in_memory_with(options).expect("options");
            let orders = db.create_table(int(TableDefinition::new("order"), &["id"]).primary_key(["id"]));
            let orders = orders.expect("orders");
            let lines =
                int(TableDefinition::new("line"), &["order", "number"]).primary_key(["order", "number"]);
            let foreign =
                ForeignKey::new("of_order", ["order"], "order").on_delete(ReferentialAction::Cascade);
            let lines = db.create_table(lines.primary_index(kind).foreign_key(foreign)).expect("lines");
            assert_eq!(lines.definition().indexes().len(), usize::from(kind == PrimaryIndex::Hash));
            db.run(|tx| (1..=2).try_for_each(|id| tx.insert(&orders, row![id]))).expect("orders");
            db.run(|tx| {
                (1..=2).try_for_each(|id| (1..=3).try_for_each(|number| tx.insert(&lines, row![id, number])))
            })
            .expect("lines");
            db.run(|tx| tx.delete(&orders, key![1])).expect("with its lines");
            assert_eq!(db.run(|tx| Ok(tx.scan(&lines, Range::all())?.count())).expect("a scan"), 3);
            db.check().expect("consistent");
        }
    }
}

#[test]
fn an_index_that_begins_with_the_columns_serves() {
    let children = |index: &[&'static str]| {
        let table = int(TableDefinition::new("child"), &["id", "a", "b", "c"]).primary_key(["id"]);
        table.index("own", index.iter().copied()).foreign_key(ForeignKey::new("key", ["a", "b"], "parent"))
    };
    let db = Database::in_memory_with(every_protocol().remove(0)).expect("options");
    db.create_table(int(TableDefinition::new("parent"), &["a", "b"]).primary_key(["a", "b"]))
        .expect("parents");
    for (index, names) in
        [(&["b", "a", "c"][..], &["own"][..]), (&["a"], &["own", "key"]), (&["c", "a", "b"], &["own", "key"])]
    {
        let table = db.create_table(children(index)).expect("children");
        let found: Vec<_> = table.definition().indexes().iter().map(|index| index.name.as_str()).collect();
        assert_eq!(found, names);
        db.open_table(children(index)).expect("the same definition");
        db.drop_table("child").expect("nothing refers to it");
    }
}

#[test]
fn a_definition_that_cannot_hold_is_refused() {
    let db = Database::in_memory_with(every_protocol().remove(0)).expect("options");
    let parent = int(TableDefinition::new("parent"), &["id", "n", "code"]).column("name", DataType::Text);
    let parent = parent.primary_key(["id"]).unique_index("code", ["code"]).index("n", ["n"]);
    db.create_table(parent).expect("parents");
    let refused = |key: ForeignKey, part: &str| {
        let table = int(TableDefinition::new("child"), &["id", "a", "b"]).primary_key(["id"]);
        let error = db.create_table(table.foreign_key(key)).expect_err("refused");
        assert!(error.to_string().contains(part), "{error}");
        assert!(matches!(error.sqlstate(), "42P16" | "42703"), "{error}");
    };
    let key = |columns: &[&'static str], table: &str| ForeignKey::new("k", columns.iter().copied(), table);
    refused(key(&["a"], "nowhere"), "does not exist; create it first");
    refused(key(&["z"], "parent"), "\"z\"");
    refused(key(&["a", "b"], "parent"), "name as many");
    refused(key(&["a", "a"], "parent").to_columns(["id", "n"]), "named twice");
    refused(key(&["a"], "parent").to_columns(["id", "n"]), "name as many");
    refused(key(&["a"], "parent").to_columns(["n"]), "add a unique index");
    refused(key(&["a"], "parent").to_columns(["name"]), "give them one type");
    refused(key(&["a"], "parent").to_columns(["missing"]), "\"missing\"");
    refused(key(&[], "parent"), "at least one column");
    let twice = int(TableDefinition::new("child"), &["id"]).primary_key(["id"]).check("k", "id > 0");
    let error = db.create_table(twice.foreign_key(key(&["id"], "parent"))).expect_err("refused");
    assert!(matches!(error, Error::InvalidDefinition { .. }) && error.to_string().contains("rename one"));
    assert_eq!(db.tables().len(), 1);
}
