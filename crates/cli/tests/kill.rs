//! Kills the process with -9 at random moments of a benchmark, over and over on one directory. Whatever had been
//! acknowledged has to be there, the books have to agree, and nothing may be half there. In most rounds checkpoints are
//! made all the time, so that many of the moments hit one. The protocols take turns.
//!
//! `HEDDLE_KILL_ROUNDS` sets the number of rounds, `HEDDLE_KILL_SEED` repeats the moments of an earlier run.

mod common;

use std::time::Duration;

use common::{command, errors, heddle, text};
use heddledb::ProtocolKind;

fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(usual)
}

#[test]
fn nothing_acknowledged_is_lost_when_the_process_is_killed() {
    let rounds = setting("HEDDLE_KILL_ROUNDS", 5);
    let seed = setting("HEDDLE_KILL_SEED", fastrand::u64(..));
    println!("HEDDLE_KILL_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let directory = tempfile::tempdir().unwrap();
    let (database, acks) = (directory.path().join("bank"), directory.path().join("acks"));
    let (database, acks) = (text(&database), text(&acks));
    std::fs::write(acks, "").unwrap();
    let mut acknowledged = 0;
    for round in 0..4 * rounds {
        if round >= rounds && acknowledged > 0 {
            break;
        }
        // Early moments hit the load and, in later rounds, recovery. Where the machine is so busy that nothing was
        // acknowledged in all of them, there are more rounds, and longer ones.
        let moment = Duration::from_millis(random.u64(5..1_500 * (1 + round / rounds)));
        let clients = if round % 2 == 0 { "--clients=0" } else { "--clients=8" };
        let checkpoints = if round % 4 == 3 { "--checkpoint=never" } else { "--checkpoint-seconds=0.05" };
        let protocols = ProtocolKind::ALL;
        let protocol =
            format!("--protocol={}", protocols[(seed.wrapping_add(round) % protocols.len() as u64) as usize]);
        let bench = ["bench", "debit-credit", "--accounts-per-branch=2000", "--branches=2", "--seconds=60"];
        let mut process = command(
            &[&bench[..], &["--dir", database, "--acks", acks, &protocol, clients, checkpoints]].concat(),
        )
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
        std::thread::sleep(moment);
        // On Unix this is SIGKILL: no handler runs, no buffer is flushed.
        process.kill().unwrap();
        let output = process.wait_with_output().unwrap();
        assert!(!output.status.success() && errors(&output).is_empty(), "round {round}: {}", errors(&output));
        if !std::path::Path::new(database).join("MANIFEST").exists() {
            // Killed before there was a database: the manifest is made last.
            assert_eq!(std::fs::read(acks).unwrap(), b"");
            continue;
        }
        let checked = heddle(&["check", database, "--acks", acks]);
        let said = errors(&checked);
        assert!(checked.status.success(), "round {round}, killed after {moment:?}, seed {seed}: {said}");
        acknowledged = std::fs::read_to_string(acks).unwrap().lines().count();
    }
    assert!(
        acknowledged > 0,
        "{rounds} rounds and no acknowledgement: the test has seen nothing, seed {seed}"
    );
}
