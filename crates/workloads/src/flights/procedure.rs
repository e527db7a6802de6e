//! One row of the file as one transaction over six tables.
//!
//! The flight's insert is first, and the carrier second: they are the actions that can fail. A row that was
//! inserted before a failure, an airport for example, is undone with the failed call.

use heddledb::{
    Action, ActionContext, Args, DataType, Database, Procedure, ProcedureDefinition, Result, Value, ValueRef,
};

use super::row::{COLUMNS, FlightRow};
use super::tables::{Counters, Tables};
use crate::pause::Pause;

/// Places of the call's arguments: the columns of the file, in its order.
mod argument {
    pub const DEPARTURE_DELAY: usize = 5;
    pub const ARRIVAL_DELAY: usize = 8;
    pub const CARRIER: usize = 9;
    pub const FLIGHT: usize = 10;
    pub const TAIL_NUMBER: usize = 11;
    pub const ORIGIN: usize = 12;
    pub const DESTINATION: usize = 13;
    pub const DISTANCE: usize = 15;
    pub const TIME_HOUR: usize = 18;
}
use argument::*;

/// The arguments for a row.
pub(super) fn arguments(row: FlightRow) -> Args {
    let mut numbers = row.numbers.into_iter().map(Value::from);
    let (mut carrier, mut tail_number) = (Some(row.key.carrier), row.tail_number);
    let (mut origin, mut destination) = (row.origin, row.destination);
    (0..COLUMNS.len())
        .map(|place| match place {
            DEPARTURE_DELAY => row.departure_delay.into(),
            ARRIVAL_DELAY => row.arrival_delay.into(),
            CARRIER => carrier.take().into(),
            FLIGHT => row.key.flight.into(),
            TAIL_NUMBER => tail_number.take().into(),
            ORIGIN => origin.take().into(),
            DESTINATION => destination.take().into(),
            TIME_HOUR => row.key.time_hour.into(),
            _ => numbers.next().unwrap_or(Value::Null),
        })
        .collect()
}

/// The key that a call is acknowledged by.
pub(super) fn acknowledgement(args: &Args) -> Option<String> {
    let part = |place| args.get(place).ok();
    Some(format!("{} {} {}", part(TIME_HOUR)?, part(CARRIER)?, part(FLIGHT)?))
}

/// Registers the procedure: one phase, an action for each table, and one more for the second airport.
pub(super) fn register(db: &Database, tables: &Tables, pause: Pause) -> Result<Procedure> {
    let mut definition = ProcedureDefinition::new("flight");
    for (place, name) in COLUMNS.into_iter().enumerate() {
        let data_type = match place {
            CARRIER | TAIL_NUMBER | ORIGIN | DESTINATION => DataType::Text,
            TIME_HOUR => DataType::Timestamp,
            _ => DataType::Int32,
        };
        definition = definition.parameter(name, data_type);
    }
    db.register_anonymous(definition.phase([
        flight(tables, pause),
        carrier(tables, pause),
        airport(tables, pause, ORIGIN),
        airport(tables, pause, DESTINATION),
        origin(tables, pause),
        destination(tables, pause),
        plane(tables, pause),
    ]))
}

fn flight(tables: &Tables, pause: Pause) -> Action {
    Action::write(&tables.flight)
        .key(|args, key| {
            key.push(argument_of(args, TIME_HOUR)?)?;
            key.push(argument_of(args, CARRIER)?)?;
            key.push(argument_of(args, FLIGHT)?)
        })
        .body(move |action: &ActionContext| {
            let mut row = [ValueRef::Null; COLUMNS.len()];
            for (place, value) in row.iter_mut().enumerate() {
                *value = argument_of(action.args(), place)?;
            }
            action.insert(row)?;
            pause.take();
            Ok(())
        })
}

fn carrier(tables: &Tables, pause: Pause) -> Action {
    let counters = tables.carrier_counters;
    let maxima = [(tables.departure_maximum, DEPARTURE_DELAY), (tables.arrival_maximum, ARRIVAL_DELAY)];
    let (minimum, sign) = (tables.departure_minimum, tables.late_sign);
    let (latest, longest) = (tables.latest, tables.longest);
    Action::commute(&tables.carrier).key(|args, key| key.push(argument_of(args, CARRIER)?)).body(
        move |action: &ActionContext| {
            count(action, counters)?;
            let args = action.args();
            for (column, place) in maxima {
                if !args.is_null(place)? {
                    action.max(column, argument_of(args, place)?)?;
                }
            }
            if !args.is_null(DEPARTURE_DELAY)? {
                action.min(minimum, argument_of(args, DEPARTURE_DELAY)?)?;
                if args.int(DEPARTURE_DELAY)? > 0 {
                    action.multiply(sign, -1)?;
                }
            }
            let (hour, flight) = (argument_of(args, TIME_HOUR)?, argument_of(args, FLIGHT)?);
            action.ordered_put(latest, &[hour], &[flight])?;
            if !args.is_null(DISTANCE)? {
                action.top_k_insert(longest, &[argument_of(args, DISTANCE)?], &[hour, flight])?;
            }
            pause.take();
            Ok(())
        },
    )
}

fn airport(tables: &Tables, pause: Pause, place: usize) -> Action {
    let columns = tables.airport.definition().columns().len();
    optional(Action::write(&tables.airport), pause, place, move |action| {
        make_if_missing(action, place, columns, &[])
    })
}

fn origin(tables: &Tables, pause: Pause) -> Action {
    let (counters, worst) = (tables.origin_counters, tables.worst);
    let columns = tables.origin.definition().columns().len();
    optional(Action::write(&tables.origin), pause, ORIGIN, move |action| {
        make_if_missing(action, ORIGIN, columns, &ZEROES)?;
        count(action, counters)?;
        let args = action.args();
        if args.is_null(DEPARTURE_DELAY)? {
            return Ok(());
        }
        let [time_hour, carrier, flight] = flight_key(args)?;
        let order = [argument_of(args, DEPARTURE_DELAY)?, time_hour, carrier, flight];
        action.top_k_insert(worst, &order, &[argument_of(args, DESTINATION)?])
    })
}

fn destination(tables: &Tables, pause: Pause) -> Action {
    let counters = tables.destination_counters;
    let columns = tables.destination.definition().columns().len();
    optional(Action::write(&tables.destination), pause, DESTINATION, move |action| {
        make_if_missing(action, DESTINATION, columns, &ZEROES)?;
        count(action, counters)
    })
}

fn plane(tables: &Tables, pause: Pause) -> Action {
    let sighting = tables.sighting;
    let columns = tables.plane.definition().columns().len();
    optional(Action::write(&tables.plane), pause, TAIL_NUMBER, move |action| {
        make_if_missing(action, TAIL_NUMBER, columns, &[])?;
        let args = action.args();
        let payload = [argument_of(args, ORIGIN)?, argument_of(args, DESTINATION)?];
        action.ordered_put(sighting, &flight_key(args)?, &payload)
    })
}

/// An action on the record that an argument names. Where the argument is NULL the call has nothing to do there; its
/// key is then the empty name, which no record has.
fn optional(
    action: Action,
    pause: Pause,
    place: usize,
    body: impl Fn(&ActionContext) -> Result<()> + Send + Sync + 'static,
) -> Action {
    action
        .key(move |args, key| match argument_of(args, place)? {
            ValueRef::Null => key.push(""),
            name => key.push(name),
        })
        .body(move |action: &ActionContext| {
            if !action.args().is_null(place)? {
                body(action)?;
                pause.take();
            }
            Ok(())
        })
}

/// Counter and sums of a record that a flight makes.
const ZEROES: [ValueRef<'static>; 3] = [ValueRef::Int(0); 3];

/// Inserts the record of the name at `place`: the name, the values of `second`, and NULL for the rest.
fn make_if_missing(
    action: &ActionContext,
    place: usize,
    columns: usize,
    second: &[ValueRef<'static>],
) -> Result<()> {
    if action.exists()? {
        return Ok(());
    }
    let mut row = Vec::with_capacity(columns);
    row.push(argument_of(action.args(), place)?);
    row.extend_from_slice(second);
    row.resize(columns, ValueRef::Null);
    action.insert(row)
}

/// Adds a flight to a counter, and its delays, if known, to their sums.
fn count(action: &ActionContext, counters: Counters) -> Result<()> {
    action.add(counters.flights, 1)?;
    let sums = [(counters.departure_delay, DEPARTURE_DELAY), (counters.arrival_delay, ARRIVAL_DELAY)];
    for (column, place) in sums {
        let delay = argument_of(action.args(), place)?;
        if !matches!(delay, ValueRef::Null) {
            action.add(column, delay)?;
        }
    }
    Ok(())
}

fn flight_key(args: &Args) -> Result<[ValueRef<'_>; 3]> {
    Ok([argument_of(args, TIME_HOUR)?, argument_of(args, CARRIER)?, argument_of(args, FLIGHT)?])
}

fn argument_of(args: &Args, place: usize) -> Result<ValueRef<'_>> {
    Ok(ValueRef::from(args.get(place)?))
}
