//! CREATE TABLE: columns, identity and serial columns, defaults, constraints, LIKE.
//!
//! Source: PostgreSQL 15, `parse_utilcmd.c`.

mod check_draft;
mod columns;
mod draft;
mod key_types;
mod like;
mod names;

use std::sync::Arc;

use self::names::free_name_long;
use crate::catalog::rights::RightsKind;
use crate::catalog::store::Object;
use crate::catalog::{Catalog, Relation, Table};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{CreateTable, PersistenceName, TableConstraintKind};
use crate::session::Connection;

pub(super) use check_draft::refuse_subquery;
pub(crate) use columns::check_column_name;
pub(crate) use draft::{TableDraft, deferral};
pub(crate) use key_types::check_key_column;
pub(super) use key_types::check_order;
pub(crate) use names::{free_name, hidden_name};

impl Connection {
    pub(crate) fn create_table(&mut self, create: &CreateTable, text: &str) -> Result<&'static str> {
        let mut catalog = self.catalog_to_change();
        let temporary = create.persistence == PersistenceName::Temporary;
        let schema = self.schema_for(&create.name, temporary)?;
        let persistence = self.persistence(create.persistence, &schema, create.on_commit)?;
        if !self.is_free(&schema, create.name.last(), create.if_not_exists)? {
            return Ok("CREATE TABLE");
        }
        let mut draft = TableDraft::new(catalog.new_oid(), &schema, create.name.last(), persistence);
        draft.rights = self.new_rights(RightsKind::Table, &schema);
        self.draft_columns(create, &mut draft, &mut catalog, text)?;
        self.draft_constraints(create, &mut draft)?;
        draft.settle_columns();
        self.check_draft(&mut draft, text)?;
        draft.settle_names(&mut catalog);
        if let Some(key) = &draft.key_name {
            self.note_implicit_index("CREATE TABLE / PRIMARY KEY", key, &draft.name);
        }
        for index in draft.indexes.iter().filter(|index| index.constraint) {
            let constraint = if index.primary { "PRIMARY KEY" } else { "UNIQUE" };
            self.note_implicit_index(&format!("CREATE TABLE / {constraint}"), &index.name, &draft.name);
        }
        let table = self.make_table(draft, catalog)?;
        if !create.options.is_empty() {
            self.redefine(&table, |table| table.options.clone_from(&create.options))?;
        }
        Ok("CREATE TABLE")
    }

    /// Stores, makes and publishes a table and its sequences.
    pub(crate) fn make_table(&mut self, mut draft: TableDraft, mut catalog: Catalog) -> Result<Arc<Table>> {
        let shared = self.shared().clone();
        let references = std::mem::take(&mut draft.foreign_keys);
        let mut objects: Vec<Object> = draft.sequences.iter().cloned().map(Object::Sequence).collect();
        for sequence in std::mem::take(&mut draft.sequences) {
            shared.sequences.forget(&shared.database, sequence.oid)?;
            let (schema, name) = (sequence.schema.clone(), sequence.name.clone());
            catalog.put_relation(&schema, &name, Relation::Sequence(Arc::new(sequence)));
        }
        let foreign_keys = self.resolve_references(&draft, &references, &catalog)?;
        let engine_name = self.engine_name(&draft.schema, &draft.name);
        let definition = draft.engine(&engine_name, &foreign_keys)?;
        let engine = self.session_mut().create_table(definition)?;
        let table = Arc::new(draft.finish(engine, foreign_keys, &mut catalog));
        objects.push(Object::table(&table));
        catalog.put_table(table.clone());
        self.publish(&objects, catalog)?;
        Ok(table)
    }

    /// The name of a table in the engine: its own in the schema `public`, so that the engine's interface finds it.
    pub(crate) fn engine_name(&mut self, schema: &str, name: &str) -> String {
        let is_public = schema == crate::catalog::PUBLIC;
        let base = if is_public { name.to_string() } else { format!("{schema}.{name}") };
        let session = self.session_mut();
        free_name_long(&base, |name| session.table(name).is_ok())
    }

    fn draft_constraints(&mut self, create: &CreateTable, draft: &mut TableDraft) -> Result<()> {
        for constraint in &create.constraints {
            let name = constraint.name.as_ref();
            match &constraint.kind {
                TableConstraintKind::Check(condition) => draft.check(name, condition)?,
                TableConstraintKind::Unique { columns, nulls_equal, timing, .. } => {
                    let columns = draft.positions(columns)?;
                    draft.unique(name, columns, *nulls_equal, *timing);
                }
                TableConstraintKind::PrimaryKey { columns, timing, .. } => {
                    let columns = draft.positions(columns)?;
                    draft.primary_key(name, columns, *timing)?;
                }
                TableConstraintKind::ForeignKey { columns, reference } => {
                    let columns = draft.referencing(columns)?;
                    draft.foreign_keys.push((name.map(|name| name.text.clone()), columns, reference.clone()));
                }
                TableConstraintKind::UsingIndex { .. } => {
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, "USING INDEX is for ALTER TABLE only"));
                }
            }
        }
        Ok(())
    }
}
