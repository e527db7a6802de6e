//! Loading rows into tables that a session's transaction has made: all of them come with its commit, with their indexes, and
//! after a crash; nothing of them is left otherwise. Under every protocol, in memory and on a disk.

use crate::support::tables::everywhere;
use heddledb::{
    DataType, Database, Durability, Error, Options, ProtocolKind, Range, Result, Row, Session, SessionState,
    Table, TableChange, TableDefinition, Tx, ValueRef, key, row,
};

const ROWS: i64 = 2_000;

fn definition(name: &str) -> TableDefinition {
    TableDefinition::new(name)
        .column("id", DataType::Int64)
        .column("code", DataType::Text)
        .column("n", DataType::Int64)
        .primary_key(["id"])
        .unique_index("by_code", ["code"])
        .index("by_n", ["n"])
}

fn code(id: i64) -> String {
    format!("a code that is longer than a word, of {id}")
}

fn insert(tx: &Tx<'_, '_>, table: &Table, ids: impl IntoIterator<Item = i64>) -> Result<()> {
    ids.into_iter().try_for_each(|id| tx.insert(table, row![id, &code(id), id % 7]))
}

fn begun(db: &Database) -> Session {
    let mut session = db.session().expect("a session");
    session.begin().expect("begun");
    session
}

/// A table that the transaction has made, with `ROWS` loaded rows.
fn load(session: &mut Session, name: &str) -> Result<Table> {
    let table = session.create_table(definition(name))?;
    session.load(|tx| insert(tx, &table, 0..ROWS))?;
    Ok(table)
}

fn rows(db: &Database, name: &str) -> Vec<(i64, String, i64)> {
    let table = db.table(name).expect("it is there");
    let rows = db.run(|tx| {
        let row = |row: Result<Row<'_>>| {
            let row = row?;
            Ok((row.int("id")?, row.text("code")?.to_string(), row.int("n")?))
        };
        tx.scan(&table, Range::all())?.map(row).collect()
    });
    rows.expect("a scan")
}

fn ids_by_n(db: &Database, name: &str, n: i64) -> Vec<i64> {
    let table = db.table(name).expect("it is there");
    db.run(|tx| tx.scan_index(&table, "by_n", Range::prefix(key![n]))?.map(|row| row?.int("id")).collect())
        .expect("a scan")
}

#[test]
fn loaded_rows_come_with_the_commit_and_with_what_was_written_to_them_since() {
    everywhere(
        |db| {
            let mut session = begun(db);
            let table = load(&mut session, "t").expect("loaded");
            assert!(db.table("t").is_err(), "nobody else sees the table");
            session
                .run(|tx| {
                    assert_eq!(tx.scan(&table, Range::all())?.count() as i64, ROWS);
                    tx.update(&table, key![5], &[("code", "changed, and long enough for a block".into())])?;
                    tx.add(&table, key![6], "n", 100)?;
                    assert!(tx.delete(&table, key![7])?);
                    assert!(tx.delete(&table, key![8])?);
                    insert(tx, &table, [8, ROWS])
                })
                .expect("written");
            session.commit().expect("committed");
        },
        |db| {
            let expected: Vec<_> = (0..=ROWS)
                .filter(|id| *id != 7)
                .map(|id| match id {
                    5 => (5, "changed, and long enough for a block".to_string(), 5),
                    6 => (6, code(6), 106),
                    id => (id, code(id), id % 7),
                })
                .collect();
            assert_eq!(rows(db, "t"), expected);
            assert_eq!(ids_by_n(db, "t", 106), [6]);
            assert!(ids_by_n(db, "t", 0).iter().all(|id| id % 7 == 0 && *id != 7));
            let table = db.table("t").expect("it is there");
            let by_code = |code: &str| {
                let range = Range::prefix(key![code]);
                db.run(|tx| {
                    tx.scan_index(&table, "by_code", range.clone())?.map(|row| row?.int("id")).collect()
                })
            };
            assert_eq!(by_code(&code(9)), Ok(vec![9]));
            assert_eq!(by_code(&code(5)), Ok(vec![]));
            db.check().expect("consistent");
        },
    );
}

#[test]
fn what_is_committed_later_goes_on_top_of_loaded_rows() {
    everywhere(
        |db| {
            let mut session = begun(db);
            load(&mut session, "t").expect("loaded");
            session.commit().expect("committed");
            let table = db.table("t").expect("it is there");
            let before = db.snapshot().expect("a snapshot");
            db.run(|tx| {
                tx.add(&table, key![1], "n", 1_000)?;
                tx.delete(&table, key![2])?;
                insert(tx, &table, [ROWS])
            })
            .expect("written");
            assert_eq!(before.get(&table, key![1]).expect("a look").expect("a row").int("n"), Ok(1));
            assert!(before.exists(&table, key![2]).expect("a look"));
        },
        |db| {
            let rows = rows(db, "t");
            assert_eq!((rows.len() as i64, rows[1].2), (ROWS, 1_001));
            db.check().expect("consistent");
        },
    );
}

#[test]
fn a_rollback_a_crash_and_a_dropped_session_leave_nothing() {
    everywhere(
        |db| {
            let mut session = begun(db);
            load(&mut session, "t").expect("loaded");
            session.rollback().expect("rolled back");
            let mut session = begun(db);
            load(&mut session, "t").expect("loaded again");
            drop(session);
        },
        |db| {
            assert!(db.table("t").is_err());
            db.check().expect("consistent");
        },
    );
}

#[test]
fn an_emptied_table_is_loaded_in_place_of_its_rows() {
    everywhere(
        |db| {
            let table = db.create_table(definition("t")).expect("created");
            db.run(|tx| insert(tx, &table, 10_000..10_050)).expect("filled");
            let old = db.snapshot().expect("a snapshot");
            let mut session = begun(db);
            session.truncate(&["t"]).expect("emptied");
            let own = session.table("t").expect("it is there");
            session.load(|tx| insert(tx, &own, (0..ROWS).rev())).expect("loaded");
            assert_eq!(rows(db, "t").len(), 50);
            session.commit().expect("committed");
            assert_eq!(
                old.scan(&table, Range::all()).expect("a scan").count(),
                50,
                "an older snapshot keeps them"
            );
        },
        |db| {
            assert!(rows(db, "t").iter().map(|(id, ..)| *id).eq(0..ROWS));
            db.check().expect("consistent");
        },
    );
}

#[test]
fn a_row_that_does_not_fit_aborts_the_transaction_if_rows_were_loaded() {
    for &protocol in ProtocolKind::ALL {
        let options = Options::default().durability(Durability::None).protocol(protocol);
        let db = Database::in_memory_with(options).expect("options are right");
        type Wrong = fn(&Tx<'_, '_>, &Table) -> Result<()>;
        let wrong: [Wrong; 3] = [
            |tx, table| insert(tx, table, [3]),
            |tx, table| tx.insert(table, row![ROWS + 1, &code(4), 1]),
            |tx, table| tx.insert(table, row![ROWS + 1, "x", "no number"]),
        ];
        for wrong in wrong {
            let mut session = begun(&db);
            let table = session.create_table(definition("t")).expect("created");
            // Where nothing was loaded, nothing is lost.
            let refused = session.load(|tx| tx.insert(&table, row![1, ValueRef::Null, "no number"]));
            assert!(matches!(refused, Err(Error::WrongType { .. })), "{refused:?}");
            assert_eq!(session.state(), SessionState::Open);
            let failed = session.load(|tx| {
                insert(tx, &table, 0..100)?;
                wrong(tx, &table)
            });
            assert!(failed.is_err() && !failed.is_err_and(|error| error.is_retryable()));
            assert_eq!(session.state(), SessionState::Aborted);
            assert!(session.commit().is_err());
            assert!(db.table("t").is_err());
        }
        db.check().expect("consistent");
    }
}

#[test]
fn with_a_savepoint_rows_are_kept_apart_and_can_be_taken_back() {
    everywhere(
        |db| {
            let mut session = begun(db);
            let table = load(&mut session, "t").expect("loaded");
            let point = session.savepoint().expect("a savepoint");
            session.load(|tx| insert(tx, &table, ROWS..ROWS + 10)).expect("inserted");
            session.run(|tx| tx.delete(&table, key![0])).expect("deleted");
            session.rollback_to(&point).expect("taken back");
            session.release(&point).expect("released");
            session
                .load(|tx| {
                    insert(tx, &table, ROWS..ROWS + 5)?;
                    let point = tx.savepoint();
                    insert(tx, &table, ROWS + 5..ROWS + 10)?;
                    tx.rollback_to(&point);
                    Ok(())
                })
                .expect("inserted");
            session.commit().expect("committed");
        },
        |db| {
            assert!(rows(db, "t").iter().map(|(id, ..)| *id).eq(0..ROWS + 5));
            db.check().expect("consistent");
        },
    );
}

#[test]
fn changes_of_a_loaded_table_copy_what_was_loaded() {
    everywhere(
        |db| {
            let mut session = begun(db);
            load(&mut session, "t").expect("loaded");
            let change = TableChange::new().add_column("more", DataType::Int64, 3).drop_index("by_code");
            let table = session.change_table("t", change).expect("changed");
            session.run(|tx| tx.update(&table, key![4], &[("more", 5.into())])).expect("written");
            session.commit().expect("committed");
        },
        |db| {
            let table = db.table("t").expect("it is there");
            let sum =
                db.run(|tx| tx.scan(&table, Range::all())?.map(|row| row?.int("more")).sum::<Result<i64>>());
            assert_eq!(sum, Ok(3 * ROWS + 2));
            assert_eq!(rows(db, "t").len() as i64, ROWS);
            db.check().expect("consistent");
        },
    );
}

#[test]
fn outside_of_a_transaction_and_into_other_tables_it_is_the_same_as_run() {
    everywhere(
        |db| {
            let table = db.create_table(definition("t")).expect("created");
            let mut session = db.session().expect("a session");
            session.load(|tx| insert(tx, &table, 0..10)).expect("inserted");
            session.begin().expect("begun");
            session.load(|tx| insert(tx, &table, 10..20)).expect("inserted");
            let again = session.load(|tx| insert(tx, &table, [3]));
            assert!(matches!(again, Err(Error::DuplicateKey { .. })), "{again:?}");
            session.commit().expect("committed");
        },
        |db| assert_eq!(rows(db, "t").len(), 20),
    );
}
