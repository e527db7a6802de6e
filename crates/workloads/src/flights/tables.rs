//! The six tables.
//!
//! | table | a record | what a flight's row does to it |
//! | --- | --- | --- |
//! | `flight` | a row of the file | inserts it |
//! | `carrier` | an airline of `airlines.csv` | all six commutative operations: adds to counter and delay sums, raises the maximum delays, lowers the minimum delay, multiplies a sign by -1 if it departed late, puts the latest departure, inserts into the longest distances |
//! | `airport` | an airport of `airports.csv` | makes it if it is missing |
//! | `origin` | an airport that was flown from | adds to counter and delay sums; the hundred worst delays |
//! | `destination` | an airport that was flown to | adds to counter and delay sums |
//! | `plane` | a plane of `planes.csv` | makes it if it is missing; the newest sighting |
//!
//! Columns that come from a file keep the names that they have there.

use heddledb::{Column, DataType, Database, Result, Table, TableDefinition, TupleType};

pub(super) const FLIGHT: &str = "flight";
pub(super) const CARRIER: &str = "carrier";
pub(super) const AIRPORT: &str = "airport";
pub(super) const ORIGIN: &str = "origin";
pub(super) const DESTINATION: &str = "destination";
pub(super) const PLANE: &str = "plane";

/// All tables; the one that no other workload has is first.
pub(super) const NAMES: [&str; 6] = [FLIGHT, CARRIER, AIRPORT, ORIGIN, DESTINATION, PLANE];

/// Worst delays that an origin keeps.
pub(super) const WORST: u32 = 100;

/// Columns of a reference table that are taken over from its file, after the key.
pub(super) const CARRIER_COLUMNS: [(&str, DataType); 1] = [("name", DataType::Text)];
pub(super) const AIRPORT_COLUMNS: [(&str, DataType); 7] = [
    ("name", DataType::Text),
    ("lat", DataType::Float64),
    ("lon", DataType::Float64),
    ("alt", DataType::Int32),
    ("tz", DataType::Int32),
    ("dst", DataType::Text),
    ("tzone", DataType::Text),
];
pub(super) const PLANE_COLUMNS: [(&str, DataType); 8] = [
    ("year", DataType::Int32),
    ("type", DataType::Text),
    ("manufacturer", DataType::Text),
    ("model", DataType::Text),
    ("engines", DataType::Int32),
    ("seats", DataType::Int32),
    ("speed", DataType::Int32),
    ("engine", DataType::Text),
];

/// A worst delay is ordered by delay and, of equal ones, by the flight's key; it carries the destination.
pub(super) fn worst_type() -> Result<TupleType> {
    TupleType::new(
        vec![DataType::Int32, DataType::Timestamp, DataType::Text, DataType::Int32],
        vec![DataType::Text],
    )
}

/// Longest distances that a carrier keeps.
pub(super) const LONGEST: u32 = 10;

/// A latest departure is ordered by its hour; of several in one hour the one with the greatest flight number stays.
pub(super) fn latest_type() -> Result<TupleType> {
    TupleType::new(vec![DataType::Timestamp], vec![DataType::Int32])
}

/// A longest distance is ordered by the distance; of several flights of one distance the last one stays: the payload is
/// hour and flight number.
pub(super) fn longest_type() -> Result<TupleType> {
    TupleType::new(vec![DataType::Int32], vec![DataType::Timestamp, DataType::Int32])
}

/// A sighting is ordered by the flight's key; it carries origin and destination.
pub(super) fn sighting_type() -> Result<TupleType> {
    TupleType::new(
        vec![DataType::Timestamp, DataType::Text, DataType::Int32],
        vec![DataType::Text, DataType::Text],
    )
}

/// Columns for the counter and the delay sums, which three tables have.
#[derive(Clone, Copy)]
pub(super) struct Counters {
    pub flights: Column,
    pub departure_delay: Column,
    pub arrival_delay: Column,
}

impl Counters {
    fn of(table: &Table) -> Result<Self> {
        Ok(Self {
            flights: table.column("flights")?,
            departure_delay: table.column("dep_delay_sum")?,
            arrival_delay: table.column("arr_delay_sum")?,
        })
    }
}

/// The tables of an open database, with the columns that calls touch.
#[derive(Clone)]
pub(super) struct Tables {
    pub flight: Table,
    pub carrier: Table,
    pub airport: Table,
    pub origin: Table,
    pub destination: Table,
    pub plane: Table,
    pub carrier_counters: Counters,
    pub origin_counters: Counters,
    pub destination_counters: Counters,
    pub departure_maximum: Column,
    pub arrival_maximum: Column,
    pub departure_minimum: Column,
    pub late_sign: Column,
    pub latest: Column,
    pub longest: Column,
    pub worst: Column,
    pub sighting: Column,
}

impl Tables {
    /// Looks the tables up, and makes those that are missing.
    pub fn create(db: &Database) -> Result<Self> {
        for definition in [carrier()?, airport(), origin()?, destination(), plane()?, flight()] {
            if crate::scan::table_if_there(db, definition.name())?.is_none() {
                db.create_table(definition)?;
            }
        }
        Self::open(db)
    }

    /// Looks the tables up.
    pub fn open(db: &Database) -> Result<Self> {
        let (carrier, airport) = (db.table(CARRIER)?, db.table(AIRPORT)?);
        let (origin, destination) = (db.table(ORIGIN)?, db.table(DESTINATION)?);
        let plane = db.table(PLANE)?;
        Ok(Self {
            flight: db.table(FLIGHT)?,
            carrier_counters: Counters::of(&carrier)?,
            origin_counters: Counters::of(&origin)?,
            destination_counters: Counters::of(&destination)?,
            departure_maximum: carrier.column("dep_delay_max")?,
            arrival_maximum: carrier.column("arr_delay_max")?,
            departure_minimum: carrier.column("dep_delay_min")?,
            late_sign: carrier.column("late_sign")?,
            latest: carrier.column("latest")?,
            longest: carrier.column("longest")?,
            worst: origin.column("worst")?,
            sighting: plane.column("sighting")?,
            carrier,
            airport,
            origin,
            destination,
            plane,
        })
    }
}

fn flight() -> TableDefinition {
    let mut definition = TableDefinition::new(FLIGHT);
    for name in super::row::COLUMNS {
        definition = match name {
            "carrier" => definition.column(name, DataType::Text).references(CARRIER),
            "tailnum" => definition.column(name, DataType::Text).references(PLANE),
            "origin" | "dest" => definition.column(name, DataType::Text).references(AIRPORT),
            "time_hour" => definition.column(name, DataType::Timestamp),
            _ => definition.column(name, DataType::Int32),
        };
    }
    definition.primary_key(["time_hour", "carrier", "flight"])
}

fn counted(definition: TableDefinition) -> TableDefinition {
    ["flights", "dep_delay_sum", "arr_delay_sum"]
        .into_iter()
        .fold(definition, |definition, name| definition.column(name, DataType::Int64).not_null().default(0))
}

fn referenced(definition: TableDefinition, columns: &[(&str, DataType)]) -> TableDefinition {
    columns
        .iter()
        .fold(definition, |definition, (name, data_type)| definition.column(*name, data_type.clone()))
}

fn carrier() -> Result<TableDefinition> {
    let definition = TableDefinition::new(CARRIER).column("carrier", DataType::Text);
    let longest = DataType::TopK { limit: LONGEST, of: longest_type()? };
    Ok(counted(referenced(definition, &CARRIER_COLUMNS))
        .column("dep_delay_max", DataType::Int32)
        .column("arr_delay_max", DataType::Int32)
        .column("dep_delay_min", DataType::Int32)
        .column("late_sign", DataType::Int32)
        .not_null()
        .default(1)
        .column("latest", DataType::OrderedTuple(latest_type()?))
        .column("longest", longest)
        .primary_key(["carrier"]))
}

fn airport() -> TableDefinition {
    let definition = TableDefinition::new(AIRPORT).column("faa", DataType::Text);
    referenced(definition, &AIRPORT_COLUMNS).primary_key(["faa"])
}

fn origin() -> Result<TableDefinition> {
    let definition = TableDefinition::new(ORIGIN).column("airport", DataType::Text).references(AIRPORT);
    let worst = DataType::TopK { limit: WORST, of: worst_type()? };
    Ok(counted(definition).column("worst", worst).primary_key(["airport"]))
}

fn destination() -> TableDefinition {
    let definition = TableDefinition::new(DESTINATION).column("airport", DataType::Text).references(AIRPORT);
    counted(definition).primary_key(["airport"])
}

fn plane() -> Result<TableDefinition> {
    let definition = TableDefinition::new(PLANE).column("tailnum", DataType::Text);
    let sighting = DataType::OrderedTuple(sighting_type()?);
    Ok(referenced(definition, &PLANE_COLUMNS).column("sighting", sighting).primary_key(["tailnum"]))
}
