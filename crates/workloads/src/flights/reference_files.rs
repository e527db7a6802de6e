//! Airlines, airports and planes as the reference files, or the tables, have them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use heddledb::{DataType, Database, Row, Value, ValueRef, key};

use super::input::unpacked;
use super::tables::{AIRPORT_COLUMNS, CARRIER_COLUMNS, PLANE_COLUMNS, Tables};
use crate::{Error, Result, scan};

/// Records per loading transaction.
const BATCH: usize = 500;

/// Reference columns by key.
pub(super) type References = BTreeMap<String, Vec<Value>>;

/// The known carriers, airports and planes before the first flight.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Reference {
    pub carriers: References,
    pub airports: References,
    pub planes: References,
}

impl Reference {
    /// Reads the three files of a directory.
    pub fn read(directory: &Path) -> Result<Self> {
        Ok(Self {
            carriers: read_file(directory, "airlines.csv", "carrier", &CARRIER_COLUMNS)?,
            airports: read_file(directory, "airports.csv", "faa", &AIRPORT_COLUMNS)?,
            planes: read_file(directory, "planes.csv", "tailnum", &PLANE_COLUMNS)?,
        })
    }

    /// Takes what the tables hold for what the files held.
    pub fn of_tables(db: &Database, tables: &Tables) -> heddledb::Result<Self> {
        Ok(Self {
            carriers: of_table(db, &tables.carrier, "carrier", &CARRIER_COLUMNS)?,
            airports: of_table(db, &tables.airport, "faa", &AIRPORT_COLUMNS)?,
            planes: of_table(db, &tables.plane, "tailnum", &PLANE_COLUMNS)?,
        })
    }

    /// Inserts what is not there yet. Counters start at zero, the sign at 1; everything else starts as NULL.
    pub fn load(&self, db: &Database, tables: &Tables) -> heddledb::Result<()> {
        let none = [ValueRef::Null; 0];
        let mut counters = [ValueRef::Null; 9];
        counters[..3].fill(0.into());
        // Behind three counters and three extremes.
        counters[6] = 1.into();
        insert_missing(db, &tables.carrier, &self.carriers, &counters)?;
        insert_missing(db, &tables.airport, &self.airports, &none)?;
        insert_missing(db, &tables.plane, &self.planes, &[ValueRef::Null])
    }
}

fn insert_missing(
    db: &Database,
    table: &heddledb::Table,
    references: &References,
    rest: &[ValueRef<'static>],
) -> heddledb::Result<()> {
    let records: Vec<_> = references.iter().collect();
    for batch in records.chunks(BATCH) {
        db.run(|tx| {
            for (name, columns) in batch {
                if !tx.exists(table, key![*name])? {
                    let mut row = vec![ValueRef::from(*name)];
                    row.extend(columns.iter().map(ValueRef::from));
                    row.extend_from_slice(rest);
                    tx.insert(table, row)?;
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}

fn of_table(
    db: &Database,
    table: &heddledb::Table,
    key: &'static str,
    columns: &[(&'static str, DataType)],
) -> heddledb::Result<References> {
    scan::fold(db, table, References::new, |references, row: &Row<'_>| {
        let values: heddledb::Result<Vec<Value>> =
            columns.iter().map(|(name, _)| Ok(row.get(*name)?.to_value())).collect();
        references.insert(row.text(key)?.to_owned(), values?);
        Ok(())
    })
}

fn read_file(directory: &Path, file: &str, key: &str, columns: &[(&str, DataType)]) -> Result<References> {
    let path: PathBuf = directory.join(file);
    let name = path.display().to_string();
    let opened = std::fs::File::open(&path).map_err(|reason| {
        Error::Unusable(format!("{name}: {reason}; give the directory of {file} with --reference"))
    })?;
    let from =
        unpacked(Box::new(opened)).map_err(|reason| Error::stream(format!("reading {name}"), reason))?;
    let mut reader = csv::Reader::from_reader(from);
    let wrong = |reason: String| Error::Unusable(format!("{name}: {reason}"));
    let heading = reader.headers().map_err(|error| wrong(error.to_string()))?.clone();
    let find = |column: &str| {
        let place = heading.iter().position(|field| field == column);
        place.ok_or_else(|| wrong(format!("the first line has no column {column:?}")))
    };
    let key = find(key)?;
    let places = columns.iter().map(|(column, data_type)| Ok((find(column)?, data_type)));
    let places = places.collect::<Result<Vec<_>>>()?;
    let mut references = References::new();
    for (line, record) in reader.records().enumerate() {
        let record = record.map_err(|error| wrong(error.to_string()))?;
        let values = places.iter().map(|(place, data_type)| {
            let field = record.get(*place).unwrap_or_default();
            value(field, data_type)
                .ok_or_else(|| wrong(format!("row {}: {field:?} does not parse", line + 1)))
        });
        references
            .insert(record.get(key).unwrap_or_default().to_owned(), values.collect::<Result<Vec<_>>>()?);
    }
    Ok(references)
}

/// A field's value; `NA` and nothing at all are NULL.
fn value(field: &str, data_type: &DataType) -> Option<Value> {
    Some(match (field, data_type) {
        ("NA" | "", _) => Value::Null,
        (text, DataType::Int32) => text.parse::<i32>().ok()?.into(),
        (text, DataType::Float64) => text.parse::<f64>().ok()?.into(),
        (text, _) => text.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory_with(airlines: &str) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
        write("airlines.csv", airlines);
        write(
            "airports.csv",
            "faa,name,lat,lon,alt,tz,dst,tzone\nEWR,Newark,40.6925,-74.168667,18,-5,A,NA\n",
        );
        write(
            "planes.csv",
            "tailnum,year,type,manufacturer,model,engines,seats,speed,engine\n\
             N1,2004,Fixed wing,EMBRAER,EMB-145XR,2,55,NA,Turbo-fan\n",
        );
        directory
    }

    #[test]
    fn files_are_read_with_their_missing_values() {
        let directory = directory_with("carrier,name\nUA,\"United, Air Lines\"\n");
        let reference = Reference::read(directory.path()).unwrap();
        assert_eq!(reference.carriers["UA"], [Value::from("United, Air Lines")]);
        assert_eq!(reference.airports["EWR"][1], Value::from(40.6925));
        assert_eq!(reference.airports["EWR"][6], Value::Null);
        assert_eq!(reference.planes["N1"][0], Value::from(2004));
        assert_eq!(reference.planes["N1"][6], Value::Null);
    }

    #[test]
    fn errors_describe_what_is_wrong_with_a_file() {
        let said = |airlines: &str| Reference::read(directory_with(airlines).path()).unwrap_err().to_string();
        assert!(said("carrier,title\nUA,United\n").contains("\"name\""));
        assert!(said("carrier,name\nUA\n").contains("airlines.csv"));
        let empty = tempfile::tempdir().unwrap();
        let message = Reference::read(empty.path()).unwrap_err().to_string();
        assert!(message.contains("airlines.csv") && message.contains("--reference"), "{message}");
        let directory = directory_with("carrier,name\nUA,United\n");
        std::fs::write(
            directory.path().join("airports.csv"),
            "faa,name,lat,lon,alt,tz,dst,tzone\nX,,north,,,,,\n",
        )
        .unwrap();
        let message = Reference::read(directory.path()).unwrap_err().to_string();
        assert!(message.contains("row 1") && message.contains("north"), "{message}");
    }
}
