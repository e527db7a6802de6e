//! Calls over windows: the function, and the window that they are computed over.

use crate::bind::binder::Binder;
use crate::bind::scope::Clause;
use crate::bind::tree::{BoundExpr, BoundWindow, WindowFunction};
use crate::error::{Result, SqlState};
use crate::functions::{AggregateKind, FunctionKind};
use crate::parse::syntax::{At, Call, Over};

impl Binder<'_> {
    /// A call with OVER.
    pub(super) fn window_call(&mut self, call: &Call, at: At) -> Result<BoundExpr> {
        let name = call.name.last();
        let clause = self.scope().clause;
        if self.scope().in_window {
            return Err(self.error(at, SqlState::WINDOWING_ERROR, "window function calls cannot be nested"));
        }
        if self.scope().in_aggregate {
            let message = "aggregate function calls cannot contain window function calls";
            return Err(self.error(at, SqlState::GROUPING_ERROR, message));
        }
        if !clause.allows_windows() {
            let message = format!("window functions are not allowed in {}", clause.name());
            return Err(self.error(at, SqlState::WINDOWING_ERROR, message));
        }
        if call.distinct {
            return Err(self.unsupported(at, "DISTINCT is not implemented for window functions"));
        }
        if !call.order_by.is_empty() {
            return Err(self.unsupported(at, "aggregate ORDER BY is not implemented for window functions"));
        }
        self.scope().in_window = true;
        let window = self.window_parts(call, name, at);
        self.scope().in_window = false;
        let window = window?;
        let ty = window.ty;
        let windows = &mut self.scope().windows;
        let number = windows.iter().position(|it| *it == window).unwrap_or(windows.len());
        if number == windows.len() {
            windows.push(window);
        }
        Ok(BoundExpr::Window { number, ty })
    }

    fn window_parts(&mut self, call: &Call, name: &str, at: At) -> Result<BoundWindow> {
        let (args, names) = self.call_args(call)?;
        let resolved = match self.resolve(name, args, &names, call.variadic, at)? {
            Ok(resolved) => resolved,
            Err(_) => {
                let message =
                    format!("OVER specified, but {name} is not a window function nor an aggregate function");
                return Err(self.error(at, SqlState::WRONG_OBJECT_TYPE, message));
            }
        };
        let function = match resolved.function.kind {
            FunctionKind::Window(_) => WindowFunction::Window(resolved.function),
            FunctionKind::Aggregate { kind: AggregateKind::Plain, .. } => {
                WindowFunction::Aggregate(resolved.function)
            }
            FunctionKind::Aggregate { .. } => {
                let message = format!("OVER is not supported for ordered-set aggregate {name}");
                return Err(self.unsupported(at, &message));
            }
            _ => {
                let message =
                    format!("OVER specified, but {name} is not a window function nor an aggregate function");
                return Err(self.error(at, SqlState::WRONG_OBJECT_TYPE, message));
            }
        };
        if call.filter.is_some() && matches!(function, WindowFunction::Window(_)) {
            return Err(self.unsupported(at, "FILTER is not implemented for non-aggregate window functions"));
        }
        let filter = match &call.filter {
            Some(filter) => Some(self.clause_condition(filter, Clause::Filter)?),
            None => None,
        };
        let Some(over) = &call.over else { return Err(self.unsupported(at, "a window call without OVER")) };
        let definition = self.window_definition(over, at)?;
        let (partition_by, order_by, frame) = self.window(&definition)?;
        Ok(BoundWindow {
            function,
            args: resolved.args,
            filter,
            partition_by,
            order_by,
            frame,
            ty: resolved.result,
        })
    }

    fn window_definition(&mut self, over: &Over, at: At) -> Result<crate::parse::syntax::WindowDefinition> {
        match over {
            Over::Name(name) => match self.scope().named_windows.get(&name.text) {
                Some(definition) => Ok(definition.clone()),
                None => {
                    let message = format!("window \"{}\" does not exist", name.text);
                    Err(self.error(at, SqlState::UNDEFINED_OBJECT, message))
                }
            },
            Over::Window(definition) => self.inherited_window(definition),
        }
    }
}
