//! The expected content of the six tables after a file: computed by one thread with ordinary maps, without
//! the engine.
//!
//! It shares with the calls only the parsing of a row, so that an error in either shows as a difference.

use std::collections::BTreeMap;

use heddledb::{Timestamp, Value};

use super::reference_files::{Reference, References};
use super::row::{DISTANCE, FlightKey, FlightRow};
use super::tables::{LONGEST, WORST};
use super::{DUPLICATE, UNKNOWN_CARRIER, UNPARSABLE};
use crate::workload::Rejected;

/// A column's content: a value, or the rows of an ordered tuple or a top-K set.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    One(Value),
    Rows(Vec<Vec<Value>>),
}

/// A table's content: the columns after the key, by key.
pub(super) type Content = BTreeMap<String, Vec<Cell>>;

/// The pass over the rows.
pub(super) struct PlainPass {
    reference: Reference,
    pub flights: BTreeMap<FlightKey, FlightRow>,
    /// Rows that are no flights, by reason.
    refused: BTreeMap<&'static str, Rejected>,
}

/// The lines of rejected rows that are named.
const LINES_NAMED: usize = 10;

/// Sums and extremes of the flights of one carrier or airport.
#[derive(Default)]
struct Tally {
    flights: i64,
    departure_delay: i64,
    arrival_delay: i64,
    departure_maximum: Option<i32>,
    arrival_maximum: Option<i32>,
    departure_minimum: Option<i32>,
    late: u32,
    /// Hour and number of the latest departure.
    latest: Option<(Timestamp, i32)>,
    /// The latest departure of each distance, and its number.
    longest: BTreeMap<i32, (Timestamp, i32)>,
    worst: Vec<(i32, FlightKey, Option<String>)>,
}

impl PlainPass {
    /// A pass over no rows yet.
    pub fn new(reference: Reference) -> Self {
        Self { reference, flights: BTreeMap::new(), refused: BTreeMap::new() }
    }

    /// Takes the row of a line; `None` is one that does not parse.
    pub fn take(&mut self, row: Option<FlightRow>, line: u64) {
        let reason = match row {
            None => UNPARSABLE,
            Some(row) if self.flights.contains_key(&row.key) => DUPLICATE,
            Some(row) if !self.reference.carriers.contains_key(&row.key.carrier) => UNKNOWN_CARRIER,
            Some(row) => {
                self.flights.insert(row.key.clone(), row);
                return;
            }
        };
        let refused =
            self.refused.entry(reason).or_insert(Rejected { reason, count: 0, first_lines: Vec::new() });
        refused.count += 1;
        if refused.first_lines.len() < LINES_NAMED {
            refused.first_lines.push(line);
        }
    }

    /// Rows that are no flights.
    pub fn rejected(&self) -> Vec<Rejected> {
        self.refused.values().cloned().collect()
    }

    /// The expected content of `carrier`.
    pub fn carriers(&self) -> Content {
        let mut tallies = self.tally(|row| Some(&row.key.carrier));
        let carriers = self.reference.carriers.iter().map(|(carrier, columns)| {
            let tally = tallies.remove(carrier).unwrap_or_default();
            let maxima = [tally.departure_maximum, tally.arrival_maximum].map(|most| Cell::One(most.into()));
            let rest = tally.extremes_and_tuples();
            (carrier.clone(), ones(columns).chain(tally.counters()).chain(maxima).chain(rest).collect())
        });
        carriers.collect()
    }

    /// The expected content of `airport`: the reference, and all others that a flight names.
    pub fn airports(&self) -> Content {
        let named = self.flights.values().flat_map(|row| [&row.origin, &row.destination]);
        with_named(&self.reference.airports, named.flatten(), super::tables::AIRPORT_COLUMNS.len())
    }

    /// The expected content of `origin`.
    pub fn origins(&self) -> Content {
        let tallies = self.tally(|row| row.origin.as_ref());
        tallies
            .into_iter()
            .map(|(name, tally)| (name, tally.counters().chain([tally.worst()]).collect()))
            .collect()
    }

    /// The expected content of `destination`.
    pub fn destinations(&self) -> Content {
        let tallies = self.tally(|row| row.destination.as_ref());
        tallies.into_iter().map(|(name, tally)| (name, tally.counters().collect())).collect()
    }

    /// The expected content of `plane`: the reference, all others that a flight names, and the newest
    /// sighting of each.
    pub fn planes(&self) -> Content {
        let named = self.flights.values().filter_map(|row| row.tail_number.as_ref());
        let mut planes = with_named(&self.reference.planes, named, super::tables::PLANE_COLUMNS.len());
        let mut newest: BTreeMap<&String, &FlightRow> = BTreeMap::new();
        // Flights are in the order of their keys, so that the last one stays.
        for row in self.flights.values() {
            if let Some(tail_number) = &row.tail_number {
                newest.insert(tail_number, row);
            }
        }
        for (name, columns) in &mut planes {
            columns.push(newest.get(name).map_or(Cell::One(Value::Null), |row| {
                let mut sighting = key_values(&row.key);
                sighting.extend([row.origin.clone().into(), row.destination.clone().into()]);
                Cell::Rows(vec![sighting])
            }));
        }
        planes
    }

    fn tally<'a>(&'a self, name: impl Fn(&'a FlightRow) -> Option<&'a String>) -> BTreeMap<String, Tally> {
        let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
        for row in self.flights.values() {
            if let Some(name) = name(row) {
                tallies.entry(name.clone()).or_default().count(row);
            }
        }
        tallies
    }
}

impl Tally {
    fn count(&mut self, row: &FlightRow) {
        self.flights += 1;
        self.departure_delay += i64::from(row.departure_delay.unwrap_or(0));
        self.arrival_delay += i64::from(row.arrival_delay.unwrap_or(0));
        self.departure_maximum = self.departure_maximum.max(row.departure_delay);
        self.arrival_maximum = self.arrival_maximum.max(row.arrival_delay);
        let departure = (row.key.time_hour, row.key.flight);
        self.latest = self.latest.max(Some(departure));
        if let Some(distance) = row.numbers[DISTANCE] {
            let longest = self.longest.entry(distance).or_insert(departure);
            *longest = departure.max(*longest);
        }
        if let Some(delay) = row.departure_delay {
            self.departure_minimum = Some(self.departure_minimum.map_or(delay, |least| least.min(delay)));
            self.late += u32::from(delay > 0);
            self.worst.push((delay, row.key.clone(), row.destination.clone()));
        }
    }

    fn counters(&self) -> impl Iterator<Item = Cell> + use<> {
        [self.flights, self.departure_delay, self.arrival_delay].into_iter().map(|sum| Cell::One(sum.into()))
    }

    /// The columns of a carrier behind its maxima.
    fn extremes_and_tuples(&self) -> [Cell; 4] {
        let sign = if self.late.is_multiple_of(2) { 1 } else { -1 };
        let latest = self.latest.map(|(hour, flight)| vec![vec![hour.into(), flight.into()]]);
        let longest = self.longest.iter().rev().take(LONGEST as usize);
        let longest: Vec<Vec<Value>> = longest
            .map(|(distance, (hour, flight))| vec![(*distance).into(), (*hour).into(), (*flight).into()])
            .collect();
        [
            Cell::One(self.departure_minimum.into()),
            Cell::One(sign.into()),
            latest.map_or(Cell::One(Value::Null), Cell::Rows),
            if longest.is_empty() { Cell::One(Value::Null) } else { Cell::Rows(longest) },
        ]
    }

    fn worst(mut self) -> Cell {
        if self.worst.is_empty() {
            return Cell::One(Value::Null);
        }
        self.worst.sort_unstable_by(|left, right| right.cmp(left));
        self.worst.truncate(WORST as usize);
        let rows = self.worst.into_iter().map(|(delay, key, destination)| {
            let mut row = vec![Value::from(delay)];
            row.extend(key_values(&key));
            row.push(destination.into());
            row
        });
        Cell::Rows(rows.collect())
    }
}

fn key_values(key: &FlightKey) -> Vec<Value> {
    vec![key.time_hour.into(), key.carrier.clone().into(), key.flight.into()]
}

fn ones(columns: &[Value]) -> impl Iterator<Item = Cell> {
    columns.iter().cloned().map(Cell::One)
}

/// The reference records, and an empty one for every other name.
fn with_named<'a>(
    references: &References,
    named: impl Iterator<Item = &'a String>,
    columns: usize,
) -> Content {
    let mut content: Content =
        references.iter().map(|(name, known)| (name.clone(), ones(known).collect())).collect();
    for name in named {
        if !content.contains_key(name) {
            content.insert(name.clone(), vec![Cell::One(Value::Null); columns]);
        }
    }
    content
}
