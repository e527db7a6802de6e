//! Indexes that are built beside transactions, step by step: what comes between the steps is in them, under every protocol.

use std::sync::Arc;

use super::*;
use crate::storage::index_build::IndexBuild;
use crate::{DataType, Durability, Options, ProtocolKind, key, row};

/// More changes than a commit of an index works off.
const MANY: i64 = 100;

/// An index that is being built.
struct Building<'d> {
    db: &'d Database,
    old: Arc<TableCore>,
    new: Arc<TableCore>,
    build: Arc<IndexBuild>,
}

impl Building<'_> {
    fn begin<'d>(db: &'d Database, change: TableChange) -> Building<'d> {
        let old = db.own_table("item").expect("the table");
        let changed = change.apply(old.definition()).expect("a change");
        let (new, empty) = old.redefined(changed.definition);
        let new = Arc::new(new);
        let build = Arc::new(IndexBuild::begin(db.engine().store(), new.clone(), empty));
        Building { db, old, new, build }
    }

    fn fill(&self) -> Result<()> {
        self.build.fill(self.db.engine().store())
    }

    fn catch_up(&self) -> Result<()> {
        self.build.catch_up(self.db.engine().store())
    }

    fn commit(&self) -> Result<()> {
        self.db.run(|tx| {
            catalog_rows::rewrite(self.db.engine().store(), tx, &self.old, self.new.definition())?;
            let (old, new, build) = (self.old.clone(), self.new.clone(), Some(self.build.clone()));
            tx.change_schema(SchemaChange::Replace { old, new, build });
            Ok(())
        })
    }
}

fn items(protocol: ProtocolKind) -> (Database, Table) {
    let options = Options::default().durability(Durability::None).protocol(protocol);
    let db = Database::in_memory_with(options).expect("options");
    let definition = TableDefinition::new("item")
        .column("id", DataType::Int64)
        .column("code", DataType::Int64)
        .column("name", DataType::Text)
        .column("stock", DataType::Int64)
        .not_null()
        .primary_key(["id"]);
    let table = db.create_table(definition).expect("a table");
    (0..20).for_each(|id| put(&db, &table, id, id));
    (db, table)
}

fn put(db: &Database, table: &Table, id: i64, code: i64) {
    let name = format!("a name that is longer than a few words: {}", code / 3);
    db.run(|tx| tx.insert(table, row![id, code, &name, 0])).expect("inserted");
}

/// Gives each of these rows a code, all at one moment.
fn recode(db: &Database, table: &Table, codes: &[(i64, i64)]) {
    let recode = |tx: &Tx<'_, '_>| {
        codes.iter().try_for_each(|&(id, code)| tx.update(table, key![id], crate::set! { code: code }))
    };
    db.run(recode).expect("changed");
}

fn codes_by_index(db: &Database, table: &Table, index: &str) -> Vec<i64> {
    let codes = |tx: &Tx<'_, '_>| {
        tx.scan_index(table, index, Range::all())?.map(|row| row?.int("code")).collect::<Result<Vec<_>>>()
    };
    db.run(codes).expect("read")
}

fn both() -> TableChange {
    TableChange::new().add_unique_index("by_code", ["code"]).add_index("by_name", ["name"])
}

#[test]
fn what_changes_between_the_steps_is_in_the_index() {
    for &protocol in ProtocolKind::ALL {
        let (db, table) = items(protocol);
        let building = Building::begin(&db, both());
        put(&db, &table, 30, 30);
        recode(&db, &table, &[(0, 100), (1, 101)]);
        building.fill().expect("filled");
        // Values that change places, come back, go and come again.
        recode(&db, &table, &[(2, 200), (3, 2), (2, 3)]);
        recode(&db, &table, &[(4, 104)]);
        recode(&db, &table, &[(4, 4)]);
        assert!(db.run(|tx| tx.delete(&table, key![5])).expect("deleted"));
        building.catch_up().expect("caught up");
        put(&db, &table, 5, 6 + 100);
        assert!(db.run(|tx| tx.delete(&table, key![6])).expect("deleted"));
        put(&db, &table, 31, 6);
        recode(&db, &table, &[(7, 8), (8, 7)]);
        building.commit().expect("committed");
        let mut expected = vec![100, 101, 3, 2, 4, 106, 8, 7];
        expected.extend((9..20).chain([30, 6]));
        expected.sort_unstable();
        assert_eq!(codes_by_index(&db, &table, "by_code"), expected, "{protocol}");
        db.check().expect("indexes like rows");
        // From here on writers maintain it.
        recode(&db, &table, &[(9, 900)]);
        let taken = db.run(|tx| tx.update(&table, key![10], crate::set! { code: 900 }));
        assert!(matches!(taken, Err(Error::DuplicateKey { .. })), "{protocol}: {taken:?}");
        db.check().expect("indexes like rows");
    }
}

#[test]
fn a_commit_that_finds_too_many_changes_is_tried_again_after_they_were_worked_off() {
    for &protocol in ProtocolKind::ALL {
        let (db, table) = items(protocol);
        let building = Building::begin(&db, both());
        building.fill().expect("filled");
        (0..MANY).for_each(|n| recode(&db, &table, &[(n % 20, 1000 + n)]));
        let refused = building.commit();
        assert!(matches!(refused, Err(Error::Failed { .. })), "{protocol}: {refused:?}");
        assert!(building.build.take_behind() && !building.build.take_behind());
        building.catch_up().expect("caught up");
        building.commit().expect("committed");
        assert_eq!(codes_by_index(&db, &table, "by_code"), (1080..1100).collect::<Vec<_>>());
        db.check().expect("indexes like rows");
    }
}

#[test]
fn a_row_that_violates_the_index_fails_its_builder_at_any_step() {
    for &protocol in ProtocolKind::ALL {
        let violates =
            |result: &Result<()>| matches!(result, Err(Error::NotUnique { index, .. }) if index == "by_code");
        let (db, table) = items(protocol);
        recode(&db, &table, &[(0, 1)]);
        let filled = Building::begin(&db, both()).fill();
        assert!(violates(&filled), "{protocol}: {filled:?}");
        recode(&db, &table, &[(0, 0)]);
        let building = Building::begin(&db, both());
        building.fill().expect("filled");
        // No writer is refused, as long as the index is none of the table's.
        recode(&db, &table, &[(0, 1)]);
        let late = building.catch_up();
        assert!(violates(&late), "{protocol}: {late:?}");
        recode(&db, &table, &[(0, 0)]);
        building.catch_up().expect("the violation is gone");
        recode(&db, &table, &[(0, 1)]);
        let committed = building.commit();
        assert!(violates(&committed), "{protocol}: {committed:?}");
        assert!(table.core().definition().indexes().is_empty());
        db.check().expect("the table as it was");
    }
}

#[test]
fn operations_on_columns_outside_of_the_index_are_not_noted() {
    let (db, table) = items(ProtocolKind::Optimistic);
    let building = Building::begin(&db, both());
    building.fill().expect("filled");
    for _ in 0..MANY {
        db.run(|tx| tx.add(&table, key![1], "stock", 1)).expect("added");
    }
    // As many notes would be too many.
    building.commit().expect("committed");
    db.check().expect("indexes like rows");
}

#[test]
fn a_table_is_extended_once_a_column_was_added_to_its_records() {
    let (db, _) = items(ProtocolKind::default());
    let old = db.own_table("item").expect("the table");
    db.change_table("item", TableChange::new().rename_column("name", "title")).expect("renamed");
    assert!(!old.is_extended());
    db.change_table("item", TableChange::new().add_column("n", DataType::Int64, 7)).expect("added");
    assert!(old.is_extended(), "a checkpoint of the records begins again");
    db.truncate(&["item"]).expect("emptied");
    assert!(old.is_extended(), "the records that were copied are the old ones");
}
