//! A follower as a process: TPK's configuration C; killed with -9, as its database is; and a database that is killed
//! while a follower writes its checkpoints.
//!
//! `HEDDLE_KILL_ROUNDS` sets the number of rounds, `HEDDLE_KILL_SEED` repeats the moments of an earlier run.

use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use crate::common::{command, errors, heddle, json, setting, succeed, text};
use heddledb::ProtocolKind;

const SMALL: [&str; 4] = ["bench", "debit-credit", "--accounts-per-branch=2000", "--branches=2"];

/// A follower that comes again and again; it is killed at the end.
struct Companion(Child);

impl Companion {
    fn start(database: &Path) -> Companion {
        let follow = ["follow", text(database), "--wait"];
        Companion(command(&follow).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn configuration_c_has_a_follower_write_checkpoints() {
    let tpk = ["bench", "debit-credit", "--preset=tpk", "--configuration=c", "--transactions=5000", "--json"];
    let result = json(&[&tpk[..], &["--checkpoint-transactions=1000"]].concat());
    assert_eq!((&result["check"], &result["committed"]), (&"ok".into(), &5000.into()));
    let checkpoints = &result["checkpoints"];
    assert_eq!(checkpoints["made"], 5, "{checkpoints}");
    // A follower that gets no processor for a second is not waited for.
    assert!(checkpoints["by_follower"].as_u64().is_some_and(|made| made > 0), "{checkpoints}");
    assert_eq!(result["params"]["follower"], true);
    for stage in ["input", "execute", "log", "output"] {
        assert!(result["stage_busy"][stage].as_f64().is_some_and(|busy| busy > 0.0), "{stage}: {result}");
    }
    // On a busy machine, checkpoints that are due are made after the measured interval.
    assert!(result["stage_busy"]["checkpoint"].is_f64() && result["stage_busy"]["follower"].is_f64());
    assert!(result["share_under_1s"].as_f64().is_some_and(|share| share > 0.0));
    assert!(result["log"]["mean_group"].as_f64().is_some_and(|mean| mean >= 1.0));
    // What is prepared of the log is at least a segment; checkpoints are two at times.
    let disk = |key: &str| result["disk"][key].as_u64().unwrap();
    assert!(
        disk("log_bytes_max") >= 64 << 20 && disk("checkpoint_bytes_max") > 1 << 20,
        "{}",
        result["disk"]
    );
    assert!(disk("bytes_max") <= disk("log_bytes_max") + disk("checkpoint_bytes_max"));
    // The recovery was of the follower's checkpoint.
    assert!(result["recovery"]["checkpoint_records"].as_u64().is_some_and(|records| records > 10_000));
}

#[test]
fn a_follower_needs_a_log_and_one_who_starts_it() {
    for wrong in [
        &["--durability=none", "--follower"][..],
        &["--durability=none", "--follower-socket=socket"],
        &["--follower", "--follower-socket=socket"],
    ] {
        let output = heddle(&[&SMALL[..], wrong].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {}", errors(&output));
    }
    let help = succeed(&["follow", "--help"]);
    assert!(help.contains("Example") && help.contains("--once"));
}

#[test]
fn a_path_that_is_no_database_is_not_followed() {
    let directory = tempfile::tempdir().unwrap();
    for path in [directory.path().to_owned(), directory.path().join("missing"), "/dev/null".into()] {
        let output = heddle(&["follow", text(&path)]);
        let reported = errors(&output);
        assert_eq!(output.status.code(), Some(2), "{reported}");
        assert!(reported.contains("is not a database") && reported.contains("--wait"), "{reported}");
    }
}

#[test]
fn a_follower_started_with_once_ends_with_the_database() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("bank");
    let socket = database.join("follower.socket");
    let follow = ["follow", text(&database), "--once", "--wait"];
    let follower = command(&follow).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let place = ["--dir", text(&database), "--follower-socket", text(&socket), "--checkpoint-seconds=0.1"];
    succeed(&[&SMALL[..], &place, &["--seconds=1"]].concat());
    let output = follower.wait_with_output().unwrap();
    // On a busy machine it may come when the database is just going.
    let said = String::from_utf8(output.stdout.clone()).unwrap() + &errors(&output);
    let is_reported = said.starts_with("followed: ") || said.contains("no database to follow");
    assert!(output.status.success() && is_reported, "{said}");
    assert!(!socket.exists());
}

/// Kills the database, or its follower, or both, after a while.
fn kill_one(round: u64, moment: Duration, database: &Path, acks: &Path, companion: &mut Companion) {
    let protocol = ProtocolKind::ALL[round as usize % ProtocolKind::ALL.len()].name();
    let socket = database.join("follower.socket");
    let place = ["--dir", text(database), "--acks", text(acks), "--follower-socket", text(&socket)];
    let how = ["--protocol", protocol, "--checkpoint-seconds=0.05", "--seconds=60", "--clients=8"];
    let bench = command(&[&SMALL[..], &place, &how].concat());
    let mut process = { bench }.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    thread::sleep(moment);
    if !round.is_multiple_of(3) {
        *companion = Companion::start(database);
    }
    if round % 3 == 1 {
        // Without its follower, and with the next one, it goes on.
        thread::sleep(moment / 2);
    }
    assert_eq!(process.try_wait().unwrap(), None, "round {round}: the database has ended on its own");
    process.kill().unwrap();
    let output = process.wait_with_output().unwrap();
    assert!(errors(&output).is_empty(), "round {round}: {}", errors(&output));
}

#[test]
fn nothing_acknowledged_is_lost_when_a_database_or_its_follower_is_killed() {
    let rounds = setting("HEDDLE_KILL_ROUNDS", 2 * ProtocolKind::ALL.len() as u64);
    let seed = setting("HEDDLE_KILL_SEED", fastrand::u64(..));
    println!("HEDDLE_KILL_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let directory = tempfile::tempdir().unwrap();
    let [database, acks] = ["bank", "acks"].map(|name| directory.path().join(name));
    std::fs::write(&acks, "").unwrap();
    let mut companion = Companion::start(&database);
    for round in 0..rounds {
        let moment = Duration::from_millis(random.u64(5..1_000));
        kill_one(round, moment, &database, &acks, &mut companion);
        if !database.join("MANIFEST").exists() {
            continue;
        }
        let checked = heddle(&["check", text(&database), "--acks", text(&acks)]);
        let said = errors(&checked);
        assert!(checked.status.success(), "round {round}, killed after {moment:?}, seed {seed}: {said}");
    }
    // In the end the follower does its work, whatever it has been through.
    let socket = database.join("follower.socket");
    let place = ["--dir", text(&database), "--acks", text(&acks), "--follower-socket", text(&socket)];
    // So few calls that on a busy machine, too, it gets through the log faster than that grows.
    let how = ["--checkpoint-seconds=0.1", "--seconds=4", "--clients=4", "--rate=200", "--json"];
    let works = || {
        let result = json(&[&SMALL[..], &place, &how].concat());
        result["checkpoints"]["by_follower"].as_u64().is_some_and(|made| made > 0)
    };
    assert!((0..10).any(|_| works()), "no follower's checkpoint in ten runs, seed {seed}");
    println!("{rounds} rounds, {} acknowledged", std::fs::read_to_string(&acks).unwrap().lines().count());
    drop(companion);
    assert!(!socket.exists());
}
