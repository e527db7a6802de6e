//! Scans as EXPLAIN shows them: the columns' names, and the conditions on an index.

use super::text::Names;
use crate::catalog::{ColumnOrigin, Table};
use crate::plan::expression::Expr;
use crate::plan::node::{Bound, IndexRanges, KeyRange, Path, Pattern, ScanNode, Several};
use crate::plan::scan::{HIDDEN_KEY, key_columns};
use crate::types::Type;

/// The displayed name of a column; `prefix`: the table's alias and a point, or nothing. `None` for a column that only
/// an index has, which shows nothing but that a row is in it.
fn column_name(table: &Table, column: usize, prefix: &str) -> Option<String> {
    let Some(column) = table.columns.get(column) else { return Some("(hidden key)".to_string()) };
    match &column.origin {
        ColumnOrigin::IndexKey(text) => Some(text.clone()),
        ColumnOrigin::IndexPredicate(_) => None,
        _ => Some(format!("{prefix}{}", column.name)),
    }
}

/// The names of a scan's slots, before some of them are left out.
pub(super) fn slot_names(scan: &ScanNode, is_qualified: bool) -> Vec<String> {
    let prefix = prefix(scan, is_qualified);
    let name = |column: &usize| column_name(&scan.table, *column, &prefix).unwrap_or_default();
    scan.columns.iter().map(name).collect()
}

fn prefix(scan: &ScanNode, is_qualified: bool) -> String {
    if is_qualified { format!("{}.", scan.alias) } else { String::new() }
}

/// The names of the indexes that a scan reads.
pub(super) fn index_names(scan: &ScanNode) -> Vec<String> {
    let primary = || scan.table.key_name.clone().unwrap_or_else(|| "the hidden key".to_string());
    let name = |part: &IndexRanges| match part.index {
        Some(index) => scan.table.indexes[index].name.clone(),
        None => primary(),
    };
    match &scan.path {
        Path::Full => Vec::new(),
        Path::Point(_) => vec![primary()],
        Path::Ranges { parts, .. } => {
            let mut names: Vec<String> = parts.iter().map(name).collect();
            names.dedup();
            names
        }
    }
}

/// The conditions on the keys of a scan's indexes. `names`: those of the slots that the path's expressions see.
pub(super) fn index_condition(scan: &ScanNode, names: &Names<'_>) -> Option<String> {
    let mut alternatives = Vec::new();
    match &scan.path {
        Path::Full => return None,
        Path::Point(key) => {
            let range = KeyRange { prefix: key.clone(), ..KeyRange::default() };
            alternatives.push(range_condition(&scan.table, &key_columns(&scan.table), &range, names));
        }
        Path::Ranges { parts, .. } => {
            for part in parts {
                let columns = match part.index {
                    None => key_columns(&scan.table),
                    Some(index) => {
                        scan.table.indexes[index].columns.iter().map(|column| column.column).collect()
                    }
                };
                let shown =
                    part.ranges.iter().map(|range| range_condition(&scan.table, &columns, range, names));
                alternatives.extend(shown);
            }
        }
    }
    // All keys.
    if alternatives.iter().any(Vec::is_empty) {
        return None;
    }
    let mut shown: Vec<String> = alternatives
        .into_iter()
        .map(|mut conditions| match conditions.len() {
            1 => conditions.remove(0),
            _ => format!("({})", conditions.join(" AND ")),
        })
        .collect();
    Some(if shown.len() == 1 { shown.remove(0) } else { format!("({})", shown.join(" OR ")) })
}

fn range_condition(table: &Table, columns: &[usize], range: &KeyRange, names: &Names<'_>) -> Vec<String> {
    let mut shown = Vec::new();
    let mut columns = columns.iter().map(|&column| match column {
        HIDDEN_KEY => (Some("(hidden key)".to_string()), Type::Int8),
        column => (column_name(table, column, ""), table.columns[column].ty),
    });
    let mut next = || columns.next().unwrap_or((None, Type::Unknown));
    let mut add = |(column, ty): &(Option<String>, Type), symbol: &str, value: Option<&Expr>| {
        let value = value.map_or(String::new(), |value| format!(" {}", names.shown_as(value, *ty)));
        shown.extend(column.as_ref().map(|column| format!("({column} {symbol}{value})")));
    };
    for value in &range.prefix {
        add(&next(), "=", Some(value));
    }
    for several in &range.more {
        let column = next();
        match several {
            Several::Value(value) => add(&column, "=", Some(value)),
            Several::Elements(array) => add(&column, &format!("= ANY ({})", names.shown(array)), None),
            Several::Null => add(&column, "IS NULL", None),
            Several::Each => {}
        }
    }
    let column = next();
    for bound in &range.bounds {
        let symbol = match bound {
            Bound::Lower(_, inclusive) => {
                if *inclusive {
                    ">="
                } else {
                    ">"
                }
            }
            Bound::Upper(_, inclusive) => {
                if *inclusive {
                    "<="
                } else {
                    "<"
                }
            }
            Bound::Matches(_, Pattern::Like) => "~~",
            Bound::Matches(_, Pattern::Regex) => "~",
            Bound::NotNull => "IS NOT NULL",
        };
        add(&column, symbol, bound.expr());
    }
    shown
}
