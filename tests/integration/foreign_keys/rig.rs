//! Support of the tests: parents and children under each protocol, and a full scan that finds children
//! without parents.

use std::collections::BTreeSet;

use heddledb::{
    DataType, Database, Durability, Error, ForeignKey, Options, ProtocolKind, Range, ReferentialAction,
    Result, SerialOptions, Table, TableDefinition, Tx, Value, row,
};

pub struct Rig {
    pub db: Database,
    pub parents: Table,
    pub children: Table,
}

/// Parents: a key, a code that is unique, and a number that nothing refers to.
pub fn parents() -> TableDefinition {
    TableDefinition::new("parent")
        .column("id", DataType::Int64)
        .column("code", DataType::Int64)
        .column("n", DataType::Int64)
        .not_null()
        .primary_key(["id"])
        .unique_index("code", ["code"])
}

/// Children of one parent each, or of none.
pub fn children(key: ForeignKey) -> TableDefinition {
    TableDefinition::new("child")
        .column("id", DataType::Int64)
        .column("parent", DataType::Int64)
        .default(9)
        .column("n", DataType::Int64)
        .not_null()
        .primary_key(["id"])
        .foreign_key(key)
}

/// From children to parents by their keys.
pub fn by_key() -> ForeignKey {
    ForeignKey::new("child_parent", ["parent"], "parent")
}

/// From children to parents by their codes.
pub fn by_code() -> ForeignKey {
    ForeignKey::new("child_code", ["parent"], "parent").to_columns(["code"])
}

/// Options for each protocol, with several partitions and executors where there are some.
pub fn every_protocol() -> Vec<Options> {
    let options =
        |kind: ProtocolKind| Options::default().durability(Durability::None).workers(2).protocol(kind);
    let mut all: Vec<Options> = ProtocolKind::ALL.iter().map(|&kind| options(kind)).collect();
    all.push(
        Options::default().durability(Durability::None).protocol(SerialOptions::default().partitions(4)),
    );
    all
}

/// Runs a test under every protocol, with parents 1, 2 and 9, whose codes are ten times as high, and children 11 and 12 of 1.
pub fn everywhere(key: &ForeignKey, test: impl Fn(&Rig)) {
    for options in every_protocol() {
        let rig = Rig::new(Database::in_memory_with(options).expect("options"), key.clone());
        test(&rig);
        rig.check();
    }
}

impl Rig {
    pub fn new(db: Database, key: ForeignKey) -> Rig {
        let to_code = !key.referenced_columns().is_empty();
        let parents = db.create_table(parents()).expect("parents");
        let children = db.create_table(children(key)).expect("children");
        db.run(|tx| {
            [1, 2, 9].iter().try_for_each(|&id| tx.insert(&parents, row![id, id * 10, 0]))?;
            let parent = if to_code { 10 } else { 1 };
            [11, 12].iter().try_for_each(|&id| tx.insert(&children, row![id, parent, 0]))
        })
        .expect("rows");
        Rig { db, parents, children }
    }

    /// Parents' keys and codes.
    pub fn parents(&self) -> Vec<(i64, Option<i64>)> {
        self.db.run(|tx| pairs(tx, &self.parents, "code")).expect("a scan")
    }

    /// Children and their parents.
    pub fn children(&self) -> Vec<(i64, Option<i64>)> {
        self.db.run(|tx| pairs(tx, &self.children, "parent")).expect("a scan")
    }

    /// That a full scan finds no child without its parent, and every index is right.
    pub fn check(&self) {
        let key = &self.children.definition().foreign_keys()[0].clone();
        let column = key.referenced_columns().first().map_or("id", String::as_str);
        let orphans = self.db.run(|tx| orphans(tx, (&self.children, "parent"), (&self.parents, column)));
        assert_eq!(orphans.expect("a scan"), []);
        self.db.check().expect("the database is consistent");
    }
}

pub fn pairs(tx: &Tx<'_, '_>, table: &Table, column: &str) -> Result<Vec<(i64, Option<i64>)>> {
    let row = |row: Result<heddledb::Row<'_>>| {
        let row = row?;
        Ok((row.int("id")?, int_of(&row.get(column)?.to_value())))
    };
    tx.scan(table, Range::all())?.map(row).collect()
}

fn int_of(value: &Value) -> Option<i64> {
    if let Value::Int(int) = value { Some(*int) } else { None }
}

/// The rows whose value is not NULL, and is none of the other table's.
pub fn orphans(
    tx: &Tx<'_, '_>,
    (children, column): (&Table, &str),
    (parents, referenced): (&Table, &str),
) -> Result<Vec<(i64, i64)>> {
    let known: BTreeSet<i64> =
        pairs(tx, parents, referenced)?.into_iter().filter_map(|(_, value)| value).collect();
    let all = pairs(tx, children, column)?.into_iter();
    let referring = all.filter_map(|(id, value)| Some((id, value?)));
    Ok(referring.filter(|(_, value)| !known.contains(value)).collect())
}

#[track_caller]
pub fn no_parent<T: std::fmt::Debug>(result: Result<T>) {
    match result {
        Err(error @ Error::NoReferencedRow { .. }) => assert_eq!(error.sqlstate(), "23503"),
        other => panic!("it should have no referenced row: {other:?}"),
    }
}

#[track_caller]
pub fn still_referenced<T: std::fmt::Debug>(result: Result<T>) {
    match result {
        Err(error @ Error::StillReferenced { .. }) => assert_eq!(error.sqlstate(), "23503"),
        other => panic!("rows should still refer to it: {other:?}"),
    }
}

/// Every action.
pub fn actions() -> impl Iterator<Item = ReferentialAction> {
    ReferentialAction::ALL.iter().copied()
}
