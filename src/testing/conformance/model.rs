//! The model: a table of the scripts, in one map, and the answer of each step.
//!
//! It is what every protocol must agree with, on one thread step by step, on several threads in some serial order.

use std::collections::{BTreeMap, HashMap};

use super::step::{Column, Key, Operation, Span, Step, letter};

/// The number of entries that `top` keeps.
pub const TOP: usize = 2;

/// A row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    pub n: i64,
    pub tag: Option<i64>,
    pub code: Option<i64>,
    /// The greatest entry; 0:0 at first.
    pub best: (i64, i64),
    /// The greatest entries; none at first.
    pub top: Vec<(i64, i64)>,
}

/// A table of the scripts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    /// True if `tag` has an index and `code` a unique one.
    pub indexed: bool,
    pub rows: BTreeMap<Key, Row>,
}

/// The outcome of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The answers of its steps, up to the end.
    pub answers: Vec<String>,
    /// `ok`, `failed`, `panicked`, `overflow`; or an unexpected error.
    pub outcome: String,
}

/// A transaction on the model.
struct Transaction {
    table: Model,
    saved: HashMap<char, Model>,
    overflowed: bool,
}

impl Model {
    /// Runs a transaction, which changes the table; returns its outcome.
    pub fn run(&mut self, steps: &[Step]) -> Outcome {
        let mut running = Transaction { table: self.clone(), saved: HashMap::new(), overflowed: false };
        let mut answers = Vec::new();
        let mut outcome = "ok";
        for step in steps {
            match step {
                Step::Fail => outcome = "failed",
                Step::Panic => outcome = "panicked",
                Step::Commit => {}
                step => answers.push(running.answer(step)),
            }
            if running.overflowed {
                outcome = "overflow";
                break;
            }
        }
        if outcome == "ok" {
            *self = running.table;
        }
        Outcome { answers, outcome: outcome.to_string() }
    }

    fn code_is_taken(&self, code: Option<i64>, by_other_than: Key) -> bool {
        let takes = |(&key, row): (&Key, &Row)| key != by_other_than && row.code == code;
        self.indexed && code.is_some() && self.rows.iter().any(takes)
    }

    fn scan(&self, span: &Span, order: impl Fn(Key, &Row) -> Option<(Option<i64>, Key)>) -> String {
        let mut found: Vec<_> =
            self.rows.iter().filter_map(|(&key, row)| Some((order(key, row)?, row.n))).collect();
        found.sort_unstable();
        if span.backward {
            found.reverse();
        }
        found.truncate(span.limit.unwrap_or(usize::MAX));
        rows_text(found.into_iter().map(|((_, key), n)| (key, n)))
    }
}

/// Rows as a scan answers them.
pub fn rows_text(rows: impl Iterator<Item = (Key, i64)>) -> String {
    let rows: Vec<_> = rows.map(|(key, n)| format!("{}={n}", letter(key))).collect();
    if rows.is_empty() { "empty".to_string() } else { rows.join(" ") }
}

/// A number or NULL.
pub fn value_text(value: Option<i64>) -> String {
    value.map_or("null".to_string(), |value| value.to_string())
}

/// The entries of a top-K column, or the one of an ordered tuple.
pub fn entries_text(entries: &[(i64, i64)]) -> String {
    let entries: Vec<_> = entries.iter().map(|(order, payload)| format!("{order}:{payload}")).collect();
    if entries.is_empty() { "empty".to_string() } else { entries.join(",") }
}

impl Row {
    fn text(&self, column: Column) -> String {
        match column {
            Column::N => self.n.to_string(),
            Column::Tag => value_text(self.tag),
            Column::Code => value_text(self.code),
            Column::Best => entries_text(&[self.best]),
            Column::Top => entries_text(&self.top),
        }
    }

    fn number(&self, column: Column) -> Option<i64> {
        match column {
            Column::Tag => self.tag,
            Column::Code => self.code,
            _ => Some(self.n),
        }
    }

    fn set(&mut self, column: Column, value: Option<i64>) {
        match column {
            Column::Tag => self.tag = value,
            Column::Code => self.code = value,
            _ => self.n = value.unwrap_or_default(),
        }
    }

    fn insert_top(&mut self, order: i64, payload: i64) {
        let top = &mut self.top;
        match top.iter_mut().find(|entry| entry.0 == order) {
            Some(entry) => entry.1 = entry.1.max(payload),
            None => top.push((order, payload)),
        }
        top.sort_unstable_by(|left, right| right.cmp(left));
        top.truncate(TOP);
    }
}

impl Transaction {
    fn answer(&mut self, step: &Step) -> String {
        let answer = |yes: bool| if yes { "yes" } else { "no" }.to_string();
        match step {
            Step::Get(key, column) => {
                self.table.rows.get(key).map_or("none".to_string(), |row| row.text(*column))
            }
            Step::Exists(key) => answer(self.table.rows.contains_key(key)),
            Step::Insert { key, n, tag, code } => {
                if self.table.rows.contains_key(key) || self.table.code_is_taken(*code, *key) {
                    return "duplicate".to_string();
                }
                self.table.rows.insert(*key, Row { n: *n, tag: *tag, code: *code, ..Row::default() });
                "ok".to_string()
            }
            Step::Set(key, column, value) => self.change(*key, *column, |_| Some(*value)),
            Step::Delete(key) => answer(self.table.rows.remove(key).is_some()),
            Step::Operate(operation, key, column, operand) => {
                self.change(*key, *column, |current| match (operation, current) {
                    (Operation::Add, None) => Some(None),
                    (Operation::Add, Some(current)) => current.checked_add(*operand).map(Some),
                    (Operation::Max, current) => Some(current.max(Some(*operand))),
                    (Operation::Min, current) => Some(Some(current.map_or(*operand, |n| n.min(*operand)))),
                })
            }
            Step::Put(key, order, payload) => {
                self.on_row(*key, |row| row.best = row.best.max((*order, *payload)))
            }
            Step::Top(key, order, payload) => self.on_row(*key, |row| row.insert_top(*order, *payload)),
            Step::Scan(span) => self.table.scan(span, |key, _| span.contains(key).then_some((None, key))),
            Step::Index(column, span) => self.table.scan(span, |key, row| {
                let value = row.number(*column);
                // NULL comes before every value.
                let inside = value.map_or(span.from.is_none(), |value| span.contains(value));
                inside.then_some((value, key))
            }),
            Step::Save(name) => {
                self.saved.insert(*name, self.table.clone());
                "ok".to_string()
            }
            Step::Back(name) => {
                self.table = self.saved[name].clone();
                "ok".to_string()
            }
            Step::Nested => "nested".to_string(),
            Step::Fail | Step::Panic | Step::Commit => unreachable!("an end answers by the outcome"),
        }
    }

    fn on_row(&mut self, key: Key, change: impl FnOnce(&mut Row)) -> String {
        match self.table.rows.get_mut(&key) {
            Some(row) => {
                change(row);
                "ok".to_string()
            }
            None => "missing".to_string(),
        }
    }

    /// Changes a number; `None` is an overflow.
    fn change(
        &mut self,
        key: Key,
        column: Column,
        to: impl Fn(Option<i64>) -> Option<Option<i64>>,
    ) -> String {
        let Some(row) = self.table.rows.get(&key) else { return "missing".to_string() };
        let Some(value) = to(row.number(column)) else {
            self.overflowed = true;
            return "ok".to_string();
        };
        if column == Column::Code && self.table.code_is_taken(value, key) {
            return "duplicate".to_string();
        }
        self.on_row(key, |row| row.set(column, value))
    }
}
