//! Results as aligned tables, as psql draws them: with borders 0, 1 and 2, or each row on its own.

use std::fmt::Write;

use unicode_width::UnicodeWidthStr;

use crate::sql::print::{Display, Rows};

/// Rows to be drawn.
pub struct Table<'r> {
    pub rows: &'r Rows,
    pub display: &'r Display,
}

/// Lines at the edges and between columns: left, between, right; and those of rules.
struct Border {
    edges: [&'static str; 3],
    rules: [&'static str; 3],
    /// Blanks around a cell.
    margin: usize,
}

impl Border {
    fn of(number: u8) -> Border {
        match number {
            0 => Border { edges: ["", "", ""], rules: ["", " ", ""], margin: 0 },
            1 => Border { edges: ["", "|", ""], rules: ["", "+", ""], margin: 1 },
            _ => Border { edges: ["|", "|", "|"], rules: ["+", "+", "+"], margin: 1 },
        }
    }
}

impl Table<'_> {
    fn cell<'c>(&'c self, value: &'c Option<String>) -> &'c str {
        value.as_deref().unwrap_or(&self.display.null)
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.rows.names.iter().map(|name| width(name)).collect();
        for row in &self.rows.rows {
            for (value, widest) in row.iter().zip(&mut widths) {
                let lines = self.cell(value).split('\n').map(width);
                *widest = (*widest).max(lines.max().unwrap_or(0));
            }
        }
        widths
    }

    /// The width of the table.
    pub fn width(&self) -> usize {
        let widths = self.widths();
        widths.iter().sum::<usize>() + 3 * widths.len()
    }

    /// Columns side by side, a heading above them.
    pub fn aligned(&self) -> String {
        let (widths, border) = (self.widths(), Border::of(self.display.border));
        let mut text = String::new();
        let is_framed = self.display.border >= 2;
        if !self.display.tuples_only {
            if !self.display.title.is_empty() {
                let _ = writeln!(text, "{}", self.display.title);
            }
            if is_framed {
                rule(&mut text, &border, &widths);
            }
            let heads =
                self.rows.names.iter().zip(&widths).map(|(name, width)| (centered(name, *width), ' '));
            line(&mut text, &border, heads, false);
            rule(&mut text, &border, &widths);
        } else if is_framed {
            rule(&mut text, &border, &widths);
        }
        self.rows.rows.iter().for_each(|row| self.row(row, &widths, &border, &mut text));
        if is_framed {
            rule(&mut text, &border, &widths);
        }
        if self.display.footer && !self.display.tuples_only {
            let count = self.rows.rows.len();
            let _ = writeln!(text, "({count} row{})", if count == 1 { "" } else { "s" });
        }
        text
    }

    /// A row of a table; a value of several lines takes several.
    fn row(&self, row: &[Option<String>], widths: &[usize], border: &Border, text: &mut String) {
        let cells: Vec<Vec<&str>> = row.iter().map(|value| self.cell(value).split('\n').collect()).collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0).max(1);
        for number in 0..height {
            let parts = cells.iter().enumerate().map(|(column, lines)| {
                let part = lines.get(number).copied().unwrap_or_default();
                let mark = if number + 1 < lines.len() { '+' } else { ' ' };
                (aligned(part, widths[column], self.rows.numbers[column]), mark)
            });
            line(text, border, parts, true);
        }
    }

    /// Each row on its own: a line for each column.
    pub fn expanded(&self) -> String {
        let names = self.rows.names.iter().map(|name| width(name)).max().unwrap_or(0);
        let lines = self.rows.rows.iter().flatten().flat_map(|value| self.cell(value).split('\n').map(width));
        let values = lines.max().unwrap_or(0);
        let mut text = String::new();
        for (number, row) in self.rows.rows.iter().enumerate() {
            if !self.display.tuples_only {
                let _ = writeln!(text, "{}", record_head(number + 1, names, values));
            } else if number > 0 {
                text.push('\n');
            }
            for (name, value) in self.rows.names.iter().zip(row) {
                for (line, part) in self.cell(value).split('\n').enumerate() {
                    let name = if line == 0 { name.as_str() } else { "" };
                    let _ =
                        writeln!(text, "{}", format!("{} | {part}", aligned(name, names, false)).trim_end());
                }
            }
        }
        if self.rows.rows.is_empty() && !self.display.tuples_only {
            text.push_str("(0 rows)\n");
        }
        text
    }
}

/// The line above a row that is a table of its own, as wide as the row.
fn record_head(number: usize, names: usize, values: usize) -> String {
    let mut head = format!("-[ RECORD {number} ]");
    while head.len() < names + 3 + values {
        head.push(if head.len() == names + 1 { '+' } else { '-' });
    }
    head
}

fn rule(text: &mut String, border: &Border, widths: &[usize]) {
    let rules: Vec<String> = widths.iter().map(|width| "-".repeat(width + 2 * border.margin)).collect();
    let [left, between, right] = border.rules;
    let _ = writeln!(text, "{left}{}{right}", rules.join(between));
}

/// A line of cells, each with the text behind it; `is_cut`: without the blanks at its end.
fn line(text: &mut String, border: &Border, cells: impl Iterator<Item = (String, char)>, is_cut: bool) {
    let before = " ".repeat(border.margin);
    let cells: Vec<String> = cells.map(|(cell, mark)| format!("{before}{cell}{mark}")).collect();
    let [left, between, right] = border.edges;
    let line = format!("{left}{}{right}", cells.join(between));
    let _ = writeln!(text, "{}", if is_cut { line.trim_end() } else { &line });
}

fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
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
    use crate::sql::print::{Expanded, Format};

    fn drawn(cells: &[&[Option<&str>]], change: impl FnOnce(&mut Display)) -> String {
        let rows = Rows {
            names: vec!["y".to_owned(), "n".to_owned(), "m".to_owned()],
            numbers: vec![true, false, false],
            rows: cells.iter().map(|row| row.iter().map(|it| it.map(str::to_owned)).collect()).collect(),
        };
        let mut display = Display::new(Format::Table);
        display.null.clear();
        change(&mut display);
        rows.text(&display, 20)
    }

    const ROW: &[&[Option<&str>]] = &[&[Some("1"), None, Some("a\nb")]];

    /// Tests that borders are the ones that psql 15 draws.
    #[test]
    fn borders_are_drawn_as_psql_draws_them() {
        assert_eq!(drawn(ROW, |_| ()), " y | n | m \n---+---+---\n 1 |   | a+\n   |   | b\n(1 row)\n");
        assert_eq!(
            drawn(ROW, |display| display.border = 2),
            "+---+---+---+\n| y | n | m |\n+---+---+---+\n| 1 |   | a+|\n|   |   | b |\n+---+---+---+\n(1 row)\n"
        );
        assert_eq!(drawn(ROW, |display| display.border = 0), "y n m \n- - -\n1   a+\n    b\n(1 row)\n");
    }

    #[test]
    fn null_is_no_empty_text_wherever_it_is_drawn() {
        let row: &[&[Option<&str>]] = &[&[Some("1"), None, Some("")]];
        let text = drawn(row, |display| display.null = "NULL".to_owned());
        assert_eq!(text, " y |  n   | m \n---+------+---\n 1 | NULL |\n(1 row)\n");
    }

    #[test]
    fn tuples_alone_have_neither_heading_nor_count() {
        assert_eq!(drawn(ROW, |display| display.tuples_only = true), " 1 |   | a+\n   |   | b\n");
        assert_eq!(
            drawn(&[], |display| display.title = "Hello".to_owned()),
            "Hello\n y | n | m \n---+---+---\n(0 rows)\n"
        );
    }

    #[test]
    fn expanded_rows_stand_by_themselves() {
        let text = drawn(ROW, |display| display.expanded = Expanded::On);
        assert_eq!(text, "-[ RECORD 1 ]\ny | 1\nn |\nm | a\n  | b\n");
        let wide = &[&[Some("1"), None, Some("xxxxxxxxxxxxxxxxxxxxxxxx")][..]];
        let text = drawn(wide, |display| display.expanded = Expanded::Auto);
        assert!(text.starts_with("-[ RECORD 1 ]---------------\ny | 1\n"), "{text}");
        assert!(drawn(ROW, |display| display.expanded = Expanded::Auto).starts_with(" y |"));
    }

    #[test]
    fn wide_letters_take_two_columns() {
        let text = drawn(&[&[Some("1"), Some("日本"), Some("x")]], |_| ());
        assert_eq!(text, " y |  n   | m \n---+------+---\n 1 | 日本 | x\n(1 row)\n");
    }
}
