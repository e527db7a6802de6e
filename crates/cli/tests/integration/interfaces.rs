//! Workloads through their functions in SQL: the same checks hold as for their procedures.

use crate::common;
use common::{errors, heddle, json, json_once, text};
use heddledb::ProtocolKind;

/// The workloads that have functions, small, with options that make every function run.
const WORKLOADS: [&[&str]; 8] = [
    &["debit-credit", "--accounts-per-branch=50", "--branches=2", "--bad-percent=20"],
    &["debit-credit", "--accounts-per-branch=50", "--preset=tpc-b"],
    &["tatp", "--subscribers=50"],
    &["tatp", "--subscribers=50", "--only=update-by-number", "--probe-records=3"],
    &["smallbank", "--accounts=60"],
    &["flash-sale", "--items=5", "--stock=20"],
    &["like", "--users=50", "--pages=50"],
    &["tpcc", "--warehouses=2", "--items=100", "--customers=30"],
];

const SQL: [&str; 3] = ["--interface=sql", "--threads=2", "--durability=none"];

fn arguments<'a>(workload: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [&["bench"], workload, &SQL, more].concat()
}

#[test]
fn every_workload_passes_its_check_under_every_protocol() {
    for protocol in ProtocolKind::ALL {
        let protocol = format!("--protocol={}", protocol.name());
        for workload in WORKLOADS {
            let object = json(&arguments(workload, &["--transactions=300", &protocol, "--json"]));
            assert_eq!(object["check"], "ok", "{workload:?} {protocol}: {object}");
            assert_eq!(object["interface"], "sql");
            let ended = object["committed"].as_u64().unwrap() + object["failed"].as_u64().unwrap();
            assert_eq!(ended, 300, "{workload:?} {protocol}: {object}");
        }
    }
}

#[test]
fn connections_go_through_every_schedule() {
    let schedules: [(&[&str], usize); 3] = [
        (&["--schedule=predict", "--history-seconds=0"], 8),
        (&["--schedule=random"], 8),
        (&["--schedule=partition", "--partition-key=branch"], 2),
    ];
    for (schedule, workloads) in schedules {
        for workload in &WORKLOADS[..workloads] {
            let more = [schedule, &["--transactions=200", "--json"]].concat();
            let object = json(&arguments(workload, &more));
            assert_eq!(object["check"], "ok", "{workload:?} {schedule:?}: {object}");
            assert!(object["params"]["generators"].is_null(), "connections make the calls: {object}");
            let ended = object["committed"].as_u64().unwrap() + object["failed"].as_u64().unwrap();
            // Those that `predict` places before it has settled are not counted.
            let is_counted = schedule[0] != "--schedule=predict";
            assert!(ended == 200 || !is_counted && ended < 200, "{workload:?} {schedule:?}: {object}");
        }
    }
}

#[test]
fn every_transaction_of_a_mix_is_made() {
    for (workload, transactions) in [(WORKLOADS[2], 7), (WORKLOADS[4], 5), (WORKLOADS[7], 5)] {
        let all = |object: &serde_json::Value| {
            let by_transaction = object["by_transaction"].as_object().unwrap();
            by_transaction.values().filter(|one| one["committed"].as_u64() > Some(0)).count() >= transactions
        };
        json_once(&arguments(workload, &[]), all);
    }
}

#[test]
fn calls_fail_for_the_same_reasons_as_procedures_do() {
    let reasons = |workload: &[&str], reason: &str| {
        json_once(&arguments(workload, &[]), |object| {
            let by_transaction = object["by_transaction"].as_object().unwrap();
            let mut failed = by_transaction.values().filter_map(|one| one["failed_by_reason"].as_object());
            failed.any(|failed| failed.contains_key(reason))
        });
    };
    reasons(WORKLOADS[0], "wrong access code");
    reasons(WORKLOADS[2], "no call forwarding at this time");
    reasons(WORKLOADS[2], "duplicate-key");
    reasons(WORKLOADS[4], "the amount is not covered");
    reasons(WORKLOADS[5], "sold-out");
    reasons(WORKLOADS[7], "item number is not valid");
}

#[test]
fn clients_wait_for_durable_answers_and_acknowledge_them() {
    let directory = tempfile::tempdir().unwrap();
    let (path, acks) = (directory.path().join("bank"), directory.path().join("acks"));
    let arguments = [
        "bench",
        "debit-credit",
        "--accounts-per-branch=50",
        "--interface=sql",
        "--clients=3",
        "--transactions=50",
        "--json",
        "--acks",
        text(&acks),
        "--dir",
        text(&path),
    ];
    // The second run replaces the functions, and numbers its callers on from those of the first.
    for run in 1..=2 {
        let object = json(&arguments);
        assert_eq!((&object["check"], &object["committed"]), (&"ok".into(), &50.into()), "{object}");
        assert_eq!(object["clients"], 3);
        assert_eq!(std::fs::read_to_string(&acks).unwrap().lines().count(), 50 * run);
    }
    let rust = json(&[
        "bench",
        "debit-credit",
        "--accounts-per-branch=50",
        "--transactions=50",
        "--json",
        "--dir",
        text(&path),
    ]);
    assert_eq!((&rust["check"], &rust["interface"]), (&"ok".into(), &"rust".into()));
}

#[test]
fn what_sql_does_not_do_is_refused() {
    let refused: [(&[&str], &str); 5] = [
        (&["incr1"], "no functions in SQL"),
        (&["debit-credit", "--in-flight=4"], "--in-flight"),
        (&["tatp", "--schedule=predict", "--generators=2"], "--generators"),
        (&["like", "--think-us=5"], "--think-us"),
        (&["smallbank", "--target-mean-ms=5"], "--target-mean-ms"),
    ];
    for (workload, message) in refused {
        let output = heddle(&[&["bench"], workload, &["--interface=sql"]].concat());
        assert_eq!(output.status.code(), Some(2), "{workload:?}");
        assert!(errors(&output).contains(message), "{}", errors(&output));
    }
}

#[test]
fn a_sale_keeps_the_leaderboard_of_its_interface() {
    let directory = tempfile::tempdir().unwrap();
    let sale = |interface: &'static str| {
        let path = directory.path().join("sale");
        heddle(&["bench", "flash-sale", "--items=5", "--transactions=50", "--dir", text(&path), interface])
    };
    assert!(sale("--interface=sql").status.success());
    let output = sale("--interface=rust");
    assert!(
        !output.status.success() && errors(&output).contains("another leaderboard"),
        "{}",
        errors(&output)
    );
    assert!(sale("--interface=sql").status.success());
}

const SMALL_TPCC: [&str; 7] = [
    "tpcc",
    "--warehouses=1",
    "--items=100",
    "--customers=10",
    "--threads=1",
    "--durability=none",
    "--analysts=2",
];

#[test]
fn analysts_ask_queries_alongside_the_load() {
    let base = [&["bench"], &SMALL_TPCC[..], &["--rate=50"]].concat();
    let object = json_once(&base, |object| {
        assert_eq!(object["analysts"]["by_query"].as_object().unwrap().len(), 22);
        object["analysts"]["queries"].as_u64() > Some(2) && object["committed"].as_u64() > Some(0)
    });
    let analysts = &object["analysts"];
    assert_eq!(
        (&object["check"], &analysts["analysts"], &analysts["run_again"]),
        (&"ok".into(), &2.into(), &0.into())
    );
    let counts =
        analysts["by_query"].as_object().unwrap().values().map(|query| query["count"].as_u64().unwrap());
    assert_eq!(analysts["queries"].as_u64(), Some(counts.sum()));
    assert!(analysts["mean_ms"].as_f64() > Some(0.0));
}

#[test]
fn the_table_shows_the_queries_and_sql_calls_go_along() {
    let more = ["--interface=sql", "--protocol=phased", "--transactions=60"];
    let text = common::succeed(&[&["bench"], &SMALL_TPCC[..], &more].concat());
    assert!(text.contains("Germany's share of the market") && text.contains("check: ok"), "{text}");
    let output = heddle(&["bench", "tatp", "--analysts=1"]);
    assert_eq!(output.status.code(), Some(2), "only tpcc has analysts");
}
