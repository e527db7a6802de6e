//! Frames of windows: the rows around a row that a window function sees.

use std::ops::Range;

use smallvec::smallvec;

use crate::bind::tree::{FrameExclusion, FrameUnit};
use crate::error::{Result, SqlError, SqlState};
use crate::functions::Frame;
use crate::plan::node::{FrameEnd, FrameNode, SortKey};
use crate::run::Run;
use crate::run::operator::window_range::RangeEnd;
use crate::run::operator::window_rows::PartitionRows;
use crate::types::Value;

/// The frames of a call in a partition.
pub(crate) struct Frames<'e> {
    frame: &'e FrameNode,
    order: &'e [SortKey],
    start: End,
    end: End,
    /// The position where the last search for each end by value has ended: the next one begins there.
    found: [usize; 2],
}

/// One end, with its offset evaluated.
enum End {
    Unbounded,
    Current,
    /// This many rows or groups away; negative: before.
    Away(i64),
    /// The bound of the sort key, for each row.
    Value {
        offset: Value,
        is_before: bool,
    },
}

/// Returns true if frames count groups of peers.
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

    /// The first row of the frame of a row.
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

    /// The end of the frame of a row: the row behind its last one.
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
        let offset =
            RangeEnd { offset, subtracts: *is_before != key.descending, up_to: is_start == key.descending };
        // An end never goes back, whatever the rows behind it say.
        let mut at = self.found[usize::from(is_start)];
        while at < rows.len() {
            let value = rows.value(at, key.slot)?;
            let is_before = match (value.is_null(), mine.is_null()) {
                (false, false) => offset.contains(run, &value, &mine)? != is_start,
                (true, true) => !is_start,
                (value_is_null, _) => value_is_null == key.nulls_first,
            };
            if !is_before {
                break;
            }
            at += 1;
        }
        self.found[usize::from(is_start)] = at;
        Ok(at)
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
    if frame.unit != FrameUnit::Range && offset.any_int() < 0 {
        return Err(SqlError::new(
            SqlState::INVALID_PRECEDING_OR_FOLLOWING_SIZE,
            format!("frame {place} offset must not be negative"),
        ));
    }
    Ok(match frame.unit {
        FrameUnit::Range => End::Value { offset, is_before },
        _ => End::Away(if is_before { -offset.any_int() } else { offset.any_int() }),
    })
}

fn shifted(from: usize, away: i64) -> usize {
    (from as i64).saturating_add(away).max(0) as usize
}

/// The place behind one that is so far away.
fn behind(from: usize, away: i64) -> usize {
    (from as i64).saturating_add(away).saturating_add(1).max(0) as usize
}
