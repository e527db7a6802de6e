//! Kills the process with -9 at random moments of a benchmark, over and over on a directory, under one protocol after the
//! other; every fifty rounds in a new directory, since the history in one grows without end. Whatever had been
//! acknowledged has to be there, the books have to agree, nothing may be half there, and no stock may be oversold. In most rounds checkpoints
//! are made all the time, so that many of the moments hit one; a third of the moments hit recovery. In every other
//! round it is not the process that notes what it has acknowledged, but this test, at the other end of a pipe.
//!
//! `HEDDLE_KILL_ROUNDS` sets the number of rounds, `HEDDLE_KILL_SEED` repeats the moments of an earlier run.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::common::{command, errors, heddle, setting, text};
use heddledb::ProtocolKind;

/// The channel of one round's acknowledgements.
enum Notes {
    /// The process notes them in the file itself.
    Own,
    /// They come through a pipe; whole lines of them are noted when the process is dead.
    Pipe(PathBuf, JoinHandle<Vec<u8>>),
}

impl Notes {
    fn of_pipe(pipe: PathBuf) -> Notes {
        let _ = std::fs::remove_file(&pipe);
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        // Open for writing, too, so that the pipe has no end before the process has opened it.
        let mut end = std::fs::File::options().read(true).write(true).open(&pipe).unwrap();
        let reader = thread::spawn(move || {
            let (mut noted, mut buffer) = (Vec::new(), [0; 4096]);
            loop {
                let count = end.read(&mut buffer).unwrap();
                noted.extend_from_slice(&buffer[..count]);
                // What this test itself says last.
                if noted.ends_with(b"\0") {
                    noted.pop();
                    return noted;
                }
            }
        });
        Notes::Pipe(pipe, reader)
    }

    /// Adds to the file what was acknowledged. A line that the process had only begun was not.
    fn finish(self, acks: &Path) {
        let Notes::Pipe(pipe, reader) = self else { return };
        std::fs::write(&pipe, b"\0").unwrap();
        let mut noted = reader.join().unwrap();
        noted.truncate(noted.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1));
        let mut all = std::fs::read(acks).unwrap();
        all.extend_from_slice(&noted);
        std::fs::write(acks, all).unwrap();
    }
}

/// Debit-credit: two branches that all transactions change.
const BANK: &[&str] =
    &["bench", "debit-credit", "--accounts-per-branch=2000", "--branches=2", "--seconds=60"];
/// A flash sale: one item, which is sold out within a second or two.
const SALE: &[&str] = &[
    "bench",
    "flash-sale",
    "--items=1",
    "--stock=20000",
    "--view-percent=10",
    "--threads=8",
    "--seconds=60",
];

/// Starts a benchmark that would last for a minute.
fn start(bench: &[&str], round: u64, database: &Path, acks: &Path) -> Child {
    let protocol = ProtocolKind::ALL[round as usize % ProtocolKind::ALL.len()].name();
    let clients = if round.is_multiple_of(2) { "--clients=0" } else { "--clients=8" };
    let checkpoints = if round % 4 == 3 { "--checkpoint=never" } else { "--checkpoint-seconds=0.05" };
    let place = ["--dir", text(database), "--acks", text(acks), "--protocol", protocol, clients, checkpoints];
    command(&[bench, &place].concat()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// This many rounds are about one database.
const ROUNDS_OF_A_DATABASE: u64 = 50;

/// One database, which is killed over and over.
struct Victim {
    bench: &'static [&'static str],
    directory: tempfile::TempDir,
    acknowledged: usize,
}

impl Victim {
    fn new(bench: &'static [&'static str]) -> Victim {
        let victim = Victim { bench, directory: tempfile::tempdir().unwrap(), acknowledged: 0 };
        std::fs::write(victim.path("acks"), "").unwrap();
        victim
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Works on it for this long, kills it, and looks at what is left.
    fn kill_after(&mut self, moment: Duration, round: u64, seed: u64) {
        let [database, acks, pipe] = ["database", "acks", "pipe"].map(|name| self.path(name));
        let notes = if round.is_multiple_of(2) { Notes::of_pipe(pipe.clone()) } else { Notes::Own };
        let reported = if let Notes::Pipe(pipe, _) = &notes { pipe } else { &acks };
        let mut process = start(self.bench, round, &database, reported);
        thread::sleep(moment);
        // On Unix this is SIGKILL: no handler runs, no buffer is flushed.
        process.kill().unwrap();
        let output = process.wait_with_output().unwrap();
        notes.finish(&acks);
        assert!(!output.status.success() && errors(&output).is_empty(), "round {round}: {}", errors(&output));
        if !database.join("MANIFEST").exists() {
            // Killed before there was a database: the manifest is made last.
            assert_eq!(std::fs::read(&acks).unwrap(), b"");
            return;
        }
        let checked = heddle(&["check", text(&database), "--acks", text(&acks)]);
        let said = errors(&checked);
        assert!(checked.status.success(), "round {round}, killed after {moment:?}, seed {seed}: {said}");
        self.acknowledged = std::fs::read_to_string(&acks).unwrap().lines().count();
    }
}

fn kill_over_and_over(bench: &'static [&'static str]) {
    let rounds = setting("HEDDLE_KILL_ROUNDS", 2 * ProtocolKind::ALL.len() as u64);
    let seed = setting("HEDDLE_KILL_SEED", fastrand::u64(..));
    println!("HEDDLE_KILL_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut victim, mut before) = (Victim::new(bench), 0);
    for round in 0..4 * rounds {
        if round >= rounds && before + victim.acknowledged > 0 {
            break;
        }
        if round > 0 && round.is_multiple_of(ROUNDS_OF_A_DATABASE) {
            before += std::mem::replace(&mut victim, Victim::new(bench)).acknowledged;
        }
        // Early moments hit the load and, in later rounds, recovery. Where the machine is so busy that nothing was
        // acknowledged in all of them, there are more rounds, and longer ones.
        let latest = if round % 3 == 2 { 60 } else { 1_200 };
        let moment = Duration::from_millis(random.u64(5..latest * (1 + round / rounds)));
        victim.kill_after(moment, round, seed);
    }
    let acknowledged = before + victim.acknowledged;
    println!("{rounds} rounds, {acknowledged} acknowledged");
    assert!(
        acknowledged > 0,
        "{rounds} rounds and no acknowledgement: the test has seen nothing, seed {seed}"
    );
}

#[test]
fn nothing_acknowledged_is_lost_when_the_process_is_killed() {
    kill_over_and_over(BANK);
}

#[test]
fn a_flash_sale_is_never_oversold_when_the_process_is_killed() {
    kill_over_and_over(SALE);
}
