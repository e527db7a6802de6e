//! The transactions, the mix, and a check that catches what no call has moved.

use heddledb::{Database, Durability, Options, ProtocolKind, args, key};

use super::procedure::PENALTY;
use super::tables::{CHECKING, SAVINGS, START};
use super::*;
use crate::workload::next_calls;

/// The last of the transactions.
const WRITE_CHECK: usize = 4;

fn bank(settings: SmallBank) -> Database {
    let db = Database::in_memory_with(Options::default().durability(Durability::None)).unwrap();
    settings.load(&db).unwrap();
    db
}

fn small() -> SmallBank {
    SmallBank { accounts: 20, hot: 4, ..SmallBank::default() }
}

fn balances(db: &Database, customer: i64) -> (i64, i64) {
    let of = |table: &str| {
        let table = db.table(table).unwrap();
        db.run(|tx| tx.get(&table, key![customer])?.unwrap().int("balance")).unwrap()
    };
    (of(SAVINGS), of(CHECKING))
}

fn call(db: &Database, place: usize, customer: i64, second: i64) -> heddledb::Result<heddledb::Output> {
    let bound = small().bind(db, 1).unwrap();
    let generator = bound.generator(1, 0).unwrap();
    db.call(&generator.procedures()[place], args![customer, second])
}

#[test]
fn each_transaction_moves_what_it_says() {
    let db = bank(small());
    call(&db, transaction::DEPOSIT_CHECKING, 1, 500).unwrap();
    call(&db, transaction::TRANSACT_SAVINGS, 1, -700).unwrap();
    assert_eq!(balances(&db, 1), (START - 700, START + 500));
    call(&db, transaction::BALANCE, 1, 0).unwrap();
    call(&db, WRITE_CHECK, 1, 200).unwrap();
    assert_eq!(balances(&db, 1), (START - 700, START + 300));
    call(&db, transaction::AMALGAMATE, 1, 2).unwrap();
    assert_eq!((balances(&db, 1), balances(&db, 2)), ((0, 0), (START, 3 * START - 400)));
    assert_eq!(small().check(&db, Some(3 + 3)), Ok(()));
    assert_eq!(small().marks(&db).unwrap(), 6);
}

#[test]
fn an_overdraft_fails_or_costs_a_penalty() {
    let db = bank(small());
    call(&db, transaction::AMALGAMATE, 1, 2).unwrap();
    let error = call(&db, transaction::TRANSACT_SAVINGS, 1, -1).unwrap_err().to_string();
    assert!(error.contains("not covered"), "{error}");
    call(&db, WRITE_CHECK, 1, 5).unwrap();
    assert_eq!(balances(&db, 1), (0, -5 - PENALTY));
    let error = call(&db, transaction::BALANCE, 77, 0).unwrap_err().to_string();
    assert!(error.contains("no such customer"), "{error}");
    assert_eq!(small().check(&db, Some(4)), Ok(()));
}

#[test]
fn the_mix_and_the_hot_spot_are_the_papers() {
    let db = bank(SmallBank { accounts: 1_000, ..SmallBank::default() });
    let settings = SmallBank { accounts: 1_000, ..SmallBank::default() };
    let bound = settings.bind(&db, 1).unwrap();
    let mut generator = bound.generator(7, 0).unwrap();
    let calls = next_calls(generator.as_mut(), 20_000);
    let (mut places, mut hot) = ([0; 5], 0);
    for place in 0..20_000 {
        let call = calls.get(place).unwrap();
        places[call.procedure] += 1;
        hot += u32::from(call.args.int(0).unwrap() <= 50);
        if call.procedure == transaction::AMALGAMATE {
            assert_ne!(call.args.int(0), call.args.int(1));
        }
        let marks = [3, 0, 1, 1, 1][call.procedure];
        assert_eq!((call.marks, call.is_read_only()), (marks, marks == 0));
    }
    assert!((600..1_000).contains(&places[0]), "{places:?}");
    assert!(places[1..].iter().all(|calls| (4_400..5_200).contains(calls)), "{places:?}");
    assert!((17_900..18_500).contains(&hot), "90 % and a twentieth of the rest: {hot}");
}

#[test]
fn concurrent_callers_leave_a_bank_whose_books_agree_under_every_protocol() {
    for protocol in ProtocolKind::ALL {
        let options = Options::default().durability(Durability::None).protocol(*protocol).workers(3);
        let db = Database::in_memory_with(options).unwrap();
        small().load(&db).unwrap();
        let bound = small().bind(&db, 3).unwrap();
        let marks: u64 = std::thread::scope(|scope| {
            let callers: Vec<_> = (0..3)
                .map(|caller| {
                    let (db, bound) = (&db, &bound);
                    scope.spawn(move || {
                        let mut generator = bound.generator(3, caller).unwrap();
                        let mut calls = next_calls(generator.as_mut(), 400);
                        let mut marks = 0;
                        for place in 0..400 {
                            let (procedure, of_call) =
                                (calls.get(place).unwrap().procedure, calls.marks()[place]);
                            let args = calls.take_args(place);
                            if db.call(&generator.procedures()[procedure], args).is_ok() {
                                marks += u64::from(of_call);
                            }
                        }
                        marks
                    })
                })
                .collect();
            callers.into_iter().map(|caller| caller.join().unwrap()).sum()
        });
        assert_eq!(small().check(&db, Some(marks)), Ok(()), "{protocol}");
        assert!(small().check(&db, Some(marks + 1)).unwrap_err().contains("changed"));
    }
}

#[test]
fn the_check_catches_what_was_moved_by_no_call() {
    let broken = |change: &dyn Fn(&Database) -> heddledb::Result<()>| {
        let db = bank(small());
        call(&db, transaction::DEPOSIT_CHECKING, 1, 500).unwrap();
        change(&db).unwrap();
        small().check(&db, Some(1)).unwrap_err()
    };
    let set = |table: &'static str, column: &'static str, value: i64| {
        move |db: &Database| {
            let table = db.table(table)?;
            db.run(|tx| tx.update(&table, key![1], &[(column, value.into())]))
        }
    };
    assert!(broken(&set(CHECKING, "balance", START)).contains("checking of customer 1"));
    assert!(broken(&set(CHECKING, "moved_out", 1)).contains("moved out"));
    assert!(broken(&set(SAVINGS, "changes", 1)).contains("changed"));
    let gone = broken(&|db| {
        let table = db.table(SAVINGS)?;
        db.run(|tx| tx.delete(&table, key![5]).map(|_| ()))
    });
    assert!(gone.contains("19 savings"), "{gone}");
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    let refused = |settings: SmallBank| settings.check_settings().unwrap_err().to_string();
    assert!(refused(SmallBank { accounts: 1, ..small() }).contains("--accounts"));
    assert!(refused(SmallBank { hot: 21, ..small() }).contains("--hot"));
    assert!(refused(SmallBank { hot: 1, ..small() }).contains("--hot 1"));
    assert!(refused(SmallBank { hot_percent: 101.0, ..small() }).contains("--hot-percent"));
    assert!(refused(SmallBank { only: Some(5), ..small() }).contains("number 5"));
    assert!(SmallBank { hot: 0, ..small() }.check_settings().is_ok());
}

#[test]
fn a_load_that_was_cut_short_goes_on_and_a_missing_table_is_no_error() {
    let empty = Database::in_memory_with(Options::default().durability(Durability::None)).unwrap();
    assert_eq!((small().check(&empty, Some(0)), small().marks(&empty).unwrap()), (Ok(()), 0));
    SmallBank { accounts: 4, ..small() }.load(&empty).unwrap();
    small().load(&empty).unwrap();
    assert_eq!(small().check(&empty, Some(0)), Ok(()));
    let table = empty.table("savings").unwrap();
    assert_eq!(crate::scan::count(&empty, &table).unwrap(), 20);
}
