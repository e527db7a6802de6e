//! Faults that the real system makes: a disk that fails to sync, a full file system, no file descriptors left. The process
//! may stop, but it says so without a panic, and what it had acknowledged is there afterwards.
//!
//! The first needs `strace`, the second the right to mount; where that is missing, the test is skipped
//! with a message, unless `HEDDLE_REQUIRED` names `strace` or `mount`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::{errors, heddle, succeed, text};
use crate::skips;

const HEDDLE: &str = env!("CARGO_BIN_EXE_heddle");

/// A benchmark of a second, with its acknowledgements beside the database's directory.
fn bench<'a>(database: &'a Path, acks: &'a Path) -> Vec<&'a str> {
    let workload = ["bench", "debit-credit", "--accounts-per-branch=500", "--seconds=1", "--clients=4"];
    let place = ["--checkpoint-seconds=0.1", "--dir", text(database), "--acks", text(acks)];
    [&workload[..], &place].concat()
}

fn run(program: &str, arguments: &[&str]) -> Option<Output> {
    Command::new(program).args(arguments).stdin(Stdio::null()).output().ok()
}

/// A place for a database, and one for acknowledgements.
fn places(directory: &Path) -> (PathBuf, PathBuf) {
    (directory.join("bank"), directory.join("acks"))
}

/// It ended in words, and what it had acknowledged is there. Whether the fault has stopped it.
fn is_well(output: &Output, database: &Path, acks: &Path) -> bool {
    let said = errors(output);
    assert!(!said.contains("panicked"), "{said}");
    assert!(output.status.success() || said.contains("heddle: "), "{:?}: {said}", output.status);
    if !database.join("MANIFEST").exists() {
        assert!(std::fs::read(acks).unwrap_or_default().is_empty(), "{said}");
        return !output.status.success();
    }
    let checked = if acks.exists() {
        heddle(&["check", text(database), "--acks", text(acks)])
    } else {
        heddle(&["check", text(database)])
    };
    assert!(checked.status.success(), "{said}, then: {}", errors(&checked));
    !output.status.success()
}

#[test]
fn a_sync_or_a_write_that_fails_is_reported_and_nothing_acknowledged_is_lost() {
    let mut stopped = 0;
    for (call, inject) in [
        ("fdatasync", "fdatasync:error=EIO:when=10+"),
        ("fdatasync", "fdatasync:error=EIO:when=40"),
        ("pwrite64", "pwrite64:error=EIO:when=300+"),
        ("rename", "rename:error=EIO:when=3+"),
        ("fsync", "fsync:error=EIO:when=9+"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let (database, acks) = places(directory.path());
        let (trace, inject) = (format!("trace={call}"), format!("inject={inject}"));
        let strace = ["-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject, HEDDLE];
        let Some(output) = run("strace", &[&strace[..], &bench(&database, &acks)].concat()) else {
            return skips::skip("strace", "strace is not installed");
        };
        if errors(&output).contains("ptrace") {
            return skips::skip("strace", &format!("nothing can be traced here ({})", errors(&output)));
        }
        stopped += u32::from(is_well(&output, &database, &acks));
    }
    assert!(stopped >= 2, "the faults are not felt");
}

#[test]
fn a_full_file_system_is_reported_and_nothing_acknowledged_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let mount = directory.path().join("mount");
    std::fs::create_dir(&mount).unwrap();
    let mut stopped = 0;
    for size in ["size=1m", "size=100m", "size=140m"] {
        let mounted = run("mount", &["-t", "tmpfs", "-o", size, "tmpfs", text(&mount)]);
        if !mounted.is_some_and(|output| output.status.success()) {
            return skips::skip("mount", "nothing can be mounted here");
        }
        let (database, acks) = (mount.join("bank"), directory.path().join(size));
        let output = run(HEDDLE, &bench(&database, &acks)).expect("it starts");
        let checked = std::panic::catch_unwind(|| is_well(&output, &database, &acks));
        run("umount", &[text(&mount)]);
        stopped += u32::from(checked.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
    }
    assert!(stopped >= 1, "no file system was full");
}

#[test]
fn without_file_descriptors_nothing_acknowledged_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let (database, acks) = places(directory.path());
    let mut stopped = 0;
    for descriptors in [4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16] {
        let limited = format!("ulimit -n {descriptors}; exec \"$@\"");
        let shell = ["-c", &limited, "sh", HEDDLE];
        let output = run("sh", &[&shell[..], &bench(&database, &acks)].concat()).expect("there is a shell");
        stopped += u32::from(is_well(&output, &database, &acks));
    }
    assert!(stopped >= 1, "there were enough descriptors");
    succeed(&["check", text(&database)]);
}

/// The n-th thread of the main thread's is refused, for each n: the command ends with an error, and never hangs.
#[test]
fn a_refused_thread_is_an_error() {
    let mut refused = 0;
    for number in 1.. {
        let directory = tempfile::tempdir().unwrap();
        let (database, acks) = places(directory.path());
        let inject = format!("inject=clone3:error=EAGAIN:when={number}");
        let strace = ["-f", "-qq", "-o", "/dev/null", "-e", "trace=clone3", "-e", &inject, HEDDLE];
        let bench = [
            "bench",
            "debit-credit",
            "--accounts-per-branch=100",
            "--transactions=200",
            "--clients=3",
            "--threads=2",
            "--stages=staged",
            "--checkpoint-transactions=100",
            "--dir",
            text(&database),
            "--acks",
            text(&acks),
        ];
        let Some(output) = run("strace", &[&strace[..], &bench].concat()) else {
            return skips::skip("strace", "strace is not installed");
        };
        let reported = errors(&output);
        if reported.contains("ptrace") {
            return skips::skip("strace", &format!("nothing can be traced here ({reported})"));
        }
        assert!(!reported.contains("panicked"), "thread {number}: {reported}");
        if is_well(&output, &database, &acks) {
            assert_eq!(output.status.code(), Some(1), "thread {number}: {reported}");
            refused += 1;
        } else if number > 20 {
            // Recovery goes on with fewer threads, so that not every refusal stops the run.
            break;
        }
    }
    assert!(refused >= 10, "{refused} threads were refused");
}
