//! Scans of tables, and the paths by which they find their rows.

use std::sync::Arc;

use crate::catalog::Table;
use crate::error::Result;
use crate::plan::decoder::Decoder;
use crate::plan::expression::Expr;

/// A scan of a table.
#[derive(Debug)]
pub(crate) struct ScanNode {
    pub(crate) table: Arc<Table>,
    /// The table's alias in the statement.
    pub(crate) alias: String,
    pub(crate) path: Path,
    /// The columns that the slots hold, as the table numbers them.
    pub(crate) columns: Vec<usize>,
    /// Reads them.
    pub(crate) decoder: Decoder,
    /// Condition on the slots.
    pub(crate) filter: Option<Expr>,
    /// The slots that the filter sees, and the others, which are read of rows that pass it.
    pub(crate) filtered: Vec<usize>,
    pub(crate) others: Vec<usize>,
    /// The slots that its rows consist of: what only the filter reads may be missing.
    pub(crate) output: Vec<usize>,
    pub(crate) backward: bool,
    /// Estimated number of rows examined.
    pub(crate) estimated_rows: f64,
}

impl ScanNode {
    /// A forward scan.
    ///
    /// # Errors
    /// Like [`Decoder::new`].
    pub(crate) fn new(
        (table, alias): (&Arc<Table>, &str),
        path: Path,
        columns: Vec<usize>,
        filter: Option<Expr>,
        estimated_rows: f64,
    ) -> Result<ScanNode> {
        let decoder = Decoder::new(table, &columns)?;
        let mut seen = std::collections::BTreeSet::new();
        let is_known = filter.as_ref().is_none_or(|filter| filter.slots(&mut seen));
        let is_seen = |slot: &usize| !is_known || seen.contains(slot);
        let (filtered, others) = (0..decoder.len()).partition(is_seen);
        let output = (0..decoder.len()).collect();
        Ok(ScanNode {
            table: table.clone(),
            alias: alias.to_string(),
            path,
            columns,
            decoder,
            filter,
            filtered,
            others,
            output,
            backward: false,
            estimated_rows,
        })
    }
}

/// The way in which the rows of a table are found. The expressions see no row, except in a [`LookupNode`], where they
/// see the left side's.
#[derive(Clone, Debug)]
pub(crate) enum Path {
    /// All rows.
    Full,
    /// The row of this primary key.
    Point(Vec<Expr>),
    /// The rows within ranges of keys, part by part.
    Ranges { parts: Vec<IndexRanges>, kind: RangesKind },
}

/// Combination of the parts of [`Path::Ranges`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RangesKind {
    /// Whole primary keys.
    Points,
    /// Their order does not matter.
    Unordered,
    /// The rows are wanted in the order of the parts and their keys.
    Ordered,
    /// Several parts may find the same row, which is returned once.
    Union,
}

/// Ranges of the primary key (`index` is none) or of a secondary index. They may overlap.
#[derive(Clone, Debug)]
pub(crate) struct IndexRanges {
    pub(crate) index: Option<usize>,
    pub(crate) ranges: Vec<KeyRange>,
}

/// The keys that begin with these values, then with one of several for each of further columns, and are within the
/// bounds of the column after them.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyRange {
    pub(crate) prefix: Vec<Expr>,
    pub(crate) more: Vec<Several>,
    pub(crate) bounds: Vec<Bound>,
}

/// The values that a column of a key may have.
#[derive(Clone, Debug)]
pub(crate) enum Several {
    Value(Expr),
    /// The elements of an array.
    Elements(Expr),
    Null,
    /// All that there are: each is searched after the one before.
    Each,
}

/// A bound of a column.
#[derive(Clone, Debug)]
pub(crate) enum Bound {
    /// `true`: inclusive.
    Lower(Expr, bool),
    Upper(Expr, bool),
    /// It begins as all texts do that match this pattern.
    Matches(Expr, Pattern),
    NotNull,
}

/// A kind of pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    Like,
    Regex,
}

impl Path {
    /// The expressions of a path.
    pub(crate) fn exprs(&self) -> Vec<&Expr> {
        match self {
            Path::Full => Vec::new(),
            Path::Point(key) => key.iter().collect(),
            Path::Ranges { parts, .. } => {
                parts.iter().flat_map(|part| &part.ranges).flat_map(KeyRange::exprs).collect()
            }
        }
    }

    /// Calls `each` for the expressions of a path.
    pub(crate) fn each_expr<'p>(&'p mut self, each: &mut dyn FnMut(&'p mut Expr)) {
        match self {
            Path::Full => {}
            Path::Point(key) => key.iter_mut().for_each(each),
            Path::Ranges { parts, .. } => {
                for range in parts.iter_mut().flat_map(|part| &mut part.ranges) {
                    range.prefix.iter_mut().for_each(&mut *each);
                    range.more.iter_mut().filter_map(Several::expr_mut).for_each(&mut *each);
                    range.bounds.iter_mut().filter_map(Bound::expr_mut).for_each(&mut *each);
                }
            }
        }
    }

    /// The index and the values of its first columns that all rows have, if the path restricts nothing else.
    pub(crate) fn lone_prefix(&self) -> Option<(Option<usize>, &[Expr])> {
        let Path::Ranges { parts, .. } = self else { return None };
        let [IndexRanges { index, ranges }] = &parts[..] else { return None };
        let [range] = &ranges[..] else { return None };
        (range.more.is_empty() && range.bounds.is_empty()).then_some((*index, &range.prefix))
    }
}

impl KeyRange {
    fn exprs(&self) -> impl Iterator<Item = &Expr> {
        let more = self.more.iter().filter_map(Several::expr);
        self.prefix.iter().chain(more).chain(self.bounds.iter().filter_map(Bound::expr))
    }
}

impl Several {
    pub(crate) fn expr(&self) -> Option<&Expr> {
        match self {
            Several::Value(expr) | Several::Elements(expr) => Some(expr),
            Several::Null | Several::Each => None,
        }
    }

    fn expr_mut(&mut self) -> Option<&mut Expr> {
        match self {
            Several::Value(expr) | Several::Elements(expr) => Some(expr),
            Several::Null | Several::Each => None,
        }
    }
}

impl Bound {
    pub(crate) fn expr(&self) -> Option<&Expr> {
        match self {
            Bound::Lower(expr, _) | Bound::Upper(expr, _) | Bound::Matches(expr, _) => Some(expr),
            Bound::NotNull => None,
        }
    }

    fn expr_mut(&mut self) -> Option<&mut Expr> {
        match self {
            Bound::Lower(expr, _) | Bound::Upper(expr, _) | Bound::Matches(expr, _) => Some(expr),
            Bound::NotNull => None,
        }
    }
}
