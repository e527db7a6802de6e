//! Compares the tables with a plain pass.

use heddledb::{Column, DataType, Row, Snapshot, Table, Value};

use super::plain_pass::{Cell, Content, PlainPass};
use super::row::{FlightKey, FlightRow, NUMBERS};
use super::tables::Tables;
use crate::scan;

/// Every table against the pass; the error names the first difference.
pub(super) fn compare(snapshot: &Snapshot, tables: &Tables, pass: &PlainPass) -> Result<(), String> {
    compare_flights(snapshot, &tables.flight, pass)?;
    compare_table(snapshot, &tables.carrier, &pass.carriers())?;
    compare_table(snapshot, &tables.airport, &pass.airports())?;
    compare_table(snapshot, &tables.origin, &pass.origins())?;
    compare_table(snapshot, &tables.destination, &pass.destinations())?;
    compare_table(snapshot, &tables.plane, &pass.planes())
}

fn unreadable(table: &Table, error: heddledb::Error) -> String {
    format!("table {} can't be read: {error}", table.name())
}

/// Flights are many, so they are compared one by one while the table is read.
fn compare_flights(snapshot: &Snapshot, table: &Table, pass: &PlainPass) -> Result<(), String> {
    let columns = FlightColumns::of(table).map_err(|error| unreadable(table, error))?;
    let (rows, difference) =
        scan::fold_in(snapshot, table, (0, None), |(rows, difference): &mut (usize, Option<String>), row| {
            *rows += 1;
            if difference.is_none() {
                let found = columns.read(row)?;
                *difference = match pass.flights.get(&found.key) {
                    None => Some(format!("flight {:?} is in no row of the input", found.key)),
                    Some(expected) if *expected != found => Some(format!("{found:?} should be {expected:?}")),
                    Some(_) => None,
                };
            }
            Ok(())
        })
        .map_err(|error| unreadable(table, error))?;
    match difference {
        Some(difference) => Err(format!("table flight: {difference}")),
        None if rows != pass.flights.len() => {
            Err(format!("table flight has {rows} records; the plain pass finds {}", pass.flights.len()))
        }
        None => Ok(()),
    }
}

/// Handles of the columns of `flight`.
pub(super) struct FlightColumns {
    numbers: [Column; NUMBERS.len()],
    departure_delay: Column,
    arrival_delay: Column,
    carrier: Column,
    flight: Column,
    tail_number: Column,
    origin: Column,
    destination: Column,
    time_hour: Column,
}

impl FlightColumns {
    pub fn of(table: &Table) -> heddledb::Result<Self> {
        let mut numbers = [table.column(NUMBERS[0])?; NUMBERS.len()];
        for (column, name) in numbers.iter_mut().zip(NUMBERS) {
            *column = table.column(name)?;
        }
        Ok(Self {
            numbers,
            departure_delay: table.column("dep_delay")?,
            arrival_delay: table.column("arr_delay")?,
            carrier: table.column("carrier")?,
            flight: table.column("flight")?,
            tail_number: table.column("tailnum")?,
            origin: table.column("origin")?,
            destination: table.column("dest")?,
            time_hour: table.column("time_hour")?,
        })
    }

    /// A record as the row that it was made from.
    pub fn read(&self, row: &Row<'_>) -> heddledb::Result<FlightRow> {
        let mut numbers = [None; NUMBERS.len()];
        for (value, column) in numbers.iter_mut().zip(self.numbers) {
            *value = number(row, column)?;
        }
        Ok(FlightRow {
            key: FlightKey {
                time_hour: row.timestamp(self.time_hour)?,
                carrier: row.text(self.carrier)?.to_owned(),
                flight: number(row, self.flight)?.unwrap_or_default(),
            },
            numbers,
            departure_delay: number(row, self.departure_delay)?,
            arrival_delay: number(row, self.arrival_delay)?,
            tail_number: text(row, self.tail_number)?,
            origin: text(row, self.origin)?,
            destination: text(row, self.destination)?,
        })
    }
}

fn number(row: &Row<'_>, column: Column) -> heddledb::Result<Option<i32>> {
    if row.is_null(column)? {
        return Ok(None);
    }
    let wide = row.int(column)?;
    let narrow =
        i32::try_from(wide).map_err(|_| heddledb::fail(format!("{wide} is in a column of 32 bits")))?;
    Ok(Some(narrow))
}

fn text(row: &Row<'_>, column: Column) -> heddledb::Result<Option<String>> {
    if row.is_null(column)? { Ok(None) } else { Ok(Some(row.text(column)?.to_owned())) }
}

fn compare_table(snapshot: &Snapshot, table: &Table, expected: &Content) -> Result<(), String> {
    let found = content(snapshot, table).map_err(|error| unreadable(table, error))?;
    let name = table.name();
    for (key, expected) in expected {
        match found.get(key) {
            None => return Err(format!("table {name}: {key} is missing")),
            Some(found) if found != expected => {
                let place = found.iter().zip(expected).position(|(found, expected)| found != expected);
                let column = place.and_then(|place| table.definition().columns().get(place + 1));
                let column = column.map_or("number of columns", |column| column.name.as_str());
                let (found, expected) = (place.map(|at| &found[at]), place.map(|at| &expected[at]));
                return Err(format!(
                    "table {name}, {key}: {column} is {found:?}; the plain pass has {expected:?}"
                ));
            }
            Some(_) => {}
        }
    }
    match found.keys().find(|key| !expected.contains_key(*key)) {
        Some(key) => Err(format!("table {name}: the plain pass does not know {key}")),
        None => Ok(()),
    }
}

/// A table whose first column is its key, as text.
fn content(snapshot: &Snapshot, table: &Table) -> heddledb::Result<Content> {
    let types: Vec<DataType> =
        table.definition().columns().iter().map(|column| column.data_type.clone()).collect();
    scan::fold_in(snapshot, table, Content::new(), |content, row| {
        let mut cells =
            row.to_values().into_iter().zip(&types).map(|(value, data_type)| cell(value, data_type));
        let Some(Cell::One(Value::Text(key))) = cells.next().transpose()? else {
            return Err(heddledb::fail("the key is no text"));
        };
        content.insert(key, cells.collect::<heddledb::Result<Vec<_>>>()?);
        Ok(())
    })
}

fn cell(value: Value, data_type: &DataType) -> heddledb::Result<Cell> {
    Ok(match (value, data_type) {
        (Value::Tuple(tuple), DataType::OrderedTuple(of)) => Cell::Rows(vec![tuple.row(of)?]),
        (Value::TopK(set), DataType::TopK { of, .. }) => Cell::Rows(set.rows(of)?),
        (value, _) => Cell::One(value),
    })
}
