//! Tables that SQL knows: rows go in and out by COPY, so that they have SQL's types, and its checks, defaults and triggers hold.
//!
//! Invariant: rows are copied in batches. Either all of them are one transaction ([`Sink::begin`]), which ends without a trace at the first
//! row at fault; or each is one of its own, and one that fails is copied row by row: then only the rows at fault are missing, or, if the
//! first one ends the import, that row and all after it.

use std::io::Write;

use heddle_sql::{
    Connection, CopyFormat, Environment, Field as SqlField, ResultSink, Sql, SqlError, Type, Value,
};
use heddledb::{DataType, Database};
use heddledb_transfer::csv::{Dialect, write_field};
use heddledb_transfer::{Column, Error, Export, Field, Format, Header, Import, Record, Rejected, Writer};

use crate::failure::{Failure, Result};

/// The engine's table in which SQL keeps its definitions: databases without it have seen no SQL.
const DEFINITIONS: &str = "sql.object";
/// Rows that are copied at a time.
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
    let column =
        |field: &SqlField| Column { name: field.name.clone(), data_type: type_of(field), not_null: false };
    Ok(fields(connection, table)?.iter().map(column).collect())
}

/// The columns of a table as SQL has them.
fn fields(connection: &mut Connection, table: &str) -> Result<Vec<SqlField>> {
    let failed = |error: SqlError| Failure::Usage(error.to_string());
    let results = connection.query(&format!("select * from {table} limit 0")).map_err(failed)?;
    let fields = results.into_iter().next().and_then(|result| result.fields);
    Ok(fields.iter().flat_map(|fields| fields.iter().cloned()).collect())
}

/// The columns for files with types of their own: dates and times keep their types, where the file can hold
/// all values of their column (of the years 1 to 9999, and no infinity).
fn typed_columns(connection: &mut Connection, table: &str) -> Result<Vec<Column>> {
    let mut columns = columns(connection, table)?;
    for (field, column) in fields(connection, table)?.iter().zip(&mut columns) {
        let data_type = match field.ty {
            Type::Date => DataType::Date,
            Type::Timestamp | Type::Timestamptz => DataType::Timestamp,
            _ => continue,
        };
        let name = format!("\"{}\"", field.name.replace('"', "\"\""));
        let query = format!(
            "select coalesce(bool_and(isfinite({name}) and {name} >= '0001-01-02' and {name} < '9999-12-31'), true) from {table}"
        );
        let results = connection.query(&query).map_err(|error| Failure::Failed(error.to_string()))?;
        if results.first().is_some_and(|result| result.rows == [[Value::Bool(true)]]) {
            column.data_type = data_type;
        }
    }
    Ok(columns)
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
    batch_rows: usize,
    /// True if rows after a rejected one are copied.
    keeps_going: bool,
    /// True if all batches are one transaction.
    is_atomic: bool,
    /// Rows copied so far.
    pub rows: u64,
}

impl<'c> Sink<'c> {
    /// `table`: its name as SQL writes it.
    pub fn new(connection: &'c mut Connection, table: &'c str, columns: &'c [String]) -> Sink<'c> {
        Sink {
            connection,
            table,
            columns,
            given: Vec::new(),
            batch: Vec::new(),
            batch_rows: BATCH_ROWS,
            keeps_going: true,
            is_atomic: false,
            rows: 0,
        }
    }

    /// Sets the number of rows that are copied at a time.
    pub fn batch_rows(mut self, rows: usize) -> Sink<'c> {
        self.batch_rows = rows.max(1);
        self
    }

    /// Makes one transaction of all batches. A table without rows is loaded: what COPY finds truncated needs no look at each key.
    pub fn begin(&mut self) -> Result<()> {
        let failed = |error: SqlError| Failure::Failed(error.to_string());
        self.is_atomic = true;
        let count = format!("begin; select count(*) from (select from {} limit 1) as first", self.table);
        let results = self.connection.query(&count).map_err(failed)?;
        let is_empty =
            results.last().is_some_and(|result| result.rows.first() == Some(&vec![Value::Int8(0)]));
        if is_empty {
            self.connection.query("savepoint before_load").map_err(failed)?;
            if self.connection.query(&format!("truncate {}", self.table)).is_err() {
                // Other tables refer to it: its rows are inserted then.
                self.connection.query("rollback to savepoint before_load").map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Ends the transaction of [`begin`](Self::begin), if there is one.
    pub fn commit(&mut self) -> Result<()> {
        if self.is_atomic {
            self.connection.query("commit").map_err(|error| Failure::Failed(error.to_string()))?;
        }
        Ok(())
    }

    /// The number of rows that are already committed and stay if the copy fails now.
    pub fn stays(&self) -> u64 {
        if self.is_atomic { 0 } else { self.rows }
    }

    /// Sets that rows after a rejected one are copied, which is the default, or not.
    pub fn keep_going(mut self, keeps_going: bool) -> Sink<'c> {
        self.keeps_going = keeps_going;
        self
    }

    /// Adds a row; the rejected ones of a batch that was copied.
    pub fn push(&mut self, record: Record) -> Result<Vec<Rejected>> {
        let given: Vec<bool> = record.fields.iter().map(Option::is_some).collect();
        let rejected = if given != self.given || self.batch.len() >= self.batch_rows {
            self.flush()?
        } else {
            Vec::new()
        };
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
        if self.is_atomic {
            return self.end_at(batch, &error);
        }
        let mut rejected = Vec::new();
        for (Record { line, text, .. }, csv) in batch.into_iter().zip(&lines) {
            match self.connection.copy_from(&copy, csv.as_bytes()) {
                Ok(_) => self.rows += 1,
                Err(error) if matches!(error.state().class(), "22" | "23" | "P0") => {
                    let column = place_of(&error).and_then(|(_, column)| column);
                    rejected.push(Rejected { line, column, reason: reason_of(&error), text });
                    if !self.keeps_going {
                        break;
                    }
                }
                Err(error) => return Err(Failure::Failed(error.to_string())),
            }
        }
        Ok(rejected)
    }

    /// Undoes everything, and tells which row of the batch was at fault.
    fn end_at(&mut self, batch: Vec<Record>, error: &SqlError) -> Result<Vec<Rejected>> {
        // What has failed is undone already; the connection needs the end of the block.
        let _ = self.connection.query("rollback");
        self.rows = 0;
        let place = place_of(error).filter(|_| matches!(error.state().class(), "22" | "23" | "P0"));
        let row =
            place.and_then(|(line, column)| Some((batch.into_iter().nth(line.checked_sub(1)?)?, column)));
        match row {
            Some((Record { line, text, .. }, column)) => {
                Ok(vec![Rejected { line, column, reason: reason_of(error), text }])
            }
            None => Err(Failure::Failed(error.to_string())),
        }
    }
}

/// The line, from 1, and the column that an error of COPY names in its context.
fn place_of(error: &SqlError) -> Option<(usize, Option<String>)> {
    let (_, place) = error.context()?.lines().last()?.strip_prefix("COPY ")?.split_once(", line ")?;
    let digits = place.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(place.len());
    let column =
        place[digits..].strip_prefix(", column ").and_then(|rest| Some(rest.split_once(": ")?.0.to_owned()));
    Some((place[..digits].parse().ok()?, column))
}

/// The reason for which SQL refuses a row: the message, and the values at fault where another row has them. A
/// failing row's own values are not repeated.
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
    let columns = match export.format() {
        Format::Csv | Format::Json => columns(connection, &table),
        _ => typed_columns(connection, &table),
    };
    let columns = columns.map_err(|error| engine(error.to_string()))?;
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
        let mut records = Import::new(Format::Csv).header(Header::No).records("", &self.names, lines)?;
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
