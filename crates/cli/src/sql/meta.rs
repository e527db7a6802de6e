//! Commands of the shell: those of psql begin with a backslash, those of SQLite's shell with a dot.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::Result;
use crate::output;
use crate::sql::arguments::Parsed;
use crate::sql::print::{Format, Rows};
use crate::sql::shell::Shell;
use crate::sql::variables::literal;
use crate::sql::{buffer, copy, describe, import, settings};

const HELP: &str = "\
General
  \\q, exit, quit, .quit          leave
  \\?, help, .help                this
  \\h                             which SQL there is
  \\conninfo                      the database, the role and the directory
  \\encoding                      the encoding, which is always UTF8
  \\timing [on|off], .timer       how long statements take
  \\cd [DIR], \\! [COMMAND]        change the directory; run a program
  \\getenv VAR ENV                a variable of the environment
Statements
  ;                              run what was typed
  \\g [FILE|'|PROGRAM']           run it, or the last one again; its results into a file or a program
  \\gx                            the same, each row by itself
  \\gset [PREFIX]                 run it; the one row becomes variables
  \\gexec                         run it, then each value of its result as a statement
  \\gdesc                         the columns of its result, without running it
  \\watch [SECONDS [TIMES]]       run it again and again, until Ctrl-C
  \\p, \\r, \\w FILE                print, forget or write what was typed
  \\e [FILE]                      edit it, or a file, with $PSQL_EDITOR, $EDITOR or $VISUAL
Input and output
  \\i FILE, \\ir FILE, .read FILE  run a script; \\ir: beside the script that says so
  \\o [FILE|'|PROGRAM']           results from now on into a file or a program
  \\copy TABLE|(QUERY) from|to FILE|stdin|stdout|program 'COMMAND' [OPTIONS]
  .import --csv FILE TABLE       rows of a CSV file with a heading; rejected rows are reported by their lines
  \\echo [-n] TEXT, \\qecho, \\warn  print a text: to standard output, to where results go, to standard error
Conditions and variables
  \\set [NAME [VALUE]…], \\unset NAME, \\prompt [TEXT] NAME
  :name :'name' :\"name\" :{?name}   a variable's value, as a literal, as an identifier; whether there is one
  \\if EXPRESSION, \\elif, \\else, \\endif
What is in the database ([+]: more; PATTERN: as psql's, with * and ?)
  \\d [NAME]                      relations, or one with its columns, indexes, constraints and triggers
  \\dt \\dv \\dm \\di \\ds [PATTERN]  tables, views, materialized views, indexes, sequences; .tables, .schema [NAME]
  \\df \\dT \\dD \\dn \\du \\dp \\dx \\l  functions, types, domains, schemas, roles, privileges, extensions, databases
  \\sf NAME, \\sv NAME             a function's or a view's definition
How results look
  \\pset [NAME [VALUE]]           border, expanded, fieldsep, footer, format, null, pager, title, tuples_only
  \\x [on|off|auto] \\t \\a \\f \\C     each row by itself, rows alone, not aligned, separator, title
  \\format NAME, .mode NAME       table, unaligned, csv, json, markdown
Ctrl-C cancels the statement that is running, or forgets what was typed.";

const SQL_HELP: &str = "\
The SQL is PostgreSQL 15's: docs/sql.md of the sources says what is there and what is refused, and
https://www.postgresql.org/docs/15/sql-commands.html describes each statement.";

/// Returns true if a line is a command that begins with a dot.
pub fn is_dot_command(line: &str) -> bool {
    let mut letters = line.chars();
    letters.next() == Some('.') && letters.next().is_some_and(|letter| letter.is_ascii_alphabetic())
}

/// Runs a command that begins with a dot.
pub fn run_dot(shell: &mut Shell, line: &str) -> Result {
    let line = line.trim_end_matches(';');
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    match name {
        ".quit" | ".exit" => shell.end(),
        ".help" => output::print(HELP)?,
        ".timer" => return settings::run(shell, "timing", &words(rest)).map(drop),
        ".mode" => return settings::run(shell, "format", &words(rest)).map(drop),
        ".read" => return shell.run_file(Path::new(rest)),
        ".import" => return import_csv(shell, rest),
        ".tables" => describe::run(shell, "dt", &words(rest))?,
        ".schema" => describe::schema(shell, rest)?,
        other => refuse(shell, &format!("{other}: no such command; .help tells all")),
    }
    Ok(())
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Runs a command that begins with a backslash.
pub fn run(shell: &mut Shell, command: &Parsed) -> Result {
    let Parsed { name, arguments, whole, .. } = command;
    if let Some(outcome) = shell.conditions.take(name, arguments.first()) {
        if let Err(message) = outcome {
            refuse(shell, &message);
        }
        return Ok(());
    }
    if !shell.conditions.runs() || name.is_empty() {
        return Ok(());
    }
    // A semicolon behind a name is a habit, and no part of it; one within quotes is meant.
    let arguments: Vec<String> = match arguments.as_slice() {
        [before @ .., last]
            if last.ends_with(';')
                && whole.ends_with(';')
                && !matches!(name.as_str(), "echo" | "qecho" | "warn" | "set") =>
        {
            before
                .iter()
                .cloned()
                .chain([last.trim_end_matches(';').to_owned()])
                .filter(|it| !it.is_empty())
                .collect()
        }
        all => all.to_vec(),
    };
    let first = arguments.first().map(String::as_str).unwrap_or_default();
    match name.trim_end_matches(';') {
        "q" | "quit" => shell.end(),
        "?" => shell.print_long(&format!("{HELP}\n"))?,
        "h" | "help" => output::print(SQL_HELP)?,
        "copy" => copy::run(shell, whole.trim_end_matches(';'))?,
        "i" | "include" => shell.run_file(Path::new(first))?,
        "ir" | "include_relative" => shell.run_file(&beside_script(shell, first))?,
        "conninfo" => conninfo(shell)?,
        "c" | "connect" => refuse(
            shell,
            "\\connect: this shell has one connection, to the directory that it was started with",
        ),
        "!" => run_program(shell, whole)?,
        "cd" => change_directory(shell, first),
        "sf" | "sf+" => definition(shell, "pg_get_functiondef", "regproc", whole)?,
        "sv" | "sv+" => definition(shell, "pg_get_viewdef", "regclass", whole)?,
        "z" => describe::run(shell, "dp", &arguments)?,
        "l" | "list" | "l+" => describe::run(shell, "l", &arguments)?,
        other if other.starts_with('d') => describe::run(shell, other, &arguments)?,
        other if buffer::run(shell, other, &arguments)? || settings::run(shell, other, &arguments)? => {}
        other => refuse(shell, &format!("\\{other}: no such command; \\? tells all")),
    }
    Ok(())
}

/// Reports what is wrong, and notes that something failed.
pub fn refuse(shell: &mut Shell, message: &str) {
    output::report(message);
    shell.note_failure();
}

/// A file beside the script that is running, or in the present directory.
fn beside_script(shell: &Shell, file: &str) -> PathBuf {
    match shell.scripts.last() {
        Some(directory) => directory.join(file),
        None => PathBuf::from(file),
    }
}

fn conninfo(shell: &mut Shell) -> Result {
    let directory = shell.directory.display().to_string();
    let Some(results) = shell.execute("select current_database(), current_user")? else { return Ok(()) };
    let rows = results.first().map(|result| shell.rows(result)).transpose()?;
    let row = rows.and_then(|rows| rows.rows.into_iter().next()).unwrap_or_default();
    let cell = |at: usize| row.get(at).cloned().flatten().unwrap_or_default();
    output::print(format_args!(
        "You are connected to database \"{}\" as user \"{}\" in directory \"{directory}\", in this process.",
        cell(0),
        cell(1)
    ))
}

/// Runs a program of the system's, or its shell.
fn run_program(shell: &mut Shell, command: &str) -> Result {
    let mut program = match command.is_empty() {
        true => Command::new(std::env::var("SHELL").unwrap_or_else(|_| "sh".to_owned())),
        false => Command::new("sh"),
    };
    if !command.is_empty() {
        program.arg("-c").arg(command);
    }
    match program.status() {
        Ok(_) => {}
        Err(error) => refuse(shell, &format!("\\!: {error}")),
    }
    Ok(())
}

fn change_directory(shell: &mut Shell, directory: &str) {
    let home = std::env::var("HOME").unwrap_or_default();
    let to = if directory.is_empty() { &home } else { directory };
    if let Err(error) = std::env::set_current_dir(to) {
        refuse(shell, &format!("\\cd: {to}: {error}"));
    }
}

/// `\sf`, `\sv`: a definition, as a function of the catalog's writes it.
fn definition(shell: &mut Shell, function: &str, ty: &str, name: &str) -> Result {
    let name = name.trim_end_matches(';').trim();
    let ty = if ty == "regproc" && name.contains('(') { "regprocedure" } else { ty };
    let query = format!("select {function}({}::{ty}::oid)", literal(name));
    let Some(results) = shell.execute(&query)? else { return Ok(()) };
    for result in &results {
        let Rows { rows, .. } = shell.rows(result)?;
        let text: Vec<String> = rows.into_iter().flatten().flatten().collect();
        shell.print_long(&format!("{}\n", text.join("\n").trim_end()))?;
    }
    Ok(())
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

/// The format of this name, as the shell's messages list them.
pub fn format_named(name: &str) -> std::result::Result<Format, String> {
    Format::named(name)
        .ok_or_else(|| format!("{name}: no such format; there are table, unaligned, csv, json and markdown"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_with_a_dot_are_distinguished_from_numbers() {
        assert!(is_dot_command(".tables"));
        assert!(!is_dot_command(".5") && !is_dot_command("") && !is_dot_command("select 1"));
    }

    #[test]
    fn the_help_names_every_command_that_has_a_backslash() {
        for name in [
            "\\gset",
            "\\gexec",
            "\\watch",
            "\\e ",
            "\\pset",
            "\\conninfo",
            "\\ir",
            "\\o ",
            "\\copy",
            "\\if",
            "\\du",
        ] {
            assert!(HELP.contains(name), "{name}");
        }
    }
}
