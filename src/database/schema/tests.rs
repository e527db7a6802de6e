//! Indexes that are built beside transactions, step by step: what comes between the steps is in them, under every protocol.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use smallvec::SmallVec;

use super::*;
use crate::storage::index::Lookup;
use crate::storage::index_build::{FEW, IndexBuild};
use crate::storage::versions::Note;
use crate::storage::word::BUSY;
use crate::{DataType, Durability, Options, ProtocolKind, key, row};

/// More changes than a commit of an index works off, many times.
const MANY: i64 = 100;

/// An index that is being built.
struct Building<'d> {
    db: &'d Database,
    old: Arc<TableCore>,
    new: Arc<TableCore>,
    build: Arc<IndexBuild>,
}

impl Building<'_> {
    fn begin(db: &Database, change: TableChange) -> Building<'_> {
        Building::begin_beside(db, change, 0)
    }

    /// Of a transaction that writes this many rows itself.
    fn begin_beside(db: &Database, change: TableChange, own_writes: usize) -> Building<'_> {
        let old = db.own_table("item").expect("the table");
        let changed = change.apply(old.definition()).expect("a change");
        let (new, empty) = old.redefined(changed.definition);
        let new = Arc::new(new);
        let build = IndexBuild::begin(db.engine().store(), new.clone(), empty, own_writes);
        Building { db, old, new, build }
    }

    fn fill(&self) -> Result<()> {
        self.build.fill(self.db.engine().store())
    }

    fn catch_up(&self) -> Result<()> {
        self.build.catch_up(self.db.engine().store())
    }

    fn commit(&self) -> Result<()> {
        self.commit_with(|_| Ok(()))
    }

    /// In a transaction that writes these rows itself.
    fn commit_with(&self, write: impl Fn(&Tx<'_, '_>) -> Result<()>) -> Result<()> {
        self.db.run(|tx| {
            write(tx)?;
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

/// Notes that no writer works off: of rows that are not there, so that they change nothing.
fn leave_notes(build: &IndexBuild, count: usize) {
    let notes =
        (0..count).map(|n| Note { key: format!("no row {n}").as_bytes().into(), before: SmallVec::new() });
    build.watch().push(None, notes);
}

#[test]
fn no_commit_works_off_more_notes_than_its_bound() {
    for &protocol in ProtocolKind::ALL {
        let (db, table) = items(protocol);
        let building = Building::begin(&db, both());
        building.fill().expect("filled");
        recode(&db, &table, &[(3, 1000)]);
        leave_notes(&building.build, FEW + 1);
        // As often as it is tried.
        for _ in 0..10 {
            let refused = building.commit();
            assert!(matches!(refused, Err(Error::Failed { .. })), "{protocol}: {refused:?}");
            assert!(building.build.take_behind() && !building.build.take_behind());
            assert!(building.build.watch().len() > FEW, "none was worked off");
        }
        building.catch_up().expect("caught up");
        leave_notes(&building.build, FEW);
        building.commit().expect("committed");
        let expected: Vec<_> = (0..20).filter(|&code| code != 3).chain([1000]).collect();
        assert_eq!(codes_by_index(&db, &table, "by_code"), expected);
        db.check().expect("indexes like rows");
    }
}

#[test]
fn no_commit_tries_more_unfit_rows_again_than_its_bound() {
    for &protocol in ProtocolKind::ALL {
        let (db, table) = items(protocol);
        (20..20 + 2 * FEW as i64).for_each(|id| put(&db, &table, id, 0));
        // As if its transaction wrote these rows itself, so that they do not fail it.
        let building = Building::begin_beside(&db, both(), 10 * FEW);
        building.fill().expect("filled");
        for id in 20..20 + 2 * FEW as i64 {
            recode(&db, &table, &[(id, id)]);
        }
        let mut refusals = 0;
        while let Err(refused) = building.commit() {
            assert!(building.build.take_behind(), "{protocol}: {refused:?}");
            refusals += 1;
        }
        assert!(refusals > 0, "{protocol}");
        assert_eq!(
            codes_by_index(&db, &table, "by_code"),
            (0..20 + 2 * FEW as i64).collect::<Vec<_>>(),
            "{protocol}"
        );
        db.check().expect("indexes like rows");
    }
}

#[test]
fn writers_work_off_what_is_more_than_the_builder_is_left_with() {
    for &protocol in ProtocolKind::ALL {
        let (db, table) = items(protocol);
        (20..MANY).for_each(|id| put(&db, &table, id, id));
        let building = Building::begin(&db, both());
        building.fill().expect("filled");
        for turn in 1..4 {
            let codes: Vec<_> = (0..MANY).map(|id| (id, turn * MANY + id)).collect();
            recode(&db, &table, &codes);
            let left = building.build.watch().len();
            assert!(left <= FEW / 2, "{protocol}: {left} notes");
        }
        building.commit().expect("committed");
        assert_eq!(codes_by_index(&db, &table, "by_code"), (3 * MANY..4 * MANY).collect::<Vec<_>>());
        db.check().expect("indexes like rows");
    }
}

#[test]
fn an_index_catches_up_with_writers_that_never_pause() {
    for &protocol in ProtocolKind::ALL {
        let (db, table) = items(protocol);
        (20..MANY).for_each(|id| put(&db, &table, id, id));
        let (done, written) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            // Also where the test fails: its scope waits for the writers.
            let _end_of_writers = SetAtEnd(&done);
            for writer in 0..2 {
                let (db, table, done, written) = (&db, &table, &done, &written);
                scope.spawn(move || {
                    for turn in 1.. {
                        if done.load(Ordering::Relaxed) {
                            break;
                        }
                        // A quarter of the rows each, all at one moment: more than a commit works off.
                        let ids = (0..MANY).filter(|id| id % 4 == writer);
                        let codes: Vec<_> = ids.map(|id| (id, turn * MANY + id)).collect();
                        recode(db, table, &codes);
                        written.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            for round in 0..4 {
                let before = written.load(Ordering::Relaxed);
                while written.load(Ordering::Relaxed) < before + 4 {
                    std::thread::yield_now();
                }
                change_beside(&db, &table, round, both());
                db.check().expect("indexes like rows");
                let back = TableChange::new().drop_index("by_code").drop_index("by_name");
                db.change_table("item", back).expect("dropped");
            }
        });
    }
}

/// Sets a flag at the end of a scope, whatever it ends with.
struct SetAtEnd<'f>(&'f AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// By a call, or in a session that writes a row itself, which no other writer does.
fn change_beside(db: &Database, table: &Table, round: i64, change: TableChange) {
    if round % 2 == 0 {
        drop(db.change_table("item", change).expect("changed"));
        return;
    }
    let mut session = db.session().expect("a session");
    session.begin().expect("begun");
    session.run(|tx| tx.update(table, key![2], crate::set! { code: -1 - round })).expect("written");
    drop(session.change_table("item", change).expect("changed"));
    session.commit().expect("committed: an index conflicts with no writer");
}

#[test]
fn a_writer_does_not_wait_for_a_record_that_the_commit_of_the_index_may_have_locked() {
    let (db, table) = items(ProtocolKind::Optimistic);
    let building = Building::begin(&db, both());
    building.fill().expect("filled");
    recode(&db, &table, &[(3, 1000)]);
    let mut notes = building.build.watch().take_all();
    let [note] = &notes[..] else { panic!("one row has changed") };
    let (key, guard) = (note.key.clone(), crossbeam_epoch::pin());
    let Lookup::Found(record) = building.old.find(building.old.hash(&key), &key, &guard) else {
        panic!("the row is there")
    };
    let word = record.word().fetch_or(BUSY, Ordering::Acquire);
    leave_notes(&building.build, FEW);
    notes.append(&mut building.build.watch().take_all());
    building.build.watch().push(Some(7), notes);
    // The newest are taken first.
    building.build.work_off_own(7, &guard);
    leave_notes(&building.build, FEW);
    building.build.work_off_own(7, &guard);
    let left = building.build.watch().take_of(Some(7), FEW);
    assert!(left.iter().any(|note| note.key == key), "it is left until the record is unlocked");
    building.build.watch().push(Some(7), left);
    record.word().store(word, Ordering::Release);
    building.build.work_off_own(7, &guard);
    assert!(building.build.watch().take_of(Some(7), FEW).is_empty());
    building.catch_up().expect("caught up");
    building.commit().expect("committed");
    let expected: Vec<_> = (0..20).filter(|&code| code != 3).chain([1000]).collect();
    assert_eq!(codes_by_index(&db, &table, "by_code"), expected);
    db.check().expect("indexes like rows");
}

#[test]
fn rows_that_the_transaction_writes_itself_are_in_the_index_as_it_leaves_them() {
    for &protocol in ProtocolKind::ALL {
        let (db, table) = items(protocol);
        // A row that is changed by others and by the transaction; one whose place it takes; two that are alike until then.
        recode(&db, &table, &[(9, 8)]);
        let building = Building::begin_beside(&db, both(), 4);
        building.fill().expect("filled");
        recode(&db, &table, &[(4, 104), (5, 105)]);
        building.catch_up().expect("what is alike may be what the transaction changes");
        recode(&db, &table, &[(4, 204)]);
        let own = |tx: &Tx<'_, '_>| {
            for (id, code) in [(4, 105), (5, 4), (9, 109)] {
                tx.update(&table, key![id], crate::set! { code: code })?;
            }
            tx.delete(&table, key![6]).map(drop)
        };
        building.commit_with(own).expect("committed");
        let expected: Vec<_> = (0..20).filter(|code| ![5, 6, 9].contains(code)).chain([105, 109]).collect();
        assert_eq!(codes_by_index(&db, &table, "by_code"), expected, "{protocol}");
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
