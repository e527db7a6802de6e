//! Whole runs on a small bank: each way to call, each way to end, failures, acknowledgements, offered rates.

use std::cell::Cell;

use heddledb::{Durability, Options};

use super::*;
use crate::debit_credit::{BAD_CODE, DebitCredit};
use crate::probe::Probe;

const BANK: DebitCredit = DebitCredit {
    branches: 2,
    accounts_per_branch: 100,
    bad_percent: 0.0,
    tpc_b: false,
    pause: crate::pause::Pause::NONE,
};

fn open(workload: &dyn Workload) -> Database {
    let db = Database::in_memory_with(Options::default().durability(Durability::None)).unwrap();
    workload.load(&db).unwrap();
    db
}

fn run_on(db: &Database, workload: &dyn Workload, settings: &Settings) -> Report {
    let bound = workload.bind(db, settings.callers()).unwrap();
    let before = workload.marks(db).unwrap();
    let report = run(db, workload, bound.as_ref(), settings, &|_| {}).unwrap();
    assert_eq!(workload.check(db, Some(before + report.marks)), Ok(()));
    report
}

fn own_calls(in_flight: usize) -> Settings {
    Settings { threads: 2, path: CallPath::OwnCalls { in_flight }, seconds: 0.3, ..Settings::default() }
}

fn clients(clients: usize) -> Settings {
    Settings { path: CallPath::Clients { clients, closures: false }, ..own_calls(1) }
}

#[test]
fn workers_run_their_own_calls() {
    for in_flight in [1, 32] {
        let report = run_on(&open(&BANK), &BANK, &own_calls(in_flight));
        assert!(report.committed > 100, "{}", report.committed);
        assert!(report.marks >= report.committed);
        assert_eq!(report.seconds, 0.3);
        assert_eq!(report.throughput_over_time.len(), 3);
        // Of short calls one at a time, one in 32 is timed, and represents all.
        assert_eq!(report.latency.len(), report.committed);
        assert_eq!(report.read_latency.len(), 0);
    }
}

#[test]
fn every_call_of_a_client_is_timed() {
    let report = run_on(&open(&BANK), &BANK, &clients(4));
    assert!(report.committed > 20);
    assert_eq!(report.latency.len(), report.committed);
    assert!(report.by_transaction[0].mean_microseconds.is_some_and(|mean| mean > 0.0));
    assert!(report.share_under_a_second() > 0.9);
}

#[test]
fn a_number_of_transactions_ends_the_run() {
    for settings in [own_calls(32), own_calls(7), clients(3)] {
        let settings = Settings { transactions: Some(500), seconds: 3_600.0, ..settings };
        let report = run_on(&open(&BANK), &BANK, &settings);
        assert_eq!((report.committed, report.marks), (500, 500));
        assert!(report.seconds > 0.0 && report.seconds < 60.0);
        assert!(report.throughput() > 0.0);
    }
}

#[test]
fn warm_up_counts_for_the_check_only() {
    let settings = Settings { warmup: 0.2, ..own_calls(32) };
    let report = run_on(&open(&BANK), &BANK, &settings);
    assert!(report.marks > report.committed);
}

#[test]
fn failures_are_counted_by_reason() {
    let bank = DebitCredit { bad_percent: 50.0, ..BANK };
    for settings in [own_calls(32), clients(2)] {
        let settings = Settings { transactions: Some(1_000), ..settings };
        let report = run_on(&open(&bank), &bank, &settings);
        assert_eq!(report.committed + report.failed, 1_000);
        assert!((400..600).contains(&report.failed), "{}", report.failed);
        assert_eq!(report.by_transaction[0].failed_by_reason.get(BAD_CODE), Some(&report.failed));
    }
}

#[test]
fn acknowledged_calls_are_found() {
    let directory = tempfile::tempdir().unwrap();
    for (index, settings) in [own_calls(32), clients(2)].into_iter().enumerate() {
        let path = directory.path().join(format!("acks{index}"));
        let bank = DebitCredit { bad_percent: 10.0, ..BANK };
        let settings = Settings { transactions: Some(300), acknowledgements: Some(path.clone()), ..settings };
        let db = open(&bank);
        let report = run_on(&db, &bank, &settings);
        let keys = read_acknowledgements(&path).unwrap();
        assert_eq!(keys.len() as u64, report.committed);
        assert_eq!(bank.check_acknowledged(&db, &keys), Ok(()));
    }
}

#[test]
fn an_offered_rate_is_kept() {
    for settings in [own_calls(32), clients(4)] {
        let settings = Settings { rate: Some(500.0), seconds: 1.0, ..settings };
        let report = run_on(&open(&BANK), &BANK, &settings);
        assert!((350..650).contains(&report.committed), "{}", report.committed);
        assert_eq!(report.latency.len(), report.committed, "every call has a planned arrival");
    }
}

#[test]
fn probes_run_as_closures_and_through_the_pipeline() {
    for closures in [false, true] {
        let probe = Probe { records: 100, update_percent: 30.0, ..Probe::default() };
        let path = CallPath::Clients { clients: 3, closures };
        let report = run_on(&open(&probe), &probe, &Settings { path, ..clients(3) });
        assert!(!report.read_latency.is_empty() && !report.write_latency.is_empty());
        assert_eq!(report.read_latency.len() + report.write_latency.len(), report.latency.len());
        let [read, update] = &report.by_transaction[..] else { panic!("two transactions") };
        assert_eq!((read.name, update.name), ("read", "update"));
        assert_eq!(read.committed + update.committed, report.committed);
    }
}

#[test]
fn the_same_seed_makes_the_same_calls() {
    let balances = |seed| {
        let db = open(&BANK);
        let settings = Settings { threads: 1, transactions: Some(200), seed, ..own_calls(8) };
        run_on(&db, &BANK, &settings);
        let account = db.table("account").unwrap();
        crate::scan::fold(&db, &account, Vec::new, |balances, row| {
            balances.push((row.int("branch")?, row.int("account")?, row.int("balance")?));
            Ok(())
        })
        .map(|mut balances| {
            balances.sort_unstable();
            balances
        })
        .unwrap()
    };
    assert_eq!(balances(3), balances(3));
    assert_ne!(balances(3), balances(4));
}

#[test]
fn watchers_are_notified() {
    let db = open(&BANK);
    let settings = own_calls(32);
    let bound = BANK.bind(&db, settings.callers()).unwrap();
    let last = Cell::new(None);
    run(&db, &BANK, bound.as_ref(), &settings, &|tick| last.set(Some(tick))).unwrap();
    let tick: Tick = last.get().unwrap();
    assert!(tick.released > 0 && tick.elapsed > Duration::from_millis(100));
}

#[test]
fn wrong_settings_and_files_are_refused_before_the_run() {
    let db = open(&BANK);
    let refused = |settings: Settings| {
        let bound = BANK.bind(&db, 1).unwrap();
        run(&db, &BANK, bound.as_ref(), &settings, &|_| {}).unwrap_err().to_string()
    };
    assert!(refused(Settings { seconds: -1.0, ..own_calls(1) }).contains("--seconds"));
    let nowhere = Some("/nonexistent/acks".into());
    assert!(refused(Settings { acknowledgements: nowhere, ..own_calls(1) }).contains("/nonexistent/acks"));
}
