//! Transactions whose rows a secondary index finds (DORA's secondary actions): keys are resolved before a worker's transaction
//! is routed, its executor checks them again, and a transaction that was misrouted is routed again. Reads beyond a declared
//! key fail the transaction.

use std::thread;

use heddledb::{
    Action, DataType, Database, Durability, Error, Options, PartitionedOptions, Procedure,
    ProcedureDefinition, ProtocolKind, Range, Result, Table, TableDefinition, args, fail, key, row,
};

const EXECUTORS: usize = 4;
const ROWS: i64 = 16;

/// Rows 0 to 15 with the numbers 100 to 115, each with a count of 0.
fn numbered() -> (Database, Table) {
    let options = Options::default()
        .protocol(PartitionedOptions::default().executors(EXECUTORS))
        .durability(Durability::None);
    let db = Database::in_memory_with(options).unwrap();
    let definition = TableDefinition::new("line")
        .column("id", DataType::Int64)
        .column("number", DataType::Int64)
        .column("n", DataType::Int64);
    let table = db.create_table(definition.primary_key(["id"]).index("by number", ["number"])).unwrap();
    db.run(|tx| (0..ROWS).try_for_each(|id| tx.insert(&table, row![id, 100 + id, 0]))).unwrap();
    (db, table)
}

fn number_of(row: &heddledb::Row<'_>) -> Result<i64> {
    row.int("number")
}

/// Finds the row of a number, and adds to it.
fn add_by_number(db: &Database, table: &Table) -> Procedure {
    let all = table.clone();
    let find = Action::read(table).body(move |action| {
        let number = action.args().int(0)?;
        let found = action.tx().scan_index(&all, "by number", Range::prefix(key![number]))?.next();
        action.set_value(0, found.ok_or_else(|| fail("no such number"))??.int("id")?);
        Ok(())
    });
    let add = Action::write(table).key_from(|_, values, key| key.push(values.int(0)?)).body(|action| {
        let row = action.get()?.unwrap();
        assert_eq!(number_of(&row)?, action.args().int(0)?, "what was found and what is changed are one row");
        action.return_row(vec![row.int("id")?.into()]);
        action.update(&[("n", (row.int("n")? + 1).into())])
    });
    let definition = ProcedureDefinition::new("add").parameter("number", DataType::Int64);
    db.register(definition.phase([find]).phase([add])).unwrap()
}

/// Exchanges the numbers of two rows.
fn exchange(db: &Database, table: &Table) -> Procedure {
    let look = |which: usize| {
        Action::read(table).key(move |args, key| key.push(args.int(which)?)).body(move |action| {
            action.set_value(which, number_of(&action.get()?.unwrap())?);
            Ok(())
        })
    };
    let give = |which: usize| {
        Action::write(table)
            .key(move |args, key| key.push(args.int(which)?))
            .body(move |action| action.update(&[("number", action.values().int(1 - which)?.into())]))
    };
    let definition =
        ProcedureDefinition::new("exchange").parameter("a", DataType::Int64).parameter("b", DataType::Int64);
    db.register(definition.phase([look(0), look(1)]).phase([give(0), give(1)])).unwrap()
}

fn total(db: &Database, table: &Table) -> i64 {
    let sum = db.run(|tx| tx.scan(table, Range::all())?.map(|row| row?.int("n")).sum::<Result<i64>>());
    sum.unwrap()
}

#[test]
fn transactions_with_resolved_keys_run_at_one_executor() {
    let (db, table) = numbered();
    let procedures = [add_by_number(&db, &table)];
    let calls: Vec<_> = (0..ROWS).map(|id| (0, args![100 + id])).collect();
    let mut done = Vec::new();
    let mut worker = db.worker().unwrap();
    let before = db.statistics();
    worker.execute_group(&procedures, &calls, &mut done);
    let cost = db.statistics() - before;
    assert_eq!((cost.committed, cost.aborted), (ROWS as u64, 0));
    assert_eq!((cost.execute_batches.1, cost.lock_requests_local), (ROWS as u64, ROWS as u64));
    for (executed, id) in done.into_iter().zip(0..) {
        assert_eq!(executed.wait().unwrap().rows, [[heddledb::Value::from(id)]]);
    }
    assert_eq!(total(&db, &table), ROWS);
    // A transaction that finds nothing fails with its own error; the others of the group run.
    let mut done = Vec::new();
    worker.execute_group(&procedures, &[(0, args![100]), (0, args![7]), (0, args![101])], &mut done);
    let failed: Vec<bool> = done.iter().map(heddledb::Executed::failed).collect();
    assert_eq!(failed, [false, true, false]);
    assert!(matches!(done.remove(1).wait(), Err(Error::Failed { .. })));
}

/// The routing column is the last one of the key. An index that does not contain it leads to the owner all the same, because
/// its records name the whole key.
#[test]
fn an_index_leads_to_the_owner_by_any_routing_columns() {
    let options = Options::default()
        .protocol(PartitionedOptions::default().executors(EXECUTORS))
        .durability(Durability::None);
    let db = Database::in_memory_with(options).unwrap();
    let definition = TableDefinition::new("line")
        .column("region", DataType::Text)
        .column("id", DataType::Int64)
        .column("number", DataType::Int64)
        .column("n", DataType::Int64)
        .primary_key(["region", "id"])
        .routing(["id"])
        .index("by number", ["number"]);
    let table = db.create_table(definition).unwrap();
    db.run(|tx| (0..ROWS).try_for_each(|id| tx.insert(&table, row!["north", id, 100 + id, 0]))).unwrap();
    let all = table.clone();
    let find = Action::read(&table).body(move |action| {
        let number = action.args().int(0)?;
        let found = action.tx().scan_index(&all, "by number", Range::prefix(key![number]))?.next();
        action.set_value(0, found.ok_or_else(|| fail("no such number"))??.int("id")?);
        Ok(())
    });
    let add = Action::write(&table)
        .key_from(|_, values, key| {
            key.push("north")?;
            key.push(values.int(0)?)
        })
        .body(|action| action.add("n", 1));
    let definition = ProcedureDefinition::new("add").parameter("number", DataType::Int64);
    let procedures = [db.register(definition.phase([find]).phase([add])).unwrap()];
    let calls: Vec<_> = (0..ROWS).map(|id| (0, args![100 + id])).collect();
    let (mut done, before) = (Vec::new(), db.statistics());
    db.worker().unwrap().execute_group(&procedures, &calls, &mut done);
    let cost = db.statistics() - before;
    done.into_iter().for_each(|executed| drop(executed.wait().unwrap()));
    // One executor and one lock each, and none on the whole table.
    assert_eq!((cost.committed, cost.aborted), (ROWS as u64, 0));
    assert_eq!((cost.execute_batches.1, cost.lock_requests_local), (ROWS as u64, ROWS as u64));
    assert_eq!((cost.locks_row, cost.locks_higher), (0, 0));
    assert_eq!(total(&db, &table), ROWS);
}

#[test]
fn a_misrouted_transaction_is_routed_again() {
    let (db, table) = numbered();
    let procedures = [add_by_number(&db, &table), exchange(&db, &table)];
    let mut worker = db.worker().unwrap();
    let mut model: Vec<i64> = (0..ROWS).collect();
    let before = db.statistics();
    for round in 0..40 {
        // The numbers are exchanged in the same group before they are used, but after the keys were resolved.
        let (one, other) = (round % ROWS, (round * 5 + 1) % ROWS);
        if one == other {
            continue;
        }
        let (of_one, of_other) = (100 + model[one as usize], 100 + model[other as usize]);
        model.swap(one as usize, other as usize);
        let calls = [(1, args![one, other]), (0, args![of_one]), (0, args![of_other])];
        let mut done = Vec::new();
        worker.execute_group(&procedures, &calls, &mut done);
        let rows: Vec<_> = done.drain(1..).map(|one| one.wait().unwrap().rows).collect();
        assert_eq!(rows, [[[heddledb::Value::from(other)]], [[heddledb::Value::from(one)]]], "round {round}");
    }
    assert!((db.statistics() - before).aborted > 20, "some were misrouted");
}

#[test]
fn numbers_that_change_under_load_lose_and_double_nothing() {
    let (db, table) = numbered();
    let procedures = [add_by_number(&db, &table), exchange(&db, &table)];
    let added: i64 = thread::scope(|scope| {
        let workers = (0..3_u64).map(|number| {
            let (db, procedures) = (&db, &procedures);
            scope.spawn(move || {
                let (mut random, mut worker) = (fastrand::Rng::with_seed(number), db.worker().unwrap());
                let mut added = 0;
                for _ in 0..40 {
                    let calls = (0..20).map(|_| match random.u8(0..4) {
                        0 => (1, args![random.i64(0..8), random.i64(8..16)]),
                        _ => (0, args![100 + random.i64(0..ROWS)]),
                    });
                    let (calls, mut done) = (calls.collect::<Vec<_>>(), Vec::new());
                    worker.execute_group(procedures, &calls, &mut done);
                    done.into_iter().for_each(|one| _ = one.wait().unwrap());
                    added += calls.iter().filter(|(which, _)| *which == 0).count() as i64;
                }
                added
            })
        });
        workers.collect::<Vec<_>>().into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    assert_eq!(total(&db, &table), added);
    db.check().unwrap();
}

/// A key that depends on a later phase cannot be resolved; a panic during key resolution is the transaction's own panic.
#[test]
fn transactions_whose_keys_cannot_be_resolved_run_phase_by_phase() {
    let (db, table) = numbered();
    let all = table.clone();
    let find = Action::read(&table).body(move |action| {
        let first = action.tx().scan_index(&all, "by number", Range::all().limit(1))?.next().unwrap()?;
        action.set_value(0, first.int("id")?);
        assert!(action.args().int(0)? != 13, "on purpose");
        Ok(())
    });
    let next = Action::write(&table).key_from(|_, values, key| key.push(values.int(0)?)).body(|action| {
        action.set_value(1, action.values().int(0)? + 3);
        action.update(&[("n", 1.into())])
    });
    let last = Action::write(&table)
        .key_from(|_, values, key| key.push(values.int(1)?))
        .body(|action| action.update(&[("n", 2.into())]));
    let definition = ProcedureDefinition::new("follow").parameter("x", DataType::Int64);
    let follow = db.register(definition.phase([find]).phase([next]).phase([last])).unwrap();
    let mut worker = db.worker().unwrap();
    worker.execute(&follow, args![1]).wait().unwrap();
    assert_eq!(total(&db, &table), 3);
    let error = worker.execute(&follow, args![13]).wait().unwrap_err();
    assert!(matches!(&error, Error::Panicked { message } if message.contains("on purpose")), "{error}");
    assert_eq!(total(&db, &table), 3);
}

/// A body that counts rows beyond its declared key by an index would commit a wrong count, because it may not read them.
#[test]
fn reads_beyond_a_declared_key_fail_the_transaction_even_if_the_body_ignores_the_error() {
    for protocol in ProtocolKind::ALL {
        let options = Options::default().protocol(*protocol).durability(Durability::None);
        let db = Database::in_memory_with(options).unwrap();
        let definition = TableDefinition::new("line")
            .column("id", DataType::Int64)
            .column("number", DataType::Int64)
            .column("n", DataType::Int64);
        let table = db.create_table(definition.primary_key(["id"]).index("by number", ["number"])).unwrap();
        db.run(|tx| (0..ROWS).try_for_each(|id| tx.insert(&table, row![id, id % 4, 0]))).unwrap();
        let all = table.clone();
        let count = Action::write(&table).key(|args, key| key.push(args.int(0)?)).body(move |action| {
            let number = Range::prefix(key![action.args().int(0)? % 4]);
            let rows = action.tx().scan_index(&all, "by number", number)?.filter(|row| row.is_ok()).count();
            action.update(&[("n", (rows as i64).into())])
        });
        let definition = ProcedureDefinition::new("count").parameter("id", DataType::Int64);
        let count = db.register(definition.phase([count])).unwrap();
        let mut worker = db.worker().unwrap();
        for id in 0..ROWS {
            let reported = [db.call(&count, args![id]), worker.execute(&count, args![id]).wait()];
            assert!(
                reported.iter().all(|reported| matches!(reported, Err(Error::OutsideFootprint { .. }))),
                "{protocol}: {reported:?}"
            );
        }
        assert_eq!(total(&db, &table), 0, "{protocol}");
    }
}

/// An index read within a declared prefix is no read beyond it.
#[test]
fn index_reads_within_a_declared_prefix_are_allowed() {
    let options = Options::default()
        .protocol(PartitionedOptions::default().executors(EXECUTORS))
        .durability(Durability::None);
    let db = Database::in_memory_with(options).unwrap();
    let definition = TableDefinition::new("line")
        .column("region", DataType::Int64)
        .column("id", DataType::Int64)
        .column("number", DataType::Int64)
        .column("n", DataType::Int64)
        .primary_key(["region", "id"])
        .index("by number", ["region", "number"]);
    let table = db.create_table(definition).unwrap();
    db.run(|tx| (0..ROWS).try_for_each(|id| tx.insert(&table, row![id % 2, id, id % 4, 0]))).unwrap();
    let all = table.clone();
    let count = Action::read(&table).key(|args, key| key.push(args.int(0)?)).body(move |action| {
        let region = action.args().int(0)?;
        let rows = action.tx().scan_index(&all, "by number", Range::prefix(key![region]))?;
        action.return_row(vec![(rows.collect::<Result<Vec<_>>>()?.len() as i64).into()]);
        Ok(())
    });
    let definition = ProcedureDefinition::new("count").parameter("region", DataType::Int64);
    let count = db.register(definition.phase([count])).unwrap();
    assert_eq!(db.call(&count, args![1]).unwrap().rows, [[heddledb::Value::from(ROWS / 2)]]);
}
