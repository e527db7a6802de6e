//! GRANT, REVOKE, ALTER DEFAULT PRIVILEGES.
//!
//! # Invariants
//! A role grants only what it owns or holds a grant option for. Revoking a privilege on a table revokes it on each of
//! its columns.
//!
//! Source: PostgreSQL 15, `ExecGrantStmt_oids`, `restrict_and_check_grant`, `SetDefaultACL` in `aclchk.c`.

use crate::catalog::rights::{
    self, AclChange, AclItem, NAMES, PUBLIC_ROLE, Privileges, Rights, RightsKind, USAGE, default_acl,
};
use crate::catalog::securables::{DefaultAcl, Securable};
use crate::catalog::store::Object;
use crate::catalog::{Catalog, Relation, Routine};
use crate::ddl::roles::denied;
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{
    GrantTarget, Name, ObjectName, PrivilegeChange, PrivilegeStatement, RoleName, TargetKind,
};
use crate::session::{Connection, Severity};

/// An object of a GRANT.
struct Target {
    object: Securable,
    /// Its name and kind in messages.
    name: String,
    what: &'static str,
}

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_GRANT_OPERATION, message)
}

impl Connection {
    pub(super) fn change_privileges(&mut self, statement: &PrivilegeStatement) -> Result<&'static str> {
        match statement {
            PrivilegeStatement::Change { change, on } => {
                self.grant(change, on)?;
                Ok(if change.grants { "GRANT" } else { "REVOKE" })
            }
            PrivilegeStatement::Default { roles, schemas, change, kind } => {
                self.alter_default_privileges(roles, schemas, change, *kind)?;
                Ok("ALTER DEFAULT PRIVILEGES")
            }
            PrivilegeStatement::Owner { kind, name, if_exists, to, tag } => {
                self.change_owner(*kind, name, *if_exists, to)?;
                Ok(tag)
            }
            PrivilegeStatement::ReassignOwned { from, to } => {
                self.reassign_owned(from, to)?;
                Ok("REASSIGN OWNED")
            }
            PrivilegeStatement::DropOwned { by, cascade } => {
                self.drop_owned(by, *cascade)?;
                Ok("DROP OWNED")
            }
        }
    }

    fn grant(&mut self, change: &PrivilegeChange, on: &GrantTarget) -> Result<()> {
        let mut catalog = self.catalog_to_change();
        let grantees = self.grantees(change)?;
        if let Some(grantor) = &change.grantor
            && self.role_named(grantor)? != self.role()
        {
            return Err(SqlError::unsupported("grantor must be current user"));
        }
        let mut objects = Vec::new();
        for target in self.targets(on, change.grants)? {
            let Some((kind, _)) = catalog.rights(&target.object) else { continue };
            let (whole, columns) = privileges_of(change, kind)?;
            if !whole.is_empty() || columns.is_empty() {
                let changed = self.change_rights(&mut catalog, change, &grantees, &target, &whole)?;
                objects.extend(changed);
            }
            for (name, privileges) in columns {
                let target = self.column_target(&catalog, &target, name)?;
                let changed = self.change_rights(&mut catalog, change, &grantees, &target, &privileges)?;
                objects.extend(changed);
            }
        }
        self.publish(&objects, catalog)
    }

    fn grantees(&self, change: &PrivilegeChange) -> Result<Vec<u32>> {
        let mut grantees = Vec::with_capacity(change.grantees.len());
        for name in &change.grantees {
            if *name == RoleName::Public {
                if change.grants && change.option {
                    return Err(invalid("grant options can only be granted to roles"));
                }
                grantees.push(PUBLIC_ROLE);
            } else {
                grantees.push(self.role_named(name)?);
            }
        }
        Ok(grantees)
    }

    fn targets(&mut self, on: &GrantTarget, grants: bool) -> Result<Vec<Target>> {
        let mut targets = Vec::new();
        match on {
            GrantTarget::Objects(TargetKind::Language, _) if !grants => {
                let error = SqlError::unsupported("privileges on languages cannot be revoked");
                return Err(error.with_hint("Every role may use the languages sql and plpgsql."));
            }
            GrantTarget::Objects(TargetKind::Language, _) => {}
            GrantTarget::Objects(kind, names) => {
                for name in names {
                    targets.push(self.target(*kind, name)?);
                }
            }
            GrantTarget::Routines(kind, names) => {
                for name in names {
                    let routine = self.routine_named(*kind, name)?;
                    targets.push(routine_target(&routine));
                }
            }
            GrantTarget::AllIn(TargetKind::Routine, schemas) => {
                for schema in schemas {
                    self.securable(TargetKind::Schema, &ObjectName { parts: vec![schema.clone()] })?;
                    self.check_schema(&schema.text, USAGE)?;
                    let catalog = &self.environment().catalog;
                    let own = catalog.routines().filter(|routine| routine.schema == schema.text);
                    targets.extend(own.map(|routine| routine_target(routine)));
                }
            }
            GrantTarget::AllIn(kind, schemas) => {
                let catalog = &self.environment().catalog;
                for schema in schemas {
                    if catalog.schema(&schema.text).is_none() {
                        return Err(crate::catalog::no_schema(&schema.text));
                    }
                    self.check_schema(&schema.text, USAGE)?;
                    for (_, relation) in catalog.relations_in(&schema.text) {
                        let is_meant = match relation {
                            Relation::Table(_) | Relation::View(_) => *kind == TargetKind::Table,
                            Relation::Sequence(_) => *kind == TargetKind::Sequence,
                            Relation::Index { .. } => false,
                        };
                        if is_meant {
                            targets.push(self.relation_target(relation));
                        }
                    }
                }
            }
        }
        Ok(targets)
    }

    fn relation_target(&self, relation: &Relation) -> Target {
        let name = self.environment().catalog.relation_name(relation.oid());
        let name = name.map_or(String::new(), |(_, name)| name.clone());
        Target { object: Securable::Relation(relation.oid()), name, what: relation.kind() }
    }

    fn target(&self, kind: TargetKind, name: &ObjectName) -> Result<Target> {
        let wrong = |what: &str| {
            let message = format!("\"{}\" {what}", name.last());
            Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
        };
        match kind {
            TargetKind::Table | TargetKind::Sequence => match self.find_relation(name)? {
                Relation::Index { .. } => wrong("is an index"),
                Relation::Table(_) | Relation::View(_) if kind == TargetKind::Sequence => {
                    wrong("is not a sequence")
                }
                relation => Ok(self.relation_target(&relation)),
            },
            kind => {
                let object = self.securable(kind, name)?;
                let what = match kind {
                    TargetKind::Schema => "schema",
                    TargetKind::Database => "database",
                    _ => "type",
                };
                Ok(Target { object, name: name.last().to_string(), what })
            }
        }
    }

    fn column_target(&self, catalog: &Catalog, table: &Target, column: &Name) -> Result<Target> {
        let Securable::Relation(oid) = table.object else {
            return Err(invalid("column privileges are only valid for relations"));
        };
        let names = catalog.relation_by_oid(oid).map(Relation::column_names).unwrap_or_default();
        let Some(position) = names.iter().position(|known| *known == column.text) else {
            let message = format!("column \"{}\" of relation \"{}\" does not exist", column.text, table.name);
            return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
        };
        let name = format!("{} of relation {}", column.text, table.name);
        Ok(Target { object: Securable::Column(oid, position), name, what: "column" })
    }

    /// Changes the access list of one object.
    fn change_rights(
        &mut self,
        catalog: &mut Catalog,
        change: &PrivilegeChange,
        grantees: &[u32],
        target: &Target,
        names: &[Option<Privileges>],
    ) -> Result<Vec<Object>> {
        let Some((kind, rights)) = catalog.rights(&target.object) else { return Ok(Vec::new()) };
        let is_all = names.contains(&None);
        let named = names.iter().flatten().fold(0, |found, bit| found | bit);
        let wanted = if is_all { kind.all() } else { named };
        let (grantor, allowed) = self.allowed(catalog, (kind, &rights), target, wanted)?;
        self.warn_of_missing(change.grants, wanted, allowed, is_all, &target.name);
        let mut acl = rights.items(kind);
        for &grantee in grantees {
            apply(&mut acl, &rights, change, (grantee, grantor), allowed)?;
        }
        let owner = rights.owner;
        let mut objects: Vec<Object> =
            catalog.set_rights(&target.object, Rights { owner, acl: Some(acl) }).into_iter().collect();
        if !change.grants
            && let Securable::Relation(oid) = target.object
        {
            objects.extend(revoke_on_columns(catalog, change, oid, grantees, grantor, allowed)?);
        }
        Ok(objects)
    }

    /// The role in whose name the current role changes an access list, and the privileges that it may change.
    fn allowed(
        &self,
        catalog: &Catalog,
        (kind, rights): (RightsKind, &Rights),
        target: &Target,
        wanted: Privileges,
    ) -> Result<(u32, Privileges)> {
        let role = self.role();
        let (mut grantor, mut allowed) = catalog.grantor(role, rights, kind, wanted);
        if allowed != wanted
            && let Securable::Column(oid, _) = target.object
        {
            // A grant option on the whole table is one on each of its columns.
            if let Some((_, table)) = catalog.rights(&Securable::Relation(oid)) {
                let (by, found) = catalog.grantor(role, &table, kind, wanted);
                if found.count_ones() > allowed.count_ones() {
                    (grantor, allowed) = (by, found);
                }
            }
        }
        if allowed == 0 {
            let has_any_on = |kind: RightsKind, rights: &Rights| {
                catalog.granted(grantor, rights, kind, kind.all()) != 0
                    || catalog.grantable(grantor, rights, kind, kind.all()) != 0
            };
            // A privilege on the whole table is one on each of its columns.
            let table = match target.object {
                Securable::Column(oid, _) => catalog.rights(&Securable::Relation(oid)),
                _ => None,
            };
            let has_any =
                has_any_on(kind, rights) || table.is_some_and(|(kind, rights)| has_any_on(kind, &rights));
            if !has_any {
                let (what, name) = (target.what, &target.name);
                return Err(denied(match target.object {
                    Securable::Column(oid, _) => {
                        let table = catalog.relation_name(oid).map_or("", |(_, name)| name.as_str());
                        format!("permission denied for table {table}")
                    }
                    _ => format!("permission denied for {what} {name}"),
                }));
            }
        }
        Ok((grantor, allowed))
    }

    fn warn_of_missing(
        &mut self,
        grants: bool,
        wanted: Privileges,
        allowed: Privileges,
        is_all: bool,
        name: &str,
    ) {
        let (done, code) = if grants { ("were granted", "01007") } else { ("could be revoked", "01006") };
        let message = match allowed {
            0 => format!("no privileges {done} for \"{name}\""),
            _ if allowed != wanted && !is_all => format!("not all privileges {done} for \"{name}\""),
            _ => return,
        };
        self.environment_mut().add_notice(Severity::Warning, SqlState::new(code), message);
    }

    fn alter_default_privileges(
        &mut self,
        roles: &[RoleName],
        schemas: &[Name],
        change: &PrivilegeChange,
        kind: TargetKind,
    ) -> Result<()> {
        let kind = match kind {
            TargetKind::Table => RightsKind::Table,
            TargetKind::Sequence => RightsKind::Sequence,
            TargetKind::Schema => RightsKind::Schema,
            TargetKind::Routine => RightsKind::Function,
            _ => RightsKind::Type,
        };
        if kind == RightsKind::Schema && !schemas.is_empty() {
            return Err(invalid("cannot use IN SCHEMA clause when using GRANT/REVOKE ON SCHEMAS"));
        }
        let (names, columns) = privileges_of(change, kind)?;
        if !columns.is_empty() {
            return Err(invalid("default privileges cannot be set for columns"));
        }
        let wanted = names.iter().fold(0, |found, privilege| found | privilege.unwrap_or_else(|| kind.all()));
        let grantees = self.grantees(change)?;
        let mut owners = Vec::new();
        for role in roles {
            owners.push(self.new_owner(role)?);
        }
        if roles.is_empty() {
            owners.push(self.role());
        }
        let mut catalog = self.catalog_to_change();
        let mut places = Vec::new();
        for schema in schemas {
            let Some(found) = catalog.schema(&schema.text) else {
                return Err(crate::catalog::no_schema(&schema.text));
            };
            places.push(Some(found.oid));
        }
        if schemas.is_empty() {
            places.push(None);
        }
        let (mut objects, mut gone) = (Vec::new(), Vec::new());
        for &role in &owners {
            for &schema in &places {
                let known = catalog.default_acl(role, schema, kind).cloned();
                let built_in = if schema.is_none() { default_acl(kind, role) } else { Vec::new() };
                let mut acl = known.as_ref().map_or_else(|| built_in.clone(), |known| known.acl.clone());
                for &grantee in &grantees {
                    apply(&mut acl, &Rights::of(role), change, (grantee, role), wanted)?;
                }
                let oid = known.as_ref().map(|known| known.oid);
                if same_items(&acl, &built_in) {
                    oid.iter().for_each(|oid| catalog.remove_default_acl(*oid));
                    gone.extend(oid);
                    continue;
                }
                let oid = oid.unwrap_or_else(|| catalog.new_oid());
                let entry = DefaultAcl { oid, role, schema, kind, acl };
                catalog.put_default_acl(entry.clone());
                objects.push(Object::DefaultAcl(entry));
            }
        }
        self.publish(&objects, catalog)?;
        self.delete_definitions(&gone)
    }
}

fn routine_target(routine: &Routine) -> Target {
    Target { object: Securable::Routine(routine.oid), name: routine.name.clone(), what: routine.kind() }
}

fn same_items(left: &[AclItem], right: &[AclItem]) -> bool {
    left.len() == right.len() && left.iter().all(|item| right.contains(item))
}

/// Grants to or revokes from one role.
fn apply(
    acl: &mut Vec<AclItem>,
    rights: &Rights,
    change: &PrivilegeChange,
    (grantee, grantor): (u32, u32),
    allowed: Privileges,
) -> Result<()> {
    let change = AclChange {
        grantee,
        grantor,
        privileges: if change.grants || !change.option { allowed } else { 0 },
        grantable: if !change.grants || change.option { allowed } else { 0 },
        grants: change.grants,
        cascade: change.cascade,
    };
    rights::change(acl, rights.owner, change)
}

/// Revokes on each column what was revoked on its table.
fn revoke_on_columns(
    catalog: &mut Catalog,
    change: &PrivilegeChange,
    table: u32,
    grantees: &[u32],
    grantor: u32,
    revoked: Privileges,
) -> Result<Vec<Object>> {
    let revoked = revoked & RightsKind::Column.all();
    let columns = catalog.relation_by_oid(table).map_or(0, |relation| relation.column_names().len());
    let mut objects = Vec::new();
    for column in 0..columns {
        let object = Securable::Column(table, column);
        let Some((_, rights)) = catalog.rights(&object) else { continue };
        let mut acl = rights.acl.clone().unwrap_or_default();
        if revoked == 0 || acl.is_empty() {
            continue;
        }
        for &grantee in grantees {
            apply(&mut acl, &rights, change, (grantee, grantor), revoked)?;
        }
        objects.extend(catalog.set_rights(&object, Rights { acl: Some(acl), ..rights }));
    }
    Ok(objects)
}

/// The privileges of a statement on whole objects of a kind (none: ALL), and those on columns.
type Split<'c> = (Vec<Option<Privileges>>, Vec<(&'c Name, Vec<Option<Privileges>>)>);

fn privileges_of(change: &PrivilegeChange, kind: RightsKind) -> Result<Split<'_>> {
    let (mut whole, mut columns) = (Vec::new(), Vec::new());
    for (name, of) in &change.privileges {
        let kind = if of.is_empty() { kind } else { RightsKind::Column };
        let privilege = match name {
            Some(name) => Some(privilege_named(name, kind)?),
            None => None,
        };
        if of.is_empty() {
            whole.push(privilege);
        }
        columns.extend(of.iter().map(|column| (column, vec![privilege])));
    }
    Ok((whole, columns))
}

fn privilege_named(name: &str, kind: RightsKind) -> Result<Privileges> {
    let known = NAMES.iter().find(|(known, ..)| *known == name || (name == "TEMP" && *known == "TEMPORARY"));
    let Some((known, bit, _)) = known else {
        let message = format!("unrecognized privilege type \"{}\"", name.to_lowercase());
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
    };
    if kind.all() & bit == 0 {
        // Tables share GRANT's syntax with sequences.
        let is_sequences = kind == RightsKind::Table && RightsKind::Sequence.all() & bit != 0;
        let kind = if is_sequences { "table" } else { kind.name() };
        return Err(invalid(format!("invalid privilege type {known} for {kind}")));
    }
    Ok(*bit)
}
