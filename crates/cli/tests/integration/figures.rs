//! `heddle figures` with real runs: the smallest experiments, and what is refused.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::{errors, heddle, text};

/// An experiment with one run; whether its shape is found depends on the machine.
const SMALLEST: &str = "--only=tpk-table-2";

fn results(out: &Path) -> Value {
    let content = fs::read_to_string(out.join("results.json")).expect("results are written");
    serde_json::from_str(&content).expect("they are JSON")
}

#[test]
fn an_experiment_is_measured_once_and_then_shown_again() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("figures");
    let quick = ["figures", "--quick", SMALLEST, "--json", "--out", text(&out)];
    let first = heddle(&quick);
    assert_eq!(first.status.code(), Some(0), "{}", errors(&first));
    let object: Value = serde_json::from_slice(&first.stdout).unwrap();
    let experiment = &object["experiments"][0];
    assert_eq!(experiment["id"], "tpk-table-2");
    assert!(experiment["status"] == "agrees" || experiment["status"] == "differs", "{experiment}");
    assert!(errors(&first).contains("1 of 1: heddle bench debit-credit"), "{}", errors(&first));
    let page = fs::read_to_string(out.join("index.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("not measured yet"), "the others are listed");
    let runs = results(&out)["runs"].clone();
    assert_eq!(runs.as_object().map(serde_json::Map::len), Some(1), "{runs}");
    let again = heddle(&quick);
    assert_eq!((again.status.code(), errors(&again).as_str()), (Some(0), ""), "no run is repeated");
    assert_eq!(results(&out)["runs"], runs);
    let other = heddle(&["figures", "--only=magic", "--out", text(&out)]);
    assert_eq!(other.status.code(), Some(2));
    assert!(errors(&other).contains("doppel-8"), "it names them all");
    fs::write(out.join("results.json"), "{}").unwrap();
    let foreign = heddle(&quick);
    assert_eq!(foreign.status.code(), Some(2));
    assert!(errors(&foreign).contains("--fresh"), "{}", errors(&foreign));
}
