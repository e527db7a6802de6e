//! The shell: what it knows, and how a statement is run and its results are printed.
//!
//! # Invariants
//! - The first error ends a run of statements, unless the options say to continue; in both cases the exit
//!   code is 1.
//! - After each statement `SQLSTATE`, `ERROR`, `ROW_COUNT` and `LAST_ERROR_MESSAGE` say what came of it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use heddle_sql::error::SqlError;
use heddle_sql::types::{Category, Type};
use heddle_sql::{Connection, Sql, StatementResult, TransactionStatus};

use crate::failure::{Failure, Result};
use crate::output;
use crate::sql::conditions::Conditions;
use crate::sql::excerpt::excerpt;
use crate::sql::input::Input;
use crate::sql::print::{Display, Format, Rows};
use crate::sql::target::Target;
use crate::sql::variables::Variables;

pub struct Shell {
    pub sql: Sql,
    pub connection: Connection,
    pub display: Display,
    pub timing: bool,
    /// True if the shell is interactive.
    pub interactive: bool,
    pub variables: Variables,
    pub conditions: Conditions,
    /// Typed text that has not ended yet.
    pub input: Input,
    /// The last statement that was run, for commands that repeat it.
    pub previous: String,
    /// Destination of results: `\o`.
    pub target: Target,
    /// The directory of the database.
    pub directory: PathBuf,
    /// The directories of the scripts that are running, for `\ir`.
    pub scripts: Vec<PathBuf>,
    /// Set by Ctrl-C.
    pub interrupted: Arc<AtomicBool>,
    keep_going: bool,
    failed: bool,
    ended: bool,
}

impl Shell {
    pub fn new(sql: Sql, connection: Connection, format: Format, keep_going: bool) -> Shell {
        let mut variables = Variables::default();
        variables.set("ON_ERROR_STOP", if keep_going { "off" } else { "on" });
        variables.set("DBNAME", "heddle");
        variables.set("ENCODING", "UTF8");
        Shell {
            sql,
            connection,
            display: Display::new(format),
            timing: false,
            interactive: false,
            variables,
            conditions: Conditions::default(),
            input: Input::default(),
            previous: String::new(),
            target: Target::Terminal,
            directory: PathBuf::new(),
            scripts: Vec::new(),
            interrupted: Arc::default(),
            keep_going,
            failed: false,
            ended: false,
        }
    }

    /// Returns true if no more commands are executed.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    pub fn end(&mut self) {
        self.ended = true;
    }

    /// Returns true if Ctrl-C was pressed since the last time that a line was asked for. Relaxed: nothing
    /// else is read on the strength of it.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// The result with which the process ends.
    pub fn outcome(&self) -> Result {
        if self.failed && !self.interactive {
            Err(Failure::Failed("a statement failed".to_string()))
        } else {
            Ok(())
        }
    }

    /// Runs a statement; returns its results, or `None` if it failed, which is reported.
    pub fn execute(&mut self, text: &str) -> Result<Option<Vec<StatementResult>>> {
        let start = Instant::now();
        let outcome = self.connection.query(text);
        let results = self.finish(text, outcome);
        if self.timing {
            self.target.print(&time(start))?;
        }
        Ok(results)
    }

    /// Runs an internal query, which leaves no trace in the shell's variables and is not timed. `None` if it
    /// failed, which is reported.
    pub fn connection_results(&mut self, text: &str) -> Option<Vec<StatementResult>> {
        match self.connection.query(text) {
            Ok(results) => Some(results),
            Err(error) => {
                self.fail(text, &error);
                None
            }
        }
    }

    /// Executes a COPY … FROM STDIN with its data; results and errors are shown as those of
    /// [`execute`](Shell::execute).
    pub fn execute_copy(&mut self, text: &str, data: &[u8]) -> Result {
        let start = Instant::now();
        let outcome = self.connection.copy_from(text, data);
        if let Some(results) = self.finish(text, outcome) {
            results.iter().try_for_each(|result| self.show(result))?;
        }
        if self.timing {
            self.target.print(&time(start))?;
        }
        Ok(())
    }

    /// Runs a statement and prints what it gives.
    pub fn run_statement(&mut self, text: &str) -> Result {
        let start = Instant::now();
        let outcome = self.connection.query(text);
        for result in self.finish(text, outcome).unwrap_or_default() {
            self.show(&result)?;
        }
        if self.timing {
            self.target.print(&time(start))?;
        }
        Ok(())
    }

    /// Reports notices and errors, and notes what came of a statement.
    fn finish(
        &mut self,
        text: &str,
        outcome: heddle_sql::error::Result<Vec<StatementResult>>,
    ) -> Option<Vec<StatementResult>> {
        for notice in self.connection.take_notices() {
            output::report(format_args!("{}:  {}", notice.severity.as_str(), notice.message));
            for (name, value) in [("DETAIL", &notice.detail), ("HINT", &notice.hint)] {
                if let Some(value) = value {
                    output::report(format_args!("{name}:  {value}"));
                }
            }
        }
        match outcome {
            Ok(results) => {
                let rows = results.last().map_or(0, row_count);
                self.variables.set("ROW_COUNT", rows.to_string());
                self.variables.set("ERROR", "false");
                self.variables.set("SQLSTATE", "00000");
                Some(results)
            }
            Err(error) => {
                self.fail(text, &error);
                None
            }
        }
    }

    /// Reports an error, and ends unless the options say to continue.
    pub fn fail(&mut self, text: &str, error: &SqlError) {
        let mut message = format!("ERROR:  {}", error.message());
        if let Some(position) = error.position() {
            message.push_str(&excerpt(text, position as usize));
        }
        for (name, value) in
            [("DETAIL", error.detail()), ("HINT", error.hint()), ("CONTEXT", error.context())]
        {
            if let Some(value) = value {
                message.push_str(&format!("\n{name}:  {value}"));
            }
        }
        message.push_str(&format!("\nSQLSTATE:  {}", error.state()));
        output::report(message);
        let state = error.state().to_string();
        self.variables.set("ROW_COUNT", "0");
        self.variables.set("ERROR", "true");
        self.variables.set("SQLSTATE", state.clone());
        self.variables.set("LAST_ERROR_SQLSTATE", state);
        self.variables.set("LAST_ERROR_MESSAGE", error.message());
        self.note_failure();
    }

    /// Notes that something failed.
    pub fn note_failure(&mut self) {
        self.failed = true;
        self.ended |= !self.keep_going && !self.interactive;
    }

    /// Sets whether an error ends a run of statements: `\set ON_ERROR_STOP`.
    pub fn set_keep_going(&mut self, keep_going: bool) {
        self.keep_going = keep_going;
    }

    pub fn show(&mut self, result: &StatementResult) -> Result {
        if !result.data.is_empty() {
            return self.target.write(&result.data);
        }
        if result.fields.is_none() {
            return match self.display.format {
                Format::Table | Format::Unaligned
                    if !result.tag.is_empty() && !self.variables.is_on("QUIET") =>
                {
                    self.target.print(&result.tag)
                }
                _ => Ok(()),
            };
        }
        let rows = self.rows(result)?;
        self.print_rows(&rows)
    }

    /// A result's rows as text.
    pub fn rows(&self, result: &StatementResult) -> Result<Rows> {
        let Some(fields) = &result.fields else {
            return Ok(Rows { names: Vec::new(), numbers: Vec::new(), rows: Vec::new() });
        };
        let rows = self.connection.text_rows(result).map_err(|error| Failure::Failed(error.to_string()))?;
        let is_json = |ty: Type| ty.category() == Category::Numeric || ty == Type::Bool;
        let is_number = |ty: Type| match self.display.format {
            Format::Json => is_json(ty),
            _ => ty.category() == Category::Numeric,
        };
        let numbers: Vec<bool> = fields.iter().map(|field| is_number(field.ty)).collect();
        let mut rows = Rows { names: fields.iter().map(|field| field.name.clone()).collect(), numbers, rows };
        if self.display.format == Format::Json {
            for row in &mut rows.rows {
                for (value, field) in row.iter_mut().zip(fields.iter()) {
                    if let (Some(text), Type::Bool) = (value, field.ty) {
                        *text = if text == "t" { "true" } else { "false" }.to_string();
                    }
                }
            }
        }
        Ok(rows)
    }

    pub fn print_rows(&mut self, rows: &Rows) -> Result {
        let text = rows.text(&self.display, columns());
        self.print_long(&text)
    }

    /// Prints a text; a long one on a terminal through the pager.
    pub fn print_long(&mut self, text: &str) -> Result {
        self.target.print_long(text, self.interactive && self.display.pager)
    }

    /// The shell's prompt, as in psql: the sign of what is open precedes the prompt's last character.
    pub fn prompt(&self) -> String {
        if self.input.is_copying() {
            return ">> ".to_string();
        }
        let transaction = match self.connection.status() {
            TransactionStatus::Idle => "",
            TransactionStatus::InTransaction => "*",
            TransactionStatus::Failed => "!",
        };
        let mark = match self.input.mark() {
            _ if !self.conditions.runs() => '@',
            None => '=',
            Some(mark) => mark,
        };
        format!("heddle{mark}{transaction}> ")
    }
}

fn time(start: Instant) -> String {
    format!("Time: {:.3} ms", start.elapsed().as_secs_f64() * 1e3)
}

/// The number of rows that a statement returned or changed: the last word of its tag.
fn row_count(result: &StatementResult) -> u64 {
    result.tag.rsplit(' ').next().and_then(|count| count.parse().ok()).unwrap_or(result.rows.len() as u64)
}

/// The width of the terminal in columns.
fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(80)
}
