//! `heddle import`: a file into a table.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum};
use heddle_sql::Connection;
use heddledb::{Database, Options};
use heddledb_transfer::csv::Dialect;
use heddledb_transfer::{Format, Header, Import, Records, Rejected};

use super::{FormatName, create, file_of, format_of, guess, sql_table};
use crate::bar::Bar;
use crate::failure::{Failure, Result};
use crate::{output, recovering};

/// Insert the rows of a CSV, JSON or Parquet file into a table.
///
/// All rows are inserted, or none: the first row that the table does not take ends the import, with its line and column. With --keep-going
/// such rows are left out; with --batch-rows each batch is a transaction of its own, and stays. Columns that the file does not have get
/// their defaults. A table that was created without SQL and has rows already is filled in batches.
#[derive(Args)]
#[command(after_help = "\
Examples:
  heddle import shop.heddle item items.csv
  heddle import shop.heddle item items.csv --create         a new table, with types by what is in the file
  heddle import shop.heddle item items.parquet --keep-going --rejected rejected.csv
  sort items.csv | heddle import shop.heddle item - --header=no")]
pub struct Arguments {
    /// The database directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// The table
    #[arg(value_name = "TABLE")]
    table: String,
    /// The file; - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The file's format [default: what its name ends in; on standard input csv]
    #[arg(long, value_enum)]
    format: Option<FormatName>,
    /// Meaning of CSV's first line; auto: it names the columns if each of its fields is a column's name
    #[arg(long, value_enum, default_value = "auto", default_missing_value = "yes", num_args = 0..=1, require_equals = true)]
    header: HeaderName,
    /// Delimiter of CSV fields [default: the one that cuts the first lines alike: a comma, a semicolon, a tab
    /// or a bar]
    #[arg(long, value_name = "CHARACTER")]
    delimiter: Option<char>,
    /// Text that means NULL in CSV
    #[arg(long, value_name = "TEXT", default_value = "")]
    null: String,
    /// Create the table, with the columns of the file and types by their values
    #[arg(long)]
    create: bool,
    /// Insert this many rows in a transaction, instead of all in one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    batch_rows: Option<u32>,
    /// Go on after rows that the table does not take; the exit code is 1 all the same
    #[arg(long)]
    keep_going: bool,
    /// Write rejected rows into this file, as they were
    #[arg(long, value_name = "FILE", requires = "keep_going")]
    rejected: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum HeaderName {
    Auto,
    Yes,
    No,
}

/// Most rejected rows that are reported one by one.
const REPORTED_MAX: u64 = 20;

/// Rejected rows on their way to standard error and a file.
struct Rejects {
    reported: u64,
    file: Option<File>,
    failed: Option<io::Error>,
}

impl Rejects {
    fn take(&mut self, rejected: &Rejected) {
        self.reported += 1;
        if self.reported <= REPORTED_MAX {
            output::report(rejected);
        }
        if let Some(Err(error)) = self.file.as_mut().map(|file| writeln!(file, "{}", rejected.text)) {
            self.failed = Some(error);
        }
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result {
    if !arguments.directory.is_dir() {
        let directory = arguments.directory.display();
        return Err(Failure::Usage(format!("{directory}: not a directory; give the path of a database")));
    }
    let db = Database::open(&arguments.directory, recovering::shown(Options::default()))?;
    let imported = import(&db, arguments);
    db.close()?;
    let (rows, rejected, seconds) = imported?;
    output::print(format_args!("{rows} rows imported, {rejected} rejected, in {seconds:.2} s"))?;
    match rejected {
        0 => Ok(()),
        _ => Err(Failure::Failed(format!("{rejected} rows were rejected"))),
    }
}

fn import(db: &Database, arguments: &Arguments) -> Result<(u64, u64, f64)> {
    let format = format_of(arguments.format, file_of(&arguments.file))?;
    if !arguments.create && sql_table::connection(db, &arguments.table)?.is_none() {
        // A table that there is not is wrong whatever the file is.
        db.table(&arguments.table)?;
    }
    let mut source = Source::open(arguments, format)?;
    let dialect = Dialect { delimiter: source.delimiter, null: arguments.null.clone(), ..Dialect::default() };
    let header = match arguments.header {
        HeaderName::Auto => Header::Auto,
        HeaderName::Yes => Header::Yes,
        HeaderName::No => Header::No,
    };
    let create = |path: &PathBuf| {
        File::create(path).map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))
    };
    let file = arguments.rejected.as_ref().map(create).transpose()?;
    let mut rejects = Rejects { reported: 0, file, failed: None };
    let mut import = Import::new(format).dialect(dialect).header(header);
    let start = Instant::now();
    if arguments.create {
        create::table(db, &arguments.table, &import, &mut source)?;
    }
    let imported = match sql_table::connection(db, &arguments.table)? {
        Some(connection) => import_into_sql(connection, &import, source, arguments, &mut rejects)?,
        None => {
            let table = db.table(&arguments.table)?;
            if arguments.keep_going {
                import = import.collect_rejected(u64::MAX, |rejected| rejects.take(rejected));
            }
            let report = match source.input {
                None => import.run_file(db, &table, &arguments.file)?,
                Some(input) => import.run(db, &table, input)?,
            };
            drop(import);
            (report.rows, report.rejected)
        }
    };
    match rejects.failed {
        Some(error) => Err(Failure::Failed(format!("cannot write rejected rows: {error}"))),
        None => Ok((imported.0, imported.1, start.elapsed().as_secs_f64())),
    }
}

/// The source of rows.
pub struct Source<'a> {
    pub file: &'a Path,
    /// The reader; `None` for a file that its format opens itself.
    pub input: Option<Box<dyn Read>>,
    pub delimiter: char,
    /// Length of the file; 0 if not known.
    bytes: u64,
}

impl<'a> Source<'a> {
    /// Opens it, and looks at its beginning.
    fn open(arguments: &'a Arguments, format: Format) -> Result<Source<'a>> {
        let path = file_of(&arguments.file);
        let named = |error: io::Error| Failure::Failed(format!("{}: {error}", arguments.file.display()));
        let bytes = path.and_then(|path| Some(std::fs::metadata(path).ok()?.len())).unwrap_or(0);
        let (mut delimiter, mut input) = (arguments.delimiter.unwrap_or(','), None);
        if format == Format::Csv || path.is_none() {
            let opened: Box<dyn Read> = match path {
                Some(path) => Box::new(BufReader::new(File::open(path).map_err(named)?)),
                None => Box::new(io::stdin()),
            };
            let (sample, whole) = guess::sample(opened).map_err(named)?;
            if arguments.delimiter.is_none() && format == Format::Csv {
                delimiter = guess::delimiter(&sample);
            }
            input = Some(whole);
        }
        Ok(Source { file: &arguments.file, input, delimiter, bytes })
    }

    /// The rows for a table's columns.
    fn records(self, import: &Import<'_>, table: &str, names: &[String]) -> Result<Box<dyn Records>> {
        Ok(match self.input {
            Some(input) => import.records(table, names, input)?,
            None => import.records_of_file(table, names, self.file)?,
        })
    }
}

fn import_into_sql(
    mut connection: Connection,
    import: &Import<'_>,
    source: Source<'_>,
    arguments: &Arguments,
    rejects: &mut Rejects,
) -> Result<(u64, u64)> {
    let table = sql_table::quoted(&arguments.table);
    let columns = sql_table::columns(&mut connection, &table)?;
    let names: Vec<String> = columns.into_iter().map(|column| column.name).collect();
    let (bar, bytes) = (Bar::new("importing"), source.bytes);
    let mut records = source.records(import, &arguments.table, &names)?;
    let is_atomic = !arguments.keep_going && arguments.batch_rows.is_none();
    let mut sink = sql_table::Sink::new(&mut connection, &table, &names).keep_going(arguments.keep_going);
    if let Some(rows) = arguments.batch_rows {
        sink = sink.batch_rows(rows as usize);
    }
    if is_atomic {
        sink.begin()?;
    }
    let mut read = 0;
    while let Some(record) = records.next_record()? {
        let rejected = match record {
            Ok(record) => {
                read += record.text.len() as u64 + 1;
                bar.show(true, read.min(bytes), bytes);
                sink.push(record)?
            }
            Err(rejected) => {
                let mut all = sink.flush()?;
                all.push(rejected);
                all
            }
        };
        report(&rejected, sink.stays(), arguments, rejects)?;
    }
    report(&sink.flush()?, sink.stays(), arguments, rejects)?;
    sink.commit()?;
    Ok((sink.rows, rejects.reported))
}

/// Reports rejected rows, and fails at the first one unless the import is to continue.
fn report(rejected: &[Rejected], rows: u64, arguments: &Arguments, rejects: &mut Rejects) -> Result {
    match rejected.first() {
        Some(first) if !arguments.keep_going => {
            let format = format_of(arguments.format, file_of(&arguments.file))?;
            Err(ended_by(first, rows, format == Format::Csv && first.line == 1))
        }
        _ => {
            rejected.iter().for_each(|rejected| rejects.take(rejected));
            Ok(())
        }
    }
}

/// The failure of an import that a row has ended, with this many rows before it imported. `may_be_header`: the row may have been
/// meant as the names of the columns.
pub fn ended_by(rejected: &Rejected, rows: u64, may_be_header: bool) -> Failure {
    let (stays, remedy) = match rows {
        0 => ("nothing is imported".to_string(), "correct the line"),
        1 => ("the row before it is imported".to_string(), "correct the line, remove that row from the file"),
        _ => (
            format!("the {rows} rows before it are imported"),
            "correct the line, remove those rows from the file",
        ),
    };
    let header = if may_be_header { "; if this line names columns, give --header" } else { "" };
    Failure::Failed(format!("{rejected}; {stays}: {remedy}, or give --keep-going{header}"))
}
