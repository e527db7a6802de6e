//! Whole benchmark runs, small: their JSON, their table, their input.

mod flights;
mod split_by_hand;

use std::collections::BTreeSet;

use crate::common;
use common::{heddle, json, json_once, succeed, text};
use heddledb::ProtocolKind;
use serde_json::Value;

/// Keys of the command line's description that every run has.
const KEYS: [&str; 30] = [
    "workload",
    "interface",
    "protocol",
    "schedule",
    "stolen",
    "threads",
    "clients",
    "seconds",
    "durability",
    "params",
    "committed",
    "aborted",
    "failed",
    "throughput",
    "abort_rate",
    "check",
    "latency_us",
    "share_under_1s",
    "by_transaction",
    "aborts",
    "throughput_over_time",
    "handover_mean",
    "stage_busy",
    "locks_per_100",
    "processor_load",
    "time_share",
    "phased",
    "choices",
    "bytes_per_row",
    "peak_rss_bytes",
];

/// Keys that some runs have besides.
const SOME_KEYS: [&str; 8] = [
    "log",
    "latency_us_read",
    "latency_us_write",
    "readers_waited",
    "offered_rate",
    "checkpoints",
    "disk",
    "recovery",
];

const SMALL_BANK: [&str; 5] =
    ["bench", "debit-credit", "--accounts-per-branch=500", "--transactions=1000", "--json"];

fn with<'a>(base: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [base, more].concat()
}

fn keys(object: &Value) -> BTreeSet<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

fn number(object: &Value, path: &str) -> f64 {
    object.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no number at {path}: {object}"))
}

#[test]
fn debit_credit_reports_the_described_keys_and_no_others() {
    let object = json_once(&SMALL_BANK[..3], |object| number(object, "/log/groups") > 0.0);
    let found = keys(&object);
    for key in KEYS {
        assert!(found.contains(key), "{key} is missing");
    }
    let known: BTreeSet<&str> = KEYS.into_iter().chain(SOME_KEYS).collect();
    assert!(found.is_subset(&known), "{:?}", found.difference(&known));
    assert_eq!(object["check"], "ok");
    assert_eq!((&object["workload"], &object["durability"]), (&"debit-credit".into(), &"group".into()));
    assert_eq!(object["clients"], 0);
    assert_eq!(object["params"]["accounts_per_branch"], 500);
    assert_eq!(keys(&object["latency_us"]), BTreeSet::from(["mean", "p50", "p95", "p99", "p999", "max"]));
    assert_eq!(keys(&object["aborts"]), BTreeSet::from(["write", "read"]));
    assert_eq!(keys(&object["log"]), BTreeSet::from(["groups", "mean_group", "bytes", "flushes"]));
    let transaction = &object["by_transaction"]["debit-credit"];
    assert_eq!(keys(transaction), BTreeSet::from(["committed", "aborted", "failed", "mean_us"]));
    assert_eq!(transaction["committed"], object["committed"]);
    assert!(number(&object, "/committed") > 0.0);
    let seconds = number(&object, "/seconds");
    assert!((number(&object, "/throughput") - number(&object, "/committed") / seconds).abs() < 1.0);
    assert!(number(&object, "/log/flushes") >= number(&object, "/log/groups"));
    assert!(!object["throughput_over_time"].as_array().unwrap().is_empty());
    assert!(number(&object, "/peak_rss_bytes") > 1e6);
    for (table, bytes) in object["bytes_per_row"].as_object().unwrap() {
        let has_rows = bytes["row"].is_number();
        assert_eq!(bytes["indexes"].is_number(), has_rows, "{table}: {bytes}");
    }
}

#[test]
fn the_object_is_the_last_line_and_progress_is_silent_in_a_pipe() {
    let output = heddle(&SMALL_BANK);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn without_json_a_table_ends_the_run() {
    let text =
        succeed(&["bench", "debit-credit", "--accounts-per-branch=500", "--seconds=0.3", "--bad-percent=5"]);
    for words in [
        "debit-credit",
        "committed",
        "per second",
        "wrong access code",
        "check: ok, before and after recovery",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn clients_wait_for_durable_answers_in_groups() {
    let object = json(&with(&SMALL_BANK, &["--clients=8"]));
    assert_eq!((&object["check"], &object["clients"]), (&"ok".into(), &8.into()));
    assert!(number(&object, "/log/mean_group") >= 1.0);
    assert!(number(&object, "/latency_us/p50") > 0.0);
    let means = object["handover_mean"].as_object().unwrap();
    assert!(means.values().all(|mean| mean.as_f64().is_some_and(|mean| mean >= 1.0)), "{means:?}");
}

/// Pauses make transactions overlap, so that some abort and retry.
#[test]
fn aborts_are_counted_by_transaction_whichever_thread_calls() {
    let hot = ["bench", "smallbank", "--accounts=4", "--hot=0", "--think-us=500", "--threads=4"];
    let run = ["--transactions=400", "--durability=none", "--retry=immediate", "--json"];
    for callers in ["--clients=0", "--clients=4", "--generators=1"] {
        let object = json(&[&hot[..], &run, &[callers]].concat());
        let transactions = object["by_transaction"].as_object().unwrap().values();
        let aborted: f64 = transactions.map(|one| number(one, "/aborted")).sum();
        assert!(aborted > 0.0, "{callers}: {object}");
        assert_eq!(aborted, number(&object, "/aborted"), "{callers}");
    }
}

#[test]
fn bad_calls_are_counted_and_leave_no_trace() {
    for clients in ["--clients=0", "--clients=3"] {
        let object = json(&with(&SMALL_BANK, &["--bad-percent=30", clients]));
        assert_eq!(object["check"], "ok");
        let failed = number(&object, "/failed");
        let share = failed / (failed + number(&object, "/committed"));
        assert!((0.2..0.4).contains(&share), "{share}");
        assert_eq!(
            object.pointer("/by_transaction/debit-credit/failed_by_reason/wrong access code"),
            Some(&object["failed"])
        );
    }
}

#[test]
fn every_durability_stage_layout_and_variant_keeps_the_books() {
    let variations: [&[&str]; 11] = [
        &["--durability=none"],
        &["--durability=async"],
        &["--stages=staged", "--clients=4"],
        &["--stages=folded", "--clients=4"],
        &["--stages=staged", "--clients=4", "--input-threads=2", "--output-threads=2"],
        &["--protocol=serial", "--variant=naive"],
        &["--protocol=serial", "--variant=precommit", "--clients=4"],
        &["--protocol=serial", "--sites=2", "--branches=3", "--clients=4"],
        &["--preset=tpk", "--threads=1"],
        &["--group-ms=20", "--group-size=50", "--clients=4"],
        &["--input-us=100", "--generators=1"],
    ];
    let base = ["bench", "debit-credit", "--accounts-per-branch=500", "--transactions=300", "--json"];
    for variation in variations {
        let object = json(&with(&base, variation));
        assert_eq!((&object["check"], &object["committed"]), (&"ok".into(), &300.into()), "{variation:?}");
    }
}

#[test]
fn a_number_of_transactions_is_exact() {
    let base = ["bench", "debit-credit", "--accounts-per-branch=500", "--transactions=777", "--json"];
    for clients in ["--clients=0", "--clients=3"] {
        assert_eq!(json(&with(&base, &[clients]))["committed"], 777);
    }
}

#[test]
fn an_offered_rate_is_reported() {
    let offered = ["--clients=4", "--rate=200", "--durability=none"];
    let object = json_once(&with(&SMALL_BANK[..3], &offered), |object| number(object, "/committed") > 0.0);
    assert_eq!(number(&object, "/offered_rate"), 200.0);
    // The arrivals are planned: there are never more than those, on however fast a machine.
    assert!(number(&object, "/throughput") < 340.0, "{}", object["throughput"]);
}

#[test]
fn probe_tells_readers_from_updaters() {
    let base = [
        "bench",
        "probe",
        "--records=500",
        "--transactions=500",
        "--update-percent=30",
        "--durability=none",
        "--json",
    ];
    let ways: [&[&str]; 3] = [&["--clients=4"], &["--clients=4", "--through-pipeline"], &["--clients=0"]];
    for way in ways {
        let object = json(&with(&base, way));
        assert_eq!(object["check"], "ok", "{way:?}");
        assert!(
            number(&object, "/latency_us_read/p50") > 0.0 && number(&object, "/latency_us_write/p50") > 0.0
        );
        assert_eq!(keys(&object["by_transaction"]), BTreeSet::from(["read", "update"]));
        assert!(object["readers_waited"].is_number());
    }
}

/// Small runs of the workloads whose calls touch single records.
const SINGLE_RECORDS: [&[&str]; 14] = [
    &["incr1", "--keys=200", "--hot-percent=50", "--rmw"],
    &["incr1", "--keys=20", "--operation=top-k"],
    &["incr1", "--keys=20", "--rotate-operation", "--rotate-seconds=0.02"],
    &["incr1", "--keys=200", "--hot-percent=50"],
    &["incr1", "--keys=200", "--rotate-seconds=0.1"],
    &["incrz", "--keys=200", "--alpha=1.4"],
    &["like", "--users=200", "--pages=200"],
    &["bookings", "--nights=60", "--guides=5"],
    &["flash-sale", "--items=20", "--stock=1000"],
    &["flash-sale", "--items=2", "--stock=60", "--view-percent=20"],
    &["rubis", "--users=200", "--items=50"],
    &["rubis", "--users=200", "--items=50", "--mix=c"],
    &["ycsb", "--records=200", "--rmw", "--theta=0.99"],
    &["ycsb", "--records=200", "--value-size=100"],
];

/// Each run's own check holds under each protocol.
fn run_under_every_protocol(workloads: &[&[&str]]) {
    for workload in workloads {
        for protocol in ProtocolKind::ALL {
            let protocol = format!("--protocol={protocol}");
            let more = ["--transactions=500", "--threads=2", "--durability=none", "--json", &protocol];
            let object = json(&[&["bench"][..], workload, &more].concat());
            assert_eq!(object["check"], "ok", "{workload:?} {protocol}");
            assert!(number(&object, "/committed") > 0.0, "{workload:?} {protocol}");
        }
    }
}

#[test]
fn small_workloads_keep_their_sums_under_every_protocol() {
    run_under_every_protocol(&SINGLE_RECORDS);
}

/// One item is sold to the last piece and no further, also in what recovery finds; audits go on beside the sale.
#[test]
fn a_flash_sale_sells_out_exactly_and_is_audited() {
    for protocol in ["--protocol=phased", "--protocol=partitioned"] {
        let sale = ["bench", "flash-sale", "--items=1", "--stock=300", "--threads=8", "--view-percent=10"];
        let run = ["--transactions=3000", "--verify-recovery", "--json", protocol];
        let object = json(&with(&sale, &run));
        assert_eq!(object["check"], "ok", "{protocol}");
        let order = &object["by_transaction"]["order"];
        assert_eq!(number(order, "/committed"), 300.0, "{protocol}: {order}");
        assert!(number(order, "/failed") > 0.0, "{protocol}: {order}");
        assert!(number(&object, "/audits/count") >= 1.0, "{protocol}: {}", object["audits"]);
        assert!(object["audits"]["wrong"].is_null());
    }
    let none = json(&["bench", "incr1", "--keys=20", "--transactions=200", "--durability=none", "--json"]);
    assert!(none["audits"].is_null(), "it has none");
}

#[test]
fn locks_are_counted_for_every_hundred_calls() {
    let run = |workload: &[&str], protocol: &str| {
        let more = ["--transactions=5000", "--threads=2", "--durability=none", "--json", protocol];
        json(&with(&["bench"], &with(workload, &more)))
    };
    let single = SINGLE_RECORDS[3];
    let object = run(single, "--protocol=locking");
    // A record each; its table and the database.
    assert!((number(&object, "/locks_per_100/row") - 100.0).abs() < 5.0, "{object}");
    assert!((number(&object, "/locks_per_100/higher") - 200.0).abs() < 10.0, "{object}");
    assert_eq!(number(&object, "/locks_per_100/local"), 0.0);
    let none = serde_json::json!({ "row": 0.0, "higher": 0.0, "local": 0.0 });
    let object = run(single, "--protocol=optimistic");
    assert_eq!((&object["locks_per_100"], &object["lock_requests_per_100"]), (&none, &Value::Null));
    // One record at one executor each: it asks for one, and none is entered in a lock table.
    let object = run(single, "--protocol=partitioned");
    assert_eq!(object["locks_per_100"], none);
    assert!((number(&object, "/lock_requests_per_100") - 100.0).abs() < 5.0, "{object}");
    // Two customers, mostly at two executors, which hold their locks until both have ended; no lock manager is involved.
    let amalgamate = ["smallbank", "--only=amalgamate", "--accounts=400", "--hot=0"];
    let object = run(&with(&amalgamate, &["--executors=4"]), "--protocol=partitioned");
    assert!(number(&object, "/locks_per_100/local") > 100.0, "{object}");
    assert_eq!((number(&object, "/locks_per_100/row"), number(&object, "/locks_per_100/higher")), (0.0, 0.0));
    let object = run(&amalgamate, "--protocol=locking");
    assert!(number(&object, "/locks_per_100/row") > 200.0, "{object}");
}

/// Tests that a waiting stage is not busy: neither while it waits for the log with everything locked, nor for
/// a partition.
#[test]
fn a_stage_is_busy_only_while_it_works() {
    let naive =
        ["--protocol=serial", "--variant=naive", "--threads=4", "--group-ms=20", "--seconds=0.6", "--json"];
    let object = json(&with(&SMALL_BANK[..3], &naive));
    let execute = number(&object, "/stage_busy/execute");
    // Each transaction holds the only partition for the 20 ms of its group; the work of one takes microseconds.
    assert!(execute < 0.5, "{execute}: {object}");
    let object =
        json(&with(&SMALL_BANK[..3], &["--durability=none", "--threads=1", "--seconds=0.6", "--json"]));
    let execute = number(&object, "/stage_busy/execute");
    assert!(execute > 0.01 && execute <= 1.05, "one worker that only works: {execute}");
}

#[test]
fn the_load_of_the_processors_is_reported() {
    let run = |more: &[&str]| number(&json(&with(&SMALL_BANK[..3], more)), "/processor_load");
    let idle = run(&["--clients=1", "--rate=5", "--durability=none", "--seconds=1", "--json"]);
    let busy = run(&["--threads=2", "--durability=none", "--seconds=1", "--json"]);
    assert!((0.0..=1.0).contains(&idle) && busy <= 1.0 && idle < busy, "{idle}, {busy}");
}

#[test]
fn parameters_name_the_preset_and_the_configuration() {
    let object = json(&with(&SMALL_BANK, &["--preset=tpk", "--configuration=a", "--durability=none"]));
    assert_eq!(
        (&object["params"]["preset"], &object["params"]["configuration"]),
        (&"tpk".into(), &"a".into())
    );
    let object = json(&SMALL_BANK);
    assert_eq!(
        (&object["params"]["preset"], &object["params"]["configuration"]),
        (&Value::Null, &Value::Null)
    );
}

/// All load goes to the first executor's range after a moment, and boundaries follow; or they do not, if they may not.
#[test]
fn boundaries_follow_a_load_that_shifts() {
    let run = |boundaries: &str, shows: &dyn Fn(&Value) -> bool| {
        let shifting =
            ["bench", "tatp", "--subscribers=2000", "--threads=2", "--executors=2", "--shift-seconds=0.3"];
        let shifting = with(&shifting, &["--protocol=partitioned", "--durability=none", boundaries]);
        json_once(&shifting, shows)
    };
    let balanced = |object: &Value| {
        let share = number(object, "/partitions/0/share");
        number(object, "/partitions/0/to") < 0.4 && (0.2..0.8).contains(&share)
    };
    let moved = run("--boundaries=moving", &balanced);
    assert_eq!(moved["check"], "ok");
    assert_eq!(moved["partitions"].as_array().map(Vec::len), Some(2));
    assert!(number(&moved, "/partitions/0/moves") >= 1.0, "{moved}");
    let fixed = run("--boundaries=fixed", &|object| number(object, "/partitions/0/share") > 0.9);
    assert_eq!(number(&fixed, "/partitions/0/to"), 0.5);
}

#[test]
fn the_parts_of_a_run_whose_load_shifts_are_reported() {
    let shifting = ["bench", "tatp", "--subscribers=200", "--shift-seconds=0.3", "--seconds=2.8"];
    let of = ["--protocol=partitioned", "--durability=none"];
    let object = json(&[&shifting[..], &of, &["--json"]].concat());
    let (before, after) = (number(&object, "/shift/before"), number(&object, "/shift/after"));
    let returned = if before > 0.0 { after / before } else { 0.0 };
    assert!((number(&object, "/shift/returned") - returned).abs() < 1e-6, "{object}");
    let reported = succeed(&[&shifting[..], &of, &["--warmup=0.1"]].concat());
    assert!(reported.contains("before the load shifted") && reported.contains("of before)"), "{reported}");
    let steady = ["bench", "tatp", "--subscribers=200", "--transactions=50", "--durability=none", "--json"];
    assert!(json(&steady).get("shift").is_none());
}

#[test]
fn the_plan_of_calls_over_several_executors_is_reported() {
    let run = |plan: &str, workload: &[&str]| {
        let more =
            ["--executors=3", "--durability=none", "--transactions=800", "--protocol=partitioned", "--json"];
        let object = json(
            &[&["bench"][..], workload, &more, &["--routing=apart", "--boundaries=fixed", plan]].concat(),
        );
        assert_eq!(object["check"], "ok");
        (number(&object, "/plans/parallel"), number(&object, "/plans/serial"))
    };
    let failing = ["tatp", "--subscribers=500", "--only=update-subscriber-data", "--clients=4"];
    let (parallel, serial) = run("--plan=auto", &failing);
    assert!(serial > 4.0 * parallel, "{parallel} {serial}");
    let (parallel, serial) = run("--plan=parallel", &failing);
    assert!(parallel > 0.0 && serial == 0.0, "{parallel} {serial}");
    let one = ["tpcc", "--items=200", "--customers=30", "--only=new-order", "--clients=1", "--think-us=20"];
    let (parallel, serial) = run("--plan=auto", &one);
    assert!(parallel > 0.0 && serial < 0.1 * parallel, "{parallel} {serial}");
    let (parallel, serial) = run("--plan=serial", &one);
    assert!(parallel == 0.0 && serial > 0.0, "{parallel} {serial}");
}

/// More threads than the engine has worker contexts by default.
#[test]
fn as_many_threads_as_asked_for_get_their_worker_contexts() {
    let run = ["bench", "incr1", "--keys=100", "--threads=300", "--durability=none", "--transactions=2000"];
    for more in [&["--json"][..], &["--clients=20", "--json"]] {
        let object = json(&with(&run, more));
        assert_eq!((&object["check"], &object["threads"]), (&"ok".into(), &300.into()));
    }
}

#[test]
fn small_workloads_recover() {
    for workload in SINGLE_RECORDS {
        let more = ["--seconds=0.2", "--clients=3", "--verify-recovery", "--json"];
        let object = json(&[&["bench"], workload, &more].concat());
        assert_eq!(object["check"], "ok", "{workload:?}");
        assert_eq!(object["params"]["retry"], "backoff");
    }
}

#[test]
fn reading_and_writing_conflicts_where_adding_does_not() {
    let hot = ["bench", "incr1", "--keys=20", "--hot-percent=100", "--threads=4", "--think-us=200"];
    let run = ["--transactions=400", "--durability=none", "--retry=immediate", "--json"];
    let aborted = |more: &[&str]| number(&json(&[&hot[..], &run, more].concat()), "/aborted");
    assert!(aborted(&["--rmw"]) > 0.0);
    assert_eq!(aborted(&["--protocol=serial"]), 0.0);
}

#[test]
fn tpc_b_has_a_name_of_its_own() {
    let object = json(&with(&SMALL_BANK, &["--preset=tpc-b"]));
    assert_eq!((&object["check"], &object["params"]["preset"]), (&"ok".into(), &"tpc-b".into()));
    assert_eq!(keys(&object["by_transaction"]), BTreeSet::from(["tpc-b"]));
}

/// Small runs of whole applications.
const APPLICATIONS: [&[&str]; 8] = [
    &["debit-credit", "--accounts-per-branch=100", "--branches=3", "--preset=tpc-b"],
    &["debit-credit", "--accounts-per-branch=100", "--branches=3"],
    &["tpcc", "--items=200", "--customers=30"],
    &["tpcc", "--items=200", "--customers=30", "--warehouses=1", "--mix=neworder-payment"],
    &["tpcc", "--items=200", "--customers=30", "--remote-percent=100", "--alpha=2"],
    &["tatp", "--subscribers=300"],
    &["tatp", "--subscribers=100", "--mix=paper", "--hot=5", "--hot-percent=90"],
    &["tatp", "--subscribers=100", "--only=update-by-number", "--probe-records=10"],
];

#[test]
fn applications_hold_together_under_every_protocol() {
    run_under_every_protocol(&APPLICATIONS);
}

#[test]
fn applications_recover() {
    for workload in APPLICATIONS {
        for path in ["--clients=3", "--threads=3"] {
            let object = json(
                &[&["bench"], workload, &["--seconds=0.2", "--verify-recovery", "--json", path]].concat(),
            );
            assert_eq!(object["check"], "ok", "{workload:?} {path}");
        }
    }
}

#[test]
fn likes_and_reads_have_latencies_of_their_own() {
    let object = json(&["bench", "like", "--users=200", "--pages=200", "--transactions=2000", "--json"]);
    assert_eq!(keys(&object["by_transaction"]), BTreeSet::from(["like", "read"]));
    assert!(number(&object, "/latency_us_read/p50") > 0.0 && number(&object, "/latency_us_write/p50") > 0.0);
}

#[test]
fn a_contender_is_shown_as_no_engine() {
    let base = ["bench", "incr1", "--keys=200", "--hot-percent=100", "--contender=atomic", "--seconds=0.2"];
    let object = json_once(&base[..5], |object| number(object, "/committed") > 0.0);
    assert_eq!((&object["protocol"], &object["check"]), (&"atomic".into(), &"ok".into()));
    assert_eq!(object["durability"], "none");
    let text = succeed(&base);
    assert!(text.contains("outside of the engine") && text.contains("check: ok"), "{text}");
    let counted = json(&with(&base[..5], &["--transactions=1000", "--json"]));
    assert_eq!(counted["committed"], 1_000);
}

#[test]
fn phases_and_what_was_split_by_hand_are_reported() {
    let base = ["bench", "incr1", "--keys=200", "--hot-percent=100", "--threads=2", "--durability=none"];
    let split = ["--protocol=phased", "--split=incr1.value:1:add", "--phase-ms=2"];
    let has_phases = |object: &Value| {
        number(object, "/phased/phases/split") > 0.0 && number(object, "/phased/phases/joined") > 0.0
    };
    let object = json_once(&[&base[..], &split].concat(), has_phases);
    assert_eq!(object["check"], "ok");
    assert_eq!(keys(&object["phased"]), BTreeSet::from(["phases", "split", "stashed"]));
    let split_columns = object["phased"]["split"].as_array().unwrap();
    let hot = split_columns.iter().find(|column| column["key"] == "1").expect("the label");
    let place = (&hot["table"], &hot["column"], &hot["operation"]);
    assert_eq!(place, (&"incr1".into(), &"value".into(), &"add".into()));
    assert_eq!(
        (&object["params"]["split"][0], &object["params"]["phase_ms"]),
        (&"incr1.value:1:add".into(), &2.0.into())
    );
    let text = succeed(&[&base[..], &split, &["--seconds=0.5"]].concat());
    assert!(
        text.contains("phases joined / split / merged") && text.contains("split: incr1.value of 1"),
        "{text}"
    );
    let joined_only = json(&[&base[..], &["--protocol=optimistic", "--seconds=0.1", "--json"]].concat());
    assert!(joined_only.get("phased").is_none());
}

#[test]
fn reads_of_a_split_record_wait_for_the_joined_phase_and_are_all_counted() {
    let most_popular = 1;
    let split = format!("--split=page.likes:{most_popular}:add");
    let base =
        ["bench", "like", "--users=200", "--pages=1", "--protocol=phased", "--phase-ms=5", "--threads=2"];
    let split = [&base[..], &["--durability=none", &split]].concat();
    let object = json_once(&split, |object| number(object, "/phased/stashed") > 0.0);
    assert_eq!((&object["check"], &object["failed"]), (&"ok".into(), &0.into()));
    let object = json(&[&split[..], &["--transactions=20000", "--json"]].concat());
    assert_eq!((&object["check"], &object["committed"]), (&"ok".into(), &20_000.into()));
}

/// The hot key takes all calls until it moves: as many keys were counted as were hot, and the table shows each half second.
#[test]
fn where_the_hot_key_moves_the_throughput_over_time_is_shown() {
    let directory = tempfile::tempdir().unwrap();
    let counted = |name: &str, more: &[&str]| {
        let path = directory.path().join(name);
        let base =
            ["bench", "incr1", "--keys=200", "--hot-percent=100", "--seconds=1.2", "--dir", text(&path)];
        let printed = succeed(&with(&base, more));
        let series = printed.lines().skip_while(|line| !line.starts_with("second")).skip(1);
        let seconds = series.filter_map(|line| line.split_whitespace().next()).take(3).map(str::to_owned);
        let rows = succeed(&["dump", text(&path), "incr1"]);
        let counts = rows.lines().skip(1).filter(|row| !row.ends_with(",0")).count();
        (seconds.collect::<Vec<_>>(), counts)
    };
    assert_eq!(counted("still", &[]), (vec![], 1));
    // On a busy machine no call may come while the third key is hot, or the run lasts until there is a fourth one.
    let expected = (["0.0", "0.5", "1.0"].map(str::to_owned).to_vec(), 3);
    let mut moving = (0..5).map(|run| counted(&format!("moving-{run}"), &["--rotate-seconds=0.5"]));
    assert!(moving.any(|shown| shown == expected), "never three keys, each for half a second");
}

/// Killed in a way that no process can notice, a run leaves nothing behind.
#[test]
fn a_killed_run_leaves_no_directory() {
    let place = tempfile::tempdir().unwrap();
    let made = || std::fs::read_dir(place.path()).unwrap().count();
    let base = ["bench", "debit-credit", "--accounts-per-branch=500", "--seconds=600"];
    let mut child = common::command(&base)
        .env("TMPDIR", place.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while made() == 0 {
        assert!(
            std::time::Instant::now() < patience && child.try_wait().unwrap().is_none(),
            "no directory is made"
        );
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    while made() > 0 {
        assert!(std::time::Instant::now() < patience, "the directory stays");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}
