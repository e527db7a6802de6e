//! Scripts of `routines/scripts/`, which run here under each protocol and on PostgreSQL 15: rows, or SQLSTATEs.
//!
//! A line is a statement; one that begins with `#` says what follows.

use std::path::PathBuf;

use heddledb::ProtocolKind;

use super::{answer, sql};
use crate::support::oracle::Oracle;

fn scripts() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/integration/routines/scripts");
    let entries = std::fs::read_dir(folder).expect("the folder of scripts");
    let mut scripts: Vec<PathBuf> = entries.map(|entry| entry.expect("a script").path()).collect();
    scripts.sort();
    scripts
}

#[test]
fn scripts_answer_as_on_postgres_under_each_protocol() {
    let Some(oracle) = Oracle::start() else { return };
    let mut differences = Vec::new();
    for script in scripts() {
        let name = script.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&script).expect("a script");
        let mut theirs = oracle.connect();
        theirs.run("drop schema public cascade");
        theirs.run("create schema public");
        let mut ours: Vec<_> = ProtocolKind::ALL
            .iter()
            .map(|protocol| (protocol, sql(*protocol).connect(Default::default()).expect("a connection")))
            .collect();
        let lines = text.lines().enumerate();
        for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            let there = theirs.run(line);
            for (protocol, connection) in &mut ours {
                let here = answer(connection, line);
                if here != there {
                    let place = format!("{name}:{}", number + 1);
                    differences
                        .push(format!("{place}: {protocol}: {line}\nhere:  {here:?}\nthere: {there:?}"));
                }
            }
        }
    }
    let shown = &differences[..differences.len().min(20)];
    assert!(differences.is_empty(), "{} differences\n{}", differences.len(), shown.join("\n\n"));
}
