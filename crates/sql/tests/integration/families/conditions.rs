//! Conditions on a table's columns as the families under `index/` write them: nested, with redundant parentheses,
//! and rewritten into conditions that mean the same.

use super::{chance, shuffled};
use crate::support::samples::Random;

/// A condition on the columns of one table.
#[derive(Clone)]
pub enum Condition {
    Compare { column: &'static str, operator: &'static str, value: String },
    Between { column: &'static str, low: String, high: String },
    List { column: &'static str, values: Vec<String> },
    Null { column: &'static str },
    Query { column: &'static str, other: &'static str, filter: Box<Condition> },
    Chain { parts: Vec<(bool, Condition)> },
    Nested(Box<Condition>),
}

/// The spelling of a condition.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Spelling {
    Plain,
    /// BETWEEN as two comparisons.
    Compared,
    /// The constant on the left.
    Commuted,
    /// Lists in another order.
    Reordered,
    /// Lists as alternatives.
    Alternatives,
}

/// The values of a table's columns: 0 up to this.
pub struct Domain {
    pub bound: usize,
    /// True if conditions contain subqueries.
    pub queries: bool,
}

impl Domain {
    fn value(&self, random: &mut Random, column: &str) -> String {
        if is_float(column) {
            return format!("{}.{}", random.below(self.bound), random.below(100));
        }
        random.below(self.bound).to_string()
    }

    /// A condition; deeper ones nest more.
    pub fn condition(&self, random: &mut Random, depth: usize) -> Condition {
        let parts: Vec<(bool, Condition)> = (0..1 + random.below(3 + depth))
            .map(|_| (chance(random, 50), self.part(random, depth)))
            .collect();
        Condition::Chain { parts }
    }

    fn part(&self, random: &mut Random, depth: usize) -> Condition {
        if depth > 0 && chance(random, 30) {
            return Condition::Nested(Box::new(self.condition(random, depth - 1)));
        }
        if chance(random, 25) {
            return Condition::Nested(Box::new(self.part(random, depth.saturating_sub(1))));
        }
        let column = random.pick(&["col0", "col3", "col1", "col4", "col0", "col3"]);
        match random.below(14) {
            0 => Condition::Between {
                column,
                low: self.value(random, column),
                high: self.value(random, column),
            },
            1 => {
                let values = (0..1 + random.below(6)).map(|_| self.value(random, column)).collect();
                Condition::List { column, values }
            }
            2 => Condition::Null { column },
            3 if depth > 0 && self.queries => {
                let other = random.pick(if is_float(column) { &["col1", "col4"] } else { &["col0", "col3"] });
                Condition::Query { column, other, filter: Box::new(self.condition(random, depth - 1)) }
            }
            _ => Condition::Compare {
                column,
                operator: random.pick(&["<", "<=", ">", ">=", "="]),
                value: self.value(random, column),
            },
        }
    }
}

fn is_float(column: &str) -> bool {
    column == "col1" || column == "col4"
}

fn mirrored(operator: &str) -> &str {
    match operator {
        "<" => ">",
        "<=" => ">=",
        ">" => "<",
        ">=" => "<=",
        other => other,
    }
}

impl Condition {
    /// The condition on this table, spelled so.
    pub fn text(&self, table: &str, spelling: Spelling, random: &mut Random) -> String {
        match self {
            Condition::Compare { column, operator, value } => match spelling {
                Spelling::Commuted => format!("{value} {} {column}", mirrored(operator)),
                _ => format!("{column} {operator} {value}"),
            },
            Condition::Between { column, low, high } => match spelling {
                Spelling::Compared => format!("( {column} >= {low} AND {column} <= {high})"),
                _ => format!("{column} BETWEEN {low} AND {high}"),
            },
            Condition::List { column, values } => match spelling {
                Spelling::Reordered => format!("{column} IN ({})", shuffled(random, values).join(",")),
                Spelling::Alternatives => {
                    let one = |value: &String| format!("{column} = {value}");
                    format!("({})", values.iter().map(one).collect::<Vec<_>>().join(" OR "))
                }
                _ => format!("{column} IN ({})", values.join(",")),
            },
            Condition::Null { column } => format!("{column} IS NULL"),
            Condition::Query { column, other, filter } => {
                let filter = filter.text(table, spelling, random);
                format!("{column} IN (SELECT {other} FROM {table} WHERE {filter})")
            }
            Condition::Chain { parts } => {
                let mut text = String::new();
                for (at, (is_or, part)) in parts.iter().enumerate() {
                    if at > 0 {
                        text.push_str(if *is_or { " OR " } else { " AND " });
                    }
                    text.push_str(&part.text(table, spelling, random));
                }
                text
            }
            Condition::Nested(inner) => format!("({})", inner.text(table, spelling, random)),
        }
    }
}
