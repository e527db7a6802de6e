//! Tables of HeddleDB to and from files: CSV, JSON and, with the feature `parquet`, Parquet.
//!
//! ```
//! # use heddledb::{DataType, Database, TableDefinition, row};
//! use heddledb_transfer::{Export, Format, Import};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let db = Database::in_memory()?;
//! # let items = db.create_table(TableDefinition::new("item").column("id", DataType::Int64).column("name", DataType::Text)
//! #     .primary_key(["id"]))?;
//! let report = Import::new(Format::Csv).run(&db, &items, "id,name\n1,pen\n2,\n".as_bytes())?;
//! assert_eq!(report.rows, 2);
//!
//! let mut text = Vec::new();
//! Export::new(Format::Json).run(&db, &items, &mut text)?;
//! assert_eq!(text, b"{\"id\":1,\"name\":\"pen\"}\n{\"id\":2,\"name\":null}\n");
//! # Ok(())
//! # }
//! ```
//!
//! Every type of the engine is read back from each format unchanged:
//!
//! | type | CSV | JSON | Parquet |
//! | --- | --- | --- | --- |
//! | NULL | nothing; the empty text is `""` | `null` | null |
//! | bool | `t`, `f`; read: also `true`, `false`, `1`, `0` … | `true`, `false` | `BOOLEAN` |
//! | int32, int64 | digits | a number | `INT32`, `INT64` |
//! | float64 | the shortest text that reads back the same; `NaN`, `Infinity`, `-Infinity` | a number; those three as texts | `DOUBLE` |
//! | decimal | digits | a text, because most readers of JSON round numbers; read: also a number | `DECIMAL` |
//! | text | itself | a text | `STRING` |
//! | bytes | `\x` and hexadecimal digits | the same, as a text | `BYTE_ARRAY` |
//! | date, timestamp, uuid | as `psql` writes them; a timestamp as in RFC 3339, in UTC | the same, as a text | `DATE`, `TIMESTAMP(MICROS, UTC)`, `UUID` |
//! | ordered tuple, top-K set | as in JSON | a list of values; a list of such lists | `JSON` |
//!
//! The files, in the order in which they name each other: `error` → `field` (a value on its way), `csv` → `record` (readers), `writer`,
//! `json`, `parquet` → `import`, `new_file`, `export`.

#![warn(missing_debug_implementations)]

pub mod csv;
mod error;
mod export;
mod field;
mod import;
mod json;
mod new_file;
#[cfg(feature = "parquet")]
mod parquet;
mod record;
mod writer;

pub use error::{Error, Rejected, Result};
pub use export::{Export, ExportReport};
pub use field::Field;
pub use import::{Import, ImportReport};
pub use new_file::write_file;
pub use record::{Header, Record, Records};
pub use writer::{Column, Writer};

use std::path::Path;
use std::str::FromStr;

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Lines of fields, separated by commas: RFC 4180, with PostgreSQL's NULL.
    Csv,
    /// An object on each line. A list of objects is read, too.
    Json,
    /// Apache Parquet.
    #[cfg(feature = "parquet")]
    Parquet,
}

impl Format {
    /// The format that the end of a file's name tells: `.csv`, `.json`, `.jsonl`, `.ndjson`, `.parquet`.
    pub fn of_path(path: impl AsRef<Path>) -> Option<Format> {
        match path.as_ref().extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "jsonl" | "ndjson" => Some(Format::Json),
            name => name.parse().ok(),
        }
    }
}

impl FromStr for Format {
    type Err = Error;

    /// `csv`, `json`, `parquet`.
    fn from_str(text: &str) -> Result<Format> {
        match text {
            "csv" => Ok(Format::Csv),
            "json" => Ok(Format::Json),
            #[cfg(feature = "parquet")]
            "parquet" => Ok(Format::Parquet),
            _ => Err(Error::UnknownFormat { text: text.to_string() }),
        }
    }
}
