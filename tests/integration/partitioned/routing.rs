//! Tables that are routed by other columns of their key than the first.

use std::thread;

use heddledb::{
    Action, DataType, Database, Options, PartitionedOptions, Procedure, ProcedureDefinition, ProtocolKind,
    ProtocolOptions, Range, Result, SerialOptions, Table, TableDefinition, Value, args, key, row,
};

use super::{EXECUTORS, concurrent};

/// Rows of days and accounts, routed by the account although the key begins with the day.
fn routed_by_account(db: &Database) -> Table {
    let definition = TableDefinition::new("entry")
        .column("day", DataType::Int64)
        .column("account", DataType::Int64)
        .column("n", DataType::Int64)
        .primary_key(["day", "account"])
        .routing(["account"]);
    let table = db.create_table(definition).unwrap();
    let rows = (0..3).flat_map(|day| (0..16).map(move |account| (day, account)));
    db.run(|tx| rows.clone().try_for_each(|(day, account)| tx.insert(&table, row![day, account, 10])))
        .unwrap();
    table
}

/// Changes two accounts on two days; sums a day.
fn moves_and_sums(db: &Database, table: &Table) -> (Procedure, Procedure) {
    let entry = |day: usize, account: usize, amount: i64| {
        Action::write(table)
            .key(move |args, key| {
                key.push(args.int(day)?)?;
                key.push(args.int(account)?)
            })
            .body(move |action| {
                let n = action.get()?.unwrap().int("n")?;
                action.update(&[("n", (n + amount).into())])
            })
    };
    let definition = ["day", "from", "to"]
        .into_iter()
        .fold(ProcedureDefinition::new("move"), |all, name| all.parameter(name, DataType::Int64));
    let moves = db.register(definition.phase([entry(0, 1, -1), entry(0, 2, 1)])).unwrap();
    let day = table.clone();
    let sum = Action::read(table).key(|args, key| key.push(args.int(0)?)).body(move |action| {
        let rows = action.tx().scan(&day, Range::prefix(key![action.args().int(0)?]))?;
        let sum: Result<i64> = rows.map(|row| row?.int("n")).sum();
        action.return_row(vec![sum?.into()]);
        Ok(())
    });
    let sums = ProcedureDefinition::new("sum").parameter("day", DataType::Int64).phase([sum]);
    (moves, db.register(sums).unwrap())
}

/// Procedures, closures and sums at the same time: each day's sum is constant.
fn move_and_sum(db: &Database, table: &Table, moves: &Procedure, sums: &Procedure) {
    thread::scope(|scope| {
        for number in 0..2 {
            let (db, table, moves) = (db, table, moves);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(number);
                for _ in 0..200 {
                    let (day, from, to) = (random.i64(0..3), random.i64(0..16), random.i64(0..16));
                    if number == 0 {
                        db.call(moves, args![day, from, to]).unwrap();
                        continue;
                    }
                    db.run(|tx| {
                        tx.add(table, key![day, from], "n", -1)?;
                        tx.add(table, key![day, to], "n", 1)
                    })
                    .unwrap();
                }
            });
        }
        (0..100).for_each(|round| {
            assert_eq!(db.call(sums, args![round % 3]).unwrap().rows, [[Value::from(160)]]);
        });
    });
}

#[test]
fn a_table_may_be_routed_by_any_columns_of_its_key() {
    let disk = heddledb::testing::SimulatedDisk::new();
    let options = || Options::default().protocol(PartitionedOptions::default().executors(EXECUTORS));
    let db = concurrent::open(&disk, options());
    let table = routed_by_account(&db);
    let (moves, sums) = moves_and_sums(&db, &table);
    let before = db.statistics();
    // Both belong to account 3: one executor, whatever the day.
    (0..3).for_each(|day| _ = db.call(&moves, args![day, 3, 3]).unwrap());
    assert_eq!((db.statistics() - before).lock_requests_local, 6);
    // A day belongs to all executors.
    let before = db.statistics();
    assert_eq!(db.call(&sums, args![1]).unwrap().rows, [[Value::from(160)]]);
    assert_eq!((db.statistics() - before).lock_requests_local, EXECUTORS as u64);
    move_and_sum(&db, &table, &moves, &sums);
    db.close().unwrap();
    let again = concurrent::open(&disk, options());
    assert_eq!(again.table("entry").unwrap().definition().routing_columns(), [1]);
}

#[test]
fn routing_changes_nothing_about_results_under_any_protocol() {
    for protocol in ProtocolKind::ALL {
        let options = Options::default().workers(3).protocol(
            ProtocolOptions::from(*protocol)
                .serial(SerialOptions::default().partitions(3))
                .partitioned(PartitionedOptions::default().executors(3)),
        );
        let db = concurrent::in_memory(options);
        let table = routed_by_account(&db);
        let (moves, sums) = moves_and_sums(&db, &table);
        move_and_sum(&db, &table, &moves, &sums);
    }
}
