//! Statements in the style of SQLite's public sqllogictest corpus, one generator for each of its families.
//!
//! Nothing is copied from the corpus: a family's generator writes tables, rows and statements of the same shapes.

#![allow(dead_code, reason = "each test file uses a part of this module")]

pub mod conditions;
pub mod expressions;
pub mod index;
pub mod selects;
pub mod subqueries;

use crate::support::samples::Random;

/// The comparison of an answer's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// In their order, which the statement fixes.
    None,
    /// Sorted by rows.
    Rows,
    /// All values sorted, whichever row they are of.
    Values,
}

/// A statement, and how its answer is compared.
pub struct Step {
    pub text: String,
    pub sort: Sort,
}

impl Step {
    /// A statement that returns nothing, or rows in any order.
    pub fn new(text: impl Into<String>) -> Step {
        Step { text: text.into(), sort: Sort::Rows }
    }

    pub fn sorted(text: impl Into<String>, sort: Sort) -> Step {
        Step { text: text.into(), sort }
    }
}

/// A function that generates a family's file for a seed: about this many statements.
pub type Family = fn(&mut Random, usize) -> Vec<Step>;

/// The families of the corpus.
pub const FAMILIES: &[(&str, Family)] = &[
    ("select1-3", selects::expressions_of_columns),
    ("select4", selects::sets_and_joins),
    ("select5", selects::deep_joins),
    ("random/expr", expressions::without_tables),
    ("random/aggregates", expressions::aggregates),
    ("random/groupby", expressions::groups),
    ("random/select", expressions::plain),
    ("index/between", index::between),
    ("index/commute", index::commute),
    ("index/delete", index::delete),
    ("index/in", index::lists),
    ("index/orderby", index::ordered),
    ("index/random", index::random),
    ("index/view", index::views),
    ("evidence", selects::membership),
];

/// The items in a random order.
pub fn shuffled<T: Clone>(random: &mut Random, items: &[T]) -> Vec<T> {
    let mut items = items.to_vec();
    for at in (1..items.len()).rev() {
        items.swap(at, random.below(at + 1));
    }
    items
}

/// Returns true with this probability, in percent.
pub fn chance(random: &mut Random, percent: usize) -> bool {
    random.below(100) < percent
}
