//! Scans of tables: the rows that a path finds, as values of SQL.
//!
//! # Invariants
//! - A value that no key can hold (NULL, a number out of the column's range) finds nothing where it must be equal; as a bound it is
//!   left out where that finds more rows, because the scan's filter looks at them again.

use heddledb::{Range, Value as Stored, ValueRef};

use crate::access::RowScan;
use crate::catalog::Table;
use crate::error::Result;
use crate::plan::node::{Bound, Path, ScanNode};
use crate::plan::scan::HIDDEN_KEY;
use crate::run::Run;
use crate::run::batch::{BATCH_ROWS, Batch};
use crate::run::operator::{KeyFilter, Operator};
use crate::storage;
use crate::types::{Modifier, Type, Value};

/// A key column's value as it is stored; none: no row has it.
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

/// An integer as one of the column's width; none: it is out of range.
fn narrowed(ty: Type, value: &Value) -> Option<Value> {
    match (ty, value) {
        (Type::Int2, Value::Int4(_) | Value::Int8(_)) => i16::try_from(value.any_int()).ok().map(Value::Int2),
        (Type::Int4, Value::Int2(_) | Value::Int8(_)) => i32::try_from(value.any_int()).ok().map(Value::Int4),
        (Type::Int8, Value::Int2(_) | Value::Int4(_)) => Some(Value::Int8(value.any_int())),
        _ => Some(value.clone()),
    }
}

/// Whether what was stored is the value, not a rounded one.
fn matches_column(ty: Type, modifier: Modifier, value: &Value, stored: &Stored) -> bool {
    storage::decode(ty, modifier, ValueRef::from(stored)).is_ok_and(|decoded| decoded == *value)
}

/// What a path asks of the engine.
pub(crate) enum Request {
    Point(Vec<Stored>),
    Range(Option<usize>, Range),
}

/// The columns of the primary key or of an index.
fn columns_of(table: &Table, index: Option<usize>) -> Vec<usize> {
    match index {
        None if table.key.is_empty() => vec![HIDDEN_KEY],
        None => table.key.clone(),
        Some(index) => table.indexes[index].columns.iter().map(|column| column.column).collect(),
    }
}

fn refs(values: &[Stored]) -> Vec<ValueRef<'_>> {
    values.iter().map(ValueRef::from).collect()
}

/// What a path asks for, where its expressions see this row.
pub(crate) fn requests<'e>(node: &'e ScanNode, run: &mut Run<'e>, row: &[Value]) -> Result<Vec<Request>> {
    let table = &*node.table;
    let range =
        |index, range: Range| Request::Range(index, if node.backward { range.reverse() } else { range });
    Ok(match &node.path {
        Path::Full => vec![range(None, Range::all())],
        Path::Point(key) => {
            let mut stored = Vec::with_capacity(key.len());
            for (column, value) in columns_of(table, None).into_iter().zip(key) {
                let value = run.evaluate(value, row)?;
                match stored_key(table, column, &value) {
                    Some(value) => stored.push(value),
                    None => return Ok(Vec::new()),
                }
            }
            vec![Request::Point(stored)]
        }
        Path::Points { index, prefix, last, whole } => {
            let columns = columns_of(table, *index);
            let Some(stored) = stored_prefix(node, run, row, &columns, prefix)? else {
                return Ok(Vec::new());
            };
            let Value::Array(values) = run.evaluate(last, row)? else { return Ok(Vec::new()) };
            let mut values = values.values.clone();
            values.sort();
            values.dedup();
            let keys = values.iter().filter_map(|value| stored_key(table, columns[prefix.len()], value));
            let keys = keys.map(|last| stored.iter().cloned().chain([last]).collect::<Vec<_>>());
            keys.map(|key| match whole {
                true => Request::Point(key),
                false => range(*index, Range::prefix(refs(&key))),
            })
            .collect()
        }
        Path::Range { index, prefix, lower, upper } => {
            let columns = columns_of(table, *index);
            let Some(stored) = stored_prefix(node, run, row, &columns, prefix)? else {
                return Ok(Vec::new());
            };
            let bounds = Bounds { table, column: columns.get(prefix.len()).copied(), prefix: stored };
            match bounds.range(run, row, lower.as_ref(), upper.as_ref())? {
                Some(bounded) => vec![range(*index, bounded)],
                None => Vec::new(),
            }
        }
    })
}

fn stored_prefix<'e>(
    node: &ScanNode,
    run: &mut Run<'e>,
    row: &[Value],
    columns: &[usize],
    prefix: &'e [crate::plan::expression::Expr],
) -> Result<Option<Vec<Stored>>> {
    let mut stored = Vec::with_capacity(prefix.len());
    for (column, value) in columns.iter().zip(prefix) {
        let value = run.evaluate(value, row)?;
        match stored_key(&node.table, *column, &value) {
            Some(value) => stored.push(value),
            None => return Ok(None),
        }
    }
    Ok(Some(stored))
}

/// Bounds of the column behind a prefix.
struct Bounds<'t> {
    table: &'t Table,
    column: Option<usize>,
    prefix: Vec<Stored>,
}

impl Bounds<'_> {
    /// The range between two bounds; none: nothing is in it.
    fn range<'e>(
        &self,
        run: &mut Run<'e>,
        row: &[Value],
        lower: Option<&'e Bound>,
        upper: Option<&'e Bound>,
    ) -> Result<Option<Range>> {
        let mut range = match self.prefix.is_empty() {
            true => Range::all(),
            false => Range::prefix(refs(&self.prefix)),
        };
        let key = |value: Stored| {
            let mut key = self.prefix.clone();
            key.push(value);
            key
        };
        let mut is_bounded = false;
        if let Some(bound) = lower {
            let value = run.evaluate(&bound.value, row)?;
            if value.is_null() {
                return Ok(None);
            }
            // What equals an excluded bound is left out by the filter.
            if let Some(stored) = self.column.and_then(|column| stored_key(self.table, column, &value)) {
                range = range.starting_at(refs(&key(stored)));
                is_bounded = true;
            }
        }
        if let Some(bound) = upper {
            let value = run.evaluate(&bound.value, row)?;
            if value.is_null() {
                return Ok(None);
            }
            if let Some(stored) = self.column.and_then(|column| stored_key(self.table, column, &value)) {
                let key = key(stored);
                range = if bound.inclusive { range.to_inclusive(refs(&key)) } else { range.to(refs(&key)) };
            }
        }
        let _ = is_bounded;
        Ok(Some(range))
    }
}

/// The rows of one request.
pub(crate) enum Found<'e> {
    Scan(Box<dyn RowScan + 'e>),
    Point(Vec<Stored>),
    Ended,
}

/// Opens a request.
pub(crate) fn open<'e>(node: &'e ScanNode, run: &Run<'e>, request: Request) -> Result<Found<'e>> {
    Ok(match request {
        Request::Point(key) => Found::Point(key),
        Request::Range(index, range) => {
            let name = index.map(|index| node.table.indexes[index].name.as_str());
            Found::Scan(run.rows.scan(&node.table.engine, name, range, Some(node.decoder.columns()))?)
        }
    })
}

impl<'e> Found<'e> {
    /// Adds the next rows that meet the node's filter to a batch, until it has `most` rows. Whether there may be more.
    pub(crate) fn fill(
        &mut self,
        node: &'e ScanNode,
        run: &mut Run<'e>,
        batch: &mut Batch,
        most: usize,
        keys: &[ScanKeys<'e>],
    ) -> Result<bool> {
        match std::mem::replace(self, Found::Ended) {
            Found::Ended => Ok(false),
            Found::Point(key) => {
                let rows = run.rows;
                if node.filter.is_none() {
                    rows.get(&node.table.engine, &refs(&key), &mut |row| {
                        batch.push_by(|values| node.decoder.each(row, |value| values.push(value)))
                    })?;
                    return Ok(false);
                }
                let mut slots = vec![Value::Null; node.decoder.len()];
                let found = rows
                    .get(&node.table.engine, &refs(&key), &mut |row| node.decoder.decode(row, &mut slots))?;
                let passes = match &node.filter {
                    Some(filter) if found => run.holds(filter, &slots)?,
                    _ => found,
                };
                if passes {
                    batch.push(node.output.iter().map(|&slot| std::mem::take(&mut slots[slot])));
                }
                Ok(false)
            }
            Found::Scan(mut scan) => {
                let more = match &node.filter {
                    None if keys.is_empty() => scan.read(&mut |row| {
                        batch.push_by(|values| node.decoder.each(row, |value| values.push(value)))?;
                        Ok(batch.len() < most && !batch.is_full())
                    })?,
                    filter => {
                        let mut slots = vec![Value::Null; node.decoder.len()];
                        let others = keys.last().map_or(&node.others, |keys| &keys.others);
                        scan.read(&mut |row| {
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
                    *self = Found::Scan(scan);
                }
                Ok(more)
            }
        }
    }
}

/// A scan of a table.
pub(crate) struct TableScan<'e> {
    node: &'e ScanNode,
    requests: Option<std::vec::IntoIter<Request>>,
    found: Found<'e>,
    /// How many rows the next batch has: few at first, where few may be wanted.
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

/// How many rows the first batch of a scan has.
const FIRST_ROWS: usize = 16;

impl<'e> TableScan<'e> {
    pub(crate) fn new(node: &'e ScanNode) -> TableScan<'e> {
        TableScan { node, requests: None, found: Found::Ended, most: FIRST_ROWS, keys: Vec::new() }
    }

    /// A scan of a part that was cut out of the whole.
    pub(crate) fn of_part(node: &'e ScanNode, part: Box<dyn RowScan + Send>) -> TableScan<'e> {
        let requests = Some(Vec::new().into_iter());
        TableScan { node, requests, found: Found::Scan(part), most: BATCH_ROWS, keys: Vec::new() }
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
        if self.requests.is_none() {
            self.requests = Some(requests(self.node, run, &[])?.into_iter());
        }
        run.check_interrupt()?;
        let mut batch = Batch::with_capacity(self.node.output.len(), self.most);
        while batch.len() < self.most && !batch.is_full() {
            if self.found.fill(self.node, run, &mut batch, self.most, &self.keys)? {
                continue;
            }
            let Some(request) = self.requests.as_mut().and_then(Iterator::next) else { break };
            self.found = open(self.node, run, request)?;
        }
        self.most = (self.most * 4).min(BATCH_ROWS);
        Ok((!batch.is_empty()).then_some(batch))
    }

    fn expect_few(&mut self, rows: usize) {
        self.most = self.most.min(rows.max(1));
    }
}
