//! Functions that return rows.

use crate::bind::routines::is_call;
use crate::functions::Function;
use crate::plan::expression::Expr;
use crate::types::{Type, Value};

/// Functions in FROM, beside each other.
#[derive(Debug)]
pub(crate) struct FunctionsNode {
    pub(crate) calls: Vec<FunctionItem>,
    pub(crate) ordinality: bool,
}

/// One function in FROM.
#[derive(Debug)]
pub(crate) enum FunctionItem {
    /// A function that returns rows, of this many columns.
    Set { call: SetCall, columns: usize },
    /// One row.
    Scalar { value: Expr, columns: usize },
}

/// A call of a set-returning function.
#[derive(Debug)]
pub(crate) struct SetCall {
    pub(crate) function: &'static Function,
    pub(crate) arguments: Vec<Expr>,
    pub(crate) types: Vec<Type>,
    pub(crate) result: Type,
}

impl FunctionItem {
    /// The oid of the routine whose rows it is, if it is one.
    pub(crate) fn routine(&self) -> Option<u32> {
        match self {
            FunctionItem::Set { call, .. } if is_call(call.function) => call.routine(),
            _ => None,
        }
    }
}

impl SetCall {
    /// The oid of the routine that it calls, if it calls one.
    pub(crate) fn routine(&self) -> Option<u32> {
        self.arguments.first()?.as_constant().map(Value::oid)
    }
}
