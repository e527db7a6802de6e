//! The parts of expressions, read from `forms.txt`: for each type its literals, the forms that have a value
//! of it, and those that can fail for some operands.
//!
//! A form holds placeholders in braces: a type's name stands for an expression of that type, `any` for one of any type,
//! `count` for a small number, `some` for a number other than zero, `same` for one column wherever it stands. A statement
//! holds at most one risky form, because which of two errors is reported is free.

use std::collections::HashMap;
use std::sync::OnceLock;

type Lists = HashMap<(&'static str, &'static str), Vec<&'static str>>;

/// A list begins with `## list type`, and has a form on each line.
static TEXT: &str = include_str!("forms.txt");

fn lists() -> &'static Lists {
    static LISTS: OnceLock<Lists> = OnceLock::new();
    LISTS.get_or_init(|| {
        let mut lists = Lists::new();
        let mut key = ("", "");
        for line in TEXT.lines() {
            match line.strip_prefix("## ").and_then(|head| head.split_once(' ')) {
                Some(head) => key = head,
                None => lists.entry(key).or_default().push(line),
            }
        }
        lists
    })
}

/// The list of this name and type.
pub fn list(name: &str, kind: &str) -> &'static [&'static str] {
    let found = lists().iter().find(|((list, of), _)| *list == name && *of == kind);
    found.map_or(&[], |(_, forms)| forms)
}

/// The types of expressions, in the order of the file.
pub fn kinds() -> Vec<&'static str> {
    TEXT.lines().filter_map(|line| line.strip_prefix("## literals ")).collect()
}

pub fn literals(kind: &str) -> &'static [&'static str] {
    list("literals", kind)
}

pub fn forms(kind: &str) -> &'static [&'static str] {
    list("forms", kind)
}

pub fn risky(kind: &str) -> &'static [&'static str] {
    list("risky", kind)
}

/// Regular expressions that both engines read alike.
pub fn patterns() -> &'static [&'static str] {
    list("patterns", "any")
}

/// Aggregates whose result doesn't depend on the order of their rows.
pub fn aggregates() -> &'static [&'static str] {
    list("aggregates", "any")
}

/// Window functions over a full order.
pub fn windows() -> &'static [&'static str] {
    list("windows", "any")
}
