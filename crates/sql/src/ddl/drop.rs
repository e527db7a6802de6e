//! DROP and TRUNCATE.
//!
//! What depends on what: sequences on the columns that own them, foreign keys on the tables that they refer to, views on
//! the relations that their queries name, columns on their enums, domains and sequences.

use std::sync::Arc;

use heddledb::TableChange;

use crate::catalog::rights::TRUNCATE;
use crate::catalog::securables::Securable;
use crate::catalog::store::Object;
use crate::catalog::{Catalog, ColumnOrigin, Index, Relation, Routine, Table, Trigger, UserType, View};
use crate::ddl::alter_table::without_column;
use crate::ddl::dropped_calls::{Gone, check_domains, without_calls};
use crate::ddl::rename_schema::follow;
use crate::ddl::routine::shown;
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{Drop, ObjectKind, ObjectName, Statement};
use crate::session::{Connection, SequenceChange};

/// What a DROP is going to do.
#[derive(Default)]
struct Plan {
    tables: Vec<Arc<Table>>,
    views: Vec<Arc<View>>,
    sequences: Vec<u32>,
    types: Vec<u32>,
    schemas: Vec<String>,
    routines: Vec<Arc<Routine>>,
    triggers: Vec<u32>,
    /// Tables that lose foreign keys: the keys' names.
    foreign_keys: Vec<(u32, String)>,
    /// Columns of dropped types: their tables and names.
    columns: Vec<(u32, String)>,
    /// Columns that lose their defaults: their tables and names.
    defaults: Vec<(u32, String)>,
    /// Indexes whose expressions call dropped routines: their tables and oids.
    indexes: Vec<(u32, u32)>,
}

impl Plan {
    fn is_empty(&self) -> bool {
        let relations = self.tables.len() + self.views.len() + self.sequences.len();
        relations + self.types.len() + self.schemas.len() + self.routines.len() == 0
    }

    fn gone<'g>(&'g self, catalog: &'g Catalog, cascade: bool) -> Gone<'g> {
        Gone { catalog, routines: &self.routines, types: &self.types, cascade }
    }

    /// Whether a view goes, or a materialized one.
    fn drops_view(&self, oid: u32) -> bool {
        self.views.iter().any(|view| view.oid == oid) || self.tables.iter().any(|table| table.oid == oid)
    }

    /// Adds a view, or the materialized view that it stands for, which depends on `object`.
    fn add_view(&mut self, catalog: &Catalog, view: &Arc<View>, object: &str, cascade: bool) -> Result<()> {
        let materialized = catalog.table_by_oid(view.oid);
        if !cascade {
            let kind = materialized.map_or("view", |table| table.kind());
            return Err(depends(object, &format!("{kind} {}", view.name)));
        }
        match materialized {
            Some(table) => self.tables.push(table.clone()),
            None => self.views.push(view.clone()),
        }
        Ok(())
    }
}

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
                None if drop.if_exists => self.skip_missing(kind_name(drop.kind), &called(drop.kind, name)),
                None => return Err(missing(drop.kind, name)),
            }
        }
        for (table, oid) in indexes {
            self.drop_index(table, oid, drop.cascade)?;
        }
        // Another catalog would have every session plan its statements again.
        if !plan.is_empty() {
            complete(&mut plan, &catalog, drop.cascade)?;
            self.carry_out(plan)?;
        }
        Ok(tag(drop.kind))
    }

    /// Only the owner of an object, or of its schema, drops it.
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
            Dropped::Type(oid) => match catalog.user_type_by_oid(*oid) {
                Some(ty) if !owns_schema(ty.schema()) => self.check_owner(ty.rights(), "type", ty.name()),
                _ => Ok(()),
            },
        }
    }

    fn droppable(&self, kind: ObjectKind, name: &ObjectName, catalog: &Catalog) -> Result<Option<Dropped>> {
        let path = self.environment().path();
        match kind {
            ObjectKind::Schema => {
                let found = catalog.schema(name.last());
                Ok(found.map(|schema| Dropped::Schema(schema.name.clone())))
            }
            ObjectKind::Type | ObjectKind::Domain => {
                Ok(catalog.find_type(name.schema(), name.last(), &path).map(|ty| Dropped::Type(ty.oid())))
            }
            ObjectKind::Extension if name.last() == "plpgsql" => {
                Err(SqlError::unsupported("the language plpgsql cannot be dropped"))
            }
            ObjectKind::Extension => Ok(None),
            _ => {
                let Some(relation) = catalog.find(name.schema(), name.last(), &path) else { return Ok(None) };
                let wanted = kind_name(kind);
                if relation.kind() != wanted {
                    let message = format!(
                        "\"{}\" is not a{} {wanted}",
                        name.last(),
                        if wanted == "index" { "n" } else { "" }
                    );
                    let hint = format!(
                        "Use DROP {} to remove a {}.",
                        relation.kind().to_uppercase(),
                        relation.kind()
                    );
                    return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).with_hint(hint));
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
        self.carry_out(plan)
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
            plan.add_view(&catalog, &view, "column", true)?;
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
    fn carry_out(&mut self, mut plan: Plan) -> Result<()> {
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
                Some(UserType::Enum(ty)) => (ty.schema.clone(), ty.name.clone()),
                Some(UserType::Domain(domain)) => (domain.schema.clone(), domain.name.clone()),
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

    pub(crate) fn truncate(&mut self, statement: &Statement) -> Result<&'static str> {
        self.in_schema_transaction(|connection| connection.truncate_tables(statement))
    }

    fn truncate_tables(&mut self, statement: &Statement) -> Result<&'static str> {
        let Statement::Truncate { tables: names, restart_identity, cascade } = statement else {
            return Ok("TRUNCATE TABLE");
        };
        let catalog = self.current_catalog();
        let mut tables: Vec<Arc<Table>> = Vec::new();
        for name in names {
            let relation = self.find_relation(name)?;
            self.check_relation(&relation, TRUNCATE)?;
            match relation {
                Relation::Table(table) if table.stored_query.is_none() => tables.push(table),
                _ => {
                    let message = format!("\"{}\" is not a table", name.last());
                    return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
                }
            }
        }
        let mut next = 0;
        while next < tables.len() {
            let oid = tables[next].oid;
            for other in
                catalog.tables().filter(|other| other.foreign_keys.iter().any(|key| key.table == oid))
            {
                if tables.iter().any(|table| table.oid == other.oid) {
                    continue;
                }
                if !cascade {
                    let message = "cannot truncate a table referenced in a foreign key constraint";
                    let detail = format!("Table \"{}\" references \"{}\".", other.name, tables[next].name);
                    let hint = format!(
                        "Truncate table \"{}\" at the same time, or use TRUNCATE ... CASCADE.",
                        other.name
                    );
                    return Err(SqlError::unsupported(message).with_detail(detail).with_hint(hint));
                }
                self.check_relation(&Relation::Table(other.clone()), TRUNCATE)?;
                tables.push(other.clone());
            }
            next += 1;
        }
        self.empty_tables(&tables)?;
        if *restart_identity {
            for sequence in catalog.sequences() {
                if sequence.owner.is_some_and(|(table, _)| tables.iter().any(|it| it.oid == table)) {
                    let change = SequenceChange::Restart(sequence.oid, sequence.start);
                    self.change_sequence_at_commit(change);
                }
            }
        }
        Ok("TRUNCATE TABLE")
    }

    pub(super) fn empty_tables(&mut self, tables: &[Arc<Table>]) -> Result<()> {
        let names: Vec<String> =
            tables.iter().map(|table| table.engine.definition().name().to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        self.session_mut().truncate(&names)?;
        let mut catalog = self.catalog_to_change();
        for (table, name) in tables.iter().zip(names) {
            let engine = self.session_mut().table(name)?.fixed();
            catalog.put_table(Arc::new(Table { engine, ..table.as_ref().clone() }));
        }
        self.publish_catalog(catalog);
        Ok(())
    }
}

enum Dropped {
    Relation(Relation),
    Schema(String),
    Type(u32),
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

/// How messages about a missing object call it: PostgreSQL leaves the schema of a relation out.
fn called(kind: ObjectKind, name: &ObjectName) -> String {
    match kind {
        ObjectKind::Domain | ObjectKind::Type => name.to_string(),
        _ => name.last().to_owned(),
    }
}

/// Adds what depends on the objects to be dropped, or refuses.
fn complete(plan: &mut Plan, catalog: &Catalog, cascade: bool) -> Result<()> {
    for schema in plan.schemas.clone() {
        add_schema(plan, catalog, &schema, cascade)?;
    }
    loop {
        let count = |plan: &Plan| {
            let relations = plan.tables.len() + plan.views.len() + plan.sequences.len();
            (relations, plan.foreign_keys.len(), plan.routines.len())
        };
        let before = count(plan);
        add_owned(plan, catalog);
        add_foreign_keys(plan, catalog, cascade)?;
        add_views(plan, catalog, cascade)?;
        add_routines(plan, catalog, cascade)?;
        if before == count(plan) {
            break;
        }
    }
    add_triggers(plan, catalog, cascade)?;
    check_domains(plan.gone(catalog, cascade))?;
    check_columns(plan, catalog, cascade)
}

fn add_schema(plan: &mut Plan, catalog: &Catalog, schema: &str, cascade: bool) -> Result<()> {
    let object = format!("schema {schema}");
    for (name, relation) in catalog.relations_in(schema) {
        if !cascade {
            return Err(depends(&object, &format!("{} {schema}.{name}", relation.kind())));
        }
        match relation {
            Relation::Table(table) => plan.tables.push(table.clone()),
            Relation::View(view) => plan.views.push(view.clone()),
            Relation::Sequence(sequence) => plan.sequences.push(sequence.oid),
            Relation::Index { .. } => {}
        }
    }
    for routine in catalog.routines().filter(|routine| routine.schema == schema) {
        if !cascade {
            return Err(depends(&object, &shown(catalog, routine)));
        }
        plan.routines.push(routine.clone());
    }
    for ty in catalog.types() {
        let (of, name) = match ty {
            UserType::Enum(ty) => (&ty.schema, &ty.name),
            UserType::Domain(domain) => (&domain.schema, &domain.name),
        };
        if of == schema {
            if !cascade {
                return Err(depends(&object, &format!("type {schema}.{name}")));
            }
            plan.types.push(ty.oid());
        }
    }
    plan.tables.dedup_by_key(|table| table.oid);
    Ok(())
}

/// Sequences that are owned by columns of dropped tables.
fn add_owned(plan: &mut Plan, catalog: &Catalog) {
    for sequence in catalog.sequences() {
        let owned = sequence.owner.is_some_and(|(table, _)| plan.tables.iter().any(|it| it.oid == table));
        if owned && !plan.sequences.contains(&sequence.oid) {
            plan.sequences.push(sequence.oid);
        }
    }
}

fn add_foreign_keys(plan: &mut Plan, catalog: &Catalog, cascade: bool) -> Result<()> {
    for table in catalog.tables() {
        if plan.tables.iter().any(|dropped| dropped.oid == table.oid) {
            continue;
        }
        for key in &table.foreign_keys {
            let Some(dropped) = plan.tables.iter().find(|dropped| dropped.oid == key.table) else { continue };
            if !cascade {
                let by = format!("constraint {} on table {}", key.name, table.name);
                return Err(depends(&format!("table {}", dropped.name), &by));
            }
            let entry = (table.oid, key.name.clone());
            if !plan.foreign_keys.contains(&entry) {
                plan.foreign_keys.push(entry);
            }
        }
    }
    Ok(())
}

fn add_views(plan: &mut Plan, catalog: &Catalog, cascade: bool) -> Result<()> {
    for view in catalog.stored_queries() {
        if plan.drops_view(view.oid) {
            continue;
        }
        let named = |schema: &str, name: &str| names_relation(&view, schema, name);
        let of_table = plan.tables.iter().find(|table| named(&table.schema, &table.name));
        let of_view = plan.views.iter().find(|other| named(&other.schema, &other.name));
        let object = match (of_table, of_view) {
            (Some(table), _) => format!("{} {}", table.kind(), table.name),
            (None, Some(other)) => format!("view {}", other.name),
            (None, None) => continue,
        };
        plan.add_view(catalog, &view, &object, cascade)?;
    }
    Ok(())
}

/// Routines whose arguments, their defaults and results are of what is dropped, and views that name it.
fn add_routines(plan: &mut Plan, catalog: &Catalog, cascade: bool) -> Result<()> {
    for routine in catalog.routines() {
        if plan.routines.iter().any(|dropped| dropped.oid == routine.oid) {
            continue;
        }
        let table = plan.tables.iter().find(|table| routine.names_row_of(table.oid));
        let is_of = |ty: crate::types::Type| {
            let element = ty.element().unwrap_or(ty);
            matches!(element, crate::types::Type::Enum(oid) if plan.types.contains(&oid))
        };
        let of_type = is_of(routine.result) || routine.arguments.iter().any(|argument| is_of(argument.ty));
        let object = match table {
            Some(table) => format!("table {}", table.name),
            None if of_type => "type".to_string(),
            None if plan.gone(catalog, cascade).is_in_arguments(routine)? => {
                plan.routines.push(routine.clone());
                continue;
            }
            None => continue,
        };
        if !cascade {
            return Err(depends(&object, &shown(catalog, routine)));
        }
        plan.routines.push(routine.clone());
    }
    for view in catalog.stored_queries() {
        if !plan.drops_view(view.oid) && plan.gone(catalog, cascade).is_in_view(&view)? {
            plan.add_view(catalog, &view, "function", cascade)?;
        }
    }
    Ok(())
}

/// Triggers of tables and of functions that are dropped.
fn add_triggers(plan: &mut Plan, catalog: &Catalog, cascade: bool) -> Result<()> {
    for trigger in catalog.triggers() {
        if plan.triggers.contains(&trigger.oid) {
            continue;
        }
        if plan.tables.iter().any(|table| table.oid == trigger.table) {
            plan.triggers.push(trigger.oid);
            continue;
        }
        let Some(table) = catalog.table_by_oid(trigger.table) else { continue };
        if plan.gone(catalog, cascade).is_in_condition(trigger, table)? {
            plan.triggers.push(trigger.oid);
        } else if let Some(routine) = plan.routines.iter().find(|it| it.oid == trigger.function) {
            if !cascade {
                let by = format!("trigger {} on table {}", trigger.name, table.name);
                return Err(depends(&shown(catalog, routine), &by));
            }
            plan.triggers.push(trigger.oid);
        }
    }
    Ok(())
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

/// Whether a view's query names a relation.
pub(crate) fn names_relation(view: &View, schema: &str, name: &str) -> bool {
    may_name(&view.query, name)
        && crate::parse::relation_names(&view.query).iter().any(|found| {
            found.last() == name
                && match found.schema() {
                    Some(of) => of == schema,
                    None => view.search_path.iter().any(|of| of == schema),
                }
        })
}

/// Whether a text can have this name in it. It spares the parser most views: each DROP looks at all of them.
fn may_name(text: &str, name: &str) -> bool {
    // Quotes are doubled in quoted names, and U&"…" has escapes.
    let is_plain = name.is_ascii() && !name.contains('"') && !text.contains("&\"");
    !is_plain
        || text.as_bytes().windows(name.len().max(1)).any(|part| part.eq_ignore_ascii_case(name.as_bytes()))
}

/// Columns keep their types and their sequences: these cannot be dropped before them, but CASCADE drops defaults.
fn check_columns(plan: &mut Plan, catalog: &Catalog, cascade: bool) -> Result<()> {
    for table in catalog.tables() {
        if plan.tables.iter().any(|dropped| dropped.oid == table.oid) {
            continue;
        }
        for check in &table.checks {
            let by = || format!("constraint {} on table {}", check.name, table.name);
            plan.gone(catalog, cascade).is_in_row(&check.condition, table, by)?;
        }
        for (position, column) in table.columns.iter().enumerate() {
            let element = column.ty.element().unwrap_or(column.ty);
            let by = || format!("column {} of table {}", column.name, table.name);
            let ty = match element {
                crate::types::Type::Enum(oid) => Some(oid),
                _ => column.domain,
            };
            if column.indexed().is_none() && ty.is_some_and(|ty| plan.types.contains(&ty)) {
                if !cascade {
                    return Err(depends("type", &by()));
                }
                plan.columns.push((table.oid, column.name.clone()));
                continue;
            }
            let text = column.origin.text().unwrap_or_default();
            let is_over = |index: &&Index| index.columns.iter().any(|key| key.column == position);
            let index = column.indexed().and_then(|_| table.indexes.iter().find(is_over));
            let by_text = || match index {
                Some(index) => format!("index {}", index.name),
                None => format!("default value for {}", by()),
            };
            if plan.gone(catalog, cascade).is_in_row(text, table, by_text)? {
                match (&column.origin, index) {
                    (_, Some(index)) => plan.indexes.push((table.oid, index.oid)),
                    (ColumnOrigin::Default(_), None) => {
                        plan.defaults.push((table.oid, column.name.clone()));
                    }
                    _ => plan.columns.push((table.oid, column.name.clone())),
                }
                continue;
            }
            let sequence = match &column.origin {
                ColumnOrigin::Identity { sequence, .. } => Some(*sequence),
                ColumnOrigin::Default(text) => {
                    plan.sequences.iter().copied().find(|oid| text.contains(&format!("nextval({oid}::")))
                }
                _ => None,
            };
            if sequence.is_some_and(|sequence| plan.sequences.contains(&sequence)) {
                if cascade && matches!(column.origin, ColumnOrigin::Default(_)) {
                    plan.defaults.push((table.oid, column.name.clone()));
                    continue;
                }
                return Err(depends("sequence", &format!("default value for {}", by())));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::may_name;

    #[test]
    fn a_text_is_parsed_only_if_it_may_have_the_name() {
        assert!(!may_name("select a from t where b in (1, 2)", "orders"));
        assert!(!may_name("", "orders"));
        for (text, name) in [
            ("select a from Orders", "orders"),
            ("select a from s.\"orders\"", "orders"),
            ("select a from \"or\"\"ders\"", "or\"ders"),
            ("select a from U&\"\\006frders\"", "orders"),
            ("select a from größe", "größe"),
        ] {
            assert!(may_name(text, name), "{text}");
        }
    }
}
