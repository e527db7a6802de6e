//! ALTER SCHEMA … RENAME TO.
//!
//! # Invariants
//! - All objects in the schema are moved with it: tables with their indexes, views, sequences, types, routines. All
//!   keep their oids.
//! - Search paths of stored queries follow, and names of relations, functions and types in the catalog's texts. A schema that a
//!   text names otherwise, before a relation's column or in a string, keeps its name. Bodies of routines are not looked at, as in PostgreSQL.
//!
//! Source: PostgreSQL 15, `RenameSchema` in `schemacmds.c`.

use std::sync::Arc;

use heddledb::TableChange;

use crate::catalog::rights::CREATE;
use crate::catalog::store::Object;
use crate::catalog::{
    Catalog, ColumnOrigin, Extension, PUBLIC_OID, Relation, Routine, Schema, Sequence, Table, UserType, View,
};
use crate::ddl::objects::check_schema_name;
use crate::ddl::renamed_names::rename_in_texts;
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::ObjectName;
use crate::parse::{Reference, names_schema, qualified_name};
use crate::session::Connection;

impl Connection {
    pub(super) fn rename_schema(&mut self, from: &str, to: &str) -> Result<&'static str> {
        let mut catalog = self.catalog_to_change();
        let Some(schema) = catalog.schema(from).cloned() else { return Err(crate::catalog::no_schema(from)) };
        if catalog.schema(to).is_some() {
            let message = format!("schema \"{to}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_SCHEMA, message));
        }
        self.check_owner(&schema.rights, "schema", from)?;
        self.check_database(CREATE)?;
        check_schema_name(to)?;
        if schema.oid == PUBLIC_OID {
            let message = "renaming the schema public is not supported";
            let hint = "Tables that programs make without SQL are in it. Move objects by ALTER … SET SCHEMA.";
            return Err(SqlError::unsupported(message).with_hint(hint));
        }
        let in_schema = |name: &ObjectName| name.schema() == Some(from);
        let mut changed = rename_in_texts(&mut catalog, &|kind, name, _| {
            let is_name = matches!(kind, Reference::Function | Reference::Type | Reference::Relation);
            let is_renamed = is_name && in_schema(name);
            is_renamed.then(|| qualified_name(to, name.last()))
        });
        if let Some(by) = named_by(&catalog, from) {
            let message = format!("cannot rename schema {from} because {by} names it");
            let hint = "Drop what names the schema first, and create it again.";
            return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message).with_hint(hint));
        }
        self.publish(&changed, catalog)?;
        let catalog = self.catalog_to_change();
        let relations: Vec<Relation> = catalog.relations_in(from).map(|(_, it)| it.clone()).collect();
        for relation in &relations {
            if let Relation::Table(table) = relation {
                let engine_name = self.engine_name(to, &table.name);
                self.change_engine(table, TableChange::new().rename(engine_name), &table.name)?;
            }
        }
        let mut catalog = self.catalog_to_change();
        changed = move_relations(&mut catalog, &relations, to);
        let types: Vec<UserType> = catalog.types().filter(|ty| ty.schema() == from).cloned().collect();
        for ty in types {
            changed.push(catalog.change_type(&ty, |schema, _, _| *schema = to.to_string()));
        }
        let routines: Vec<Arc<Routine>> =
            catalog.routines().filter(|it| it.schema == from).cloned().collect();
        for routine in routines {
            let moved = Routine { schema: to.to_string(), ..routine.as_ref().clone() };
            catalog.put_routine(Arc::new(moved.clone()));
            changed.push(Object::Routine(moved));
        }
        let extensions: Vec<Arc<Extension>> =
            catalog.extensions().filter(|it| it.schema == from).cloned().collect();
        for extension in extensions {
            let moved = Extension { schema: to.to_string(), ..extension.as_ref().clone() };
            catalog.put_extension(Arc::new(moved.clone()));
            changed.push(Object::Extension(moved));
        }
        changed.extend(follow(&mut catalog, from, Some(to)));
        let renamed = Schema { name: to.to_string(), ..schema };
        catalog.remove_schema(from);
        catalog.add_schema(renamed.clone());
        changed.push(Object::Schema(renamed));
        self.publish(&changed, catalog)?;
        Ok("ALTER SCHEMA")
    }
}

/// Moves relations into a schema.
fn move_relations(catalog: &mut Catalog, relations: &[Relation], to: &str) -> Vec<Object> {
    let mut changed = Vec::new();
    for relation in relations {
        match relation {
            Relation::Table(table) => {
                let Some(table) = catalog.table_by_oid(table.oid).cloned() else { continue };
                let moved = Arc::new(Table { schema: to.to_string(), ..table.as_ref().clone() });
                catalog.remove_table(&table);
                catalog.put_table(moved.clone());
                changed.push(Object::table(&moved));
            }
            Relation::View(view) => {
                let moved = View { schema: to.to_string(), ..view.as_ref().clone() };
                catalog.remove_relation(&view.schema, &view.name);
                catalog.put_relation(to, &view.name, Relation::View(Arc::new(moved.clone())));
                changed.push(Object::View(moved));
            }
            Relation::Sequence(sequence) => {
                let moved = Sequence { schema: to.to_string(), ..sequence.as_ref().clone() };
                catalog.remove_relation(&sequence.schema, &sequence.name);
                catalog.put_relation(to, &sequence.name, Relation::Sequence(Arc::new(moved.clone())));
                changed.push(Object::Sequence(moved));
            }
            // They are moved with their tables.
            Relation::Index { .. } => {}
        }
    }
    changed
}

/// Renames the schema in the search paths of stored queries; without a new name it leaves them.
pub(super) fn follow(catalog: &mut Catalog, from: &str, to: Option<&str>) -> Vec<Object> {
    let mut changed = Vec::new();
    // Answers whether the path has the schema.
    let rename = |path: &mut Vec<String>| {
        let Some(at) = path.iter().position(|name| name == from) else { return false };
        path.splice(at..=at, to.map(str::to_string));
        true
    };
    let views: Vec<Arc<View>> = catalog.views().cloned().collect();
    for view in views {
        let mut view = view.as_ref().clone();
        if !rename(&mut view.search_path) {
            continue;
        }
        catalog.put_relation(&view.schema, &view.name, Relation::View(Arc::new(view.clone())));
        changed.push(Object::View(view));
    }
    let tables: Vec<Arc<Table>> = catalog.tables().cloned().collect();
    for table in tables {
        let mut table = table.as_ref().clone();
        if !table.stored_query.as_mut().is_some_and(|stored| rename(&mut stored.search_path)) {
            continue;
        }
        let table = Arc::new(table);
        catalog.put_table(table.clone());
        changed.push(Object::table(&table));
    }
    changed
}

/// An object that names a schema in its text: a stored query, a default of a column or an argument, a check, an
/// expression, a trigger's condition.
fn named_by(catalog: &Catalog, schema: &str) -> Option<String> {
    let is_named = |text: &str| names_schema(text, schema);
    if let Some(view) = catalog.stored_queries().find(|view| is_named(&view.query)) {
        return Some(format!("view {}", view.name));
    }
    for table in catalog.tables() {
        let in_column = |origin: &ColumnOrigin| match origin {
            ColumnOrigin::Default(text)
            | ColumnOrigin::Generated(text)
            | ColumnOrigin::IndexKey(text)
            | ColumnOrigin::IndexPredicate(text) => is_named(text),
            ColumnOrigin::Nothing | ColumnOrigin::Identity { .. } => false,
        };
        if table.columns.iter().any(|column| in_column(&column.origin))
            || table.checks.iter().any(|check| is_named(&check.condition))
        {
            return Some(format!("table {}", table.name));
        }
    }
    for ty in catalog.types() {
        if let UserType::Domain(domain) = ty
            && (domain.default.as_deref().is_some_and(is_named)
                || domain.checks.iter().any(|check| is_named(&check.condition)))
        {
            return Some(format!("domain {}", domain.name));
        }
    }
    let is_default = |routine: &Routine| {
        routine.arguments.iter().any(|argument| argument.default.as_deref().is_some_and(is_named))
    };
    if let Some(routine) = catalog.routines().find(|routine| is_default(routine)) {
        return Some(format!("{} {}", routine.kind(), routine.name));
    }
    let is_trigger = |condition: &Option<String>| condition.as_deref().is_some_and(is_named);
    let trigger = catalog.triggers().find(|trigger| is_trigger(&trigger.condition));
    trigger.map(|trigger| format!("trigger {}", trigger.name))
}
