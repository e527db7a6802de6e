//! The disk usage of a run: the maximum sizes of its log and its checkpoints, sampled ten times a second.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::beside::{Ended, beside};
use crate::failure::Result;

/// Interval between two measurements.
const LOOK: Duration = Duration::from_millis(100);

/// Directories with the files of a database.
pub struct Files {
    pub log: PathBuf,
    /// The first one is the database's own.
    pub checkpoints: Vec<PathBuf>,
}

/// The most bytes at any moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peak {
    pub log: u64,
    pub checkpoints: u64,
    /// The most bytes of both together.
    pub both: u64,
}

impl Files {
    /// The directories of a database.
    pub fn of(directory: &Path, log: Option<&Path>, checkpoints: &[PathBuf]) -> Files {
        let log = log.map_or_else(|| directory.join("log"), Path::to_path_buf);
        let own = directory.join("checkpoint");
        Files { log, checkpoints: [own].into_iter().chain(checkpoints.iter().cloned()).collect() }
    }

    fn look(&self, peak: &mut Peak) {
        let log = bytes_in(&self.log);
        let checkpoints = self.checkpoints.iter().map(|directory| bytes_in(directory)).sum();
        peak.log = peak.log.max(log);
        peak.checkpoints = peak.checkpoints.max(checkpoints);
        peak.both = peak.both.max(log + checkpoints);
    }

    /// Does `work`, and samples the files meanwhile on a thread of its own.
    ///
    /// # Errors
    /// The system refuses the thread; `work` is not done.
    pub fn watch<T>(&self, work: impl FnOnce() -> T) -> Result<(T, Peak)> {
        let mut peak = Peak::default();
        self.look(&mut peak);
        let (done, seen) = beside("disk", |ended| self.sample(ended), work)?;
        let mut peak = Peak {
            log: peak.log.max(seen.log),
            checkpoints: peak.checkpoints.max(seen.checkpoints),
            both: peak.both.max(seen.both),
        };
        self.look(&mut peak);
        Ok((done, peak))
    }

    fn sample(&self, ended: &Ended) -> Peak {
        let mut peak = Peak::default();
        while !ended.is_set() {
            self.look(&mut peak);
            thread::park_timeout(LOOK);
        }
        peak
    }
}

impl Peak {
    /// The JSON for the results.
    pub fn json(&self) -> Value {
        json!({ "log_bytes_max": self.log, "checkpoint_bytes_max": self.checkpoints, "bytes_max": self.both })
    }
}

/// Bytes of the files in a directory; a file may go while it is looked at.
fn bytes_in(directory: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    let files = entries.filter_map(|entry| entry.ok()?.metadata().ok());
    files.filter(std::fs::Metadata::is_file).map(|file| file.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_at_any_moment_is_reported_although_it_goes_again() {
        let place = tempfile::tempdir().unwrap();
        let files = Files::of(place.path(), None, &[place.path().join("fast")]);
        for (directory, bytes) in [("log", 100), ("checkpoint", 20), ("fast", 3)] {
            std::fs::create_dir(place.path().join(directory)).unwrap();
            std::fs::write(place.path().join(directory).join("file"), vec![0; bytes]).unwrap();
        }
        let ((), peak) = files
            .watch(|| {
                std::fs::write(place.path().join("log/more"), [0; 1000]).unwrap();
                thread::sleep(3 * LOOK);
                std::fs::remove_file(place.path().join("log/more")).unwrap();
            })
            .unwrap();
        assert_eq!(peak, Peak { log: 1100, checkpoints: 23, both: 1123 });
        assert_eq!(Files::of(place.path(), Some(Path::new("none")), &[]).watch(|| ()).unwrap().1.log, 0);
    }
}
