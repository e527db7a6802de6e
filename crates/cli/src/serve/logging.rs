//! The server's log: to standard error, as text or as JSON, above a level that can be changed.

use std::io;

use heddle_server::settings::{LogFormat, LogLevel};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, fmt, reload};

/// The log of this process.
pub struct Log(reload::Handle<LevelFilter, Registry>);

impl Log {
    /// Starts logging. Only the first call in a process has an effect.
    pub fn start(format: LogFormat, level: LogLevel) -> Log {
        let (filter, handle) = reload::Layer::new(filter(level));
        let lines = fmt::layer().with_writer(io::stderr).with_ansi(false).log_internal_errors(false);
        let registry = tracing_subscriber::registry().with(filter);
        let _ = match format {
            LogFormat::Text => registry.with(lines).try_init(),
            LogFormat::Json => registry.with(lines.json().flatten_event(true)).try_init(),
        };
        Log(handle)
    }

    /// Changes the level.
    pub fn set_level(&self, level: LogLevel) {
        // It fails only if the subscriber is gone, which lives as long as the process.
        let _ = self.0.reload(filter(level));
    }
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    }
}
