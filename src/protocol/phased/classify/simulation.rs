//! A workload on paper: what worker contexts would report of it, phase after phase, to a classifier that decides what
//! happens next.
//!
//! It is exact where the classifier relies on it (which call conflicts, is stashed or goes to a slice), and crude
//! elsewhere: the conflicts of a call are in proportion to the share of the calls that write the same record.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::sample::{Access, Candidate, RecordKey, Sampler};
use super::{Change, Classifier, Decision, JoinedReport, SplitReport};
use crate::operation::Operation;
use crate::types::key::EncodedKey;

pub(super) const TABLE: u32 = 3;
/// A split phase is looked at this many times while it runs.
const LOOKS: u32 = 20;

pub(super) fn record(number: u64) -> RecordKey {
    RecordKey { table: TABLE, key: EncodedKey::from(number.to_be_bytes().as_slice()) }
}

pub(super) fn candidate(number: u64, column: u16, operation: Operation) -> Candidate {
    Candidate { record: record(number), column, operation }
}

pub(super) fn operate(column: u16, operation: Operation) -> Access {
    Access::Operation { column, operation }
}

pub(super) const ADD: Access = Access::Operation { column: 1, operation: Operation::Add };
pub(super) const MAX: Access = Access::Operation { column: 1, operation: Operation::Max };

/// Calls of one kind.
#[derive(Clone)]
pub(super) struct Kind {
    /// The share of all calls.
    pub(super) share: f64,
    pub(super) record: u64,
    pub(super) accesses: Vec<Access>,
}

impl Kind {
    pub(super) fn new(share: f64, record: u64, accesses: &[Access]) -> Kind {
        Kind { share, record, accesses: accesses.to_vec() }
    }

    fn writes(&self) -> bool {
        self.accesses.iter().any(|access| matches!(access, Access::Operation { .. }))
    }
}

/// The shares of the most popular of a million keys, at this Zipf exponent.
pub(super) fn zipf(alpha: f64, first: usize) -> Vec<f64> {
    let total: f64 = (1..=1_000_000).map(|rank| f64::from(rank).powf(-alpha)).sum();
    (1..=first).map(|rank| (rank as f64).powf(-alpha) / total).collect()
}

/// The counts and changes so far.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) joined_phases: u64,
    pub(super) split_phases: u64,
    pub(super) ended_early: u64,
    pub(super) stashed: u64,
    pub(super) changes: Vec<(Duration, Change)>,
}

pub(super) struct Simulation {
    pub(super) classifier: Classifier,
    pub(super) kinds: Vec<Kind>,
    pub(super) phase: Duration,
    pub(super) calls_per_second: f64,
    /// The most calls in flight.
    pub(super) in_flight: u64,
    /// The share of calls that conflict with a rival, if all write the same record.
    pub(super) conflict_class: f64,
    /// Conflicts per call about records of which each is met once.
    pub(super) stray: f64,
    /// The number of calls that could have committed in the time that it costs to stash one.
    pub(super) stash_cost: f64,
    pub(super) now: Duration,
    pub(super) decision: Decision,
    pub(super) seen: Seen,
    samplers: Vec<Sampler>,
    /// Calls that were stashed and have not run yet.
    waiting: u64,
    /// Fractions of events that are still to come, by what they are of.
    carried: BTreeMap<(u8, usize), f64>,
    next_stray: u64,
}

impl Simulation {
    /// Two worker contexts, phases of 20 milliseconds, a million calls per second.
    pub(super) fn new(kinds: &[Kind]) -> Simulation {
        Simulation {
            classifier: Classifier::new(),
            kinds: kinds.to_vec(),
            phase: Duration::from_millis(20),
            calls_per_second: 1e6,
            in_flight: 4096,
            conflict_class: 0.2,
            stray: 0.0,
            stash_cost: 0.0,
            now: Duration::ZERO,
            decision: Decision::default(),
            seen: Seen::default(),
            samplers: vec![Sampler::new(), Sampler::new()],
            waiting: 0,
            carried: BTreeMap::new(),
            next_stray: 0,
        }
    }

    /// Runs phases for this long.
    pub(super) fn run(&mut self, length: Duration) {
        let end = self.now + length;
        while self.now < end {
            self.step();
        }
    }

    pub(super) fn run_seconds(&mut self, seconds: u64) {
        self.run(Duration::from_secs(seconds));
    }

    /// Runs one phase, as the last decision says.
    pub(super) fn step(&mut self) {
        self.decision = if self.decision.worth_splitting { self.split_phase() } else { self.joined_phase() };
        let changes = self.decision.changes.iter().map(|change| (self.now, change.clone()));
        self.seen.changes.extend(changes);
    }

    /// A joined phase, even if it is the turn of a split one.
    pub(super) fn joined_phase(&mut self) -> Decision {
        self.seen.joined_phases += 1;
        let calls = self.calls_per_second * self.phase.as_secs_f64();
        for at in 0..self.kinds.len() {
            self.conflict(at, calls);
        }
        self.stray(calls);
        self.now += self.phase;
        let late = std::mem::take(&mut self.waiting) as f64;
        let committed = (calls + late - self.stash_cost * late).max(0.0) as u64;
        let mut report = JoinedReport { length: self.phase, committed, ..JoinedReport::default() };
        self.samplers.iter().for_each(|sampler| sampler.drain_into(&mut report.samples));
        self.classifier.end_of_joined(&report)
    }

    fn split_phase(&mut self) -> Decision {
        self.seen.split_phases += 1;
        let calls = self.calls_per_second * self.phase.as_secs_f64() / f64::from(LOOKS);
        let mut report = SplitReport::default();
        report.writes.extend(self.decision.split.iter().map(|split| (split.clone(), 0)));
        for _ in 0..LOOKS {
            self.part_of_split_phase(calls, &mut report);
            report.length += self.phase / LOOKS;
            let all_stashed = report.stashed >= self.in_flight;
            if Classifier::should_end_split_early(report.stashed, report.committed, all_stashed) {
                self.seen.ended_early += 1;
                break;
            }
        }
        self.now += report.length;
        self.seen.stashed += report.stashed;
        self.waiting += report.stashed;
        self.samplers.iter().for_each(|sampler| sampler.drain_into(&mut report.samples));
        let decision = self.classifier.end_of_split(&report);
        if !decision.may_skip_joined && decision.worth_splitting {
            // The stashed calls run now.
            self.decision = decision;
            let changes = self.decision.changes.iter().map(|change| (self.now, change.clone()));
            self.seen.changes.extend(changes);
            return self.joined_phase();
        }
        decision
    }

    fn part_of_split_phase(&mut self, calls: f64, report: &mut SplitReport) {
        let refused: Vec<Vec<Access>> = self.kinds.iter().map(|kind| self.refused(kind)).collect();
        let stashing: f64 = (self.kinds.iter().zip(&refused))
            .filter(|(_, refused)| !refused.is_empty())
            .map(|(kind, _)| kind.share * calls)
            .sum();
        // When all calls in flight wait, none is left to commit.
        let room = (self.in_flight - report.stashed) as f64;
        let calls = if stashing > room { calls * room / stashing } else { calls };
        let mut committed = calls;
        for (at, refused) in refused.iter().enumerate() {
            let (share, number) = (self.kinds[at].share, self.kinds[at].record);
            if !refused.is_empty() {
                committed -= share * calls;
                for _ in 0..self.whole((1, at), share * calls) {
                    report.stashed += 1;
                    self.sampler().report_stash(TABLE, &number.to_be_bytes(), refused);
                }
                continue;
            }
            let is_split = self.decision.split.iter().any(|split| split.record == record(number));
            if is_split && self.kinds[at].writes() {
                let writes = self.whole((2, at), share * calls);
                for (split, count) in report.writes.iter_mut() {
                    let access = operate(split.column, split.operation);
                    if split.record == record(number) && self.kinds[at].accesses.contains(&access) {
                        *count += writes;
                    }
                }
            } else {
                self.conflict(at, calls);
            }
        }
        self.stray(calls);
        report.committed += committed as u64;
    }

    /// The accesses that a call of this kind must not make in this split phase.
    fn refused(&self, kind: &Kind) -> Vec<Access> {
        let split = self.decision.split.iter().filter(|split| split.record == record(kind.record));
        let split: Vec<_> = split.map(|split| (split.column, split.operation)).collect();
        let is_refused = |access: &Access| match *access {
            Access::Record => !split.is_empty(),
            Access::Column(column) => split.iter().any(|&(of, _)| of == column),
            Access::Operation { column, operation } => {
                split.iter().any(|&(of, selected)| of == column && selected != operation)
            }
        };
        kind.accesses.iter().copied().filter(is_refused).collect()
    }

    /// The conflicts of one kind with all that write the same record.
    fn conflict(&mut self, at: usize, calls: f64) {
        let number = self.kinds[at].record;
        let rivals: f64 = (self.kinds.iter())
            .filter(|rival| rival.record == number && rival.writes())
            .map(|rival| rival.share)
            .sum();
        let conflicts = self.kinds[at].share * calls * (self.conflict_class * rivals).min(1.0);
        for _ in 0..self.whole((0, at), conflicts) {
            let accesses = self.kinds[at].accesses.clone();
            self.sampler().report_conflict(TABLE, &number.to_be_bytes(), &accesses);
        }
    }

    fn stray(&mut self, calls: f64) {
        for _ in 0..self.whole((3, 0), self.stray * calls) {
            self.next_stray += 1;
            let number = 1_000_000 + self.next_stray;
            self.sampler().report_conflict(TABLE, &number.to_be_bytes(), &[ADD]);
        }
    }

    /// Many conflicts about one record at once: a rival was stopped in the middle of a commit.
    pub(super) fn burst(&mut self, number: u64, conflicts: u64) {
        for _ in 0..conflicts {
            self.samplers[0].report_conflict(TABLE, &number.to_be_bytes(), &[ADD]);
        }
    }

    fn sampler(&self) -> &Sampler {
        &self.samplers[self.seen.joined_phases as usize % self.samplers.len()]
    }

    /// The number of whole events in the sum; the rest is for the next time.
    fn whole(&mut self, of: (u8, usize), events: f64) -> u64 {
        let sum = self.carried.entry(of).or_insert(0.0);
        *sum += events;
        let whole = sum.floor();
        *sum -= whole;
        whole as u64
    }

    /// The columns that are split now.
    pub(super) fn split(&self) -> Vec<Candidate> {
        self.decision.split.clone()
    }

    /// Runs until exactly these columns are split. Gives back how many phases and how much time it took.
    pub(super) fn until_split(&mut self, expected: &[Candidate]) -> (u64, Duration) {
        let (start, phases) = (self.now, self.seen.joined_phases + self.seen.split_phases);
        while self.decision.split != expected {
            assert!(self.now - start < Duration::from_secs(5), "still {:?}", self.decision.split);
            self.step();
        }
        (self.seen.joined_phases + self.seen.split_phases - phases, self.now - start)
    }
}
