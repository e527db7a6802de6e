//! Runs the scripts of `privileges/` here and on PostgreSQL, and compares every answer.
//!
//! A line `@role` sets the session's role by SET SESSION AUTHORIZATION; a statement ends with a line that ends with `;`
//! outside of `$$`; `# …` is a comment. Behind a line `~`, the next statement's error is compared by its SQLSTATE only, and
//! behind a line `!` both must fail, of which PostgreSQL does with an internal error.
//! `PRIVILEGES=name` runs only the scripts whose name contains it.

use std::path::PathBuf;

use super::{Answer, Both, superuser};
use crate::support::oracle::Oracle;

/// The compared part of an error.
#[derive(Clone, Copy, Default, PartialEq)]
enum Compared {
    #[default]
    Everything,
    State,
    ThatItFails,
}

/// A step of a script.
enum Step {
    Role(String),
    Statement { text: String, compared: Compared },
}

fn steps(script: &str) -> Vec<Step> {
    let (mut steps, mut text, mut compared) = (Vec::new(), String::new(), Compared::default());
    for line in script.lines().filter(|line| !line.starts_with('#')) {
        if let Some(role) = line.strip_prefix('@') {
            steps.push(Step::Role(role.trim().to_string()));
            continue;
        }
        match line.trim() {
            "~" => {
                compared = Compared::State;
                continue;
            }
            "!" => {
                compared = Compared::ThatItFails;
                continue;
            }
            _ => {}
        }
        text.push_str(line);
        text.push('\n');
        if line.trim_end().ends_with(';') && text.matches("$$").count().is_multiple_of(2) {
            let statement = std::mem::take(&mut text).trim().trim_end_matches(';').to_string();
            steps.push(Step::Statement { text: statement, compared: std::mem::take(&mut compared) });
        }
    }
    assert!(text.trim().is_empty(), "a statement without an end: {text}");
    steps
}

fn is_same(ours: &Answer, theirs: &Answer, compared: Compared) -> bool {
    match (ours, theirs, compared) {
        (Err(_), Err(_), Compared::ThatItFails) => true,
        (Err((ours, _)), Err((theirs, _)), Compared::State) => ours == theirs,
        (_, _, Compared::ThatItFails) => false,
        _ => ours == theirs,
    }
}

fn scripts() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/integration/privileges");
    let wanted = std::env::var("PRIVILEGES").unwrap_or_default();
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "steps"))
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().contains(&wanted)))
        .collect();
    found.sort();
    assert!(!found.is_empty(), "no script matches {wanted:?}");
    found
}

#[test]
fn scripts_of_steps_answer_as_in_postgresql() {
    let mut differences = Vec::new();
    for path in scripts() {
        let Some(oracle) = Oracle::start() else { return };
        let theirs = oracle.connect();
        let mut both = Both { ours: superuser(), theirs, differences: Vec::new(), compared: 0 };
        let script = std::fs::read_to_string(&path).unwrap();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut role = "postgres".to_string();
        for step in steps(&script) {
            match step {
                Step::Role(next) => {
                    both.run("reset session authorization");
                    both.run(&format!("set session authorization {next}"));
                    role = next;
                }
                Step::Statement { text, compared } => {
                    let (ours, theirs) = both.answers(&text);
                    both.compared += 1;
                    if !is_same(&ours, &theirs, compared) {
                        both.differences
                            .push(format!("{name}, {role}: {text}\n   ours {ours:?}\n theirs {theirs:?}"));
                    }
                }
            }
        }
        assert!(both.compared > 10, "{name} compares {} statements only", both.compared);
        differences.append(&mut both.differences);
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
