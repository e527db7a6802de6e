//! The figures of one calling thread: counts, reasons, latencies. Threads share nothing while they run.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::interval::Interval;

/// Rates over time are kept per tenth of a second.
pub(super) const SLOTS_PER_SECOND: f64 = 10.0;

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Committed, and its result released.
    Committed,
    /// Ended in its own error, for this reason.
    Failed(Cow<'static, str>),
}

/// One released call.
pub(super) struct Release {
    pub procedure: usize,
    /// Marks that it leaves if it was committed; a call without marks only reads.
    pub marks: u32,
    pub outcome: Outcome,
    /// Retries of the call; 0 where unknown.
    pub retries: u32,
    pub at: Instant,
    /// Time from arrival to release, where it was sampled, and the number of calls that the sample
    /// represents.
    pub latency: Option<(Duration, u64)>,
}

/// Counts of one procedure, within the measured interval.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub committed: u64,
    pub retries: u64,
    pub failed: u64,
    pub failed_by_reason: BTreeMap<Cow<'static, str>, u64>,
    pub latency_sum: Duration,
    pub latency_samples: u64,
}

impl Counts {
    pub fn merge(&mut self, other: &Counts) {
        self.committed += other.committed;
        self.retries += other.retries;
        self.failed += other.failed;
        for (reason, calls) in &other.failed_by_reason {
            *self.failed_by_reason.entry(reason.clone()).or_default() += calls;
        }
        self.latency_sum += other.latency_sum;
        self.latency_samples += other.latency_samples;
    }
}

/// The figures of one thread.
pub(super) struct Recorder {
    pub by_procedure: Vec<Counts>,
    /// Latencies of read-only and of writing calls in nanoseconds. Committed and failed calls count alike: both
    /// waited for an answer.
    pub read_latency: Histogram<u64>,
    pub write_latency: Histogram<u64>,
    /// Committed calls per tenth of a second of the measured interval.
    pub slots: Vec<u64>,
    /// Marks of the committed calls of the whole run, warm-up and all, which the database must show.
    pub marks: u64,
    pub last_release: Option<Instant>,
}

impl Recorder {
    /// An empty recorder for this many procedures.
    pub fn new(procedures: usize) -> Self {
        Self {
            by_procedure: vec![Counts::default(); procedures],
            read_latency: histogram(),
            write_latency: histogram(),
            slots: Vec::new(),
            marks: 0,
            last_release: None,
        }
    }

    /// Counts a released call.
    pub fn record(&mut self, interval: &Interval, release: Release) {
        let committed = release.outcome == Outcome::Committed;
        if committed {
            self.marks += u64::from(release.marks);
        }
        self.last_release = self.last_release.max(Some(release.at));
        let Some(offset) = interval.measured_offset(release.at) else { return };
        let counts = &mut self.by_procedure[release.procedure];
        counts.retries += u64::from(release.retries);
        match release.outcome {
            Outcome::Committed => {
                counts.committed += 1;
                self.count_in_slot(offset, 1);
            }
            Outcome::Failed(reason) => {
                counts.failed += 1;
                *counts.failed_by_reason.entry(reason).or_default() += 1;
            }
        }
        if let Some((latency, calls)) = release.latency {
            self.sample(release.procedure, release.marks == 0, latency, calls);
        }
    }

    /// Counts calls that were committed and released together, and empties the tally. Gives their number.
    pub fn record_tally(&mut self, interval: &Interval, at: Instant, tally: &mut Tally) -> u64 {
        self.marks += std::mem::take(&mut tally.marks);
        self.last_release = self.last_release.max(Some(at));
        let measured = interval.measured_offset(at);
        let made_at = tally.made_at.take();
        let mut all = 0;
        for (procedure, calls) in tally.by_procedure.iter_mut().enumerate() {
            let calls = std::mem::take(calls);
            let committed = calls.reading + calls.writing;
            all += committed;
            if measured.is_none() || committed == 0 {
                continue;
            }
            self.by_procedure[procedure].committed += committed;
            self.by_procedure[procedure].retries += calls.retries;
            if let Some(made_at) = made_at {
                let latency = at.saturating_duration_since(made_at);
                self.sample(procedure, true, latency, calls.reading);
                self.sample(procedure, false, latency, calls.writing);
            }
        }
        if let Some(offset) = measured {
            self.count_in_slot(offset, all);
            for timed in &tally.timed {
                self.sample(timed.procedure, timed.read_only, timed.timing.latency(at), timed.timing.weight);
            }
        }
        tally.timed.clear();
        all
    }

    fn count_in_slot(&mut self, offset: Duration, calls: u64) {
        let slot = (offset.as_secs_f64() * SLOTS_PER_SECOND) as usize;
        if slot >= self.slots.len() {
            self.slots.resize(slot + 1, 0);
        }
        self.slots[slot] += calls;
    }

    /// Notes the latency of calls that waited equally long.
    fn sample(&mut self, procedure: usize, read_only: bool, latency: Duration, calls: u64) {
        if calls == 0 {
            return;
        }
        let counts = &mut self.by_procedure[procedure];
        counts.latency_sum += latency.mul_f64(calls as f64);
        counts.latency_samples += calls;
        let histogram = if read_only { &mut self.read_latency } else { &mut self.write_latency };
        record(histogram, u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX), calls);
    }
}

/// Committed calls of one thread that are released together, counted before they are: then a call costs an addition
/// or two, and clock, interval and histogram cost once for all of them.
pub(super) struct Tally {
    by_procedure: Vec<Together>,
    marks: u64,
    /// Time at which all of them were made. `None` if there are none, or each has a timing of its own.
    made_at: Option<Instant>,
    timed: Vec<Timed>,
}

/// Calls of one procedure.
#[derive(Clone, Copy, Default)]
struct Together {
    reading: u64,
    writing: u64,
    retries: u64,
}

/// A call with a latency of its own.
struct Timed {
    timing: Timing,
    procedure: usize,
    read_only: bool,
}

/// The beginning and end of a call's latency.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    /// Time at which it was made, or was planned to arrive.
    pub arrival: Instant,
    /// Time of its release, if that was before it is recorded.
    pub released: Option<Instant>,
    /// Number of calls that it represents.
    pub weight: u64,
}

impl Timing {
    /// The latency of a call that is recorded now.
    pub fn latency(&self, now: Instant) -> Duration {
        self.released.unwrap_or(now).saturating_duration_since(self.arrival)
    }
}

impl Tally {
    /// An empty tally for this many procedures.
    pub fn new(procedures: usize) -> Self {
        Self {
            by_procedure: vec![Together::default(); procedures],
            marks: 0,
            made_at: None,
            timed: Vec::new(),
        }
    }

    /// Sets the time at which all calls were made, except those with timings of their own.
    pub fn begin(&mut self, made_at: Instant) {
        self.made_at = Some(made_at);
    }

    /// Counts a committed call.
    #[inline]
    pub fn add(&mut self, procedure: usize, marks: u32, retries: u32) {
        let calls = &mut self.by_procedure[procedure];
        calls.reading += u64::from(marks == 0);
        calls.writing += u64::from(marks != 0);
        calls.retries += u64::from(retries);
        self.marks += u64::from(marks);
    }

    /// Records a counted call's latency on its own.
    pub fn time(&mut self, timing: Timing, procedure: usize, marks: u32) {
        self.timed.push(Timed { timing, procedure, read_only: marks == 0 });
    }
}

/// A histogram that keeps three digits and grows automatically.
pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new(3).unwrap_or_else(|_| unreachable!("three digits are within the histogram's 0 to 5"))
}

/// Adds samples of one value. A histogram that can't grow any more keeps them as its largest value.
pub(super) fn record(histogram: &mut Histogram<u64>, value: u64, samples: u64) {
    if histogram.record_n(value, samples).is_err() {
        histogram.saturating_record_n(value, samples);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Settings;
    use super::*;

    fn release(interval: &Interval, seconds: f64, outcome: Outcome) -> Release {
        Release {
            procedure: 0,
            marks: 1,
            outcome,
            retries: 1,
            at: interval.measured_from() + Duration::from_secs_f64(seconds),
            latency: Some((Duration::from_micros(100), 1)),
        }
    }

    #[test]
    fn releases_outside_of_the_interval_leave_only_marks() {
        let interval = Interval::start(&Settings { seconds: 1.0, ..Settings::default() }, false);
        let mut recorder = Recorder::new(1);
        recorder.record(&interval, release(&interval, 0.05, Outcome::Committed));
        recorder.record(&interval, release(&interval, 0.95, Outcome::Committed));
        recorder.record(&interval, release(&interval, 1.5, Outcome::Committed));
        let counts = &recorder.by_procedure[0];
        assert_eq!((counts.committed, counts.retries, recorder.marks), (2, 2, 3));
        assert_eq!(recorder.slots, [1, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(recorder.write_latency.len(), 2);
        assert_eq!(recorder.last_release, Some(interval.measured_from() + Duration::from_millis(1_500)));
    }

    #[test]
    fn failures_are_counted_by_reason_and_leave_no_mark() {
        let interval = Interval::start(&Settings::default(), false);
        let mut recorder = Recorder::new(1);
        for reason in ["code", "floor", "code"] {
            recorder.record(&interval, release(&interval, 0.1, Outcome::Failed(Cow::Borrowed(reason))));
        }
        let counts = &recorder.by_procedure[0];
        assert_eq!((counts.committed, counts.failed, recorder.marks), (0, 3, 0));
        assert_eq!(counts.failed_by_reason.get("code"), Some(&2));
        assert!(recorder.slots.is_empty());
    }

    #[test]
    fn readers_and_writers_have_their_own_latencies_and_only_writers_leave_marks() {
        let interval = Interval::start(&Settings::default(), false);
        let mut recorder = Recorder::new(1);
        recorder.record(&interval, release(&interval, 0.1, Outcome::Committed));
        let read = Release { marks: 0, latency: None, ..release(&interval, 0.1, Outcome::Committed) };
        recorder.record(&interval, read);
        assert_eq!((recorder.read_latency.len(), recorder.write_latency.len(), recorder.marks), (0, 1, 1));
    }

    /// A tally of two readers and three writers with two marks each, of which one was retried, made 100 µs ago.
    fn tally(made_at: Instant) -> Tally {
        let mut tally = Tally::new(2);
        tally.begin(made_at);
        (0..2).for_each(|_| tally.add(0, 0, 0));
        (0..3).for_each(|retries| tally.add(1, 2, retries));
        tally
    }

    #[test]
    fn calls_released_together_count_as_if_they_were_alone() {
        let interval = Interval::start(&Settings::default(), false);
        let mut recorder = Recorder::new(2);
        let at = interval.measured_from() + Duration::from_millis(250);
        let mut tally = tally(at - Duration::from_micros(100));
        recorder.record_tally(&interval, at, &mut tally);
        let [reads, writes] = &recorder.by_procedure[..] else { panic!("two transactions") };
        assert_eq!((reads.committed, writes.committed, writes.retries), (2, 3, 3));
        assert_eq!((recorder.marks, recorder.last_release), (6, Some(at)));
        assert_eq!(recorder.slots, [0, 0, 5]);
        assert_eq!((recorder.read_latency.len(), recorder.write_latency.len()), (2, 3));
        assert_eq!((writes.latency_samples, writes.latency_sum), (3, Duration::from_micros(300)));
        // It was emptied.
        recorder.record_tally(&interval, at, &mut tally);
        assert_eq!((recorder.marks, recorder.slots), (6, vec![0, 0, 5]));
    }

    #[test]
    fn a_tally_outside_of_the_interval_leaves_only_marks() {
        let interval = Interval::start(&Settings { seconds: 1.0, ..Settings::default() }, false);
        let mut recorder = Recorder::new(2);
        let late = interval.measured_from() + Duration::from_secs(1);
        recorder.record_tally(&interval, late, &mut tally(late));
        assert_eq!((recorder.marks, recorder.by_procedure[1].committed), (6, 0));
        assert!(recorder.slots.is_empty() && recorder.write_latency.is_empty());
    }

    #[test]
    fn planned_arrivals_have_a_latency_each() {
        let interval = Interval::start(&Settings::default(), false);
        let mut recorder = Recorder::new(1);
        let mut tally = Tally::new(1);
        let at = interval.measured_from() + Duration::from_secs(1);
        for milliseconds in [1, 2, 30] {
            tally.add(0, 1, 0);
            let arrival = at - Duration::from_millis(milliseconds);
            tally.time(Timing { arrival, released: None, weight: 1 }, 0, 1);
        }
        recorder.record_tally(&interval, at, &mut tally);
        assert_eq!((recorder.by_procedure[0].committed, recorder.write_latency.len()), (3, 3));
        assert_eq!(recorder.by_procedure[0].latency_sum, Duration::from_millis(33));
        assert!(recorder.write_latency.max() >= 29_000_000);
    }

    #[test]
    fn a_call_that_was_released_earlier_stands_for_those_of_its_round() {
        let interval = Interval::start(&Settings::default(), false);
        let mut recorder = Recorder::new(1);
        let mut tally = Tally::new(1);
        let at = interval.measured_from() + Duration::from_secs(1);
        (0..32).for_each(|_| tally.add(0, 1, 0));
        let arrival = at - Duration::from_micros(320);
        let released = Some(arrival + Duration::from_micros(10));
        tally.time(Timing { arrival, released, weight: 32 }, 0, 1);
        recorder.record_tally(&interval, at, &mut tally);
        let counts = &recorder.by_procedure[0];
        assert_eq!((counts.committed, counts.latency_samples), (32, 32));
        assert_eq!(counts.latency_sum, Duration::from_micros(320));
    }

    #[test]
    fn counts_merge() {
        let mut left = Counts { committed: 1, failed: 1, ..Counts::default() };
        left.failed_by_reason.insert("a".into(), 1);
        let mut right = Counts { committed: 2, latency_samples: 3, ..Counts::default() };
        right.failed_by_reason.insert("a".into(), 4);
        left.merge(&right);
        assert_eq!((left.committed, left.failed, left.latency_samples), (3, 1, 3));
        assert_eq!(left.failed_by_reason.get("a"), Some(&5));
    }
}
