//! Files into tables.
//!
//! A table without rows is loaded at once, in one transaction: it has all rows of the file or, after an error, none. Otherwise, and if
//! rejected rows are collected, rows are inserted in batches, each a transaction; a batch that fails is inserted row by
//! row, to find the one at fault.
//!
//! Concurrency: transactions continue meanwhile. If one inserts into a table that is being loaded at once,
//! the load fails with [`Error::Interrupted`], or that transaction with a conflict; neither's rows are lost.

use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::time::{Duration, Instant};

use heddledb::{Database, Range, Table, TableDefinition, Value, ValueRef};

use crate::Format;
use crate::csv::Dialect;
use crate::error::{Error, Rejected, Result};
use crate::json::JsonRecords;
use crate::record::{CsvRecords, Header, Record, Records, Target};

/// A function that receives each rejected row.
type OnRejected<'r> = Box<dyn FnMut(&Rejected) + 'r>;

/// The import of a file into a table.
pub struct Import<'r> {
    format: Format,
    dialect: Dialect,
    header: Header,
    batch_rows: usize,
    rejected_max: u64,
    on_rejected: Option<OnRejected<'r>>,
}

impl fmt::Debug for Import<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Import");
        shown.field("format", &self.format).field("dialect", &self.dialect).field("header", &self.header);
        shown.field("batch_rows", &self.batch_rows).field("rejected_max", &self.rejected_max);
        shown.finish_non_exhaustive()
    }
}

/// The result of an import.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ImportReport {
    /// Number of rows that were inserted.
    pub rows: u64,
    /// Number of rows that were rejected.
    pub rejected: u64,
    /// True if it was one transaction.
    pub at_once: bool,
    /// Time that it took.
    pub elapsed: Duration,
}

/// Rows in one transaction by default.
const BATCH_ROWS: usize = 1_000;

/// A row that can be inserted, and its place in the file.
struct Row {
    line: u64,
    text: String,
    values: Vec<Value>,
}

impl Row {
    fn rejected(&self, error: &heddledb::Error) -> Rejected {
        Rejected { line: self.line, column: None, reason: error.to_string(), text: self.text.clone() }
    }

    fn insert(&self, tx: &heddledb::Tx<'_, '_>, table: &Table) -> heddledb::Result<()> {
        tx.insert(table, self.values.iter().map(ValueRef::from).collect::<Vec<_>>())
    }
}

impl<'r> Import<'r> {
    /// An import of this format.
    pub fn new(format: Format) -> Import<'r> {
        Import {
            format,
            dialect: Dialect::default(),
            header: Header::default(),
            batch_rows: BATCH_ROWS,
            rejected_max: 0,
            on_rejected: None,
        }
    }

    /// Sets the delimiter and the quotes of CSV's fields.
    #[must_use]
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = dialect;
        self
    }

    /// Sets the meaning of CSV's first line.
    #[must_use]
    pub fn header(mut self, header: Header) -> Self {
        self.header = header;
        self
    }

    /// The format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Returns true if the first line of CSV names the columns. `None` if the line itself decides it.
    pub fn has_header(&self) -> Option<bool> {
        match self.header {
            Header::Auto => None,
            Header::Yes => Some(true),
            Header::No => Some(false),
        }
    }

    /// Sets the number of rows in one transaction, if the table is not loaded at once (1,000 by default).
    #[must_use]
    pub fn batch_rows(mut self, rows: usize) -> Self {
        self.batch_rows = rows.max(1);
        self
    }

    /// Continues after rows that the table refuses, at most this many, and passes each to a function. The
    /// other rows are imported.
    #[must_use]
    pub fn collect_rejected(mut self, most: u64, on_rejected: impl FnMut(&Rejected) + 'r) -> Self {
        self.rejected_max = most;
        self.on_rejected = Some(Box::new(on_rejected));
        self
    }

    /// Imports rows from anything that can be read. Parquet is read into memory first: [`run_file`](Self::run_file) does not.
    ///
    /// # Errors
    /// [`Error`]. `imported` in it says how many rows stay.
    pub fn run(&mut self, db: &Database, table: &Table, input: impl Read) -> Result<ImportReport> {
        let mut records = self.records(table.name(), &columns_of(table.definition()), input)?;
        self.run_records(db, table, records.as_mut())
    }

    /// Imports a file.
    ///
    /// # Errors
    /// Same errors as [`run`](Self::run).
    pub fn run_file(&mut self, db: &Database, table: &Table, path: impl AsRef<Path>) -> Result<ImportReport> {
        let mut records =
            self.records_of_file(table.name(), &columns_of(table.definition()), path.as_ref())?;
        self.run_records(db, table, records.as_mut())
    }

    /// The rows of an input, arranged by these columns of a table, for programs that insert them themselves.
    ///
    /// # Errors
    /// The input cannot be read, or is none of its format.
    pub fn records<'i>(
        &self,
        table: &str,
        columns: &[String],
        input: impl Read + 'i,
    ) -> Result<Box<dyn Records + 'i>> {
        let target = Target { table: table.to_string(), columns: columns.to_vec() };
        Ok(match self.format {
            Format::Csv => Box::new(CsvRecords::new(input, self.dialect.clone(), self.header, target)),
            Format::Json => Box::new(JsonRecords::new(input, target)),
            #[cfg(feature = "parquet")]
            Format::Parquet => Box::new(crate::parquet::ParquetRecords::of_input(input, target)?),
        })
    }

    /// The rows of a file, arranged by these columns of a table, as [`records`](Self::records) has those of
    /// an input.
    ///
    /// # Errors
    /// Same errors as [`records`](Self::records).
    pub fn records_of_file(
        &self,
        table: &str,
        columns: &[String],
        path: impl AsRef<Path>,
    ) -> Result<Box<dyn Records>> {
        let path = path.as_ref();
        let named = |error: std::io::Error| {
            Error::Io(std::io::Error::new(error.kind(), format!("{}: {error}", path.display())))
        };
        let file = File::open(path).map_err(named)?;
        match self.format {
            #[cfg(feature = "parquet")]
            Format::Parquet => {
                let target = Target { table: table.to_string(), columns: columns.to_vec() };
                let records =
                    crate::parquet::ParquetRecords::of_file(file, target).map_err(|error| match error {
                        Error::Io(error) => named(error),
                        other => other,
                    });
                Ok(Box::new(records?))
            }
            _ => self.records(table, columns, BufReader::new(file)),
        }
    }

    fn run_records(
        &mut self,
        db: &Database,
        table: &Table,
        records: &mut dyn Records,
    ) -> Result<ImportReport> {
        let start = Instant::now();
        let mut report = ImportReport { rows: 0, rejected: 0, at_once: false, elapsed: Duration::ZERO };
        if self.on_rejected.is_none() && load(db, table, records, &mut report.rows)? {
            report.at_once = true;
        } else {
            self.in_batches(db, table, records, &mut report)?;
        }
        report.elapsed = start.elapsed();
        Ok(report)
    }

    fn in_batches(
        &mut self,
        db: &Database,
        table: &Table,
        records: &mut dyn Records,
        report: &mut ImportReport,
    ) -> Result<()> {
        let mut batch = Vec::with_capacity(self.batch_rows);
        while let Some(record) = records.next_record()? {
            match record.and_then(|record| row_of(record, table.definition())) {
                Ok(row) => batch.push(row),
                Err(rejected) => {
                    // Rows before it first: an error says how many there are.
                    self.insert(db, table, &mut batch, report)?;
                    self.reject(rejected, report)?;
                }
            }
            if batch.len() >= self.batch_rows {
                self.insert(db, table, &mut batch, report)?;
            }
        }
        self.insert(db, table, &mut batch, report)
    }

    fn insert(
        &mut self,
        db: &Database,
        table: &Table,
        batch: &mut Vec<Row>,
        report: &mut ImportReport,
    ) -> Result<()> {
        match db.run(|tx| batch.iter().try_for_each(|row| row.insert(tx, table))) {
            Ok(()) => report.rows += batch.len() as u64,
            Err(error) if !is_of_row(&error) => return Err(error.into()),
            Err(_) => {
                for row in &*batch {
                    match db.run(|tx| row.insert(tx, table)) {
                        Ok(()) => report.rows += 1,
                        Err(error) if is_of_row(&error) => self.reject(row.rejected(&error), report)?,
                        Err(error) => return Err(error.into()),
                    }
                }
            }
        }
        batch.clear();
        Ok(())
    }

    fn reject(&mut self, rejected: Rejected, report: &mut ImportReport) -> Result<()> {
        let imported = report.rows;
        let Some(on_rejected) = &mut self.on_rejected else {
            return Err(Error::Rejected { rejected: Box::new(rejected), imported });
        };
        on_rejected(&rejected);
        report.rejected += 1;
        if report.rejected > self.rejected_max {
            return Err(Error::TooManyRejected {
                most: self.rejected_max,
                last: Box::new(rejected),
                imported,
            });
        }
        Ok(())
    }
}

fn columns_of(definition: &TableDefinition) -> Vec<String> {
    definition.columns().iter().map(|column| column.name.clone()).collect()
}

/// The row's values by the types of the table's columns; those that the file does not have get their defaults.
fn row_of(record: Record, definition: &TableDefinition) -> std::result::Result<Row, Rejected> {
    let Record { line, text, fields } = record;
    let mut values = Vec::with_capacity(fields.len());
    for (field, column) in fields.into_iter().zip(definition.columns()) {
        match field.map_or(Ok(column.default.clone()), |field| field.to_value(&column.data_type)) {
            Ok(value) => values.push(value),
            Err(reason) => {
                return Err(Rejected { line, column: Some(column.name.clone()), reason, text });
            }
        }
    }
    Ok(Row { line, text, values })
}

/// Returns true if an error concerns a single row, so that other rows may be fine.
fn is_of_row(error: &heddledb::Error) -> bool {
    matches!(&error.sqlstate()[..2], "22" | "23") || matches!(error.sqlstate(), "42804" | "54000" | "42601")
}

/// Loads a table that has no rows in one transaction. False: it has some, or cannot be loaded at once, and nothing was read.
fn load(db: &Database, table: &Table, records: &mut dyn Records, rows: &mut u64) -> Result<bool> {
    if db.read(|snapshot| Ok(snapshot.scan(table, Range::all())?.next().is_some()))? {
        return Ok(false);
    }
    let mut session = db.session()?;
    session.begin()?;
    // Reading it makes the commit fail if another transaction inserts a row.
    let is_empty = session
        .lock_schema()
        .and_then(|()| session.run(|tx| Ok(tx.scan(table, Range::all())?.next().transpose()?.is_none())))?;
    if !is_empty || session.truncate(&[table.name()]).is_err() {
        session.rollback()?;
        return Ok(false);
    }
    let empty = session.table(table.name())?;
    let (mut stopped, begun, mut count) = (None, Cell::new(false), 0);
    let loaded = session.load(|tx| {
        // What was read of the file once is gone: it is not retried.
        if begun.replace(true) {
            return Err(heddledb::Error::Conflict);
        }
        loop {
            let row = match records.next_record() {
                Ok(None) => return Ok(()),
                Ok(Some(record)) => record.and_then(|record| row_of(record, empty.definition())),
                Err(error) => {
                    stopped = Some(error);
                    return Err(heddledb::fail("the file ends here"));
                }
            };
            let inserted = match &row {
                Ok(row) => row.insert(tx, &empty),
                Err(_) => Err(heddledb::fail("the file ends here")),
            };
            if let Err(error) = inserted {
                let rejected = match row {
                    Ok(row) if is_of_row(&error) => Some(row.rejected(&error)),
                    Ok(_) => None,
                    Err(rejected) => Some(rejected),
                };
                stopped =
                    rejected.map(|rejected| Error::Rejected { rejected: Box::new(rejected), imported: 0 });
                return Err(error);
            }
            count += 1;
        }
    });
    let outcome = loaded.and_then(|()| session.commit());
    if outcome.is_err() {
        // It may have ended already; the reason is the error that came first.
        let _ = session.rollback();
    }
    match (outcome, stopped) {
        (_, Some(error)) => Err(error),
        (Err(error), None) if error.is_retryable() => Err(Error::Interrupted),
        (Err(error), None) => Err(error.into()),
        (Ok(()), None) => {
            *rows = count;
            Ok(true)
        }
    }
}
