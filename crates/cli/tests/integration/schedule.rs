//! Benchmark runs whose calls are placed by a schedule.

use std::collections::BTreeSet;

use crate::common::{heddle, json, json_once};
use heddledb::ProtocolKind;
use serde_json::Value;

fn with<'a>(base: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [base, more].concat()
}

fn keys(object: &Value) -> BTreeSet<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

fn number(object: &Value, path: &str) -> f64 {
    object.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no number at {path}: {object}"))
}

const PLACED: [&str; 6] =
    ["bench", "smallbank", "--accounts=200", "--threads=4", "--durability=none", "--retry=immediate"];

fn has_committed(object: &Value) -> bool {
    number(object, "/committed") > 0.0
}

#[test]
fn generators_place_calls_by_every_schedule_and_the_books_agree() {
    for schedule in ["random", "partition", "predict"] {
        let history = if schedule == "predict" { "--history-seconds=0.3" } else { "--warmup=0.1" };
        let placed = with(&PLACED, &["--schedule", schedule, "--generators=2", history]);
        let predicts = schedule == "predict";
        let object = json_once(&placed, |object| {
            has_committed(object) && (!predicts || number(object, "/schedule_state/history_references") > 0.0)
        });
        assert_eq!((&object["check"], &object["schedule"]), (&"ok".into(), &schedule.into()));
        assert_eq!(object["params"]["generators"], 2);
        assert_eq!(keys(&object).contains("schedule_state"), predicts);
        assert_eq!(keys(&object).contains("policy"), predicts);
        if predicts {
            assert_eq!(object["policy"], "count-max-canonical-single");
            assert_eq!(
                keys(&object["schedule_state"]),
                BTreeSet::from(["history_references", "state_references", "idle_mode", "bytes"])
            );
        }
    }
}

#[test]
fn terminals_stay_at_home_unless_there_is_something_to_place() {
    let tpcc =
        ["bench", "tpcc", "--items=40", "--customers=20", "--durability=none", "--transactions=50", "--json"];
    for (more, terminals, generators) in [
        (&[][..], "home", Value::Null),
        (&["--clients=2"], "home", Value::Null),
        (&["--alpha=1"], "any", Value::Null),
        (&["--terminals=any"], "any", Value::Null),
        (&["--schedule=random"], "any", 1.into()),
        (&["--schedule=random", "--clients=2"], "any", Value::Null),
        (&["--schedule=random", "--terminals=home"], "home", 1.into()),
    ] {
        let object = json(&with(&tpcc, more));
        assert_eq!(object["params"]["terminals"], terminals, "{more:?}");
        assert_eq!(object["params"]["generators"], generators, "{more:?}");
        assert_eq!(object["check"], "ok");
    }
}

#[test]
fn predict_runs_under_every_protocol_that_leaves_placing_to_it_with_a_log_and_clients() {
    for protocol in
        ProtocolKind::ALL.iter().filter(|protocol| !["serial", "partitioned"].contains(&protocol.name()))
    {
        let arguments = ["--schedule=predict", "--history-seconds=0.2", "--protocol", protocol.name()];
        let base = ["bench", "smallbank", "--accounts=200", "--threads=3", "--seconds=0.4", "--json"];
        let durable = json(&with(&with(&base, &arguments), &["--verify-recovery"]));
        assert_eq!((&durable["check"], &durable["protocol"]), (&"ok".into(), &protocol.name().into()));
        let clients = json(&with(&with(&base, &arguments), &["--clients=4", "--durability=none"]));
        assert_eq!((&clients["check"], &clients["clients"]), (&"ok".into(), &4.into()));
    }
}

#[test]
fn the_usual_workloads_run_under_predict_and_partition() {
    let tpcc = ["bench", "tpcc", "--warehouses=2", "--items=200", "--customers=20", "--mix=neworder-payment"];
    let tatp = ["bench", "tatp", "--subscribers=300", "--mix=paper", "--hot=20", "--hot-percent=90"];
    for workload in [&tpcc[..], &tatp[..]] {
        for schedule in [&["--schedule=predict", "--history-seconds=0.2"][..], &["--schedule=partition"]] {
            let common = ["--threads=3", "--durability=none"];
            let object = json_once(&with(&with(workload, schedule), &common), has_committed);
            assert_eq!(object["check"], "ok", "{workload:?} {schedule:?}");
        }
    }
}

/// Rivals of `bookings` have no key in common: what the schedule can know them by are intervals and inserted values.
#[test]
fn intervals_and_inserted_values_predict_conflicts_that_no_key_tells() {
    let bookings = ["bench", "bookings", "--threads=8", "--think-us=200", "--durability=none"];
    let placed = ["--schedule=predict", "--history-seconds=0.3", "--warmup=0.5", "--retry=immediate"];
    for tours in ["--tour-percent=0", "--tour-percent=100"] {
        let run = with(&with(&bookings, &placed), &[tours]);
        let keys_only = json_once(&with(&run, &["--keys-only"]), |object| number(object, "/aborted") > 100.0);
        let of_keys = number(&keys_only, "/abort_rate");
        let object =
            json_once(&run, |object| has_committed(object) && number(object, "/abort_rate") < of_keys / 3.0);
        assert_eq!((&object["check"], &object["params"]["keys_only"]), (&"ok".into(), &false.into()));
    }
}

#[test]
fn a_shift_of_the_distribution_is_part_of_the_run() {
    let arguments = [
        "bench",
        "tpcc",
        "--warehouses=3",
        "--items=200",
        "--customers=20",
        "--alpha=1",
        "--shift-seconds=0.2",
    ];
    let common =
        ["--seconds=0.6", "--durability=none", "--json", "--schedule=predict", "--history-seconds=0.1"];
    let object = json(&with(&arguments, &common));
    assert_eq!((&object["check"], number(&object, "/params/shift_seconds")), (&"ok".into(), 0.2));
    assert!(heddle(&["bench", "tpcc", "--shift-seconds=5"]).status.code() == Some(2), "it needs --alpha");
}

#[test]
fn the_rate_for_a_response_time_is_searched_and_reported() {
    // The queues are full at full load: no machine meets this target without throttling.
    let target = ["--schedule=partition", "--think-us=200", "--target-mean-ms=0.5"];
    let object = json_once(&with(&PLACED, &target), has_committed);
    assert_eq!(object["check"], "ok", "calls of the search count for the check");
    assert_eq!(number(&object, "/params/target_mean_ms"), 0.5);
    assert!(number(&object, "/offered_rate") > 0.0);
}

#[test]
fn a_target_that_is_met_at_full_load_is_marked() {
    let target = with(&PLACED, &["--schedule=random", "--target-mean-ms=1000000"]);
    let object = json_once(&target, |object| object.get("unthrottled").is_some());
    assert_eq!((&object["check"], &object["unthrottled"]), (&"ok".into(), &true.into()));
    assert!(object.get("offered_rate").is_none());
    let none = json(&with(&PLACED, &["--transactions=50", "--json"]));
    assert!(none.get("unthrottled").is_none(), "where there is no target, nothing is said");
}

/// TPC-C refuses districts without customers, so that one run of each protocol fails.
#[test]
fn a_table_of_figures_goes_on_after_a_run_that_fails() {
    let aborts = ["figures", "aborts", "--quick", "--threads=2", "--think-us=0", "--protocol=locking"];
    let output = heddle(&with(&aborts, &["--customers=0", "--json"]));
    let reported = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{reported}");
    assert!(reported.contains("1 of 3 runs failed") && reported.contains("--customers"), "{reported}");
    let table: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = table["aborts"].as_array().unwrap();
    assert_eq!(rows.len(), 3);
    for (row, workload) in rows.iter().zip(["smallbank", "tatp", "tpcc"]) {
        assert_eq!(row["workload"], workload);
        assert_eq!(row["failed"] == true, workload == "tpcc", "{row}");
        assert_eq!(row["write"].is_number(), workload != "tpcc", "{row}");
    }
    let text = heddle(&with(&aborts, &["--customers=0"]));
    assert!(String::from_utf8_lossy(&text.stdout).contains("failed"));
}

#[test]
fn automatic_admission_is_asked_for_by_name() {
    let run = ["--generators=1", "--transactions=50", "--json"];
    let object = json(&with(&PLACED, &with(&run, &["--max-in-flight=auto"])));
    assert_eq!((&object["check"], &object["params"]["max_in_flight"]), (&"ok".into(), &"auto".into()));
    assert!(number(&object, "/max_in_flight") >= 1.0, "the limit that was found");
    assert!(json(&with(&PLACED, &run)).get("max_in_flight").is_none());
}

#[test]
fn schedules_that_do_not_fit_are_wrong_usage_that_says_what_to_do() {
    for (arguments, words) in [
        (&["--schedule=predict", "--protocol=serial"][..], &["predict", "serial", "optimistic"][..]),
        (&["--policy=count-max-canonical-single"], &["--policy", "--schedule predict"]),
        (&["--schedule=predict", "--policy=best"], &["count-max-canonical-single"]),
        (&["--schedule=partition", "--partition-key=nothing"], &["partition_key", "nothing"]),
        (&["--generators=1", "--clients=4"], &["--generators", "--clients"]),
        (&["--generators=1", "--in-flight=4"], &["--in-flight", "--max-in-flight"]),
        (&["--target-mean-ms=0"], &["--target-mean-ms"]),
        (&["--generators=0"], &["--generators"]),
    ] {
        let output = heddle(&with(&PLACED, arguments));
        let reported = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {reported}");
        words.iter().for_each(|word| assert!(reported.contains(word), "{arguments:?}: {word}: {reported}"));
    }
    let output = heddle(&["bench", "probe", "--schedule=partition", "--seconds=0.1"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("--partition-key"));
}

#[test]
fn the_table_of_choices_compares_auto_with_each_fixed_protocol() {
    let choices = ["figures", "choices", "--quick", "--seconds=0.05", "--only=hot-percent 10", "--only=like"];
    let output = heddle(&with(&choices, &["--json"]));
    let reported = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{reported}");
    let table: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = table["choices"].as_array().unwrap();
    assert_eq!(rows.len(), 4, "two of incr1 and one of its read-modify-writes, and like: {table}");
    for row in rows {
        for protocol in ProtocolKind::ALL {
            assert!(row["per_second"][protocol.name()].is_number(), "{row}");
        }
    }
    assert!(reported.contains("24 of 24"), "{reported}");
    let none = heddle(&["figures", "choices", "--only=magic"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&none.stderr).contains("smallbank"), "it names them all");
}
