//! `Options::memory_limit`: at the limit inserts and long values are refused, everything else goes on, and deletes make
//! room. Under every protocol.

use heddledb::{
    DataType, Database, Durability, Error, Options, ProtocolKind, Range, Table, TableDefinition, key, row,
};

const LIMIT: u64 = 4 << 20;
const LONG: usize = 2_000;

fn database(protocol: ProtocolKind) -> (Database, Table) {
    let options = Options::default().protocol(protocol).durability(Durability::None).memory_limit(LIMIT);
    let db = Database::in_memory(options).unwrap();
    let table = db.create_table(definition()).unwrap();
    (db, table)
}

fn definition() -> TableDefinition {
    TableDefinition::new("note")
        .column("id", DataType::Int64)
        .column("count", DataType::Int64)
        .column("text", DataType::Text)
        .primary_key(["id"])
}

/// Inserts rows with texts of so many bytes until one is refused; how many there were, and the refusal.
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
        // What is deleted is freed when everybody has let go of it: a little later.
        let mut again = 0;
        for attempt in 0..2_000 {
            again += fill(&db, &table, inserted + again, LONG).0;
            if again > inserted / 2 {
                break;
            }
            assert!(attempt < 1_999, "{protocol}: only {again} of {inserted} came in again");
            db.run(|tx| tx.exists(&table, key![0])).unwrap();
        }
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
        let db = Database::open(&path, Options::default().memory_limit(LIMIT)).unwrap();
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
