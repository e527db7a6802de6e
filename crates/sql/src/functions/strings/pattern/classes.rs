//! Sets of characters: ranges, named classes, complements.

use std::cell::RefCell;
use std::fmt::Write;

use hashbrown::HashMap;
use regex::Regex;

/// Characters that a pattern names together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct CharSet {
    /// Sorted, without overlaps.
    ranges: Vec<(char, char)>,
    /// Classes in the syntax of the crate `regex`, as they are written between brackets.
    classes: Vec<&'static str>,
    pub is_negated: bool,
    /// True if a newline is excluded, whatever else holds.
    pub excludes_newline: bool,
}

impl CharSet {
    /// All characters.
    pub fn any(excludes_newline: bool) -> CharSet {
        CharSet { is_negated: true, excludes_newline, ..CharSet::default() }
    }

    /// Adds a range; `ignores_case`: and the other cases of its characters.
    pub fn add(&mut self, first: char, last: char, ignores_case: bool) {
        self.ranges.push((first, last));
        if ignores_case {
            for character in first..=last {
                let [lower, upper] = cases(character);
                self.ranges.extend([lower, upper].map(|other| (other, other)));
            }
        }
        self.ranges.sort_unstable();
        let mut merged: Vec<(char, char)> = Vec::with_capacity(self.ranges.len());
        for &(first, last) in &self.ranges {
            match merged.last_mut() {
                Some((_, end)) if u32::from(first) <= u32::from(*end) + 1 => *end = last.max(*end),
                _ => merged.push((first, last)),
            }
        }
        self.ranges = merged;
    }

    pub fn add_class(&mut self, class: &'static str) {
        self.classes.push(class);
    }

    pub fn contains(&self, character: char) -> bool {
        if self.excludes_newline && character == '\n' {
            return false;
        }
        let is_listed = self.ranges.iter().any(|(first, last)| (*first..=*last).contains(&character))
            || self.classes.iter().any(|class| is_of_class(class, character));
        is_listed != self.is_negated
    }

    /// The set in the syntax of the crate `regex`.
    pub fn write(&self, out: &mut String) {
        let mut listed = String::new();
        for (first, last) in &self.ranges {
            let _ = write!(listed, "\\x{{{:x}}}-\\x{{{:x}}}", u32::from(*first), u32::from(*last));
        }
        self.classes.iter().for_each(|class| listed.push_str(class));
        match (listed.is_empty(), self.is_negated, self.excludes_newline) {
            (true, true, false) => out.push_str("(?s:.)"),
            (true, true, true) => out.push_str("[^\\n]"),
            (true, false, _) => out.push_str("[a&&b]"),
            (false, true, true) => {
                let _ = write!(out, "[^{listed}\\n]");
            }
            (false, true, false) => {
                let _ = write!(out, "[^{listed}]");
            }
            (false, false, true) => {
                let _ = write!(out, "[{listed}--\\n]");
            }
            (false, false, false) => {
                let _ = write!(out, "[{listed}]");
            }
        }
    }
}

/// The lower-case and the upper-case form of a character; itself where that would be several characters.
pub(super) fn cases(character: char) -> [char; 2] {
    let only = |mut forms: Box<dyn Iterator<Item = char>>| match (forms.next(), forms.next()) {
        (Some(form), None) => form,
        _ => character,
    };
    [only(Box::new(character.to_lowercase())), only(Box::new(character.to_uppercase()))]
}

/// Returns true if a character belongs to words.
pub(super) fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

thread_local! {
    static CLASSES: RefCell<HashMap<&'static str, Option<Regex>>> = RefCell::new(HashMap::new());
}

fn is_of_class(class: &'static str, character: char) -> bool {
    CLASSES.with_borrow_mut(|classes| {
        let regex = classes.entry(class).or_insert_with(|| Regex::new(&format!("^[{class}]$")).ok());
        regex.as_ref().is_some_and(|regex| regex.is_match(character.encode_utf8(&mut [0; 4])))
    })
}

pub(super) const DIGIT: &str = "0-9";
pub(super) const SPACE: &str = "\\s";
pub(super) const WORD: &str = "\\p{Alphabetic}\\p{N}_";
pub(super) const NO_DIGIT: &str = "[^0-9]";
pub(super) const NO_SPACE: &str = "\\S";
pub(super) const NO_WORD: &str = "[^\\p{Alphabetic}\\p{N}_]";

/// The class `[:name:]`.
pub(super) fn class(name: &str) -> Option<&'static str> {
    Some(match name {
        "alpha" => "\\p{Alphabetic}",
        "digit" => DIGIT,
        "alnum" => "\\p{Alphabetic}\\p{N}",
        "word" => WORD,
        "lower" => "\\p{Lowercase}",
        "upper" => "\\p{Uppercase}",
        "space" => SPACE,
        "blank" => "[:blank:]",
        "punct" => "\\p{P}\\p{S}",
        "cntrl" => "\\p{Cc}",
        "xdigit" => "0-9a-fA-F",
        "print" => "\\P{C}",
        "graph" => "\\p{L}\\p{M}\\p{N}\\p{P}\\p{S}",
        "ascii" => "\\x00-\\x7f",
        _ => return None,
    })
}
