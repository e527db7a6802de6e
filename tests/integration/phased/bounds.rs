//! Escrow: a column with bounds is split, and its bounds hold to the last unit: stock is sold to exactly zero, under load, by
//! every kind of operation, and after a crash.

#[path = "required_bounds.rs"]
mod required_bounds;

use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;

use heddledb::testing::SimulatedDisk;
use heddledb::{
    Action, DataType, Database, Decimal, Durability, Error, Options, PhasedOptions, Procedure,
    ProcedureDefinition, ProtocolKind, Range, Result, SplitOperation, Table, TableDefinition, args, key, row,
};

use crate::support::split::*;

const THREADS: i64 = 8;

/// Items whose stock is never negative and never above a million, and their orders.
fn shop(db: &Database, stock: i64) -> (Table, Table) {
    let items = TableDefinition::new("item")
        .column("id", DataType::Int64)
        .column("stock", DataType::Int64)
        .not_null()
        .column("money", DataType::Decimal { precision: 9, scale: 2 })
        .not_null()
        .column("best", DataType::Int32)
        .not_null()
        .column("plain", DataType::Int64)
        .not_null()
        .primary_key(["id"])
        .check("in_stock", "stock BETWEEN 0 AND 1000000")
        .check("in_credit", "money >= -10.5")
        .check("up_to_nine", "best <= 9 AND best > -9");
    let items = db.create_table(items).expect("a table");
    let orders = TableDefinition::new("order").column("id", DataType::Int64).primary_key(["id"]);
    let orders = db.create_table(orders).expect("a table");
    let money: Decimal = "0.00".parse().expect("a decimal");
    db.run(|tx| (0..10).try_for_each(|id| tx.insert(&items, row![id, stock, money, 0, 0]))).expect("rows");
    (items, orders)
}

/// Takes one item of stock, and notes the order under a number of its own.
fn buying(db: &Database, (items, orders): &(Table, Table)) -> Procedure {
    let buy = ProcedureDefinition::new("buy")
        .parameter("item", DataType::Int64)
        .parameter("order", DataType::Int64)
        .phase([
            Action::commute(items)
                .key(|args, key| key.push(args.int(0)?))
                .body(|action| action.add("stock", -1)),
            Action::write(orders).key(|args, key| key.push(args.int(1)?)).body(|action| {
                let order = action.args().int(1)?;
                action.insert(row![order])
            }),
        ]);
    db.register(buy).expect("registered")
}

fn is_sold_out<T: std::fmt::Debug>(result: Result<T>) -> bool {
    match result {
        Ok(_) => false,
        Err(Error::CheckViolation { constraint, .. }) if constraint == "in_stock" => true,
        other => panic!("{other:?}"),
    }
}

fn count(db: &Database, table: &Table) -> usize {
    db.run(|tx| Ok(tx.scan(table, Range::all())?.count())).expect("read")
}

/// Splits the stock of item 1, and waits for a split phase.
fn label(db: &Database, items: &Table) {
    db.split(items, key![1], "stock", SplitOperation::ADD).expect("a label");
    if db.phases().is_some() {
        wait_until("the stock is split", || {
            db.run(|tx| tx.add(items, key![PLAIN_ROW], "plain", 1)).expect("an addition");
            is_split(db)
        });
    }
}

#[test]
fn eight_threads_sell_one_item_to_exactly_zero_under_every_protocol() {
    in_time(|| {
        for &protocol in ProtocolKind::ALL {
            let options = Options::default().durability(Durability::None);
            let options = match protocol {
                ProtocolKind::Phased => options.protocol(PhasedOptions::default().phase_milliseconds(2.0)),
                other => options.protocol(other),
            };
            let db = Database::in_memory_with(options).expect("options");
            let shop = shop(&db, 2_000);
            let buy = buying(&db, &shop);
            label(&db, &shop.0);
            let sold = AtomicI64::new(0);
            thread::scope(|scope| {
                for thread in 0..THREADS {
                    let (db, shop, buy, sold) = (&db, &shop, &buy, &sold);
                    scope.spawn(move || {
                        let mut refused = 0;
                        for round in 0_i64.. {
                            let order = round * THREADS + thread;
                            let bought = match round % 3 {
                                0 => db.run(|tx| {
                                    tx.add(&shop.0, key![1], "stock", -1)
                                        .and_then(|()| tx.insert(&shop.1, row![order]))
                                }),
                                _ => db.call(buy, args![1, order]).map(drop),
                            };
                            if is_sold_out(bought) {
                                refused += 1;
                            } else {
                                sold.fetch_add(1, Ordering::Relaxed);
                                assert_eq!(refused, 0, "nothing is sold after it was sold out");
                            }
                            if refused == 20 {
                                return;
                            }
                        }
                    });
                }
            });
            let left = int(&db, &shop.0, 1, "stock");
            let name = protocol.name();
            assert_eq!((left, sold.into_inner(), count(&db, &shop.1)), (Ok(0), 2_000, 2_000), "{name}");
        }
    });
}

/// A call may succeed after another one was refused only if something has come back in between.
#[test]
fn stock_that_comes_and_goes_stays_between_its_bounds() {
    in_time(|| {
        let db = Database::in_memory_with(options(1.0)).expect("options");
        let (items, _) = shop(&db, 50);
        label(&db, &items);
        let taken = AtomicI64::new(0);
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (db, items, taken) = (&db, &items, &taken);
                scope.spawn(move || {
                    for round in 0..400_i64 {
                        let amount = if (round / 40 + thread) % 2 == 0 { -(round % 7) } else { round % 5 };
                        if !is_sold_out(db.run(|tx| tx.add(items, key![1], "stock", amount))) {
                            taken.fetch_sub(amount, Ordering::Relaxed);
                        }
                        if round % 50 == 0 {
                            let stock = int(db, items, 1, "stock").expect("read");
                            assert!((0..=1_000_000).contains(&stock), "{stock}");
                        }
                    }
                });
            }
        });
        assert_eq!(int(&db, &items, 1, "stock"), Ok(50 - taken.into_inner()));
    });
}

#[test]
fn other_operations_and_decimals_keep_to_their_bounds_while_split() {
    in_time(|| {
        let db = Database::in_memory_with(options(1.0)).expect("options");
        let (items, _) = shop(&db, 5);
        for (id, column, operation) in [
            (1, "money", SplitOperation::ADD),
            (2, "best", SplitOperation::MAX),
            (3, "best", SplitOperation::MIN),
        ] {
            db.split(&items, key![id], column, operation).expect("a label");
        }
        let refused = db.split(&items, key![4], "stock", SplitOperation::MULTIPLY);
        assert!(refused.is_err(), "products have no quotas: {refused:?}");
        wait_for_split_of(&db, &items);
        let violates = |result: Result<()>, name: &str| {
            assert!(
                matches!(&result, Err(Error::CheckViolation { constraint, .. }) if constraint == name),
                "{result:?}"
            );
        };
        let cent: Decimal = "-0.05".parse().expect("a decimal");
        for _ in 0..210 {
            db.run(|tx| tx.add(&items, key![1], "money", cent)).expect("there is credit");
        }
        violates(db.run(|tx| tx.add(&items, key![1], "money", cent)), "in_credit");
        for round in 0..20_i64 {
            let highest = db.run(|tx| tx.max(&items, key![2], "best", round));
            let lowest = db.run(|tx| tx.min(&items, key![3], "best", -round));
            if round <= 9 {
                highest.expect("within")
            } else {
                violates(highest, "up_to_nine")
            }
            if round < 9 {
                lowest.expect("within")
            } else {
                violates(lowest, "up_to_nine")
            }
            // An operand beyond the other bound changes nothing.
            db.run(|tx| tx.max(&items, key![2], "best", -100)).expect("the value stays");
        }
        assert_eq!((int(&db, &items, 2, "best"), int(&db, &items, 3, "best")), (Ok(9), Ok(-8)));
        let money = db.run(|tx| tx.get(&items, key![1])?.ok_or(Error::Closed)?.decimal("money"));
        assert_eq!(money, Ok("-10.50".parse().expect("a decimal")));
    });
}

fn wait_for_split_of(db: &Database, items: &Table) {
    wait_until("it is split", || {
        db.run(|tx| tx.add(items, key![PLAIN_ROW], "plain", 1)).expect("an addition");
        is_split(db)
    });
}

/// Quotas of the phase before, and what a transaction takes back, are no one's: a transaction that fails on another row
/// leaves the stock as it was.
#[test]
fn what_a_failed_call_took_can_be_sold() {
    in_time(|| {
        let db = Database::in_memory_with(options(1.0)).expect("options");
        let (items, orders) = shop(&db, 10);
        label(&db, &items);
        for round in 0..100 {
            let failed = db.run(|tx| {
                tx.add(&items, key![1], "stock", -3)?;
                tx.add(&items, key![2], "stock", -11)
            });
            assert!(is_sold_out(failed), "round {round}");
        }
        for order in 0..10 {
            db.run(|tx| {
                tx.add(&items, key![1], "stock", -1)?;
                tx.insert(&orders, row![order])
            })
            .expect("all ten are there");
        }
        assert!(is_sold_out(db.run(|tx| tx.add(&items, key![1], "stock", -1))));
    });
}

fn durable(disk: &SimulatedDisk) -> Options {
    Options::default()
        .protocol(PhasedOptions::default().phase_milliseconds(0.5))
        .disk(std::sync::Arc::new(disk.clone()))
        .log(|log| log.segment_bytes(64 << 10))
        .workers(1)
        .threads(|threads| threads.max_worker_contexts(16))
}

/// Stock and orders agree in every image, and none shows an item sold that was not there.
#[test]
fn a_crash_at_any_moment_neither_loses_nor_oversells_stock() {
    in_time(|| {
        const STOCK: i64 = 300;
        for crash in 0..12_u64 {
            let disk = SimulatedDisk::new();
            let db = Database::open("shop", durable(&disk)).expect("opened");
            let tables = shop(&db, STOCK);
            label(&db, &tables.0);
            disk.crash_after(disk.operations() + 3 + 5 * crash);
            let acknowledged = AtomicI64::new(0);
            thread::scope(|scope| {
                for thread in 0..3_i64 {
                    let (db, tables, acknowledged) = (&db, &tables, &acknowledged);
                    scope.spawn(move || {
                        for round in 0..STOCK {
                            let bought = db.run(|tx| {
                                tx.add(&tables.0, key![1], "stock", -1)?;
                                tx.insert(&tables.1, row![round * 3 + thread])
                            });
                            match bought {
                                Ok(()) => acknowledged.fetch_add(1, Ordering::SeqCst),
                                Err(_) => return,
                            };
                        }
                    });
                }
            });
            let acknowledged = acknowledged.into_inner();
            let _ = db.close();
            for seed in [0, crash + 1] {
                let image = disk.crash_image(seed);
                let db = Database::open("shop", durable(&image)).expect("recovered");
                let (items, orders) = (db.table("item").expect("it"), db.table("order").expect("it"));
                let (left, sold) = (int(&db, &items, 1, "stock").expect("read"), count(&db, &orders) as i64);
                assert_eq!(left + sold, STOCK, "crash {crash}, seed {seed}");
                assert!(
                    left >= 0 && sold >= acknowledged,
                    "crash {crash}, seed {seed}: {sold} of {acknowledged}"
                );
                for order in 0..left {
                    db.run(|tx| {
                        tx.add(&items, key![1], "stock", -1)?;
                        tx.insert(&orders, row![10_000 + order])
                    })
                    .expect("what is left can be sold");
                }
                assert!(is_sold_out(db.run(|tx| tx.add(&items, key![1], "stock", -1))));
            }
        }
    });
}

#[test]
fn a_column_in_another_check_is_not_split() {
    let db = Database::in_memory_with(options(1.0)).expect("options");
    let definition = TableDefinition::new("t")
        .column("id", DataType::Int64)
        .column("n", DataType::Int64)
        .not_null()
        .column("m", DataType::Int64)
        .not_null()
        .primary_key(["id"])
        .check("between_columns", "n <= m");
    let table = db.create_table(definition).expect("a table");
    db.run(|tx| tx.insert(&table, row![1, 0, 5])).expect("a row");
    for column in ["n", "m"] {
        assert!(db.split(&table, key![1], column, SplitOperation::ADD).is_err(), "{column}");
    }
}

/// Sums of a worker context, of an epoch and of a phase may be beyond 64 bits although the column never is: none is lost.
#[test]
fn sums_beyond_an_integer_are_merged_and_recovered() {
    const STEP: i64 = 9_000_000_000_000_000_000;
    in_time(|| {
        let disk = SimulatedDisk::new();
        let db = Database::open("shop", durable(&disk)).expect("opened");
        let (items, _) = shop(&db, 5);
        db.run(|tx| tx.update(&items, key![1], &[("plain", (-STEP).into())])).expect("an update");
        db.split(&items, key![1], "plain", SplitOperation::ADD).expect("a label");
        let split = || wait_for_split_of(&db, &items);
        for round in 0..30 {
            split();
            let add = |amount| db.run(|tx| tx.add(&items, key![1], "plain", amount)).expect("within 64 bits");
            thread::scope(|scope| {
                scope.spawn(|| add(STEP));
                scope.spawn(|| add(STEP));
            });
            let added = int(&db, &items, 1, "plain");
            assert_eq!(added, Ok(STEP), "round {round}");
            split();
            (0..2).for_each(|_| add(-STEP));
            if round % 2 == 0 {
                assert_eq!(int(&db, &items, 1, "plain"), Ok(-STEP), "round {round}");
            }
        }
        (0..2).for_each(|_| {
            db.run(|tx| tx.add(&items, key![1], "plain", STEP)).expect("within 64 bits");
        });
        let image = disk.crash_image(7);
        let recovered = Database::open("shop", durable(&image)).expect("recovered");
        let items = recovered.table("item").expect("it");
        assert_eq!(int(&recovered, &items, 1, "plain"), Ok(STEP));
    });
}

/// An item without checks, whose stock may be NULL.
fn unchecked(db: &Database, stock: i64) -> Table {
    let items = TableDefinition::new("item")
        .column("id", DataType::Int64)
        .column("stock", DataType::Int64)
        .column("money", DataType::Decimal { precision: 9, scale: 2 })
        .column("plain", DataType::Int64)
        .not_null()
        .column("name", DataType::Text)
        .primary_key(["id"]);
    let items = db.create_table(items).expect("a table");
    let money: Decimal = "1.50".parse().expect("a decimal");
    db.run(|tx| {
        tx.insert(&items, row![1, stock, money, 0, "x"])?;
        tx.insert(&items, row![2, heddledb::Value::Null, money, 0, "x"])?;
        tx.insert(&items, row![PLAIN_ROW, stock, money, 0, "x"])
    })
    .expect("rows");
    items
}

/// Takes some of the stock, if at least `left` remain.
fn take(db: &Database, items: &Table, amount: i64, left: i64) -> Result<()> {
    db.run(|tx| {
        tx.add(items, key![1], "stock", -amount)?;
        tx.require_within(items, key![1], "stock", left..=i64::MAX)
    })
}

#[test]
fn stricter_and_opposite_bounds_are_decided_on_the_whole_value() {
    in_time(|| {
        let db = Database::in_memory_with(options(1.0)).expect("options");
        let items = unchecked(&db, 10);
        label(&db, &items);
        for round in 0..20 {
            assert!(take(&db, &items, 2, 0).is_ok(), "{round}");
            assert!(matches!(take(&db, &items, 1, 8), Err(Error::Overflow { .. })), "{round}");
            let capped = db.run(|tx| {
                tx.add(&items, key![1], "stock", 2)?;
                tx.require_within(&items, key![1], "stock", i64::MIN..=9)
            });
            assert!(matches!(capped, Err(Error::Overflow { .. })), "{round}");
            db.run(|tx| tx.add(&items, key![1], "stock", 2)).expect("it is put back");
            assert_eq!(int(&db, &items, 1, "stock"), Ok(10), "{round}");
        }
    });
}
