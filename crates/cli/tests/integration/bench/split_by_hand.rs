//! Columns that the command line has split.

use serde_json::Value;

use super::common::{data, json, json_once, text};
use super::with;

/// Columns of the hot row and their operations; most are NULL at first, and equal orders occur.
const OPERATIONS: [(&str, &str, &str); 6] = [
    ("add", "value", "add"),
    ("max", "highest", "max"),
    ("min", "lowest", "min"),
    ("multiply", "sign", "multiply"),
    ("ordered-put", "newest", "ordered-put"),
    ("top-k", "best", "top-k-insert"),
];

/// Returns true if all of these columns were split in a run.
fn has_split(object: &Value, columns: &[&str]) -> bool {
    let split = object["phased"]["split"].as_array().unwrap();
    let was_split = |one: &Value| one["phases"].as_u64() > Some(0);
    columns.iter().all(|column| split.iter().any(|one| one["column"] == **column && was_split(one)))
}

#[test]
fn every_operation_is_split_by_hand() {
    let run = ["bench", "incr1", "--keys=20", "--hot-percent=90", "--threads=3", "--durability=none"];
    for (operation, column, label) in OPERATIONS {
        let operation = format!("--operation={operation}");
        let split = format!("--split=incr1_operations.{column}:1:{label}");
        let phased = ["--protocol=phased", "--phase-ms=2", &operation, &split];
        let object = json_once(&with(&run, &phased), |object| has_split(object, &[column]));
        assert_eq!(object["check"], "ok", "{operation}");
    }
    let labels = OPERATIONS.map(|(_, column, label)| format!("--split=incr1_operations.{column}:1:{label}"));
    let phased = ["--protocol=phased", "--phase-ms=2", "--rotate-operation", "--rotate-seconds=0.02"];
    let phased = [&phased[..], &labels.each_ref().map(String::as_str)].concat();
    let columns = OPERATIONS.map(|(_, column, _)| column);
    let object = json_once(&with(&run, &phased), |object| has_split(object, &columns));
    assert_eq!(object["check"], "ok");
}

/// The columns of carriers and origins are NULL until the first flight of theirs.
#[test]
fn flights_are_split_by_hand_on_columns_that_start_as_null() {
    let file = data("flights-bad.csv");
    let labels = [
        "arr_delay_max:UA:max",
        "dep_delay_min:UA:min",
        "latest:UA:ordered-put",
        "longest:UA:top-k-insert",
        "flights:UA:add",
        "late_sign:UA:multiply",
    ];
    let splits = labels.map(|label| format!("--split=carrier.{label}"));
    let run =
        ["bench", "flights", "--input", text(&file), "--protocol=phased", "--phase-ms=2", "--clients=3"];
    let run = [&run[..], &["--verify-recovery", "--json"], &splits.each_ref().map(String::as_str)].concat();
    assert_eq!(json(&run)["check"], "ok");
}
