//! Tests of the measures of thread-to-data execution, from the command line: shares of time, and the threads
//! that touch each record.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{errors, heddle, json, json_once, succeed, text};
use heddledb::ProtocolKind;
use serde_json::Value;

/// Activities of executing threads.
const SHARES: [&str; 9] = [
    "work",
    "lock_acquire",
    "lock_acquire_wait",
    "lock_release",
    "lock_release_wait",
    "latch",
    "log",
    "handover",
    "idle",
];

const TPCC: [&str; 6] = ["bench", "tpcc", "--items=200", "--customers=30", "--warehouses=2", "--threads=2"];

fn with<'a>(base: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [base, more].concat()
}

fn share(object: &Value, name: &str) -> f64 {
    object["time_share"][name].as_f64().unwrap_or_else(|| panic!("no share of {name}: {object}"))
}

#[test]
fn shares_of_time_sum_to_one_under_every_protocol() {
    for protocol in ProtocolKind::ALL {
        let protocol = format!("--protocol={protocol}");
        let run = with(&TPCC, &["--durability=none", "--time-samples=1000", &protocol]);
        // Workers that no transaction is sent to are not counted.
        let object = json_once(&run, |object| {
            object.get("time_share").is_some() && share(object, "work") > 0.05 && share(object, "idle") < 0.45
        });
        let names: BTreeSet<&str> =
            object["time_share"].as_object().expect("it is there").keys().map(String::as_str).collect();
        assert_eq!(names, BTreeSet::from(SHARES), "{protocol}");
        let sum: f64 = SHARES.iter().map(|name| share(&object, name)).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{protocol}: {sum}");
        assert_eq!(share(&object, "log"), 0.0, "nothing is logged");
    }
}

#[test]
fn lock_managers_take_time_where_there_is_one() {
    let run = |protocol, shows: &dyn Fn(&Value) -> bool| {
        let run = with(&TPCC, &["--durability=none", "--time-samples=1000", protocol]);
        json_once(&run, |object| object.get("time_share").is_some() && shows(object))
    };
    run("--protocol=locking", &|object| {
        share(object, "lock_acquire") > 0.01 && share(object, "lock_release") > 0.01
    });
    let optimistic = run("--protocol=optimistic", &|_| true);
    assert_eq!((share(&optimistic, "lock_acquire"), share(&optimistic, "lock_release")), (0.0, 0.0));
    // Local locks park transactions, and stop no thread.
    run("--protocol=partitioned", &|object| {
        share(object, "lock_acquire_wait") < 0.02 && share(object, "handover") > 0.0
    });
}

#[test]
fn clients_leave_workers_idle_and_a_log_takes_its_time() {
    let seen = |object: &Value| object.get("time_share").is_some();
    // Where stages are folded or staged, the client's own thread runs its calls, and the worker gets none.
    let idle = [
        "bench",
        "debit-credit",
        "--accounts-per-branch=100",
        "--clients=1",
        "--rate=50",
        "--threads=1",
        "--stages=single",
    ];
    json_once(&idle, |object| seen(object) && share(object, "idle") > 0.5);
    let naive = [
        "bench",
        "debit-credit",
        "--accounts-per-branch=100",
        "--protocol=serial",
        "--variant=naive",
        "--clients=2",
        "--threads=1",
    ];
    // A worker flushes while it holds the partition.
    json_once(&naive, |object| seen(object) && share(object, "log") > 0.2);
}

#[test]
fn without_samples_there_are_no_shares() {
    let object =
        json(&with(&TPCC, &["--durability=none", "--time-samples=0", "--transactions=50", "--json"]));
    assert_eq!(object.get("time_share"), None);
    let sampled = ["--durability=none", "--time-samples=1000", "--seconds=1"];
    assert!(succeed(&with(&TPCC, &sampled)).contains("executing threads were at"));
    let output = heddle(&with(&TPCC, &["--time-samples=10001"]));
    assert_eq!(output.status.code(), Some(2));
    assert!(errors(&output).contains("time_samples"), "{}", errors(&output));
}

/// The number of points of each color at each height, in a picture.
fn colors_by_height(picture: &str) -> Vec<(u32, BTreeMap<String, usize>)> {
    let attribute = |line: &str, name: &str| -> Option<String> {
        let rest = line.split(&format!(" {name}=\"")).nth(1)?;
        rest.split('"').next().map(str::to_owned)
    };
    let mut found = BTreeMap::<u32, BTreeMap<String, usize>>::new();
    // The points beside the names of threads are larger.
    for line in picture.lines().filter(|line| line.starts_with("<circle") && line.contains(" r=\"3\"")) {
        let height = attribute(line, "cy").and_then(|height| height.parse().ok()).expect("it has a height");
        let color = attribute(line, "fill").expect("it has a colour");
        *found.entry(height).or_default().entry(color).or_default() += 1;
    }
    found.into_iter().collect()
}

#[test]
fn the_access_trace_shows_whose_records_are_whose_where_they_are_anybodys() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("trace.svg");
    let draw = |protocol: &str, clients: &str| {
        let more = ["--access-trace", text(&file), "--access-trace-table=district", "--durability=none"];
        succeed(&with(
            &TPCC,
            &with(
                &more,
                &[
                    protocol,
                    clients,
                    "--mix=neworder-payment",
                    "--remote-percent=0",
                    "--terminals=any",
                    "--transactions=30000",
                ],
            ),
        ));
        std::fs::read_to_string(&file).unwrap()
    };
    for clients in ["--clients=0", "--clients=3"] {
        let picture = draw("--protocol=partitioned", clients);
        assert!(picture.contains("executor 0") && picture.contains("executor 1"), "{clients}");
        assert!(!picture.contains("thread "), "{clients}: no other thread touches a record");
        let records = colors_by_height(&picture);
        assert_eq!(records.len(), 20, "{clients}: two warehouses of ten districts");
        let mut owners = BTreeSet::new();
        for (height, colors) in &records {
            // A call over both runs on one of them where it does not run in parts: with the other one's locks.
            let (owner, most) = colors.iter().max_by_key(|(_, points)| **points).expect("it has points");
            let all: usize = colors.values().sum();
            assert!(*most as f64 > 0.7 * all as f64, "{clients}: {most} of {all} at {height}");
            owners.insert(owner);
        }
        assert_eq!(owners.len(), 2, "{clients}: both own some");
        assert!(picture.contains("seconds") && picture.contains("primary key"), "axes have units");
    }
    let mixed = draw("--protocol=optimistic", "--clients=0");
    assert!(colors_by_height(&mixed).iter().filter(|(_, colors)| colors.len() == 2).count() > 10);
    assert!(mixed.contains("thread ") && !mixed.contains("executor"));
}

#[test]
fn the_trace_is_of_the_table_with_most_accesses_and_small() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("trace.svg");
    let trace = ["--access-trace", text(&file), "--durability=none"];
    succeed(&with(&["bench", "tatp", "--subscribers=2000", "--threads=2", "--transactions=100000"], &trace));
    let picture = std::fs::read_to_string(&file).unwrap();
    assert!(picture.contains("accesses to subscriber") || picture.contains("accesses to access_info"));
    assert!(picture.len() < 1_000_000, "{} bytes", picture.len());
    assert!(picture.matches("<circle").count() > 500);
    let wrong = heddle(&with(&TPCC, &with(&trace, &["--access-trace-table=nothing", "--transactions=500"])));
    assert_eq!(wrong.status.code(), Some(2));
    assert!(errors(&wrong).contains("touched were"), "{}", errors(&wrong));
    let nowhere = ["--access-trace=/nonexistent/trace.svg", "--durability=none"];
    assert_eq!(heddle(&with(&TPCC, &with(&nowhere, &["--transactions=500"]))).status.code(), Some(1));
    assert_eq!(heddle(&with(&TPCC, &["--access-trace-table=district"])).status.code(), Some(2));
}
