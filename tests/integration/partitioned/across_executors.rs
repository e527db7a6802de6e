//! Transactions over several executors that read whole tables and indexes are serializable with all others.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use heddledb::{
    Action, DataType, Database, ProcedureDefinition, Range, Result, TableDefinition, Value, args, key, row,
};

use super::{ROWS, accounts, all_done, options, total, transfer};

#[test]
fn an_action_on_a_whole_table_conflicts_with_every_executor() {
    let (db, table) = accounts();
    let transfer = transfer(&db, &table, false);
    let whole = table.clone();
    let sum = Action::read(&table).body(move |action| {
        let mut sum = 0;
        for row in action.tx().scan(&whole, Range::all())? {
            sum += row?.int("n")?;
        }
        action.return_row(vec![sum.into()]);
        Ok(())
    });
    // The key of the second phase depends on values, which lead to the whole table.
    let again = table.clone();
    let led = Action::read(&table).key_from(|_, _, _| Ok(())).body(move |action| {
        let count = action.tx().scan(&again, Range::all())?.count() as i64;
        action.return_row(vec![count.into()]);
        Ok(())
    });
    let one = Action::read(&table).key(|_, key| key.push(5)).body(|action| action.get().map(drop));
    let sum = db.register(ProcedureDefinition::new("sum").phase([one, sum]).phase([led])).unwrap();
    let one = || Action::read(&table).key(|_, key| key.push(5)).body(|action| action.get().map(drop));
    let other = Action::read(&table).key(|_, key| key.push(6)).body(|action| action.get().map(drop));
    let again = table.clone();
    let led = Action::read(&table).key_from(|_, _, _| Ok(())).body(move |action| {
        let sum: Result<i64> = action.tx().scan(&again, Range::all())?.map(|row| row?.int("n")).sum();
        action.return_row(vec![sum?.into()]);
        Ok(())
    });
    let led_later =
        db.register(ProcedureDefinition::new("later").phase([one(), other]).phase([led]).phase([one()]));
    let led_later = led_later.unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let pairs = (0..1_500_i64).map(|round| args![round % 7, 7 + round % 11]);
            all_done(pairs.map(|pair| db.submit(&transfer, pair).unwrap()).collect());
        });
        for _ in 0..150 {
            let rows = db.call(&sum, args![]).unwrap().rows;
            assert_eq!(rows, [[Value::from(ROWS * 100)], [Value::from(ROWS)]]);
            assert_eq!(db.call(&led_later, args![]).unwrap().rows, [[Value::from(ROWS * 100)]]);
        }
    });
}

#[test]
fn closures_and_procedures_see_each_other_whole() {
    let (db, table) = accounts();
    let (apart, together) = (transfer(&db, &table, true), transfer(&db, &table, false));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for writer in 0..2 {
            let (db, table) = (&db, &table);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(writer);
                for _ in 0..400 {
                    let (from, to) = (random.i64(0..10), random.i64(10..20));
                    let moved = db.run(|tx| {
                        let n = tx.get(table, key![from])?.unwrap().int("n")?;
                        tx.update(table, key![from], &[("n", (n - 1).into())])?;
                        tx.add(table, key![to], "n", 1)
                    });
                    moved.unwrap();
                }
            });
        }
        let reader = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                assert_eq!(total(&db, &table), ROWS * 100);
            }
        });
        let mut random = fastrand::Rng::with_seed(9);
        for round in 0..100 {
            let procedure = if round % 2 == 0 { &apart } else { &together };
            let mut pair = || args![random.i64(5..15), random.i64(15..25)];
            all_done((0..20).map(|_| db.submit(procedure, pair()).unwrap()).collect());
        }
        stop.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
    assert_eq!(total(&db, &table), ROWS * 100);
}

/// Two transactions count by a secondary index and insert the count: in any serial order the counts differ.
#[test]
fn inserts_by_a_count_of_an_index_are_serializable() {
    let db = Database::in_memory_with(options()).unwrap();
    let definition = TableDefinition::new("seat")
        .column("id", DataType::Int64)
        .column("flight", DataType::Int64)
        .column("number", DataType::Int64);
    let seats = db.create_table(definition.primary_key(["id"]).index("by flight", ["flight"])).unwrap();
    let whole = seats.clone();
    let definition = ProcedureDefinition::new("book")
        .parameter("id", DataType::Int64)
        .parameter("flight", DataType::Int64);
    let book = Action::write(&seats).body(move |action| {
        let (id, flight) = (action.args().int(0)?, action.args().int(1)?);
        let tx = action.tx();
        let count = tx.scan_index(&whole, "by flight", Range::prefix(key![flight]))?.count() as i64;
        tx.insert(&whole, row![id, flight, count])
    });
    let book = db.register(definition.phase([book])).unwrap();
    let by_closure = |id: i64, flight: i64| {
        db.run(|tx| {
            let count = tx.scan_index(&seats, "by flight", Range::prefix(key![flight]))?.count() as i64;
            tx.insert(&seats, row![id, flight, count])
        })
    };
    thread::scope(|scope| {
        for thread in 0..3_i64 {
            let (db, book, by_closure) = (&db, &book, &by_closure);
            scope.spawn(move || {
                for round in 0..60_i64 {
                    let (id, flight) = (thread * 1_000 + round, round % 3);
                    if thread == 0 {
                        by_closure(id, flight).unwrap();
                    } else {
                        db.call(book, args![id, flight]).unwrap();
                    }
                }
            });
        }
    });
    for flight in 0..3 {
        let mut numbers = db
            .run(|tx| {
                let seats = tx.scan_index(&seats, "by flight", Range::prefix(key![flight]))?;
                seats.map(|seat| seat?.int("number")).collect::<Result<Vec<i64>>>()
            })
            .unwrap();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..60).collect::<Vec<i64>>());
    }
}

/// Each transaction counts one side by the index and inserts on the other. In a serial order, of any two rows on different
/// sides exactly one was counted for the other.
#[test]
fn inserts_on_one_side_by_a_count_of_the_other_are_serializable() {
    let db = Database::in_memory_with(options()).unwrap();
    let definition = TableDefinition::new("seat")
        .column("side", DataType::Int64)
        .column("id", DataType::Int64)
        .column("counted", DataType::Int64);
    let seats = db.create_table(definition.primary_key(["side", "id"]).index("by side", ["side"])).unwrap();
    let definition =
        ["from", "to", "id"].into_iter().fold(ProcedureDefinition::new("sit"), |definition, name| {
            definition.parameter(name, DataType::Int64)
        });
    let table = seats.clone();
    let count = Action::read(&seats).key(|args, key| key.push(args.int(0)?)).body(move |action| {
        let side = Range::prefix(key![action.args().int(0)?]);
        let count = action.tx().scan_index(&table, "by side", side)?.count() as i64;
        action.set_value(0, count);
        Ok(())
    });
    let sit =
        Action::write(&seats).key(|args, key| key.push(args.int(1)?).and_then(|()| key.push(args.int(2)?)));
    let sit = sit.body(|action| {
        let (side, id) = (action.args().int(1)?, action.args().int(2)?);
        action.insert(row![side, id, action.values().int(0)?])
    });
    let sit = db.register(definition.phase([count]).phase([sit])).unwrap();
    thread::scope(|scope| {
        for (from, to) in [(1_i64, 2_i64), (2, 1)] {
            let (db, sit, seats) = (&db, &sit, &seats);
            scope.spawn(move || {
                for id in 0..80_i64 {
                    if id % 3 > 0 {
                        db.call(sit, args![from, to, id]).unwrap();
                        continue;
                    }
                    let sit = db.run(|tx| {
                        let side = Range::prefix(key![from]);
                        let count = tx.scan_index(seats, "by side", side)?.count() as i64;
                        tx.insert(seats, row![to, id, count])
                    });
                    sit.unwrap();
                }
            });
        }
    });
    let counted = |side: i64| {
        let rows = db.run(|tx| {
            let rows = tx.scan(&seats, Range::prefix(key![side]))?;
            rows.map(|row| row?.int("counted")).collect::<Result<Vec<i64>>>()
        });
        let mut rows = rows.unwrap();
        rows.sort_unstable();
        rows
    };
    let (one, other) = (counted(1), counted(2));
    for (i, &of_one) in one.iter().enumerate() {
        for (j, &of_other) in other.iter().enumerate() {
            assert_ne!(of_other > i as i64, of_one > j as i64, "row {i} of one side, {j} of the other");
        }
    }
}
