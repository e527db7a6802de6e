//! Files of sqllogictest as SQLite's public corpus has them: records, and rows in the form in which a record expects them.
//!
//! The crate `sqllogictest`, which runs this project's own files, knows neither the integers and reals of a column (`I`, `R`) nor the
//! hash of many values, which are the form that the corpus expects.

use md5::{Digest, Md5};

/// The answer of a query: its rows as text, or the SQLSTATE.
pub type Outcome = Result<Vec<Vec<Option<String>>>, String>;

/// One statement or query of a file.
#[derive(Debug)]
pub struct Record {
    /// The line on which it begins, counted from one.
    pub line: usize,
    pub text: String,
    pub step: Step,
    /// True if it is for other engines only.
    pub skipped: bool,
}

#[derive(Debug)]
pub enum Step {
    Statement {
        succeeds: bool,
    },
    Query {
        /// One letter for each column: `I`, `R` or `T`.
        types: String,
        sort: Sort,
        expected: Vec<String>,
    },
}

/// The order of an answer's values before they are compared.
#[derive(Clone, Copy, Debug)]
pub enum Sort {
    None,
    Rows,
    Values,
}

/// The records of a file, up to a `halt` that concerns the engine of this name.
///
/// # Panics
/// If a record is neither a statement nor a query.
pub fn records(text: &str, name: &str) -> Vec<Record> {
    let mut records = Vec::new();
    let mut lines = text.lines().enumerate().peekable();
    while lines.peek().is_some() {
        let block: Vec<(usize, &str)> = lines
            .by_ref()
            .skip_while(|(_, line)| line.trim().is_empty())
            .take_while(|(_, line)| !line.trim().is_empty())
            .collect();
        let mut skipped = false;
        let mut rest = block.as_slice();
        while let Some(((at, line), behind)) = rest.split_first() {
            rest = behind;
            let words: Vec<&str> =
                line.split_whitespace().take_while(|word| !word.starts_with('#')).collect();
            match words[..] {
                [] | ["hash-threshold", ..] => {}
                ["skipif", engine, ..] => skipped |= engine == name,
                ["onlyif", engine, ..] => skipped |= engine != name,
                ["halt"] if skipped => {}
                ["halt"] => return records,
                ["statement", outcome, ..] => {
                    let lines: Vec<&str> = rest.iter().map(|(_, line)| *line).collect();
                    let step = Step::Statement { succeeds: outcome == "ok" };
                    records.push(Record { line: at + 1, text: lines.join("\n"), step, skipped });
                    break;
                }
                ["query", types, ref options @ ..] => {
                    records.push(query(at + 1, types, options, rest, skipped));
                    break;
                }
                _ => panic!("line {}: {line}", at + 1),
            }
        }
    }
    records
}

fn query(line: usize, types: &str, options: &[&str], rest: &[(usize, &str)], skipped: bool) -> Record {
    let sort = match options.first() {
        Some(&"rowsort") => Sort::Rows,
        Some(&"valuesort") => Sort::Values,
        _ => Sort::None,
    };
    let lines: Vec<&str> = rest.iter().map(|(_, line)| *line).collect();
    let end = lines.iter().position(|line| *line == "----").unwrap_or(lines.len());
    let expected = lines[end..].iter().skip(1).map(|line| line.to_string()).collect();
    let step = Step::Query { types: types.to_string(), sort, expected };
    Record { line, text: lines[..end].join("\n"), step, skipped }
}

impl Record {
    /// Returns true if an answer is the one that the file expects.
    pub fn expects(&self, outcome: &Outcome) -> bool {
        let expected = match &self.step {
            Step::Statement { succeeds } => return *succeeds == outcome.is_ok(),
            Step::Query { expected, .. } => expected.as_slice(),
        };
        match (self.shown(outcome), expected) {
            (Err(_), _) => false,
            (Ok(values), [hash]) if hash.contains(" values hashing to ") => *hash == hashed(&values),
            (Ok(values), expected) => expected == values.as_slice(),
        }
    }

    /// The values of an answer in the form and order of the file.
    pub fn shown(&self, outcome: &Outcome) -> Result<Vec<String>, String> {
        let Step::Query { types, sort, .. } = &self.step else { return outcome.clone().map(|_| Vec::new()) };
        let kinds = types.as_bytes();
        let row = |row: &Vec<Option<String>>| -> Vec<String> {
            row.iter()
                .enumerate()
                .map(|(at, value)| shown(value.as_deref(), kinds.get(at).copied()))
                .collect()
        };
        let mut rows: Vec<Vec<String>> = outcome.as_ref().map_err(Clone::clone)?.iter().map(row).collect();
        if let Sort::Rows = sort {
            rows.sort();
        }
        let mut values: Vec<String> = rows.into_iter().flatten().collect();
        if let Sort::Values = sort {
            values.sort();
        }
        Ok(values)
    }
}

fn shown(value: Option<&str>, kind: Option<u8>) -> String {
    let Some(text) = value else { return "NULL".to_string() };
    match kind {
        Some(b'I') => match text.parse::<f64>() {
            Ok(number) if text.contains(['.', 'e']) => format!("{}", number.trunc() as i64),
            _ => text.to_string(),
        },
        Some(b'R') => text.parse::<f64>().map_or(text.to_string(), |number| format!("{number:.3}")),
        _ if text.is_empty() => "(empty)".to_string(),
        _ => text.chars().map(|one| if (' '..='~').contains(&one) { one } else { '@' }).collect(),
    }
}

fn hashed(values: &[String]) -> String {
    let mut hash = Md5::new();
    for value in values {
        hash.update(value.as_bytes());
        hash.update(b"\n");
    }
    let digits: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{} values hashing to {digits}", values.len())
}
