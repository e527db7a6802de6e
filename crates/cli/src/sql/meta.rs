//! Commands of the shell: those of psql begin with a backslash, those of SQLite's shell with a dot.

use std::path::Path;

use heddle_sql::error::SqlError;

use crate::failure::Result;
use crate::output;
use crate::sql::describe;
use crate::sql::import;
use crate::sql::print::Format;
use crate::sql::shell::Shell;

const HELP: &str = "\
\\?, .help                     this
\\q, .quit                     leave
\\d [NAME]                     relations, or one of them with its columns, indexes and constraints
\\dt \\dv \\dm \\di \\ds \\dn \\dT   tables, views, materialized views, indexes, sequences, schemas, types; .tables, .schema [NAME]
\\l                            the database
\\timing [on|off], .timer      how long statements take
\\x [on|off]                   each row by itself
\\format NAME, .mode NAME      table, csv, json, markdown
\\i FILE, .read FILE           run a file
\\copy TABLE from|to FILE [csv]   rows from a file, or into one
.import --csv FILE TABLE      rows of a CSV file with a heading; rejected rows are reported by their lines
\\echo TEXT                    print this
Statements end with a semicolon. Ctrl-C cancels the one that is running.";

/// Whether a text begins with a command.
pub fn is_command(text: &str) -> bool {
    let mut letters = text.chars();
    match letters.next() {
        Some('\\') => true,
        Some('.') => letters.next().is_some_and(|letter| letter.is_ascii_alphabetic()),
        _ => false,
    }
}

/// Runs a command.
pub fn run(shell: &mut Shell, line: &str) -> Result {
    let line = line.trim_end_matches(';');
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    match name {
        "\\q" | ".quit" | ".exit" => shell.end(),
        "\\?" | ".help" => output::print(HELP)?,
        "\\timing" | ".timer" => shell.timing = switched(shell.timing, rest),
        "\\x" => shell.expanded = switched(shell.expanded, rest),
        "\\echo" => output::print(rest)?,
        "\\format" | ".mode" | "\\a" => set_format(shell, rest)?,
        "\\i" | ".read" => run_file(shell, Path::new(rest))?,
        "\\copy" => copy(shell, rest)?,
        ".import" => import_csv(shell, rest)?,
        "\\l" => output::print(format_args!(
            "{}",
            shell.connection.parameter("server_version").map_or_else(
                || "heddle".to_string(),
                |version| format!("heddle, speaking PostgreSQL {version}"),
            )
        ))?,
        name if name.starts_with("\\d") || matches!(name, ".tables" | ".schema") => {
            let text = describe::describe(&shell.sql, name, rest);
            match text {
                Ok(text) => shell.print_long(&text)?,
                Err(message) => refuse(shell, &message),
            }
        }
        other => refuse(shell, &format!("{other}: no such command; \\? tells all")),
    }
    Ok(())
}

fn refuse(shell: &mut Shell, message: &str) {
    output::report(message);
    shell.note_failure();
}

fn switched(is_on: bool, to: &str) -> bool {
    match to {
        "on" => true,
        "off" => false,
        _ => !is_on,
    }
}

fn set_format(shell: &mut Shell, name: &str) -> Result {
    match Format::named(name) {
        Some(format) => shell.format = format,
        None => refuse(shell, &format!("{name}: no such format; there are table, csv, json and markdown")),
    }
    Ok(())
}

fn run_file(shell: &mut Shell, file: &Path) -> Result {
    match std::fs::read_to_string(file) {
        Ok(text) => shell.run_text(&text),
        Err(error) => {
            refuse(shell, &format!("{}: {error}", file.display()));
            Ok(())
        }
    }
}

/// `TABLE from|to FILE [csv]`
fn copy(shell: &mut Shell, rest: &str) -> Result {
    let words: Vec<&str> = rest.split_whitespace().collect();
    let (table, direction, file, options) = match words[..] {
        [table, direction, file] => (table, direction, file, ""),
        [table, direction, file, "csv"] => (table, direction, file, " (format csv)"),
        _ => {
            refuse(shell, "\\copy takes TABLE from|to FILE [csv]");
            return Ok(());
        }
    };
    let file = file.trim_matches('\'');
    match direction {
        "to" => {
            let outcome = shell.connection.query(&format!("copy {table} to stdout{options}"));
            match outcome {
                Ok(results) => {
                    let data: Vec<u8> = results.into_iter().flat_map(|result| result.data).collect();
                    if let Err(error) = std::fs::write(file, data) {
                        refuse(shell, &format!("{file}: {error}"));
                    }
                }
                Err(error) => failed(shell, &error),
            }
        }
        "from" => match std::fs::read(file) {
            Ok(data) => match shell.connection.copy_from(&format!("copy {table} from stdin{options}"), &data)
            {
                Ok(results) => results.iter().try_for_each(|result| output::print(&result.tag))?,
                Err(error) => failed(shell, &error),
            },
            Err(error) => refuse(shell, &format!("{file}: {error}")),
        },
        _ => refuse(shell, "\\copy takes TABLE from|to FILE [csv]"),
    }
    Ok(())
}

fn failed(shell: &mut Shell, error: &SqlError) {
    shell.fail("", error);
}

/// `--csv FILE TABLE`
fn import_csv(shell: &mut Shell, rest: &str) -> Result {
    let words: Vec<&str> = rest.split_whitespace().filter(|word| *word != "--csv").collect();
    let [file, table] = words[..] else {
        refuse(shell, ".import takes --csv FILE TABLE");
        return Ok(());
    };
    let imported = import::csv(shell, Path::new(file), table);
    match imported {
        Ok(import::Imported { rows, rejected }) => {
            output::print(format_args!("{rows} rows imported, {rejected} rejected"))?;
            if rejected > 0 {
                shell.note_failure();
            }
        }
        Err(message) => refuse(shell, &message),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_distinguished_from_statements() {
        assert!(is_command("\\d") && is_command(".tables"));
        assert!(!is_command("select 1") && !is_command(".5") && !is_command(""));
    }

    #[test]
    fn switches_are_set_or_turned() {
        assert!(switched(false, "") && switched(true, "on") && !switched(true, "off"));
    }
}
