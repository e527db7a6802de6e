//! `pg_stats`: statistics about the values of tables' columns.
//!
//! # Invariants
//! - A column shows only to roles that may read it.

use super::SystemCatalog;
use super::classes::tables;
use super::row::{Output, list, row};
use crate::catalog::rights::{Rights, RightsKind, SELECT};
use crate::catalog::{Column, Table};
use crate::plan::column_statistics::ColumnStatistics;
use crate::types::array::ArrayValue;
use crate::types::text::to_text;
use crate::types::{Type, Value};

pub(super) fn columns(system: &SystemCatalog<'_>, out: &mut Output) {
    for table in tables(system.objects()) {
        let Some(known) = system.session.shared().statistics.known(table) else { continue };
        let is_empty = known.rows < 1.0;
        for (column, found) in table.visible().iter().zip(&known.columns).filter(|_| !is_empty) {
            if may_read(system, table, column) {
                add(system, out, table, column, (found, known.rows));
            }
        }
    }
}

fn may_read(system: &SystemCatalog<'_>, table: &Table, column: &Column) -> bool {
    let (catalog, role) = (system.objects(), system.session.role_oid());
    let of_column = Rights { owner: table.rights.owner, acl: Some(column.acl.clone().unwrap_or_default()) };
    catalog.may(role, &table.rights, RightsKind::Table, SELECT)
        || catalog.may(role, &of_column, RightsKind::Column, SELECT)
}

fn add(
    system: &SystemCatalog<'_>,
    out: &mut Output,
    table: &Table,
    column: &Column,
    (found, rows): (&ColumnStatistics, f64),
) {
    let values = |values: Vec<Value>| {
        let array = Value::array(ArrayValue::list(column.ty, values));
        to_text(system.session, Type::Text, &array).ok()
    };
    let (common, shares): (Vec<Value>, Vec<f32>) =
        found.common.iter().map(|(value, share)| (value.clone(), *share as f32)).unzip();
    let has_common = !common.is_empty();
    row!(
        out,
        schemaname = &table.schema,
        tablename = &table.name,
        attname = &column.name,
        inherited = false,
        null_frac = found.nulls as f32,
        avg_width = found.width as i32,
        n_distinct = found.shown_distinct(rows) as f32,
        most_common_vals = has_common.then(|| values(common)).flatten(),
        most_common_freqs = has_common.then(|| list(Type::Float4, shares)),
        histogram_bounds = (!found.bounds.is_empty()).then(|| values(found.bounds.clone())).flatten(),
        correlation = found.correlation.map(|correlation| correlation as f32),
    );
}
