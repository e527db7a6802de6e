//! Tests that are skipped: that all of them say so and are counted by one helper, and what that does.

#[path = "../support/skips.rs"]
mod helper;

use std::process::Command;

use crate::source::{Source, Violation};

/// The file in which a test may say that it is skipped.
const HELPER: &str = "tests/support/skips.rs";

/// Tests that print themselves that they were skipped: print macros of a test that passes are never shown.
pub fn printed_skips(sources: &[Source]) -> Vec<Violation> {
    let own = [HELPER, "tests/house/skips.rs"];
    let tests = sources.iter().filter(|it| it.path.contains("tests/") && !own.contains(&it.path.as_str()));
    let found = tests.flat_map(|source| {
        let what = "call `skip` of tests/support/skips.rs, which counts the test and fails it where its tool is required";
        source.text.match_indices("\"skipped: ").map(move |(at, _)| source.violation(at, what))
    });
    found.collect()
}

#[test]
fn tests_that_print_that_they_were_skipped_are_found() {
    let file =
        |path: &str| (path.to_owned(), "fn f() {\n    println!(\"skipped: no tool\");\n}\n".to_owned());
    let sources = crate::source::prepare(vec![file("crates/cli/tests/x.rs"), file(HELPER), file("src/x.rs")]);
    let found = printed_skips(&sources);
    assert_eq!(
        found.iter().map(|it| (it.path.as_str(), it.line)).collect::<Vec<_>>(),
        [("crates/cli/tests/x.rs", 2)]
    );
}

const WITHOUT_TOOL: &str = "HEDDLE_WITHOUT_TOOL";

#[test]
fn a_skipped_test_is_shown_and_counted_and_fails_where_its_tool_is_required() {
    if std::env::var_os(WITHOUT_TOOL).is_some() {
        return helper::skip("spindle", "there is no spindle");
    }
    let directory = std::env::temp_dir().join(format!("heddle-skips-{}", std::process::id()));
    let run = |required: &str| {
        let name = "skips::a_skipped_test_is_shown_and_counted_and_fails_where_its_tool_is_required";
        let mut again = Command::new(std::env::current_exe().expect("this program"));
        again.args(["--exact", name]).env(WITHOUT_TOOL, "1");
        let output = again.env("HEDDLE_REQUIRED", required).env("HEDDLE_SKIPPED", &directory).output();
        let output = output.expect("it runs");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for required in ["", "loom", "loom,spindles"] {
        let (passed, shown) = run(required);
        assert!(passed && shown.contains("there is no spindle (1 of this program)"), "{required}: {shown}");
    }
    let counted = std::fs::read_to_string(&directory).expect("it is counted");
    assert_eq!(counted.lines().filter(|line| line.starts_with("spindle\t")).count(), 3, "{counted}");
    for required in ["all", "spindle", "loom,spindle"] {
        assert!(!run(required).0, "{required}");
    }
    std::fs::remove_file(&directory).expect("removed");
}
