//! Names of months and days, and the words for whole dates and times.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Special {
    Infinity,
    NegativeInfinity,
    Epoch,
    Now,
    Today,
    Tomorrow,
    Yesterday,
}

const MONTH_NAMES: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

const DAY_NAMES: [&str; 7] = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];

/// The month with this name, or its first three letters.
pub(super) fn month_by_name(word: &str) -> Option<i32> {
    let suits = |name: &&str| *name == word || &name[..3] == word || *name == "september" && word == "sept";
    MONTH_NAMES.iter().position(suits).map(|at| at as i32 + 1)
}

pub(super) fn is_day_name(word: &str) -> bool {
    let others = ["tues", "wednes", "weds", "wed", "thurs", "thur"];
    others.contains(&word) || DAY_NAMES.iter().any(|name| *name == word || &name[..3] == word)
}

pub(super) fn special(word: &str) -> Option<Special> {
    Some(match word {
        "infinity" | "+infinity" => Special::Infinity,
        "-infinity" => Special::NegativeInfinity,
        "epoch" => Special::Epoch,
        "now" => Special::Now,
        "today" => Special::Today,
        "tomorrow" => Special::Tomorrow,
        "yesterday" => Special::Yesterday,
        _ => return None,
    })
}
