//! A bar on standard error while a benchmark runs; nothing at all where that is no terminal.

use heddle_workloads::Workload;
use heddle_workloads::driver::{Settings, Tick};
use indicatif::{ProgressBar, ProgressStyle};

use super::format;

/// The bar.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A spinner for the steps before the run. It is hidden if standard error is not a terminal.
    pub fn new() -> Self {
        Self { bar: ProgressBar::new_spinner() }
    }

    /// Shows the present step.
    pub fn say(&self, what: &'static str) {
        self.bar.set_style(ProgressStyle::default_spinner());
        self.bar.set_message(what);
    }

    /// The run begins: its length is time, or a number of calls, or unknown.
    pub fn start(&self, workload: &dyn Workload, settings: &Settings) {
        let length = match settings.transactions {
            _ if workload.is_finite() => None,
            Some(calls) => Some(calls),
            None => Some(((settings.warmup + settings.seconds) * 1e3) as u64),
        };
        if let Some(length) = length {
            self.bar.set_length(length);
            // The template is a constant of this file; a mistake in it shows as the usual style.
            let style = ProgressStyle::with_template("{wide_bar:.cyan} {percent:>3} % {msg}");
            self.bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        }
        self.bar.set_message("running");
    }

    /// Shows the progress of the run.
    pub fn tick(&self, tick: Tick) {
        if self.bar.is_hidden() {
            return;
        }
        let rate = tick.released as f64 / tick.elapsed.as_secs_f64().max(1e-3);
        self.bar.set_message(format!("{} calls, {}/s", format::grouped(tick.released), format::rate(rate)));
        match self.bar.length() {
            Some(length) => {
                // Calls are counted to their number, everything else by time.
                let milliseconds = u64::try_from(tick.elapsed.as_millis()).unwrap_or(u64::MAX);
                self.bar.set_position(milliseconds.min(length));
            }
            None => self.bar.tick(),
        }
    }

    /// Leaves nothing behind.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
