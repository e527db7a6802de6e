//! Calls inside of calls: every kind is an error that names itself, and the outer transaction goes on.

use std::cell::RefCell;

use super::*;

fn assert_nested<T>(result: Result<T>, what: &str) {
    match result {
        Err(Error::Nested { .. }) => {}
        Err(other) => panic!("{what}: {other}"),
        Ok(_) => panic!("{what} ran inside a transaction"),
    }
}

/// Tries every kind of call that a body must not make.
fn try_everything(db: &Database, deposit: &Procedure) {
    assert_nested(db.run(|_| Ok(())), "run");
    assert_nested(db.call(deposit, args![0, 1]), "call");
    assert_nested(db.submit(deposit, args![0, 1]), "submit");
    assert_nested(db.try_submit(deposit, args![0, 1]), "try_submit");
    assert_nested(db.worker(), "worker");
    assert_nested(db.check(), "check");
    assert_nested(db.clone().close(), "close");
    let table = TableDefinition::new("late").column("id", DataType::Int64).primary_key(["id"]);
    assert_nested(db.create_table(table), "create_table");
    assert_nested(Database::open("/nowhere", Options::default()), "open");
}

#[test]
fn nested_calls_of_every_kind_are_errors_and_the_outer_transaction_goes_on() {
    watched(|| {
        for stages in [Stages::Folded, Stages::Staged] {
            let db = in_memory(Options::default().threads(|threads| threads.stages(stages)));
            let table = accounts(&db, 2);
            let deposit = deposit(&db, &table);
            let worker = RefCell::new(db.worker().expect("a free context"));
            let executed = RefCell::new(Some(worker.borrow_mut().execute(&deposit, args![1, 1])));
            let submitted = RefCell::new(Some(db.submit(&deposit, args![1, 1]).expect("room")));
            let polled = RefCell::new(Some(db.submit(&deposit, args![1, 1]).expect("room")));
            db.run(|tx| {
                tx.add(&table, key![0], "balance", 1)?;
                try_everything(&db, &deposit);
                let refused = worker.borrow_mut().execute(&deposit, args![0, 50]);
                assert!(refused.failed());
                if let (Some(executed), Some(submitted), Some(polled)) =
                    (executed.take(), submitted.take(), polled.take())
                {
                    assert_nested(executed.wait(), "waiting for an executed call");
                    assert_nested(submitted.wait(), "waiting for a submitted call");
                    let waker = Waker::noop();
                    match pin!(polled).poll(&mut Context::from_waker(waker)) {
                        Poll::Ready(Err(Error::Nested { .. })) => {}
                        other => panic!("polling inside a transaction gave {other:?}"),
                    }
                }
                tx.add(&table, key![0], "balance", 1)
            })
            .expect("the outer transaction");
            assert_eq!(balance(&db, &table, 0), Some(102));
            assert!(db.table("late").is_err());
        }
    });
}

#[test]
fn nested_calls_inside_procedures_and_their_keys_are_errors() {
    watched(|| {
        for stages in [Stages::Folded, Stages::Staged] {
            let db = in_memory(Options::default().threads(|threads| threads.stages(stages)));
            let table = accounts(&db, 2);
            let deposit = deposit(&db, &table);
            let (inside, inner) = (db.clone(), deposit.clone());
            let in_body = ProcedureDefinition::new("in body").phase([Action::commute(&table)
                .key(|_, key| key.push(0))
                .body(move |action| {
                    action.add("balance", 1)?;
                    try_everything(&inside, &inner);
                    action.add("balance", 1)
                })]);
            let in_body = db.register(in_body).expect("a procedure");
            let (inside, inner) = (db.clone(), deposit.clone());
            let in_key = ProcedureDefinition::new("in key").phase([Action::commute(&table)
                .key(move |_, key| {
                    try_everything(&inside, &inner);
                    key.push(0)
                })
                .body(|action| action.add("balance", 1))]);
            let in_key = db.register(in_key).expect("a procedure");
            db.call(&in_body, args![]).expect("the body caught every error");
            db.call(&in_key, args![]).expect("the key caught every error");
            let mut worker = db.worker().expect("a free context");
            worker.execute(&in_body, args![]).wait().expect("as above");
            worker.execute(&in_key, args![]).wait().expect("as above");
            assert_eq!(balance(&db, &table, 0), Some(106));
        }
    });
}
