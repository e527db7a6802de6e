//! Tables of many runs: as text, or as JSON.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use serde_json::{Value, json};

use crate::failure::Result;
use crate::output;

/// A number of a run, or 0.
pub fn number(object: &Value, path: &str) -> f64 {
    object.pointer(path).and_then(Value::as_f64).unwrap_or(0.0)
}

/// A text of a row, or none.
pub fn text_of(object: &Value, key: &str) -> String {
    object[key].as_str().unwrap_or_default().to_owned()
}

/// Prints the table, or the JSON.
pub fn tell(
    as_json: bool,
    name: &str,
    heading: Vec<String>,
    rows: &[Value],
    cells: impl Fn(&Value) -> Vec<String>,
) -> Result {
    if as_json {
        return output::print(json!({ name: rows }));
    }
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(heading);
    rows.iter().for_each(|row| {
        table.add_row(cells(row));
    });
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    output::print(table)
}
