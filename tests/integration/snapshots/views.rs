//! Tests of a snapshot's contents, as a user sees them.

use std::thread;

use heddledb::{
    DataType, Database, Error, Options, OwnedRow, ProtocolKind, Range, Snapshot, SnapshotScan,
    TableDefinition, key, row,
};

use crate::support::concurrent::{accounts, in_memory};

fn databases() -> impl Iterator<Item = Database> {
    ProtocolKind::ALL.iter().map(|&protocol| in_memory(Options::default().protocol(protocol)))
}

#[test]
fn snapshots_scans_and_rows_go_to_other_threads() {
    fn is_sendable<T: Send>() {}
    fn is_shareable<T: Sync>() {}
    is_sendable::<Snapshot>();
    is_shareable::<Snapshot>();
    is_sendable::<SnapshotScan>();
    is_sendable::<OwnedRow>();
    is_shareable::<OwnedRow>();
    for db in databases() {
        let table = accounts(&db, 1_000);
        let snapshot = db.snapshot().expect("a snapshot");
        db.run(|tx| (0..1_000).try_for_each(|id| tx.delete(&table, key![id]).map(drop))).expect("gone");
        let scans = snapshot.scan_parts(&table, Range::all(), 4).expect("scans");
        assert!(scans.len() > 1);
        let counts: Vec<usize> = thread::scope(|scope| {
            let count = |scan: SnapshotScan| scope.spawn(move || scan.filter(|row| row.is_ok()).count());
            let threads: Vec<_> = scans.into_iter().map(count).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        assert_eq!(counts.iter().sum::<usize>(), 1_000);
        assert!(counts.iter().all(|&count| count > 100), "{counts:?}");
        assert_eq!(
            db.snapshot().expect("a later one").scan(&table, Range::all()).expect("a scan").count(),
            0
        );
    }
}

#[test]
fn rows_outlive_their_snapshot() {
    for db in databases() {
        let definition = TableDefinition::new("note").column("id", DataType::Int64);
        let table =
            db.create_table(definition.column("text", DataType::Text).primary_key(["id"])).expect("a table");
        let text = |id: i64| format!("a text that needs a block, of row {id}");
        db.run(|tx| (0..300).try_for_each(|id| tx.insert(&table, row![id, text(id).as_str()])))
            .expect("rows");
        let rows: Vec<OwnedRow> =
            db.read(|snapshot| snapshot.scan(&table, Range::all())?.collect()).expect("rows");
        db.run(|tx| (0..300).try_for_each(|id| tx.delete(&table, key![id]).map(drop))).expect("gone");
        drop(db);
        assert_eq!(rows.len(), 300);
        for row in &rows {
            assert_eq!(row.text("text"), Ok(text(row.int("id").expect("an id")).as_str()));
            assert_eq!(row.row().to_values(), row.to_values());
        }
        assert_eq!(rows[0].get("nothing").map(drop), rows[0].row().get("nothing").map(drop));
    }
}

#[test]
fn a_scan_lends_its_rows_and_reads_only_the_columns_that_it_is_asked_for() {
    for db in databases() {
        let definition = TableDefinition::new("note").column("id", DataType::Int64);
        let definition = definition.column("text", DataType::Text).column("other", DataType::Bytes);
        let table = db.create_table(definition.primary_key(["id"])).expect("a table");
        let text = |id: i64| format!("a text that needs a block, of row {id}");
        let insert = |id| db.run(|tx| tx.insert(&table, row![id, text(id).as_str(), &[id as u8; 30][..]]));
        (0..500).try_for_each(insert).expect("rows");
        let snapshot = db.snapshot().expect("a snapshot");
        db.run(|tx| (0..500).try_for_each(|id| tx.delete(&table, key![id]).map(drop))).expect("gone");
        let scan = || snapshot.scan(&table, Range::all()).expect("a scan");
        assert!(matches!(scan().with_columns(["none"]), Err(Error::UnknownColumn { .. })));
        for columns in [&["id", "text"][..], &["other"], &[], &["id", "text", "other"]] {
            let mut scan = scan().with_columns(columns).expect("columns");
            let mut seen = 0;
            // The rows come in two parts: the scan goes on where it was left.
            for most in [7, i64::MAX] {
                let more = scan.read_while(|row| {
                    seen += 1;
                    let id = row.int("id")?;
                    let is_read = |column| columns.contains(&column);
                    assert_eq!(row.opt_text("text")?, is_read("text").then_some(text(id).as_str()));
                    assert_eq!(row.opt_bytes("other")?, is_read("other").then_some(&[id as u8; 30][..]));
                    Ok::<bool, Error>(seen < most)
                });
                assert_eq!(more, Ok(most == 7));
            }
            assert_eq!(seen, 500);
        }
        let limited = snapshot.scan(&table, Range::all().limit(3)).expect("a scan");
        let mut limited = limited.with_columns(["text"]).expect("columns");
        let texts: Vec<_> = limited
            .by_ref()
            .map(|row| row.expect("a row").opt_text("text").map(|text| text.is_some()))
            .collect();
        assert_eq!(texts, [Ok(true), Ok(true), Ok(true)]);
        assert_eq!(limited.read_while(|_| Ok::<bool, Error>(true)), Ok(false));
        let stopped = scan().read_while(|_| Err::<bool, Error>(heddledb::fail("enough")));
        assert!(stopped.is_err());
    }
}

#[test]
fn what_was_acknowledged_before_is_in_it() {
    for db in databases() {
        let table = accounts(&db, 4);
        thread::scope(|scope| {
            for id in 0..4 {
                let (db, table) = (&db, &table);
                scope.spawn(move || {
                    for round in 1..=200 {
                        db.run(|tx| tx.update(table, key![id], &[("balance", round.into())]))
                            .expect("a write");
                        let row = db.read(|snapshot| snapshot.get(table, key![id])).expect("a look");
                        assert_eq!(row.expect("a row").int("balance"), Ok(round));
                    }
                });
            }
        });
        let statistics = db.statistics();
        assert!((1..=800).contains(&statistics.snapshots_opened), "{statistics:?}");
    }
}

#[test]
fn a_snapshot_in_a_transaction_is_refused_and_of_another_database_too() {
    for db in databases() {
        let table = accounts(&db, 1);
        let nested = db.run(|_| db.snapshot().map(drop));
        assert!(matches!(nested, Err(Error::Nested { .. })), "{nested:?}");
        let snapshot = db.snapshot().expect("a snapshot");
        let other = in_memory(Options::default());
        let foreign = accounts(&other, 1);
        assert!(matches!(snapshot.get(&foreign, key![0]), Err(Error::ForeignTable { .. })));
        assert!(matches!(snapshot.scan(&foreign, Range::all()), Err(Error::ForeignTable { .. })));
        assert!(matches!(snapshot.scan_index(&table, "none", Range::all()), Err(Error::UnknownIndex { .. })));
        assert!(matches!(snapshot.get(&table, key![0, 1]), Err(Error::WrongKey { .. })));
    }
}

#[test]
fn a_closed_database_gives_no_snapshots_and_those_that_are_open_stay() {
    for db in databases() {
        let table = accounts(&db, 5);
        let snapshot = db.snapshot().expect("a snapshot");
        db.clone().close().expect("closed");
        assert_eq!(db.snapshot().map(drop), Err(Error::Closed));
        assert_eq!(snapshot.scan(&table, Range::all()).expect("a scan").count(), 5);
    }
}
