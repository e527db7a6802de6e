//! A snapshot and the feed behind it make a copy: under every protocol, beside transactions of all kinds.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use heddledb::{
    DataType, Database, Durability, Options, PhasedOptions, ProtocolKind, ProtocolOptions, Result,
    SplitOperation, Table, TableDefinition, TupleType, Tx, ValueRef, key,
};

use super::copy::{Copy, now};
use crate::support::concurrent::{on_disk, open, small, watched};

const ROWS: i64 = 40;

fn entry_type() -> TupleType {
    TupleType::new(vec![DataType::Int64], vec![DataType::Int64]).expect("a type")
}

/// A table with a column for each way in which redo tells of a change.
fn definition() -> TableDefinition {
    TableDefinition::new("thing")
        .column("id", DataType::Int64)
        .column("n", DataType::Int64)
        .not_null()
        .column("high", DataType::Int64)
        .not_null()
        .column("price", DataType::Decimal { precision: 12, scale: 2 })
        .column("name", DataType::Text)
        .column("top", DataType::TopK { limit: 3, of: entry_type() })
        .primary_key(["id"])
        .index("by_name", ["name"])
}

fn insert(tx: &Tx<'_, '_>, table: &Table, id: i64, n: i64) -> Result<()> {
    let name = format!("a name that does not fit into a word, {n}");
    let values: [(&str, ValueRef<'_>); 4] =
        [("id", id.into()), ("n", n.into()), ("high", n.into()), ("name", name.as_str().into())];
    tx.insert_columns(table, &values)
}

/// One transaction of any kind.
fn transact(db: &Database, table: &Table, random: &mut fastrand::Rng) {
    let (id, other, n) = (random.i64(0..ROWS), random.i64(0..ROWS), random.i64(0..1_000));
    let way = random.u32(0..8);
    db.run(|tx| {
        if !tx.exists(table, key![id])? {
            return insert(tx, table, id, n);
        }
        match way {
            0 => tx.delete(table, key![id]).map(drop),
            1 => {
                tx.delete(table, key![id])?;
                insert(tx, table, id, n)
            }
            2 => {
                let name = format!("{n} is quite a long name, too");
                tx.update(table, key![id], &[("name", name.as_str().into()), ("price", ValueRef::Null)])
            }
            3 => tx.top_k_insert(table, key![id], "top", &[n.into()], &[id.into()]),
            4 => tx.max(table, key![id], "high", n),
            5 if other != id && tx.exists(table, key![other])? => {
                tx.add(table, key![id], "n", n)?;
                tx.add(table, key![other], "n", -n)
            }
            _ => tx.add(table, key![id], "n", n),
        }
    })
    .expect("a transaction");
}

fn hot(db: &Database, table: &Table, random: &mut fastrand::Rng) {
    let n = random.i64(0..1_000);
    let id = random.i64(ROWS..ROWS + 3);
    db.run(|tx| match n % 3 {
        0 => tx.add(table, key![id], "n", n),
        1 => tx.max(table, key![id], "high", n),
        _ => tx.top_k_insert(table, key![id], "top", &[n.into()], &[id.into()]),
    })
    .expect("an operation");
}

/// Copies the table while threads change it, and compares; gives back how many batches the copies took.
fn copies_are_equal(db: &Database, threads: u64, transactions: u64) {
    let table = db.create_table(definition()).expect("a table");
    db.run(|tx| (0..ROWS + 3).try_for_each(|id| insert(tx, &table, id, id))).expect("rows");
    for id in ROWS..ROWS + 3 {
        for (column, operation) in
            [("n", SplitOperation::ADD), ("high", SplitOperation::MAX), ("top", SplitOperation::TOP_K_INSERT)]
        {
            db.split(&table, key![id], column, operation).expect("a label");
        }
    }
    let (running, done) = (AtomicU64::new(threads), AtomicU64::new(0));
    let followed = AtomicBool::new(false);
    thread::scope(|scope| {
        for thread in 0..threads {
            let (table, running, done, followed) = (&table, &running, &done, &followed);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread);
                // On until a copy was made meanwhile, whichever thread comes first.
                let mut rounds = 0;
                while rounds < transactions || !followed.load(Ordering::SeqCst) {
                    transact(db, table, &mut random);
                    hot(db, table, &mut random);
                    rounds += 1;
                    done.fetch_add(1, Ordering::SeqCst);
                }
                running.fetch_sub(1, Ordering::SeqCst);
            });
        }
        for _ in 0..2 {
            let (table, running, done, followed) = (&table, &running, &done, &followed);
            scope.spawn(move || {
                let mut last = false;
                while !last {
                    last = running.load(Ordering::SeqCst) == 0;
                    let (mut copy, epoch) = Copy::of(db, table);
                    let mut feed = db.watch(table, epoch).expect("a feed");
                    let before = done.load(Ordering::SeqCst);
                    while done.load(Ordering::SeqCst) < before + 20 && running.load(Ordering::SeqCst) > 0 {
                        thread::yield_now();
                    }
                    let (expected, end) = Copy::of(db, table);
                    // Through that epoch exactly: batches behind it would be too many.
                    while !feed.has_given(end) {
                        let batch = feed.try_next().expect("readable");
                        match batch {
                            Some(batch) if batch.epoch() <= end => copy.take(&batch),
                            Some(_) => break,
                            None => thread::yield_now(),
                        }
                    }
                    assert_eq!(copy, expected, "epochs {epoch} to {end}");
                    followed.store(true, Ordering::SeqCst);
                }
            });
        }
    });
    db.check().expect("consistent");
}

fn options(protocol: ProtocolKind) -> Options {
    small().protocol(ProtocolOptions::from(protocol).phased(PhasedOptions::default().phase_milliseconds(1.0)))
}

#[test]
fn a_snapshot_and_the_feed_behind_it_make_a_copy() {
    for &protocol in ProtocolKind::ALL {
        println!("{protocol}");
        for threads in [1, 4] {
            watched(move || copies_are_equal(&on_disk(options(protocol)).0, threads, 300));
        }
    }
}

#[test]
fn also_where_results_do_not_wait_for_the_disk() {
    for &protocol in ProtocolKind::ALL {
        println!("{protocol}");
        let options = options(protocol).durability(Durability::Async);
        watched(move || copies_are_equal(&on_disk(options).0, 3, 300));
    }
}

#[test]
fn a_feed_from_the_beginning_makes_the_whole_table_also_across_restarts() {
    for &protocol in ProtocolKind::ALL {
        println!("{protocol}");
        watched(move || {
            // No checkpoint: the log has everything.
            let options = || options(protocol).checkpoints(|c| c.log_bytes(0).seconds(0.0));
            let (db, disk) = on_disk(options());
            copies_are_equal(&db, 2, 100);
            let table = db.table("thing").expect("the table");
            let (mut copy, mut half) = (Copy::default(), Copy::default());
            let mut feed = db.watch(&table, 0).expect("a feed");
            let first = feed.next().expect("a batch");
            half.take(&first);
            copy.follow(&mut db.watch(&table, 0).expect("a feed"), now(&db));
            assert_eq!(copy, Copy::of(&db, &table).0);
            let epoch = feed.epoch();
            drop((feed, table));
            db.close().expect("closed");
            let db = open(&disk, options());
            let table = db.table("thing").expect("the table");
            let expected = Copy::of(&db, &table).0;
            assert_eq!(copy, expected);
            half.follow(&mut db.watch(&table, epoch).expect("an old epoch"), now(&db));
            assert_eq!(half, expected);
            let mut again = Copy::default();
            again.follow(&mut db.watch(&table, 0).expect("a feed"), now(&db));
            assert_eq!(again, expected);
        });
    }
}
