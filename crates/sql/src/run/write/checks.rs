//! The rules of every stored row: generated columns, NOT NULL, CHECK.

use crate::catalog::Table;
use crate::error::{Result, SqlError, SqlState};
use crate::plan::expression::Expr;
use crate::plan::statement::RowRules;
use crate::run::Run;
use crate::run::write::rows::text_of;
use crate::types::{Environment, Value};

/// Computes a row's generated columns.
pub(super) fn generate<'e>(
    run: &mut Run<'e>,
    generated: &'e [(usize, Expr)],
    row: &mut [Value],
) -> Result<()> {
    for (column, value) in generated {
        row[*column] = run.evaluate(value, row)?;
    }
    Ok(())
}

/// Checks a row that is to be stored.
///
/// # Errors
/// 23502, 23514.
pub(super) fn check<'e>(run: &mut Run<'e>, rules: &'e RowRules, row: &[Value]) -> Result<()> {
    let table = &*rules.table;
    for (number, column) in table.columns.iter().enumerate() {
        if row[number].is_null() && (column.not_null || table.key.contains(&number)) {
            let message = format!(
                "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
                column.name, table.name
            );
            return Err(SqlError::new(SqlState::NOT_NULL_VIOLATION, message)
                .with_detail(failing_row(&*run.environment, table, row))
                .with_table(&table.schema, &table.name)
                .with_column(&column.name));
        }
    }
    for (name, condition) in &rules.checks {
        let holds = run.evaluate(condition, row).map_err(|error| match error.state() {
            // A view's condition names the view itself.
            SqlState::WITH_CHECK_OPTION_VIOLATION => {
                error.with_detail(failing_row(&*run.environment, table, row))
            }
            _ => error,
        })?;
        if matches!(holds, Value::Bool(false)) {
            let message =
                format!("new row for relation \"{}\" violates check constraint \"{name}\"", table.name);
            return Err(SqlError::new(SqlState::CHECK_VIOLATION, message)
                .with_detail(failing_row(&*run.environment, table, row))
                .with_table(&table.schema, &table.name)
                .with_constraint(name));
        }
    }
    Ok(())
}

fn failing_row(environment: &dyn Environment, table: &Table, row: &[Value]) -> String {
    let values: Vec<String> = table
        .visible()
        .iter()
        .zip(row)
        .map(|(column, value)| text_of(environment, column.ty, value))
        .collect();
    format!("Failing row contains ({}).", values.join(", "))
}
