//! Results as text: an aligned table, CSV, JSON, Markdown; or each row on its own.

use std::fmt::Write;

use clap::ValueEnum;

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Columns side by side
    Table,
    /// Comma-separated values with a heading
    Csv,
    /// An array of objects
    Json,
    /// A table in Markdown
    Markdown,
}

impl Format {
    /// The format of this name.
    pub fn named(name: &str) -> Option<Format> {
        Format::from_str(name, true).ok()
    }
}

/// Rows with their columns' names; NULL is none.
pub struct Rows {
    pub names: Vec<String>,
    /// Which columns are aligned to the right, and which are numbers and truth values in JSON.
    pub numbers: Vec<bool>,
    pub rows: Vec<Vec<Option<String>>>,
}

impl Rows {
    /// The rows in a format; `expanded`: in a table, each row on its own.
    pub fn text(&self, format: Format, expanded: bool) -> String {
        match format {
            Format::Table if expanded => self.expanded(),
            Format::Table => self.table(),
            Format::Csv => self.csv(),
            Format::Json => self.json(),
            Format::Markdown => self.markdown(),
        }
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.names.iter().map(|name| width(name)).collect();
        for row in &self.rows {
            for (value, widest) in row.iter().zip(&mut widths) {
                let lines = value.as_deref().unwrap_or_default().lines().map(width);
                *widest = (*widest).max(lines.max().unwrap_or(0));
            }
        }
        widths
    }

    fn table(&self) -> String {
        let widths = self.widths();
        let mut text = String::new();
        let heads = self.names.iter().zip(&widths).map(|(name, width)| centered(name, *width));
        let _ = writeln!(text, " {} ", heads.collect::<Vec<_>>().join(" | "));
        let rules: Vec<String> = widths.iter().map(|width| "-".repeat(width + 2)).collect();
        let _ = writeln!(text, "{}", rules.join("+"));
        for row in &self.rows {
            self.table_row(row, &widths, &mut text);
        }
        let count = self.rows.len();
        let _ = writeln!(text, "({count} row{})", if count == 1 { "" } else { "s" });
        text
    }

    /// A row of a table; a value of several lines takes several.
    fn table_row(&self, row: &[Option<String>], widths: &[usize], text: &mut String) {
        let cells: Vec<Vec<&str>> =
            row.iter().map(|value| value.as_deref().unwrap_or_default().lines().collect()).collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0).max(1);
        for line in 0..height {
            let parts = cells.iter().enumerate().map(|(column, lines)| {
                let part = lines.get(line).copied().unwrap_or_default();
                let mark = if line + 1 < lines.len() { '+' } else { ' ' };
                format!(" {}{mark}", aligned(part, widths[column], self.numbers[column]))
            });
            let _ = writeln!(text, "{}", parts.collect::<Vec<_>>().join("|").trim_end());
        }
    }

    fn expanded(&self) -> String {
        let widest = self.names.iter().map(|name| width(name)).max().unwrap_or(0);
        let mut text = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            let _ = writeln!(text, "-[ RECORD {} ]{}", number + 1, "-".repeat(widest));
            for (name, value) in self.names.iter().zip(row) {
                let _ = writeln!(
                    text,
                    "{} | {}",
                    aligned(name, widest, false),
                    value.as_deref().unwrap_or_default()
                );
            }
        }
        if self.rows.is_empty() {
            text.push_str("(0 rows)\n");
        }
        text
    }

    fn csv(&self) -> String {
        let field = |value: &str| match value.contains(['"', ',', '\n', '\r']) || value.is_empty() {
            true => format!("\"{}\"", value.replace('"', "\"\"")),
            false => value.to_string(),
        };
        let mut text = String::new();
        let names: Vec<String> = self.names.iter().map(|name| field(name)).collect();
        let _ = writeln!(text, "{}", names.join(","));
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

    fn markdown(&self) -> String {
        let cell = |text: &str| text.replace('|', "\\|").replace('\n', "<br>");
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut text = line(self.names.iter().map(|name| cell(name)).collect());
        let rule = |is_number: &bool| if *is_number { "---:" } else { "---" }.to_string();
        text.push_str(&line(self.numbers.iter().map(rule).collect()));
        for row in &self.rows {
            text.push_str(&line(
                row.iter().map(|value| cell(value.as_deref().unwrap_or_default())).collect(),
            ));
        }
        text
    }
}

fn width(text: &str) -> usize {
    text.chars().count()
}

fn aligned(text: &str, to: usize, right: bool) -> String {
    let blanks = " ".repeat(to.saturating_sub(width(text)));
    if right { format!("{blanks}{text}") } else { format!("{text}{blanks}") }
}

fn centered(text: &str, to: usize) -> String {
    let blanks = to.saturating_sub(width(text));
    format!("{}{text}{}", " ".repeat(blanks / 2), " ".repeat(blanks - blanks / 2))
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

    #[test]
    fn tables_are_aligned_and_counted() {
        let expected = " id | name  \n----+-------\n  1 | a,\"b\"\n 22 |\n    |\n(3 rows)\n";
        assert_eq!(rows().text(Format::Table, false), expected);
    }

    #[test]
    fn csv_tells_null_from_an_empty_text() {
        assert_eq!(rows().text(Format::Csv, false), "id,name\n1,\"a,\"\"b\"\"\"\n22,\n,\"\"\n");
    }

    #[test]
    fn json_has_numbers_and_nulls() {
        let expected = "[\n  {\"id\":1,\"name\":\"a,\\\"b\\\"\"},\n  {\"id\":22,\"name\":null},\n  {\"id\":null,\"name\":\"\"}\n]\n";
        assert_eq!(rows().text(Format::Json, false), expected);
    }

    #[test]
    fn markdown_aligns_numbers_to_the_right() {
        let text = rows().text(Format::Markdown, false);
        assert!(text.starts_with("| id | name |\n| ---: | --- |\n| 1 | a,\"b\" |\n"), "{text}");
    }

    #[test]
    fn expanded_rows_stand_by_themselves() {
        let text = rows().text(Format::Table, true);
        assert!(text.starts_with("-[ RECORD 1 ]----\nid   | 1\nname | a,\"b\"\n"), "{text}");
    }
}
