//! Plots as SVG: lines over numbers, or bars for named places.
//!
//! Colors are variables of the page's style sheet, so that one picture serves light and dark; a picture in a file of its own
//! has the style sheet in it. The width is that of a phone, so that labels can be read there.

use std::fmt::Write;

use super::experiment::{Axis, Scale};
use super::number::short;
use super::outcome::Drawn;

/// Colors and strokes, for pages and pictures.
pub const STYLE: &str = include_str!("plot.css");

/// Series have this many colors and markers.
const COLORS: usize = 6;
const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 290.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 14.0;
const BOTTOM: f64 = 46.0;
/// A line of text, and the estimated width of a character.
const LINE: f64 = 18.0;
const CHARACTER: f64 = 7.2;
const BAR: f64 = 15.0;

/// Draws one plot. `standalone`: for a file of its own.
pub fn svg(drawn: &Drawn<'_>, x: &Axis, title: &str, standalone: bool) -> String {
    let (height, body) = if x.is_named() { bars(drawn) } else { lines(drawn, x) };
    let head = if standalone { format!("<style>{STYLE}</style>") } else { String::new() };
    let title = escaped(title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" \
         aria-label=\"{title}\">{head}<rect class=\"ground\" width=\"{WIDTH}\" height=\"{height:.0}\"/>{body}</svg>\n"
    )
}

/// A scale from values to the picture.
struct Mapping {
    scale: Scale,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    ticks: Vec<f64>,
}

impl Mapping {
    fn new(scale: Scale, low: f64, high: f64, (from, to): (f64, f64)) -> Mapping {
        let ticks = match scale {
            Scale::Linear => linear_ticks(low, high),
            Scale::Log => log_ticks(low, high),
        };
        let ends = ticks.first().copied().zip(ticks.last().copied());
        let (first, last) = ends.unwrap_or((low, high));
        Mapping { scale, low: low.min(first), high: high.max(last), from, to, ticks }
    }

    fn at(&self, value: f64) -> f64 {
        let of = |value: f64| match self.scale {
            Scale::Linear => value,
            Scale::Log => value.max(self.low).ln(),
        };
        let length = of(self.high) - of(self.low);
        let share = if length > 0.0 { (of(value) - of(self.low)) / length } else { 0.5 };
        self.from + share * (self.to - self.from)
    }
}

/// Some five round numbers that enclose the range.
fn linear_ticks(low: f64, high: f64) -> Vec<f64> {
    let rough = ((high - low) / 5.0).max(f64::MIN_POSITIVE);
    let unit = 10f64.powf(rough.log10().floor());
    let step =
        unit * [1.0, 2.0, 5.0, 10.0].into_iter().find(|step| step * unit >= 0.999 * rough).unwrap_or(10.0);
    let (first, last) = ((low / step).floor() as i64, (high / step).ceil() as i64);
    (first..=last).map(|number| number as f64 * step).collect()
}

/// Powers of ten that enclose the range; where those are few, twice and five times them, too.
fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let low = low.max(1e-9);
    let (first, last) = (low.log10().floor() as i32, high.max(low).log10().ceil() as i32);
    let parts: &[f64] = if last - first > 3 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let all = (first..=last).flat_map(|power| parts.iter().map(move |part| part * 10f64.powi(power)));
    let all: Vec<f64> = all.collect();
    let from = all.iter().rposition(|&tick| tick <= low * 1.001).unwrap_or(0);
    let to = all.iter().position(|&tick| tick >= high * 0.999).unwrap_or(all.len() - 1);
    all[from..=to.max(from)].to_vec()
}

/// Lines with markers, and bars where runs differ.
fn lines(drawn: &Drawn<'_>, x: &Axis) -> (f64, String) {
    let mut body = String::new();
    let top = legend(&mut body, drawn);
    let points = || drawn.lines.iter().flat_map(|line| &line.points);
    if points().next().is_none() {
        return (top, body);
    }
    let least = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::INFINITY, f64::min);
    let most = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::NEG_INFINITY, f64::max);
    let (left, right) =
        (least(&mut points().map(|point| point.at)), most(&mut points().map(|point| point.at)));
    let across = Mapping::new(x.scale, left, right, (LEFT, WIDTH - RIGHT));
    let high = most(&mut points().map(|point| point.max));
    let positive = least(&mut points().map(|point| point.min).filter(|value| *value > 0.0));
    let low = if drawn.y.scale == Scale::Log {
        positive.min(high)
    } else {
        least(&mut points().map(|point| point.min)).min(0.0)
    };
    let height = top + HEIGHT;
    let up = Mapping::new(
        drawn.y.scale,
        low,
        if high > low { high } else { low + 1.0 },
        (height - BOTTOM, top + 12.0),
    );
    grid(&mut body, &across, &up, x, height);
    for (number, line) in drawn.lines.iter().enumerate() {
        let color = number % COLORS;
        let places: Vec<(f64, f64)> =
            line.points.iter().map(|point| (across.at(point.at), up.at(point.value))).collect();
        let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = write!(body, "<polyline class=\"line s{color}\" points=\"{}\"/>", path.join(" "));
        for (point, (x, y)) in line.points.iter().zip(&places) {
            if point.max > point.min {
                let (low, high) = (up.at(point.min), up.at(point.max));
                let _ = write!(body, "<path class=\"spread s{color}\" d=\"M{x:.1} {low:.1}V{high:.1}\"/>");
            }
            let _ = write!(
                body,
                "{}<title>{}: {} at {}</title></path>",
                marker(number, *x, *y),
                escaped(line.name),
                short(point.value),
                escaped(&point.place)
            );
        }
    }
    (height, body)
}

fn grid(body: &mut String, across: &Mapping, up: &Mapping, x: &Axis, height: f64) {
    for tick in &up.ticks {
        let y = up.at(*tick);
        let _ = write!(
            body,
            "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            y + 4.0,
            short(*tick)
        );
    }
    let bottom = height - BOTTOM;
    // Labels that would overlap are left out.
    let mut free = 0.0;
    for tick in &across.ticks {
        let (x, label) = (across.at(*tick), short(*tick));
        let half = 0.5 * CHARACTER * label.chars().count() as f64;
        let _ = write!(body, "<path class=\"axis\" d=\"M{x:.1} {bottom:.1}v5\"/>");
        if x - half >= free {
            let y = bottom + 19.0;
            let _ = write!(body, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{label}</text>");
            free = x + half + 6.0;
        }
    }
    let _ = write!(
        body,
        "<path class=\"axis\" d=\"M{LEFT} {bottom:.1}H{:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
        WIDTH - RIGHT,
        (LEFT + WIDTH - RIGHT) / 2.0,
        height - 7.0,
        escaped(&x.label)
    );
}

/// A group of horizontal bars for each place, with their values.
fn bars(drawn: &Drawn<'_>) -> (f64, String) {
    let mut body = String::new();
    let mut y = if drawn.lines.len() > 1 { legend(&mut body, drawn) } else { label(&mut body, drawn) } + 4.0;
    let high = drawn.lines.iter().flat_map(|line| &line.points).map(|point| point.max);
    let high = high.fold(f64::MIN_POSITIVE, f64::max);
    let length = |value: f64| (value / high).max(0.0) * (WIDTH - RIGHT - 70.0);
    let mut places: Vec<&str> = Vec::new();
    for point in drawn.lines.iter().flat_map(|line| &line.points) {
        if !places.contains(&&*point.place) {
            places.push(&point.place);
        }
    }
    for place in places {
        y += LINE;
        let _ = write!(body, "<text x=\"0\" y=\"{:.1}\">{}</text>", y - 5.0, escaped(place));
        for (number, line) in drawn.lines.iter().enumerate() {
            let Some(point) = line.points.iter().find(|point| point.place == place) else { continue };
            let (color, end) = (number % COLORS, length(point.value));
            let _ = write!(
                body,
                "<rect class=\"bar s{color}\" x=\"0\" y=\"{y:.1}\" width=\"{end:.1}\" height=\"{:.1}\"><title>{}</title></rect>",
                BAR - 3.0,
                escaped(line.name)
            );
            let middle = y + (BAR - 3.0) / 2.0;
            if point.max > point.min {
                let (low, high) = (length(point.min), length(point.max));
                let _ = write!(body, "<path class=\"spread ink\" d=\"M{low:.1} {middle:.1}H{high:.1}\"/>");
            }
            let _ = write!(
                body,
                "<text class=\"value\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                length(point.max) + 5.0,
                middle + 4.5,
                short(point.value)
            );
            y += BAR;
        }
        y += 4.0;
    }
    (y + 2.0, body)
}

/// The name of the value; gives the height that is taken.
fn label(body: &mut String, drawn: &Drawn<'_>) -> f64 {
    let name = if drawn.name.is_empty() { String::new() } else { format!("{}: ", drawn.name) };
    let text = escaped(&format!("{name}{}", drawn.y.label));
    let _ = write!(body, "<text class=\"label\" x=\"0\" y=\"13\">{text}</text>");
    LINE + 2.0
}

/// The names of the series in as many lines as they need.
fn legend(body: &mut String, drawn: &Drawn<'_>) -> f64 {
    let mut y = label(body, drawn) + 12.0;
    let mut x = 7.0;
    for (number, line) in drawn.lines.iter().enumerate() {
        let width = 24.0 + CHARACTER * line.name.chars().count() as f64;
        if x > 7.0 && x + width > WIDTH {
            (x, y) = (7.0, y + LINE);
        }
        let _ = write!(
            body,
            "{}</path><text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            marker(number, x, y - 4.0),
            x + 10.0,
            y,
            escaped(line.name)
        );
        x += width;
    }
    y + 4.0
}

/// A marker of the series, whose element is left open for a title.
fn marker(number: usize, x: f64, y: f64) -> String {
    let path = match number % COLORS {
        0 => "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
        1 => "m-3.5 -3.5h7v7h-7z",
        2 => "m0 -4.5l4.5 8h-9z",
        3 => "m0 -5l5 5l-5 5l-5 -5z",
        4 => "m0 4.5l4.5 -8h-9z",
        _ => "m-4 -1.5h8v3h-8z",
    };
    format!("<path class=\"mark s{}\" d=\"M{x:.1} {y:.1}{path}\">", number % COLORS)
}

/// Text for HTML and SVG.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_enclose_the_range() {
        assert_eq!(linear_ticks(0.0, 100.0), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(linear_ticks(0.0, 11.8e6), [0.0, 5e6, 10e6, 15e6]);
        let small: Vec<String> = linear_ticks(0.0, 0.45).into_iter().map(short).collect();
        assert_eq!(small, ["0", "0.1", "0.2", "0.3", "0.4", "0.5"]);
        assert_eq!(log_ticks(1.0, 100_000.0), [1.0, 10.0, 100.0, 1e3, 1e4, 1e5]);
        assert_eq!(log_ticks(3.0, 40.0), [2.0, 5.0, 10.0, 20.0, 50.0]);
        assert_eq!(log_ticks(1.0, 1.0), [1.0]);
    }

    #[test]
    fn a_scale_maps_its_ends_to_those_of_the_picture() {
        for scale in [Scale::Linear, Scale::Log] {
            let mapping = Mapping::new(scale, 1.0, 1000.0, (10.0, 20.0));
            assert!(
                (mapping.at(mapping.low) - 10.0).abs() < 1e-9
                    && (mapping.at(mapping.high) - 20.0).abs() < 1e-9
            );
        }
        assert!((Mapping::new(Scale::Log, 1.0, 100.0, (0.0, 2.0)).at(10.0) - 1.0).abs() < 1e-9);
        let narrow = Mapping::new(Scale::Log, 5.0, 5.0, (0.0, 2.0));
        assert!(narrow.at(5.0).is_finite());
    }

    #[test]
    fn text_cannot_become_markup() {
        assert_eq!(escaped("a < b & \"c\" > d"), "a &lt; b &amp; &quot;c&quot; &gt; d");
    }
}
