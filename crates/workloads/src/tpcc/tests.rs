//! All transactions under every protocol, what each of them leaves, and that the check sees every condition violated.

use std::collections::BTreeSet;

use heddledb::{
    Args, Durability, Error, Options, ProtocolKind, ProtocolOptions, Range, SerialOptions, Value, ValueRef,
    args, key, row,
};

use super::load::{delivered_at_first, money};
use super::procedure::{UNUSED_ITEM, new_order_argument as order, payment_argument as payment, place};
use super::random_values::LastName;
use super::tables::*;
use super::*;
use crate::calls::Calls;
use crate::scan;
use crate::workload::{Generator, next_calls};

const NOW: i64 = 1_800_000_000_000_000;

fn memory() -> Database {
    Database::in_memory_with(Options::default().durability(Durability::None)).unwrap()
}

fn small() -> Tpcc {
    Tpcc { items: 40, customers: 20, home: false, ..Tpcc::default() }
}

fn loaded(settings: &Tpcc) -> (Database, Box<dyn Bound>) {
    let db = memory();
    settings.load(&db).unwrap();
    let bound = settings.bind(&db, 3).unwrap();
    (db, bound)
}

/// Makes calls one after another; gives the marks of those that were committed, and for each procedure how many were,
/// and of how many.
fn make(db: &Database, generator: &mut dyn Generator, calls: &Calls) -> (u64, [(usize, usize); 7]) {
    let (mut marks, mut ended) = (0, [(0, 0); 7]);
    for place in 0..calls.len() {
        let call = calls.get(place).unwrap();
        let committed = match db.call(&generator.procedures()[call.procedure], call.args.clone()) {
            Ok(_) => true,
            Err(Error::Failed { message }) if message == UNUSED_ITEM => false,
            Err(other) => panic!("{other}"),
        };
        ended[call.procedure].0 += usize::from(committed);
        ended[call.procedure].1 += 1;
        marks += if committed { u64::from(call.marks) } else { 0 };
    }
    (marks, ended)
}

/// Calls a procedure once.
fn call(db: &Database, bound: &dyn Bound, place: usize, args: Args) -> Result<(), String> {
    let generator = bound.generator(1, 0).unwrap();
    db.call(&generator.procedures()[place], args).map(drop).map_err(|error| error.to_string())
}

/// An order of customer 7 in district 3 of warehouse 1; each line: item, supplier, quantity.
fn order_of(lines: &[[i64; 3]]) -> Args {
    let mut arguments = [0; order::of_line(15)];
    arguments[..5].copy_from_slice(&[1, 3, 7, lines.len() as i64, NOW]);
    for (line, given) in lines.iter().enumerate() {
        arguments[order::of_line(line)..order::of_line(line + 1)].copy_from_slice(given);
    }
    arguments.into_iter().map(Value::Int).collect()
}

#[test]
fn a_fresh_database_is_as_specified() {
    let (db, _bound) = loaded(&small());
    assert_eq!(small().check(&db, Some(2 * 2 * 10 * 20)), Ok(()));
    db.check().unwrap();
    let rows = |name| scan::count(&db, &db.table(name).unwrap()).unwrap();
    let counted = [WAREHOUSE, DISTRICT, CUSTOMER, HISTORY, NEW_ORDER, ORDERS, ITEM, STOCK].map(rows);
    assert_eq!(counted, [2, 20, 400, 400, 20 * 6, 400, 40, 80]);
    assert!((400 * 9..400 * 11).contains(&rows(ORDER_LINE)));
    assert_eq!(delivered_at_first(3_000), 2_100);
}

#[test]
fn the_mix_is_as_specified_and_one_order_in_a_hundred_fails() {
    let (db, bound) = loaded(&small());
    let before = small().marks(&db).unwrap();
    let mut generator = bound.generator(1, 0).unwrap();
    let calls = next_calls(generator.as_mut(), 4_000);
    let (marks, ended) = make(&db, generator.as_mut(), &calls);
    let mut shares = [0.0; 5];
    for (procedure, (_, made)) in ended.iter().enumerate() {
        shares[small().transaction_of(procedure)] += *made as f64 / 40.0;
    }
    for (found, wanted) in shares.iter().zip([45.0, 43.0, 4.0, 4.0, 4.0]) {
        assert!((found - wanted).abs() < 2.5, "{shares:?}");
    }
    let by_name = ended[place::PAYMENT_BY_NAME].1 as f64 / (shares[1] * 40.0);
    assert!((by_name - 0.6).abs() < 0.05, "{by_name}");
    let (committed, made) = ended[place::NEW_ORDER];
    assert!((5..40).contains(&(made - committed)), "{made} orders, {committed} committed");
    assert!(ended[1..].iter().all(|(committed, made)| committed == made));
    assert_eq!(small().check(&db, Some(before + marks)), Ok(()));
    db.check().unwrap();
}

#[test]
fn every_protocol_keeps_the_books() {
    for protocol in ProtocolKind::ALL {
        let options = Options::default().durability(Durability::None).workers(2);
        let serial = SerialOptions::default().partitions(2);
        let options = options.protocol(ProtocolOptions::from(*protocol).serial(serial));
        let db = Database::in_memory_with(options).unwrap();
        let settings = Tpcc { remote_percent: 50.0, ..small() };
        settings.load(&db).unwrap();
        let before = settings.marks(&db).unwrap();
        let bound = settings.bind(&db, 3).unwrap();
        let marks: u64 = std::thread::scope(|scope| {
            let callers = (0..3).map(|caller| {
                let (db, mut generator) = (&db, bound.generator(7, caller).unwrap());
                scope.spawn(move || {
                    let calls = next_calls(generator.as_mut(), 300);
                    make(db, generator.as_mut(), &calls).0
                })
            });
            callers.collect::<Vec<_>>().into_iter().map(|caller| caller.join().unwrap()).sum()
        });
        assert_eq!(settings.check(&db, Some(before + marks)), Ok(()), "{protocol}");
        db.check().unwrap();
    }
}

#[test]
fn an_order_is_written_down_line_by_line() {
    let (db, bound) = loaded(&small());
    let tables = Tables::open(&db).unwrap();
    let stock = |warehouse, item| {
        let read = |tx: &heddledb::Tx<'_, '_>| {
            let row = tx.get(&tables.stock, key![warehouse, item])?.unwrap();
            let number = |name: &str| row.int(name);
            let counted = [number("s_ytd")?, number("s_order_cnt")?, number("s_remote_cnt")?];
            Ok((number("s_quantity")?, counted, row.text("s_dist_03")?.to_owned()))
        };
        db.run(read).unwrap()
    };
    db.run(|tx| {
        tx.update(&tables.stock, key![1, 5], &[("s_quantity", 20.into())])?;
        tx.update(&tables.stock, key![2, 6], &[("s_quantity", 15.into())])
    })
    .unwrap();
    // Item 5 twice in one order: the second line sees what the first has left.
    let lines = [[5, 1, 4], [6, 2, 6], [5, 1, 6], [9, 1, 1], [10, 1, 2]];
    call(&db, bound.as_ref(), place::NEW_ORDER, order_of(&lines)).unwrap();
    let (left, counted, info) = stock(1, 5);
    assert_eq!((left, counted), (10, [10, 2, 0]));
    assert_eq!((stock(2, 6).0, stock(2, 6).1), (15 - 6 + 91, [6, 1, 1]));
    let price = db.run(|tx| tx.get(&tables.item, key![5])?.unwrap().decimal("i_price")).unwrap();
    db.run(|tx| {
        let line = tx.get(&tables.order_line, key![1, 3, 21, 3])?.unwrap();
        assert_eq!(line.text("ol_dist_info")?, info);
        assert_eq!(line.decimal("ol_amount")?.unscaled(), price.unscaled() * 6);
        assert!(line.is_null("ol_delivery_d")?);
        let order = tx.get(&tables.orders, key![1, 3, 21])?.unwrap();
        let found = [order.int("o_c_id")?, order.int("o_ol_cnt")?, order.int("o_all_local")?];
        assert_eq!((found, order.is_null("o_carrier_id")?), ([7, 5, 0], true));
        assert!(tx.exists(&tables.new_order, key![1, 3, 21])?);
        assert_eq!(tx.get(&tables.district, key![1, 3])?.unwrap().int("d_next_o_id")?, 22);
        Ok(())
    })
    .unwrap();
    assert_eq!(small().check(&db, None), Ok(()));
}

#[test]
fn an_order_of_an_unused_item_leaves_no_trace() {
    let (db, bound) = loaded(&small());
    let before = small().marks(&db).unwrap();
    let wrong = order_of(&[[5, 1, 4], [6, 1, 6], [7, 1, 1], [8, 1, 1], [41, 1, 1]]);
    let error = call(&db, bound.as_ref(), place::NEW_ORDER, wrong).unwrap_err();
    assert!(error.contains(UNUSED_ITEM), "{error}");
    assert_eq!(small().check(&db, Some(before)), Ok(()));
}

#[test]
fn the_customer_in_the_middle_pays_and_bad_credit_is_noted() {
    let (db, bound) = loaded(&small());
    let tables = Tables::open(&db).unwrap();
    let name = LastName::new(555);
    // Four namesakes: the second of their first names is the one, which is customer 4.
    db.run(|tx| {
        for (customer, first) in [(2, "Zoe"), (4, "Bob"), (6, "Ann"), (8, "Mia")] {
            let names = [("c_last", name.as_str().into()), ("c_first", ValueRef::from(first))];
            tx.update(&tables.customer, key![2, 5, customer], &names)?;
        }
        tx.update(&tables.customer, key![2, 5, 4], &[("c_credit", "BC".into())])
    })
    .unwrap();
    let look = || {
        let read = |tx: &heddledb::Tx<'_, '_>| {
            let row = tx.get(&tables.customer, key![2, 5, 4])?.unwrap();
            let sums = [row.decimal("c_balance")?.unscaled(), row.decimal("c_ytd_payment")?.unscaled()];
            Ok((sums, row.int("c_payment_cnt")?, row.text("c_data")?.to_owned()))
        };
        db.run(read).unwrap()
    };
    let (_, _, data) = look();
    call(&db, bound.as_ref(), place::PAYMENT_BY_NAME, args![1, 3, 2, 5, 555, 12_345, NOW, 9, 1]).unwrap();
    let (sums, payments, noted) = look();
    assert_eq!((sums, payments), ([-1_000 - 12_345, 1_000 + 12_345], 2));
    let beginning = "4 5 2 3 1 123.45|";
    let kept = data.len().min(500 - beginning.len());
    assert_eq!(noted, format!("{beginning}{}", &data[..kept]));
    call(&db, bound.as_ref(), place::PAYMENT, args![1, 3, 2, 5, 4, 100, NOW, 9, 2]).unwrap();
    assert_eq!((look().1, look().2.len()), (3, 500.min(data.len() + 2 * beginning.len() - 2)));
    db.run(|tx| {
        let history = tx.get(&tables.history, key![1, 9, 1])?.unwrap();
        assert_eq!((history.int("h_c_id")?, history.int("h_c_w_id")?, history.int("h_d_id")?), (4, 2, 3));
        let names = [
            tx.get(&tables.warehouse, key![1])?.unwrap().text("w_name")?.to_owned(),
            tx.get(&tables.district, key![1, 3])?.unwrap().text("d_name")?.to_owned(),
        ];
        assert_eq!(history.text("h_data")?, names.join("    "));
        Ok(())
    })
    .unwrap();
    assert_eq!(small().check(&db, None), Ok(()));
    let missing = call(&db, bound.as_ref(), place::PAYMENT_BY_NAME, args![1, 3, 2, 5, 999, 1, NOW, 9, 3]);
    assert!(missing.unwrap_err().contains("customer"));
}

#[test]
fn a_delivery_takes_the_oldest_order_of_each_district_until_there_is_none() {
    let (db, bound) = loaded(&small());
    let tables = Tables::open(&db).unwrap();
    let left = || db.run(|tx| Ok(tx.scan(&tables.new_order, Range::prefix(key![1]))?.count())).unwrap();
    for round in 0..8_usize {
        assert_eq!(left(), 10 * 6_usize.saturating_sub(round));
        call(&db, bound.as_ref(), place::DELIVERY, args![1, 7, NOW]).unwrap();
        assert_eq!(small().check(&db, None), Ok(()), "after delivery {}", round + 1);
    }
    let carriers = db.run(|tx| {
        let orders = tx.scan(&tables.orders, Range::all())?.collect::<heddledb::Result<Vec<_>>>()?;
        let of_first =
            orders.iter().filter(|row| row.int("o_w_id") == Ok(1) && row.int("o_id").unwrap() > 14);
        of_first.map(|row| row.int("o_carrier_id")).collect::<heddledb::Result<Vec<_>>>()
    });
    assert_eq!(carriers.unwrap(), vec![7; 60]);
}

#[test]
fn readers_find_what_they_look_for_and_change_nothing() {
    let (db, bound) = loaded(&small());
    let generator = bound.generator(1, 0).unwrap();
    for reader in [place::ORDER_STATUS, place::ORDER_STATUS_BY_NAME, place::STOCK_LEVEL] {
        assert!(generator.procedures()[reader].is_read_only());
    }
    let before = small().marks(&db).unwrap();
    for customer in 1..=20 {
        call(&db, bound.as_ref(), place::ORDER_STATUS, args![1, 2, customer]).unwrap();
        call(&db, bound.as_ref(), place::ORDER_STATUS_BY_NAME, args![1, 2, customer - 1]).unwrap();
        call(&db, bound.as_ref(), place::STOCK_LEVEL, args![2, customer % 10 + 1, 15]).unwrap();
    }
    assert!(call(&db, bound.as_ref(), place::ORDER_STATUS, args![1, 2, 21]).is_err());
    assert_eq!(small().check(&db, Some(before)), Ok(()));
}

/// Damages a loaded database, and gives what the check says.
fn wrong(damage: impl Fn(&heddledb::Tx<'_, '_>, &Tables) -> heddledb::Result<()>) -> String {
    let (db, bound) = loaded(&small());
    call(&db, bound.as_ref(), place::DELIVERY, args![1, 7, NOW]).unwrap();
    let tables = Tables::open(&db).unwrap();
    db.run(|tx| damage(tx, &tables)).unwrap();
    small().check(&db, None).unwrap_err()
}

#[test]
fn every_condition_is_reported_by_its_number() {
    let cent = || money(1).unwrap();
    let found = [
        wrong(|tx, tables| tx.add(&tables.warehouse, key![1], "w_ytd", cent())),
        wrong(|tx, tables| tx.add(&tables.district, key![1, 3], "d_next_o_id", 1)),
        wrong(|tx, tables| tx.delete(&tables.new_order, key![1, 3, 17]).map(drop)),
        wrong(|tx, tables| tx.delete(&tables.order_line, key![1, 3, 4, 1]).map(drop)),
        wrong(|tx, tables| tx.update(&tables.orders, key![1, 3, 4], &[("o_carrier_id", ValueRef::Null)])),
        wrong(|tx, tables| {
            let line = |order: i64| row![1, 3, order, 99, 1, 1, ValueRef::Null, 5, cent(), "X"];
            tx.delete(&tables.order_line, key![1, 3, 4, 1])?;
            tx.insert(&tables.order_line, line(5))
        }),
        wrong(|tx, tables| {
            tx.update(&tables.order_line, key![1, 3, 4, 1], &[("ol_delivery_d", ValueRef::Null)])
        }),
        wrong(|tx, tables| {
            tx.add(&tables.warehouse, key![1], "w_ytd", cent())?;
            tx.add(&tables.district, key![1, 3], "d_ytd", cent())
        }),
        wrong(|tx, tables| {
            tx.add(&tables.district, key![1, 3], "d_ytd", cent())?;
            tx.add(&tables.district, key![1, 4], "d_ytd", money(-1)?)
        }),
        wrong(|tx, tables| tx.add(&tables.customer, key![1, 3, 4], "c_balance", cent())),
        wrong(|tx, tables| tx.add(&tables.customer, key![1, 3, 4], "c_delivery_cnt", 1)),
        wrong(|tx, tables| tx.add(&tables.customer, key![1, 3, 4], "c_ytd_payment", cent())),
    ];
    for (number, message) in found.iter().enumerate() {
        assert!(message.starts_with(&format!("condition {},", number + 1)), "{number}: {message}");
    }
}

#[test]
fn the_counters_of_stocks_and_customers_are_checked_too() {
    let found = wrong(|tx, tables| tx.add(&tables.stock, key![1, 3], "s_ytd", 1));
    assert!(found.contains("condition stock, item 3 of warehouse 1: S_YTD"), "{found}");
    let found = wrong(|tx, tables| tx.add(&tables.stock, key![1, 3], "s_order_cnt", 1));
    assert!(found.contains("S_ORDER_CNT"), "{found}");
    let found = wrong(|tx, tables| tx.add(&tables.stock, key![1, 3], "s_remote_cnt", 1));
    assert!(found.contains("S_REMOTE_CNT"), "{found}");
    let found = wrong(|tx, tables| tx.delete(&tables.stock, key![1, 3]).map(drop));
    assert!(found.contains("stocks and items"), "{found}");
    let found = wrong(|tx, tables| tx.add(&tables.customer, key![1, 3, 4], "c_payment_cnt", 1));
    assert!(found.contains("condition payments, customer 4"), "{found}");
    let (db, _bound) = loaded(&small());
    let marks = small().marks(&db).unwrap();
    assert!(small().check(&db, Some(marks + 1)).unwrap_err().contains("were committed"));
}

#[test]
fn payments_are_acknowledged_by_their_history() {
    let (db, bound) = loaded(&small());
    let mut generator = bound.generator(1, 0).unwrap();
    let calls = next_calls(generator.as_mut(), 100);
    make(&db, generator.as_mut(), &calls);
    let keys: Vec<String> =
        (0..calls.len()).filter_map(|place| bound.acknowledgement(calls.get(place).unwrap())).collect();
    assert!(keys.len() > 20);
    assert_eq!(small().check_acknowledged(&db, &keys), Ok(()));
    let lost = small().check_acknowledged(&db, &["1 1 999".to_owned()]).unwrap_err();
    assert!(lost.contains("1 1 999"), "{lost}");
    // Callers of a later run take other keys.
    let later = small().bind(&db, 1).unwrap();
    let mut generator = later.generator(1, 0).unwrap();
    let calls = next_calls(generator.as_mut(), 100);
    make(&db, generator.as_mut(), &calls);
    assert_eq!(small().check(&db, None), Ok(()));
}

#[test]
fn warehouses_are_chosen_as_settings_say() {
    let shares = |settings: Tpcc, caller: usize| {
        let db = memory();
        let settings = Tpcc { transactions: Transactions::Only(1), customers: 10, items: 20, ..settings };
        settings.load(&db).unwrap();
        let calls = next_calls(settings.bind(&db, 4).unwrap().generator(1, caller).unwrap().as_mut(), 2_000);
        let remote = |args: &Args| {
            args.int(payment::WAREHOUSE).unwrap() != args.int(payment::CUSTOMER_WAREHOUSE).unwrap()
        };
        let share = |is: &dyn Fn(&Args) -> bool| calls.made().iter().filter(|(_, args)| is(args)).count();
        let at = |warehouse: i64| share(&move |args| args.int(payment::WAREHOUSE) == Ok(warehouse));
        ([1, 2, 3].map(at), share(&remote))
    };
    let three = Tpcc { warehouses: 3, ..small() };
    let (alike, remote) = shares(three, 0);
    assert!(alike.iter().all(|share| (580..760).contains(share)), "{alike:?}");
    assert!((230..370).contains(&remote), "{remote}");
    let (mut uneven, remote) = shares(Tpcc { alpha: 2.0, remote_percent: 100.0, ..three }, 0);
    uneven.sort_unstable();
    assert!(uneven[2] > 3 * uneven[1] && uneven[1] > uneven[0], "{uneven:?}");
    assert_eq!(remote, 2_000);
    // Four callers at three warehouses: the fourth is where the first is.
    let home = Tpcc { home: true, remote_percent: 0.0, ..three };
    assert_eq!(shares(home, 1), ([0, 2_000, 0], 0));
    assert_eq!(shares(home, 3), ([2_000, 0, 0], 0));
    // Where there is one warehouse, nothing is remote.
    assert_eq!(shares(Tpcc { warehouses: 1, remote_percent: 100.0, ..small() }, 0), ([2_000, 0, 0], 0));
}

#[test]
fn callers_divide_the_warehouses() {
    let db = memory();
    let settings = Tpcc { home: true, transactions: Transactions::Only(1), warehouses: 5, ..small() };
    settings.load(&db).unwrap();
    let places = |callers: usize| {
        let bound = settings.bind(&db, callers).unwrap();
        let place = |caller| {
            let calls = next_calls(bound.generator(1, caller).unwrap().as_mut(), 200);
            calls
                .made()
                .iter()
                .map(|(_, args)| args.int(payment::WAREHOUSE).unwrap())
                .collect::<BTreeSet<_>>()
        };
        (0..callers).map(|caller| Vec::from_iter(place(caller))).collect::<Vec<_>>()
    };
    assert_eq!(places(1), [vec![1, 2, 3, 4, 5]]);
    assert_eq!(places(2), [vec![1, 3, 5], vec![2, 4]]);
    assert_eq!(places(7).concat(), [1, 2, 3, 4, 5, 1, 2]);
}

#[test]
fn a_load_cut_short_goes_on_and_another_size_is_refused() {
    let (db, _bound) = loaded(&Tpcc { warehouses: 1, ..small() });
    small().load(&db).unwrap();
    assert_eq!(small().check(&db, None), Ok(()));
    assert_eq!(scan::count(&db, &db.table(STOCK).unwrap()).unwrap(), 80);
    for other in [
        Tpcc { warehouses: 1, ..small() },
        Tpcc { items: 39, ..small() },
        Tpcc { items: 41, ..small() },
        Tpcc { customers: 21, ..small() },
    ] {
        assert!(other.load(&db).unwrap_err().to_string().contains("--customers"), "{other:?}");
    }
    // A batch that is missing is made as it would have been.
    let (cut, _bound) = loaded(&small());
    let tables = Tables::open(&cut).unwrap();
    let stock =
        |db: &Database| db.run(|tx| Ok(tx.get(&db.table(STOCK)?, key![2, 7])?.unwrap().to_values())).unwrap();
    let before = stock(&cut);
    cut.run(|tx| {
        tx.delete(&tables.warehouse, key![2])?;
        (1..=40).try_for_each(|item| tx.delete(&tables.stock, key![2, item]).map(drop))
    })
    .unwrap();
    assert!(small().load(&cut).is_ok());
    assert_eq!(stock(&cut), before);
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    let message = |settings: Tpcc| settings.load(&memory()).unwrap_err().to_string();
    assert!(message(Tpcc { warehouses: 0, ..small() }).contains("--warehouses"));
    assert!(message(Tpcc { items: 1, ..small() }).contains("--items"));
    assert!(message(Tpcc { customers: 1, ..small() }).contains("--customers"));
    assert!(message(Tpcc { alpha: -1.0, ..small() }).contains("--alpha"));
    assert!(message(Tpcc { remote_percent: 101.0, ..small() }).contains("--remote-percent"));
    assert!(message(Tpcc { home: true, alpha: 1.0, ..small() }).contains("--terminals home"));
    assert!(message(Tpcc { transactions: Transactions::Only(5), ..small() }).contains("number 5"));
}

#[test]
fn seeds_repeat_and_callers_differ() {
    let (_db, bound) = loaded(&Tpcc { transactions: Transactions::Only(2), ..small() });
    let calls =
        |seed, caller| next_calls(bound.generator(seed, caller).unwrap().as_mut(), 50).made().to_vec();
    assert_eq!(calls(3, 0), calls(3, 0));
    assert_ne!(calls(3, 0), calls(3, 1));
    assert_ne!(calls(3, 0), calls(4, 0));
}

#[test]
fn a_database_without_the_tables_has_nothing_to_check() {
    assert_eq!(small().check(&memory(), None), Ok(()));
    assert_eq!(small().marks(&memory()).unwrap(), 0);
    assert_eq!(small().check_acknowledged(&memory(), &[]), Ok(()));
    assert!(small().check_acknowledged(&memory(), &["1 1 1".to_owned()]).is_err());
}
