//! Automatic admission: how many calls are let in at once, so that throughput is at its peak.
//!
//! With more and more calls under way throughput rises, until there is work for all workers and a group's worth for the
//! log, and under contention it falls again (DORA, section 5.6). The location of the peak is unknown beforehand, so it
//! is climbed. The limit goes one way, in steps of a quarter, for as long as each step pays; where one does not, the
//! limit goes the other way. At the peak it sways by a step or two, and follows when the load changes.

/// A step, as a factor.
const STEP: f64 = 1.25;
/// What a step has to bring, or else the way is the wrong one.
const GAIN: f64 = 1.01;

/// Climbs to the peak.
#[derive(Debug)]
pub(crate) struct Admission {
    limit: f64,
    lowest: f64,
    highest: f64,
    upwards: bool,
    before: f64,
}

impl Admission {
    /// Begins with a limit between the lowest and the highest.
    pub(crate) fn new(lowest: usize, highest: usize) -> Admission {
        let (lowest, highest) = (lowest.max(1) as f64, highest.max(1).max(lowest) as f64);
        Admission { limit: (4.0 * lowest).min(highest), lowest, highest, upwards: true, before: 0.0 }
    }

    /// The limit now.
    pub(crate) fn limit(&self) -> usize {
        self.limit.round() as usize
    }

    /// Under the present limit, this many calls ended in a second, and `full` says whether some had to wait outside.
    /// Gives the next limit.
    pub(crate) fn see(&mut self, throughput: f64, full: bool) -> usize {
        if !full {
            // No call waits: the limit limits nothing, and throughput says nothing about it.
            self.before = 0.0;
            return self.limit();
        }
        if throughput < GAIN * self.before {
            self.upwards = !self.upwards;
        }
        self.before = throughput;
        let next = if self.upwards { self.limit * STEP } else { self.limit / STEP };
        if next < self.lowest || next > self.highest {
            self.upwards = !self.upwards;
        }
        self.limit = next.clamp(self.lowest, self.highest);
        self.limit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets the climber climb a curve, and gives its last limits.
    fn climb(admission: &mut Admission, curve: impl Fn(f64) -> f64) -> Vec<usize> {
        let limits: Vec<usize> = (0..200)
            .map(|_| {
                let throughput = curve(admission.limit() as f64);
                admission.see(throughput, true)
            })
            .collect();
        limits[100..].to_vec()
    }

    #[test]
    fn it_finds_the_peak_wherever_it_is_and_follows_when_it_moves() {
        // Rises to a peak, then falls.
        let peak_at = |peak: f64| move |limit: f64| 1_000.0 * (limit / peak) * (1.0 - limit / peak).exp();
        let mut admission = Admission::new(2, 4_096);
        for peak in [16.0, 600.0, 40.0] {
            let limits = climb(&mut admission, peak_at(peak));
            let near = |limit: &usize| (peak / 3.0..peak * 3.0).contains(&(*limit as f64));
            assert!(limits.iter().all(near), "the peak is at {peak}: {limits:?}");
        }
    }

    #[test]
    fn it_stays_within_its_bounds() {
        let mut admission = Admission::new(4, 64);
        assert!(climb(&mut admission, |limit| limit).iter().all(|limit| (4..=64).contains(limit)));
        assert!(climb(&mut admission, |limit| 1.0 / limit).iter().all(|limit| (4..=64).contains(limit)));
        assert_eq!(Admission::new(8, 2).limit(), 8, "the lowest counts");
    }

    #[test]
    fn where_nobody_waits_it_stays() {
        let mut admission = Admission::new(2, 4_096);
        let limit = admission.limit();
        for throughput in [10.0, 5.0, 100.0] {
            assert_eq!(admission.see(throughput, false), limit);
        }
    }
}
