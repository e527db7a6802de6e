//! Errors of scans: a body may ignore one, and commits nothing then.

use crate::assert_kind;
use crate::support::tables::{account_definition, counter_definition, dump, in_memory, refused};
use heddledb::{
    Action, Database, Durability, Error, Options, PrimaryIndex, ProcedureDefinition, ProtocolKind, Range,
    Scan, Value, args, fail, key, row,
};

type Ignore = fn(Scan<'_, '_>) -> i64;

/// Ways in which a body may ignore an error of a scan.
const IGNORING: [(&str, Ignore); 5] = [
    ("count", |scan| scan.count() as i64),
    ("flatten", |scan| scan.flatten().count() as i64),
    ("filter_map", |scan| scan.filter_map(Result::ok).count() as i64),
    ("map_while", |scan| scan.map_while(Result::ok).count() as i64),
    ("last", |scan| scan.last().is_some_and(|row| row.is_ok()).into()),
];

#[test]
fn a_body_that_ignores_the_error_of_a_scan_commits_nothing() {
    for protocol in ProtocolKind::ALL {
        let db = Database::in_memory_with(
            Options::default().durability(Durability::None).protocol(*protocol).workers(2),
        )
        .unwrap();
        let table = db.create_table(account_definition()).unwrap();
        db.run(|tx| {
            (1..=4).try_for_each(|id| tx.insert(&table, row![id, format!("{id}").as_str(), 7, 0, 0]))
        })
        .unwrap();
        for (name, ignore) in IGNORING {
            let t = table.clone();
            let own = Action::write(&table).key(|_, key| key.push(1)).body(move |action| {
                let found =
                    ignore(action.tx().scan_index(&t, "account_by_branch", Range::prefix(key![7]))?);
                action.update(&[("balance", found.into())])
            });
            let procedure = db.register(ProcedureDefinition::new(name).phase([own])).unwrap();
            let error = refused(db.call(&procedure, args![]), &["this key of \"account\""]);
            assert_kind!(error, Error::OutsideFootprint { .. });
            let mut worker = db.worker().unwrap();
            let executed = worker.execute(&procedure, args![]).wait();
            assert_kind!(executed.map(drop).unwrap_err(), Error::OutsideFootprint { .. });
            let after_error = Action::write(&table).key(|_, key| key.push(1)).body({
                let t = table.clone();
                move |action| {
                    let tx = action.tx();
                    let point = tx.savepoint();
                    ignore(tx.scan_index(&t, "account_by_branch", Range::prefix(key![7]))?);
                    tx.rollback_to(&point);
                    Err(fail("the body's own error"))
                }
            });
            let name = format!("{name}-and-fail");
            let procedure = db.register(ProcedureDefinition::new(name).phase([after_error])).unwrap();
            assert_kind!(db.call(&procedure, args![]).unwrap_err(), Error::OutsideFootprint { .. });
        }
        let balances = db.run(|tx| tx.scan(&table, Range::all())?.map(|row| row?.int("balance")).collect());
        assert_eq!(balances, Ok(vec![0; 4]), "{protocol}");
    }
}

#[test]
fn an_operation_that_fails_while_a_scan_reads_its_row_goes_with_its_savepoint() {
    for kind in [PrimaryIndex::Hash, PrimaryIndex::Ordered, PrimaryIndex::Both] {
        let db = in_memory();
        let table = db.create_table(counter_definition().primary_index(kind)).unwrap();
        db.run(|tx| tx.insert(&table, row![1, i64::MAX])).unwrap();
        let failed = db.run(|tx| {
            tx.add(&table, key![1], "n", 1)?;
            assert_eq!(tx.scan(&table, Range::all())?.filter_map(Result::ok).count(), 0);
            Ok(())
        });
        assert_kind!(failed.unwrap_err(), Error::Overflow { .. });
        db.run(|tx| {
            let before = tx.savepoint();
            tx.add(&table, key![1], "n", 1)?;
            assert!(tx.scan(&table, Range::all())?.any(|row| row.is_err()));
            tx.rollback_to(&before);
            tx.add(&table, key![1], "n", -1)
        })
        .unwrap();
        assert_eq!(dump(&db, &table), [row![1, i64::MAX - 1].map(Value::from)]);
    }
}
