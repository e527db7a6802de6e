//! Checks that every row is one that the transactions can have left there.
//!
//! Updates overwrite each other, so how many there were can't be seen afterwards, but for those of `update-by-number`,
//! which count. Marks are chosen so that the rest can be counted all the same: an update leaves [`UPDATED`] marks, an
//! insert one, and a delete one less than [`UPDATED`]. So up to a multiple of [`UPDATED`], marks are the number of call
//! forwardings.

use heddledb::{Database, Result, Row, Table};

use super::tables::{
    ACCESS_INFO, CALL_FORWARDING, Number, SPECIAL_FACILITY, START_TIMES, SUBSCRIBER, TYPES, home, location,
};
use crate::scan;

/// Marks of a record that is updated.
pub(super) const UPDATED: u32 = 65_537;
/// Marks of an inserted call forwarding.
pub(super) const INSERTED: u32 = 1;
/// Marks of a deleted call forwarding.
pub(super) const DELETED: u32 = UPDATED - INSERTED;

/// One subscriber's figures in the tables.
#[derive(Clone, Copy, Default)]
struct Subscriber {
    is_there: bool,
    first_bit: bool,
    /// Bits of the types that it has.
    access_info: u8,
    facilities: u8,
    /// True if some facility has even data; the next one, if some facility has odd data.
    even: bool,
    odd: bool,
}

/// All subscribers by their numbers, and what was counted on the way.
#[derive(Default)]
struct Register {
    subscribers: Vec<Subscriber>,
    /// Number of updates by `update-by-number`.
    counted: u64,
    forwardings: u64,
    /// The first thing that is wrong.
    wrong: Option<String>,
}

impl Register {
    fn blame(&mut self, wrong: impl FnOnce() -> String) {
        if self.wrong.is_none() {
            self.wrong = Some(wrong());
        }
    }

    /// The subscriber that a row belongs to, if there can be one of this number.
    fn of(&mut self, table: &str, row: &Row<'_>) -> Result<Option<&mut Subscriber>> {
        let id = row.int("s_id")?;
        let place = usize::try_from(id).ok().filter(|place| (1..=10_000_000).contains(place));
        let Some(place) = place else {
            self.blame(|| format!("{table} has a row of subscriber {id}, which cannot be"));
            return Ok(None);
        };
        if place >= self.subscribers.len() {
            self.subscribers.resize(place + 1, Subscriber::default());
        }
        Ok(Some(&mut self.subscribers[place]))
    }
}

/// Adds what a row says to the register.
type AddRow = fn(&mut Register, &Row<'_>) -> Result<()>;

/// The marks that calls have left, as far as they can be seen.
pub(super) fn marks(db: &Database) -> crate::Result<u64> {
    let register = read(db)?;
    Ok(register.forwardings + u64::from(UPDATED) * register.counted)
}

/// Checks all rows, and the marks where they are known; `exactly`: no updates but those that count were made.
pub(super) fn check(db: &Database, marks: Option<u64>, exactly: bool) -> Result<(), String> {
    let register = read(db).map_err(|error| format!("the subscribers can't be read: {error}"))?;
    if let Some(wrong) = &register.wrong {
        return Err(wrong.clone());
    }
    for (id, subscriber) in register.subscribers.iter().enumerate() {
        subscriber.check(id)?;
    }
    let (found, modulus) = (register.forwardings, u64::from(UPDATED));
    match marks {
        Some(marks) if marks % modulus != found % modulus => Err(format!(
            "there are {found} call forwardings, but {} (or {modulus} more or less) are those inserted and not deleted",
            marks % modulus
        )),
        Some(marks) if exactly && marks != found + modulus * register.counted => Err(format!(
            "{} record updates are counted, but {} were committed",
            register.counted,
            marks.saturating_sub(found) / modulus
        )),
        _ => Ok(()),
    }
}

impl Subscriber {
    fn check(&self, id: usize) -> Result<(), String> {
        if !self.is_there {
            if self.access_info | self.facilities != 0 {
                return Err(format!("subscriber {id} has services, but is not there"));
            }
            return Ok(());
        }
        if self.access_info == 0 || self.facilities == 0 {
            return Err(format!("subscriber {id} has lost its access information or its facilities"));
        }
        if !(if self.first_bit { self.odd } else { self.even }) {
            let bit = u8::from(self.first_bit);
            return Err(format!(
                "bit_1 of subscriber {id} is {bit}, which fits the data of none of its facilities"
            ));
        }
        Ok(())
    }
}

/// Reads all four tables; a table that is missing counts as empty, because a load may have been cut short.
fn read(db: &Database) -> Result<Register> {
    let readers: [(&str, AddRow); 4] = [
        (SUBSCRIBER, add_subscriber),
        (ACCESS_INFO, add_access_info),
        (SPECIAL_FACILITY, add_facility),
        (CALL_FORWARDING, add_forwarding),
    ];
    let tables: Vec<(Table, _)> = readers
        .into_iter()
        .filter_map(|(name, add)| Some(scan::table_if_there(db, name).transpose()?.map(|table| (table, add))))
        .collect::<Result<_>>()?;
    // One snapshot: the tables have to agree with each other.
    db.read(|snapshot| {
        let start = Register::default();
        tables.iter().try_fold(start, |register, (table, add)| scan::fold_in(snapshot, table, register, add))
    })
}

fn add_subscriber(register: &mut Register, row: &Row<'_>) -> Result<()> {
    let (id, msc, vlr) = (row.int("s_id")?, row.int("msc_location")?, row.int("vlr_location")?);
    let first_bit = row.boolean("bit_1")?;
    let Some(subscriber) = register.of(SUBSCRIBER, row)? else { return Ok(()) };
    (subscriber.is_there, subscriber.first_bit) = (true, first_bit);
    match u64::try_from(msc - home(id)) {
        Ok(counted) => register.counted += counted,
        Err(_) => register.blame(|| format!("subscriber {id} has its home at {msc}, before the first one")),
    }
    if vlr != location(id, vlr) {
        register.blame(|| format!("subscriber {id} is at {vlr}, which was never written to it"));
    }
    let number = row.text("sub_nbr")?;
    if number != Number::new(id).as_str() {
        register.blame(|| format!("subscriber {id} has the number {number}"));
    }
    Ok(())
}

/// The bit of a type, if there is such a type.
fn bit_of(register: &mut Register, table: &str, kind: i64) -> u8 {
    if !TYPES.contains(&kind) {
        register.blame(|| format!("{table} has a row of type {kind}, which is not one of 1 to 4"));
        return 0;
    }
    1 << kind
}

fn add_access_info(register: &mut Register, row: &Row<'_>) -> Result<()> {
    let bit = bit_of(register, ACCESS_INFO, row.int("ai_type")?);
    if let Some(subscriber) = register.of(ACCESS_INFO, row)? {
        subscriber.access_info |= bit;
    }
    Ok(())
}

fn add_facility(register: &mut Register, row: &Row<'_>) -> Result<()> {
    let (id, data) = (row.int("s_id")?, row.int("data_a")?);
    let bit = bit_of(register, SPECIAL_FACILITY, row.int("sf_type")?);
    if !(0..256).contains(&data) {
        register.blame(|| format!("a facility of subscriber {id} has the data {data}, not 0 to 255"));
    }
    if let Some(subscriber) = register.of(SPECIAL_FACILITY, row)? {
        subscriber.facilities |= bit;
        subscriber.even |= data % 2 == 0;
        subscriber.odd |= data % 2 == 1;
    }
    Ok(())
}

fn add_forwarding(register: &mut Register, row: &Row<'_>) -> Result<()> {
    let (id, start, end) = (row.int("s_id")?, row.int("start_time")?, row.int("end_time")?);
    let digits = row.text("numberx")?.len();
    register.forwardings += 1;
    let bit = bit_of(register, CALL_FORWARDING, row.int("sf_type")?);
    let Some(subscriber) = register.of(CALL_FORWARDING, row)? else { return Ok(()) };
    if subscriber.facilities & bit == 0 {
        register
            .blame(|| format!("a call forwarding of subscriber {id} is for a facility that is not there"));
    }
    if !START_TIMES.contains(&start) || !(start + 1..=start + 8).contains(&end) || digits != 15 {
        register.blame(|| {
            format!("a call forwarding of subscriber {id} goes from {start} to {end} and has {digits} digits")
        });
    }
    Ok(())
}
