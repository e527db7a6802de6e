//! Adaptive admission control: finds the number of concurrent calls with the highest throughput by hill climbing.
//!
//! Throughput rises with the number of calls in flight until all workers are busy and the log's groups are full; under
//! contention it then falls again (DORA, section 5.6). The peak is not known beforehand, so the limit moves in one direction,
//! in steps of 25 %, for as long as each step raises throughput, and reverses when one does not. At the peak it oscillates by
//! a step or two, and it follows when the load changes.

/// A step, as a factor.
const STEP: f64 = 1.25;
/// The minimum gain of a step, as a factor; with less, the direction reverses.
const GAIN: f64 = 1.01;

/// The hill climber.
#[derive(Debug)]
pub(crate) struct Admission {
    limit: f64,
    lowest: f64,
    highest: f64,
    upwards: bool,
    before: f64,
}

impl Admission {
    /// Starts with a limit between the lowest and the highest.
    pub(crate) fn new(lowest: usize, highest: usize) -> Admission {
        let (lowest, highest) = (lowest.max(1) as f64, highest.max(1).max(lowest) as f64);
        Admission { limit: (4.0 * lowest).min(highest), lowest, highest, upwards: true, before: 0.0 }
    }

    /// The current limit.
    pub(crate) fn limit(&self) -> usize {
        self.limit.round() as usize
    }

    /// Records the throughput under the current limit, in calls per second, and returns the next limit. `full`: whether some
    /// calls had to wait for admission.
    pub(crate) fn see(&mut self, throughput: f64, full: bool) -> usize {
        if !full {
            // No call had to wait, so the throughput says nothing about the limit.
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

    /// Runs the climber on a throughput curve and returns its last 100 limits.
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
    fn the_limit_does_not_change_while_no_call_waits() {
        let mut admission = Admission::new(2, 4_096);
        let limit = admission.limit();
        for throughput in [10.0, 5.0, 100.0] {
            assert_eq!(admission.see(throughput, false), limit);
        }
    }
}
