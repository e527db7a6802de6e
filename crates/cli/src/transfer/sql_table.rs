//! Tables that SQL knows: rows go in and out by COPY, so that they have SQL's types, and its checks, defaults and triggers hold.
//!
//! Invariant: rows are copied in batches, each a transaction of its own; a batch that fails is copied row by row. Then only the
//! rows at fault are missing, or, if the first one ends the import, that row and all after it.

use std::io::Write;

use heddle_sql::{
    Connection, CopyFormat, Environment, Field as SqlField, ResultSink, Sql, SqlError, Type, Value,
};
use heddledb::{DataType, Database};
use heddledb_transfer::csv::{Dialect, write_field};
use heddledb_transfer::{Column, Error, Export, Field, Header, Import, Record, Rejected, Writer};

use crate::failure::{Failure, Result};

/// The engine's table in which SQL keeps its definitions: databases without it have seen no SQL.
const DEFINITIONS: &str = "sql.object";
/// How many rows are copied at a time.
const BATCH_ROWS: usize = 5_000;

/// A connection to the database, if its SQL knows the table.
pub fn connection(db: &Database, table: &str) -> Result<Option<Connection>> {
    if db.table(DEFINITIONS).is_err() {
        return Ok(None);
    }
    let sql = Sql::new(db).map_err(|error| Failure::Failed(error.to_string()))?;
    let mut connection =
        sql.connect(Default::default()).map_err(|error| Failure::Failed(error.to_string()))?;
    // What SQL cannot show, such as tuples, the engine can.
    match columns(&mut connection, &quoted(table)) {
        Ok(_) => Ok(Some(connection)),
        Err(_) if db.table(table).is_ok() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The name of a table, with or without its schema, in quotes.
pub fn quoted(table: &str) -> String {
    let quote = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    match table.split_once('.') {
        Some((schema, table)) => format!("{}.{}", quote(schema), quote(table)),
        None => quote(table),
    }
}

/// The columns of a table, with the types that files know.
pub fn columns(connection: &mut Connection, table: &str) -> Result<Vec<Column>> {
    let failed = |error: SqlError| Failure::Usage(error.to_string());
    let results = connection.query(&format!("select * from {table} limit 0")).map_err(failed)?;
    let fields = results.into_iter().next().and_then(|result| result.fields);
    let fields = fields.iter().flat_map(|fields| fields.iter());
    Ok(fields
        .map(|field| Column { name: field.name.clone(), data_type: type_of(field), not_null: false })
        .collect())
}

/// The type of a column in a file: text for what files have no type for, and for what SQL has that the engine's type has not.
fn type_of(field: &SqlField) -> DataType {
    let numeric = u32::try_from(field.modifier - 4).ok().filter(|_| field.ty == Type::Numeric);
    match (field.ty, numeric) {
        (Type::Bool, _) => DataType::Bool,
        (Type::Int2 | Type::Int4, _) => DataType::Int32,
        (Type::Int8, _) => DataType::Int64,
        (Type::Float8, _) => DataType::Float64,
        (Type::Bytea, _) => DataType::Bytes,
        (Type::Uuid, _) => DataType::Uuid,
        (_, Some(modifier)) => {
            let (precision, scale) = ((modifier >> 16) as u8, (modifier & 0x7ff) as u8);
            let data_type = DataType::Decimal { precision, scale };
            if modifier >> 16 <= 38 && data_type.validate().is_ok() { data_type } else { DataType::Text }
        }
        _ => DataType::Text,
    }
}

/// Copies rows into a table.
pub struct Sink<'c> {
    connection: &'c mut Connection,
    table: &'c str,
    columns: &'c [String],
    /// The columns that the rows of the batch have.
    given: Vec<bool>,
    batch: Vec<Record>,
    /// Whether rows after a rejected one are copied.
    keeps_going: bool,
    /// How many rows were copied.
    pub rows: u64,
}

impl<'c> Sink<'c> {
    /// `table`: its name as SQL writes it.
    pub fn new(connection: &'c mut Connection, table: &'c str, columns: &'c [String]) -> Sink<'c> {
        Sink { connection, table, columns, given: Vec::new(), batch: Vec::new(), keeps_going: true, rows: 0 }
    }

    /// Whether rows after a rejected one are copied (they are, unless said otherwise).
    pub fn keep_going(mut self, keeps_going: bool) -> Sink<'c> {
        self.keeps_going = keeps_going;
        self
    }

    /// Adds a row; the rejected ones of a batch that was copied.
    pub fn push(&mut self, record: Record) -> Result<Vec<Rejected>> {
        let given: Vec<bool> = record.fields.iter().map(Option::is_some).collect();
        let rejected =
            if given != self.given || self.batch.len() >= BATCH_ROWS { self.flush()? } else { Vec::new() };
        self.given = given;
        self.batch.push(record);
        Ok(rejected)
    }

    /// Copies what is left of the batch.
    pub fn flush(&mut self) -> Result<Vec<Rejected>> {
        let batch = std::mem::take(&mut self.batch);
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let given = self.columns.iter().zip(&self.given).filter(|(_, given)| **given);
        let names: Vec<String> =
            given.map(|(name, _)| format!("\"{}\"", name.replace('"', "\"\""))).collect();
        let copy = format!("copy {} ({}) from stdin (format csv)", self.table, names.join(", "));
        let lines: Vec<String> = batch.iter().map(line_of).collect();
        let Err(error) = self.connection.copy_from(&copy, lines.concat().as_bytes()) else {
            self.rows += batch.len() as u64;
            return Ok(Vec::new());
        };
        if error.state().class() == "42" {
            // What is wrong with the table or its columns is wrong for every row.
            return Err(Failure::Failed(error.to_string()));
        }
        let mut rejected = Vec::new();
        for (Record { line, text, .. }, csv) in batch.into_iter().zip(&lines) {
            match self.connection.copy_from(&copy, csv.as_bytes()) {
                Ok(_) => self.rows += 1,
                Err(error) if matches!(error.state().class(), "22" | "23" | "P0") => {
                    rejected.push(Rejected { line, column: None, reason: reason_of(&error), text });
                    if !self.keeps_going {
                        break;
                    }
                }
                Err(error) => return Err(Failure::Failed(error.to_string())),
            }
        }
        Ok(rejected)
    }
}

/// Why SQL refuses a row: the message, and the values at fault where another row has them. A failing row's own values
/// are not repeated.
fn reason_of(error: &SqlError) -> String {
    match error.detail().filter(|detail| detail.starts_with("Key ")) {
        Some(detail) => format!("{}: {}", error.message(), detail.trim_end_matches('.')),
        None => error.message().to_string(),
    }
}

/// A row as a line of CSV, with its end.
fn line_of(record: &Record) -> String {
    let (mut line, dialect) = (String::new(), Dialect::default());
    let fields: Vec<&Field> = record.fields.iter().flatten().collect();
    for (position, field) in fields.iter().enumerate() {
        line.push_str(if position > 0 { "," } else { "" });
        write_field(field.to_text().as_deref(), &dialect, fields.len() == 1, false, &mut line);
    }
    line.push('\n');
    line
}

/// Writes a table's rows, as one statement reads them.
pub fn export(
    connection: &mut Connection,
    table: &str,
    export: &Export,
    to: impl Write + Send,
) -> heddledb_transfer::Result<u64> {
    let engine = |error: String| Error::Io(std::io::Error::other(error));
    let table = quoted(table);
    let columns = columns(connection, &table).map_err(|error| engine(error.to_string()))?;
    let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    let mut lines =
        Lines { columns: &columns, names, writer: export.writer(to, &columns)?, rows: 0, failed: None };
    let copied =
        connection.simple_query(&format!("copy (select * from {table}) to stdout (format csv)"), &mut lines);
    if let Some(error) = lines.failed.take() {
        return Err(error);
    }
    copied.map_err(|error| engine(error.to_string()))?;
    lines.writer.finish()?;
    Ok(lines.rows)
}

/// Takes the lines of a COPY, and writes them in a file's format.
struct Lines<'w> {
    columns: &'w [Column],
    names: Vec<String>,
    writer: Box<dyn Writer + 'w>,
    rows: u64,
    failed: Option<Error>,
}

impl Lines<'_> {
    fn write(&mut self, lines: &[u8]) -> heddledb_transfer::Result<()> {
        let mut records =
            Import::new(heddledb_transfer::Format::Csv).header(Header::No).records("", &self.names, lines)?;
        while let Some(record) = records.next_record()? {
            let wrong = |rejected: Rejected| Error::Rejected { rejected: Box::new(rejected), imported: 0 };
            let record = record.map_err(wrong)?;
            let fields = record.fields.iter().zip(self.columns);
            let values = fields.map(|(field, column)| {
                field.as_ref().map_or(Ok(heddledb::Value::Null), |field| field.to_value(&column.data_type))
            });
            let values: std::result::Result<Vec<heddledb::Value>, String> = values.collect();
            let values = values.map_err(|reason| {
                wrong(Rejected { line: self.rows + 1, column: None, reason, text: record.text.clone() })
            })?;
            self.writer.row(&values)?;
            self.rows += 1;
        }
        Ok(())
    }
}

impl ResultSink for Lines<'_> {
    fn row(
        &mut self,
        _values: &[Value],
        _environment: &dyn Environment,
    ) -> std::result::Result<(), SqlError> {
        Ok(())
    }

    fn copy_out(&mut self, _format: CopyFormat, _columns: usize) -> std::result::Result<(), SqlError> {
        Ok(())
    }

    fn copy_data(&mut self, data: &[u8]) -> std::result::Result<(), SqlError> {
        self.write(data).map_err(|error| {
            let message = error.to_string();
            self.failed = Some(error);
            SqlError::unsupported(message)
        })
    }
}
