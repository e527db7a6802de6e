//! Backups of a database that a benchmark is writing to, and that dies by kill -9 in the end.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::common::{command, errors, heddle, json, setting, succeed, text};

/// A benchmark that would last for a minute, with checkpoints all the time.
fn start(database: &Path, acks: &Path) -> Child {
    command(&[
        "bench",
        "debit-credit",
        "--accounts-per-branch=2000",
        "--branches=2",
        "--seconds=60",
        "--clients=4",
        "--checkpoint-seconds=0.05",
        "--dir",
        text(database),
        "--acks",
        text(acks),
    ])
    .stdout(Stdio::null())
    .stderr(Stdio::null())
    .spawn()
    .unwrap()
}

fn wait_for_acknowledgements(acks: &Path, more_than: usize) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while std::fs::read(acks).unwrap_or_default().len() <= more_than {
        assert!(Instant::now() < deadline, "nothing is acknowledged");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The acknowledgements up to now: whole lines only.
fn noted(acks: &Path) -> Vec<u8> {
    let mut noted = std::fs::read(acks).unwrap_or_default();
    noted.truncate(noted.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1));
    noted
}

#[test]
fn a_backup_under_load_holds_what_was_acknowledged_and_is_restored_after_a_kill() {
    let rounds = setting("HEDDLE_BACKUP_ROUNDS", 3);
    let directory = tempfile::tempdir().unwrap();
    let [database, acks, before] = ["bank", "acks", "before"].map(|name| directory.path().join(name));
    for round in 0..rounds {
        let mut process = start(&database, &acks);
        let mut copies = Vec::new();
        for number in 0..3 {
            wait_for_acknowledgements(&acks, noted(&acks).len());
            let acknowledged = noted(&acks);
            let copy = directory.path().join(format!("copy-{round}-{number}"));
            let said = succeed(&["backup", text(&database), text(&copy)]);
            assert!(said.contains("backup: ") && said.contains("through epoch"), "{said}");
            copies.push((copy, acknowledged));
        }
        process.kill().unwrap();
        process.wait().unwrap();
        for (number, (copy, acknowledged)) in copies.into_iter().enumerate() {
            std::fs::write(&before, acknowledged).unwrap();
            let said = succeed(&["check", text(&copy), "--acks", text(&before)]);
            assert!(said.contains("files: ok") && said.contains("acknowledged: ok"), "{said}");
            let restored = directory.path().join(format!("restored-{round}-{number}"));
            let said = succeed(&["restore", text(&copy), text(&restored)]);
            assert!(said.contains("verified: ") && said.contains("restored: "), "{said}");
            let said = succeed(&["check", text(&restored), "--acks", text(&before)]);
            assert!(said.contains("acknowledged: ok"), "{said}");
        }
        // A backup of what the dead process has left.
        let copy = directory.path().join(format!("copy-{round}-dead"));
        succeed(&["backup", text(&database), text(&copy)]);
        std::fs::write(&before, noted(&acks)).unwrap();
        succeed(&["check", text(&copy), "--acks", text(&before)]);
        std::fs::write(&acks, noted(&acks)).unwrap();
    }
}

#[test]
fn a_backup_that_is_killed_is_no_database_and_the_source_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("bank");
    json(&[
        "bench",
        "debit-credit",
        "--accounts-per-branch=50000",
        "--transactions=10",
        "--json",
        "--dir",
        text(&database),
    ]);
    for number in 0..6 {
        let copy = directory.path().join(format!("copy-{number}"));
        let mut process =
            command(&["backup", text(&database), text(&copy)]).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(3 * number));
        process.kill().unwrap();
        process.wait().unwrap();
        if copy.join("MANIFEST").exists() {
            succeed(&["check", text(&copy)]);
        } else if copy.exists() {
            let checked = heddle(&["check", text(&copy)]);
            assert_eq!(checked.status.code(), Some(2), "{}", errors(&checked));
        }
    }
    succeed(&["check", text(&database)]);
}

#[test]
fn mistakes_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    let [database, copy, full] = ["bank", "copy", "full"].map(|name| directory.path().join(name));
    let nothing = heddle(&["backup", text(&database), text(&copy)]);
    assert_eq!(nothing.status.code(), Some(2));
    assert!(errors(&nothing).contains("is not a database"), "{}", errors(&nothing));
    json(&[
        "bench",
        "debit-credit",
        "--accounts-per-branch=500",
        "--transactions=10",
        "--json",
        "--dir",
        text(&database),
    ]);
    std::fs::create_dir(&full).unwrap();
    std::fs::write(full.join("notes"), "mine").unwrap();
    for verb in ["backup", "restore"] {
        let refused = heddle(&[verb, text(&database), text(&full)]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(errors(&refused).contains("is not empty"), "{}", errors(&refused));
    }
    succeed(&["backup", text(&database), text(&copy)]);
    // Damage is found by a check, and nothing is made of it.
    let segment = copy.join("log/00000001.log");
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[4096 + 100] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let other = directory.path().join("other");
    for refused in [heddle(&["check", text(&copy)]), heddle(&["restore", text(&copy), text(&other)])] {
        assert_eq!(refused.status.code(), Some(1));
        assert!(errors(&refused).contains("is damaged at byte 4096"), "{}", errors(&refused));
    }
    assert!(!other.exists());
}
