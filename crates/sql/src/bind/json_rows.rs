//! Calls in FROM of the functions that make rows of JSON objects: their columns are declared, or those of a row.
//!
//! ```text
//! jsonb_to_recordset(document) AS x (a int, b text)         the declared columns
//! jsonb_populate_recordset(NULL::t, document)               those of the table
//! jsonb_populate_record(x, document)                        those of a relation's row, which gives what is missing
//! ```
//!
//! # Invariants
//! - A last argument is added, a constant record: its fields are the columns, its values their modifiers.

use std::sync::Arc;

use crate::bind::binder::Binder;
use crate::bind::from::plain_column;
use crate::bind::tree::{BoundColumn, BoundExpr, FunctionCall};
use crate::catalog::{Relation, ResultColumn};
use crate::error::{Result, SqlError, SqlState};
use crate::functions::functions_named;
use crate::parse::syntax::{At, Call, ColumnOfFunction, Expr, ExprKind};
use crate::types::record::{RecordField, RecordValue};
use crate::types::{Type, Value};

/// Returns true if a function makes rows of JSON objects.
pub(super) fn makes_records(name: &str) -> bool {
    functions_named(name).next().is_some()
        && name.strip_prefix("json").is_some_and(|rest| {
            let rest = rest.strip_prefix('b').unwrap_or(rest);
            matches!(rest, "_to_record" | "_to_recordset" | "_populate_record" | "_populate_recordset")
        })
}

impl Binder<'_> {
    pub(super) fn json_rows(
        &mut self,
        call: &Call,
        declared: &[ColumnOfFunction],
        at: At,
    ) -> Result<(FunctionCall, Vec<BoundColumn>)> {
        let name = call.name.last();
        self.refuse_aggregate_syntax(call, at)?;
        let mut args = Vec::with_capacity(3);
        let mut columns = Vec::new();
        let mut given = call.args.iter();
        if name.contains("_populate_")
            && let Some(first) = given.next()
        {
            let (base, own) = self.row_to_populate(&first.value)?;
            args.push(base);
            columns = own;
        } else if declared.is_empty() {
            let message = "a column definition list is required for functions returning \"record\"";
            return Err(self.error(at, SqlState::SYNTAX_ERROR, message));
        }
        for arg in given {
            args.push(self.expr(&arg.value)?);
        }
        if columns.is_empty() {
            columns = self.declared_columns(declared)?;
        } else if !declared.is_empty() {
            let message =
                "a column definition list is redundant for a function returning a named composite type";
            return Err(self.error(at, SqlState::SYNTAX_ERROR, message));
        }
        let BoundExpr::Call { function, mut args, .. } = self.call_named(name, args, at)? else {
            return Err(self.error(
                at,
                SqlState::UNDEFINED_FUNCTION,
                format!("function {name} does not exist"),
            ));
        };
        let field = |column: &BoundColumn| RecordField { name: column.name.as_str().into(), kind: column.ty };
        let template = RecordValue {
            fields: columns.iter().map(field).collect(),
            values: columns.iter().map(|column| Value::Int4(column.modifier.0)).collect(),
        };
        args.push(BoundExpr::Constant { value: Value::Record(Arc::new(template)), ty: Type::Record });
        let types = columns.iter().map(|column| column.ty).collect();
        Ok((FunctionCall::Set { function, args, types }, columns))
    }

    /// The domains of the columns of such rows: of those that are declared, or of a table's.
    pub(super) fn domains_of_rows(&self, call: &Call, declared: &[ColumnOfFunction]) -> Vec<Option<u32>> {
        if !declared.is_empty() {
            let domain = |column: &ColumnOfFunction| {
                self.named_type(&column.ty).ok().and_then(|named| named.domain).map(|domain| domain.oid)
            };
            return declared.iter().map(domain).collect();
        }
        let Some(ExprKind::Cast { ty, .. }) = call.args.first().map(|arg| &arg.value.kind) else {
            return Vec::new();
        };
        match self.context.catalog.find(ty.name.schema(), ty.name.last(), &self.path) {
            Some(Relation::Table(table)) => table.visible().iter().map(|column| column.domain).collect(),
            _ => {
                let row = self.named_type(ty).ok().and_then(|named| named.ty.row_relation());
                let fields = row.and_then(|oid| self.context.catalog.row_columns(oid));
                fields.into_iter().flatten().map(|field| field.domain).collect()
            }
        }
    }

    /// The row that is populated, and its columns: none, where a declaration has to give them.
    fn row_to_populate(&mut self, expr: &Expr) -> Result<(BoundExpr, Vec<BoundColumn>)> {
        let none = BoundExpr::null(Type::Record);
        if let ExprKind::Cast { operand, ty } = &expr.kind
            && operand.kind == ExprKind::Null
            && ty.dimensions == 0
        {
            if ty.name.last() == "record" {
                return Ok((none, Vec::new()));
            }
            let found = self.context.catalog.find(ty.name.schema(), ty.name.last(), &self.path).cloned();
            return match found {
                Some(Relation::Table(table)) => {
                    let column = |column: &crate::catalog::Column| BoundColumn {
                        modifier: column.modifier,
                        ..plain_column(&column.name, column.ty)
                    };
                    Ok((none, table.visible().iter().map(column).collect()))
                }
                _ => match self.fields_of(self.named_type(ty)?.ty) {
                    Some(columns) => Ok((none, columns)),
                    None => Err(self.not_a_row(expr)),
                },
            };
        }
        let base = self.expr(expr)?;
        let columns = match &base {
            base if base.ty().row_relation().is_some() => self.fields_of(base.ty()).unwrap_or_default(),
            BoundExpr::Row { fields, names: Some(names), .. } => {
                names.iter().zip(fields.iter()).map(|(name, field)| plain_column(name, field.ty())).collect()
            }
            BoundExpr::Row { .. } => Vec::new(),
            _ => return Err(self.not_a_row(expr)),
        };
        Ok((base, columns))
    }

    /// The fields of a composite type, or of a table's rows.
    fn fields_of(&self, ty: Type) -> Option<Vec<BoundColumn>> {
        let fields = self.context.catalog.row_columns(ty.row_relation()?)?;
        let column = |field: ResultColumn| BoundColumn {
            modifier: field.modifier,
            ..plain_column(&field.name, field.ty)
        };
        Some(fields.into_iter().map(column).collect())
    }

    fn not_a_row(&self, expr: &Expr) -> SqlError {
        let message = "first argument of a function that populates a row must be a row";
        self.error(expr.at, SqlState::DATATYPE_MISMATCH, message)
    }
}
