//! Rows into files.

use std::io::Write;

use heddledb::{DataType, Value};

use crate::csv::{Dialect, write_field};
use crate::error::Result;
use crate::field::{json_of, text_of};

/// A column of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The type of its values.
    pub data_type: DataType,
    /// True if it is never NULL.
    pub not_null: bool,
}

/// Writes rows.
pub trait Writer {
    /// Writes a row: a value for each column.
    ///
    /// # Errors
    /// The file cannot be written.
    fn row(&mut self, values: &[Value]) -> Result<()>;

    /// Writes what is left.
    ///
    /// # Errors
    /// Same errors as [`row`](Self::row).
    fn finish(&mut self) -> Result<()>;
}

/// Bytes of lines that are written at a time.
const PIECE_BYTES: usize = 64 * 1024;

/// Lines of CSV or JSON.
pub(crate) struct LineWriter<W: Write> {
    output: W,
    columns: Vec<Column>,
    /// `None` for JSON.
    dialect: Option<Dialect>,
    /// The text before each value of JSON: `{"name":`, `,"other":`.
    names: Vec<String>,
    lines: String,
    text: String,
}

impl<W: Write> LineWriter<W> {
    pub fn csv(output: W, columns: &[Column], dialect: Dialect, header: bool) -> LineWriter<W> {
        let mut writer = LineWriter::new(output, columns, Some(dialect));
        if header {
            let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
            for (position, name) in names.iter().enumerate() {
                writer.field(position, Some(name));
            }
            writer.lines.push('\n');
        }
        writer
    }

    pub fn json(output: W, columns: &[Column]) -> LineWriter<W> {
        let mut writer = LineWriter::new(output, columns, None);
        let name = |(position, column): (usize, &Column)| {
            let name = serde_json::Value::String(column.name.clone());
            format!("{}{name}:", if position == 0 { '{' } else { ',' })
        };
        writer.names = columns.iter().enumerate().map(name).collect();
        writer
    }

    fn new(output: W, columns: &[Column], dialect: Option<Dialect>) -> LineWriter<W> {
        let columns = columns.to_vec();
        LineWriter { output, columns, dialect, names: Vec::new(), lines: String::new(), text: String::new() }
    }

    fn field(&mut self, position: usize, text: Option<&str>) {
        let Some(dialect) = &self.dialect else { return };
        if position > 0 {
            self.lines.push(dialect.delimiter);
        }
        write_field(text, dialect, self.columns.len() == 1, false, &mut self.lines);
    }

    fn flush_lines(&mut self) -> Result<()> {
        self.output.write_all(self.lines.as_bytes())?;
        self.lines.clear();
        Ok(())
    }
}

impl<W: Write> Writer for LineWriter<W> {
    fn row(&mut self, values: &[Value]) -> Result<()> {
        for (position, value) in values.iter().enumerate() {
            let data_type = &self.columns[position].data_type;
            if self.dialect.is_none() {
                self.lines.push_str(&self.names[position]);
                json_of(value, data_type, &mut self.lines)?;
                continue;
            }
            let mut text = std::mem::take(&mut self.text);
            text.clear();
            text_of(value, data_type, &mut text)?;
            self.field(position, (!value.is_null()).then_some(text.as_str()));
            self.text = text;
        }
        self.lines.push_str(if self.dialect.is_none() { "}\n" } else { "\n" });
        if self.lines.len() >= PIECE_BYTES { self.flush_lines() } else { Ok(()) }
    }

    fn finish(&mut self) -> Result<()> {
        self.flush_lines()?;
        Ok(self.output.flush()?)
    }
}
