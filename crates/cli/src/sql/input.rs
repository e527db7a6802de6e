//! Input of the shell, typed or from scripts, line by line: it becomes statements, commands, and data of COPY
//! … FROM STDIN.

use std::path::Path;

use crate::failure::Result;
use crate::output;
use crate::sql::lexer::{Event, Lexer};
use crate::sql::shell::Shell;
use crate::sql::{arguments, meta};

/// Typed text that was not executed yet.
#[derive(Debug, Default)]
pub struct Input {
    lexer: Lexer,
    pub buffer: String,
    copying: Option<Copying>,
}

/// A COPY … FROM STDIN, whose data comes.
#[derive(Debug)]
struct Copying {
    statement: String,
    data: String,
}

impl Input {
    /// Returns true if no part of a statement was typed yet.
    pub fn is_empty(&self) -> bool {
        self.buffer.trim().is_empty() && self.copying.is_none()
    }

    /// Returns true if lines are data of a COPY.
    pub fn is_copying(&self) -> bool {
        self.copying.is_some()
    }

    /// The sign of the open construct, for a prompt; `None` if nothing was typed.
    pub fn mark(&self) -> Option<char> {
        let mark = self.lexer.mark();
        (!self.is_empty() || mark != '-').then_some(mark)
    }

    /// Forgets what was typed.
    pub fn clear(&mut self) {
        *self = Input::default();
    }
}

/// A word that is a command of psql where no statement has begun.
enum Word {
    Help,
    Quit,
}

fn word(line: &str) -> Option<Word> {
    match line.trim().trim_end_matches(';').trim_end() {
        word if word.eq_ignore_ascii_case("help") => Some(Word::Help),
        word if word.eq_ignore_ascii_case("exit") || word.eq_ignore_ascii_case("quit") => Some(Word::Quit),
        _ => None,
    }
}

const WELCOME: &str = "\
You are using heddle sql, the shell of HeddleDB.
Type:  \\? for help with its commands
       \\h for help with SQL
       \\g or terminate with semicolon to execute query
       \\q to quit";

impl Shell {
    /// Runs all statements and commands of a text; the last statement needs no semicolon.
    pub fn run_text(&mut self, text: &str) -> Result {
        let around = (std::mem::take(&mut self.input), std::mem::take(&mut self.conditions));
        let mut outcome = Ok(());
        for line in text.split_inclusive('\n') {
            outcome = self.feed(line);
            if outcome.is_err() || self.has_ended() || self.interactive && self.is_interrupted() {
                self.input.clear();
                break;
            }
        }
        outcome = outcome.and_then(|()| self.finish_input());
        if !self.conditions.is_empty() && !self.has_ended() {
            meta::refuse(self, "reached EOF without finding closing \\endif(s)");
        }
        (self.input, self.conditions) = around;
        outcome
    }

    /// Runs the statements of a file.
    pub fn run_file(&mut self, file: &Path) -> Result {
        match std::fs::read_to_string(file) {
            Ok(text) => {
                self.scripts.push(file.parent().map(Path::to_path_buf).unwrap_or_default());
                let outcome = self.run_text(&text);
                self.scripts.pop();
                outcome
            }
            Err(error) => {
                meta::refuse(self, &format!("{}: {error}", file.display()));
                Ok(())
            }
        }
    }

    /// Takes a line in: runs what it ends.
    pub fn feed(&mut self, line: &str) -> Result {
        if self.input.is_copying() {
            return self.feed_copy(line);
        }
        if self.input.is_empty() && self.conditions.runs() {
            let trimmed = line.trim();
            if meta::is_dot_command(trimmed) {
                self.input.clear();
                return meta::run_dot(self, trimmed);
            }
        }
        if self.interactive && self.take_word(line)? {
            return Ok(());
        }
        let (mut line, mut at) = (line.to_owned(), 0);
        while !self.has_ended() {
            let Input { lexer, buffer, .. } = &mut self.input;
            match lexer.scan(&mut line, &mut at, buffer, &self.variables) {
                Event::EndOfLine => break,
                Event::Statement => {
                    let statement = std::mem::take(&mut self.input.buffer);
                    self.take_statement(statement)?;
                    if self.input.is_copying() {
                        break;
                    }
                }
                Event::Command => {
                    let parsed = arguments::parse(&line, at, &self.variables);
                    at = parsed.end;
                    meta::run(self, &parsed)?;
                }
            }
        }
        if self.input.buffer.trim().is_empty() && self.input.lexer.mark() == '-' {
            self.input.buffer.clear();
        }
        Ok(())
    }

    /// `help`, `exit` and `quit` on a line of their own, as psql takes them. Whether it was one, and has been done.
    fn take_word(&mut self, line: &str) -> Result<bool> {
        match word(line) {
            None => Ok(false),
            Some(Word::Help) if self.input.is_empty() => output::print(WELCOME).map(|()| true),
            Some(Word::Quit) if self.input.is_empty() => {
                self.end();
                Ok(true)
            }
            Some(Word::Help) => {
                output::print("Use \\? for help or press control-C to clear the input buffer.")?;
                Ok(false)
            }
            Some(Word::Quit) => {
                output::print("Use \\q to quit, or press control-C to clear the input buffer.")?;
                Ok(false)
            }
        }
    }

    fn take_statement(&mut self, statement: String) -> Result {
        if !self.conditions.runs() || statement.trim().trim_matches(';').trim().is_empty() {
            return Ok(());
        }
        if is_copy_from_stdin(&statement) {
            if self.interactive {
                output::print(
                    "Enter data to be copied followed by a newline.\nEnd with a backslash and a period on a line by itself, or an EOF signal.",
                )?;
            }
            self.input.copying = Some(Copying { statement, data: String::new() });
            return Ok(());
        }
        self.run_statement(&statement)?;
        self.previous = statement;
        Ok(())
    }

    fn feed_copy(&mut self, line: &str) -> Result {
        if line.trim_end_matches(['\n', '\r']) == "\\." {
            return self.end_copy();
        }
        if let Some(copying) = &mut self.input.copying {
            copying.data.push_str(line);
        }
        Ok(())
    }

    /// The data of a COPY has ended.
    pub fn end_copy(&mut self) -> Result {
        match self.input.copying.take() {
            Some(Copying { statement, data }) => self.execute_copy(&statement, data.as_bytes()),
            None => Ok(()),
        }
    }

    /// Runs what has no semicolon at the end of a script.
    fn finish_input(&mut self) -> Result {
        self.end_copy()?;
        let rest = std::mem::take(&mut self.input.buffer);
        if self.has_ended() { Ok(()) } else { self.take_statement(rest.trim_end().to_owned()) }
    }
}

/// Returns true if a statement is a COPY … FROM STDIN.
fn is_copy_from_stdin(statement: &str) -> bool {
    let words: Vec<String> = statement
        .split(|character: char| character.is_whitespace() || "();".contains(character))
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    words.first().is_some_and(|word| word == "copy")
        && words.windows(2).any(|pair| pair[0] == "from" && pair[1] == "stdin")
}

#[cfg(test)]
mod tests {
    use super::is_copy_from_stdin;

    #[test]
    fn a_copy_from_stdin_has_data_behind_it() {
        assert!(
            is_copy_from_stdin("copy t from stdin;")
                && is_copy_from_stdin("COPY a.t(b) FROM STDIN(format csv);")
        );
        assert!(!is_copy_from_stdin("copy t to stdout;") && !is_copy_from_stdin("select 'copy from stdin';"));
    }
}
