//! DROP: the objects that a statement names, and those that are dropped with them.

mod carry_out;
mod dependents;
mod plan;
mod truncate;

use std::sync::Arc;

use heddledb::TableChange;

use self::dependents::complete;
use self::plan::Plan;
use crate::catalog::securables::Securable;
use crate::catalog::store::Object;
use crate::catalog::{Catalog, Extension, PLPGSQL, Relation, Routine, Table, Trigger, UserType, View};
use crate::ddl::alter_table::without_column;
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{Drop, ObjectKind, ObjectName};
use crate::session::{Connection, Notice, Severity};

pub(super) use dependents::may_name;
pub(crate) use dependents::names_relation;

fn kind_name(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Table => "table",
        ObjectKind::Index => "index",
        ObjectKind::View => "view",
        ObjectKind::MaterializedView => "materialized view",
        ObjectKind::Sequence => "sequence",
        ObjectKind::Schema => "schema",
        ObjectKind::Domain | ObjectKind::Type => "type",
        ObjectKind::Extension => "extension",
        _ => "object",
    }
}

fn tag(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Table => "DROP TABLE",
        ObjectKind::Index => "DROP INDEX",
        ObjectKind::View => "DROP VIEW",
        ObjectKind::MaterializedView => "DROP MATERIALIZED VIEW",
        ObjectKind::Sequence => "DROP SEQUENCE",
        ObjectKind::Schema => "DROP SCHEMA",
        ObjectKind::Domain => "DROP DOMAIN",
        ObjectKind::Extension => "DROP EXTENSION",
        _ => "DROP TYPE",
    }
}

pub(super) fn depends(object: &str, by: &str) -> SqlError {
    let message = format!("cannot drop {object} because other objects depend on it");
    SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
        .with_detail(format!("{by} depends on {object}"))
        .with_hint("Use DROP ... CASCADE to drop the dependent objects too.")
}

/// The error of a DROP without CASCADE: the objects that depend on others, with these.
fn all_depend(dependents: &[(String, String)]) -> SqlError {
    let lines: Vec<String> =
        dependents.iter().map(|(by, object)| format!("{by} depends on {object}")).collect();
    let object = dependents.first().map_or("", |(_, object)| object.as_str());
    depends(object, "").with_detail(lines.join("\n"))
}

impl Connection {
    pub(crate) fn drop_objects(&mut self, drop: &Drop) -> Result<&'static str> {
        let catalog = self.catalog_to_read();
        let mut plan = Plan::default();
        let mut indexes = Vec::new();
        for name in &drop.names {
            let found = self.droppable(drop.kind, name, &catalog)?;
            if let Some(found) = &found {
                self.check_dropped(found)?;
            }
            match found {
                Some(Dropped::Relation(Relation::Table(table))) => plan.tables.push(table),
                Some(Dropped::Relation(Relation::View(view))) => plan.views.push(view),
                Some(Dropped::Relation(Relation::Sequence(sequence))) => plan.sequences.push(sequence.oid),
                Some(Dropped::Relation(Relation::Index { table, oid })) => indexes.push((table, oid)),
                Some(Dropped::Schema(schema)) => plan.schemas.push(schema),
                Some(Dropped::Type(oid)) => plan.types.push(oid),
                Some(Dropped::Extension(extension)) => plan.extensions.push(extension.oid),
                None if drop.if_exists => self.skip_missing(kind_name(drop.kind), &called(drop.kind, name)),
                None => return Err(missing(drop.kind, name)),
            }
        }
        for (table, oid) in indexes {
            self.drop_index(table, oid, drop.cascade)?;
        }
        // Another catalog would have every session plan its statements again.
        if !plan.is_empty() {
            complete(&mut plan, &catalog, drop.cascade).map_err(|error| of_extension(error, drop))?;
            self.note_cascade(&plan)?;
            self.carry_out(plan)?;
        }
        Ok(tag(drop.kind))
    }

    /// Checks that the current role owns an object, or its schema: only such a role drops it.
    fn check_dropped(&self, dropped: &Dropped) -> Result<()> {
        let catalog = self.current_catalog();
        let owns_schema = |schema: &str| {
            let schema = catalog.schema(schema);
            schema.is_some_and(|schema| catalog.is_owner(self.role(), &schema.rights))
        };
        match dropped {
            Dropped::Relation(relation) => match catalog.relation_name(relation.oid()) {
                Some((schema, _)) if owns_schema(schema) => Ok(()),
                _ => self.check_relation_owner(relation),
            },
            Dropped::Schema(name) => match catalog.schema(name) {
                Some(schema) => self.check_owner(&schema.rights, "schema", name),
                None => Ok(()),
            },
            Dropped::Extension(extension) => {
                self.check_owner(&extension.rights, "extension", &extension.name)
            }
            Dropped::Type(oid) => match catalog.user_type_by_oid(*oid) {
                Some(ty) if !owns_schema(ty.schema()) => self.check_owner(ty.rights(), "type", ty.name()),
                _ => Ok(()),
            },
        }
    }

    fn droppable(&self, kind: ObjectKind, name: &ObjectName, catalog: &Catalog) -> Result<Option<Dropped>> {
        let path = self.environment().path();
        if kind != ObjectKind::Schema {
            self.environment().check_usage_of(name)?;
        }
        match kind {
            ObjectKind::Schema => {
                let found = catalog.schema(name.last());
                Ok(found.map(|schema| Dropped::Schema(schema.name.clone())))
            }
            ObjectKind::Type | ObjectKind::Domain => {
                let found = catalog.find_type(name.schema(), name.last(), &path);
                if kind == ObjectKind::Domain && found.is_some_and(|ty| !matches!(ty, UserType::Domain(_))) {
                    return Err(not_a(name, "domain"));
                }
                match (found, catalog.find(name.schema(), name.last(), &path)) {
                    (Some(ty), _) => Ok(Some(Dropped::Type(ty.oid()))),
                    (None, Some(Relation::Index { .. }) | None) => Ok(None),
                    (None, Some(_)) if kind == ObjectKind::Domain => Err(not_a(name, "domain")),
                    (None, Some(relation)) => Err(type_of_rows(name, relation)),
                }
            }
            ObjectKind::Extension => match catalog.extension(name.last()) {
                Some(found) if found.oid == PLPGSQL => {
                    Err(SqlError::unsupported("the language plpgsql cannot be dropped"))
                }
                found => Ok(found.map(|found| Dropped::Extension(found.clone()))),
            },
            _ => {
                let wanted = kind_name(kind);
                let Some(relation) = catalog.find(name.schema(), name.last(), &path) else {
                    let ty = catalog.find_type(name.schema(), name.last(), &path);
                    return match ty {
                        // A composite type is a relation, too.
                        Some(UserType::Composite(_)) => {
                            Err(not_a(name, wanted).with_hint("Use DROP TYPE to remove a type."))
                        }
                        _ => Ok(None),
                    };
                };
                if relation.kind() != wanted {
                    let hint = format!(
                        "Use DROP {} to remove a {}.",
                        relation.kind().to_uppercase(),
                        relation.kind()
                    );
                    return Err(not_a(name, wanted).with_hint(hint));
                }
                Ok(Some(Dropped::Relation(relation.clone())))
            }
        }
    }

    /// Drops these objects, and with CASCADE what depends on them.
    pub(super) fn drop_securables(&mut self, objects: &[Securable], cascade: bool) -> Result<()> {
        let catalog = self.catalog_to_read();
        let mut plan = Plan::default();
        for object in objects {
            match object {
                Securable::Relation(oid) => match catalog.relation_by_oid(*oid) {
                    Some(Relation::Table(table)) => plan.tables.push(table.clone()),
                    Some(Relation::View(view)) => plan.views.push(view.clone()),
                    Some(Relation::Sequence(sequence)) if sequence.owner.is_none() => {
                        plan.sequences.push(sequence.oid);
                    }
                    _ => {}
                },
                Securable::Schema(name) => plan.schemas.push(name.clone()),
                Securable::Type(oid) => plan.types.push(*oid),
                Securable::Routine(oid) => plan.routines.extend(catalog.routine_by_oid(*oid).cloned()),
                Securable::Column(..) | Securable::Database => {}
            }
        }
        complete(&mut plan, &catalog, cascade)?;
        self.carry_out(plan)
    }

    /// Drops routines, and with CASCADE what calls them.
    pub(crate) fn drop_routines_with_dependents(
        &mut self,
        routines: Vec<Arc<Routine>>,
        cascade: bool,
    ) -> Result<()> {
        let catalog = self.catalog_to_read();
        let mut plan = Plan { routines, ..Plan::default() };
        complete(&mut plan, &catalog, cascade)?;
        self.note_cascade(&plan)?;
        self.carry_out(plan)
    }

    /// Says which objects CASCADE drops.
    fn note_cascade(&mut self, plan: &Plan) -> Result<()> {
        let mut lines: Vec<String> = Vec::new();
        for (by, _) in &plan.dependents {
            let line = format!("drop cascades to {by}");
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        let (message, detail) = match &lines[..] {
            [] => return Ok(()),
            [line] => (line.clone(), None),
            lines => (format!("drop cascades to {} other objects", lines.len()), Some(lines.join("\n"))),
        };
        let (severity, state) = (Severity::Notice, SqlState::SUCCESSFUL_COMPLETION);
        self.environment_mut().push_notice(Notice { severity, state, message, detail, hint: None })
    }

    /// Drops views with what depends on them, and triggers.
    pub(super) fn drop_views_and_triggers(
        &mut self,
        views: Vec<Arc<View>>,
        triggers: Vec<Arc<Trigger>>,
    ) -> Result<()> {
        let catalog = self.catalog_to_change();
        let triggers = triggers.iter().map(|trigger| trigger.oid).collect();
        let mut plan = Plan { triggers, ..Plan::default() };
        for view in views {
            plan.add_view(&catalog, &view, "column");
        }
        complete(&mut plan, &catalog, true)?;
        self.carry_out(plan)
    }

    /// Drops the sequence of a column that has gone, and with CASCADE the defaults of others that name it.
    pub(super) fn drop_owned_sequence(&mut self, sequence: u32, cascade: bool) -> Result<()> {
        let catalog = self.catalog_to_read();
        let mut plan = Plan { sequences: vec![sequence], ..Plan::default() };
        complete(&mut plan, &catalog, cascade)?;
        self.carry_out(plan)
    }

    /// Drops an index, and with CASCADE the foreign keys that need it.
    pub(crate) fn drop_index(&mut self, table: u32, oid: u32, cascade: bool) -> Result<()> {
        let Some(table) = self.current_catalog().table_by_oid(table).cloned() else { return Ok(()) };
        if let Some(index) = table.nominal_indexes.iter().find(|index| index.oid == oid) {
            let mut catalog = self.catalog_to_change();
            let mut changed = table.as_ref().clone();
            changed.nominal_indexes.retain(|known| known.oid != oid);
            let changed = Arc::new(changed);
            catalog.remove_relation(&table.schema, &index.name);
            catalog.put_table(changed.clone());
            return self.publish(&[Object::table(&changed)], catalog);
        }
        let Some(position) = table.indexes.iter().position(|index| index.oid == oid) else {
            let name = table.key_name.clone().unwrap_or_default();
            return Err(needed_by_constraint(&name, &table.name));
        };
        let index = &table.indexes[position];
        if index.constraint {
            return Err(needed_by_constraint(&index.name, &table.name));
        }
        if index.is_unique_always() {
            let columns: Vec<usize> = index.columns.iter().map(|column| column.column).collect();
            self.release_constraint(&table, (&index.name, &columns), cascade)?;
        }
        let mut hidden = table.hidden_columns(index);
        let mut change = TableChange::new().drop_index(index.name.as_str());
        for &column in &hidden {
            change = change.drop_column(table.columns[column].name.as_str());
        }
        let engine = self.change_engine(&table, change, &index.name)?;
        let mut catalog = self.catalog_to_change();
        let mut changed = Table { engine, ..table.as_ref().clone() };
        changed.indexes.remove(position);
        // From the last one on, so that the positions of the others stay.
        hidden.sort_unstable_by(|left, right| right.cmp(left));
        hidden.iter().for_each(|&column| without_column(&mut changed, column));
        let changed = Arc::new(changed);
        catalog.remove_relation(&table.schema, &index.name);
        catalog.put_table(changed.clone());
        self.publish(&[Object::table(&changed)], catalog)
    }

    /// Drops the session's temporary tables and functions.
    pub(crate) fn drop_temporary(&mut self) -> Result<()> {
        let temporary = self.environment().temporary.clone();
        let catalog = self.current_catalog();
        let has_routine = catalog.routines().any(|routine| routine.schema == temporary);
        if !has_routine && catalog.relations_in(&temporary).next().is_none() {
            return Ok(());
        }
        self.in_schema_transaction(|connection| connection.drop_all_in(&temporary))
    }

    /// Drops tables with what depends on them.
    pub(super) fn drop_tables(&mut self, tables: &[Arc<Table>]) -> Result<()> {
        let catalog = self.catalog_to_read();
        let mut plan = Plan { tables: tables.to_vec(), ..Plan::default() };
        complete(&mut plan, &catalog, true)?;
        self.carry_out(plan)
    }

    fn drop_all_in(&mut self, temporary: &str) -> Result<()> {
        let catalog = self.catalog_to_read();
        let routines = catalog.routines().filter(|routine| routine.schema == temporary).cloned().collect();
        let mut plan = Plan { routines, ..Plan::default() };
        for (_, relation) in catalog.relations_in(temporary) {
            match relation {
                Relation::Table(table) => plan.tables.push(table.clone()),
                Relation::View(view) => plan.views.push(view.clone()),
                Relation::Sequence(sequence) => plan.sequences.push(sequence.oid),
                Relation::Index { .. } => {}
            }
        }
        complete(&mut plan, &catalog, true)?;
        self.carry_out(plan)
    }
}

enum Dropped {
    Relation(Relation),
    Schema(String),
    Type(u32),
    Extension(Arc<Extension>),
}

/// The error for an extension that is not dropped because other objects depend on its members.
fn of_extension(error: SqlError, drop: &Drop) -> SqlError {
    match (drop.kind, &drop.names[..]) {
        (ObjectKind::Extension, [name]) if error.state() == SqlState::DEPENDENT_OBJECTS_STILL_EXIST => {
            let message = format!(
                "cannot drop extension {} because other objects depend on it",
                crate::parse::quote_identifier(name.last())
            );
            let detail = error.detail().unwrap_or_default().to_string();
            SqlError::new(error.state(), message)
                .with_detail(detail)
                .with_hint("Use DROP ... CASCADE to drop the dependent objects too.")
        }
        _ => error,
    }
}

/// `"t" is not a view`.
fn not_a(name: &ObjectName, wanted: &str) -> SqlError {
    let article = if wanted == "index" { "an" } else { "a" };
    let message = format!("\"{}\" is not {article} {wanted}", name.last());
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
}

/// The type of a relation's rows is dropped with the relation.
fn type_of_rows(name: &ObjectName, relation: &Relation) -> SqlError {
    let (name, kind) = (name.last(), relation.kind());
    let message = format!("cannot drop type {name} because {kind} {name} requires it");
    SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
        .with_hint(format!("You can drop {kind} {name} instead."))
}

fn needed_by_constraint(index: &str, table: &str) -> SqlError {
    let message =
        format!("cannot drop index {index} because constraint {index} on table {table} requires it");
    let hint = format!("You can drop constraint {index} on table {table} instead.");
    SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message).with_hint(hint)
}

fn missing(kind: ObjectKind, name: &ObjectName) -> SqlError {
    let state = match kind {
        ObjectKind::Schema => SqlState::INVALID_SCHEMA_NAME,
        ObjectKind::Type | ObjectKind::Domain | ObjectKind::Index | ObjectKind::Extension => {
            SqlState::UNDEFINED_OBJECT
        }
        _ => SqlState::UNDEFINED_TABLE,
    };
    SqlError::new(state, format!("{} \"{}\" does not exist", kind_name(kind), called(kind, name)))
}

/// The name of a missing object in messages: PostgreSQL leaves the schema of a relation out.
fn called(kind: ObjectKind, name: &ObjectName) -> String {
    match kind {
        ObjectKind::Domain | ObjectKind::Type => name.to_string(),
        _ => name.last().to_owned(),
    }
}
