//! A load that shifts: throughput before the shift, while the engine adapts, and afterwards.

use serde_json::{Value, json};

use super::format::rate;
use super::run::Findings;

/// Time in which the engine must have adapted to the shifted load, in seconds.
const FOLLOWS_WITHIN: f64 = 2.0;
/// Length of a step of the throughput over time, in seconds.
const TENTH: f64 = 0.1;

/// Committed calls per second in the parts of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parts {
    /// Until the load shifted.
    before: f64,
    /// Throughput in the two seconds after the shift.
    meanwhile: f64,
    /// Throughput from then on.
    after: f64,
}

impl Parts {
    /// The parts of a run whose load shifted, and which lasted more than two seconds longer.
    pub fn of(findings: &Findings<'_>) -> Option<Parts> {
        let shift = findings.plan.options.shifts_after? - findings.settings.warmup;
        Parts::of_series(&findings.report.throughput_in_steps(TENTH), shift)
    }

    fn of_series(series: &[(f64, f64)], shift: f64) -> Option<Parts> {
        let mean = |from: f64, until: f64| {
            // A step in which something changes belongs to no part.
            let within = |start: f64| start > from - 1e-6 && start + TENTH < until + 1e-6;
            let steps = series.iter().filter(|(start, _)| within(*start));
            let (count, sum) = steps.fold((0, 0.0), |all, (_, calls)| (all.0 + 1, all.1 + calls));
            (count > 0).then(|| sum / f64::from(count))
        };
        let follows = shift + FOLLOWS_WITHIN;
        Some(Parts {
            before: mean(0.0, shift)?,
            meanwhile: mean(shift, follows)?,
            after: mean(follows, f64::MAX)?,
        })
    }

    /// Throughput after the shift, as a share of the one before.
    fn returned(self) -> f64 {
        if self.before > 0.0 { self.after / self.before } else { 0.0 }
    }

    pub fn json(self) -> Value {
        let Parts { before, meanwhile, after } = self;
        json!({ "before": before, "meanwhile": meanwhile, "after": after, "returned": self.returned() })
    }

    pub fn text(self) -> String {
        let parts = [self.before, self.meanwhile, self.after].map(rate);
        let [before, meanwhile, after] = parts;
        let returned = self.returned();
        format!(
            "per second: {before} before the load shifted, {meanwhile} in the two seconds after that, {after} from then on \
             ({returned:.2} of before)"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A series with this many tenths of a second at each rate.
    fn series(parts: &[(usize, f64)]) -> Vec<(f64, f64)> {
        let rates = parts.iter().flat_map(|&(tenths, calls)| std::iter::repeat_n(calls, tenths));
        rates.enumerate().map(|(at, calls)| ((at as f64 * TENTH * 10.0).round() / 10.0, calls)).collect()
    }

    #[test]
    fn each_part_has_its_mean() {
        let series = series(&[(10, 90.0), (10, 10.0), (10, 50.0), (20, 80.0)]);
        let parts = Parts::of_series(&series, 1.0).expect("it has all parts");
        assert_eq!(parts, Parts { before: 90.0, meanwhile: 30.0, after: 80.0 });
        assert!((parts.returned() - 8.0 / 9.0).abs() < 1e-9);
        assert!(parts.text().contains("0.89 of before"), "{}", parts.text());
        assert_eq!(parts.json()["after"], 80.0);
    }

    #[test]
    fn a_step_within_which_the_load_shifts_is_left_out() {
        let series = series(&[(10, 90.0), (1, 55.0), (19, 10.0), (1, 40.0), (9, 80.0)]);
        let parts = Parts::of_series(&series, 1.05).expect("it has all parts");
        assert_eq!(parts, Parts { before: 90.0, meanwhile: 10.0, after: 80.0 });
    }

    #[test]
    fn a_run_that_is_too_short_has_no_parts() {
        assert_eq!(Parts::of_series(&series(&[(30, 1.0)]), 1.0), None);
        assert_eq!(Parts::of_series(&series(&[(30, 1.0)]), 0.0), None);
        assert_eq!(Parts::of_series(&[], 1.0), None);
    }
}
