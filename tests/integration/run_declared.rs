//! Closures within a declared footprint (`Database::run_declared`): under every protocol, over several executors, at once.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use heddledb::{
    Action, Args, DataType, Database, Durability, Error, Options, PartitionedOptions, Procedure,
    ProcedureDefinition, ProtocolKind, Range, Result, Table, TableDefinition, Tx, args, key, row,
};

const ROWS: i64 = 32;

fn options(protocol: ProtocolKind) -> Options {
    Options::default().durability(Durability::None).workers(2).protocol(protocol)
}

fn table(db: &Database) -> Table {
    let definition = TableDefinition::new("account")
        .column("id", DataType::Int64)
        .column("n", DataType::Int64)
        .column("code", DataType::Int64)
        .primary_key(["id"])
        .unique_index("account_by_code", ["code"]);
    let table = db.create_table(definition).unwrap();
    db.run(|tx| (0..ROWS).try_for_each(|id| tx.insert(&table, row![id, 100, 1_000 + id]))).unwrap();
    table
}

/// Writes the accounts that the arguments name.
fn any_accounts(db: &Database, table: &Table) -> Procedure {
    let action = Action::write(table)
        .each(|args| Ok(args.len()), |args, number, key| key.push(args.int(number)?))
        .body(|_, _| Err(heddledb::fail("the bodies of the actions do not run")));
    db.register(ProcedureDefinition::new("accounts").any_arguments().phase([action])).unwrap()
}

fn n(tx: &Tx<'_, '_>, table: &Table, id: i64) -> Result<i64> {
    tx.get(table, key![id])?.map_or(Ok(0), |row| row.int("n"))
}

fn move_one(tx: &Tx<'_, '_>, table: &Table, (from, to): (i64, i64)) -> Result<i64> {
    let rest = n(tx, table, from)? - 1;
    tx.update(table, key![from], &[("n", rest.into())])?;
    let gain = n(tx, table, to)? + 1;
    tx.update(table, key![to], &[("n", gain.into())])?;
    Ok(rest)
}

fn total(db: &Database, table: &Table) -> i64 {
    db.run(|tx| (0..ROWS).map(|id| n(tx, table, id)).sum()).unwrap()
}

fn every_protocol(test: impl Fn(ProtocolKind, &Database, &Table)) {
    for &protocol in ProtocolKind::ALL {
        let db = Database::in_memory_with(options(protocol)).unwrap();
        let table = table(&db);
        test(protocol, &db, &table);
    }
}

#[test]
fn the_closure_does_the_work_and_borrows_from_its_caller() {
    every_protocol(|protocol, db, table| {
        let accounts = any_accounts(db, table);
        let (pair, runs) = ((3, 29), AtomicU32::new(0));
        let rest = db.run_declared(&accounts, args![3, 29], |tx| {
            runs.fetch_add(1, Ordering::Relaxed);
            move_one(tx, table, pair)
        });
        assert_eq!(rest.unwrap(), 99, "{protocol}");
        assert!(runs.load(Ordering::Relaxed) >= 1);
        let both = db.run(|tx| Ok((n(tx, table, 3)?, n(tx, table, 29)?))).unwrap();
        assert_eq!(both, (99, 101), "{protocol}");
    });
}

#[test]
fn what_is_not_declared_is_refused_and_leaves_no_trace() {
    every_protocol(|protocol, db, table| {
        let accounts = any_accounts(db, table);
        type Access<'a> = dyn Fn(&Tx<'_, '_>) -> Result<()> + Sync + 'a;
        let outside: [&Access<'_>; 4] = [
            &|tx| tx.get(table, key![5]).map(|_| ()),
            &|tx| tx.add(table, key![5], "n", 1),
            &|tx| tx.insert(table, row![77, 0, 0]),
            &|tx| tx.scan(table, Range::all()).map(|_| ()),
        ];
        for (number, access) in outside.iter().enumerate() {
            let error = db.run_declared(&accounts, args![3, 4], |tx| {
                tx.add(table, key![3], "n", 1)?;
                access(tx)
            });
            assert!(matches!(error, Err(Error::OutsideFootprint { .. })), "{protocol}, {number}: {error:?}");
        }
        assert_eq!(total(db, table), ROWS * 100, "{protocol}");
    });
}

#[test]
fn modes_are_those_of_the_actions() {
    every_protocol(|protocol, db, table| {
        let key =
            |place: usize| move |args: &Args, key: &mut heddledb::KeyBuilder<'_>| key.push(args.int(place)?);
        let actions = [
            Action::read(table).key(key(0)).body(|_| Ok(())),
            Action::commute(table).key(key(1)).body(|_| Ok(())),
        ];
        let definition = ProcedureDefinition::new("modes").any_arguments().phase(actions);
        let modes = db.register(definition).unwrap();
        let done = db.run_declared(&modes, args![1, 2], |tx| {
            let amount = n(tx, table, 1)?;
            tx.add(table, key![2], "n", amount)
        });
        assert_eq!(done, Ok(()), "{protocol}");
        let refused = db.run_declared(&modes, args![1, 2], |tx| tx.add(table, key![1], "n", 1));
        assert!(matches!(refused, Err(Error::OutsideFootprint { .. })), "{protocol}: {refused:?}");
        let refused = db.run_declared(&modes, args![1, 2], |tx| n(tx, table, 2));
        assert!(matches!(refused, Err(Error::OutsideFootprint { .. })), "{protocol}: {refused:?}");
        assert_eq!(total(db, table), ROWS * 100 + 100, "{protocol}");
    });
}

#[test]
fn rows_of_an_index_are_found_where_the_table_is_declared() {
    every_protocol(|protocol, db, table| {
        let actions = [
            Action::read(table).body(|_| Ok(())),
            Action::write(table).key(|args, key| key.push(args.int(0)?)).body(|_| Ok(())),
        ];
        let definition = ProcedureDefinition::new("by code").any_arguments().phase(actions);
        let by_code = db.register(definition).unwrap();
        let id = db.run_declared(&by_code, args![9], |tx| {
            let mut found = tx.scan_index(table, "account_by_code", Range::prefix(key![1_009]))?;
            let id = found.next().ok_or_else(|| heddledb::fail("no such code"))??.int("id")?;
            tx.update(table, key![id], &[("n", 7.into())])?;
            Ok(id)
        });
        assert_eq!(id, Ok(9), "{protocol}");
    });
}

#[test]
fn errors_and_panics_of_the_closure_are_its_callers() {
    every_protocol(|protocol, db, table| {
        let accounts = any_accounts(db, table);
        let failed: Result<()> = db.run_declared(&accounts, args![3], |tx| {
            tx.add(table, key![3], "n", 1)?;
            Err(heddledb::fail("not today"))
        });
        assert!(failed.is_err_and(|error| error.to_string().contains("not today")), "{protocol}");
        let panicked: Result<()> = db.run_declared(&accounts, args![3], |_| panic!("on purpose"));
        assert!(matches!(panicked, Err(Error::Panicked { .. })), "{protocol}");
        let nested = db.run_declared(&accounts, args![3], |_| db.run(|_| Ok(())));
        assert!(matches!(nested, Err(Error::Nested { .. })), "{protocol}: {nested:?}");
        assert_eq!(total(db, table), ROWS * 100, "{protocol}");
    });
}

/// Transfers among a few accounts by four threads; how many attempts have aborted.
fn transfers(db: &Database, table: &Table) -> u64 {
    let accounts = any_accounts(db, table);
    let before = db.statistics();
    thread::scope(|scope| {
        for seed in 0..4 {
            let accounts = &accounts;
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                for _ in 0..300 {
                    let pair = (random.i64(0..6), random.i64(0..6));
                    db.run_declared(accounts, args![pair.0, pair.1], |tx| move_one(tx, table, pair)).unwrap();
                }
            });
        }
    });
    assert_eq!(total(db, table), ROWS * 100);
    (db.statistics() - before).aborted
}

#[test]
fn concurrent_transfers_keep_the_total() {
    every_protocol(|_, db, table| {
        transfers(db, table);
    });
    let options =
        Options::default().durability(Durability::None).protocol(PartitionedOptions::default().executors(4));
    let db = Database::in_memory_with(options).unwrap();
    transfers(&db, &table(&db));
}

#[test]
fn under_locking_keys_are_locked_in_order_so_that_no_attempt_aborts() {
    let locking = ProtocolKind::Locking;
    let options = Options::default().durability(Durability::None).workers(2).protocol(locking);
    let db = Database::in_memory_with(options).unwrap();
    assert_eq!(transfers(&db, &table(&db)), 0);
}

#[test]
fn a_procedure_of_repeated_actions_fails_once_its_table_is_another_one() {
    every_protocol(|protocol, db, table| {
        let accounts = any_accounts(db, table);
        db.drop_table("account").unwrap();
        let error = db.run_declared(&accounts, args![3], |_| Ok(()));
        assert!(
            matches!(error, Err(Error::TableDropped { .. } | Error::TableChanged { .. })),
            "{protocol}: {error:?}"
        );
    });
}
