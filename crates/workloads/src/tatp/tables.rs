//! The four tables, and what of a row follows from its key.
//!
//! All transactions but a few find their rows by the whole key, so the primary keys are hash indexes. A subscriber's
//! services are of the types 1 to 4, and its calls are forwarded from 0, 8 or 16 o'clock on: so a caller that wants "all of
//! them" asks for each by its key, and no range has to be read.

use heddledb::{Column, DataType, Database, PrimaryIndex, Result, Table, TableDefinition};

pub(super) const SUBSCRIBER: &str = "subscriber";
pub(super) const ACCESS_INFO: &str = "access_info";
pub(super) const SPECIAL_FACILITY: &str = "special_facility";
pub(super) const CALL_FORWARDING: &str = "call_forwarding";

/// Names of the tables, in the order in which they are created.
pub(super) const NAMES: [&str; 4] = [SUBSCRIBER, ACCESS_INFO, SPECIAL_FACILITY, CALL_FORWARDING];

/// The secondary index by which a subscriber's number leads to the subscriber.
pub(super) const BY_NUMBER: &str = "subscriber_by_number";

/// Columns of each kind of a subscriber.
pub(super) const SERIES: usize = 10;

/// The types of access information, and those of special facilities.
pub(super) const TYPES: std::ops::RangeInclusive<i64> = 1..=4;

/// Start times of call forwardings.
pub(super) const START_TIMES: [i64; 3] = [0, 8, 16];

/// Digits of a number.
const DIGITS: usize = 15;

/// A number of fifteen digits, as text.
pub(super) struct Number([u8; DIGITS]);

impl Number {
    /// The number of this value, with zeros before it.
    pub fn new(value: i64) -> Self {
        let (mut digits, mut rest) = ([b'0'; DIGITS], value.unsigned_abs());
        for digit in digits.iter_mut().rev() {
            if rest == 0 {
                break;
            }
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        Self(digits)
    }

    /// The number as text.
    pub fn as_str(&self) -> &str {
        // Digits are text; there is nothing to check, and nothing to panic about.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// The place that a subscriber visits: 24 bits, of which the low half is computed from the subscriber and the
/// high half, so that a place that was written to another subscriber shows.
pub(super) fn location(subscriber: i64, random: i64) -> i64 {
    let high = random & 0xFFF000;
    high | mixed(subscriber ^ high << 20) & 0xFFF
}

/// The home place of a subscriber, before anything is counted there.
pub(super) fn home(subscriber: i64) -> i64 {
    mixed(subscriber) & 0x3FFF_FFFF
}

fn mixed(number: i64) -> i64 {
    // An odd multiplier mixes all into the high bits.
    number.wrapping_mul(0x5851_F42D_4C95_7F2D) >> 33
}

/// The tables of an open database, with handles of the columns that calls touch.
#[derive(Clone)]
pub(super) struct Tables {
    pub subscriber: Table,
    pub access_info: Table,
    pub special_facility: Table,
    pub call_forwarding: Table,
    pub number: Column,
    pub bits: [Column; SERIES],
    pub hexes: [Column; SERIES],
    pub bytes: [Column; SERIES],
    pub msc_location: Column,
    pub vlr_location: Column,
    /// The identifier in the subscriber's own row.
    pub subscriber_id: Column,
    pub access_data: [Column; 2],
    pub access_texts: [Column; 2],
    pub is_active: Column,
    pub data_a: Column,
    pub end_time: Column,
    pub forwarded_to: Column,
}

impl Tables {
    /// Looks the tables up, and makes those that are missing.
    /// `apart`: rows of one subscriber are divided among executors, by the kinds of what they are about.
    pub fn create(db: &Database, apart: bool) -> Result<Self> {
        let by_kind = |definition: TableDefinition, kind| {
            if apart { definition.routing(["s_id", kind]) } else { definition }
        };
        let (access, facility) = (by_kind(access_info(), "ai_type"), by_kind(special_facility(), "sf_type"));
        for definition in [subscriber(), access, facility, by_kind(call_forwarding(), "sf_type")] {
            if crate::scan::table_if_there(db, definition.name())?.is_none() {
                db.create_table(definition)?;
            }
        }
        Self::open(db)
    }

    /// Looks the tables up.
    pub fn open(db: &Database) -> Result<Self> {
        let [subscriber, access_info, special_facility, call_forwarding] = NAMES.map(|name| db.table(name));
        let (subscriber, access_info) = (subscriber?, access_info?);
        let (special_facility, call_forwarding) = (special_facility?, call_forwarding?);
        let msc_location = subscriber.column("msc_location")?;
        let series = |prefix: &str| {
            // Every place is filled with a column of the series, unless one is missing, which is an error.
            let mut columns = [msc_location; SERIES];
            for (place, column) in columns.iter_mut().enumerate() {
                *column = subscriber.column(&format!("{prefix}_{}", place + 1))?;
            }
            Result::Ok(columns)
        };
        Ok(Self {
            number: subscriber.column("sub_nbr")?,
            bits: series("bit")?,
            hexes: series("hex")?,
            bytes: series("byte2")?,
            msc_location,
            vlr_location: subscriber.column("vlr_location")?,
            subscriber_id: subscriber.column("s_id")?,
            access_data: [access_info.column("data1")?, access_info.column("data2")?],
            access_texts: [access_info.column("data3")?, access_info.column("data4")?],
            is_active: special_facility.column("is_active")?,
            data_a: special_facility.column("data_a")?,
            end_time: call_forwarding.column("end_time")?,
            forwarded_to: call_forwarding.column("numberx")?,
            subscriber,
            access_info,
            special_facility,
            call_forwarding,
        })
    }
}

fn subscriber() -> TableDefinition {
    let mut definition = TableDefinition::new(SUBSCRIBER)
        .column("s_id", DataType::Int64)
        .column("sub_nbr", DataType::Text)
        .not_null();
    for (prefix, data_type) in [("bit", DataType::Bool), ("hex", DataType::Int32), ("byte2", DataType::Int32)]
    {
        for place in 1..=SERIES {
            definition = definition.column(format!("{prefix}_{place}"), data_type.clone()).not_null();
        }
    }
    definition
        .column("msc_location", DataType::Int64)
        .not_null()
        .column("vlr_location", DataType::Int64)
        .not_null()
        .primary_key(["s_id"])
        .primary_index(PrimaryIndex::Hash)
        .unique_index(BY_NUMBER, ["sub_nbr"])
}

fn access_info() -> TableDefinition {
    TableDefinition::new(ACCESS_INFO)
        .column("s_id", DataType::Int64)
        .references(SUBSCRIBER)
        .column("ai_type", DataType::Int32)
        .column("data1", DataType::Int32)
        .not_null()
        .column("data2", DataType::Int32)
        .not_null()
        .column("data3", DataType::Text)
        .not_null()
        .column("data4", DataType::Text)
        .not_null()
        .primary_key(["s_id", "ai_type"])
        .primary_index(PrimaryIndex::Hash)
}

fn special_facility() -> TableDefinition {
    TableDefinition::new(SPECIAL_FACILITY)
        .column("s_id", DataType::Int64)
        .references(SUBSCRIBER)
        .column("sf_type", DataType::Int32)
        .column("is_active", DataType::Bool)
        .not_null()
        .column("error_cntrl", DataType::Int32)
        .not_null()
        .column("data_a", DataType::Int32)
        .not_null()
        .column("data_b", DataType::Text)
        .not_null()
        .primary_key(["s_id", "sf_type"])
        .primary_index(PrimaryIndex::Hash)
}

fn call_forwarding() -> TableDefinition {
    TableDefinition::new(CALL_FORWARDING)
        .column("s_id", DataType::Int64)
        .references(SUBSCRIBER)
        .column("sf_type", DataType::Int32)
        .column("start_time", DataType::Int32)
        .column("end_time", DataType::Int32)
        .not_null()
        .column("numberx", DataType::Text)
        .not_null()
        .primary_key(["s_id", "sf_type", "start_time"])
        .primary_index(PrimaryIndex::Hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_fifteen_digits() {
        assert_eq!(Number::new(0).as_str(), "000000000000000");
        assert_eq!(Number::new(1_234).as_str(), "000000000001234");
        assert_eq!(Number::new(999_999_999_999_999).as_str(), "999999999999999");
    }

    #[test]
    fn locations_tell_their_subscriber() {
        for (subscriber, random) in [(1, 0), (77, 0x123_4567), (100_000, i64::MAX), (5, -1)] {
            let place = location(subscriber, random);
            assert!((0..1 << 24).contains(&place));
            assert_eq!(place, location(subscriber, place), "the low half follows from the high half");
            assert_ne!(place, location(subscriber + 1, place));
        }
        assert!((0..1 << 30).contains(&home(7)) && home(7) != home(8));
    }
}
