//! The destination of results: the terminal, a file, or a program that reads them.

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::process::{Child, Command, Stdio};

use crate::failure::Result;
use crate::output;

/// The number of lines from which a result is shown by a pager, on a terminal.
const PAGER_LINES_MIN: usize = 60;

/// The destination of results.
#[derive(Debug)]
pub enum Target {
    Terminal,
    File(File),
    Program(Child),
}

impl Target {
    /// Opens the destination that an argument names: a file, `|program`, or the terminal if there is none.
    ///
    /// # Errors
    /// The file cannot be made, or the program not started; in words.
    pub fn open(name: &str) -> std::result::Result<Target, String> {
        if name.is_empty() {
            return Ok(Target::Terminal);
        }
        if let Some(program) = name.strip_prefix('|') {
            let child = Command::new("sh").arg("-c").arg(program).stdin(Stdio::piped()).spawn();
            return child.map(Target::Program).map_err(|error| format!("{program}: {error}"));
        }
        File::create(name).map(Target::File).map_err(|error| format!("{name}: {error}"))
    }

    /// Writes bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result {
        match self {
            Target::Terminal => {
                let mut stdout = std::io::stdout().lock();
                output::written(stdout.write_all(bytes).and_then(|()| stdout.flush()))
            }
            Target::File(file) => Ok(file.write_all(bytes)?),
            Target::Program(child) => {
                // A program that has ended has read enough.
                let _ = child.stdin.as_mut().map(|input| input.write_all(bytes));
                Ok(())
            }
        }
    }

    /// Writes a line.
    pub fn print(&mut self, text: &str) -> Result {
        match self {
            Target::Terminal => output::print(text),
            _ => self.write(format!("{text}\n").as_bytes()),
        }
    }

    /// Writes a text; a long one on a terminal through the pager, if that may be.
    pub fn print_long(&mut self, text: &str, may_page: bool) -> Result {
        let is_terminal = matches!(self, Target::Terminal) && std::io::stdout().is_terminal();
        if may_page && is_terminal && text.lines().count() > PAGER_LINES_MIN {
            let pager = std::env::var("PAGER").unwrap_or_else(|_| "less -SFX".to_string());
            if let Ok(mut child) = Command::new("sh").arg("-c").arg(&pager).stdin(Stdio::piped()).spawn() {
                if let Some(mut input) = child.stdin.take() {
                    // A pager that is left early has read enough.
                    let _ = input.write_all(text.as_bytes());
                }
                child.wait()?;
                return Ok(());
            }
        }
        self.write(text.as_bytes())
    }
}

impl Drop for Target {
    /// A program that reads ends with its input, and is waited for: so what it writes comes before what comes next.
    fn drop(&mut self) {
        if let Target::Program(child) = self {
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}
