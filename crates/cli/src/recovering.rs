//! A bar on standard error while a database is opened; nothing at all where that is no terminal.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use heddledb::{Options, RecoveryProgress};
use indicatif::{ProgressBar, ProgressStyle};

/// Recoveries shorter than this show nothing.
const PATIENCE: Duration = Duration::from_millis(300);

/// Adds a display of recovery's progress to the options.
pub fn shown(options: Options) -> Options {
    let bar = ProgressBar::no_length();
    // The template is a constant of this file; a mistake in it shows as the usual style.
    let style = ProgressStyle::with_template("{msg} {wide_bar:.cyan} {percent:>3} %");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let shown = Mutex::new(Shown { bar, step: String::new() });
    options.recovery_progress(move |progress| {
        shown.lock().unwrap_or_else(PoisonError::into_inner).report(progress);
    })
}

/// The progress on the terminal; it is dropped with the options once the database is open.
struct Shown {
    bar: ProgressBar,
    step: String,
}

impl Shown {
    fn report(&mut self, progress: RecoveryProgress) {
        if self.bar.elapsed() < PATIENCE {
            return;
        }
        let step = progress.step.to_string();
        if step != self.step {
            self.bar.set_message(step.clone());
            self.step = step;
        }
        self.bar.set_length(progress.total);
        self.bar.set_position(progress.done);
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
