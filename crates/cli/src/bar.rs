//! A bar on standard error for commands that read or copy a whole database; nothing at all where that is no terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// The bar.
pub struct Bar(ProgressBar);

impl Bar {
    /// A spinner, until it is known how much there is to do.
    pub fn new(what: &'static str) -> Bar {
        let bar = ProgressBar::new_spinner();
        bar.set_message(what);
        Bar(bar)
    }

    /// Goes on with something else.
    pub fn say(&self, what: &'static str) {
        self.0.set_style(ProgressStyle::default_spinner());
        self.0.set_message(what);
        self.0.unset_length();
    }

    /// Shows how far it is: done, and in all. Numbers are bytes if `in_bytes`.
    pub fn show(&self, in_bytes: bool, done: u64, total: u64) {
        if self.0.is_hidden() {
            return;
        }
        if self.0.length() != Some(total) {
            self.0.set_length(total);
            let template = if in_bytes {
                "{wide_bar:.cyan} {percent:>3} % {bytes} of {total_bytes} {msg}"
            } else {
                "{wide_bar:.cyan} {percent:>3} % {human_pos} of {human_len} {msg}"
            };
            // The templates are constants of this file; a mistake in one shows as the usual style.
            let style = ProgressStyle::with_template(template);
            self.0.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        }
        self.0.set_position(done);
    }
}

impl Drop for Bar {
    /// Leaves nothing behind.
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
