//! Every operation leaves what one thread computes, and the check sees what does not.

use heddledb::{Durability, Options, ProtocolKind, key};

use super::*;
use crate::workload::next_calls;

fn memory(protocol: ProtocolKind) -> Database {
    Database::in_memory_with(Options::default().durability(Durability::None).protocol(protocol)).unwrap()
}

fn settings(operation: Option<Operation>) -> Operations {
    let pattern = Pattern::OneHot { percent: 50.0, rotate_seconds: 1e-9 };
    Operations::new(Increment { keys: 20, pattern, ..Increment::one_hot() }, operation)
}

fn run(settings: &Operations, db: &Database) {
    settings.load(db).unwrap();
    let bound = settings.bind(db, 2).unwrap();
    for caller in 0..2 {
        let mut generator = bound.generator(1, caller).unwrap();
        let calls = next_calls(generator.as_mut(), 150);
        for (procedure, args) in calls.made() {
            db.call(&generator.procedures()[*procedure], args.clone()).unwrap();
        }
    }
}

#[test]
fn every_operation_leaves_what_one_thread_computes() {
    for protocol in ProtocolKind::ALL {
        for operation in Operation::ALL {
            let (db, settings) = (memory(*protocol), settings(Some(operation)));
            run(&settings, &db);
            assert_eq!(settings.check(&db, Some(300)), Ok(()), "{operation:?} {protocol}");
            assert!(settings.check(&db, Some(299)).unwrap_err().contains("299"));
            assert_eq!(settings.marks(&db).unwrap(), 300);
            // A later run begins with what it finds.
            run(&settings, &db);
            assert_eq!(settings.check(&db, Some(600)), Ok(()), "{operation:?} {protocol}");
        }
    }
}

#[test]
fn columns_that_no_operation_has_touched_are_null() {
    let (db, settings) = (memory(ProtocolKind::default()), settings(Some(Operation::Max)));
    run(&settings, &db);
    let table = db.table(TABLE).unwrap();
    let hot = db.run(|tx| Content::read(&tx.get(&table, key![1])?.unwrap())).unwrap();
    assert!(hot.count > 100 && hot.highest.is_some());
    let others = Content { count: hot.count, highest: hot.highest, ..Content::default() };
    assert_eq!(hot, others);
}

#[test]
fn the_check_sees_a_change_of_every_column() {
    type Change<'c> = &'c dyn Fn(&heddledb::Tx<'_, '_>, &Table) -> heddledb::Result<()>;
    let changes: [Change<'_>; 5] = [
        &|tx, table| tx.max(table, key![1], "highest", 5_000),
        &|tx, table| tx.min(table, key![1], "lowest", -5_000),
        &|tx, table| tx.multiply(table, key![1], "sign", -1),
        &|tx, table| tx.ordered_put(table, key![1], "newest", &row![5_000], &row![0]),
        &|tx, table| tx.top_k_insert(table, key![1], "best", &row![5_000], &row![0]),
    ];
    for change in changes {
        let (db, settings) = (memory(ProtocolKind::default()), settings(Some(Operation::Add)));
        run(&settings, &db);
        let table = db.table(TABLE).unwrap();
        db.run(|tx| change(tx, &table)).unwrap();
        assert!(settings.check(&db, None).unwrap_err().contains("key 1 "));
    }
}

#[test]
fn equal_orders_are_decided_by_their_payloads() {
    let mut content = Content::default();
    for payload in [3, 9, 5] {
        content.apply(Operation::OrderedPut, 7, payload);
        content.apply(Operation::TopK, 7, payload);
    }
    assert_eq!((content.newest, content.best), (Some((7, 9)), BTreeMap::from([(7, 9)])));
}

#[test]
fn operations_take_turns_and_the_hot_key_stays() {
    let pattern = Pattern::OneHot { percent: 100.0, rotate_seconds: 2.0 };
    let increment = Increment { keys: 20, pattern, ..Increment::one_hot() };
    let settings = Operations::new(increment, None);
    let db = memory(ProtocolKind::default());
    settings.load(&db).unwrap();
    let bound = settings.bind(&db, 1).unwrap();
    let mut generator = bound.generator(1, 0).unwrap();
    let mut calls = Calls::default();
    let mut at = |seconds: u64| {
        calls.begin(std::time::Duration::from_secs(seconds));
        generator.fill(&mut calls, 1).unwrap();
        let call = calls.get(0).unwrap();
        (call.procedure, call.args.int(0).unwrap())
    };
    assert_eq!([0, 1, 2, 4, 11, 12].map(&mut at), [(0, 1), (0, 1), (1, 1), (2, 1), (5, 1), (0, 1)]);
    let wrong = Operations::new(Increment::one_hot(), None);
    assert!(wrong.load(&db).unwrap_err().to_string().contains("--rotate-seconds"));
}
