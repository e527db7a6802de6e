//! Canaries: protocols that are broken on purpose, each in one way, and the proof that the conformance suite catches
//! them. They are the optimistic commit without one of its parts, and exist in the crate's own tests only.

use std::thread;

use super::attempt::{Access, Attempt, DIRECT, Reading, TRACKED};
use super::footprint::Footprint;
use super::{Held, MAX_OPTIMISTIC_ATTEMPTS, Protocol, Try};
use crate::error::Result;
use crate::storage::commit::{CommitFailure, Excluded, InOrder, LockedWrites};
use crate::storage::read_set::Part;
use crate::storage::record::Record;
use crate::storage::row::RowLayout;
use crate::storage::word::Stamp;

/// The part of the commit that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Canary {
    /// Nothing: the control, which must pass.
    Honest,
    /// Every access first installs what was written before it, so others see it while the body runs, and a failure
    /// takes nothing back.
    Hasty,
    /// Records that were read are not validated; index nodes are.
    Unvalidated,
    /// Index nodes are not validated; records are.
    Unversioned,
    /// The read set is validated before the write set is locked, instead of after.
    Early,
    /// Records are written without being locked.
    Untaken,
    /// Only what writes is validated; what reads or fails is believed.
    UnvalidatedReads,
    /// Writes of a failed body are installed.
    Lasting,
    /// Each access of a session forgets one thing that it has read.
    Forgetful,
}

impl Canary {
    pub(super) const ALL: [Canary; 9] = [
        Canary::Honest,
        Canary::Hasty,
        Canary::Unvalidated,
        Canary::Unversioned,
        Canary::Early,
        Canary::Untaken,
        Canary::UnvalidatedReads,
        Canary::Lasting,
        Canary::Forgetful,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Canary::Honest => "honest",
            Canary::Hasty => "hasty",
            Canary::Unvalidated => "unvalidated",
            Canary::Unversioned => "unversioned",
            Canary::Early => "early",
            Canary::Untaken => "untaken",
            Canary::UnvalidatedReads => "unconfirmed",
            Canary::Lasting => "lasting",
            Canary::Forgetful => "forgetful",
        }
    }

    fn access(self) -> &'static Access {
        match self {
            Canary::Hasty => &HASTY,
            Canary::Unvalidated => &UNVALIDATED,
            Canary::Unversioned => &UNVERSIONED,
            _ => &TRACKED,
        }
    }
}

static HASTY: Access =
    Access { claim: None, range: None, reading: Reading::ByRead, read: read_hastily, missed: DIRECT.missed };
static UNVALIDATED: Access =
    Access { claim: None, range: None, reading: DIRECT.reading, read: DIRECT.read, missed: TRACKED.missed };
static UNVERSIONED: Access =
    Access { claim: None, range: None, reading: TRACKED.reading, read: TRACKED.read, missed: DIRECT.missed };

fn read_hastily<'a>(
    attempt: &Attempt<'a>,
    record: Record<'a>,
    part: (Part, &RowLayout),
    copy: &mut [u64],
) -> Result<u64> {
    write_through(attempt);
    (DIRECT.read)(attempt, record, part, copy)
}

/// Installs what was written so far.
fn write_through(attempt: &Attempt<'_>) {
    if !attempt.workspace().borrow().writes.is_empty() {
        // What cannot be installed is lost: it is a canary.
        let _ = attempt.commit(&InOrder, |_| true);
        attempt.workspace().borrow_mut().writes.clear_writes();
    }
}

impl Protocol for Canary {
    fn begin(&self, attempt: &Attempt<'_>, _footprint: Option<&Footprint>, attempted: Try) {
        attempt.set_access(self.access());
        if attempted.number > MAX_OPTIMISTIC_ATTEMPTS {
            attempt.run_exclusively();
        }
    }

    fn commit(&self, attempt: &Attempt<'_>) -> Result<Option<Stamp>, CommitFailure> {
        if attempt.workspace().borrow().writes.is_empty() {
            return if self.validate_reads(attempt) { Ok(None) } else { Err(CommitFailure::Conflict) };
        }
        let reads = attempt.reads().borrow();
        let alone = attempt.held().borrow().alone;
        let seen = attempt.highest_seen();
        let still_holds =
            |taken: &LockedWrites<'_, '_>| alone || reads.still_holds(|record| taken.is_own(record), seen);
        let stamp = match self {
            Canary::Early => {
                if !alone && !reads.still_holds(|_| false, seen) {
                    return Err(CommitFailure::Conflict);
                }
                // Other threads have time to commit in between.
                thread::yield_now();
                attempt.commit(&InOrder, |_| true)
            }
            Canary::Untaken if has_no_blocks(attempt) => attempt.commit(&Excluded, |taken| {
                thread::yield_now();
                still_holds(taken)
            }),
            // What it has installed before its end has changed what it has read.
            Canary::Hasty => attempt.commit(&InOrder, |_| true),
            _ => attempt.commit(&InOrder, still_holds),
        };
        stamp.map(Some)
    }

    fn validate_reads(&self, attempt: &Attempt<'_>) -> bool {
        if *self == Canary::Lasting {
            write_through(attempt);
        }
        let believed = *self == Canary::UnvalidatedReads || attempt.held().borrow().alone;
        believed || attempt.reads().borrow().still_holds(|_| false, attempt.highest_seen())
    }

    fn forgets_session_reads(&self) -> bool {
        *self == Canary::Forgetful
    }

    fn end(&self, attempt: &Attempt<'_>) {
        attempt.end_exclusive();
    }

    fn end_group(&self, _held: &mut Held) {}
}

/// Returns true if no record in the write set has memory of its own, which two writers would free twice.
fn has_no_blocks(attempt: &Attempt<'_>) -> bool {
    let workspace = attempt.workspace().borrow();
    workspace.writes.touched().iter().all(|touched| !touched.table().layout().has_blocks())
}

mod tests {
    use std::panic::catch_unwind;
    use std::time::Duration;

    use super::Canary;
    use crate::options::Options;
    use crate::protocol::ProtocolKind;
    use crate::testing::conformance::script_thread::Way;
    use crate::testing::conformance::{Subject, anomalies, generator, histories, script, semantics};

    /// Under a canary nothing waits for anything, so every step answers, and the schedule is as it is written.
    const PATIENCE: Duration = Duration::from_secs(30);

    fn subject(canary: Canary) -> Subject {
        Subject {
            name: canary.name().to_string(),
            options: Options::default().protocol(ProtocolKind::Canary(canary)),
            labels: false,
            moves: false,
            changes: false,
        }
    }

    /// The seed of the first random schedule that catches it, if one of the first 400 does.
    fn caught_by_schedules(canary: Canary) -> Option<u64> {
        (0..400).find(|&seed| {
            let script = generator::script(seed, anomalies::SHAPE);
            let way = Way::ALL[seed as usize % Way::ALL.len()];
            anomalies::judge(&subject(canary), &script, way, PATIENCE).is_err()
        })
    }

    /// The seed of the first random history that catches it, if one of the first 100 does.
    fn caught_by_histories(canary: Canary) -> Option<u64> {
        // A broken protocol may also show a state that cannot be, upon which the harness panics: that is caught, too.
        let judge = |seed| histories::judge(subject(canary).database(), false, seed, 4, 25).is_err();
        (0..100).find(|&seed| catch_unwind(|| judge(seed)).unwrap_or(true))
    }

    #[test]
    fn every_script_shows_its_anomaly_under_its_canary() {
        for (name, script) in script::read_folder("anomalies") {
            let wanted = script.canary.as_deref();
            let canary = Canary::ALL.into_iter().find(|canary| Some(canary.name()) == wanted);
            let canary = canary.unwrap_or_else(|| panic!("{name}: no canary {wanted:?}"));
            // A session compares on its own what it has read before: an access that is not validated shows less there.
            for way in Way::ALL.into_iter().filter(|way| *way != Way::Session) {
                let judged = anomalies::judge(&subject(canary), &script, way, PATIENCE);
                assert!(judged.is_err(), "{name} {way:?}: {canary:?} was not caught");
            }
        }
    }

    #[test]
    fn the_control_passes() {
        let honest = subject(Canary::Honest);
        semantics::golden(&honest);
        semantics::random(&honest, &honest);
        semantics::own_inserts(&honest);
        anomalies::golden(&honest);
        anomalies::random(&honest);
        histories::race::for_keys(&honest);
        histories::random(&honest);
    }

    #[test]
    fn random_schedules_catch_what_needs_no_race() {
        for canary in [
            Canary::Hasty,
            Canary::Unvalidated,
            Canary::Unversioned,
            Canary::UnvalidatedReads,
            Canary::Lasting,
        ] {
            let caught = caught_by_schedules(canary);
            assert!(caught.is_some(), "{canary:?} was not caught");
        }
    }

    #[test]
    fn random_histories_catch_every_canary() {
        for canary in Canary::ALL.into_iter().filter(|canary| *canary != Canary::Honest) {
            let caught = caught_by_histories(canary);
            assert!(caught.is_some(), "{canary:?} was not caught");
        }
    }

    #[test]
    fn random_histories_of_stock_catch_a_bound_that_is_not_kept() {
        let judge = |is_bounded: bool, seed| {
            let db = subject(Canary::Honest).database();
            histories::stock::judge(db, (false, is_bounded), seed, 4, 60).is_err()
        };
        assert!((0..20).any(|seed| judge(false, seed)), "the bound was not missed");
        histories::stock::random(&subject(Canary::Honest));
    }

    #[test]
    fn golden_scripts_on_one_thread_catch_what_leaves_a_trace() {
        for canary in [Canary::Lasting, Canary::Hasty] {
            let caught = catch_unwind(|| semantics::golden(&subject(canary)));
            assert!(caught.is_err(), "{canary:?} was not caught");
        }
    }
}
