//! A database that is kept: run on it again, check, inspect and dump it, and see what is wrong with it.

use crate::common;
use common::{errors, heddle, json, json_once, succeed, text};
use heddledb::{DataType, Database, Options, TableDefinition, row};

/// A bank of 500 accounts in a directory, with 300 transactions more.
fn bench(directory: &str) -> serde_json::Value {
    json(&[
        "bench",
        "debit-credit",
        "--accounts-per-branch=500",
        "--transactions=300",
        "--dir",
        directory,
        "--json",
    ])
}

#[test]
fn runs_add_up_and_everything_can_be_looked_at() {
    let directory = tempfile::tempdir().unwrap();
    let path = text(directory.path());
    for _ in 0..3 {
        assert_eq!(bench(path)["check"], "ok");
    }
    let checked = succeed(&["check", path]);
    assert!(checked.contains("engine: ok"), "{checked}");
    assert!(checked.contains("debit-credit: ok, 900 committed calls"), "{checked}");
    let inspected = succeed(&["inspect", path]);
    for words in ["account", "balance", "500", "history", "900", "log segments", "last durable epoch"] {
        assert!(inspected.contains(words), "{words}: {inspected}");
    }
    let dumped = succeed(&["dump", path, "history"]);
    assert_eq!(dumped.lines().count(), 901);
    assert_eq!(dumped.lines().next(), Some("branch,caller,sequence,teller,account_branch,account,amount"));
}

#[test]
fn a_dump_is_csv_that_adds_up() {
    let directory = tempfile::tempdir().unwrap();
    let path = text(directory.path());
    bench(path);
    let sum = |table: &str, column: &str| {
        let dumped = succeed(&["dump", path, table]);
        let mut reader = csv::Reader::from_reader(dumped.as_bytes());
        let place = reader.headers().unwrap().iter().position(|name| name == column).unwrap();
        reader.records().map(|record| record.unwrap()[place].parse::<i64>().unwrap()).sum::<i64>()
    };
    assert_eq!(sum("history", "amount"), sum("branch", "balance"));
    assert_eq!(sum("history", "amount"), sum("teller", "balance"));
}

#[test]
fn missing_tables_and_workloads_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = text(directory.path());
    bench(path);
    let output = heddle(&["dump", path, "acount"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(errors(&output).contains("acount"), "{}", errors(&output));
    let output = heddle(&["check", path, "--workload", "tpc-z"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(errors(&output).contains("debit-credit"), "{}", errors(&output));
    assert!(succeed(&["check", path, "--workload", "debit-credit"]).contains("debit-credit: ok"));
}

#[test]
fn a_bank_of_another_size_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = text(directory.path());
    bench(path);
    let output =
        heddle(&["bench", "debit-credit", "--accounts-per-branch=400", "--transactions=1", "--dir", path]);
    assert_eq!(output.status.code(), Some(2), "{}", errors(&output));
    assert!(errors(&output).contains("--accounts-per-branch"), "{}", errors(&output));
}

#[test]
fn acknowledged_calls_are_there_and_a_lost_one_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let (database, acks) = (directory.path().join("bank"), directory.path().join("acks"));
    let (database, acks_text) = (text(&database), text(&acks));
    for clients in ["--clients=0", "--clients=3"] {
        succeed(&[
            "bench",
            "debit-credit",
            "--accounts-per-branch=500",
            "--transactions=300",
            "--dir",
            database,
            "--acks",
            acks_text,
            clients,
        ]);
    }
    assert!(succeed(&["check", database, "--acks", acks_text]).contains("all 600 are there"));
    std::fs::write(&acks, "1 77 77\n").unwrap();
    let output = heddle(&["check", database, "--acks", acks_text]);
    assert_eq!(output.status.code(), Some(1));
    assert!(errors(&output).contains("1 77 77"), "{}", errors(&output));
}

#[test]
fn two_workloads_live_in_one_directory() {
    let directory = tempfile::tempdir().unwrap();
    let path = text(directory.path());
    bench(path);
    let probe = json(&["bench", "probe", "--records=100", "--transactions=50", "--dir", path, "--json"]);
    assert_eq!(probe["check"], "ok");
    let file = common::data("flights-bad.csv");
    let flights = json(&["bench", "flights", "--input", text(&file), "--dir", path, "--json"]);
    assert_eq!(flights["check"], "ok");
    let checked = succeed(&["check", path]);
    for name in ["debit-credit: ok", "probe: ok", "flights: ok, 26"] {
        assert!(checked.contains(name), "{name}: {checked}");
    }
}

#[test]
fn a_users_table_is_not_taken_for_a_workloads() {
    let directory = tempfile::tempdir().unwrap();
    let path = text(directory.path());
    let db = Database::open(path, Options::default()).unwrap();
    let page = TableDefinition::new("page").column("url", DataType::Text).column("views", DataType::Int64);
    let page = db.create_table(page.primary_key(["url"])).unwrap();
    db.run(|tx| tx.insert(&page, row!["/index.html", 7])).unwrap();
    db.close().unwrap();
    let checked = succeed(&["check", path]);
    assert!(checked.contains("engine: ok") && !checked.contains("like:"), "{checked}");
    let output = heddle(&["check", path, "--workload", "like"]);
    assert_eq!(output.status.code(), Some(1), "a workload that is named is checked");
    assert!(errors(&output).contains("page"), "{}", errors(&output));
}

#[test]
fn a_fifo_in_place_of_a_segment_is_an_error_and_not_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = text(directory.path());
    bench(path);
    let segment = directory.path().join("log/00000001.log");
    std::fs::remove_file(&segment).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&segment).status().unwrap().success());
    for command in ["check", "inspect"] {
        let output = heddle(&[command, path]);
        assert_eq!(output.status.code(), Some(1), "{}", errors(&output));
        let reported = errors(&output);
        assert!(reported.contains("00000001.log") && reported.contains("not a regular file"), "{reported}");
    }
}

#[test]
fn checkpoints_are_made_during_a_run_counted_and_checked() {
    let directory = tempfile::tempdir().unwrap();
    let (path, parts) = (directory.path().join("bank"), directory.path().join("parts"));
    let (path, parts) = (text(&path), text(&parts));
    let bench = ["bench", "debit-credit", "--accounts-per-branch=500", "--dir", path];
    let pace = ["--checkpoint-seconds=0.1", "--verify-recovery"];
    let run = json_once(&[&bench[..], &pace].concat(), |run| {
        run["checkpoints"]["made"].as_u64() > Some(1) && run["stage_busy"]["checkpoint"].as_f64() > Some(0.0)
    });
    assert_eq!((&run["check"], &run["checkpoints"]["failed"]), (&"ok".into(), &0.into()));
    assert!(run["checkpoints"]["bytes"].as_u64() > Some(10_000), "{run}");
    assert!(run["recovery"]["checkpoint_records"].as_u64() > Some(500), "{}", run["recovery"]);
    let checked = succeed(&["check", path]);
    assert!(checked.contains("checkpoint ") && checked.contains("engine: ok"), "{checked}");
    assert!(succeed(&["inspect", path]).contains("checkpoint"));

    // Elsewhere, and then only as the log grows, which it does not enough.
    let elsewhere = ["--checkpoint-seconds=0.1", "--checkpoint-dir", parts, "--checkpoint-threads=2"];
    let run = json_once(&[&bench[..], &elsewhere].concat(), |run| run["checkpoints"]["made"] != 0);
    assert_eq!(
        (run["check"].as_str(), run["params"]["checkpoint_dir"][0].as_str()),
        (Some("ok"), Some(parts))
    );
    assert!(std::fs::read_dir(parts).unwrap().count() > 0);
    let run = json(&[&bench[..], &["--checkpoint=never", "--seconds=0.3", "--json"]].concat());
    assert_eq!((run["check"].as_str(), run["checkpoints"]["made"].as_u64()), (Some("ok"), Some(0)));
}
