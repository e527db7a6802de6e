//! The executors that each transaction uses under `partitioned`, and the central locks of Payment.

use heddledb::{Args, Durability, Options, PartitionedOptions, ProtocolKind, ProtocolOptions, Statistics};

use super::procedure::{new_order_argument as order, payment_argument as payment, place};
use super::*;
use crate::workload::next_calls;

fn small(transactions: Transactions) -> Tpcc {
    Tpcc { warehouses: 8, items: 40, customers: 20, transactions, home: false, ..Tpcc::default() }
}

fn loaded(settings: &Tpcc, protocol: ProtocolKind) -> (Database, Box<dyn Bound>) {
    // As many executors on every machine, whose rows move only when a test moves them: a move takes locks, too.
    let protocol = ProtocolOptions::from(protocol)
        .partitioned(PartitionedOptions::default().executors(4).repartitioning(false));
    let options = Options::default().durability(Durability::None).protocol(protocol).workers(4);
    let db = Database::in_memory_with(options).unwrap();
    settings.load(&db).unwrap();
    let bound = settings.bind(&db, 1).unwrap();
    (db, bound)
}

/// Returns true if a call touches rows of one warehouse only, apart from the items, which it reads.
fn is_of_one_warehouse(procedure: usize, args: &Args) -> bool {
    let int = |place: usize| args.int(place).unwrap();
    match procedure {
        place::NEW_ORDER => (0..int(order::LINES) as usize)
            .all(|line| int(order::of_line(line) + order::SUPPLIER) == int(order::WAREHOUSE)),
        place::PAYMENT | place::PAYMENT_BY_NAME => {
            int(payment::WAREHOUSE) == int(payment::CUSTOMER_WAREHOUSE)
        }
        _ => true,
    }
}

#[test]
fn transactions_of_one_warehouse_use_one_executor() {
    let settings = small(Transactions::Full);
    let (db, bound) = loaded(&settings, ProtocolKind::Partitioned);
    let mut generator = bound.generator(1, 0).unwrap();
    let calls = next_calls(generator.as_mut(), 1_500);
    let (mut at_home, mut most) = ([0; 7], [0; 7]);
    for number in 0..calls.len() {
        let call = calls.get(number).unwrap();
        let before = db.statistics();
        // An order of a missing item fails; its executors count all the same.
        if number % 50 == 0 {
            // A repartitioning enters the executors' queues, too, and is not counted as a transaction.
            db.repartition(if number % 100 == 0 { &[0.2, 0.5, 0.7] } else { &[0.25, 0.5, 0.75] }).unwrap();
        }
        let _ = db.call(&generator.procedures()[call.procedure], call.args.clone());
        let executors = (db.statistics() - before).execute_batches.1;
        if is_of_one_warehouse(call.procedure, call.args) {
            assert_eq!(executors, 1, "procedure {}: {:?}", call.procedure, call.args);
            at_home[call.procedure] += 1;
        } else {
            most[call.procedure] = executors.max(most[call.procedure]);
        }
    }
    assert!(at_home.iter().all(|calls| *calls > 5), "{at_home:?}");
    // With another warehouse's customer or stock: at most all executors in each of two phases.
    let of_two = [place::NEW_ORDER, place::PAYMENT, place::PAYMENT_BY_NAME];
    assert!(of_two.iter().all(|place| (1..=2 * 4).contains(&most[*place])), "{most:?}");
}

/// The locks of a hundred payments.
fn locks_of_payments(protocol: ProtocolKind, remote_percent: f64) -> Statistics {
    let settings = Tpcc { remote_percent, ..small(Transactions::Only(1)) };
    let (db, bound) = loaded(&settings, protocol);
    let mut generator = bound.generator(1, 0).unwrap();
    let calls = next_calls(generator.as_mut(), 100);
    let before = db.statistics();
    for number in 0..100 {
        let call = calls.get(number).unwrap();
        db.call(&generator.procedures()[call.procedure], call.args.clone()).unwrap();
    }
    let taken = db.statistics() - before;
    assert_eq!((taken.committed, taken.aborted), (100, 0));
    taken
}

#[test]
fn payments_take_no_central_locks_and_local_ones_where_they_are_at_several_executors() {
    for remote_percent in [0.0, 15.0, 100.0] {
        let taken = locks_of_payments(ProtocolKind::Partitioned, remote_percent);
        assert_eq!((taken.locks_row, taken.locks_higher), (0, 0));
        // Warehouse, district, customer, history; and the customers of the district where the name is given.
        assert!((400..=500).contains(&taken.lock_requests_local), "{}", taken.lock_requests_local);
        // A payment at one executor, which meets no other, takes none.
        assert_eq!(taken.locks_local > 0, remote_percent > 0.0, "{}", taken.locks_local);
    }
    let taken = locks_of_payments(ProtocolKind::Locking, 15.0);
    let all = taken.locks_row + taken.locks_higher;
    assert!((900..=2_200).contains(&all), "{} of rows, {} above", taken.locks_row, taken.locks_higher);
}
