//! Scans of tables, and the paths by which they find their rows.

use std::sync::Arc;

use crate::catalog::Table;
use crate::plan::decoder::Decoder;
use crate::plan::expression::Expr;

/// A scan of a table.
#[derive(Debug)]
pub(crate) struct ScanNode {
    pub(crate) table: Arc<Table>,
    pub(crate) path: Path,
    /// Reads the columns that the slots hold.
    pub(crate) decoder: Decoder,
    /// What must hold of the slots.
    pub(crate) filter: Option<Expr>,
    /// The slots that the filter sees, and the others, which are read of rows that pass it.
    pub(crate) filtered: Vec<usize>,
    pub(crate) others: Vec<usize>,
    /// The slots that its rows consist of: what only the filter reads may be missing.
    pub(crate) output: Vec<usize>,
    pub(crate) backward: bool,
    /// How many rows it looks at.
    pub(crate) estimated_rows: f64,
}

impl ScanNode {
    /// A forward scan.
    pub(crate) fn new(
        table: Arc<Table>,
        path: Path,
        decoder: Decoder,
        filter: Option<Expr>,
        estimated_rows: f64,
    ) -> ScanNode {
        let mut seen = std::collections::BTreeSet::new();
        let is_known = filter.as_ref().is_none_or(|filter| filter.slots(&mut seen));
        let is_seen = |slot: &usize| !is_known || seen.contains(slot);
        let (filtered, others) = (0..decoder.len()).partition(is_seen);
        let output = (0..decoder.len()).collect();
        ScanNode { table, path, decoder, filter, filtered, others, output, backward: false, estimated_rows }
    }
}

/// How the rows of a table are found. The expressions see no row, except in a [`LookupNode`], where they see the left
/// side's.
#[derive(Clone, Debug)]
pub(crate) enum Path {
    /// All rows.
    Full,
    /// The row of this primary key.
    Point(Vec<Expr>),
    /// The rows of these keys or prefixes of keys: the last column has one of an array's values. `whole`: they are whole primary
    /// keys.
    Points { index: Option<usize>, prefix: Vec<Expr>, last: Box<Expr>, whole: bool },
    /// The rows within bounds of the primary key (`index` is none) or of a secondary index.
    Range { index: Option<usize>, prefix: Vec<Expr>, lower: Option<Bound>, upper: Option<Bound> },
}

impl Path {
    /// The expressions of a path.
    pub(crate) fn exprs(&self) -> Vec<&Expr> {
        match self {
            Path::Full => Vec::new(),
            Path::Point(key) => key.iter().collect(),
            Path::Points { prefix, last, .. } => prefix.iter().chain([&**last]).collect(),
            Path::Range { prefix, lower, upper, .. } => {
                prefix.iter().chain(lower.iter().chain(upper).map(|bound| &bound.value)).collect()
            }
        }
    }
}

/// One end of a range: a value of the column behind the prefix.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    pub(crate) value: Expr,
    pub(crate) inclusive: bool,
}
