//! Composite types: CREATE TYPE … AS (…) and ALTER TYPE.
//!
//! # Invariants
//! - The rows of a type that lie in tables have its attributes: a change of these that is not to a name is refused while a
//!   column is of the type, of an array of it, or of a type that contains it.
//! - A relation and a composite type of one schema have different names.

use std::sync::Arc;

use crate::catalog::rights::RightsKind;
use crate::catalog::store::Object;
use crate::catalog::{Catalog, CompositeType, Table, TypeAttribute, UserType};
use crate::ddl::drop::may_name;
use crate::ddl::renamed_names::{rename_in_texts, renaming_of_type};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{AlterType, AttributeChange, AttributeDefinition, ObjectName};
use crate::session::Connection;
use crate::types::{Category, Type};

impl Connection {
    pub(crate) fn create_composite(
        &mut self,
        name: &ObjectName,
        attributes: &[AttributeDefinition],
        text: &str,
    ) -> Result<&'static str> {
        let mut catalog = self.catalog_to_change();
        let schema = self.schema_for(name, false)?;
        self.type_is_free(&schema, name.last())?;
        self.is_free(&schema, name.last(), false)?;
        let mut made: Vec<TypeAttribute> = Vec::with_capacity(attributes.len());
        for definition in attributes {
            let attribute = self.attribute(definition, text)?;
            if made.iter().any(|known| known.name == attribute.name) {
                let message = format!("column \"{}\" specified more than once", attribute.name);
                return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
            }
            made.push(attribute);
        }
        let ty = CompositeType {
            oid: Type::row_of(catalog.new_oid()).oid(),
            schema: schema.clone(),
            name: name.last().to_string(),
            attributes: made,
            comment: None,
            rights: self.new_rights(RightsKind::Type, &schema),
        };
        catalog.put_type(UserType::Composite(Arc::new(ty.clone())));
        self.publish(&[Object::Composite(ty)], catalog)?;
        Ok("CREATE TYPE")
    }

    fn attribute(&mut self, definition: &AttributeDefinition, text: &str) -> Result<TypeAttribute> {
        let named = self.with_binder(text, |binder| binder.named_type(&definition.ty))?;
        let name = definition.name.text.clone();
        if named.domain.is_some() {
            return Err(SqlError::unsupported("attributes of domains are not supported")
                .with_hint("Use the type beneath the domain."));
        }
        if named.ty.category() == Category::Pseudo {
            let message = format!("column \"{name}\" has pseudo-type {}", named.ty.display_name());
            return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
        }
        self.check_type_usage(&named)?;
        let collation = self.column_collation(definition.collation.as_ref(), named.ty, text)?;
        Ok(TypeAttribute { name, ty: named.ty, modifier: named.modifier, collation, comment: None })
    }

    /// ALTER TYPE … ADD, DROP and ALTER ATTRIBUTE.
    pub(crate) fn alter_attributes(
        &mut self,
        name: &ObjectName,
        changes: &[AttributeChange],
        text: &str,
    ) -> Result<&'static str> {
        let mut catalog = self.catalog_to_change();
        let UserType::Composite(ty) = self.find_user_type(name, &catalog)? else {
            let message = format!("\"{name}\" is not a composite type");
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        };
        self.check_owner(&ty.rights, "type", &ty.name)?;
        let mut changed = ty.as_ref().clone();
        for change in changes {
            self.change_attribute(&mut changed, change, text)?;
        }
        if let Some(user) = column_of(&catalog, Type::Composite(ty.oid)).filter(|_| changed != *ty) {
            let message = format!("cannot alter type \"{}\" because {user} uses it", ty.name);
            return Err(SqlError::unsupported(message)
                .with_hint("Change the column to another type first, and back afterwards."));
        }
        catalog.put_type(UserType::Composite(Arc::new(changed.clone())));
        self.publish(&[Object::Composite(changed)], catalog)?;
        Ok("ALTER TYPE")
    }

    fn change_attribute(
        &mut self,
        ty: &mut CompositeType,
        change: &AttributeChange,
        text: &str,
    ) -> Result<()> {
        let place = |ty: &CompositeType, name: &str| ty.attributes.iter().position(|it| it.name == name);
        match change {
            AttributeChange::Add(definition) => {
                let attribute = self.attribute(definition, text)?;
                if place(ty, &attribute.name).is_some() {
                    let message =
                        format!("column \"{}\" of relation \"{}\" already exists", attribute.name, ty.name);
                    return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
                }
                check_member(&self.current_catalog(), attribute.ty, (Type::Composite(ty.oid), &ty.name))?;
                ty.attributes.push(attribute);
            }
            AttributeChange::Drop { name, if_exists } => match place(ty, &name.text) {
                Some(at) => {
                    ty.attributes.remove(at);
                }
                None if *if_exists => {
                    self.skip_missing("column", &format!("{}\" of relation \"{}", name.text, ty.name));
                }
                None => return Err(no_attribute(ty, &name.text)),
            },
            AttributeChange::Alter(definition) => {
                let name = &definition.name.text;
                let at = place(ty, name).ok_or_else(|| no_attribute(ty, name))?;
                let comment = ty.attributes[at].comment.clone();
                let attribute = self.attribute(definition, text)?;
                check_member(&self.current_catalog(), attribute.ty, (Type::Composite(ty.oid), &ty.name))?;
                ty.attributes[at] = TypeAttribute { comment, ..attribute };
            }
        }
        Ok(())
    }

    /// ALTER TYPE … RENAME TO and RENAME ATTRIBUTE.
    pub(super) fn alter_composite(&mut self, ty: &CompositeType, change: &AlterType) -> Result<&'static str> {
        self.check_owner(&ty.rights, "type", &ty.name)?;
        let mut catalog = self.catalog_to_change();
        let (mut changed, mut objects) = (ty.clone(), Vec::new());
        match change {
            AlterType::Rename(to) => {
                self.type_is_free(&ty.schema, &to.text)?;
                self.is_free(&ty.schema, &to.text, false)?;
                let before = catalog.clone();
                let renaming = renaming_of_type(&before, (&ty.schema, &ty.name), (&ty.schema, &to.text));
                objects = rename_in_texts(&mut catalog, &renaming);
                catalog.remove_type(&ty.schema, &ty.name);
                changed.name.clone_from(&to.text);
            }
            AlterType::RenameAttribute { from, to, .. } => {
                if ty.attributes.iter().any(|known| known.name == to.text) {
                    let message =
                        format!("column \"{}\" of relation \"{}\" already exists", to.text, ty.name);
                    return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
                }
                let found = changed.attributes.iter_mut().find(|known| known.name == from.text);
                found.ok_or_else(|| no_attribute(ty, &from.text))?.name.clone_from(&to.text);
                if let Some(user) = text_with(&catalog, &from.text)
                    && column_of(&catalog, Type::Composite(ty.oid)).is_some()
                {
                    let message =
                        format!("cannot rename attribute \"{}\" because {user} may name it", from.text);
                    return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
                        .with_hint("Drop what names it first, and create it again."));
                }
            }
            _ => {
                let message = format!("{} is not an enum", ty.name);
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
        }
        catalog.put_type(UserType::Composite(Arc::new(changed.clone())));
        objects.push(Object::Composite(changed));
        self.publish(&objects, catalog)?;
        Ok("ALTER TYPE")
    }
}

fn no_attribute(ty: &CompositeType, name: &str) -> SqlError {
    let message = format!("column \"{name}\" of relation \"{}\" does not exist", ty.name);
    SqlError::new(SqlState::UNDEFINED_COLUMN, message)
}

/// Checks that a column or attribute of a type may be added to the rows of another.
///
/// # Errors
/// 42P16: the rows would contain themselves.
pub(super) fn check_member(catalog: &Catalog, ty: Type, (row, name): (Type, &str)) -> Result<()> {
    if contains(catalog, ty, row) {
        let message = format!("composite type {name} cannot be made a member of itself");
        return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
    }
    Ok(())
}

/// Returns true if values of a type contain values of another, or are of it.
fn contains(catalog: &Catalog, ty: Type, wanted: Type) -> bool {
    let ty = ty.element().unwrap_or(ty);
    ty == wanted
        || ty
            .row_relation()
            .and_then(|oid| catalog.row_columns(oid))
            .is_some_and(|columns| columns.iter().any(|column| contains(catalog, column.ty, wanted)))
}

/// A table or a view whose texts have a name in them.
fn text_with(catalog: &Catalog, name: &str) -> Option<String> {
    let view = catalog.stored_queries().find(|view| may_name(&view.query, name));
    let in_table = |table: &&Arc<Table>| {
        let columns = table.columns.iter().filter_map(|column| column.origin.text());
        let mut texts = columns.chain(table.checks.iter().map(|check| check.condition.as_str()));
        texts.any(|text| may_name(text, name))
    };
    let table = || catalog.tables().find(in_table).map(|table| format!("table {}", table.name));
    view.map(|view| format!("view {}", view.name)).or_else(table)
}

/// A column that has values of a type in it, as messages call it.
fn column_of(catalog: &Catalog, ty: Type) -> Option<String> {
    catalog.tables().find_map(|table| {
        let column = table.columns.iter().find(|column| contains(catalog, column.ty, ty))?;
        Some(format!("column \"{}.{}\"", table.name, column.name))
    })
}
