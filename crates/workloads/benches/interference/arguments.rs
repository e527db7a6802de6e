//! The command line: a mode, and options with a value each.

use std::fmt::Display;
use std::str::FromStr;

use crate::Result;

/// The command line of this process.
pub struct Arguments {
    mode: String,
    /// Options that no mode has asked for yet.
    options: Vec<(String, String)>,
}

impl Arguments {
    /// Reads it; `--bench` is Cargo's, and is left out.
    pub fn of_process() -> Result<Self> {
        let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
        let mode = words.next().unwrap_or_default();
        let mut options = Vec::new();
        while let Some(word) = words.next() {
            let Some(name) = word.strip_prefix("--") else {
                return Err(format!("{word:?}: not an option; give --NAME VALUE").into());
            };
            let Some(value) = words.next() else {
                return Err(format!("--{name} has no value; give one").into());
            };
            options.push((name.to_owned(), value));
        }
        Ok(Self { mode, options })
    }

    pub fn mode(&self) -> &str {
        &self.mode
    }

    /// The value of an option, or this default.
    pub fn get<T: FromStr<Err: Display>>(&mut self, name: &str, default: T) -> Result<T> {
        let Some(at) = self.options.iter().position(|(given, _)| given == name) else { return Ok(default) };
        let (_, value) = self.options.remove(at);
        value.parse().map_err(|reason| format!("--{name} {value}: {reason}").into())
    }

    /// Refuses options that the mode has not asked for.
    pub fn finish(&self) -> Result {
        match self.options.first() {
            None => Ok(()),
            Some((name, _)) => {
                Err(format!("--{name}: {} has no such option; leave it out", self.mode).into())
            }
        }
    }
}
