//! Commands that change how the shell behaves and how results look: `\set`, `\pset`, `\x`, `\o` and their kin.

use std::io::{BufRead, Write};

use crate::failure::Result;
use crate::output;
use crate::sql::meta::{format_named, refuse};
use crate::sql::print::{Expanded, Format};
use crate::sql::shell::Shell;
use crate::sql::target::Target;
use crate::sql::variables::{is_name, truth};

/// Runs one of these commands. Whether it is one.
pub fn run(shell: &mut Shell, name: &str, arguments: &[String]) -> Result<bool> {
    let first = arguments.first().map(String::as_str).unwrap_or_default();
    match name {
        "set" => set(shell, arguments)?,
        "unset" => match first {
            "" => refuse(shell, "\\unset: missing required argument"),
            name => shell.variables.unset(name),
        },
        "prompt" => prompt(shell, arguments)?,
        "getenv" => match arguments {
            [variable, environment] => {
                if let Ok(value) = std::env::var(environment) {
                    shell.variables.set(variable, value);
                }
            }
            _ => refuse(shell, "\\getenv takes a variable and the name of one of the environment's"),
        },
        "echo" | "qecho" | "warn" => echo(shell, name, arguments)?,
        "o" | "out" => match Target::open(first) {
            Ok(target) => shell.target = target,
            Err(message) => refuse(shell, &message),
        },
        "timing" => {
            shell.timing = switched(shell.timing, first);
            say(shell, &format!("Timing is {}.", on_or_off(shell.timing)))?;
        }
        "x" => pset(shell, "expanded", first)?,
        "t" => pset(shell, "tuples_only", first)?,
        "f" => pset(shell, "fieldsep", first)?,
        "C" => pset(shell, "title", first)?,
        "a" => {
            let to = if shell.display.format == Format::Unaligned { "table" } else { "unaligned" };
            pset(shell, "format", to)?;
        }
        "format" => match format_named(first) {
            Ok(format) => shell.display.format = format,
            Err(message) => refuse(shell, &message),
        },
        "pset" if first.is_empty() => output::print(all_settings(shell))?,
        "pset" => pset(shell, first, arguments.get(1).map(String::as_str).unwrap_or_default())?,
        "encoding" => match first {
            "" => output::print("UTF8")?,
            name if ["UTF8", "UTF-8", "UNICODE"].contains(&name.to_uppercase().as_str()) => {}
            name => refuse(shell, &format!("{name}: this shell speaks UTF8 only")),
        },
        _ => return Ok(false),
    }
    Ok(true)
}

/// The new value of a switch; without a word the switch is toggled.
fn switched(is_on: bool, to: &str) -> bool {
    truth(to).unwrap_or(!is_on)
}

fn on_or_off(is_on: bool) -> &'static str {
    if is_on { "on" } else { "off" }
}

/// Prints what has changed, in an interactive shell.
fn say(shell: &Shell, text: &str) -> Result {
    if shell.interactive && !shell.variables.is_on("QUIET") { output::print(text) } else { Ok(()) }
}

/// `\set [NAME [VALUE]…]`: values are put together.
fn set(shell: &mut Shell, arguments: &[String]) -> Result {
    let [name, values @ ..] = arguments else {
        let lines: Vec<String> =
            shell.variables.all().map(|(name, value)| format!("{name} = '{value}'")).collect();
        return output::print(lines.join("\n"));
    };
    if !is_name(name) {
        refuse(shell, &format!("invalid variable name: \"{name}\""));
        return Ok(());
    }
    let value = values.concat();
    if name == "ON_ERROR_STOP" {
        match truth(if value.is_empty() { "on" } else { &value }) {
            Some(stops) => shell.set_keep_going(!stops),
            None => {
                refuse(shell, &format!("unrecognized value \"{value}\" for \"{name}\": Boolean expected"));
                return Ok(());
            }
        }
    }
    shell.variables.set(name, value);
    Ok(())
}

/// `\prompt [TEXT] NAME`
fn prompt(shell: &mut Shell, arguments: &[String]) -> Result {
    let (text, name) = match arguments {
        [name] => ("", name),
        [text, name] => (text.as_str(), name),
        _ => {
            refuse(shell, "\\prompt takes a text and the name of a variable");
            return Ok(());
        }
    };
    let mut stdout = std::io::stdout().lock();
    output::written(write!(stdout, "{text}").and_then(|()| stdout.flush()))?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    shell.variables.set(name, line.trim_end_matches(['\n', '\r']));
    Ok(())
}

/// `\echo [-n] TEXT…`
fn echo(shell: &mut Shell, name: &str, arguments: &[String]) -> Result {
    let (end, words) = match arguments {
        [first, rest @ ..] if first == "-n" => ("", rest),
        all => ("\n", all),
    };
    let text = format!("{}{end}", words.join(" "));
    match name {
        "warn" => {
            let _ = write!(std::io::stderr(), "{text}");
            Ok(())
        }
        "qecho" => shell.target.write(text.as_bytes()),
        _ => Target::Terminal.write(text.as_bytes()),
    }
}

/// `\pset NAME [VALUE]`
fn pset(shell: &mut Shell, name: &str, value: &str) -> Result {
    let display = &mut shell.display;
    let said = match name {
        "format" if value.is_empty() => format!("Output format is {}.", display.format.name()),
        "format" => match format_named(value) {
            Ok(format) => {
                display.format = format;
                format!("Output format is {}.", format.name())
            }
            Err(message) => {
                refuse(shell, &format!("\\pset: {message}"));
                return Ok(());
            }
        },
        "null" => {
            value.clone_into(&mut display.null);
            format!("Null display is \"{value}\".")
        }
        "border" => match value.parse::<u8>() {
            Ok(border) if border <= 3 => {
                display.border = border.min(2);
                format!("Border style is {}.", display.border)
            }
            _ => {
                refuse(shell, "\\pset: border takes 0, 1 or 2");
                return Ok(());
            }
        },
        "x" | "expanded" | "vertical" => {
            display.expanded = match (value, display.expanded) {
                ("auto", _) => Expanded::Auto,
                (word, before) if switched(before == Expanded::On, word) => Expanded::On,
                _ => Expanded::Off,
            };
            format!("Expanded display is {}.", expanded(display.expanded))
        }
        "t" | "tuples_only" => {
            display.tuples_only = switched(display.tuples_only, value);
            format!("Tuples only is {}.", on_or_off(display.tuples_only))
        }
        "footer" => {
            display.footer = switched(display.footer, value);
            format!("Default footer is {}.", on_or_off(display.footer))
        }
        "pager" => {
            display.pager = switched(display.pager, value);
            format!("Pager is {}.", on_or_off(display.pager))
        }
        "fieldsep" => {
            value.clone_into(&mut display.field_separator);
            format!("Field separator is \"{value}\".")
        }
        "title" | "C" => {
            value.clone_into(&mut display.title);
            if value.is_empty() { "Title is unset.".to_owned() } else { format!("Title is \"{value}\".") }
        }
        other => {
            let known = "border, expanded, fieldsep, footer, format, null, pager, title, tuples_only";
            refuse(shell, &format!("\\pset: unknown option: {other}; there are {known}"));
            return Ok(());
        }
    };
    say(shell, &said)
}

fn expanded(expanded: Expanded) -> &'static str {
    match expanded {
        Expanded::Off => "off",
        Expanded::On => "on",
        Expanded::Auto => "used automatically",
    }
}

fn all_settings(shell: &Shell) -> String {
    let display = &shell.display;
    let lines = [
        ("border", display.border.to_string()),
        (
            "expanded",
            if display.expanded == Expanded::Auto { "auto" } else { expanded(display.expanded) }.to_owned(),
        ),
        ("fieldsep", format!("'{}'", display.field_separator)),
        ("footer", on_or_off(display.footer).to_owned()),
        ("format", display.format.name().to_owned()),
        ("null", format!("'{}'", display.null)),
        ("pager", on_or_off(display.pager).to_owned()),
        ("title", format!("'{}'", display.title)),
        ("tuples_only", on_or_off(display.tuples_only).to_owned()),
    ];
    lines.map(|(name, value)| format!("{name:<24} {value}")).join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_are_set_or_turned() {
        assert!(switched(false, "") && switched(true, "on") && !switched(true, "off") && !switched(true, ""));
    }
}
