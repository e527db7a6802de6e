//! Tables into files.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use heddledb::{Database, Range, Snapshot, Table};

use crate::Format;
use crate::csv::Dialect;
use crate::error::Result;
use crate::new_file::write_file;
use crate::writer::{Column, LineWriter, Writer};

/// The export of a table into a file.
///
/// The rows are those of one snapshot, in the order of the primary key if the table has an ordered index;
/// transactions continue meanwhile.
#[derive(Clone, Debug)]
pub struct Export {
    format: Format,
    dialect: Dialect,
    header: bool,
}

/// The result of an export.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ExportReport {
    /// Number of rows.
    pub rows: u64,
    /// Time that it took.
    pub elapsed: Duration,
}

impl Export {
    /// An export into this format.
    pub fn new(format: Format) -> Export {
        Export { format, dialect: Dialect::default(), header: true }
    }

    /// The format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Sets the delimiter and the quotes of CSV's fields.
    #[must_use]
    pub fn dialect(mut self, dialect: Dialect) -> Export {
        self.dialect = dialect;
        self
    }

    /// Sets that CSV begins with the columns' names, which is the default, or not.
    #[must_use]
    pub fn header(mut self, header: bool) -> Export {
        self.header = header;
        self
    }

    /// Writes a table as it is now.
    ///
    /// # Errors
    /// The file cannot be written; the snapshot's.
    pub fn run(&self, db: &Database, table: &Table, output: impl Write + Send) -> Result<ExportReport> {
        self.run_snapshot(&db.snapshot()?, table, output)
    }

    /// Writes a table as it is now into a file, as [`write_file`] does: all of it or nothing.
    ///
    /// # Errors
    /// Same errors as [`run`](Self::run).
    pub fn run_file(&self, db: &Database, table: &Table, path: impl AsRef<Path>) -> Result<ExportReport> {
        write_file(path, |file| self.run(db, table, file))
    }

    /// Writes a table as a snapshot shows it: so several tables fit together.
    ///
    /// # Errors
    /// Same errors as [`run`](Self::run).
    pub fn run_snapshot(
        &self,
        snapshot: &Snapshot,
        table: &Table,
        output: impl Write + Send,
    ) -> Result<ExportReport> {
        let start = Instant::now();
        let columns: Vec<Column> = table
            .definition()
            .columns()
            .iter()
            .enumerate()
            .map(|(position, column)| Column {
                name: column.name.clone(),
                data_type: column.data_type.clone(),
                not_null: column.not_null || table.definition().key().contains(&position),
            })
            .collect();
        let mut writer = self.writer(output, &columns)?;
        let mut rows = 0;
        for row in snapshot.scan(table, Range::all())? {
            writer.row(&row?.to_values())?;
            rows += 1;
        }
        writer.finish()?;
        Ok(ExportReport { rows, elapsed: start.elapsed() })
    }

    /// A writer of rows of any origin.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn writer<'w>(
        &self,
        output: impl Write + Send + 'w,
        columns: &[Column],
    ) -> Result<Box<dyn Writer + 'w>> {
        Ok(match self.format {
            Format::Csv => Box::new(LineWriter::csv(output, columns, self.dialect.clone(), self.header)),
            Format::Json => Box::new(LineWriter::json(output, columns)),
            #[cfg(feature = "parquet")]
            Format::Parquet => Box::new(crate::parquet::ParquetWriter::new(output, columns)?),
        })
    }
}
