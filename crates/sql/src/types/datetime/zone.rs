//! Time zones: offsets at an instant, names, abbreviations and offsets as text.
//!
//! Invariants: offsets are seconds east of Greenwich. A local time that a transition skips is read with the offset before
//! it, one that a transition repeats with the offset after it, as PostgreSQL does. Years beyond 9999 use the rules of
//! the same year of the last 400-year cycle of the calendar.

use jiff::Timestamp as Instant;
use jiff::civil;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};

use super::abbreviations::{Abbreviation, abbreviation};
use super::{Fields, fields_of_timestamp, is_infinite};
use crate::error::{Result, SqlError, SqlState};

/// Microseconds from 1970 to 2000.
const UNIX_EPOCH: i64 = 946_684_800_000_000;
/// Microseconds of the 400 years after which the calendar repeats.
const CYCLE: i64 = 146_097 * 86_400_000_000;
/// The first microsecond of 9990, from which years are moved back by cycles.
const LAST_YEARS: i64 = 252_139_392_000_000_000;

/// A microsecond that the time zone database covers, at the same place of the calendar's cycle.
fn covered(micros: i64) -> i64 {
    if micros < LAST_YEARS { micros } else { LAST_YEARS - CYCLE + (micros - LAST_YEARS).rem_euclid(CYCLE) }
}

/// An instant of the calendar that the time zone database covers.
pub(super) fn covered_instant(instant: i64) -> Option<Instant> {
    Instant::from_microsecond(covered(instant) + UNIX_EPOCH).ok()
}

/// Seconds east of Greenwich at an instant.
pub fn offset_at(instant: i64, zone: &TimeZone) -> i32 {
    if zone == &TimeZone::UTC {
        return 0;
    }
    match Instant::from_microsecond(covered(instant) + UNIX_EPOCH) {
        Ok(instant) => zone.to_offset(instant).seconds(),
        Err(_) => 0,
    }
}

/// Seconds east of Greenwich, the abbreviation, and whether it is daylight saving time, at an instant.
pub fn zone_info_at(instant: i64, zone: &TimeZone) -> (i32, String) {
    match Instant::from_microsecond(covered(instant) + UNIX_EPOCH) {
        Ok(instant) => {
            let info = zone.to_offset_info(instant);
            (info.offset().seconds(), info.abbreviation().to_string())
        }
        Err(_) => (0, "UTC".to_string()),
    }
}

/// Seconds east of Greenwich at a local time.
pub fn offset_of_local(local: i64, zone: &TimeZone) -> i32 {
    if zone == &TimeZone::UTC {
        return 0;
    }
    let Fields { year, month, day, hour, minute, second, micros } = fields_of_timestamp(covered(local));
    let moment = civil::DateTime::new(
        year as i16,
        month as i8,
        day as i8,
        hour as i8,
        minute as i8,
        second as i8,
        micros * 1000,
    );
    let Ok(moment) = moment else { return 0 };
    match zone.to_ambiguous_timestamp(moment).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset.seconds(),
        AmbiguousOffset::Gap { before, .. } => before.seconds(),
        AmbiguousOffset::Fold { after, .. } => after.seconds(),
    }
}

/// A local time as an instant.
pub fn local_to_utc(local: i64, zone: &TimeZone) -> Result<i64> {
    if is_infinite(local) {
        return Ok(local);
    }
    let instant = local.checked_sub(i64::from(offset_of_local(local, zone)) * 1_000_000);
    super::check_timestamp(instant.ok_or_else(super::timestamp_out_of_range)?)
}

/// An instant as a local time.
pub fn utc_to_local(instant: i64, zone: &TimeZone) -> Result<i64> {
    if is_infinite(instant) {
        return Ok(instant);
    }
    let local = instant.checked_add(i64::from(offset_at(instant, zone)) * 1_000_000);
    local.ok_or_else(super::timestamp_out_of_range)
}

/// A zone of a fixed offset in seconds east of Greenwich.
pub fn fixed(seconds: i32) -> TimeZone {
    Offset::from_seconds(seconds).map_or(TimeZone::UTC, TimeZone::fixed)
}

/// The zone that a text names: a name of the database, an abbreviation, or a POSIX specification such as `EST5EDT` or
/// `UTC+3` (which is west). 22023 if there is none.
pub fn zone_by_name(name: &str) -> Result<TimeZone> {
    let trimmed = name.trim();
    match abbreviation(trimmed) {
        Some(Abbreviation::Offset(seconds)) => return Ok(fixed(seconds)),
        Some(Abbreviation::InZone(zone, _)) => return Ok(zone),
        None => {}
    }
    if let Ok(zone) = TimeZone::get(trimmed) {
        return Ok(zone);
    }
    if let Some(seconds) = offset_from_text(trimmed) {
        // A bare number in TIME ZONE is POSIX: positive is west.
        return Ok(fixed(-seconds));
    }
    if let Some(seconds) = posix_offset(trimmed) {
        return Ok(fixed(seconds));
    }
    if let Some(seconds) = quoted_posix_offset(trimmed) {
        return Ok(fixed(seconds));
    }
    if let Ok(zone) = TimeZone::posix(trimmed) {
        return Ok(zone);
    }
    let message = format!("time zone \"{name}\" not recognized");
    Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
}

/// `ABC+3`: letters and an offset, west positive.
fn posix_offset(text: &str) -> Option<i32> {
    let at = text.find(|c: char| !c.is_ascii_alphabetic())?;
    if at < 3 {
        return None;
    }
    offset_from_text(&text[at..]).map(|seconds| -seconds)
}

/// `<+05:30>-05:30`: a name of any characters and an offset, west positive.
fn quoted_posix_offset(text: &str) -> Option<i32> {
    let (_, offset) = text.strip_prefix('<')?.split_once('>')?;
    offset_from_text(offset).map(|seconds| -seconds)
}

/// `+05:30`, `-8`, `+0530`, `05:30:15`: seconds, with the sign as written.
pub fn offset_from_text(text: &str) -> Option<i32> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => (1, text),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b':') {
        return None;
    }
    let parts: Vec<&str> = digits.split(':').collect();
    let number = |part: &str| part.parse::<i32>().ok();
    let (hours, minutes, seconds) = match parts.as_slice() {
        [one] if one.len() > 4 => (
            number(&one[..one.len() - 4])?,
            number(&one[one.len() - 4..one.len() - 2])?,
            number(&one[one.len() - 2..])?,
        ),
        [one] if one.len() > 2 => (number(&one[..one.len() - 2])?, number(&one[one.len() - 2..])?, 0),
        [hours] => (number(hours)?, 0, 0),
        [hours, minutes] => (number(hours)?, number(minutes)?, 0),
        [hours, minutes, seconds] => (number(hours)?, number(minutes)?, number(seconds)?),
        _ => return None,
    };
    if hours > 15 || minutes > 59 || seconds > 59 {
        return None;
    }
    Some(sign * (hours * 3600 + minutes * 60 + seconds))
}

/// The name of a zone as `SHOW TimeZone` prints it.
pub fn zone_name(zone: &TimeZone) -> String {
    match zone.iana_name() {
        Some(name) => name.to_string(),
        None if zone == &TimeZone::UTC => "UTC".to_string(),
        None => {
            let seconds = zone.to_fixed_offset().map_or(0, Offset::seconds);
            let sign = if seconds < 0 { '-' } else { '+' };
            let posix = if seconds < 0 { '+' } else { '-' };
            let offset = clock_text(seconds.unsigned_abs());
            format!("<{sign}{offset}>{posix}{offset}")
        }
    }
}

/// `05`, `05:30`, `05:07:22`: no more than the offset needs.
fn clock_text(seconds: u32) -> String {
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (minutes, seconds) {
        (0, 0) => format!("{hours:02}"),
        (_, 0) => format!("{hours:02}:{minutes:02}"),
        _ => format!("{hours:02}:{minutes:02}:{seconds:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::datetime::make_timestamp;

    fn local(year: i32, month: i32, day: i32, hour: i32, minute: i32) -> i64 {
        make_timestamp(&Fields { year, month, day, hour, minute, ..Fields::default() }).unwrap()
    }

    #[test]
    fn names_of_fixed_offsets_are_read_back() {
        for (seconds, name) in [
            (19_800, "<+05:30>-05:30"),
            (-25_200, "<-07>+07"),
            (18_442, "<+05:07:22>-05:07:22"),
            (-1_800, "<-00:30>+00:30"),
        ] {
            assert_eq!(zone_name(&fixed(seconds)), name);
            assert_eq!(zone_name(&zone_by_name(name).unwrap()), name);
        }
        assert!(zone_by_name("<+05:30").is_err());
        assert!(zone_by_name("<+05:30>").is_err());
    }

    #[test]
    fn skipped_and_repeated_hours_are_read_as_postgresql_reads_them() {
        let berlin = zone_by_name("Europe/Berlin").unwrap();
        assert_eq!(offset_of_local(local(2024, 3, 31, 2, 30), &berlin), 3600);
        assert_eq!(offset_of_local(local(2024, 10, 27, 2, 30), &berlin), 3600);
        assert_eq!(offset_of_local(local(2024, 7, 1, 0, 0), &berlin), 7200);
    }

    #[test]
    fn far_years_use_the_rules_of_the_last_cycle() {
        let berlin = zone_by_name("Europe/Berlin").unwrap();
        assert_eq!(offset_of_local(local(20_000, 7, 1, 0, 0), &berlin), 7200);
        assert_eq!(offset_at(local(294_000, 1, 1, 0, 0), &berlin), 3600);
    }

    #[test]
    fn zones_have_names_abbreviations_and_offsets() {
        assert_eq!(offset_at(0, &zone_by_name("america/new_york").unwrap()), -18_000);
        assert_eq!(offset_at(0, &zone_by_name("PST").unwrap()), -28_800);
        assert_eq!(offset_at(0, &zone_by_name("UTC+3").unwrap()), -10_800);
        assert_eq!(offset_from_text("+05:30"), Some(19_800));
        assert_eq!(offset_from_text("-0830"), Some(-30_600));
        assert_eq!(zone_by_name("Nowhere/Land").unwrap_err().state().as_str(), "22023");
    }
}
