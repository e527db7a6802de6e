//! Checks that every booking has been counted once at each of its nights, or at its guide.

use std::collections::BTreeMap;

use heddledb::{Database, Range, Row, Snapshot, Table, key};

use super::{BOOKING, GUIDE, NIGHT};
use crate::scan;
use crate::workload::integers_of_key;

/// The highest number of a booking; 0: there is none.
pub(super) fn highest_number(db: &Database, booking: &Table) -> heddledb::Result<i64> {
    db.read(|snapshot| {
        let mut last = snapshot.scan(booking, Range::all().reverse().limit(1))?;
        last.next().map_or(Ok(0), |row| row?.row().int("id"))
    })
}

/// The sums of all bookings.
#[derive(Default)]
struct Booked {
    bookings: u64,
    /// The number of stays that include a night, less those that include the night before.
    changes: BTreeMap<i64, i64>,
    tours: BTreeMap<i64, i64>,
    /// The first booking that is wrong on its own.
    wrong: Option<String>,
}

impl Booked {
    fn count(&mut self, row: &Row<'_>) -> heddledb::Result<()> {
        self.bookings += 1;
        let optional = |name| if row.is_null(name)? { Ok(None) } else { row.int(name).map(Some) };
        match (optional("first_night")?, optional("last_night")?, optional("guide")?) {
            (Some(first), Some(last), None) if first <= last => {
                *self.changes.entry(first).or_default() += 1;
                *self.changes.entry(last + 1).or_default() -= 1;
            }
            (None, None, Some(guide)) => *self.tours.entry(guide).or_default() += 1,
            _ => {
                let id = row.int("id")?;
                self.wrong.get_or_insert_with(|| format!("booking {id} is neither a stay nor a tour"));
            }
        }
        Ok(())
    }

    /// The guests of each night that has any.
    fn guests(&self) -> BTreeMap<i64, i64> {
        let (Some(first), Some(beyond)) = (self.changes.keys().next(), self.changes.keys().next_back())
        else {
            return BTreeMap::new();
        };
        let mut guests = 0;
        let of_night = |night| {
            guests += self.changes.get(&night).copied().unwrap_or_default();
            (night, guests)
        };
        (*first..*beyond).map(of_night).filter(|(_, guests)| *guests != 0).collect()
    }
}

/// Compares nights and guides with the bookings, and their number where it is known. A table that is missing counts as
/// empty, because a load may have been cut short.
pub(super) fn check(db: &Database, marks: Option<u64>) -> Result<(), String> {
    let snapshot = db.snapshot().map_err(|error| error.to_string())?;
    let booked = match table(db, BOOKING)? {
        None => Booked::default(),
        Some(bookings) => scan::fold_in(&snapshot, &bookings, Booked::default(), Booked::count)
            .map_err(|error| format!("bookings can't be read: {error}"))?,
    };
    if let Some(wrong) = booked.wrong {
        return Err(wrong);
    }
    compare((db, &snapshot), (NIGHT, "guests"), &booked.guests())?;
    compare((db, &snapshot), (GUIDE, "tours"), &booked.tours)?;
    match marks {
        Some(marks) if marks != booked.bookings => {
            Err(format!("there are {} bookings, but {marks} were committed", booked.bookings))
        }
        _ => Ok(()),
    }
}

fn table(db: &Database, name: &str) -> Result<Option<Table>, String> {
    scan::table_if_there(db, name).map_err(|error| format!("{name}s can't be read: {error}"))
}

/// Compares a table's counts with those that the bookings lead to.
fn compare(
    (db, snapshot): (&Database, &Snapshot),
    (name, column): (&str, &str),
    expected: &BTreeMap<i64, i64>,
) -> Result<(), String> {
    let mut found = BTreeMap::new();
    if let Some(table) = table(db, name)? {
        found = scan::fold_in(snapshot, &table, found, |found, row| {
            let count = row.int(column)?;
            if count != 0 {
                found.insert(row.int("id")?, count);
            }
            Ok(())
        })
        .map_err(|error| format!("{name}s can't be read: {error}"))?;
    }
    if found == *expected {
        return Ok(());
    }
    let differs = |id: &&i64| found.get(id) != expected.get(id);
    let id = found.keys().chain(expected.keys()).find(differs).copied().unwrap_or_default();
    let count = |counts: &BTreeMap<i64, i64>| counts.get(&id).copied().unwrap_or_default();
    Err(format!("{name} {id} has {} {column}, but bookings say {}", count(&found), count(expected)))
}

/// Checks that every acknowledged booking is there.
pub(super) fn check_acknowledged(db: &Database, keys: &[String]) -> Result<(), String> {
    let numbers: Vec<i64> =
        keys.iter().map(|key| Ok(integers_of_key(key, 1)?[0])).collect::<Result<_, String>>()?;
    let Some(booking) = table(db, BOOKING)? else {
        return if numbers.is_empty() { Ok(()) } else { Err("there are no bookings".to_owned()) };
    };
    let lost = db.read(|snapshot| {
        for number in &numbers {
            if !snapshot.exists(&booking, key![*number])? {
                return Ok(Some(*number));
            }
        }
        Ok(None)
    });
    match lost.map_err(|error| format!("bookings can't be read: {error}"))? {
        None => Ok(()),
        Some(number) => Err(format!("booking {number} was acknowledged, and is not there")),
    }
}
