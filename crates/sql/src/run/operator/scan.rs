//! Scans of tables: the rows that a path finds, as values of SQL.
//!
//! # Invariants
//! - A row that several parts of a path find is returned once.

use heddledb::{Range, Row, Value as Stored, ValueRef};

use crate::access::RowScan;
use crate::catalog::Table;
use crate::error::Result;
use crate::plan::node::{Path, RangesKind, ScanNode};
use crate::plan::path::has_key_order;
use crate::plan::scan::HIDDEN_KEY;
use crate::run::Run;
use crate::run::batch::{BATCH_ROWS, Batch};
use crate::run::operator::ranges::{Union, columns_of, intervals, refs, stored_prefix};
use crate::run::operator::{KeyFilter, Operator};
use crate::storage;
use crate::types::{Modifier, Type, Value};

/// A key column's value as it is stored; `None` if no row has it.
pub(crate) fn stored_key(table: &Table, column: usize, value: &Value) -> Option<Stored> {
    let (ty, modifier) = match column {
        HIDDEN_KEY => (Type::Int8, Modifier::NONE),
        column => (table.columns[column].ty, table.columns[column].modifier),
    };
    match (ty, value) {
        (_, Value::Null) => None,
        (Type::Int4, Value::Int4(value)) => Some(Stored::Int(i64::from(*value))),
        (Type::Int8, Value::Int2(_) | Value::Int4(_) | Value::Int8(_)) => Some(Stored::Int(value.any_int())),
        (Type::Text | Type::Varchar, Value::Text(value)) => Some(Stored::Text(value.to_string())),
        _ => {
            let value = narrowed(ty, value)?;
            let stored = storage::encode(ty, modifier, &value).ok()?;
            matches_column(ty, modifier, &value, &stored).then_some(stored)
        }
    }
}

/// An integer as one of the column's width; `None` if it is out of range.
fn narrowed(ty: Type, value: &Value) -> Option<Value> {
    match (ty, value) {
        (Type::Int2, Value::Int4(_) | Value::Int8(_)) => i16::try_from(value.any_int()).ok().map(Value::Int2),
        (Type::Int4, Value::Int2(_) | Value::Int8(_)) => i32::try_from(value.any_int()).ok().map(Value::Int4),
        (Type::Int8, Value::Int2(_) | Value::Int4(_)) => Some(Value::Int8(value.any_int())),
        _ => Some(value.clone()),
    }
}

/// Returns true if the stored value is the value, not a rounded one.
fn matches_column(ty: Type, modifier: Modifier, value: &Value, stored: &Stored) -> bool {
    storage::decode(ty, modifier, ValueRef::from(stored)).is_ok_and(|decoded| decoded == *value)
}

/// A request of a path to the engine: one key or a range.
pub(crate) enum Request {
    Point(Vec<Stored>),
    Range(Option<usize>, Range),
}

/// The requests of a path, part by part, for the row that its expressions see.
pub(crate) struct Requests {
    waiting: std::vec::IntoIter<(usize, Request)>,
    union: Option<Box<Union>>,
}

impl Requests {
    fn of(requests: Vec<(usize, Request)>) -> Requests {
        Requests { waiting: requests.into_iter(), union: None }
    }

    /// The range that the path consists of, if it is one.
    pub(crate) fn lone_range(mut self) -> Option<(Option<usize>, Range)> {
        match (self.waiting.next(), self.waiting.next()) {
            (Some((_, Request::Range(index, range))), None) => Some((index, range)),
            _ => None,
        }
    }
}

/// Returns the requests of a path whose expressions see this row.
pub(crate) fn requests<'e>(node: &'e ScanNode, run: &mut Run<'e>, row: &[Value]) -> Result<Requests> {
    let table = &*node.table;
    let range =
        |index, range: Range| Request::Range(index, if node.backward { range.reverse() } else { range });
    let (parts, kind) = match &node.path {
        Path::Full => return Ok(Requests::of(vec![(0, range(None, Range::all()))])),
        Path::Point(key) => {
            let mut stored = Vec::with_capacity(key.len());
            for (column, value) in columns_of(table, None).into_iter().zip(key) {
                let value = run.evaluate(value, row)?;
                match stored_key(table, column, &value) {
                    Some(value) => stored.push(value),
                    None => return Ok(Requests::of(Vec::new())),
                }
            }
            return Ok(Requests::of(vec![(0, Request::Point(stored))]));
        }
        Path::Ranges { parts, kind } => (parts, *kind),
    };
    if node.path.lone_prefix().is_some()
        && let [part] = &parts[..]
    {
        let prefix = stored_prefix(table, &columns_of(table, part.index), &part.ranges[0], run, row)?;
        let found = prefix.map(|prefix| match prefix.is_empty() {
            true => Range::all(),
            false => Range::prefix(refs(&prefix)),
        });
        return Ok(Requests::of(found.map(|found| (0, range(part.index, found))).into_iter().collect()));
    }
    let mut found = Vec::with_capacity(parts.len());
    for part in parts {
        found.push((part.index, intervals(table, part, run, row)?));
    }
    let union = match kind {
        RangesKind::Union => Some(Box::new(Union::new(table, found.clone())?)),
        _ => None,
    };
    let width = columns_of(table, None).len();
    let mut requests = Vec::with_capacity(found.iter().map(|(_, intervals)| intervals.len()).sum());
    for (number, (index, mut intervals)) in found.into_iter().enumerate() {
        if node.backward {
            intervals.reverse();
        }
        requests.extend(intervals.into_iter().map(|interval| {
            // A pattern may leave the whole index.
            let reads_table = interval.is_all() && kind == RangesKind::Unordered;
            let index = if reads_table && has_key_order(table) { None } else { index };
            let point = if index.is_none() { interval.whole_key(width) } else { Err(interval) };
            (number, point.map_or_else(|interval| range(index, interval.range()), Request::Point))
        }));
    }
    Ok(Requests { waiting: requests.into_iter(), union })
}

/// The search for the rows of a path.
pub(crate) struct Search<'e> {
    requests: Requests,
    /// The part that is being read.
    part: usize,
    found: Found<'e>,
}

/// The rows of one request.
enum Found<'e> {
    Scan(Box<dyn RowScan + 'e>),
    Point(Vec<Stored>),
    Ended,
}

impl<'e> Search<'e> {
    /// The search for what a path asks for.
    pub(crate) fn new(requests: Requests) -> Search<'e> {
        Search { requests, part: 0, found: Found::Ended }
    }

    /// The search of a part that was cut out of the whole.
    fn of_part(part: Box<dyn RowScan + Send>) -> Search<'e> {
        Search { requests: Requests::of(Vec::new()), part: 0, found: Found::Scan(part) }
    }

    /// Opens the next request; returns false if there is none.
    fn open(&mut self, node: &'e ScanNode, run: &Run<'e>) -> Result<bool> {
        let Some((part, request)) = self.requests.waiting.next() else { return Ok(false) };
        self.part = part;
        self.found = match request {
            Request::Point(key) => Found::Point(key),
            Request::Range(index, range) => {
                let name = index.map(|index| node.table.indexes[index].name.as_str());
                // Rows that another part has found are recognized by columns that need not be in the result.
                let columns = self.requests.union.is_none().then(|| node.decoder.columns());
                Found::Scan(run.rows.scan(&node.table.engine, name, range, columns)?)
            }
        };
        Ok(true)
    }

    /// Adds the next rows that meet the node's filter to a batch, until it has `most` rows; returns true if there may
    /// be more.
    pub(crate) fn fill(
        &mut self,
        node: &'e ScanNode,
        run: &mut Run<'e>,
        batch: &mut Batch,
        most: usize,
        keys: &[ScanKeys<'e>],
    ) -> Result<bool> {
        while batch.len() < most && !batch.is_full() {
            if !self.read(node, run, batch, most, keys)? && !self.open(node, run)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns true if an earlier part has found a row.
    fn is_known(&self, row: &Row<'_>) -> Result<bool> {
        self.requests.union.as_ref().map_or(Ok(false), |union| union.is_known(self.part, row))
    }

    /// Adds rows as [`fill`](Self::fill) does, for the open request.
    fn read(
        &mut self,
        node: &'e ScanNode,
        run: &mut Run<'e>,
        batch: &mut Batch,
        most: usize,
        keys: &[ScanKeys<'e>],
    ) -> Result<bool> {
        let mut scan = match std::mem::replace(&mut self.found, Found::Ended) {
            Found::Ended => return Ok(false),
            Found::Point(key) => {
                self.read_point(node, run, batch, &key)?;
                return Ok(false);
            }
            Found::Scan(scan) => scan,
        };
        let more = match &node.filter {
            None if keys.is_empty() && self.requests.union.is_none() => scan.read(&mut |row| {
                batch.push_by(|values| node.decoder.each(row, |value| values.push(value)))?;
                Ok(batch.len() < most && !batch.is_full())
            })?,
            filter => {
                let mut slots = vec![Value::Null; node.decoder.len()];
                let others = keys.last().map_or(&node.others, |keys| &keys.others);
                scan.read(&mut |row| {
                    if self.is_known(row)? {
                        return Ok(true);
                    }
                    if let Some(filter) = filter {
                        node.decoder.decode_some(row, &node.filtered, &mut slots)?;
                        if !run.holds(filter, &slots)? {
                            run.check_interrupt()?;
                            return Ok(true);
                        }
                    }
                    for keys in keys {
                        node.decoder.decode_some(row, &keys.read, &mut slots)?;
                        if !keys.filter.admits(&run.hashing, &slots, &keys.filter.slots) {
                            run.check_interrupt()?;
                            return Ok(true);
                        }
                    }
                    node.decoder.decode_some(row, others, &mut slots)?;
                    batch.push(node.output.iter().map(|&slot| std::mem::take(&mut slots[slot])));
                    Ok(batch.len() < most && !batch.is_full())
                })?
            }
        };
        if more {
            self.found = Found::Scan(scan);
        }
        Ok(more)
    }

    fn read_point(
        &self,
        node: &'e ScanNode,
        run: &mut Run<'e>,
        batch: &mut Batch,
        key: &[Stored],
    ) -> Result<()> {
        let rows = run.rows;
        // Rows that another part has found are recognized by columns that need not be in the result.
        let columns = self.requests.union.is_none().then(|| node.decoder.columns());
        if node.filter.is_none() && self.requests.union.is_none() {
            rows.get(&node.table.engine, &refs(key), columns, &mut |row| {
                batch.push_by(|values| node.decoder.each(row, |value| values.push(value)))
            })?;
            return Ok(());
        }
        let mut slots = vec![Value::Null; node.decoder.len()];
        let mut is_new = false;
        rows.get(&node.table.engine, &refs(key), columns, &mut |row| {
            is_new = !self.is_known(row)?;
            node.decoder.decode(row, &mut slots)
        })?;
        let passes = match &node.filter {
            Some(filter) if is_new => run.holds(filter, &slots)?,
            _ => is_new,
        };
        if passes {
            batch.push(node.output.iter().map(|&slot| std::mem::take(&mut slots[slot])));
        }
        Ok(())
    }
}

/// A scan of a table.
pub(crate) struct TableScan<'e> {
    node: &'e ScanNode,
    search: Option<Search<'e>>,
    /// The number of rows in the next batch: few at first, if few may be wanted.
    most: usize,
    keys: Vec<ScanKeys<'e>>,
}

/// Keys by which a hash join above rejects rows.
pub(crate) struct ScanKeys<'e> {
    /// Its slots are the decoder's.
    filter: KeyFilter<'e>,
    /// The slots that are read for it, and those that are read of rows that pass it.
    read: Vec<usize>,
    others: Vec<usize>,
}

/// The number of rows in the first batch of a scan.
const FIRST_ROWS: usize = 16;

impl<'e> TableScan<'e> {
    pub(crate) fn new(node: &'e ScanNode) -> TableScan<'e> {
        TableScan { node, search: None, most: FIRST_ROWS, keys: Vec::new() }
    }

    /// A scan of a part that was cut out of the whole.
    pub(crate) fn of_part(node: &'e ScanNode, part: Box<dyn RowScan + Send>) -> TableScan<'e> {
        TableScan { node, search: Some(Search::of_part(part)), most: BATCH_ROWS, keys: Vec::new() }
    }
}

impl<'e> Operator<'e> for TableScan<'e> {
    fn drop_unmatched(&mut self, filter: KeyFilter<'e>) {
        let slots: Vec<usize> = filter.slots.iter().map(|&slot| self.node.output[slot]).collect();
        let waiting = self.keys.last().map_or(&self.node.others, |keys| &keys.others);
        let (read, others) = waiting.iter().copied().partition(|slot| slots.contains(slot));
        self.keys.push(ScanKeys { filter: filter.with_slots(slots), read, others });
    }

    fn next(&mut self, run: &mut Run<'e>) -> Result<Option<Batch>> {
        let search = match &mut self.search {
            Some(search) => search,
            None => self.search.insert(Search::new(requests(self.node, run, &[])?)),
        };
        run.check_interrupt()?;
        let mut batch = Batch::with_capacity(self.node.output.len(), self.most);
        search.fill(self.node, run, &mut batch, self.most, &self.keys)?;
        self.most = (self.most * 4).min(BATCH_ROWS);
        Ok((!batch.is_empty()).then_some(batch))
    }

    fn expect_few(&mut self, rows: usize) {
        self.most = self.most.min(rows.max(1));
    }
}
