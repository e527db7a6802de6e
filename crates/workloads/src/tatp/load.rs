//! Fills the tables: the rows of a subscriber depend on the subscriber alone, so that a load that was cut
//! short can be continued.

use fastrand::Rng;
use heddledb::{Database, Result, Table, Tx, ValueRef, row};

use super::Tatp;
use super::tables::{Number, SERIES, START_TIMES, TYPES, Tables, home, location};
use crate::scan;

/// Subscribers per loading transaction.
const BATCH: i64 = 1_000;

/// Makes the tables and subscribers that are missing.
pub(super) fn load(settings: &Tatp, db: &Database) -> crate::Result<()> {
    let tables = Tables::create(db, settings.apart)?;
    let subscribers = i64::from(settings.subscribers);
    scan::load_in_order(db, &tables.subscriber, subscribers, "subscribers", BATCH, |tx, subscriber| {
        // Its own random numbers, whichever transaction it is loaded in.
        let random = &mut Rng::with_seed((subscriber as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let first_data = insert_facilities(tx, &tables, subscriber, random)?;
        insert_access_info(tx, &tables.access_info, subscriber, random)?;
        insert_subscriber(tx, &tables.subscriber, subscriber, first_data % 2 == 1, random)
    })
}

fn insert_subscriber(
    tx: &Tx,
    table: &Table,
    subscriber: i64,
    first_bit: bool,
    random: &mut Rng,
) -> Result<()> {
    let number = Number::new(subscriber);
    let mut row = Vec::with_capacity(4 + 3 * SERIES);
    row.extend(row![subscriber, number.as_str(), first_bit]);
    row.extend((1..SERIES).map(|_| ValueRef::Bool(random.bool())));
    row.extend((0..SERIES).map(|_| ValueRef::Int(random.i64(0..16))));
    row.extend((0..SERIES).map(|_| ValueRef::Int(random.i64(0..256))));
    row.extend(row![home(subscriber), location(subscriber, random.i64(..))]);
    tx.insert(table, row)
}

fn insert_access_info(tx: &Tx, table: &Table, subscriber: i64, random: &mut Rng) -> Result<()> {
    for kind in some_types(random) {
        let (first, second) = (random.i64(0..256), random.i64(0..256));
        let (third, fourth) = (letters::<3>(random), letters::<5>(random));
        tx.insert(table, row![subscriber, kind, first, second, text(&third), text(&fourth)])?;
    }
    Ok(())
}

/// Inserts facilities and their call forwardings, and gives the `data_a` of the first.
fn insert_facilities(tx: &Tx, tables: &Tables, subscriber: i64, random: &mut Rng) -> Result<i64> {
    let mut first_data = None;
    for kind in some_types(random) {
        let is_active = random.u32(0..100) < 85;
        let (error_control, data) = (random.i64(0..256), random.i64(0..256));
        let letters = letters::<5>(random);
        first_data.get_or_insert(data);
        tx.insert(
            &tables.special_facility,
            row![subscriber, kind, is_active, error_control, data, text(&letters)],
        )?;
        let mut starts = START_TIMES;
        random.shuffle(&mut starts);
        let forwardings = random.usize(0..=START_TIMES.len());
        for start in &starts[..forwardings] {
            let (end, number) =
                (start + random.i64(1..=8), Number::new(random.i64(0..1_000_000_000_000_000)));
            tx.insert(&tables.call_forwarding, row![subscriber, kind, *start, end, number.as_str()])?;
        }
    }
    Ok(first_data.unwrap_or_default())
}

/// One to four of the types, each number of them as often, in ascending order.
fn some_types(random: &mut Rng) -> Vec<i64> {
    let mut types: Vec<i64> = TYPES.collect();
    random.shuffle(&mut types);
    types.truncate(random.usize(1..=types.len()));
    types.sort_unstable();
    types
}

fn letters<const N: usize>(random: &mut Rng) -> [u8; N] {
    std::array::from_fn(|_| random.u8(b'A'..=b'Z'))
}

fn text(letters: &[u8]) -> &str {
    std::str::from_utf8(letters).unwrap_or_default()
}
