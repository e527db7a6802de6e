//! One row of the file, and how its fields are read. Shared by the calls and by the plain pass.
//!
//! `NA` is NULL everywhere except in the key (time_hour, carrier, flight), without which a flight has no name.

use heddledb::Timestamp;

/// The columns in the order of the original file; a file may have them in another order, and others besides.
pub(super) const COLUMNS: [&str; 19] = [
    "year",
    "month",
    "day",
    "dep_time",
    "sched_dep_time",
    "dep_delay",
    "arr_time",
    "sched_arr_time",
    "arr_delay",
    "carrier",
    "flight",
    "tailnum",
    "origin",
    "dest",
    "air_time",
    "distance",
    "hour",
    "minute",
    "time_hour",
];

/// The text of a missing value.
const MISSING: &str = "NA";

/// The identity of a flight, in the order in which flights are compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct FlightKey {
    pub time_hour: Timestamp,
    pub carrier: String,
    pub flight: i32,
}

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FlightRow {
    pub key: FlightKey,
    /// Year, month, day, scheduled and actual times, distance and so on: the plain numbers, in the file's order.
    pub numbers: [Option<i32>; NUMBERS.len()],
    pub departure_delay: Option<i32>,
    pub arrival_delay: Option<i32>,
    pub tail_number: Option<String>,
    pub origin: Option<String>,
    pub destination: Option<String>,
}

/// The columns of [`FlightRow::numbers`].
pub(super) const NUMBERS: [&str; 11] = [
    "year",
    "month",
    "day",
    "dep_time",
    "sched_dep_time",
    "arr_time",
    "sched_arr_time",
    "air_time",
    "distance",
    "hour",
    "minute",
];

/// The place of `distance` among them.
pub(super) const DISTANCE: usize = 8;

/// Positions of the columns in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Heading {
    /// Fields that every row has to have.
    fields: usize,
    numbers: [usize; NUMBERS.len()],
    departure_delay: usize,
    arrival_delay: usize,
    carrier: usize,
    flight: usize,
    tail_number: usize,
    origin: usize,
    destination: usize,
    time_hour: usize,
}

impl Heading {
    /// Finds the columns in the first line; the error names one that is missing.
    pub fn parse(line: &csv::ByteRecord) -> Result<Self, String> {
        let find = |name: &str| {
            line.iter().position(|field| field == name.as_bytes()).ok_or_else(|| {
                format!("the first line has no column {name:?}; it has to name {}", COLUMNS.join(", "))
            })
        };
        let mut numbers = [0; NUMBERS.len()];
        for (place, name) in numbers.iter_mut().zip(NUMBERS) {
            *place = find(name)?;
        }
        Ok(Self {
            fields: line.len(),
            numbers,
            departure_delay: find("dep_delay")?,
            arrival_delay: find("arr_delay")?,
            carrier: find("carrier")?,
            flight: find("flight")?,
            tail_number: find("tailnum")?,
            origin: find("origin")?,
            destination: find("dest")?,
            time_hour: find("time_hour")?,
        })
    }

    /// Reads a row; `None` where its fields don't parse.
    pub fn row(&self, record: &csv::ByteRecord) -> Option<FlightRow> {
        if record.len() != self.fields {
            return None;
        }
        let mut numbers = [None; NUMBERS.len()];
        for (value, place) in numbers.iter_mut().zip(self.numbers) {
            *value = number(record, place)?;
        }
        Some(FlightRow {
            key: FlightKey {
                time_hour: text(record, self.time_hour)??.parse().ok()?,
                carrier: text(record, self.carrier)??,
                flight: number(record, self.flight)??,
            },
            numbers,
            departure_delay: number(record, self.departure_delay)?,
            arrival_delay: number(record, self.arrival_delay)?,
            tail_number: text(record, self.tail_number)?,
            origin: text(record, self.origin)?,
            destination: text(record, self.destination)?,
        })
    }
}

/// A field's text: `None` where it is no text, `Some(None)` where it is missing.
fn text(record: &csv::ByteRecord, place: usize) -> Option<Option<String>> {
    match std::str::from_utf8(record.get(place)?).ok()? {
        // An empty field is not the mark of a missing value: something was lost.
        "" => None,
        MISSING => Some(None),
        text if text.contains('\0') => None,
        text => Some(Some(text.to_owned())),
    }
}

/// A field's number: `None` where it is no number, `Some(None)` where it is missing.
fn number(record: &csv::ByteRecord, place: usize) -> Option<Option<i32>> {
    match std::str::from_utf8(record.get(place)?).ok()? {
        MISSING => Some(None),
        text => text.parse().ok().map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str =
        "2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z";

    fn record(line: &str) -> csv::ByteRecord {
        line.split(',').collect::<Vec<_>>().into()
    }

    fn heading() -> Heading {
        Heading::parse(&csv::ByteRecord::from(COLUMNS.to_vec())).unwrap()
    }

    fn with(place: usize, field: &str) -> Option<FlightRow> {
        let mut fields: Vec<&str> = LINE.split(',').collect();
        fields[place] = field;
        heading().row(&fields.into())
    }

    #[test]
    fn a_whole_row_is_read() {
        let row = heading().row(&record(LINE)).unwrap();
        assert_eq!(row.key.time_hour.to_string(), "2013-01-01T10:00:00Z");
        assert_eq!((row.key.carrier.as_str(), row.key.flight), ("UA", 1545));
        assert_eq!((row.departure_delay, row.arrival_delay), (Some(2), Some(11)));
        assert_eq!(row.tail_number.as_deref(), Some("N14228"));
        assert_eq!((row.origin.as_deref(), row.destination.as_deref()), (Some("EWR"), Some("IAH")));
        let numbers = [2013, 1, 1, 517, 515, 830, 819, 227, 1400, 5, 15];
        assert_eq!(row.numbers, numbers.map(Some));
    }

    #[test]
    fn every_field_outside_of_the_key_may_be_missing() {
        for (place, name) in COLUMNS.iter().enumerate() {
            let in_key = ["time_hour", "carrier", "flight"].contains(name);
            assert_eq!(with(place, "NA").is_none(), in_key, "{name}");
        }
    }

    #[test]
    fn empty_and_wrong_fields_do_not_parse() {
        for (place, name) in COLUMNS.iter().enumerate() {
            assert_eq!(with(place, ""), None, "{name}");
        }
        assert_eq!(with(5, "late"), None);
        assert_eq!(with(5, "2.5"), None);
        assert_eq!(with(10, "99999999999"), None);
        assert_eq!(with(18, "yesterday"), None);
        assert_eq!(with(11, "N1\u{0}2"), None);
    }

    #[test]
    fn rows_of_another_length_and_foreign_bytes_do_not_parse() {
        assert_eq!(heading().row(&record(&LINE[5..])), None);
        assert_eq!(heading().row(&record(&format!("{LINE},1"))), None);
        let mut fields: Vec<&[u8]> = LINE.split(',').map(str::as_bytes).collect();
        fields[12] = b"\xFF\xFE";
        assert_eq!(heading().row(&fields.into()), None);
    }

    #[test]
    fn columns_are_found_by_name_in_any_order() {
        let mut columns: Vec<&str> = COLUMNS.to_vec();
        let mut fields: Vec<&str> = LINE.split(',').collect();
        columns.reverse();
        fields.reverse();
        columns.insert(3, "note");
        fields.insert(3, "anything");
        let heading = Heading::parse(&columns.into()).unwrap();
        assert_eq!(heading.row(&fields.into()), self::heading().row(&record(LINE)));
    }

    #[test]
    fn a_missing_column_is_named() {
        let message = Heading::parse(&csv::ByteRecord::from(COLUMNS[1..].to_vec())).unwrap_err();
        assert!(message.contains("\"year\""), "{message}");
    }
}
