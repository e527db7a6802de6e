//! The types that the columns of keys and indexes may have.

use crate::catalog::Column;
use crate::error::{Result, SqlError, SqlState};
use crate::types::Type;

/// # Errors
/// 42704: values of a type have no order.
pub(in crate::ddl) fn check_order(ty: Type) -> Result<()> {
    if matches!(ty, Type::Json | Type::Jsonpath | Type::TopK) { Err(no_operator_class(ty)) } else { Ok(()) }
}

fn no_operator_class(ty: Type) -> SqlError {
    let ty = ty.display_name();
    let message = format!("data type {ty} has no default operator class for access method \"btree\"");
    SqlError::new(SqlState::UNDEFINED_OBJECT, message)
}

/// Keys need types whose stored form compares as the values do.
pub(crate) fn check_key_column(column: &Column, what: &str) -> Result<()> {
    if crate::storage::keeps_order(column.ty, column.modifier) {
        return Ok(());
    }
    check_order(column.ty)?;
    let of = match column.indexed() {
        Some(text) => format!("the expression {text}"),
        None => format!("column \"{}\"", column.name),
    };
    let ty = match column.ty {
        Type::Composite(_) => "a composite type".to_string(),
        ty => format!("type {}", ty.display_name()),
    };
    let message = format!("a {what} on {of} of {ty} is not supported");
    let hint = match column.ty {
        Type::Numeric => "Declare the column as numeric(p, s) with a precision of at most 38.",
        _ => "Use a column of another type.",
    };
    Err(SqlError::unsupported(message).with_hint(hint))
}
