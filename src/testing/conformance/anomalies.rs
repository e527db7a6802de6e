//! Isolation: schedules that show an anomaly where it is possible, and random ones.

use std::time::Duration;

use super::generator::{Shape, script};
use super::script::{Script, read_folder};
use super::script_run::play;
use super::script_thread::Way;
use super::{Subject, oracle, seeds};

/// The time after which the schedule continues without a step. Long enough for one that is not blocked, most of the
/// time; short, because under some protocols most steps are blocked.
const PATIENCE: Duration = Duration::from_millis(8);

/// The shape of random schedules.
pub const SHAPE: Shape = Shape { transactions: 4, steps: 5, keys: 4, overlapping: true };

/// The scripts of `tests/scripts/anomalies`: none shows its anomaly, however its transactions are run.
pub fn golden(subject: &Subject) {
    let scripts = read_folder("anomalies");
    assert!(!scripts.is_empty());
    for (name, script) in scripts {
        for way in Way::ALL {
            if let Err(what) = judge(subject, &script, way, PATIENCE) {
                panic!("{} {way:?}: {name}, {}: {what}", subject.name, script.title);
            }
        }
    }
}

/// Random schedules of some transactions: what they see must have a serial order.
pub fn random(subject: &Subject) {
    for seed in seeds(24) {
        let way = Way::ALL[seed as usize % Way::ALL.len()];
        if let Err(what) = judge(subject, &script(seed, SHAPE), way, PATIENCE) {
            panic!("HEDDLE_SEED={seed} {} {way:?}: {what}", subject.name);
        }
    }
}

/// Plays a script, and looks for a serial order.
///
/// # Errors
/// There is none.
pub fn judge(subject: &Subject, script: &Script, way: Way, timeout: Duration) -> Result<(), String> {
    oracle::judge(script, &play(subject, script, way, timeout))
}
