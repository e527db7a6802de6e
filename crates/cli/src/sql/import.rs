//! CSV files into tables: in pieces, each a statement; of a piece that is refused, row by row.

use std::path::Path;

use crate::bar::Bar;
use crate::output;
use crate::sql::shell::Shell;

/// How many rows are given to the database at a time.
const ROWS_AT_ONCE: usize = 5_000;
/// How many rejected rows are reported one by one.
const TOLD_MAX: u64 = 20;

/// What came of it.
#[derive(Debug, Default)]
pub struct Imported {
    pub rows: u64,
    pub rejected: u64,
}

/// Imports a file with a heading into the columns that the heading names.
///
/// # Errors
/// The file cannot be read, or is no CSV; what the heading says is not there.
pub fn csv(shell: &mut Shell, file: &Path, table: &str) -> Result<Imported, String> {
    let bytes = std::fs::metadata(file).map_err(|error| format!("{}: {error}", file.display()))?.len();
    let mut reader = csv::ReaderBuilder::new().from_path(file).map_err(|error| error.to_string())?;
    let heading = reader.headers().map_err(|error| error.to_string())?.clone();
    let columns: Vec<String> =
        heading.iter().map(|name| format!("\"{}\"", name.trim().replace('"', "\"\""))).collect();
    let copy = format!("copy {table} ({}) from stdin (format csv)", columns.join(", "));
    let bar = Bar::new("importing");
    let mut imported = Imported::default();
    let mut piece: Vec<(u64, Vec<u8>)> = Vec::with_capacity(ROWS_AT_ONCE);
    for record in reader.records() {
        let record = record.map_err(|error| error.to_string())?;
        let (line, at) = record.position().map_or((0, 0), |position| (position.line(), position.byte()));
        piece.push((line, encoded(&record)?));
        if piece.len() == ROWS_AT_ONCE {
            import_piece(shell, &copy, &piece, &mut imported)?;
            piece.clear();
            bar.show(true, at, bytes);
        }
    }
    import_piece(shell, &copy, &piece, &mut imported)?;
    Ok(imported)
}

fn encoded(record: &csv::StringRecord) -> Result<Vec<u8>, String> {
    let mut writer = csv::WriterBuilder::new().from_writer(Vec::new());
    writer.write_record(record).map_err(|error| error.to_string())?;
    writer.into_inner().map_err(|error| error.to_string())
}

fn import_piece(
    shell: &mut Shell,
    copy: &str,
    piece: &[(u64, Vec<u8>)],
    imported: &mut Imported,
) -> Result<(), String> {
    if piece.is_empty() {
        return Ok(());
    }
    let data: Vec<u8> = piece.iter().flat_map(|(_, row)| row.iter().copied()).collect();
    let Err(error) = shell.connection.copy_from(copy, &data) else {
        imported.rows += piece.len() as u64;
        return Ok(());
    };
    // What is wrong with the table or its columns is wrong for every row.
    if error.state().class() == "42" {
        return Err(error.to_string());
    }
    for (line, row) in piece {
        match shell.connection.copy_from(copy, row) {
            Ok(_) => imported.rows += 1,
            Err(error) => {
                imported.rejected += 1;
                if imported.rejected <= TOLD_MAX {
                    output::report(format_args!("line {line}: {}", error.message()));
                }
            }
        }
    }
    Ok(())
}
