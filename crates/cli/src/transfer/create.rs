//! `heddle import --create`: a table for a file, with the names of its columns and types by their values.

use std::io::{Cursor, Read};

use heddle_sql::Sql;
use heddledb::Database;
use heddledb_transfer::csv::{Dialect, fields};
use heddledb_transfer::{Format, Import};

use super::guess::Types;
use super::import::Source;
use super::sql_table::quoted;
use crate::failure::{Failure, Result};

/// Creates the table. The input is read to its end, and can be read again.
///
/// # Errors
/// The file does not say its columns; the table is there already.
pub fn table(db: &Database, table: &str, import: &Import<'_>, source: &mut Source<'_>) -> Result {
    let mut bytes = Vec::new();
    match source.input.take() {
        Some(mut input) => input.read_to_end(&mut bytes).map(drop)?,
        None => bytes = std::fs::read(source.file)?,
    }
    let names = names(&bytes, import, source)?;
    let mut types = Types::new(names.len());
    let mut records = import.records(table, &names, Cursor::new(bytes.clone()))?;
    while let Some(record) = records.next_record()? {
        if let Ok(record) = record {
            types.add(record.fields.iter().map(|field| field.as_ref().and_then(|field| field.to_text())));
        }
    }
    source.input = Some(Box::new(Cursor::new(bytes)));
    let quote = |name: &String| format!("\"{}\"", name.replace('"', "\"\""));
    let columns: Vec<String> =
        names.iter().zip(types.names()).map(|(name, ty)| format!("{} {ty}", quote(name))).collect();
    let statement = format!("create table {} ({})", quoted(table), columns.join(", "));
    let failed = |error: heddle_sql::SqlError| Failure::Failed(error.to_string());
    let sql = Sql::new(db).map_err(failed)?;
    let mut connection = sql.connect(Default::default()).map_err(failed)?;
    connection.query(&statement).map_err(failed)?;
    Ok(())
}

/// The names of a file's columns: of CSV those of its first line, or numbered ones; of JSON those of all objects.
fn names(bytes: &[u8], import: &Import<'_>, source: &Source<'_>) -> Result<Vec<String>> {
    let text = String::from_utf8_lossy(bytes);
    let names: Vec<String> = match import.format() {
        Format::Csv => {
            let dialect = Dialect { delimiter: source.delimiter, ..Dialect::default() };
            let first =
                text.trim_start_matches('\u{feff}').lines().find(|line| !line.is_empty()).unwrap_or_default();
            let found = fields(first, &dialect);
            match import.has_header() {
                Some(false) => (1..=found.len()).map(|number| format!("column{number}")).collect(),
                _ => found.into_iter().map(|(name, _)| name.trim().to_owned()).collect(),
            }
        }
        Format::Json => {
            let mut names = Vec::new();
            let objects = serde_json::Deserializer::from_str(&text).into_iter::<serde_json::Value>();
            let rows = objects.flatten().flat_map(|value| match value {
                serde_json::Value::Array(rows) => rows,
                row => vec![row],
            });
            for row in rows {
                for name in row.as_object().into_iter().flat_map(|object| object.keys()) {
                    if !names.contains(name) {
                        names.push(name.clone());
                    }
                }
            }
            names
        }
        _ => {
            let hint = "--create takes CSV and JSON; create the table by SQL for other formats";
            return Err(Failure::Usage(hint.to_owned()));
        }
    };
    if names.is_empty() || names.iter().any(String::is_empty) {
        return Err(Failure::Usage("the file does not name its columns; create the table by SQL".to_owned()));
    }
    Ok(names)
}
