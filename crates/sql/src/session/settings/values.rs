//! The texts of settings: switches, numbers with units, date styles, lists of names.

use crate::error::{Result, SqlError, SqlState};
use crate::types::environment::{DateOrder, DateStyle};

/// A number within bounds, as it is shown.
pub(super) fn bounded<N: std::str::FromStr + PartialOrd + std::fmt::Display>(
    name: &str,
    value: &str,
    least: N,
    most: N,
) -> Result<String> {
    let refused = |message| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let number: N =
        value.parse().map_err(|_| refused(format!("invalid value for parameter \"{name}\": \"{value}\"")))?;
    if !(&least..=&most).contains(&&number) {
        let message =
            format!("{number} is outside the valid range for parameter \"{name}\" ({least} .. {most})");
        return Err(refused(message));
    }
    Ok(number.to_string())
}

/// A switch, as settings and options of objects spell it.
pub(crate) fn parse_bool(value: &str) -> Option<bool> {
    match value.to_lowercase().as_str() {
        "on" | "true" | "t" | "yes" | "y" | "1" => Some(true),
        "off" | "false" | "f" | "no" | "n" | "0" => Some(false),
        _ => None,
    }
}

/// Milliseconds: a number with a unit, or without one.
pub(in crate::session) fn parse_duration(value: &str) -> Option<u64> {
    let value = value.trim();
    let digits = value.find(|character: char| !character.is_ascii_digit()).unwrap_or(value.len());
    let number: u64 = value[..digits].parse().ok()?;
    let factor = match value[digits..].trim() {
        "" | "ms" => 1,
        "s" => 1_000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(factor).filter(|&total| total <= i32::MAX as u64)
}

/// The largest unit in which it is a whole number.
pub(super) fn show_duration(milliseconds: u64) -> String {
    for (unit, factor) in [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)] {
        if milliseconds > 0 && milliseconds.is_multiple_of(factor) {
            return format!("{}{unit}", milliseconds / factor);
        }
    }
    if milliseconds == 0 { "0".to_string() } else { format!("{milliseconds}ms") }
}

/// The least and the most that a setting of memory may be: PostgreSQL's bounds of `work_mem`.
const WORK_MEM_BYTES_MIN: usize = 64 << 10;

const WORK_MEM_BYTES_MAX: usize = (i32::MAX as usize) << 10;

/// The units of memory, and their bytes.
const SIZES: [(&str, usize); 4] = [("TB", 1 << 40), ("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10)];

/// Bytes: a number with a unit, or of kilobytes.
pub(in crate::session) fn parse_bytes(value: &str) -> Option<usize> {
    let value = value.trim();
    let digits = value.find(|character: char| !character.is_ascii_digit()).unwrap_or(value.len());
    let number: usize = value[..digits].parse().ok()?;
    let bytes = match value[digits..].trim() {
        "" => 1 << 10,
        "B" => 1,
        unit => SIZES.iter().find(|(name, _)| *name == unit)?.1,
    };
    number.checked_mul(bytes)
}

/// Bytes within the bounds of `work_mem`.
pub(in crate::session) fn parse_size(value: &str) -> Option<usize> {
    parse_bytes(value).filter(|bytes| (WORK_MEM_BYTES_MIN..=WORK_MEM_BYTES_MAX).contains(bytes))
}

/// A number of pages of 8 kB, or memory with a unit, as it is shown.
pub(super) fn show_pages(value: &str) -> Option<String> {
    let value = value.trim();
    let bytes = match value.parse::<usize>() {
        Ok(0) => return Some("0".to_string()),
        Ok(pages) => pages.checked_mul(8 << 10)?,
        Err(_) => parse_bytes(value)?,
    };
    Some(show_size(bytes))
}

/// A size in the largest unit in which it is a whole number; less than a kilobyte does not count.
pub(super) fn show_size(bytes: usize) -> String {
    let whole = SIZES.iter().find(|(_, size)| bytes >= *size && bytes.is_multiple_of(*size));
    whole.map_or_else(|| format!("{}kB", bytes >> 10), |(unit, size)| format!("{}{unit}", bytes / size))
}

pub(super) fn parse_date_style(
    value: &str,
    current: (DateStyle, DateOrder),
) -> Result<(DateStyle, DateOrder)> {
    let (mut style, mut order) = current;
    for word in value.split([',', ' ']).map(str::trim).filter(|word| !word.is_empty()) {
        match word.to_lowercase().as_str() {
            "iso" => style = DateStyle::Iso,
            "sql" => style = DateStyle::Sql,
            "postgres" => style = DateStyle::Postgres,
            "german" => (style, order) = (DateStyle::German, DateOrder::Dmy),
            "dmy" | "euro" | "european" => order = DateOrder::Dmy,
            "mdy" | "us" | "noneuro" | "noneuropean" => order = DateOrder::Mdy,
            "ymd" => order = DateOrder::Ymd,
            "default" => (style, order) = (DateStyle::Iso, DateOrder::Mdy),
            _ => {
                let message = format!("invalid value for parameter \"DateStyle\": \"{value}\"");
                let detail = format!("Unrecognized key word: \"{word}\".");
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).with_detail(detail));
            }
        }
    }
    Ok((style, order))
}

pub(super) fn date_style_text((style, order): (DateStyle, DateOrder)) -> String {
    let style = match style {
        DateStyle::Iso => "ISO",
        DateStyle::Sql => "SQL",
        DateStyle::Postgres => "Postgres",
        DateStyle::German => "German",
    };
    let order = match order {
        DateOrder::Dmy => "DMY",
        DateOrder::Mdy => "MDY",
        DateOrder::Ymd => "YMD",
    };
    format!("{style}, {order}")
}

/// The names of a list such as `"$user", public`.
pub(crate) fn split_names(list: &str) -> Vec<String> {
    let mut names = Vec::new();
    let (mut name, mut quoted, mut was_quoted) = (String::new(), false, false);
    for character in list.chars().chain([',']) {
        match character {
            '"' => (quoted, was_quoted) = (!quoted, true),
            ',' if !quoted => {
                let text = name.trim();
                names.push(if was_quoted { text.to_string() } else { text.to_lowercase() });
                (name, was_quoted) = (String::new(), false);
            }
            _ => name.push(character),
        }
    }
    names.retain(|name| !name.is_empty());
    names
}
