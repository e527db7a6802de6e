//! Checks of a figure's shape: which line is ahead, by which factor, and where lines rise, fall or cross.
//!
//! A check is one of a few named shapes over the medians of the measured points, with the paper's number beside it. It says
//! that the paper's statement holds here, not that numbers are equal: those of another machine cannot be.

use serde::{Deserialize, Serialize};

use super::number::short;

/// A statement about a figure.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// The statement, as a sentence without its full stop.
    pub says: String,
    pub shape: Shape,
    /// The only panel; all if left out.
    pub panel: Option<String>,
    /// The first and last number of the axis.
    from: Option<f64>,
    to: Option<f64>,
    /// Names of places.
    #[serde(default)]
    pub at: Vec<String>,
    /// The paper's number.
    pub paper: Option<String>,
    /// The reason, if it differs.
    pub why: Option<String>,
}

/// A shape.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Shape {
    /// A series is at least `factor` times another at each place.
    Above { series: String, than: String, factor: f64 },
    /// Two series differ by at most this factor at each place.
    Close { series: String, to: String, factor: f64 },
    /// The last value is at least `factor` times the first.
    Rises { series: String, factor: f64 },
    /// The first value is at least `factor` times the last.
    Falls { series: String, factor: f64 },
    /// The largest value is at most `factor` times the smallest.
    Flat { series: String, factor: f64 },
    /// A series begins below another and ends above it.
    Crosses { series: String, above: String },
    /// Each value is within these bounds.
    Between { series: String, min: f64, max: f64 },
}

/// A measured point: the median of its runs, and their spread.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    pub place: String,
    pub at: f64,
    pub value: f64,
    pub min: f64,
    pub max: f64,
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub agrees: bool,
    /// The measured number in words.
    pub measured: String,
}

impl Check {
    /// Returns true if the check is about this place.
    pub fn is_at(&self, name: &str, at: f64) -> bool {
        let listed = self.at.is_empty() || self.at.iter().any(|other| other == name);
        listed && self.from.is_none_or(|from| at >= from) && self.to.is_none_or(|to| at <= to)
    }

    /// Judges one plot, whose points of a series `points` gives; `None` if a point is missing.
    pub fn judge(&self, points: impl Fn(&str) -> Option<Vec<Measured>>) -> Option<Verdict> {
        let of = |series: &str| {
            let points = points(series)?;
            let selected = points.into_iter().filter(|point| self.is_at(&point.place, point.at));
            Some(selected.collect::<Vec<_>>())
        };
        let names = self.shape.series();
        let own = of(names[0])?;
        let other = names.get(1).map_or(Some(Vec::new()), |name| of(name))?;
        if own.len() < self.shape.points_min() || names.len() > 1 && own.len() != other.len() {
            return None;
        }
        Some(self.shape.judge(&own, &other))
    }
}

impl Shape {
    /// The names of the series that it is about.
    pub fn series(&self) -> Vec<&str> {
        match self {
            Shape::Above { series, than: other, .. }
            | Shape::Close { series, to: other, .. }
            | Shape::Crosses { series, above: other } => vec![series.as_str(), other.as_str()],
            Shape::Rises { series, .. }
            | Shape::Falls { series, .. }
            | Shape::Flat { series, .. }
            | Shape::Between { series, .. } => vec![series.as_str()],
        }
    }

    /// The fewest points that show it.
    pub fn points_min(&self) -> usize {
        match self {
            Shape::Above { .. } | Shape::Close { .. } | Shape::Between { .. } => 1,
            Shape::Rises { .. } | Shape::Falls { .. } | Shape::Flat { .. } | Shape::Crosses { .. } => 2,
        }
    }

    fn judge(&self, own: &[Measured], other: &[Measured]) -> Verdict {
        match self {
            Shape::Above { factor, .. } => {
                let (least, place) = extreme(own, other, f64::total_cmp);
                let measured = format!("{} times{place}", short(least));
                Verdict { agrees: least >= *factor, measured }
            }
            Shape::Close { factor, .. } => {
                let distance = |ratio: &f64| ratio.max(1.0 / ratio);
                let farthest = |one: &f64, two: &f64| distance(two).total_cmp(&distance(one));
                let (ratio, place) = extreme(own, other, farthest);
                let measured = format!("{} times{place}", short(ratio));
                Verdict { agrees: distance(&ratio) <= *factor, measured }
            }
            Shape::Rises { factor, .. } => by_factor(ends(own).1, ends(own).0, *factor),
            Shape::Falls { factor, .. } => by_factor(ends(own).0, ends(own).1, *factor),
            Shape::Flat { factor, .. } => {
                let (least, most) = bounds(own);
                let measured = format!("between {} and {}", short(least), short(most));
                Verdict { agrees: ratio(most, least) <= *factor, measured }
            }
            Shape::Crosses { .. } => crosses(own, other),
            Shape::Between { min, max, .. } => {
                let (least, most) = bounds(own);
                let measured = if least == most {
                    short(least)
                } else {
                    format!("between {} and {}", short(least), short(most))
                };
                Verdict { agrees: *min <= least && most <= *max, measured }
            }
        }
    }
}

/// The quotient; equal numbers have 1, also two zeros.
fn ratio(one: f64, two: f64) -> f64 {
    if one == two { 1.0 } else { one / two }
}

/// The first ratio in this order, and its place, which is left out if there is no other.
fn extreme(
    own: &[Measured],
    other: &[Measured],
    order: impl Fn(&f64, &f64) -> std::cmp::Ordering,
) -> (f64, String) {
    let ratios = own.iter().zip(other).map(|(one, two)| (ratio(one.value, two.value), &one.place));
    let found = ratios.min_by(|one, two| order(&one.0, &two.0));
    match found {
        Some((ratio, place)) if own.len() > 1 => (ratio, format!(" at {place}")),
        Some((ratio, _)) => (ratio, String::new()),
        None => (f64::NAN, String::new()),
    }
}

fn ends(points: &[Measured]) -> (f64, f64) {
    let value = |point: Option<&Measured>| point.map_or(f64::NAN, |point| point.value);
    (value(points.first()), value(points.last()))
}

fn by_factor(high: f64, low: f64, factor: f64) -> Verdict {
    let found = ratio(high, low);
    Verdict { agrees: found >= factor, measured: format!("by a factor of {}", short(found)) }
}

fn bounds(points: &[Measured]) -> (f64, f64) {
    let values = || points.iter().map(|point| point.value);
    (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max))
}

fn crosses(own: &[Measured], other: &[Measured]) -> Verdict {
    let pairs: Vec<_> = own.iter().zip(other).map(|(one, two)| (one.value > two.value, &one.place)).collect();
    let below = pairs.iter().rposition(|(above, _)| !above);
    match below {
        None => Verdict { agrees: false, measured: "above at each place".to_owned() },
        Some(last) => match pairs.get(last + 1) {
            None => Verdict { agrees: false, measured: "not above at the end".to_owned() },
            Some((_, place)) => Verdict { agrees: !pairs[0].0, measured: format!("above from {place} on") },
        },
    }
}
