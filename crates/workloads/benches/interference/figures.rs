//! The figures of a mode, as a table and as a line of JSON, and the combination of those of alternating runs.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

/// The measured figures, in the order in which they are printed.
#[derive(Default)]
pub struct Figures(Vec<Figure>);

struct Figure {
    /// Its name, with its unit.
    name: String,
    value: f64,
    asked: Option<Asked>,
}

/// A bound that the figure should keep on a quiet machine.
#[derive(Clone, Copy)]
pub enum Asked {
    AtLeast(f64),
    AtMost(f64),
}

impl Figures {
    pub fn add(&mut self, name: impl Into<String>, value: f64) -> &mut Self {
        self.0.push(Figure { name: name.into(), value, asked: None });
        self
    }

    pub fn add_asked(&mut self, name: impl Into<String>, value: f64, asked: Asked) -> &mut Self {
        self.0.push(Figure { name: name.into(), value, asked: Some(asked) });
        self
    }

    /// Adds two rates and the ratio of the second to the first.
    pub fn add_ratio(&mut self, names: [&str; 2], rates: &Rates, asked: Asked) -> &mut Self {
        let [first, second] = rates.medians();
        self.add(format!("{}, per second", names[0]), first).add(format!("{}, per second", names[1]), second);
        self.add_asked("ratio", second / first.max(f64::MIN_POSITIVE), asked)
    }

    /// Prints the table, and then the line of JSON.
    pub fn print(&self, mode: &str) {
        println!("| {mode} | measured | asked |");
        println!("| --- | --: | --- |");
        for Figure { name, value, asked } in &self.0 {
            let asked = match asked {
                None => String::new(),
                Some(Asked::AtLeast(bound)) => format!("at least {bound}"),
                Some(Asked::AtMost(bound)) => format!("at most {bound}"),
            };
            println!("| {name} | {} | {asked} |", readable(*value));
        }
        println!("{}", self.json(mode));
    }

    fn json(&self, mode: &str) -> Value {
        let figures = self.0.iter().map(|Figure { name, value, asked }| {
            let figure = match asked {
                None => json!({ "measured": value }),
                Some(Asked::AtLeast(bound)) => json!({ "measured": value, "at_least": bound }),
                Some(Asked::AtMost(bound)) => json!({ "measured": value, "at_most": bound }),
            };
            (name.clone(), figure)
        });
        json!({ "mode": mode, "figures": figures.collect::<Map<_, _>>() })
    }
}

/// Whole numbers from 1,000 on, three decimals below.
fn readable(value: f64) -> String {
    if value.abs() >= 1_000.0 || value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.3}") }
}

/// Rates of two kinds of runs that alternate.
#[derive(Default)]
pub struct Rates([Vec<f64>; 2]);

impl Rates {
    pub fn push(&mut self, kind: usize, rate: f64) {
        self.0[kind].push(rate);
    }

    pub fn medians(&self) -> [f64; 2] {
        [median(&self.0[0]), median(&self.0[1])]
    }
}

pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        length if length % 2 == 0 => (sorted[middle - 1] + sorted[middle]) / 2.0,
        _ => sorted[middle],
    }
}

pub fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

pub fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Waits of transactions, in several runs of one kind.
#[derive(Default)]
pub struct Waits {
    longest_nanoseconds: u64,
    /// Longer than 10 ms.
    long: u64,
    count: u64,
}

impl Waits {
    const LONG_NANOSECONDS: u64 = 10_000_000;

    pub fn add(&mut self, latency: &Histogram<u64>) {
        self.longest_nanoseconds = self.longest_nanoseconds.max(latency.max());
        self.long += latency.count_between(Self::LONG_NANOSECONDS, u64::MAX);
        self.count += latency.len();
    }

    /// Adds them to the figures, by this name of the kind of run.
    pub fn report(&self, figures: &mut Figures, kind: &str, asked: Option<Asked>) {
        let longest = format!("longest transaction {kind}, ms");
        let value = self.longest_nanoseconds as f64 / 1e6;
        match asked {
            None => figures.add(longest, value),
            Some(asked) => figures.add_asked(longest, value, asked),
        };
        figures.add(format!("transactions over 10 ms {kind}"), self.long as f64);
        figures.add(format!("transactions {kind}"), self.count as f64);
    }
}

/// The process's resident memory in bytes, as Linux counts it; zero elsewhere.
pub fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap_or(0) * 1024
}
