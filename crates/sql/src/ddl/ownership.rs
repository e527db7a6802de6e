//! Ownership: checks that a role may create, change and drop objects; OWNER TO, REASSIGN OWNED, DROP OWNED.
//!
//! # Invariants
//! - Only a role with the privileges of the owner changes or drops an object; only one that may create in a schema
//!   creates objects there.
//! - A sequence that belongs to a column has the owner of the column's table.
//!
//! Source: PostgreSQL 15, `aclcheck_error` and `object_ownercheck` in `aclchk.c`, `pg_shdepend.c`.

use std::sync::Arc;

use crate::bind::NamedType;
use crate::catalog::rights::{CREATE, Privileges, REFERENCES, Rights, RightsKind, TEMPORARY, USAGE};
use crate::catalog::role::BOOTSTRAP;
use crate::catalog::securables::Securable;
use crate::catalog::store::{self, Object};
use crate::catalog::{Catalog, Relation, Routine, Table};
use crate::ddl::roles::denied;
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{ObjectName, Reference, RoleName, TargetKind};
use crate::session::Connection;
use crate::types::Type;

impl Connection {
    /// The rights on an object that the current role creates in a schema.
    pub(crate) fn new_rights(&self, kind: RightsKind, schema: &str) -> Rights {
        let catalog = self.current_catalog();
        catalog.new_rights(self.role(), kind, schema)
    }

    /// Checks that the current role owns an object; if not, the error names it by `kind` and `name`.
    pub(crate) fn check_owner(&self, rights: &Rights, kind: &str, name: &str) -> Result<()> {
        if self.environment().catalog.is_owner(self.role(), rights) {
            return Ok(());
        }
        Err(denied(format!("must be owner of {kind} {name}")))
    }

    /// Checks the owner of a relation as [`check_owner`](Self::check_owner) does. An index belongs to its table's
    /// owner.
    pub(crate) fn check_relation_owner(&self, relation: &Relation) -> Result<()> {
        let catalog = &self.environment().catalog;
        let name = catalog.relation_name(relation.oid()).map_or("", |(_, name)| name.as_str());
        match relation {
            Relation::Index { table, .. } => match catalog.table_by_oid(*table) {
                Some(table) => self.check_owner(&table.rights, relation.kind(), name),
                None => Ok(()),
            },
            relation => match relation.rights() {
                Some(rights) => self.check_owner(rights, relation.kind(), name),
                None => Ok(()),
            },
        }
    }

    /// Checks that the current role owns a table.
    pub(crate) fn check_table_owner(&self, table: &Table) -> Result<()> {
        self.check_owner(&table.rights, "table", &table.name)
    }

    /// Checks that the current role has privileges on a table or view.
    pub(crate) fn check_relation(&self, relation: &Relation, wanted: Privileges) -> Result<()> {
        let catalog = &self.environment().catalog;
        let Some(rights) = relation.rights() else { return Ok(()) };
        if catalog.may(self.role(), rights, relation.rights_kind(), wanted) {
            return Ok(());
        }
        let name = catalog.relation_name(relation.oid()).map_or("", |(_, name)| name.as_str());
        Err(denied(format!("permission denied for {} {name}", relation.kind())))
    }

    /// Checks that the current role may refer to columns of a table by a foreign key.
    pub(crate) fn check_references(&self, relation: &Relation, reference: &Reference) -> Result<()> {
        let names = relation.column_names();
        let has_all = !reference.columns.is_empty()
            && reference.columns.iter().all(|name| {
                let column = names.iter().position(|known| *known == name.text);
                column.is_some_and(|column| self.may_on_column(relation.oid(), column, REFERENCES))
            });
        if has_all { Ok(()) } else { self.check_relation(relation, REFERENCES) }
    }

    fn may_on_column(&self, relation: u32, column: usize, wanted: Privileges) -> bool {
        let catalog = &self.environment().catalog;
        let rights = catalog.rights(&Securable::Column(relation, column));
        rights.is_some_and(|(kind, rights)| catalog.may(self.role(), &rights, kind, wanted))
    }

    /// Checks that the current role has privileges on a function or procedure.
    pub(crate) fn check_routine(&self, routine: &Routine, wanted: Privileges) -> Result<()> {
        let catalog = &self.environment().catalog;
        if catalog.may(self.role(), &routine.rights, RightsKind::Function, wanted) {
            return Ok(());
        }
        Err(denied(format!("permission denied for {} {}", routine.kind(), routine.name)))
    }

    /// Checks that the current role may define objects of a user-defined type.
    pub(crate) fn check_type_usage(&self, named: &NamedType) -> Result<()> {
        match (&named.domain, named.ty.element().unwrap_or(named.ty)) {
            (Some(domain), _) => self.check_user_type(domain.oid),
            (None, Type::Enum(oid) | Type::Composite(oid)) => self.check_user_type(oid),
            _ => Ok(()),
        }
    }

    /// Checks the usage of a type, given by its oid, as [`check_type_usage`](Self::check_type_usage) does.
    pub(crate) fn check_user_type(&self, oid: u32) -> Result<()> {
        let catalog = &self.environment().catalog;
        match catalog.user_type_by_oid(oid) {
            Some(ty) if !catalog.may(self.role(), ty.rights(), RightsKind::Type, USAGE) => {
                Err(denied(format!("permission denied for type {}", ty.name())))
            }
            _ => Ok(()),
        }
    }

    /// Checks that the current role has privileges on a schema. Its own temporary schema is each session's own.
    pub(crate) fn check_schema(&self, schema: &str, wanted: Privileges) -> Result<()> {
        self.check_schema_for(self.role(), schema, wanted)
    }

    pub(crate) fn check_schema_for(&self, role: u32, schema: &str, wanted: Privileges) -> Result<()> {
        let environment = self.environment();
        if schema == environment.temporary {
            return if wanted & CREATE != 0 { self.check_database(TEMPORARY) } else { Ok(()) };
        }
        let may = match environment.catalog.schema(schema) {
            Some(found) => environment.catalog.may(role, &found.rights, RightsKind::Schema, wanted),
            None => !schema.starts_with(store::TEMPORARY),
        };
        if may { Ok(()) } else { Err(denied(format!("permission denied for schema {schema}"))) }
    }

    /// Checks that the current role has privileges on the database.
    pub(crate) fn check_database(&self, wanted: Privileges) -> Result<()> {
        let environment = self.environment();
        let rights = &environment.catalog.database.rights;
        if environment.catalog.may(self.role(), rights, RightsKind::Database, wanted) {
            return Ok(());
        }
        let name = &environment.database;
        Err(denied(match wanted {
            TEMPORARY => format!("permission denied to create temporary tables in database \"{name}\""),
            _ => format!("permission denied for database {name}"),
        }))
    }

    /// The role to which the current role gives an object: one that it is a member of.
    pub(crate) fn new_owner(&self, name: &RoleName) -> Result<u32> {
        let owner = self.role_named(name)?;
        if self.environment().catalog.is_member_of(self.role(), owner) {
            return Ok(owner);
        }
        Err(denied(format!("must be member of role \"{}\"", self.environment().role_name(owner))))
    }

    /// ALTER … OWNER TO.
    pub(super) fn change_owner(
        &mut self,
        kind: TargetKind,
        name: &ObjectName,
        if_exists: bool,
        to: &RoleName,
    ) -> Result<()> {
        let mut catalog = self.catalog_to_change();
        let object = match self.owned_object(kind, name) {
            Ok(Some(object)) => object,
            Ok(None) => return Ok(()),
            Err(error) if if_exists && error.state() == SqlState::UNDEFINED_TABLE => {
                self.skip_missing("relation", &name.to_string());
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let Some((_, rights)) = catalog.rights(&object) else { return Ok(()) };
        if let Securable::Relation(oid) = &object
            && let Some(relation) = catalog.relation_by_oid(*oid)
        {
            self.check_relation_owner(relation)?;
        }
        let owner = self.role_named(to)?;
        if rights.owner == owner {
            return Ok(());
        }
        if !self.is_superuser() {
            self.check_new_owner(&object, &rights, to)?;
        }
        if let Securable::Relation(oid) = &object
            && let Some(Relation::Sequence(sequence)) = catalog.relation_by_oid(*oid)
            && let Some((table, _)) = sequence.owner
        {
            let table = catalog.table_by_oid(table).map_or(String::new(), |table| table.name.clone());
            let error =
                SqlError::unsupported(format!("cannot change owner of sequence \"{}\"", sequence.name));
            return Err(
                error.with_detail(format!("Sequence \"{}\" is linked to table \"{table}\".", sequence.name))
            );
        }
        let mut objects = Vec::new();
        give(&mut catalog, &object, owner, &mut objects);
        self.publish(&objects, catalog)
    }

    fn check_new_owner(&self, object: &Securable, rights: &Rights, to: &RoleName) -> Result<()> {
        let catalog = &self.environment().catalog;
        match object {
            Securable::Type(oid) => {
                let name = catalog.user_type_by_oid(*oid).map_or("", |ty| ty.name());
                self.check_owner(rights, "type", name)?;
            }
            Securable::Schema(name) => self.check_owner(rights, "schema", name)?,
            Securable::Database => self.check_owner(rights, "database", &self.environment().database)?,
            Securable::Relation(_) | Securable::Column(..) | Securable::Routine(_) => {}
        }
        let owner = self.new_owner(to)?;
        match object {
            Securable::Relation(oid) => match catalog.relation_name(*oid) {
                Some((schema, _)) => self.check_schema_for(owner, schema, CREATE),
                None => Ok(()),
            },
            Securable::Type(oid) => match catalog.user_type_by_oid(*oid) {
                Some(ty) => self.check_schema_for(owner, ty.schema(), CREATE),
                None => Ok(()),
            },
            Securable::Schema(_) => self.check_database(CREATE),
            _ => Ok(()),
        }
    }

    /// The object that OWNER TO names; `None` for an index, which has its table's owner.
    fn owned_object(&self, kind: TargetKind, name: &ObjectName) -> Result<Option<Securable>> {
        Ok(match kind {
            TargetKind::Table
            | TargetKind::View
            | TargetKind::MaterializedView
            | TargetKind::Sequence
            | TargetKind::Index => {
                let relation = self.find_relation(name)?;
                let wrong = |what: &str| {
                    let message = format!("\"{}\" is not a {what}", name.last());
                    Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
                };
                match (&relation, kind) {
                    (Relation::Index { .. }, _) => return Ok(None),
                    (Relation::Table(_) | Relation::Sequence(_), TargetKind::View) => return wrong("view"),
                    (_, TargetKind::MaterializedView) if relation.kind() != "materialized view" => {
                        return wrong("materialized view");
                    }
                    (Relation::Table(_) | Relation::View(_), TargetKind::Sequence) => {
                        return wrong("sequence");
                    }
                    _ => Some(Securable::Relation(relation.oid())),
                }
            }
            kind => Some(self.securable(kind, name)?),
        })
    }

    /// The schema, type or database that a statement names.
    pub(super) fn securable(&self, kind: TargetKind, name: &ObjectName) -> Result<Securable> {
        let environment = self.environment();
        match kind {
            TargetKind::Schema => match environment.catalog.schema(name.last()) {
                Some(schema) => Ok(Securable::Schema(schema.name.clone())),
                None => Err(crate::catalog::no_schema(name.last())),
            },
            TargetKind::Database => {
                if environment.is_database(name.last()) {
                    return Ok(Securable::Database);
                }
                let message = format!("database \"{}\" does not exist", name.last());
                Err(SqlError::new(SqlState::INVALID_CATALOG_NAME, message))
            }
            _ => {
                let path = environment.path();
                environment.check_usage_of(name)?;
                match environment.catalog.find_type(name.schema(), name.last(), &path) {
                    Some(ty) => Ok(Securable::Type(ty.oid())),
                    None => {
                        let message = format!("type \"{name}\" does not exist");
                        Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
                    }
                }
            }
        }
    }

    /// The objects that keep a role from being dropped.
    pub(super) fn dependents_of_role(&self, role: u32, catalog: &Catalog) -> Vec<String> {
        let mut found = Vec::new();
        for entry in catalog.securables() {
            let owns = entry.rights.owner == role && !matches!(entry.object, Securable::Column(..));
            if owns {
                found.push(format!("owner of {}", entry.description));
            } else if entry.rights.mentions(role) {
                found.push(format!("privileges for {}", entry.description));
            }
        }
        for acl in catalog.default_acls() {
            let name = self.environment().role_name(acl.role);
            let what = format!("default privileges on new {}s belonging to role {name}", acl.kind.name());
            if acl.role == role {
                found.push(format!("owner of {what}"));
            } else if acl.acl.iter().any(|item| item.grantee == role) {
                found.push(format!("privileges for {what}"));
            }
        }
        found
    }

    /// REASSIGN OWNED.
    pub(super) fn reassign_owned(&mut self, from: &[RoleName], to: &RoleName) -> Result<()> {
        let mut catalog = self.catalog_to_change();
        let from = self.roles_of_owned(from, "reassign objects")?;
        let to = self.role_named(to)?;
        if !catalog.has_privileges_of(self.role(), to) {
            return Err(denied("permission denied to reassign objects"));
        }
        let mut objects = Vec::new();
        for entry in catalog.securables() {
            if from.contains(&entry.rights.owner) && !matches!(entry.object, Securable::Column(..)) {
                give(&mut catalog, &entry.object, to, &mut objects);
            }
        }
        self.publish(&objects, catalog)
    }

    fn roles_of_owned(&self, names: &[RoleName], what: &str) -> Result<Vec<u32>> {
        let mut roles = Vec::with_capacity(names.len());
        for name in names {
            let role = self.role_named(name)?;
            if role == BOOTSTRAP {
                let name = self.environment().role_name(role);
                let message = format!(
                    "cannot {what} owned by role {name} because they are required by the database system"
                );
                return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message));
            }
            if !self.environment().catalog.has_privileges_of(self.role(), role) {
                return Err(denied(format!("permission denied to {what}")));
            }
            roles.push(role);
        }
        Ok(roles)
    }

    /// DROP OWNED: drops the objects that the roles own, and revokes the privileges granted to them.
    pub(super) fn drop_owned(&mut self, by: &[RoleName], cascade: bool) -> Result<()> {
        let roles = self.roles_of_owned(by, "drop objects")?;
        let owned: Vec<Securable> = self
            .current_catalog()
            .securables()
            .into_iter()
            .filter(|entry| roles.contains(&entry.rights.owner))
            .map(|entry| entry.object)
            .collect();
        self.drop_securables(&owned, cascade)?;
        let mut catalog = self.catalog_to_change();
        let (mut objects, mut gone) = (Vec::new(), Vec::new());
        for entry in catalog.securables() {
            let Some(acl) = &entry.rights.acl else { continue };
            let left: Vec<_> = acl
                .iter()
                .filter(|item| !roles.contains(&item.grantee) && !roles.contains(&item.grantor))
                .copied()
                .collect();
            if left.len() < acl.len() {
                let rights = Rights { acl: Some(left), ..entry.rights.clone() };
                objects.extend(catalog.set_rights(&entry.object, rights));
            }
        }
        for mut acl in catalog.default_acls().to_vec() {
            if roles.contains(&acl.role) {
                catalog.remove_default_acl(acl.oid);
                gone.push(acl.oid);
            } else if acl.acl.iter().any(|item| roles.contains(&item.grantee)) {
                acl.acl.retain(|item| !roles.contains(&item.grantee));
                catalog.put_default_acl(acl.clone());
                objects.push(Object::DefaultAcl(acl));
            }
        }
        self.publish(&objects, catalog)?;
        self.delete_definitions(&gone)
    }
}

/// Changes the owner of an object, of a table with the sequences of its columns.
fn give(catalog: &mut Catalog, object: &Securable, owner: u32, objects: &mut Vec<Object>) {
    let Some((_, mut rights)) = catalog.rights(object) else { return };
    let old = rights.owner;
    rights.change_owner(owner);
    objects.extend(catalog.set_rights(object, rights));
    let Securable::Relation(oid) = *object else { return };
    let owned: Vec<u32> = catalog
        .sequences()
        .filter(|sequence| sequence.owner.is_some_and(|(table, _)| table == oid))
        .map(|sequence| sequence.oid)
        .collect();
    for sequence in owned {
        give(catalog, &Securable::Relation(sequence), owner, objects);
    }
    if let Some(Relation::Table(table)) = catalog.relation_by_oid(oid)
        && table.columns.iter().any(|column| column.acl.is_some())
    {
        let mut table = table.as_ref().clone();
        for acl in table.columns.iter_mut().filter_map(|column| column.acl.as_mut()) {
            crate::catalog::rights::change_owner(acl, old, owner);
        }
        objects.push(Object::table(&table));
        catalog.put_table(Arc::new(table));
    }
}
