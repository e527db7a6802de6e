//! The shell: statements and commands, one after the other.
//!
//! # Invariants
//! - The first error ends a run of statements, unless the options say to go on; either way the exit code is 1.

use std::io::{IsTerminal, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

use heddle_sql::error::SqlError;
use heddle_sql::types::{Category, Type};
use heddle_sql::{Connection, Sql, StatementResult, TransactionStatus};

use crate::failure::{Failure, Result};
use crate::output;
use crate::sql::meta;
use crate::sql::print::{Format, Rows};
use crate::sql::statement_end::{first_statement, is_blank, without_blanks};

/// From how many lines on a result goes through a pager, on a terminal.
const PAGER_LINES_MIN: usize = 60;

pub struct Shell {
    pub sql: Sql,
    pub connection: Connection,
    pub format: Format,
    pub expanded: bool,
    pub timing: bool,
    /// Whether it is interactive.
    pub interactive: bool,
    keep_going: bool,
    failed: bool,
    ended: bool,
}

impl Shell {
    pub fn new(sql: Sql, connection: Connection, format: Format, keep_going: bool) -> Shell {
        Shell {
            sql,
            connection,
            format,
            expanded: false,
            timing: false,
            interactive: false,
            keep_going,
            failed: false,
            ended: false,
        }
    }

    /// Whether nothing more is run.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    pub fn end(&mut self) {
        self.ended = true;
    }

    /// What the process ends with.
    pub fn outcome(&self) -> Result {
        if self.failed && !self.interactive {
            Err(Failure::Failed("a statement failed".to_string()))
        } else {
            Ok(())
        }
    }

    /// Runs all statements and commands of a text.
    pub fn run_text(&mut self, text: &str) -> Result {
        let mut rest = text;
        while !self.ended && !is_blank(rest) {
            let trimmed = without_blanks(rest);
            if meta::is_command(trimmed) {
                let (line, behind) = trimmed.split_once('\n').unwrap_or((trimmed, ""));
                meta::run(self, line.trim())?;
                rest = behind;
                continue;
            }
            let (statement, behind) = first_statement(trimmed).unwrap_or((trimmed, ""));
            rest = match copied_lines(statement, behind) {
                Some((data, behind)) => {
                    self.run_copy(statement, data)?;
                    behind
                }
                None => {
                    self.run_statement(statement)?;
                    behind
                }
            };
        }
        Ok(())
    }

    /// Runs a COPY … FROM STDIN with the lines that follow it in the text.
    fn run_copy(&mut self, statement: &str, data: &str) -> Result {
        match self.connection.copy_from(statement, data.as_bytes()) {
            Ok(results) => results.iter().try_for_each(|result| self.show(result)),
            Err(error) => {
                self.fail(statement, &error);
                Ok(())
            }
        }
    }

    /// Runs a statement and prints what it gives.
    pub fn run_statement(&mut self, text: &str) -> Result {
        let start = Instant::now();
        let outcome = self.connection.query(text);
        for notice in self.connection.take_notices() {
            output::report(format_args!("{}:  {}", notice.severity.as_str(), notice.message));
        }
        match outcome {
            Ok(results) => {
                for result in &results {
                    self.show(result)?;
                }
            }
            Err(error) => self.fail(text, &error),
        }
        if self.timing {
            output::print(format_args!("Time: {:.3} ms", start.elapsed().as_secs_f64() * 1e3))?;
        }
        Ok(())
    }

    /// Reports an error, and ends unless the options say to go on.
    pub fn fail(&mut self, text: &str, error: &SqlError) {
        let mut message = format!("ERROR:  {}", error.message());
        if let Some(position) = error.position() {
            message.push_str(&pointer(text, position as usize));
        }
        for (name, value) in [("DETAIL", error.detail()), ("HINT", error.hint())] {
            if let Some(value) = value {
                message.push_str(&format!("\n{name}:  {value}"));
            }
        }
        message.push_str(&format!("\nSQLSTATE:  {}", error.state()));
        output::report(message);
        self.note_failure();
    }

    /// Notes that something failed.
    pub fn note_failure(&mut self) {
        self.failed = true;
        self.ended |= !self.keep_going && !self.interactive;
    }

    fn show(&mut self, result: &StatementResult) -> Result {
        if !result.data.is_empty() {
            return output::written(std::io::stdout().write_all(&result.data));
        }
        let Some(fields) = &result.fields else {
            return match self.format {
                Format::Table if !result.tag.is_empty() => output::print(&result.tag),
                _ => Ok(()),
            };
        };
        let rows = self.connection.text_rows(result).map_err(|error| Failure::Failed(error.to_string()))?;
        let is_json = |ty: Type| ty.category() == Category::Numeric || ty == Type::Bool;
        let is_number = |ty: Type| match self.format {
            Format::Json => is_json(ty),
            _ => ty.category() == Category::Numeric,
        };
        let numbers: Vec<bool> = fields.iter().map(|field| is_number(field.ty)).collect();
        let mut rows = Rows { names: fields.iter().map(|field| field.name.clone()).collect(), numbers, rows };
        if self.format == Format::Json {
            for row in &mut rows.rows {
                for (value, field) in row.iter_mut().zip(fields.iter()) {
                    if let (Some(text), Type::Bool) = (value, field.ty) {
                        *text = if text == "t" { "true" } else { "false" }.to_string();
                    }
                }
            }
        }
        self.print_long(&rows.text(self.format, self.expanded))
    }

    /// Prints a text; a long one on a terminal through the pager.
    pub fn print_long(&self, text: &str) -> Result {
        let is_long = text.lines().count() > PAGER_LINES_MIN;
        if self.interactive && is_long && std::io::stdout().is_terminal() {
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
        let mut stdout = std::io::stdout().lock();
        output::written(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
    }

    /// What the shell asks with; `goes_on`: a statement has begun.
    pub fn prompt(&self, goes_on: bool) -> String {
        let mark = match self.connection.status() {
            TransactionStatus::Idle => "",
            TransactionStatus::InTransaction => "*",
            TransactionStatus::Failed => "!",
        };
        let end = if goes_on { "->" } else { "=>" };
        format!("heddle{end}{mark} ")
    }
}

/// The lines behind a COPY … FROM STDIN, up to `\.` alone on a line, and what stands behind that.
fn copied_lines<'t>(statement: &str, behind: &'t str) -> Option<(&'t str, &'t str)> {
    let words: Vec<String> = statement
        .split(|character: char| character.is_whitespace() || "();".contains(character))
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let is_copy = words.first().is_some_and(|word| word == "copy")
        && words.windows(2).any(|pair| pair[0] == "from" && pair[1] == "stdin");
    if !is_copy {
        return None;
    }
    let (_, lines) = behind.split_once('\n')?;
    let mut end = 0;
    for line in lines.split_inclusive('\n') {
        if line.trim_end_matches(['\n', '\r']) == "\\." {
            return Some((&lines[..end], &lines[end + line.len()..]));
        }
        end += line.len();
    }
    Some((lines, ""))
}

/// The line of a text that a position is in, and a mark below it.
fn pointer(text: &str, position: usize) -> String {
    let before: String = text.chars().take(position.saturating_sub(1)).collect();
    let number = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count();
    let Some(line) = text.split('\n').nth(number - 1) else { return String::new() };
    let head = format!("LINE {number}: ");
    format!("\n{head}{line}\n{}^", " ".repeat(head.len() + column))
}

#[cfg(test)]
mod tests {
    use super::{copied_lines, pointer};

    #[test]
    fn the_lines_of_a_copy_end_at_a_backslash_and_a_period() {
        assert_eq!(
            copied_lines("copy t from stdin;", "\n1\n2;\n\\.\nselect 1"),
            Some(("1\n2;\n", "select 1"))
        );
        assert_eq!(copied_lines("COPY a.t(b) FROM STDIN(format csv);", "\n1\n"), Some(("1\n", "")));
        assert_eq!(copied_lines("copy t from stdin;", "\n\\.\n"), Some(("", "")));
        assert_eq!(copied_lines("copy t to stdout;", "\n1\n"), None);
        assert_eq!(copied_lines("select 'copy from stdin';", "\n1\n"), None);
    }

    #[test]
    fn an_error_points_into_its_line() {
        assert_eq!(pointer("select 1,\n  nope", 13), "\nLINE 2:   nope\n          ^");
        assert_eq!(pointer("x", 1), "\nLINE 1: x\n        ^");
    }
}
