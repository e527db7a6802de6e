//! `heddle import` and `heddle export`: tables from and to CSV, JSON and Parquet files.
//!
//! ```text
//! import     files into tables                   export   tables into files
//! guess      what a file is probably like         create    tables for files
//! sql_table  the same for tables that SQL knows: by COPY, with the types, checks and defaults of SQL
//! ```
//!
//! A table that only the engine knows is the library's to read and write (`heddledb-transfer`), which reads and writes the files in either case.

mod create;
pub mod export;
mod guess;
pub mod import;
pub mod sql_table;

use std::path::Path;

use clap::ValueEnum;
use heddledb_transfer::Format;

use crate::failure::{Failure, Result};

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum FormatName {
    /// Comma-separated values; NULL is an empty field, an empty text is ""
    Csv,
    /// An object on each line; import takes a list of objects, too
    Json,
    /// Apache Parquet
    Parquet,
}

/// The format that was named, or that the end of the file's name tells; CSV on standard input and output.
fn format_of(named: Option<FormatName>, file: Option<&Path>) -> Result<Format> {
    match (named, file) {
        (Some(FormatName::Csv), _) | (None, None) => Ok(Format::Csv),
        (Some(FormatName::Json), _) => Ok(Format::Json),
        (Some(FormatName::Parquet), _) => Ok(Format::Parquet),
        (None, Some(file)) => Format::of_path(file).ok_or_else(|| {
            let file = file.display();
            Failure::Usage(format!("{file}: its name does not end in .csv, .json or .parquet; give --format"))
        }),
    }
}

/// The file; none for `-`.
fn file_of(path: &Path) -> Option<&Path> {
    (path != Path::new("-")).then_some(path)
}

impl From<heddledb_transfer::Error> for Failure {
    fn from(error: heddledb_transfer::Error) -> Failure {
        match error {
            heddledb_transfer::Error::Engine(error) => error.into(),
            heddledb_transfer::Error::Rejected { rejected, imported } => {
                import::ended_by(&rejected, imported, false)
            }
            other => Failure::Failed(other.to_string()),
        }
    }
}
