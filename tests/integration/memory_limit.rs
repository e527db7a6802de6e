//! `MemoryOptions::limit`: at the limit inserts and long values are refused, everything else goes on, and deletes make
//! room. Under every protocol.

use std::thread;
use std::time::{Duration, Instant};

use heddledb::{
    Action, DataType, Database, Durability, Error, Options, ProcedureDefinition, ProtocolKind, Range, Table,
    TableDefinition, args, key, row,
};

const LIMIT: u64 = 4 << 20;
const LONG: usize = 2_000;

fn database(protocol: ProtocolKind) -> (Database, Table) {
    let db = Database::in_memory_with(options(protocol)).unwrap();
    let table = db.create_table(definition()).unwrap();
    (db, table)
}

fn options(protocol: ProtocolKind) -> Options {
    Options::default().protocol(protocol).durability(Durability::None).memory(|memory| memory.limit(LIMIT))
}

fn definition() -> TableDefinition {
    TableDefinition::new("note")
        .column("id", DataType::Int64)
        .column("count", DataType::Int64)
        .column("text", DataType::Text)
        .primary_key(["id"])
}

/// Inserts rows with texts of this many bytes until one is refused; how many there were, and the refusal.
fn fill(db: &Database, table: &Table, from: i64, bytes: usize) -> (i64, Error) {
    let text = "x".repeat(bytes);
    for id in from.. {
        if let Err(error) = db.run(|tx| tx.insert(table, row![id, 0, text.as_str()])) {
            return (id - from, error);
        }
    }
    unreachable!("it ends with a refusal")
}

fn rows(db: &Database, table: &Table) -> usize {
    db.run(|tx| {
        let mut count = 0;
        for row in tx.scan(table, Range::all())? {
            row?;
            count += 1;
        }
        Ok(count)
    })
    .unwrap()
}

#[test]
fn at_the_limit_inserts_are_refused_and_everything_else_goes_on() {
    for &protocol in ProtocolKind::ALL {
        let (db, table) = database(protocol);
        let (inserted, refusal) = fill(&db, &table, 0, LONG);
        let Error::MemoryFull { used, limit } = refusal else { panic!("{protocol}: {refusal}") };
        assert_eq!(limit, LIMIT);
        assert!((LIMIT..LIMIT + (1 << 20)).contains(&used), "{protocol}: {used}");
        assert_eq!(rows(&db, &table) as i64, inserted, "{protocol}: the refused one left nothing");
        let expected = LIMIT as usize / (LONG + 100);
        assert!(
            (expected * 7 / 10..expected * 12 / 10).contains(&(inserted as usize)),
            "{protocol}: {inserted}"
        );
        // Short updates and operations need no memory; a long value does.
        db.run(|tx| tx.update(&table, key![3], &[("text", "short".into())])).unwrap();
        db.run(|tx| tx.add(&table, key![3], "count", 5)).unwrap();
        let long = "y".repeat(LONG);
        let updated = db.run(|tx| tx.update(&table, key![4], &[("text", long.as_str().into())]));
        assert!(matches!(updated, Err(Error::MemoryFull { .. })), "{protocol}: {updated:?}");
        let count = db.run(|tx| tx.get(&table, key![3])?.expect("there").int("count")).unwrap();
        assert_eq!(count, 5, "{protocol}");
    }
}

#[test]
fn deletes_make_room_again() {
    for &protocol in ProtocolKind::ALL {
        let (db, table) = database(protocol);
        let (inserted, _) = fill(&db, &table, 0, LONG);
        for id in 0..inserted {
            db.run(|tx| tx.delete(&table, key![id])).unwrap();
        }
        wait_for_memory(&db, LIMIT / 4);
        let again = fill(&db, &table, inserted, LONG).0;
        assert!(again > inserted / 2, "{protocol}: only {again} of {inserted} came in again");
    }
}

/// Waits, without a transaction, until rows take this much memory at most.
#[track_caller]
fn wait_for_memory(db: &Database, at_most: u64) {
    let start = Instant::now();
    while db.statistics().memory_bytes > at_most {
        let used = db.statistics().memory_bytes;
        assert!(start.elapsed() < Duration::from_secs(120), "{used} bytes are used, not {at_most}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Fills a table to the limit, deletes one half of the rows and then the other, and fills it again once their memory is
/// free.
fn deleted_memory_is_available(db: &Database, delete: impl Fn(&Database, &Table, i64)) {
    let table = db.open_table(definition()).unwrap();
    // Every worker context has its first memory.
    (0..3).for_each(|id| delete(db, &table, id));
    let (mut first, mut inserted) = (0, fill(db, &table, 0, LONG).0);
    for _ in 0..3 {
        for half in 0..2 {
            let before = db.statistics().memory_bytes;
            let deleted: Vec<i64> = (first + half..first + inserted).step_by(2).collect();
            deleted.iter().for_each(|&id| delete(db, &table, id));
            wait_for_memory(db, before - (deleted.len() * LONG) as u64);
        }
        let again = fill(db, &table, first + inserted, LONG).0;
        // All of it, but for what the limit's slack hides.
        assert!(again > inserted * 8 / 10, "{again} of {inserted}");
        (first, inserted) = (first + inserted, again);
    }
}

#[test]
fn what_was_deleted_is_available_without_further_transactions() {
    for &protocol in ProtocolKind::ALL {
        // One, so that each worker context has fetched its first memory before what is used is measured.
        let options = options(protocol).workers(1);
        let db = Database::in_memory_with(options).unwrap();
        let table = db.create_table(definition()).unwrap();
        let remove = Action::write(&table)
            .key(|args, key| key.push(args.int(0)?))
            .body(|action| action.delete().map(drop));
        let remove = ProcedureDefinition::new("remove").parameter("id", DataType::Int64).phase([remove]);
        let remove = db.register(remove).unwrap();
        // By threads that keep their worker contexts, and by those that do not.
        let worker = std::cell::RefCell::new(db.worker().unwrap());
        deleted_memory_is_available(&db, |db, table, id| match id % 3 {
            0 => db.run(|tx| tx.delete(table, key![id])).map(drop).unwrap(),
            1 => drop(db.call(&remove, args![id]).unwrap()),
            _ => drop(worker.borrow_mut().execute(&remove, args![id]).wait().unwrap()),
        });
        drop(worker);
        db.check().unwrap();
    }
}

#[test]
fn what_was_deleted_durably_is_available_without_further_transactions() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options::default().durability(Durability::Async).memory(|memory| memory.limit(LIMIT));
    let db = Database::open(directory.path().join("notes"), options).unwrap();
    deleted_memory_is_available(&db, |db, table, id| {
        db.run(|tx| tx.delete(table, key![id])).map(drop).unwrap();
    });
    db.check().unwrap();
}

#[test]
fn values_that_were_replaced_make_room_without_further_transactions() {
    for &protocol in ProtocolKind::ALL {
        let (db, table) = database(protocol);
        let (inserted, _) = fill(&db, &table, 0, LONG);
        let before = db.statistics().memory_bytes;
        for id in 0..inserted {
            db.run(|tx| tx.update(&table, key![id], &[("text", "short".into())])).unwrap();
        }
        wait_for_memory(&db, before - inserted as u64 * LONG as u64);
    }
}

#[test]
fn one_transaction_that_deletes_everything_makes_room() {
    let (db, table) = database(ProtocolKind::Optimistic);
    let (inserted, _) = fill(&db, &table, 0, 8);
    let before = db.statistics().memory_bytes;
    db.run(|tx| (0..inserted).try_for_each(|id| tx.delete(&table, key![id]).map(drop))).unwrap();
    wait_for_memory(&db, before / 4);
    let (again, _) = fill(&db, &table, 0, 8);
    assert!(again > inserted / 2, "{again} of {inserted}");
}

#[test]
fn what_a_snapshot_needs_is_available_once_it_is_closed() {
    for &protocol in ProtocolKind::ALL {
        let (db, table) = database(protocol);
        let (inserted, _) = fill(&db, &table, 0, LONG);
        let before = db.statistics().memory_bytes;
        let snapshot = db.snapshot().unwrap();
        for id in 0..inserted {
            db.run(|tx| tx.delete(&table, key![id])).unwrap();
        }
        drop(snapshot);
        wait_for_memory(&db, before - inserted as u64 * LONG as u64);
        let again = fill(&db, &table, inserted, LONG).0;
        assert!(again > inserted / 2, "{protocol}: only {again} of {inserted} came in again");
    }
}

#[test]
fn a_larger_database_is_opened_and_takes_no_more() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notes");
    let db = Database::open(&path, Options::default()).unwrap();
    let table = db.create_table(definition()).unwrap();
    let text = "x".repeat(LONG);
    for batch in 0..40 {
        db.run(|tx| {
            (0..100_i64).try_for_each(|id| tx.insert(&table, row![batch * 100 + id, 0, text.as_str()]))
        })
        .unwrap();
    }
    assert!(db.statistics().memory_bytes > 0);
    db.close().unwrap();
    for with_checkpoint in [false, true] {
        let db = Database::open(&path, Options::default().memory(|memory| memory.limit(LIMIT))).unwrap();
        let table = db.table("note").unwrap();
        assert_eq!(rows(&db, &table), 4_000);
        assert!(db.statistics().memory_bytes > 4_000 * LONG as u64, "recovered rows count");
        let refused = db.run(|tx| tx.insert(&table, row![-1, 0, "short"]));
        assert!(matches!(refused, Err(Error::MemoryFull { .. })), "{refused:?}");
        if !with_checkpoint {
            db.checkpoint().unwrap();
        }
        db.close().unwrap();
    }
}
