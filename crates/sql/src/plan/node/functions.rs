//! Functions that return rows.

use crate::bind::routines::is_call;
use crate::error::{Result, SqlError, SqlState};
use crate::functions::Function;
use crate::plan::expression::Expr;
use crate::types::record::RecordField;
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
    /// A function that returns rows, of this many columns. `keeps`: see [`FunctionItem::keeps`].
    Set { call: SetCall, columns: usize, keeps: bool },
    /// One row.
    Scalar { value: Expr, columns: usize, keeps: bool },
}

/// A call of a set-returning function.
#[derive(Debug)]
pub(crate) struct SetCall {
    pub(crate) function: &'static Function,
    pub(crate) arguments: Vec<Expr>,
    pub(crate) types: Vec<Type>,
    pub(crate) result: Type,
    /// Types of the columns of a routine in FROM.
    pub(crate) shape: Vec<Type>,
}

impl FunctionItem {
    /// Returns true if its first result is kept for the whole statement: the node runs for several rows, of which the
    /// function sees nothing, and a second call may have another result.
    ///
    /// Source: PostgreSQL 15, `ExecReScanFunctionScan` in `nodeFunctionscan.c`.
    pub(crate) fn keeps(&self) -> bool {
        let (FunctionItem::Set { keeps, .. } | FunctionItem::Scalar { keeps, .. }) = self;
        *keeps
    }

    /// The oid of the routine whose rows it is, if it is one.
    pub(crate) fn routine(&self) -> Option<u32> {
        match self {
            FunctionItem::Set { call, .. } if is_call(call.function) => call.routine(),
            _ => None,
        }
    }
}

impl SetCall {
    /// Checks that a row that a routine returns has the columns that the query declares.
    ///
    /// # Errors
    /// 42804.
    pub(crate) fn check_row(&self, value: &Value) -> Result<()> {
        let Value::Record(row) = value else { return Ok(()) };
        let fits = |(&ty, field): (&Type, &RecordField)| ty == field.kind || field.kind == Type::Unknown;
        let is_same = self.shape.len() == row.fields.len() && self.shape.iter().zip(&*row.fields).all(fits);
        if self.shape.is_empty() || self.shape == [Type::Record] || is_same {
            return Ok(());
        }
        let message = "function return row and query-specified return row do not match";
        Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message))
    }

    /// The oid of the routine that it calls, if it calls one.
    pub(crate) fn routine(&self) -> Option<u32> {
        self.arguments.first()?.as_constant().map(Value::oid)
    }
}
