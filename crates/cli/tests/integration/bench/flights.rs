//! The flights workload: its input, and what fails by known reasons.

use std::io::Write;
use std::process::Stdio;

use serde_json::Value;

use super::common::{self, command, data, json, succeed, text};
use super::with;

#[test]
fn flights_fail_by_known_reasons_before_and_after_recovery() {
    let file = data("flights-bad.csv");
    for clients in ["--clients=0", "--clients=3"] {
        let base = ["bench", "flights", "--input", text(&file), "--verify-recovery", "--json", clients];
        let object = json(&base);
        assert_eq!(
            (&object["check"], &object["committed"], &object["failed"]),
            (&"ok".into(), &26.into(), &19.into())
        );
        let reasons = &object["by_transaction"]["flight"]["failed_by_reason"];
        assert_eq!(*reasons, serde_json::json!({"duplicate-key": 5, "unknown-carrier": 4, "unparsable": 10}));
        let unparsable = &object["rejected"]["unparsable"];
        assert_eq!(
            (&unparsable["rows"], unparsable["first_lines"].as_array().unwrap().len()),
            (&10.into(), 10)
        );
    }
}

#[test]
fn lines_that_are_no_flights_are_named_and_a_byte_order_mark_is_no_part_of_them() {
    let text = std::fs::read_to_string(data("flights-bad.csv")).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    // A quote that nothing closes, in the first flight's line.
    let spoiled = lines[1].replacen(",UA,", ",\"UA,", 1);
    assert_ne!(spoiled, lines[1]);
    lines[1] = &spoiled;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("flights.csv");
    std::fs::write(&file, format!("\u{feff}{}\n", lines.join("\n"))).unwrap();
    let reference = data("airlines.csv");
    let reference = reference.parent().unwrap();
    let base = ["bench", "flights", "--input", common::text(&file), "--reference", common::text(reference)];
    let object = json(&with(&base, &["--json"]));
    assert_eq!(object["check"], "ok");
    assert_eq!(object["rejected"]["unparsable"]["first_lines"][0], 2);
    assert_eq!(object["committed"].as_u64().zip(object["failed"].as_u64()).map(|(a, b)| a + b), Some(45));
    assert!(succeed(&base).contains("rejected as unparsable: 11 rows, lines 2, "));
}

#[test]
fn flights_are_read_from_standard_input() {
    let file = data("flights-bad.csv");
    let reference = file.parent().unwrap();
    let arguments =
        ["bench", "flights", "--input", "-", "--reference", text(reference), "--verify-recovery", "--json"];
    let mut child = command(&arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let bytes = std::fs::read(&file).unwrap();
    child.stdin.take().unwrap().write_all(&bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&object["check"], &object["committed"]), (&"ok".into(), &26.into()));
}
