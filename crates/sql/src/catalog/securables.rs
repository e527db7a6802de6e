//! Every object that has an owner or an access list, under one name; default privileges.
//!
//! # Invariants
//! - A change of rights yields the stored definition that has changed, so that no caller forgets to store it.
//! - Default privileges are for objects that one role creates: everywhere, or in one schema. The first replace the
//!   default rights of the kind, the second are added to them.
//!
//! Source: PostgreSQL 15, `get_user_default_acl` and `SetDefaultACL` in `aclchk.c`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::catalog::rights::{AclItem, Rights, RightsKind, default_acl};
use crate::catalog::store::Object;
use crate::catalog::{Catalog, Relation, UserType};

/// An object with rights.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Securable {
    /// A table, view or sequence.
    Relation(u32),
    /// A column of a table or view.
    Column(u32, usize),
    Schema(String),
    Type(u32),
    Routine(u32),
    Database,
}

/// A securable with what is known of it.
pub(crate) struct SecurableEntry {
    pub object: Securable,
    pub rights: Rights,
    /// The object's description in messages: `table t`.
    pub description: String,
}

/// The privileges that a role grants on objects that it is going to create.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct DefaultAcl {
    /// Its oid.
    pub oid: u32,
    /// The role that creates the objects.
    pub role: u32,
    /// The schema; `None` for all.
    pub schema: Option<u32>,
    /// The kind of objects.
    pub kind: RightsKind,
    /// The access list.
    pub acl: Vec<AclItem>,
}

impl Relation {
    /// The rights on a table, view or sequence; those of an index are its table's.
    pub fn rights(&self) -> Option<&Rights> {
        match self {
            Relation::Table(table) => Some(&table.rights),
            Relation::View(view) => Some(&view.rights),
            Relation::Sequence(sequence) => Some(&sequence.rights),
            Relation::Index { .. } => None,
        }
    }

    /// The kind as which its rights count.
    pub fn rights_kind(&self) -> RightsKind {
        if matches!(self, Relation::Sequence(_)) { RightsKind::Sequence } else { RightsKind::Table }
    }
}

impl UserType {
    /// The rights on it.
    pub fn rights(&self) -> &Rights {
        match self {
            UserType::Enum(ty) => &ty.rights,
            UserType::Domain(domain) => &domain.rights,
            UserType::Composite(ty) => &ty.rights,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            UserType::Enum(ty) => &ty.name,
            UserType::Domain(domain) => &domain.name,
            UserType::Composite(ty) => &ty.name,
        }
    }
}

impl Catalog {
    /// The rights on an object, and what kind it is.
    pub fn rights(&self, object: &Securable) -> Option<(RightsKind, Rights)> {
        Some(match object {
            Securable::Relation(oid) => {
                let relation = self.relation_by_oid(*oid)?;
                (relation.rights_kind(), relation.rights()?.clone())
            }
            Securable::Column(oid, column) => {
                let relation = self.relation_by_oid(*oid)?;
                let acl = Some(relation.column_acl(*column).to_vec());
                (RightsKind::Column, Rights { owner: relation.rights()?.owner, acl })
            }
            Securable::Schema(name) => (RightsKind::Schema, self.schema(name)?.rights.clone()),
            Securable::Type(oid) => (RightsKind::Type, self.user_type_by_oid(*oid)?.rights().clone()),
            Securable::Routine(oid) => (RightsKind::Function, self.routine_by_oid(*oid)?.rights.clone()),
            Securable::Database => (RightsKind::Database, self.database.rights.clone()),
        })
    }

    /// Changes the rights on an object: its definition, to be stored.
    pub fn set_rights(&mut self, object: &Securable, rights: Rights) -> Option<Object> {
        match object {
            Securable::Relation(oid) => self.set_relation_rights(*oid, None, rights),
            Securable::Column(oid, column) => self.set_relation_rights(*oid, Some(*column), rights),
            Securable::Schema(name) => {
                let mut schema = self.schema(name)?.clone();
                schema.rights = rights;
                self.add_schema(schema.clone());
                Some(Object::Schema(schema))
            }
            Securable::Type(oid) => {
                let ty = self.user_type_by_oid(*oid)?.clone();
                Some(self.change_type(&ty, |_, _, its| *its = rights))
            }
            Securable::Routine(oid) => {
                let mut routine = self.routine_by_oid(*oid)?.as_ref().clone();
                routine.rights = rights;
                self.put_routine(Arc::new(routine.clone()));
                Some(Object::Routine(routine))
            }
            Securable::Database => {
                self.database.rights = rights;
                Some(Object::Database(self.database.clone()))
            }
        }
    }

    /// Changes a type's schema, comment or rights: its definition, to be stored.
    pub fn change_type(
        &mut self,
        ty: &UserType,
        change: impl FnOnce(&mut String, &mut Option<String>, &mut Rights),
    ) -> Object {
        self.remove_type(ty.schema(), ty.name());
        match ty {
            UserType::Enum(ty) => {
                let mut ty = ty.as_ref().clone();
                change(&mut ty.schema, &mut ty.comment, &mut ty.rights);
                self.put_type(UserType::Enum(Arc::new(ty.clone())));
                Object::Enum(ty)
            }
            UserType::Domain(domain) => {
                let mut domain = domain.as_ref().clone();
                change(&mut domain.schema, &mut domain.comment, &mut domain.rights);
                self.put_type(UserType::Domain(Arc::new(domain.clone())));
                Object::Domain(domain)
            }
            UserType::Composite(ty) => {
                let mut ty = ty.as_ref().clone();
                change(&mut ty.schema, &mut ty.comment, &mut ty.rights);
                self.put_type(UserType::Composite(Arc::new(ty.clone())));
                Object::Composite(ty)
            }
        }
    }

    fn set_relation_rights(&mut self, oid: u32, column: Option<usize>, rights: Rights) -> Option<Object> {
        let acl = rights.acl.clone().filter(|acl| !acl.is_empty());
        match self.relation_by_oid(oid)?.clone() {
            Relation::Table(table) => {
                let mut table = table.as_ref().clone();
                match column {
                    Some(column) => table.columns.get_mut(column)?.acl = acl,
                    None => table.rights = rights,
                }
                let object = Object::table(&table);
                self.put_table(Arc::new(table));
                Some(object)
            }
            Relation::View(view) => {
                let mut view = view.as_ref().clone();
                match column {
                    Some(column) => {
                        view.column_acls.retain(|(known, _)| *known != column);
                        view.column_acls.extend(acl.map(|acl| (column, acl)));
                    }
                    None => view.rights = rights,
                }
                let (schema, name) = (view.schema.clone(), view.name.clone());
                self.put_relation(&schema, &name, Relation::View(Arc::new(view.clone())));
                Some(Object::View(view))
            }
            Relation::Sequence(sequence) => {
                let mut sequence = sequence.as_ref().clone();
                sequence.rights = rights;
                let (schema, name) = (sequence.schema.clone(), sequence.name.clone());
                self.put_relation(&schema, &name, Relation::Sequence(Arc::new(sequence.clone())));
                Some(Object::Sequence(sequence))
            }
            Relation::Index { .. } => None,
        }
    }

    /// All objects with rights; columns only if something was granted on them.
    pub fn securables(&self) -> Vec<SecurableEntry> {
        let mut found = Vec::new();
        let mut add = |object: Securable, description: String| {
            if let Some((_, rights)) = self.rights(&object) {
                found.push(SecurableEntry { object, rights, description });
            }
        };
        for schema in self.schemas() {
            add(Securable::Schema(schema.name.clone()), format!("schema {}", schema.name));
        }
        for (oid, (_, name)) in &self.relation_names {
            let Some(relation) = self.relation_by_oid(*oid) else { continue };
            let description = format!("{} {name}", relation.kind());
            for (column, label) in relation.column_names().iter().enumerate() {
                if !relation.column_acl(column).is_empty() {
                    add(Securable::Column(*oid, column), format!("column {label} of {description}"));
                }
            }
            add(Securable::Relation(*oid), description);
        }
        for ty in self.types() {
            add(Securable::Type(ty.oid()), format!("type {}", ty.name()));
        }
        for routine in self.routines() {
            let signature = routine.signature(|ty| self.type_display(ty));
            add(Securable::Routine(routine.oid), format!("{} {signature}", routine.kind()));
        }
        add(Securable::Database, "database".to_string());
        found.sort_by(|left, right| left.description.cmp(&right.description));
        found
    }

    /// All default privileges.
    pub fn default_acls(&self) -> &[DefaultAcl] {
        &self.default_acls
    }

    /// The default privileges of a role for a kind of objects, everywhere or in one schema.
    pub fn default_acl(&self, role: u32, schema: Option<u32>, kind: RightsKind) -> Option<&DefaultAcl> {
        self.default_acls.iter().find(|it| it.role == role && it.schema == schema && it.kind == kind)
    }

    /// Adds default privileges, or replaces those with this oid.
    pub fn put_default_acl(&mut self, acl: DefaultAcl) {
        self.reserve_oid(acl.oid);
        self.default_acls.retain(|known| known.oid != acl.oid);
        self.default_acls.push(acl);
    }

    pub fn remove_default_acl(&mut self, oid: u32) {
        self.default_acls.retain(|known| known.oid != oid);
    }

    /// The rights on an object that a role creates in a schema.
    pub fn new_rights(&self, role: u32, kind: RightsKind, schema: &str) -> Rights {
        let everywhere = self.default_acl(role, None, kind);
        let in_schema = self.schema(schema).and_then(|it| self.default_acl(role, Some(it.oid), kind));
        if everywhere.is_none() && in_schema.is_none() {
            return Rights::of(role);
        }
        let built_in = default_acl(kind, role);
        let mut acl = everywhere.map_or_else(|| built_in.clone(), |found| found.acl.clone());
        for item in in_schema.iter().flat_map(|found| &found.acl) {
            match acl.iter_mut().find(|it| it.grantee == item.grantee && it.grantor == item.grantor) {
                Some(known) => {
                    known.privileges |= item.privileges;
                    known.grantable |= item.grantable;
                }
                None => acl.push(*item),
            }
        }
        Rights { owner: role, acl: (acl != built_in).then_some(acl) }
    }
}

impl Relation {
    /// The privileges granted on a single column.
    pub fn column_acl(&self, column: usize) -> &[AclItem] {
        match self {
            Relation::Table(table) => {
                table.columns.get(column).and_then(|it| it.acl.as_deref()).unwrap_or_default()
            }
            Relation::View(view) => {
                let found = view.column_acls.iter().find(|(known, _)| *known == column);
                found.map_or(&[], |(_, acl)| acl)
            }
            _ => &[],
        }
    }

    /// The names of the columns of a table or view.
    pub fn column_names(&self) -> Vec<&str> {
        match self {
            Relation::Table(table) => table.visible().iter().map(|column| column.name.as_str()).collect(),
            Relation::View(view) => view.columns.iter().map(String::as_str).collect(),
            _ => Vec::new(),
        }
    }
}
