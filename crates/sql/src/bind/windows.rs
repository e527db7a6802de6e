//! Windows: PARTITION BY, ORDER BY, frames, windows built on others.
//!
//! Source: PostgreSQL 15, `transformWindowDefinitions` in `parse_clause.c`.

use crate::bind::binder::Binder;
use crate::bind::scope::Clause;
use crate::bind::tree::{BoundExpr, Frame, FrameBound, FrameExclusion, FrameUnit, SortKey};
use crate::error::{Result, SqlState};
use crate::parse::syntax::{ExclusionName, Expr, FrameClause, FrameLimit, FrameUnitName, WindowDefinition};
use crate::types::cast::CastContext;
use crate::types::{Modifier, Type};

impl Binder<'_> {
    /// A window in parentheses that may start from a named one: the parts of both.
    pub fn inherited_window(&mut self, definition: &WindowDefinition) -> Result<WindowDefinition> {
        let Some(base) = &definition.base else { return Ok(definition.clone()) };
        let wrong =
            |binder: &Self, message: String| binder.error(base.at, SqlState::WINDOWING_ERROR, message);
        let Some(found) = self.scope().named_windows.get(&base.text).cloned() else {
            let message = format!("window \"{}\" does not exist", base.text);
            return Err(self.error(base.at, SqlState::UNDEFINED_OBJECT, message));
        };
        if !definition.partition_by.is_empty() {
            return Err(wrong(
                self,
                format!("cannot override PARTITION BY clause of window \"{}\"", base.text),
            ));
        }
        if !definition.order_by.is_empty() && !found.order_by.is_empty() {
            return Err(wrong(self, format!("cannot override ORDER BY clause of window \"{}\"", base.text)));
        }
        if found.frame.is_some() {
            let message = format!("cannot copy window \"{}\" because it has a frame clause", base.text);
            return Err(wrong(self, message));
        }
        let order_by =
            if definition.order_by.is_empty() { found.order_by } else { definition.order_by.clone() };
        Ok(WindowDefinition {
            base: None,
            partition_by: found.partition_by,
            order_by,
            frame: definition.frame.clone(),
            at: definition.at,
        })
    }

    /// The bound parts of a window.
    pub fn window(&mut self, definition: &WindowDefinition) -> Result<(Vec<BoundExpr>, Vec<SortKey>, Frame)> {
        self.in_clause(Clause::Window, |binder| {
            let mut partition_by = Vec::with_capacity(definition.partition_by.len());
            for expr in &definition.partition_by {
                let bound = binder.expr(expr)?;
                let bound = binder.known(bound, expr.at)?;
                binder.check_ordering(bound.ty(), expr.at)?;
                partition_by.push(bound);
            }
            let order_by = binder.sort_keys(&definition.order_by, false)?;
            let frame = match &definition.frame {
                Some(frame) => binder.frame(frame, &order_by)?,
                None => default_frame(),
            };
            Ok((partition_by, order_by, frame))
        })
    }

    fn frame(&mut self, clause: &FrameClause, order_by: &[SortKey]) -> Result<Frame> {
        let unit = match clause.unit {
            FrameUnitName::Rows => FrameUnit::Rows,
            FrameUnitName::Range => FrameUnit::Range,
            FrameUnitName::Groups => FrameUnit::Groups,
        };
        if unit == FrameUnit::Groups && order_by.is_empty() {
            return Err(self.error(
                clause.at,
                SqlState::WINDOWING_ERROR,
                "GROUPS mode requires an ORDER BY clause",
            ));
        }
        let start = self.frame_bound(&clause.start, unit, order_by)?;
        let end = match &clause.end {
            Some(end) => self.frame_bound(end, unit, order_by)?,
            None => FrameBound::CurrentRow,
        };
        let exclusion = match clause.exclusion {
            ExclusionName::NoOthers => FrameExclusion::NoOthers,
            ExclusionName::CurrentRow => FrameExclusion::CurrentRow,
            ExclusionName::Group => FrameExclusion::Group,
            ExclusionName::Ties => FrameExclusion::Ties,
        };
        Ok(Frame { unit, start, end, exclusion })
    }

    fn frame_bound(
        &mut self,
        limit: &FrameLimit,
        unit: FrameUnit,
        order_by: &[SortKey],
    ) -> Result<FrameBound> {
        Ok(match limit {
            FrameLimit::UnboundedPreceding => FrameBound::UnboundedPreceding,
            FrameLimit::CurrentRow => FrameBound::CurrentRow,
            FrameLimit::UnboundedFollowing => FrameBound::UnboundedFollowing,
            FrameLimit::Preceding(offset) => {
                FrameBound::Preceding(self.frame_offset(offset, unit, order_by)?)
            }
            FrameLimit::Following(offset) => {
                FrameBound::Following(self.frame_offset(offset, unit, order_by)?)
            }
        })
    }

    fn frame_offset(&mut self, offset: &Expr, unit: FrameUnit, order_by: &[SortKey]) -> Result<BoundExpr> {
        let bound = self.expr(offset)?;
        if crate::bind::tree::walk::names_columns(&bound) {
            let mode = if unit == FrameUnit::Rows {
                "ROWS"
            } else if unit == FrameUnit::Range {
                "RANGE"
            } else {
                "GROUPS"
            };
            let message = format!("argument of {mode} must not contain variables");
            return Err(self.error(offset.at, SqlState::INVALID_COLUMN_REFERENCE, message));
        }
        if unit != FrameUnit::Range {
            return self.coerce(bound, Type::Int8, Modifier::NONE, CastContext::Assignment, offset.at);
        }
        let [key] = order_by else {
            let message = "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column";
            return Err(self.error(offset.at, SqlState::WINDOWING_ERROR, message));
        };
        let ty = match key.expr.ty() {
            Type::Int8 => Type::Int8,
            key @ (Type::Int2 | Type::Int4) => match bound.ty() {
                given @ (Type::Int2 | Type::Int4 | Type::Int8) => given,
                Type::Unknown => key,
                _ => Type::Int8,
            },
            Type::Float4 | Type::Float8 => Type::Float8,
            Type::Numeric => Type::Numeric,
            Type::Date | Type::Time | Type::Timetz | Type::Timestamp | Type::Timestamptz | Type::Interval => {
                Type::Interval
            }
            ty => {
                let message = format!(
                    "RANGE with offset PRECEDING/FOLLOWING is not supported for column type {}",
                    self.type_text(ty)
                );
                return Err(self.unsupported(offset.at, &message));
            }
        };
        let given = bound.ty();
        self.implicit(bound, ty, offset.at).map_err(|error| match error.state() {
            SqlState::CANNOT_COERCE | SqlState::DATATYPE_MISMATCH => {
                let message = format!(
                    "RANGE with offset PRECEDING/FOLLOWING is not supported for column type {} and offset type {}",
                    self.type_text(key.expr.ty()),
                    self.type_text(given)
                );
                let hint = "Cast the offset value to an appropriate type.";
                self.unsupported(offset.at, &message).with_hint(hint)
            }
            _ => error,
        })
    }
}

/// RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW: all rows up to the current one's peers.
fn default_frame() -> Frame {
    Frame {
        unit: FrameUnit::Range,
        start: FrameBound::UnboundedPreceding,
        end: FrameBound::CurrentRow,
        exclusion: FrameExclusion::NoOthers,
    }
}
