//! The procedure's two ways to fail, the generator's shares, the load, and that the check sees what is wrong.

use std::collections::BTreeSet;

use heddledb::{Database, Durability, Error, Options, args, key};

use super::tables::{ACCOUNT, BRANCH, FLOOR, HISTORY, OPENING_BALANCE, TELLER, Tables, access_code};
use super::*;
use crate::calls::{Call, Calls};
use crate::workload::next_calls;

fn memory() -> Database {
    Database::in_memory_with(Options::default().durability(Durability::None)).unwrap()
}

fn small() -> DebitCredit {
    DebitCredit { branches: 3, accounts_per_branch: 50, ..DebitCredit::default() }
}

fn loaded(settings: &DebitCredit) -> (Database, Box<dyn Bound>) {
    let db = memory();
    settings.load(&db).unwrap();
    let bound = settings.bind(&db, 2).unwrap();
    (db, bound)
}

/// Makes this many calls of a generator.
fn call_all(db: &Database, generator: &mut dyn crate::Generator, wanted: usize) -> Calls {
    let calls = next_calls(generator, wanted);
    for (transaction, args) in calls.made() {
        db.call(&generator.procedures()[*transaction], args.clone()).unwrap();
    }
    calls
}

#[test]
fn calls_keep_the_books_and_each_leaves_a_mark() {
    let settings = small();
    let (db, bound) = loaded(&settings);
    let mut generator = bound.generator(1, 0).unwrap();
    call_all(&db, generator.as_mut(), 300);
    assert_eq!(settings.marks(&db).unwrap(), 300);
    assert_eq!(settings.check(&db, Some(300)), Ok(()));
    let message = settings.check(&db, Some(301)).unwrap_err();
    assert!(message.contains("300") && message.contains("301"), "{message}");
}

#[test]
fn a_wrong_code_and_a_crossed_floor_leave_no_trace() {
    let settings = small();
    let (db, bound) = loaded(&settings);
    let generator = bound.generator(1, 0).unwrap();
    let procedure = &generator.procedures()[0];
    let code = access_code(1, 7);
    let attempt = |amount: i64, code: i64| db.call(procedure, args![1, 7, 2, 3, amount, code, 9, 1]);
    assert_eq!(attempt(5, code + 1).unwrap_err(), heddledb::fail(procedure::BAD_CODE));
    let below = FLOOR - OPENING_BALANCE - 1;
    assert_eq!(attempt(below, code).unwrap_err(), heddledb::fail(procedure::BELOW_FLOOR));
    assert!(matches!(attempt(i64::MAX, code).unwrap_err(), Error::Overflow { .. }));
    assert_eq!(settings.marks(&db).unwrap(), 0);
    assert_eq!(settings.check(&db, Some(0)), Ok(()));
    // The floor itself may be reached.
    attempt(below + 1, code).unwrap();
    assert_eq!(settings.check(&db, Some(1)), Ok(()));
}

#[test]
fn a_failed_call_has_a_reason_to_count_by() {
    let (_db, bound) = loaded(&small());
    assert_eq!(bound.reason(&heddledb::fail(BAD_CODE)), BAD_CODE);
    let twice = Error::DuplicateKey { table: HISTORY.to_owned(), key: String::new() };
    assert_eq!(bound.reason(&twice), "duplicate-key");
}

#[test]
fn shares_of_remote_and_bad_calls_are_as_asked() {
    let settings = DebitCredit { bad_percent: 20.0, ..small() };
    let (_db, bound) = loaded(&settings);
    let mut generator = bound.generator(7, 0).unwrap();
    let (mut remote, mut bad) = (0, 0);
    let number = |call: Call<'_>, place| call.args.int(place).unwrap();
    let calls = next_calls(generator.as_mut(), 10_000);
    for call in (0..10_000).filter_map(|place| calls.get(place)) {
        let home = number(call, procedure::argument::ACCOUNT_BRANCH);
        let account = number(call, procedure::argument::ACCOUNT);
        assert!((1..=3).contains(&home) && (1..=50).contains(&account));
        remote += i32::from(home != number(call, procedure::argument::BRANCH));
        bad += i32::from(access_code(home, account) != number(call, procedure::argument::CODE));
    }
    assert!((1_300..1_700).contains(&remote), "{remote}");
    assert!((1_800..2_200).contains(&bad), "{bad}");
}

#[test]
fn one_branch_has_no_remote_accounts() {
    let settings = DebitCredit { branches: 1, ..small() };
    let (_db, bound) = loaded(&settings);
    let mut generator = bound.generator(7, 0).unwrap();
    let calls = next_calls(generator.as_mut(), 100);
    assert!(calls.made().iter().all(|(_, args)| args.int(0) == Ok(1)));
}

#[test]
fn seeds_repeat_and_callers_differ() {
    let (_db, bound) = loaded(&small());
    let arguments = |seed, caller| {
        let calls = next_calls(bound.generator(seed, caller).unwrap().as_mut(), 20);
        calls.made().iter().map(|(_, args)| args.int(1).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(arguments(3, 0), arguments(3, 0));
    assert_ne!(arguments(3, 0), arguments(3, 1));
    assert_ne!(arguments(3, 0), arguments(4, 0));
}

#[test]
fn callers_of_a_later_binding_take_new_numbers() {
    let settings = small();
    let db = memory();
    settings.load(&db).unwrap();
    let mut acknowledged = BTreeSet::new();
    for _run in 0..3 {
        let bound = settings.bind(&db, 2).unwrap();
        for caller in 0..2 {
            let mut generator = bound.generator(1, caller).unwrap();
            let calls = call_all(&db, generator.as_mut(), 20);
            for place in 0..20 {
                let key = bound.acknowledgement(calls.get(place).unwrap()).unwrap();
                assert!(acknowledged.insert(key));
            }
        }
    }
    let keys: Vec<String> = acknowledged.into_iter().collect();
    assert_eq!(settings.check_acknowledged(&db, &keys), Ok(()));
    let lost = settings.check_acknowledged(&db, &["1 99 1".to_owned()]).unwrap_err();
    assert!(lost.contains("1 99 1"), "{lost}");
    assert!(settings.check_acknowledged(&db, &["nonsense".to_owned()]).is_err());
}

#[test]
fn the_check_sees_every_kind_of_wrong_balance() {
    for table in [BRANCH, TELLER, ACCOUNT] {
        let settings = small();
        let (db, _bound) = loaded(&settings);
        assert_eq!(settings.check(&db, None), Ok(()));
        let broken = db.table(table).unwrap();
        db.run(|tx| match table {
            BRANCH => tx.add(&broken, key![2], "balance", 1),
            _ => tx.add(&broken, key![2, 5], "balance", 1),
        })
        .unwrap();
        let message = settings.check(&db, None).unwrap_err();
        assert!(message.starts_with("branch 2"), "{table}: {message}");
    }
}

#[test]
fn a_load_cut_short_goes_on() {
    let settings = small();
    let db = memory();
    let tables = Tables::create(&db).unwrap();
    db.run(|tx| load::insert_accounts(tx, &tables, 1, 1, 20)).unwrap();
    assert_eq!(settings.check(&db, Some(0)), Ok(()));
    settings.load(&db).unwrap();
    settings.load(&db).unwrap();
    assert_eq!(scan::count(&db, &tables.account).unwrap(), 150);
    assert_eq!(scan::count(&db, &tables.teller).unwrap(), 30);
    assert_eq!(scan::count(&db, &tables.branch).unwrap(), 3);
}

#[test]
fn a_bank_of_another_size_is_refused() {
    let (db, _bound) = loaded(&small());
    for other in [
        DebitCredit { branches: 2, ..small() },
        DebitCredit { accounts_per_branch: 49, ..small() },
        DebitCredit { accounts_per_branch: 51, ..small() },
    ] {
        let message = other.load(&db).unwrap_err().to_string();
        assert!(message.contains("--accounts-per-branch"), "{message}");
    }
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    let message = |settings: DebitCredit| settings.load(&memory()).unwrap_err().to_string();
    assert!(message(DebitCredit { branches: 0, ..small() }).contains("--branches"));
    assert!(message(DebitCredit { accounts_per_branch: 0, ..small() }).contains("--accounts-per-branch"));
    assert!(message(DebitCredit { bad_percent: 101.0, ..small() }).contains("--bad-percent"));
}

#[test]
fn the_preset_is_the_papers_size() {
    let tpk = DebitCredit::tpk();
    assert_eq!((tpk.branches, tpk.branches * tpk.accounts_per_branch), (15, 15_000));
}

#[test]
fn access_codes_have_four_digits_and_differ() {
    let codes: BTreeSet<i64> = (1..=1_000).map(|account| access_code(1, account)).collect();
    assert!(codes.iter().all(|code| (0..10_000).contains(code)));
    assert!(codes.len() > 700, "{}", codes.len());
}
