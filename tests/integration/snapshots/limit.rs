//! The limits of memory: what snapshots need is bounded, and is apart from what rows may take.

use std::thread;
use std::time::{Duration, Instant};

use heddledb::{
    Action, DataType, Database, Durability, Error, Options, ProcedureDefinition, ProtocolKind, Range,
    Snapshot, Table, TableDefinition, args, key, row,
};

/// Far longer than anything here takes.
const FOR_EVER: Duration = Duration::from_secs(300);

const LIMIT: u64 = 300 << 10;
const ROWS: i64 = 300;

fn database(options: Options) -> (Database, Table) {
    let db = Database::in_memory_with(options.durability(Durability::None)).expect("options");
    let definition = TableDefinition::new("note").column("id", DataType::Int64).column("n", DataType::Int64);
    let definition = definition.column("text", DataType::Text).primary_key(["id"]);
    let table = db.create_table(definition).expect("a table");
    let text = "x".repeat(500);
    db.run(|tx| (0..ROWS).try_for_each(|id| tx.insert(&table, row![id, 0, text.as_str()]))).expect("rows");
    (db, table)
}

fn change(db: &Database, table: &Table, ids: std::ops::Range<i64>) {
    for id in ids {
        db.run(|tx| tx.update(table, key![id], &[("text", "y".repeat(600).as_str().into())]))
            .expect("a write");
    }
}

fn is_whole(snapshot: &Snapshot, table: &Table) -> bool {
    let rows = snapshot.scan(table, Range::all()).expect("a scan");
    rows.filter(|row| row.as_ref().is_ok_and(|row| row.text("text").is_ok_and(|text| text.len() > 400)))
        .count()
        == ROWS as usize
}

#[test]
fn beyond_the_limit_the_oldest_snapshot_fails_and_no_writer() {
    for &protocol in ProtocolKind::ALL {
        let (db, table) =
            database(Options::default().protocol(protocol).memory(|memory| memory.snapshot_limit(LIMIT)));
        let oldest = db.snapshot().expect("a snapshot");
        change(&db, &table, 0..ROWS / 2);
        assert!(is_whole(&oldest, &table));
        let used = db.statistics();
        assert!((1..LIMIT).contains(&used.snapshot_bytes), "{protocol}: {used:?}");
        let newer = db.snapshot().expect("a snapshot");
        change(&db, &table, 0..ROWS);
        let too_old = oldest.get(&table, key![1]).expect_err("too old");
        assert_eq!(too_old, Error::SnapshotTooOld { limit: LIMIT }, "{protocol}");
        assert!(too_old.is_retryable() && too_old.sqlstate() == "72000");
        assert!(too_old.to_string().contains("snapshot_limit"), "{too_old}");
        let rows = oldest.scan(&table, Range::all()).expect("a scan").collect::<heddledb::Result<Vec<_>>>();
        assert_eq!(rows.map(drop), Err(too_old));
        assert!(is_whole(&newer, &table), "{protocol}");
        let now = db.statistics();
        assert!(now.snapshot_bytes <= LIMIT + 2_000 && now.snapshots_failed == 1, "{protocol}: {now:?}");
        assert!(is_whole(&db.snapshot().expect("another one"), &table));
        drop((oldest, newer));
        assert_eq!(db.statistics().snapshot_bytes, 0, "{protocol}");
    }
}

#[test]
fn a_body_that_ignores_that_its_snapshot_is_too_old_has_no_result() {
    for &protocol in ProtocolKind::ALL {
        let (db, table) =
            database(Options::default().protocol(protocol).memory(|memory| memory.snapshot_limit(0)));
        let counted = db.read(|snapshot| {
            change(&db, &table, 0..1);
            Ok(snapshot.scan(&table, Range::all())?.count())
        });
        assert_eq!(counted, Err(Error::SnapshotTooOld { limit: 0 }), "{protocol}");
        assert!(db.check().is_ok(), "a new one, while nothing changes");
    }
}

/// Many snapshots of many threads, with a limit that fails some of them: each read is right, or says that it is too old.
#[test]
fn what_is_read_is_right_until_it_is_too_old() {
    for &protocol in ProtocolKind::ALL {
        let (db, table) =
            database(Options::default().protocol(protocol).memory(|memory| memory.snapshot_limit(LIMIT / 4)));
        thread::scope(|scope| {
            for writer in 0..2 {
                let (db, table) = (&db, &table);
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(writer);
                    for _ in 0..1_500 {
                        let (from, to) = (random.i64(0..ROWS), random.i64(0..ROWS));
                        db.run(|tx| {
                            tx.add(table, key![from], "n", -1)?;
                            tx.add(table, key![to], "n", 1)
                        })
                        .expect("a transfer");
                    }
                });
            }
            for _ in 0..2 {
                scope.spawn(|| {
                    let (mut whole, mut too_old) = (0, 0);
                    while whole + too_old < 40 {
                        let snapshot = db.snapshot().expect("a snapshot");
                        for _ in 0..3 {
                            let rows = snapshot.scan(&table, Range::all()).expect("a scan");
                            match rows.map(|row| row?.int("n")).sum::<heddledb::Result<i64>>() {
                                Ok(sum) => {
                                    assert_eq!(sum, 0, "{protocol}");
                                    whole += 1;
                                }
                                Err(error) => {
                                    assert!(matches!(error, Error::SnapshotTooOld { .. }), "{error}");
                                    too_old += 1;
                                }
                            }
                        }
                    }
                });
            }
        });
        let now = db.statistics();
        assert_eq!((now.snapshots_open, now.snapshot_versions, now.snapshot_bytes), (0, 0, 0), "{protocol}");
        db.check().expect("consistent");
    }
}

#[test]
fn what_snapshots_need_takes_no_room_from_rows() {
    for &protocol in ProtocolKind::ALL {
        let limit = 4 << 20;
        let (db, table) =
            database(Options::default().protocol(protocol).workers(1).memory(|memory| memory.limit(limit)));
        let text = "z".repeat(2_000);
        let insert = |id: i64| db.run(|tx| tx.insert(&table, row![id, 0, text.as_str()]));
        let fill = |from: i64| (from..).find(|&id| insert(id).is_err()).expect("it ends") - from;
        let before = fill(1_000);
        let snapshot = db.snapshot().expect("a snapshot");
        // The one worker deletes and goes on: a deleted record is collected by the worker that deleted it.
        let of_key = |name: &str, action: Action| {
            let definition = ProcedureDefinition::new(name).parameter("id", DataType::Int64);
            let action = action.key(|args, key| key.push(args.int(0)?));
            db.register(definition.phase([action])).expect("a procedure")
        };
        let delete = of_key("delete", Action::write(&table).body(|action| action.delete().map(drop)));
        let add = of_key("add", Action::write(&table).body(|action| action.add("n", 1)));
        for id in 1_000..1_000 + before {
            db.call(&delete, args![id]).expect("deleted");
        }
        let deleted = db.snapshot().expect("a snapshot without them").epoch();
        while db.durable_epoch() < deleted {
            thread::yield_now();
        }
        for id in 0..ROWS {
            db.call(&add, args![id]).expect("a write");
        }
        // Their memory is free soon after.
        let (start, mut after) = (Instant::now(), 0);
        while after <= before / 2 {
            assert!(start.elapsed() < FOR_EVER, "{protocol}: {before} rows before, {after} after");
            after += fill(100_000 + after);
            thread::yield_now();
        }
        assert_eq!(snapshot.scan(&table, Range::all()).expect("a scan").count() as i64, ROWS + before);
    }
}
