//! Commands that do something with what was typed: run it in another way, print it, edit it, forget it.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::failure::Result;
use crate::output;
use crate::sql::meta::refuse;
use crate::sql::print::{Expanded, Rows};
use crate::sql::shell::Shell;
use crate::sql::target::Target;

/// Interval between two checks for Ctrl-C during a pause.
const LOOK: Duration = Duration::from_millis(20);

/// The editor where the environment names none, as psql has it.
const EDITOR: &str = "vi";

/// Runs one of these commands. Whether it is one.
pub fn run(shell: &mut Shell, name: &str, arguments: &[String]) -> Result<bool> {
    let first = arguments.first().map(String::as_str).unwrap_or_default();
    match name {
        "g" | "gx" => run_into(shell, first, name == "gx")?,
        "gset" => set_variables(shell, first)?,
        "gexec" => execute_values(shell)?,
        "gdesc" => describe(shell)?,
        "watch" => watch(shell, arguments)?,
        "p" | "print" => {
            let text = shown(shell);
            let text = if text.is_empty() { "Query buffer is empty." } else { &text };
            output::print(text.trim_end())?;
        }
        "r" | "reset" => {
            shell.input.clear();
            if shell.interactive {
                output::print("Query buffer reset (cleared).")?;
            }
        }
        "w" | "write" => {
            if let Err(error) = std::fs::write(first, format!("{}\n", shown(shell).trim_end())) {
                refuse(shell, &format!("{first}: {error}"));
            }
        }
        "e" | "edit" => edit(shell, first)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// The typed text, or the last statement.
fn shown(shell: &Shell) -> String {
    let typed = &shell.input.buffer;
    if typed.trim().is_empty() { shell.previous.clone() } else { typed.clone() }
}

/// Returns the same text to be executed, and clears the input. `None` if it is empty.
fn take(shell: &mut Shell) -> Option<String> {
    let text = shown(shell);
    shell.input.clear();
    if text.trim().is_empty() {
        return None;
    }
    shell.previous.clone_from(&text);
    Some(text)
}

/// `\g [FILE]`, `\gx [FILE]`
fn run_into(shell: &mut Shell, name: &str, is_expanded: bool) -> Result {
    let Some(text) = take(shell) else { return Ok(()) };
    let target = match Target::open(name) {
        Ok(target) => target,
        Err(message) => {
            refuse(shell, &message);
            return Ok(());
        }
    };
    let before = (!name.is_empty()).then(|| std::mem::replace(&mut shell.target, target));
    let expanded = shell.display.expanded;
    if is_expanded {
        shell.display.expanded = Expanded::On;
    }
    let outcome = shell.run_statement(&text);
    shell.display.expanded = expanded;
    if let Some(before) = before {
        shell.target = before;
    }
    outcome
}

/// The rows of the last result of the typed statements; `None` if a statement failed, or nothing was typed.
fn rows(shell: &mut Shell) -> Result<Option<Rows>> {
    let Some(text) = take(shell) else { return Ok(None) };
    let Some(results) = shell.execute(&text)? else { return Ok(None) };
    results.last().map(|result| shell.rows(result)).transpose()
}

/// `\gset [PREFIX]`: NULL unsets.
fn set_variables(shell: &mut Shell, prefix: &str) -> Result {
    let Some(rows) = rows(shell)? else { return Ok(()) };
    match rows.rows.len() {
        1 => {}
        0 => {
            refuse(shell, "no rows returned for \\gset");
            return Ok(());
        }
        _ => {
            refuse(shell, "more than one row returned for \\gset");
            return Ok(());
        }
    }
    for (name, value) in rows.names.iter().zip(&rows.rows[0]) {
        let name = format!("{prefix}{name}");
        match value {
            Some(value) => shell.variables.set(&name, value.clone()),
            None => shell.variables.unset(&name),
        }
    }
    Ok(())
}

/// `\gexec`: each value that is not NULL, row by row.
fn execute_values(shell: &mut Shell) -> Result {
    let Some(rows) = rows(shell)? else { return Ok(()) };
    for statement in rows.rows.into_iter().flatten().flatten() {
        if shell.has_ended() || shell.interactive && shell.is_interrupted() {
            break;
        }
        shell.run_statement(&statement)?;
    }
    Ok(())
}

/// `\gdesc`
fn describe(shell: &mut Shell) -> Result {
    let Some(text) = take(shell) else { return Ok(()) };
    let prepared = shell.connection.prepare("", &text, &[]);
    match prepared.and_then(|()| shell.connection.describe_statement("")) {
        Ok((_, Some(fields))) if !fields.is_empty() => {
            let columns = fields.iter().enumerate().map(|(at, field)| {
                let name = crate::sql::variables::literal(&field.name);
                format!("({at}, {name}, format_type({}, {}))", field.ty.oid(), field.modifier)
            });
            let columns: Vec<String> = columns.collect();
            let query = format!(
                "select name as \"Column\", type as \"Type\" from (values {}) as c (number, name, type) order by number",
                columns.join(", ")
            );
            shell.run_statement(&query)
        }
        Ok(_) => output::print("The command has no result, or the result has no columns."),
        Err(error) => {
            shell.fail(&text, &error);
            Ok(())
        }
    }
}

/// `\watch [SECONDS [TIMES]]`: repeats until Ctrl-C, an error, or the given number of times.
fn watch(shell: &mut Shell, arguments: &[String]) -> Result {
    let number = |at: usize| {
        arguments
            .get(at)
            .map(|text: &String| text.trim_start_matches("i=").trim_start_matches("c=").parse::<f64>())
    };
    let (seconds, times) = match (number(0), number(1)) {
        (Some(Err(_)), _) | (_, Some(Err(_))) => {
            refuse(shell, "\\watch takes a number of seconds, and how often");
            return Ok(());
        }
        (seconds, times) => {
            (seconds.map_or(2.0, |it| it.unwrap_or(2.0)), times.and_then(std::result::Result::ok))
        }
    };
    let Some(text) = take(shell) else {
        refuse(shell, "\\watch cannot be used with an empty query");
        return Ok(());
    };
    let pause = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::from_secs(2));
    shell.interrupted.store(false, Ordering::Relaxed);
    let mut count = 0.0;
    while times.is_none_or(|times| count < times) {
        if count > 0.0 && !waited(shell, pause) {
            break;
        }
        count += 1.0;
        shell.target.print(&format!("(every {seconds} s, time {count})"))?;
        let Some(results) = shell.execute(&text)? else { break };
        results.iter().try_for_each(|result| shell.show(result))?;
        if shell.is_interrupted() || shell.has_ended() {
            break;
        }
    }
    Ok(())
}

/// Waits. Whether all of the time has passed: Ctrl-C ends it.
fn waited(shell: &Shell, pause: Duration) -> bool {
    let end = Instant::now() + pause;
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        if shell.is_interrupted() {
            return false;
        }
        std::thread::sleep(left.min(LOOK));
    }
    !shell.is_interrupted()
}

/// `\e [FILE]`: what is left there when the editor ends is taken in as if it had been typed.
fn edit(shell: &mut Shell, file: &str) -> Result {
    let own = tempfile::Builder::new().prefix("heddle-").suffix(".sql").tempfile()?;
    let path = if file.is_empty() { own.path().to_path_buf() } else { file.into() };
    if file.is_empty() {
        std::fs::write(&path, format!("{}\n", shown(shell).trim_end()))?;
    }
    let named = ["PSQL_EDITOR", "EDITOR", "VISUAL"].into_iter().find_map(|name| std::env::var(name).ok());
    let editor = named.unwrap_or_else(|| EDITOR.to_owned());
    let quoted = path.display().to_string().replace('\'', "'\\''");
    let status = std::process::Command::new("sh").arg("-c").arg(format!("exec {editor} '{quoted}'")).status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => {
            refuse(shell, &format!("{editor}: {status}"));
            return Ok(());
        }
        Err(error) => {
            refuse(shell, &format!("{editor}: {error}"));
            return Ok(());
        }
    }
    let text = std::fs::read_to_string(&path)?;
    shell.input.clear();
    text.split_inclusive('\n').try_for_each(|line| shell.feed(line))
}
