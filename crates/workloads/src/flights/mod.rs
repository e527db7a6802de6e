//! Real input: every row of a file of flights is one transaction over six tables (see `tables`).
//!
//! The data's own skew is the load: three origins take all rows, sixteen carriers share them, four thousand planes
//! come again and again.
//!
//! Invariants:
//! - Afterwards every table equals a plain pass over the same file, field by field.
//! - `NA` is NULL and no failure: sums, maxima and worst delays skip it; without a plane there is no sighting.
//! - A row whose key exists, whose carrier is unknown or whose fields don't parse fails, is counted by its reason,
//!   and leaves nothing behind, not even an airport that only it names.

mod compare;
mod dealer;
mod input;
mod plain_pass;
mod procedure;
mod reference_files;
mod row;
mod tables;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use heddledb::{Database, Procedure, Timestamp, key};
use serde_json::json;

use crate::calls::Call;
use crate::pause::Pause;
use crate::workload::{Bound, Generator, Rejected, Workload};
use crate::{Error, Result, scan};
use compare::FlightColumns;
use dealer::Dealer;
use input::Input;
use plain_pass::PlainPass;
use reference_files::Reference;
use tables::Tables;

/// Reasons for which rows fail.
pub(crate) const DUPLICATE: &str = "duplicate-key";
pub(crate) const UNKNOWN_CARRIER: &str = "unknown-carrier";
pub(crate) const UNPARSABLE: &str = "unparsable";

/// Acknowledged keys looked up per transaction.
const BATCH: usize = 1_000;

/// The workload: a file, or only the tables that a file has filled.
pub struct Flights {
    source: Option<Source>,
    pause: Pause,
    /// The rows that the last check found to be no flights.
    rejected: Mutex<Vec<Rejected>>,
}

/// A file of flights and what is known beforehand.
struct Source {
    name: String,
    input: Input,
    reference: Reference,
}

impl Flights {
    /// Flights of a file (`-` is standard input), with the reference files of a directory: the file's own, or for
    /// standard input the present one, unless another is given.
    pub fn from_input(path: &Path, reference: Option<&Path>, pause: Pause) -> Result<Self> {
        let beside = if path == Path::new("-") { None } else { path.parent() };
        let beside = beside.filter(|directory| !directory.as_os_str().is_empty());
        let directory = reference.or(beside).map_or_else(|| PathBuf::from("."), Path::to_owned);
        let input = Input::new(path)?;
        let reference = Reference::read(&directory)?;
        Ok(Self {
            source: Some(Source { name: path.display().to_string(), input, reference }),
            pause,
            rejected: Mutex::default(),
        })
    }

    /// The tables alone: they can be checked against each other, but not filled.
    pub fn from_tables() -> Self {
        Self { source: None, pause: Pause::default(), rejected: Mutex::default() }
    }

    fn source(&self) -> Result<&Source> {
        self.source.as_ref().ok_or_else(|| Error::Unusable("give a file of flights with --input".to_owned()))
    }

    /// The plain pass over the file, or over the flights in the table where there is no file.
    fn plain_pass(&self, db: &Database, tables: &Tables) -> Result<PlainPass> {
        match &self.source {
            Some(source) => pass_over_input(source),
            None => Ok(pass_over_table(db, tables)?),
        }
    }
}

fn pass_over_input(source: &Source) -> Result<PlainPass> {
    let mut pass = PlainPass::new(source.reference.clone());
    let mut rows = source.input.rows_again()?;
    while let Some(line) = rows.next_line()? {
        pass.take(line.row, line.number);
    }
    Ok(pass)
}

fn pass_over_table(db: &Database, tables: &Tables) -> heddledb::Result<PlainPass> {
    let columns = FlightColumns::of(&tables.flight)?;
    let rows = scan::fold(db, &tables.flight, Vec::new, |rows, row| {
        rows.push(columns.read(row)?);
        Ok(())
    })?;
    let mut pass = PlainPass::new(Reference::of_tables(db, tables)?);
    rows.into_iter().for_each(|row| pass.take(Some(row), 0));
    Ok(pass)
}

impl Workload for Flights {
    fn name(&self) -> &'static str {
        "flights"
    }

    fn tables(&self) -> &'static [&'static str] {
        &tables::NAMES
    }

    fn transactions(&self) -> &'static [&'static str] {
        &["flight"]
    }

    fn parameters(&self) -> Vec<(&'static str, serde_json::Value)> {
        let mut parameters = vec![("think_us", json!(self.pause.as_microseconds()))];
        if let Some(source) = &self.source {
            parameters.insert(0, ("input", json!(source.name)));
        }
        parameters
    }

    fn load(&self, db: &Database) -> Result<()> {
        let tables = Tables::create(db)?;
        Ok(self.source()?.reference.load(db, &tables)?)
    }

    fn bind(&self, db: &Database, callers: usize) -> Result<Box<dyn Bound>> {
        let tables = Tables::open(db)?;
        let procedure = procedure::register(db, &tables, self.pause)?;
        let dealer = Dealer::start(self.source()?.input.first_rows()?, callers)?;
        Ok(Box::new(Rows { procedure, dealer }))
    }

    fn marks(&self, db: &Database) -> Result<u64> {
        match scan::table_if_there(db, tables::FLIGHT)? {
            Some(flight) => Ok(scan::count(db, &flight)?),
            None => Ok(0),
        }
    }

    fn check(&self, db: &Database, marks: Option<u64>) -> Result<(), String> {
        for name in tables::NAMES {
            if scan::table_if_there(db, name).map_err(|error| error.to_string())?.is_none() {
                // The tables are made before the first flight: an interrupted set-up has nothing to check.
                return self.without_table(name, marks);
            }
        }
        let tables = Tables::open(db).map_err(|error| error.to_string())?;
        let pass = self.plain_pass(db, &tables).map_err(|error| format!("the plain pass failed: {error}"))?;
        *self.rejected.lock().unwrap_or_else(PoisonError::into_inner) = pass.rejected();
        let snapshot = db.snapshot().map_err(|error| error.to_string())?;
        compare::compare(&snapshot, &tables, &pass)?;
        match marks {
            Some(marks) if marks != pass.flights.len() as u64 => Err(format!(
                "{marks} calls were committed, but the plain pass finds {} flights",
                pass.flights.len()
            )),
            _ => Ok(()),
        }
    }

    fn check_acknowledged(&self, db: &Database, keys: &[String]) -> Result<(), String> {
        let table = match scan::table_if_there(db, tables::FLIGHT) {
            Ok(Some(table)) => table,
            Ok(None) if keys.is_empty() => return Ok(()),
            Ok(None) => return Err(format!("{} rows were acknowledged, but there is no table", keys.len())),
            Err(error) => return Err(error.to_string()),
        };
        for batch in keys.chunks(BATCH) {
            let parsed = batch.iter().map(|key| flight_of_key(key)).collect::<Result<Vec<_>, _>>()?;
            let lost = db.read(|snapshot| {
                for (key, text) in parsed.iter().zip(batch) {
                    if !snapshot.exists(&table, key![key.0, key.1, key.2])? {
                        return Ok(Some(text));
                    }
                }
                Ok(None)
            });
            if let Some(key) = lost.map_err(|error| error.to_string())? {
                return Err(format!("the flight acknowledged as {key} is not in the table"));
            }
        }
        Ok(())
    }

    fn is_finite(&self) -> bool {
        true
    }

    fn rejected(&self) -> Vec<Rejected> {
        self.rejected.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Flights {
    fn without_table(&self, name: &str, marks: Option<u64>) -> Result<(), String> {
        match marks {
            Some(marks) if marks > 0 => {
                Err(format!("{marks} calls were committed, but there is no table {name}"))
            }
            _ => Ok(()),
        }
    }
}

/// The parts of an acknowledged key.
fn flight_of_key(key: &str) -> Result<(Timestamp, &str, i32), String> {
    let parts: Vec<&str> = key.split(' ').collect();
    let parsed = match parts[..] {
        [time_hour, carrier, flight] => match (time_hour.parse(), flight.parse()) {
            (Ok(time_hour), Ok(flight)) => Some((time_hour, carrier, flight)),
            _ => None,
        },
        _ => None,
    };
    parsed.ok_or_else(|| {
        format!("the acknowledged key {key:?} is no flight; was the file written by this workload?")
    })
}

/// The rows of the file, being dealt.
struct Rows {
    procedure: Procedure,
    dealer: Dealer,
}

impl Bound for Rows {
    fn generator(&self, _seed: u64, caller: usize) -> Result<Box<dyn Generator>> {
        self.dealer.generator(caller, self.procedure.clone())
    }

    fn acknowledgement(&self, call: Call<'_>) -> Option<String> {
        procedure::acknowledgement(call.args)
    }

    fn reason(&self, error: &heddledb::Error) -> Cow<'static, str> {
        match error {
            heddledb::Error::DuplicateKey { .. } => Cow::Borrowed(DUPLICATE),
            heddledb::Error::MissingKey { table, .. } if table == tables::CARRIER => {
                Cow::Borrowed(UNKNOWN_CARRIER)
            }
            other => Cow::Owned(other.to_string()),
        }
    }
}
