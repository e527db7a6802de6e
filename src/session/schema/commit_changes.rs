//! The commit of a session's schema changes: the next definitions, the catalog's rows, and the checks of the rows.

use std::sync::Arc;

use super::row_check::undecided_not_null;
use crate::database::catalog_rows;
use crate::database::foreign_keys::check_own;
use crate::database::schema::{check_rows, is_unproven};
use crate::error::Result;
use crate::protocol::attempt::{Attempt, SessionAccess};
use crate::storage::definition::ForeignKey;
use crate::storage::foreign_keys::TableView;
use crate::storage::index_build::{Builds, IndexBuild};
use crate::storage::private_schema::{PrivateSchema, PrivateTable};
use crate::storage::schema::SchemaChange;
use crate::storage::store::Store;
use crate::storage::table::TableCore;
use crate::transaction::Tx;

/// The next definition of a table that keeps its records, and its indexes that are being built.
pub(in super::super) type Redefined = (Arc<TableCore>, Option<Arc<IndexBuild>>);

/// Makes the next definitions of tables that keep their records, and builds their indexes beside other transactions, before the
/// commit is tried.
///
/// # Errors
/// Rows violate an index that the transaction adds.
pub(in super::super) fn redefine_tables(
    access: &SessionAccess,
    builds: &mut Builds<'_>,
) -> Result<Vec<Option<Redefined>>> {
    let redefine = |table: &PrivateTable| -> Result<Option<Redefined>> {
        let Some(now) = table.now.as_ref().filter(|_| table.keeps_records()) else { return Ok(None) };
        let (core, empty) = now.core.redefined(now.definition.clone());
        let core = Arc::new(core);
        let build = builds.add(&core, empty, access.buffer.written_rows(core.id()))?;
        Ok(Some((core, build)))
    };
    access.schema.tables().iter().map(redefine).collect()
}

/// Writes the transaction's changes of the schema, as the first part of its commit; returns the next state of each
/// table.
///
/// # Errors
/// What the protocol answers a writer.
pub(in super::super) fn write_changes(
    attempt: &Attempt<'_>,
    access: &mut SessionAccess,
    redefined: &[Option<Redefined>],
) -> Result<Vec<Option<Arc<TableCore>>>> {
    if access.schema.is_empty() {
        return Ok(Vec::new());
    }
    attempt.let_private_in(&access.schema);
    // What is deferred is checked by the foreign keys that it has made.
    attempt.set_deferred(!access.schema.links().is_empty());
    let (store, tx) = (attempt.store(), Tx::new(attempt));
    let SessionAccess { buffer, schema, .. } = access;
    let tables = schema.tables().iter().zip(redefined);
    tables
        .map(|(table, redefined)| {
            let published = write_change(store, &tx, table, redefined.as_ref())?;
            if let Some(core) = published.as_ref().filter(|_| table.keeps_records()) {
                buffer.redefine(core);
            }
            Ok(published)
        })
        .collect()
}

fn write_change(
    store: &Store,
    tx: &Tx<'_, '_>,
    table: &PrivateTable,
    redefined: Option<&Redefined>,
) -> Result<Option<Arc<TableCore>>> {
    if let (Some(base), Some((core, build))) = (&table.base, redefined) {
        catalog_rows::rewrite(store, tx, base, core.definition())?;
        let (old, new, build) = (base.clone(), core.clone(), build.clone());
        tx.change_schema(SchemaChange::Replace { old, new, build });
        return Ok(Some(core.clone()));
    }
    if let Some(now) = &table.now {
        catalog_rows::write(store, tx, now.core.id(), &now.definition)?;
    }
    match (&table.base, &table.now) {
        (Some(base), Some(now)) => catalog_rows::mark_replaced(store, tx, base.id(), now.core.id())?,
        (Some(base), None) => catalog_rows::mark_dropped(store, tx, base.id())?,
        (None, _) => {}
    }
    let now = table.now.as_ref().map(|now| now.core.clone());
    match (table.base.clone(), now.clone()) {
        (Some(old), Some(new)) => {
            tx.change_schema(SchemaChange::Replace { old, new, build: None });
        }
        (Some(old), None) => tx.change_schema(SchemaChange::Drop(old)),
        (None, Some(new)) => tx.change_schema(SchemaChange::Add(new)),
        (None, None) => {}
    }
    Ok(now)
}

/// Checks the rows of tables that keep their records, with what the transaction has written to them, and rows by foreign keys
/// that it has added.
///
/// # Errors
/// NULL in a column that refuses it; a row that does not pass a check, or whose referenced row is not there.
pub(in super::super) fn check_changes(
    attempt: &Attempt<'_>,
    schema: &PrivateSchema,
    published: &[Option<Arc<TableCore>>],
) -> Result<()> {
    let tx = Tx::new(attempt);
    let tables = schema.tables();
    for (table, published) in tables.iter().zip(published).filter(|(table, _)| table.keeps_records()) {
        let (Some(base), Some(core)) = (&table.base, published) else { continue };
        let refuses_null = undecided_not_null(base.definition(), core.definition());
        let checks = core.checks().filter(|_| core.definition().checks != base.definition().checks);
        if !refuses_null.is_empty() || checks.is_some() {
            check_rows(&tx, (core, core.definition()), &[], &refuses_null, checks)?;
        }
    }
    let mut views = None;
    for (table, now) in tables.iter().filter_map(|table| Some((table, table.now.as_ref()?))) {
        // Without it in between, the transaction's own writes may have violated it.
        let is_new = |key: &ForeignKey| {
            let mut before = table.base.iter().chain(&table.earlier);
            before.any(|core| is_unproven(core.definition(), &now.definition, key))
        };
        if now.definition.foreign_keys().iter().any(is_new) {
            let views = views.get_or_insert_with(|| schema.views(attempt.store()));
            let view = TableView::pending(now.core.clone(), now.definition.clone());
            check_own(views, &tx, &view, is_new)?;
        }
    }
    Ok(())
}
