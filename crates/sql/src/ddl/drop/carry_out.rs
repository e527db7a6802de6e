//! Execution of a planned DROP: on the engine's tables, on the stored definitions and in the catalog.

use std::sync::Arc;

use super::plan::Plan;
use crate::catalog::store::Object;
use crate::catalog::{Catalog, ColumnOrigin};
use crate::ddl::dropped_calls::without_calls;
use crate::ddl::rename_schema::follow;
use crate::error::Result;
use crate::session::{Connection, SequenceChange};

impl Connection {
    /// Drops columns and indexes of tables that stay, with what depends on them.
    fn drop_parts(&mut self, plan: &mut Plan) -> Result<()> {
        for (table, column) in &plan.columns {
            // It may have gone with another one.
            self.drop_column(&self.current(*table)?, column, true, true)?;
        }
        for &(table, index) in &plan.indexes {
            if self.current(table)?.indexes.iter().any(|known| known.oid == index) {
                self.drop_index(table, index, true)?;
            }
        }
        let catalog = self.current_catalog();
        plan.tables.retain(|table| catalog.table_by_oid(table.oid).is_some());
        plan.views.retain(|view| catalog.relation_by_oid(view.oid).is_some());
        Ok(())
    }

    /// Drops everything in the engine, and publishes a catalog without it.
    pub(super) fn carry_out(&mut self, mut plan: Plan) -> Result<()> {
        self.drop_parts(&mut plan)?;
        let mut catalog = self.catalog_to_change();
        let mut objects = without_calls(&mut catalog, &plan.routines, &plan.types, &plan.tables)?;
        for (oid, name) in &plan.foreign_keys {
            let Some(table) = catalog.table_by_oid(*oid).cloned() else { continue };
            let mut changed = table.as_ref().clone();
            changed.foreign_keys.retain(|key| key.name != *name);
            let changed = Arc::new(changed);
            objects.push(Object::table(&changed));
            catalog.put_table(changed);
        }
        for (oid, name) in &plan.defaults {
            let Some(table) = catalog.table_by_oid(*oid).cloned() else { continue };
            let mut changed = table.as_ref().clone();
            let named = changed.columns.iter_mut().filter(|column| column.name == *name);
            named.for_each(|column| column.origin = ColumnOrigin::Nothing);
            let changed = Arc::new(changed);
            objects.push(Object::table(&changed));
            catalog.put_table(changed);
        }
        let mut gone = Vec::new();
        for table in &plan.tables {
            catalog.remove_table(table);
        }
        for view in &plan.views {
            catalog.remove_relation(&view.schema, &view.name);
            gone.push(view.oid);
        }
        for &oid in &plan.sequences {
            if let Some((schema, name)) = catalog.relation_name(oid).cloned() {
                catalog.remove_relation(&schema, &name);
                gone.push(oid);
            }
        }
        for &oid in &plan.types {
            let (schema, name) = match catalog.user_type_by_oid(oid) {
                Some(ty) => (ty.schema().to_string(), ty.name().to_string()),
                None => continue,
            };
            catalog.remove_type(&schema, &name);
            gone.push(oid);
        }
        for &oid in &plan.triggers {
            catalog.remove_trigger(oid);
            gone.push(oid);
        }
        for routine in &plan.routines {
            catalog.remove_routine(routine.oid);
            gone.push(routine.oid);
        }
        for &oid in &plan.extensions {
            catalog.remove_extension(oid);
            gone.push(oid);
        }
        for schema in &plan.schemas {
            gone.extend(remove_schema(&mut catalog, schema));
            objects.extend(follow(&mut catalog, schema, None));
        }
        for table in &plan.tables {
            let engine = table.engine.definition().name().to_string();
            self.session_mut().drop_table(&engine)?;
            gone.push(table.oid);
        }
        for &oid in &plan.sequences {
            self.change_sequence_at_commit(SequenceChange::Forget(oid));
        }
        self.publish(&objects, catalog)?;
        self.delete_definitions(&gone)
    }

    /// Deletes stored definitions.
    pub(crate) fn delete_definitions(&mut self, oids: &[u32]) -> Result<()> {
        let shared = self.shared().clone();
        shared.store.delete(self.session_mut(), oids)
    }
}

/// Removes a schema with its default privileges. The oids of what goes.
fn remove_schema(catalog: &mut Catalog, schema: &str) -> Vec<u32> {
    let Some(oid) = catalog.schema(schema).map(|schema| schema.oid) else { return Vec::new() };
    let in_schema = catalog.default_acls().iter().filter(|acl| acl.schema == Some(oid));
    let mut gone: Vec<u32> = in_schema.map(|acl| acl.oid).collect();
    gone.iter().for_each(|acl| catalog.remove_default_acl(*acl));
    gone.push(oid);
    catalog.remove_schema(schema);
    gone
}
