//! Runs the sqllogictest files of `slt/` under each protocol of the engine.
//!
//! `SLT=name` runs only the files whose name contains it.

use std::path::PathBuf;

use heddle_sql::{Connection, Sql, SqlError, Type};
use heddledb::{Database, Durability, Options, ProtocolKind};
use sqllogictest::{DB, DBOutput, DefaultColumnType, Runner};

/// A connection as sqllogictest drives it.
struct Driver(Connection);

#[derive(Debug)]
struct Failure(SqlError);

impl std::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}", self.0)
    }
}

impl std::error::Error for Failure {}

impl From<SqlError> for Failure {
    fn from(error: SqlError) -> Failure {
        Failure(error)
    }
}

fn column_type(ty: Type) -> DefaultColumnType {
    match ty {
        Type::Int2 | Type::Int4 | Type::Int8 => DefaultColumnType::Integer,
        Type::Float4 | Type::Float8 | Type::Numeric => DefaultColumnType::FloatingPoint,
        _ => DefaultColumnType::Text,
    }
}

impl DB for Driver {
    type Error = Failure;
    type ColumnType = DefaultColumnType;

    fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Failure> {
        let results = self.0.query(sql)?;
        let Some(result) = results.last() else { return Ok(DBOutput::StatementComplete(0)) };
        let Some(fields) = &result.fields else {
            let count = result.tag.rsplit(' ').next().and_then(|count| count.parse().ok());
            return Ok(DBOutput::StatementComplete(count.unwrap_or(0)));
        };
        let types = fields.iter().map(|field| column_type(field.ty)).collect();
        let shown = |text: Option<String>| match text {
            None => "NULL".to_string(),
            Some(text) if text.is_empty() => "(empty)".to_string(),
            Some(text) => text,
        };
        let rows = self.0.text_rows(result)?.into_iter().map(|row| row.into_iter().map(shown).collect());
        Ok(DBOutput::Rows { types, rows: rows.collect() })
    }

    fn engine_name(&self) -> &str {
        "heddle"
    }
}

fn files() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/integration/slt");
    let wanted = std::env::var("SLT").unwrap_or_default();
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("the folder of sqllogictest files")
        .map(|entry| entry.expect("a file of the folder").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "slt"))
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().contains(&wanted)))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no file matches {wanted:?}");
    files
}

/// Runs every file on a database of its own, and reports all that fail.
fn run(protocol: ProtocolKind) {
    let mut failures = Vec::new();
    for file in files() {
        let options = Options::default().durability(Durability::None).protocol(protocol);
        let database = Database::in_memory_with(options).expect("a database in memory");
        let sql = Sql::new(&database).expect("SQL on an empty database");
        let mut runner = Runner::new(|| async { Ok(Driver(sql.connect(Default::default())?)) });
        let records =
            sqllogictest::parse_file(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        for record in records {
            if let Err(error) = runner.run(record) {
                failures.push(format!("{error}"));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn files_pass_under_optimistic() {
    run(ProtocolKind::Optimistic);
}

#[test]
fn files_pass_under_serial() {
    run(ProtocolKind::Serial);
}

#[test]
fn files_pass_under_locking() {
    run(ProtocolKind::Locking);
}

#[test]
fn files_pass_under_phased() {
    run(ProtocolKind::Phased);
}

#[test]
fn files_pass_under_partitioned() {
    run(ProtocolKind::Partitioned);
}
