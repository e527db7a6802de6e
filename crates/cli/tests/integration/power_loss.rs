//! Power loss for real: a database on an ext4 file system of its own, which is shut down under load, so that what was not
//! synced is gone. Acknowledgements are noted outside of it. What was acknowledged must be there when it is mounted again.
//!
//! Needs the right to mount loop devices, and `mkfs.ext4` and `perl`; where one of these is missing the test is skipped with a
//! message, unless `HEDDLE_REQUIRED` names `mount`.
//! `HEDDLE_POWER_ROUNDS` sets the number of losses, `HEDDLE_POWER_SEED` repeats the moments of an earlier run.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::{command, errors, heddle, setting, text};
use crate::skips;
use heddledb::ProtocolKind;

/// Shuts a file system down and throws away what it has not synced: FS_IOC_SHUTDOWN, without flushing the journal.
const SHUTDOWN: &str =
    r#"open(D, "<", $ARGV[0]) or die $!; my $how = pack("L", 2); ioctl(D, 0x8004587d, $how) or die $!"#;

/// Runs a program of the system's; what it says if it fails.
fn system(program: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() { Ok(()) } else { Err(format!("{program}: {}", errors(&output).trim())) }
}

/// A file system in a file, mounted.
struct Mount {
    image: PathBuf,
    at: PathBuf,
}

impl Mount {
    fn new(directory: &Path) -> Result<Mount, String> {
        let mount = Mount { image: directory.join("image"), at: directory.join("mount") };
        std::fs::create_dir(&mount.at).map_err(|error| error.to_string())?;
        let image = std::fs::File::create(&mount.image).map_err(|error| error.to_string())?;
        image.set_len(768 << 20).map_err(|error| error.to_string())?;
        system("mkfs.ext4", &["-q", "-F", text(&mount.image)])?;
        mount.mount()?;
        Ok(mount)
    }

    fn mount(&self) -> Result<(), String> {
        system("mount", &["-o", "loop", text(&self.image), text(&self.at)])
    }

    fn lose_power(&self) -> Result<(), String> {
        system("perl", &["-e", SHUTDOWN, text(&self.at)])
    }

    fn unmount(&self) -> Result<(), String> {
        system("umount", &[text(&self.at)])
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // It may be unmounted already.
        let _ = self.unmount();
    }
}

/// Loses power once, at a moment after the start; what went wrong.
fn lose(mount: &Mount, round: u64, moment: Duration, acks: &Path) -> Result<(), String> {
    let database = mount.at.join("bank");
    let protocol = ProtocolKind::ALL[round as usize % ProtocolKind::ALL.len()].name();
    let clients = if round.is_multiple_of(2) { "--clients=0" } else { "--clients=8" };
    let bench = ["bench", "debit-credit", "--accounts-per-branch=2000", "--branches=2", "--seconds=60"];
    let place = ["--dir", text(&database), "--acks", text(acks), "--protocol", protocol];
    let mut process = command(&[&bench[..], &place, &[clients, "--checkpoint-seconds=0.05"]].concat())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())?;
    std::thread::sleep(moment);
    let lost = mount.lose_power();
    // It goes on for a moment, so that it would acknowledge what it cannot have made durable.
    std::thread::sleep(Duration::from_millis(30));
    process.kill().and_then(|()| process.wait()).map_err(|error| error.to_string())?;
    lost?;
    mount.unmount()?;
    mount.mount()?;
    if !database.join("MANIFEST").exists() {
        let noted = std::fs::read(acks).unwrap_or_default();
        return if noted.is_empty() { Ok(()) } else { Err("the database is gone".to_owned()) };
    }
    let checked = heddle(&["check", text(&database), "--acks", text(acks)]);
    if checked.status.success() { Ok(()) } else { Err(errors(&checked)) }
}

#[test]
fn nothing_acknowledged_is_lost_when_the_power_goes() {
    let rounds = setting("HEDDLE_POWER_ROUNDS", 2 * ProtocolKind::ALL.len() as u64);
    let seed = setting("HEDDLE_POWER_SEED", fastrand::u64(..));
    println!("HEDDLE_POWER_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let directory = tempfile::tempdir().unwrap();
    let acks = directory.path().join("acks");
    std::fs::write(&acks, "").unwrap();
    let mount = match Mount::new(directory.path()) {
        Ok(mount) => mount,
        Err(why) => {
            return skips::skip("mount", &format!("no file system can be made and mounted here ({why})"));
        }
    };
    for round in 0..rounds {
        let moment = Duration::from_millis(random.u64(10..1_200));
        lose(&mount, round, moment, &acks)
            .unwrap_or_else(|what| panic!("loss {round} of {rounds}, after {moment:?}, seed {seed}: {what}"));
    }
    let acknowledged = std::fs::read_to_string(&acks).unwrap().lines().count();
    println!("{rounds} losses of power, {acknowledged} acknowledged");
}
