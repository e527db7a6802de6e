//! Frames of windows: which rows around a row a window function sees.

use std::cmp::Ordering;
use std::ops::Range;

use smallvec::smallvec;

use crate::bind::tree::{FrameExclusion, FrameUnit};
use crate::error::{Result, SqlError, SqlState};
use crate::functions::resolve::resolve_operator;
use crate::functions::{Frame, FunctionContext, ScalarFunction};
use crate::plan::node::{FrameEnd, FrameNode, SortKey};
use crate::run::Run;
use crate::run::operator::window_rows::PartitionRows;
use crate::types::datetime::date_to_timestamp_clamped;
use crate::types::{Type, Value};

/// The frames of a call in a partition.
pub(crate) struct Frames<'e> {
    frame: &'e FrameNode,
    order: &'e [SortKey],
    start: End,
    end: End,
    /// Where the last search for each end by value has ended: the next one mostly ends there or a little behind.
    found: [usize; 2],
}

/// One end, with its offset evaluated.
enum End {
    Unbounded,
    Current,
    /// This many rows or groups away; negative: before.
    Away(i64),
    /// For each row the bound of the sort key.
    Value {
        offset: Value,
        is_before: bool,
    },
}

/// Whether frames count groups of peers.
pub(crate) fn counts_groups(frame: &FrameNode) -> bool {
    let has_offset = |end: &FrameEnd| matches!(end, FrameEnd::Preceding(_) | FrameEnd::Following(_));
    frame.unit == FrameUnit::Groups && (has_offset(&frame.start) || has_offset(&frame.end))
}

impl<'e> Frames<'e> {
    /// Evaluates the offsets.
    pub(crate) fn new(run: &mut Run<'e>, frame: &'e FrameNode, order: &'e [SortKey]) -> Result<Frames<'e>> {
        let start = end_of(run, frame, &frame.start)?;
        let end = end_of(run, frame, &frame.end)?;
        Ok(Frames { frame, order, start, end, found: [0, 0] })
    }

    /// The frame of the current row.
    pub(crate) fn of(
        &mut self,
        run: &mut Run<'e>,
        rows: &mut PartitionRows<'e>,
        row: usize,
    ) -> Result<Frame> {
        let (from, to) = (self.first(run, rows, row)?, self.last(run, rows, row)?);
        Ok(self.exclude(from.min(rows.len())..to.min(rows.len()), row, rows.peers()))
    }

    /// Where the frame of a row begins.
    fn first(&mut self, run: &mut Run<'e>, rows: &mut PartitionRows<'e>, row: usize) -> Result<usize> {
        Ok(match (self.frame.unit, &self.start) {
            (_, End::Unbounded) => 0,
            (FrameUnit::Rows, End::Current) => row,
            (_, End::Current) => rows.peers().start,
            (FrameUnit::Rows, End::Away(away)) => shifted(row, *away),
            (_, End::Away(away)) => rows.group_start(shifted(rows.group(), *away))?,
            (_, End::Value { .. }) => self.by_value(run, rows, row, true)?,
        })
    }

    /// Where the frame of a row ends: the row behind its last one.
    fn last(&mut self, run: &mut Run<'e>, rows: &mut PartitionRows<'e>, row: usize) -> Result<usize> {
        Ok(match (self.frame.unit, &self.end) {
            (_, End::Unbounded) => rows.len(),
            (FrameUnit::Rows, End::Current) => row + 1,
            (_, End::Current) => rows.peers().end,
            (FrameUnit::Rows, End::Away(away)) => behind(row, *away),
            (_, End::Away(away)) => match behind(rows.group(), *away) {
                0 => 0,
                group => rows.group_start(group.min(rows.groups()))?,
            },
            (_, End::Value { .. }) => self.by_value(run, rows, row, false)?,
        })
    }

    /// An end of RANGE with an offset: where the sort key passes the row's key plus or minus the offset.
    fn by_value(
        &mut self,
        run: &mut Run<'e>,
        rows: &mut PartitionRows<'e>,
        row: usize,
        is_start: bool,
    ) -> Result<usize> {
        let [key] = self.order else {
            return Err(SqlError::new(
                SqlState::WINDOWING_ERROR,
                "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column",
            ));
        };
        let end = if is_start { &self.start } else { &self.end };
        let End::Value { offset, is_before } = end else { return Ok(row) };
        let mine = rows.value(row, key.slot)?;
        if mine.is_null() {
            let peers = rows.peers();
            return Ok(if is_start { peers.start } else { peers.end });
        }
        let symbol = if *is_before != key.descending { "-" } else { "+" };
        // Beyond what the type can hold, it is before or behind all values.
        let bound = match moved(run, symbol, &mine, offset)? {
            Some(bound) => Bound::Value(bound),
            None if *is_before => Bound::First,
            None => Bound::Last,
        };
        let last_found = &mut self.found[usize::from(is_start)];
        *last_found = passing(rows, key, &bound, is_start, *last_found)?;
        Ok(*last_found)
    }

    fn exclude(&self, frame: Range<usize>, row: usize, peers: Range<usize>) -> Frame {
        if self.frame.exclusion == FrameExclusion::NoOthers && frame.start < frame.end {
            return smallvec![frame];
        }
        let without =
            |out: Range<usize>| [frame.start..frame.end.min(out.start), frame.start.max(out.end)..frame.end];
        let parts: Vec<Range<usize>> = match self.frame.exclusion {
            FrameExclusion::NoOthers => vec![frame],
            FrameExclusion::CurrentRow => without(row..row + 1).into(),
            FrameExclusion::Group => without(peers).into(),
            FrameExclusion::Ties => {
                let [before, after] = without(peers);
                let mine = if frame.contains(&row) { row..row + 1 } else { 0..0 };
                vec![before, mine, after]
            }
        };
        parts.into_iter().filter(|part| part.start < part.end).collect()
    }
}

fn end_of<'e>(run: &mut Run<'e>, frame: &'e FrameNode, end: &'e FrameEnd) -> Result<End> {
    let (offset, is_before) = match end {
        FrameEnd::UnboundedPreceding | FrameEnd::UnboundedFollowing => return Ok(End::Unbounded),
        FrameEnd::CurrentRow => return Ok(End::Current),
        FrameEnd::Preceding(offset) => (offset, true),
        FrameEnd::Following(offset) => (offset, false),
    };
    let offset = run.evaluate(offset, &[])?;
    let place = if std::ptr::eq(end, &frame.start) { "starting" } else { "ending" };
    if offset.is_null() {
        return Err(SqlError::new(
            SqlState::NULL_VALUE_NOT_ALLOWED,
            format!("frame {place} offset must not be null"),
        ));
    }
    if is_negative(&offset) {
        let message = match frame.unit {
            FrameUnit::Range => "invalid preceding or following size in window function".to_string(),
            _ => format!("frame {place} offset must not be negative"),
        };
        return Err(SqlError::new(SqlState::INVALID_PRECEDING_OR_FOLLOWING_SIZE, message));
    }
    Ok(match frame.unit {
        FrameUnit::Range => End::Value { offset, is_before },
        _ => End::Away(if is_before { -offset.any_int() } else { offset.any_int() }),
    })
}

/// Where a frame ends, among the values of the sort key that are not NULL.
enum Bound {
    First,
    Value(Value),
    Last,
}

/// The first row that is not before a bound, or for an end the first one behind it; the search starts at a row.
fn passing(
    rows: &mut PartitionRows<'_>,
    key: &SortKey,
    bound: &Bound,
    is_start: bool,
    start: usize,
) -> Result<usize> {
    let count = rows.len();
    let mut is_earlier = |position: usize| -> Result<bool> {
        let value = &rows.rows.row(position)?[key.slot];
        let ordering = match (value.is_null(), bound) {
            (true, _) if key.nulls_first => Ordering::Less,
            (true, _) | (false, Bound::First) => Ordering::Greater,
            (false, Bound::Last) => Ordering::Less,
            (false, Bound::Value(bound)) if key.descending => compare(value, bound).reverse(),
            (false, Bound::Value(bound)) => compare(value, bound),
        };
        Ok(if is_start { ordering.is_lt() } else { ordering.is_le() })
    };
    if start == 0 || is_earlier(start - 1)? {
        let mut found = start;
        while found < count && is_earlier(found)? {
            found += 1;
        }
        return Ok(found);
    }
    let (mut low, mut high) = (0, start - 1);
    while low < high {
        let middle = low + (high - low) / 2;
        match is_earlier(middle)? {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    Ok(low)
}

fn compare(left: &Value, right: &Value) -> Ordering {
    let is_int = |value: &Value| matches!(value, Value::Int2(_) | Value::Int4(_) | Value::Int8(_));
    match (left, right) {
        (left, right) if is_int(left) && is_int(right) => left.any_int().cmp(&right.any_int()),
        (Value::Date(left), Value::Timestamp(right)) => date_to_timestamp_clamped(*left).cmp(right),
        (Value::Float4(left), right @ Value::Float8(_)) => Value::Float8(f64::from(*left)).cmp(right),
        (left, right) => left.cmp(right),
    }
}

fn shifted(from: usize, away: i64) -> usize {
    (from as i64).saturating_add(away).max(0) as usize
}

/// The place behind one that is so far away.
fn behind(from: usize, away: i64) -> usize {
    (from as i64).saturating_add(away).saturating_add(1).max(0) as usize
}

fn is_negative(offset: &Value) -> bool {
    match offset {
        Value::Int2(_) | Value::Int4(_) | Value::Int8(_) => offset.any_int() < 0,
        Value::Float4(value) => *value < 0.0 || value.is_nan(),
        Value::Float8(value) => *value < 0.0 || value.is_nan(),
        Value::Numeric(value) => value.is_negative() || value.is_nan(),
        Value::Interval(value) => value.total_micros() < 0,
        _ => false,
    }
}

/// A key plus or minus an offset; none: it is out of its type's range.
fn moved(run: &mut Run<'_>, symbol: &str, key: &Value, offset: &Value) -> Result<Option<Value>> {
    if let (Value::Time(key), Value::Interval(offset)) = (key, offset) {
        // Unlike `time + interval`, this doesn't wrap around at midnight.
        let micros = if symbol == "-" { -offset.micros } else { offset.micros };
        return Ok(Some(Value::Time(key.saturating_add(micros))));
    }
    let types = [type_of(key), type_of(offset)];
    let Some((code, result)) = operator(symbol, types) else {
        return Err(SqlError::unsupported(format!(
            "RANGE with offset PRECEDING/FOLLOWING is not supported for column type {} and offset type {}",
            types[0].display_name(),
            types[1].display_name()
        )));
    };
    let mut context =
        FunctionContext { environment: run.environment, argument_types: &types, result_type: result };
    match code(&mut context, &[key.clone(), offset.clone()]) {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.state().class() == "22" => Ok(None),
        Err(error) => Err(error),
    }
}

fn operator(symbol: &str, types: [Type; 2]) -> Option<(ScalarFunction, Type)> {
    let resolved = resolve_operator(symbol, types[0], types[1]).ok()?;
    (resolved.arguments[..] == types)
        .then(|| resolved.function.scalar().map(|code| (code, resolved.result)))
        .flatten()
}

fn type_of(value: &Value) -> Type {
    match value {
        Value::Int2(_) => Type::Int2,
        Value::Int4(_) => Type::Int4,
        Value::Int8(_) => Type::Int8,
        Value::Float4(_) => Type::Float4,
        Value::Float8(_) => Type::Float8,
        Value::Numeric(_) => Type::Numeric,
        Value::Date(_) => Type::Date,
        Value::Time(_) => Type::Time,
        Value::Timestamp(_) => Type::Timestamp,
        Value::Timestamptz(_) => Type::Timestamptz,
        Value::Interval(_) => Type::Interval,
        _ => Type::Unknown,
    }
}
