//! The redo of very many loaded rows, which lies in a temporary file until the log has it: all rows come with the commit, or none,
//! wherever the process ends, the disk is full or fails. Beside a snapshot, a checkpoint and other transactions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::support::tables::{DATABASE, everywhere, file, on_disk, open};
use heddledb::testing::{Fault, Operation, SimulatedDisk};
use heddledb::{
    DataType, Database, Error, ProtocolKind, Range, Result, Session, SessionState, Table, TableDefinition,
    key, row,
};
use parking_lot::Mutex;

/// More than two mebibytes of redo.
const ROWS: i64 = 5_000;

fn definition() -> TableDefinition {
    TableDefinition::new("t").column("id", DataType::Int64).column("text", DataType::Text).primary_key(["id"])
}

fn text(id: i64) -> String {
    format!("{id:0500}")
}

/// A session whose transaction has made the table and loaded the rows.
fn loaded(db: &Database) -> (Session, Table) {
    try_loaded(db).expect("loaded")
}

fn try_loaded(db: &Database) -> Result<(Session, Table)> {
    let mut session = db.session()?;
    session.begin()?;
    let table = session.create_table(definition())?;
    session.load(|tx| (0..ROWS).try_for_each(|id| tx.insert(&table, row![id, &text(id)])))?;
    Ok((session, table))
}

fn rows(db: &Database) -> Vec<(i64, String)> {
    let table = db.table("t").expect("it is there");
    let rows = db.run(|tx| {
        tx.scan(&table, Range::all())?
            .map(|row| row.and_then(|row| Ok((row.int("id")?, row.text("text")?.to_string()))))
            .collect::<Result<Vec<_>>>()
    });
    rows.expect("a scan")
}

fn assert_whole(db: &Database) {
    assert!(rows(db).into_iter().eq((0..ROWS).map(|id| (id, text(id)))));
    db.check().expect("consistent");
}

#[test]
fn rows_beyond_a_piece_come_with_the_commit_and_with_what_was_written_to_them_since() {
    everywhere(
        |db| {
            let (mut session, table) = loaded(db);
            session
                .run(|tx| {
                    tx.update(&table, key![5], &[("text", "changed".into())])?;
                    assert!(tx.delete(&table, key![ROWS - 1])?);
                    tx.insert(&table, row![-1, "before all others"])
                })
                .expect("written");
            session.commit().expect("committed");
            let table = db.table("t").expect("it is there");
            db.run(|tx| tx.insert(&table, row![ROWS + 1, "behind"])).expect("written");
        },
        |db| {
            let ids = -1..ROWS - 1;
            let mut expected: Vec<_> =
                ids.map(|id| (id, text(id))).chain([(ROWS + 1, "behind".into())]).collect();
            (expected[0].1, expected[6].1) = ("before all others".into(), "changed".into());
            assert!(rows(db) == expected);
            db.check().expect("consistent");
        },
    );
}

#[test]
fn wherever_the_power_goes_all_rows_are_there_or_none() {
    for &protocol in ProtocolKind::ALL {
        let disk = SimulatedDisk::new();
        let db = Database::open(DATABASE, on_disk(&disk).protocol(protocol)).expect("opened");
        let (mut session, _) = loaded(&db);
        let images = Arc::new(Mutex::new(Vec::new()));
        let (seen, mut number) = (images.clone(), 0);
        disk.watch(move |moment| {
            number += 1;
            if number % 4 == 0 || moment.operation() == Operation::Remove {
                seen.lock().push(moment.image(number));
            }
        });
        session.commit().expect("committed");
        disk.watch_no_more();
        images.lock().push(disk.crash_image(7));
        let images = std::mem::take(&mut *images.lock());
        assert!(images.len() > 2, "{}", images.len());
        let mut whole = 0;
        for image in &images {
            let db = Database::open(DATABASE, on_disk(image).protocol(protocol)).expect("opened");
            if db.table("t").is_ok() {
                assert_whole(&db);
                whole += 1;
            }
            let (mut session, table) = match db.table("t") {
                Ok(table) => (db.session().expect("a session"), table),
                Err(_) => loaded(&db),
            };
            if session.state() == SessionState::Idle {
                session.begin().expect("begun");
            }
            session.run(|tx| tx.insert(&table, row![ROWS, "more"])).expect("the database goes on");
            session.commit().expect("committed");
            assert_eq!(rows(&db).len() as i64, ROWS + 1);
        }
        assert!((1..images.len()).contains(&whole), "{whole} of {}", images.len());
    }
}

#[test]
fn a_temporary_file_that_cannot_be_made_or_written_fails_the_commit_only() {
    for (operation, fault) in [
        (Operation::Create, Fault::StorageFull),
        (Operation::Remove, Fault::InputOutput),
        (Operation::Write, Fault::StorageFull),
        (Operation::Write, Fault::InputOutput),
    ] {
        let disk = SimulatedDisk::new();
        let db = open(&disk);
        let (mut session, _) = loaded(&db);
        disk.fail_from_now(operation, fault);
        let failed = session.commit().expect_err("the disk fails");
        disk.heal();
        assert!(matches!(failed, Error::StorageFull { .. } | Error::Io { .. }), "{failed:?}");
        assert_eq!(session.state(), SessionState::Idle);
        assert!(db.table("t").is_err());
        // The thread that makes segments may have failed, too, and tries again a little later.
        while let Err(error) = try_loaded(&db).and_then(|(mut session, _)| session.commit()) {
            let is_refused = matches!(error, Error::NoLogSpace { .. } | Error::LogNotExtended { .. });
            assert!(is_refused, "the disk works again: {error:?}");
        }
        assert_whole(&db);
        assert!(disk.bytes(&file("log/loaded.tmp")).is_err() || operation == Operation::Remove);
    }
}

#[test]
fn a_snapshot_a_checkpoint_and_other_transactions_go_on_beside_it() {
    for &protocol in ProtocolKind::ALL {
        let disk = SimulatedDisk::new();
        let open = || Database::open(DATABASE, on_disk(&disk).protocol(protocol)).expect("opened");
        let db = open();
        let other = TableDefinition::new("other").column("id", DataType::Int64).column("n", DataType::Int64);
        let other = db.create_table(other.primary_key(["id"])).expect("created");
        db.run(|tx| tx.insert(&other, row![1, 0])).expect("inserted");
        let snapshot = db.snapshot().expect("a snapshot");
        let is_over = AtomicBool::new(false);
        let added = thread::scope(|scope| {
            let adding = scope.spawn(|| {
                let mut added = 0;
                while !is_over.load(Ordering::Relaxed) {
                    db.run(|tx| tx.add(&other, key![1], "n", 1)).expect("added");
                    added += 1;
                }
                added
            });
            let checkpoints = scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    db.checkpoint().expect("a checkpoint");
                }
            });
            let (mut session, _) = loaded(&db);
            session.commit().expect("committed");
            is_over.store(true, Ordering::Relaxed);
            checkpoints.join().expect("no panic");
            adding.join().expect("no panic")
        });
        assert_eq!(snapshot.get(&other, key![1]).expect("a look").expect("a row").int("n"), Ok(0));
        drop(snapshot);
        assert_whole(&db);
        db.close().expect("closed");
        let db = open();
        assert_whole(&db);
        let other = db.table("other").expect("it is there");
        let n = db.run(|tx| tx.get(&other, key![1])?.expect("a row").int("n"));
        assert_eq!(n, Ok(added));
    }
}
