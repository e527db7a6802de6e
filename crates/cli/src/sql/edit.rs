//! The line editor: history, completion of keywords and names, statements of several lines.

use std::sync::atomic::Ordering;

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::Validator;
use rustyline::{Context, Editor, Helper};

use crate::failure::{Failure, Result};
use crate::output;
use crate::sql::shell::Shell;

const KEYWORDS: &[&str] = &[
    "ADD",
    "ALL",
    "ALTER",
    "ANALYZE",
    "AND",
    "AS",
    "ASC",
    "BEGIN",
    "BETWEEN",
    "BY",
    "CASCADE",
    "CASE",
    "CHECK",
    "COLUMN",
    "COMMIT",
    "CONFLICT",
    "CONSTRAINT",
    "COPY",
    "CREATE",
    "CROSS",
    "DEFAULT",
    "DELETE",
    "DESC",
    "DISTINCT",
    "DO",
    "DROP",
    "ELSE",
    "END",
    "EXCEPT",
    "EXISTS",
    "EXPLAIN",
    "FALSE",
    "FOREIGN",
    "FROM",
    "FULL",
    "GROUP",
    "HAVING",
    "IN",
    "INDEX",
    "INNER",
    "INSERT",
    "INTERSECT",
    "INTO",
    "IS",
    "JOIN",
    "KEY",
    "LATERAL",
    "LEFT",
    "LIKE",
    "LIMIT",
    "MERGE",
    "NOT",
    "NOTHING",
    "NULL",
    "OFFSET",
    "ON",
    "OR",
    "ORDER",
    "OUTER",
    "OVER",
    "PARTITION",
    "PRIMARY",
    "RECURSIVE",
    "REFERENCES",
    "RETURNING",
    "RIGHT",
    "ROLLBACK",
    "SAVEPOINT",
    "SCHEMA",
    "SELECT",
    "SEQUENCE",
    "SET",
    "SHOW",
    "TABLE",
    "THEN",
    "TO",
    "TRUE",
    "TRUNCATE",
    "UNION",
    "UNIQUE",
    "UPDATE",
    "USING",
    "VALUES",
    "VIEW",
    "WHEN",
    "WHERE",
    "WINDOW",
    "WITH",
];

/// Completes words.
struct Words {
    names: Vec<String>,
}

impl Completer for Words {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(completions(&self.names, &line[..position]))
    }
}

/// The position of the last word of a line, and the completions of that word.
fn completions(names: &[String], line: &str) -> (usize, Vec<String>) {
    let is_end = |letter: char| !(letter.is_alphanumeric() || letter == '_' || letter == '.');
    let start =
        line.rfind(is_end).map_or(0, |end| end + line[end..].chars().next().map_or(1, char::len_utf8));
    let word = &line[start..];
    if word.is_empty() {
        return (start, Vec::new());
    }
    let upper = word.to_uppercase();
    let is_lower = word.chars().all(|letter| !letter.is_uppercase());
    let keywords = KEYWORDS.iter().filter(|keyword| keyword.starts_with(&upper));
    let keywords =
        keywords.map(|keyword| if is_lower { keyword.to_lowercase() } else { (*keyword).to_string() });
    let named = names.iter().filter(|name| name.starts_with(word)).cloned();
    (start, named.chain(keywords).collect())
}

impl Hinter for Words {
    type Hint = String;
}

impl Highlighter for Words {}
impl Validator for Words {}
impl Helper for Words {}

/// Reads statements and commands from the terminal until it ends.
pub fn interact(shell: &mut Shell) -> Result {
    shell.interactive = true;
    let mut editor: Editor<Words, DefaultHistory> = Editor::new().map_err(broken)?;
    let (canceller, interrupted) = (shell.connection.canceller(), shell.interrupted.clone());
    // While a line is edited, the terminal gives Ctrl-C to the editor; else it ends the statement. The editor has installed a handler
    // of its own when it was made: this one must come after it.
    ctrlc::set_handler(move || {
        // Relaxed: a late look is enough, and nothing else is read on the strength of it.
        interrupted.store(true, Ordering::Relaxed);
        canceller.cancel();
    })
    .map_err(broken)?;
    let history = std::env::var_os("HOME").map(|home| std::path::Path::new(&home).join(".heddle_history"));
    if let Some(history) = &history {
        // There is none the first time.
        let _ = editor.load_history(history);
    }
    output::print("heddle sql; \\? lists the commands, \\q quits")?;
    while !shell.has_ended() {
        editor.set_helper(Some(Words { names: super::describe::names(&shell.sql) }));
        let read = editor.readline(&shell.prompt());
        shell.interrupted.store(false, Ordering::Relaxed);
        match read {
            Ok(line) => {
                let _ = editor.add_history_entry(&line);
                // Several lines at once, where the terminal marks what is pasted.
                line.split('\n').try_for_each(|line| shell.feed(&format!("{line}\n")))?;
            }
            Err(ReadlineError::Interrupted) => {
                shell.input.clear();
                shell.conditions = Default::default();
            }
            Err(ReadlineError::Eof) if shell.input.is_copying() => shell.end_copy()?,
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(broken(error)),
        }
    }
    if let Some(history) = &history {
        let _ = editor.save_history(history);
    }
    Ok(())
}

fn broken(error: impl std::fmt::Display) -> Failure {
    Failure::Failed(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::completions;

    #[test]
    fn words_are_completed_by_names_and_keywords() {
        let names = vec!["selection".to_string(), "account".to_string()];
        assert_eq!(completions(&names, "sel"), (0, vec!["selection".to_string(), "select".to_string()]));
        assert_eq!(completions(&names, "SELECT * FROM acc"), (14, vec!["account".to_string()]));
        assert_eq!(completions(&names, "SELECT * FR"), (9, vec!["FROM".to_string()]));
        assert_eq!(completions(&names, "select "), (7, vec![]));
    }
}
