//! Results as text: an aligned table, CSV, JSON, Markdown; and how they are printed.

use std::fmt::Write;

use clap::ValueEnum;

use crate::sql::table::Table;

/// The format of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Columns side by side
    Table,
    /// Columns with a bar between them, not aligned
    Unaligned,
    /// Comma-separated values with a heading
    Csv,
    /// An array of objects
    Json,
    /// A table in Markdown
    Markdown,
}

impl Format {
    /// The format of this name; those of psql are known, too.
    pub fn named(name: &str) -> Option<Format> {
        match name {
            "aligned" | "wrapped" => Some(Format::Table),
            _ => Format::from_str(name, true).ok(),
        }
    }

    /// Its name, as psql has it.
    pub fn name(self) -> &'static str {
        match self {
            Format::Table => "aligned",
            Format::Unaligned => "unaligned",
            Format::Csv => "csv",
            Format::Json => "json",
            Format::Markdown => "markdown",
        }
    }
}

/// The expanded display: each row is a table of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expanded {
    #[default]
    Off,
    On,
    /// Expanded if a table would be wider than the terminal.
    Auto,
}

/// Settings of the display of results: `\pset`.
#[derive(Clone, Debug)]
pub struct Display {
    pub format: Format,
    pub expanded: Expanded,
    /// The text that is printed for NULL, in formats of text; an empty text is printed as it is, since it is
    /// a value.
    pub null: String,
    /// 0: blanks between columns, 1: rules, 2: a frame, too.
    pub border: u8,
    pub tuples_only: bool,
    pub footer: bool,
    pub title: String,
    pub field_separator: String,
    pub pager: bool,
}

impl Display {
    /// The usual one, in a format.
    pub fn new(format: Format) -> Display {
        Display {
            format,
            expanded: Expanded::Off,
            null: "NULL".to_owned(),
            border: 1,
            tuples_only: false,
            footer: true,
            title: String::new(),
            field_separator: "|".to_owned(),
            pager: true,
        }
    }
}

/// Rows with their columns' names; NULL is none.
pub struct Rows {
    pub names: Vec<String>,
    /// Flags of the columns that are aligned to the right, and are numbers and truth values in JSON.
    pub numbers: Vec<bool>,
    pub rows: Vec<Vec<Option<String>>>,
}

impl Rows {
    /// The rows as text; `columns`: how wide the terminal is.
    pub fn text(&self, display: &Display, columns: usize) -> String {
        let aligned = || {
            let table = Table { rows: self, display };
            let is_expanded = match display.expanded {
                Expanded::Off => false,
                Expanded::On => true,
                Expanded::Auto => table.width() > columns,
            };
            if is_expanded { table.expanded() } else { table.aligned() }
        };
        match display.format {
            Format::Table => aligned(),
            Format::Unaligned => self.unaligned(display),
            Format::Csv => self.csv(display.tuples_only),
            Format::Json => self.json(),
            Format::Markdown => self.markdown(&display.null),
        }
    }

    fn unaligned(&self, display: &Display) -> String {
        let mut text = String::new();
        let separator = display.field_separator.as_str();
        if display.expanded == Expanded::On {
            for (number, row) in self.rows.iter().enumerate() {
                text.push_str(if number > 0 { "\n" } else { "" });
                for (name, value) in self.names.iter().zip(row) {
                    let _ = writeln!(text, "{name}{separator}{}", value.as_deref().unwrap_or(&display.null));
                }
            }
            return text;
        }
        if !display.tuples_only {
            let _ = writeln!(text, "{}", self.names.join(separator));
        }
        for row in &self.rows {
            let cells: Vec<&str> = row.iter().map(|it| it.as_deref().unwrap_or(&display.null)).collect();
            let _ = writeln!(text, "{}", cells.join(separator));
        }
        if display.footer && !display.tuples_only {
            let _ = writeln!(text, "{}", count(self.rows.len()));
        }
        text
    }

    fn csv(&self, is_headless: bool) -> String {
        let field = |value: &str| match value.contains(['"', ',', '\n', '\r']) || value.is_empty() {
            true => format!("\"{}\"", value.replace('"', "\"\"")),
            false => value.to_string(),
        };
        let mut text = String::new();
        let names: Vec<String> = self.names.iter().map(|name| field(name)).collect();
        if !is_headless {
            let _ = writeln!(text, "{}", names.join(","));
        }
        for row in &self.rows {
            // NULL is an empty field, an empty text is two quotes.
            let fields: Vec<String> =
                row.iter().map(|value| value.as_deref().map(field).unwrap_or_default()).collect();
            let _ = writeln!(text, "{}", fields.join(","));
        }
        text
    }

    fn json(&self) -> String {
        let rows: Vec<serde_json::Value> = self.rows.iter().map(|row| self.json_row(row)).collect();
        let lines: Vec<String> = rows.iter().map(ToString::to_string).collect();
        if lines.is_empty() { "[]\n".to_string() } else { format!("[\n  {}\n]\n", lines.join(",\n  ")) }
    }

    fn json_row(&self, row: &[Option<String>]) -> serde_json::Value {
        let value = |(value, is_number): (&Option<String>, &bool)| match value {
            None => serde_json::Value::Null,
            Some(text) if *is_number => {
                serde_json::from_str(text).unwrap_or_else(|_| serde_json::Value::String(text.clone()))
            }
            Some(text) => serde_json::Value::String(text.clone()),
        };
        self.names.iter().cloned().zip(row.iter().zip(&self.numbers).map(value)).collect()
    }

    fn markdown(&self, null: &str) -> String {
        let cell = |text: &str| text.replace('|', "\\|").replace('\n', "<br>");
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut text = line(self.names.iter().map(|name| cell(name)).collect());
        let rule = |is_number: &bool| if *is_number { "---:" } else { "---" }.to_string();
        text.push_str(&line(self.numbers.iter().map(rule).collect()));
        for row in &self.rows {
            text.push_str(&line(row.iter().map(|value| cell(value.as_deref().unwrap_or(null))).collect()));
        }
        text
    }
}

fn count(rows: usize) -> String {
    format!("({rows} row{})", if rows == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Rows {
        let text = |text: &str| Some(text.to_string());
        Rows {
            names: vec!["id".to_string(), "name".to_string()],
            numbers: vec![true, false],
            rows: vec![vec![text("1"), text("a,\"b\"")], vec![text("22"), None], vec![None, text("")]],
        }
    }

    fn printed(format: Format, change: impl FnOnce(&mut Display)) -> String {
        let mut display = Display::new(format);
        change(&mut display);
        rows().text(&display, 80)
    }

    #[test]
    fn csv_tells_null_from_an_empty_text() {
        assert_eq!(printed(Format::Csv, |_| ()), "id,name\n1,\"a,\"\"b\"\"\"\n22,\n,\"\"\n");
        assert_eq!(
            printed(Format::Csv, |display| display.tuples_only = true),
            "1,\"a,\"\"b\"\"\"\n22,\n,\"\"\n"
        );
    }

    #[test]
    fn json_has_numbers_and_nulls() {
        let expected = "[\n  {\"id\":1,\"name\":\"a,\\\"b\\\"\"},\n  {\"id\":22,\"name\":null},\n  {\"id\":null,\"name\":\"\"}\n]\n";
        assert_eq!(printed(Format::Json, |_| ()), expected);
    }

    #[test]
    fn markdown_aligns_numbers_to_the_right() {
        let text = printed(Format::Markdown, |_| ());
        assert!(
            text.starts_with("| id | name |\n| ---: | --- |\n| 1 | a,\"b\" |\n| 22 | NULL |\n"),
            "{text}"
        );
    }

    #[test]
    fn unaligned_columns_are_separated_by_a_text_of_choice() {
        assert_eq!(printed(Format::Unaligned, |_| ()), "id|name\n1|a,\"b\"\n22|NULL\nNULL|\n(3 rows)\n");
        let bare = |display: &mut Display| {
            (display.tuples_only, display.field_separator) = (true, "\t".to_owned());
            display.null.clear();
        };
        assert_eq!(printed(Format::Unaligned, bare), "1\ta,\"b\"\n22\t\n\t\n");
    }
}
