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
use crate::types::datetime::date_to_timestamp_clamped;
use crate::types::{Type, Value};

/// What the frames of a partition's rows depend on.
pub(crate) struct Frames<'f, 'e> {
    pub(crate) frame: &'e FrameNode,
    pub(crate) order: &'e [SortKey],
    /// For each row its group of peers, and where each group begins.
    pub(crate) groups: &'f [usize],
    pub(crate) starts: &'f [usize],
    pub(crate) rows: usize,
    pub(crate) row: &'f dyn Fn(usize) -> &'f [Value],
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

impl<'e> Frames<'_, 'e> {
    /// The frame of each row: ranges of rows.
    pub(crate) fn all(&self, run: &mut Run<'e>) -> Result<Vec<Frame>> {
        let start = self.end(run, &self.frame.start)?;
        let end = self.end(run, &self.frame.end)?;
        (0..self.rows)
            .map(|row| {
                let from = self.first(run, &start, row)?;
                let to = self.last(run, &end, row)?;
                Ok(self.exclude(from.min(self.rows)..to.min(self.rows), row))
            })
            .collect()
    }

    fn end(&self, run: &mut Run<'e>, end: &'e FrameEnd) -> Result<End> {
        let (offset, is_before) = match end {
            FrameEnd::UnboundedPreceding | FrameEnd::UnboundedFollowing => return Ok(End::Unbounded),
            FrameEnd::CurrentRow => return Ok(End::Current),
            FrameEnd::Preceding(offset) => (offset, true),
            FrameEnd::Following(offset) => (offset, false),
        };
        let offset = run.evaluate(offset, &[])?;
        let place = if std::ptr::eq(end, &self.frame.start) { "starting" } else { "ending" };
        if offset.is_null() {
            return Err(SqlError::new(
                SqlState::NULL_VALUE_NOT_ALLOWED,
                format!("frame {place} offset must not be null"),
            ));
        }
        if is_negative(&offset) {
            let message = match self.frame.unit {
                FrameUnit::Range => "invalid preceding or following size in window function".to_string(),
                _ => format!("frame {place} offset must not be negative"),
            };
            return Err(SqlError::new(SqlState::INVALID_PRECEDING_OR_FOLLOWING_SIZE, message));
        }
        Ok(match self.frame.unit {
            FrameUnit::Range => End::Value { offset, is_before },
            _ => End::Away(if is_before { -offset.any_int() } else { offset.any_int() }),
        })
    }

    /// Where the frame of a row begins.
    fn first(&self, run: &mut Run<'e>, start: &End, row: usize) -> Result<usize> {
        Ok(match (self.frame.unit, start) {
            (_, End::Unbounded) => 0,
            (FrameUnit::Rows, End::Current) => row,
            (_, End::Current) => self.starts[self.groups[row]],
            (FrameUnit::Rows, End::Away(away)) => shifted(row, *away),
            (_, End::Away(away)) => {
                let group = shifted(self.groups[row], *away);
                self.starts.get(group).copied().unwrap_or(self.rows)
            }
            (_, End::Value { offset, is_before }) => self.by_value(run, row, offset, *is_before, true)?,
        })
    }

    /// Where the frame of a row ends: the row behind its last one.
    fn last(&self, run: &mut Run<'e>, end: &End, row: usize) -> Result<usize> {
        let group_end = |group: usize| self.starts.get(group + 1).copied().unwrap_or(self.rows);
        Ok(match (self.frame.unit, end) {
            (_, End::Unbounded) => self.rows,
            (FrameUnit::Rows, End::Current) => row + 1,
            (_, End::Current) => group_end(self.groups[row]),
            (FrameUnit::Rows, End::Away(away)) => behind(row, *away),
            (_, End::Away(away)) => match behind(self.groups[row], *away) {
                0 => 0,
                group => group_end((group - 1).min(self.starts.len() - 1)),
            },
            (_, End::Value { offset, is_before }) => self.by_value(run, row, offset, *is_before, false)?,
        })
    }

    /// An end of RANGE with an offset: where the sort key passes the row's key plus or minus the offset.
    fn by_value(
        &self,
        run: &mut Run<'e>,
        row: usize,
        offset: &Value,
        is_before: bool,
        is_start: bool,
    ) -> Result<usize> {
        let [key] = self.order else {
            return Err(SqlError::new(
                SqlState::WINDOWING_ERROR,
                "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column",
            ));
        };
        let mine = &(self.row)(row)[key.slot];
        let peers = self.starts[self.groups[row]]
            ..self.starts.get(self.groups[row] + 1).copied().unwrap_or(self.rows);
        if mine.is_null() {
            return Ok(if is_start { peers.start } else { peers.end });
        }
        let symbol = if is_before != key.descending { "-" } else { "+" };
        let Some(bound) = moved(run, symbol, mine, offset)? else {
            // Beyond what the type can hold: nothing is that far away.
            return Ok(if is_before { 0 } else { self.rows });
        };
        let is_inside = |position: usize| {
            let value = &(self.row)(position)[key.slot];
            if value.is_null() {
                return if key.nulls_first { Ordering::Less } else { Ordering::Greater };
            }
            let ordering = compare(value, &bound);
            if key.descending { ordering.reverse() } else { ordering }
        };
        let (mut low, mut high) = (0, self.rows);
        while low < high {
            let middle = low + (high - low) / 2;
            let ordering = is_inside(middle);
            let is_earlier = if is_start { ordering.is_lt() } else { ordering.is_le() };
            if is_earlier {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    fn exclude(&self, frame: Range<usize>, row: usize) -> Frame {
        if self.frame.exclusion == FrameExclusion::NoOthers && frame.start < frame.end {
            return smallvec![frame];
        }
        let peers = self.starts[self.groups[row]]
            ..self.starts.get(self.groups[row] + 1).copied().unwrap_or(self.rows);
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
