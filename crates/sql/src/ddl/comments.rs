//! COMMENT ON: texts that describe objects, which `pg_description` and dumps show.
//!
//! # Invariants
//! - A comment is part of its object's definition: it is renamed, copied and dropped with the object.
//! - Comments on keys' constraints and on indexes are in their table, by oids that are never used again.

use std::sync::Arc;

use crate::catalog::store::Object;
use crate::catalog::system::constraints::key_constraint_oid;
use crate::catalog::{Catalog, Extension, Relation, Schema, Sequence, Table, Trigger, UserType, View};
use crate::ddl::extension::no_extension;
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{Comment, ObjectKind, ObjectName};
use crate::session::{Connection, Severity};

impl Connection {
    pub(crate) fn comment(&mut self, comment: &Comment) -> Result<&'static str> {
        let mut catalog = self.catalog_to_change();
        let text = comment.text.clone();
        let object = match comment.kind {
            ObjectKind::Schema => self.comment_on_schema(comment, &mut catalog)?,
            ObjectKind::Column => self.comment_on_column(comment, &mut catalog)?,
            ObjectKind::Table
            | ObjectKind::View
            | ObjectKind::MaterializedView
            | ObjectKind::Sequence
            | ObjectKind::Index => self.comment_on_relation(comment, &mut catalog)?,
            ObjectKind::Type | ObjectKind::Domain => {
                self.comment_on_type(&comment.name, text, &mut catalog)?
            }
            ObjectKind::Constraint => self.comment_on_constraint(comment, &mut catalog)?,
            ObjectKind::Trigger => self.comment_on_trigger(comment, &mut catalog)?,
            ObjectKind::Extension => self.comment_on_extension(comment, &mut catalog)?,
            // A database.
            _ => {
                self.check_database_comment(comment.name.last())?;
                return Ok("COMMENT");
            }
        };
        self.publish(&[object], catalog)?;
        Ok("COMMENT")
    }

    /// A comment on the database is accepted from its owner, and not kept: a database has no definition of its own.
    fn check_database_comment(&mut self, name: &str) -> Result<()> {
        if self.environment().is_database(name) {
            return self.check_owner(&self.environment().catalog.database.rights, "database", name);
        }
        let message = format!("database \"{name}\" does not exist");
        self.environment_mut().add_notice(Severity::Warning, SqlState::INVALID_CATALOG_NAME, message);
        Ok(())
    }

    fn comment_on_schema(&self, comment: &Comment, catalog: &mut Catalog) -> Result<Object> {
        let name = comment.name.last();
        let Some(schema) = catalog.schema(name).cloned() else {
            return Err(crate::catalog::no_schema(name));
        };
        self.check_owner(&schema.rights, "schema", &schema.name)?;
        let schema = Schema { comment: comment.text.clone(), ..schema };
        catalog.add_schema(schema.clone());
        Ok(Object::Schema(schema))
    }

    fn comment_on_column(&self, comment: &Comment, catalog: &mut Catalog) -> Result<Object> {
        let (column, relation) =
            comment.name.parts.split_last().ok_or_else(|| crate::catalog::no_relation(""))?;
        let missing = |relation: &str| {
            let message = format!("column \"{}\" of relation \"{relation}\" does not exist", column.text);
            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
        };
        let relation_name = ObjectName { parts: relation.to_vec() };
        let path = self.environment().path();
        if let Some(UserType::Composite(ty)) =
            catalog.find_type(relation_name.schema(), relation_name.last(), &path)
        {
            self.check_owner(&ty.rights, "type", &ty.name)?;
            let mut changed = ty.as_ref().clone();
            let found = changed.attributes.iter_mut().find(|known| known.name == column.text);
            found.ok_or_else(|| missing(&ty.name))?.comment = comment.text.clone();
            catalog.put_type(UserType::Composite(Arc::new(changed.clone())));
            return Ok(Object::Composite(changed));
        }
        match self.find_relation(&relation_name)? {
            Relation::Table(table) => {
                self.check_owner(&table.rights, "relation", &table.name)?;
                let mut changed = table.as_ref().clone();
                let found = changed.columns.iter_mut().find(|known| known.name == column.text);
                found.ok_or_else(|| missing(&table.name))?.comment = comment.text.clone();
                Ok(put_table(changed, catalog))
            }
            Relation::View(view) => {
                self.check_owner(&view.rights, "relation", &view.name)?;
                let mut changed = view.as_ref().clone();
                let at = changed.columns.iter().position(|known| *known == column.text);
                let at = at.ok_or_else(|| missing(&view.name))?;
                changed.column_comments.retain(|(of, _)| *of != at);
                changed.column_comments.extend(comment.text.clone().map(|text| (at, text)));
                Ok(put_view(changed, catalog))
            }
            _ => Err(wrong_kind(ObjectKind::Column, &ObjectName { parts: relation.to_vec() })),
        }
    }

    fn comment_on_relation(&self, comment: &Comment, catalog: &mut Catalog) -> Result<Object> {
        let text = comment.text.clone();
        match (self.find_relation(&comment.name)?, comment.kind) {
            (Relation::Table(table), ObjectKind::Table | ObjectKind::MaterializedView)
                if table.stored_query.is_some() == (comment.kind == ObjectKind::MaterializedView) =>
            {
                self.check_owner(&table.rights, table.kind(), &table.name)?;
                Ok(put_table(Table { comment: text, ..table.as_ref().clone() }, catalog))
            }
            (Relation::View(view), ObjectKind::View) => {
                self.check_owner(&view.rights, "view", &view.name)?;
                Ok(put_view(View { comment: text, ..view.as_ref().clone() }, catalog))
            }
            (Relation::Sequence(sequence), ObjectKind::Sequence) => {
                self.check_owner(&sequence.rights, "sequence", &sequence.name)?;
                let changed = Sequence { comment: text, ..sequence.as_ref().clone() };
                let (schema, name) = (changed.schema.clone(), changed.name.clone());
                catalog.put_relation(&schema, &name, Relation::Sequence(Arc::new(changed.clone())));
                Ok(Object::Sequence(changed))
            }
            (Relation::Index { table, oid }, ObjectKind::Index) => {
                let table = catalog.table_by_oid(table).cloned();
                let table = table.ok_or_else(|| crate::catalog::no_relation(comment.name.last()))?;
                self.check_owner(&table.rights, "index", comment.name.last())?;
                Ok(put_key_comment(&table, oid, text, catalog))
            }
            (_, kind) => Err(wrong_kind(kind, &comment.name)),
        }
    }

    fn comment_on_type(
        &self,
        name: &ObjectName,
        comment: Option<String>,
        catalog: &mut Catalog,
    ) -> Result<Object> {
        let found = self.find_user_type(name, catalog)?;
        self.check_owner(found.rights(), "type", found.name())?;
        Ok(catalog.change_type(&found, |_, its, _| *its = comment))
    }

    /// The enum or domain of this name.
    pub(super) fn find_user_type(&self, name: &ObjectName, catalog: &Catalog) -> Result<UserType> {
        let path = self.environment().path();
        self.environment().check_usage_of(name)?;
        catalog.find_type(name.schema(), name.last(), &path).cloned().ok_or_else(|| {
            SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{name}\" does not exist"))
        })
    }

    fn comment_on_constraint(&self, comment: &Comment, catalog: &mut Catalog) -> Result<Object> {
        let (name, text) = (comment.name.last(), comment.text.clone());
        let on = comment.on.as_ref().unwrap_or(&comment.name);
        let missing = |of: &str| {
            let message = format!("constraint \"{name}\" for {of} \"{}\" does not exist", on.last());
            SqlError::new(SqlState::UNDEFINED_OBJECT, message)
        };
        if comment.on_domain {
            let UserType::Domain(domain) = self.find_user_type(on, catalog)? else {
                let message = format!("\"{on}\" is not a domain");
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            };
            self.check_owner(&domain.rights, "type", &domain.name)?;
            let mut changed = domain.as_ref().clone();
            let check = changed.checks.iter_mut().find(|check| check.name == name);
            check.ok_or_else(|| missing("domain"))?.comment = text;
            catalog.put_type(UserType::Domain(Arc::new(changed.clone())));
            return Ok(Object::Domain(changed));
        }
        let Relation::Table(table) = self.find_relation(on)? else { return Err(missing("table")) };
        self.check_owner(&table.rights, "relation", &table.name)?;
        let mut changed = table.as_ref().clone();
        if let Some(check) = changed.checks.iter_mut().find(|check| check.name == name) {
            check.comment = text;
            return Ok(put_table(changed, catalog));
        }
        if let Some(key) = changed.foreign_keys.iter_mut().find(|key| key.name == name) {
            key.comment = text;
            return Ok(put_table(changed, catalog));
        }
        let unique = table.indexes.iter().find(|index| index.constraint && index.name == name);
        let primary = table.key_oid.filter(|_| table.key_name.as_deref() == Some(name));
        let index = primary.or(unique.map(|index| index.oid)).ok_or_else(|| missing("table"))?;
        Ok(put_key_comment(&table, key_constraint_oid(index), text, catalog))
    }

    fn comment_on_extension(&self, comment: &Comment, catalog: &mut Catalog) -> Result<Object> {
        let name = comment.name.last();
        let known = catalog.extension(name).cloned().ok_or_else(|| no_extension(name))?;
        self.check_owner(&known.rights, "extension", name)?;
        let changed = Extension { comment: comment.text.clone(), ..known.as_ref().clone() };
        catalog.put_extension(Arc::new(changed.clone()));
        Ok(Object::Extension(changed))
    }

    fn comment_on_trigger(&self, comment: &Comment, catalog: &mut Catalog) -> Result<Object> {
        let name = comment.name.last();
        let on = comment.on.as_ref().unwrap_or(&comment.name);
        let table = match self.find_relation(on)? {
            Relation::Table(table) => table,
            _ => return Err(wrong_kind(ObjectKind::Column, on)),
        };
        self.check_owner(&table.rights, "relation", &table.name)?;
        let known = catalog.triggers_of(table.oid).iter().find(|trigger| trigger.name == name).cloned();
        let known = known.ok_or_else(|| {
            let message = format!("trigger \"{name}\" for table \"{}\" does not exist", table.name);
            SqlError::new(SqlState::UNDEFINED_OBJECT, message)
        })?;
        let changed = Trigger { comment: comment.text.clone(), ..known.as_ref().clone() };
        catalog.remove_trigger(changed.oid);
        catalog.put_trigger(Arc::new(changed.clone()));
        Ok(Object::Trigger(changed))
    }
}

fn put_table(changed: Table, catalog: &mut Catalog) -> Object {
    let changed = Arc::new(changed);
    catalog.put_table(changed.clone());
    Object::table(&changed)
}

fn put_view(changed: View, catalog: &mut Catalog) -> Object {
    let (schema, name) = (changed.schema.clone(), changed.name.clone());
    catalog.put_relation(&schema, &name, Relation::View(Arc::new(changed.clone())));
    Object::View(changed)
}

/// The comment on an index, or on the constraint of a key, with this oid.
fn put_key_comment(table: &Table, oid: u32, text: Option<String>, catalog: &mut Catalog) -> Object {
    let mut changed = table.clone();
    changed.key_comments.retain(|(of, _)| *of != oid);
    changed.key_comments.extend(text.map(|text| (oid, text)));
    put_table(changed, catalog)
}

/// 42809: the relation is of another kind than the statement says.
fn wrong_kind(wanted: ObjectKind, name: &ObjectName) -> SqlError {
    let wanted = match wanted {
        ObjectKind::Table => "a table",
        ObjectKind::View => "a view",
        ObjectKind::MaterializedView => "a materialized view",
        ObjectKind::Sequence => "a sequence",
        ObjectKind::Index => "an index",
        _ => "a table or view",
    };
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{}\" is not {wanted}", name.last()))
}
