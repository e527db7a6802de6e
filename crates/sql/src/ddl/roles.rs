//! CREATE, ALTER and DROP ROLE; membership of roles.
//!
//! # Invariants
//! A password is stored as its SCRAM verifier, whatever the statement gave.
//!
//! Source: PostgreSQL 15, `user.c`.

mod alter;
mod memberships;

use std::sync::Arc;

use crate::catalog::Catalog;
use crate::catalog::role::{Membership, Role, no_role};
use crate::catalog::store::Object;
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{Name, RoleName, RoleOption, RoleStatement, SettingsOf};
use crate::password::Verifier;
use crate::session::{Connection, Severity};
use crate::types::text::from_text;
use crate::types::{Modifier, Type, Value};

pub(super) fn denied(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
}

fn exists(name: &str) -> SqlError {
    SqlError::new(SqlState::DUPLICATE_OBJECT, format!("role \"{name}\" already exists"))
}

impl Connection {
    pub(super) fn change_role(&mut self, statement: &RoleStatement) -> Result<&'static str> {
        match statement {
            RoleStatement::Create { name, login, options } => self.create_role(name, *login, options),
            RoleStatement::Alter { name, options } => self.alter_role(name, options),
            RoleStatement::AlterSetting { of, database, setting, value } => {
                if let Some(database) =
                    database.as_ref().filter(|it| !self.environment().is_database(&it.text))
                {
                    let message = format!("database \"{}\" does not exist", database.text);
                    return Err(SqlError::new(SqlState::INVALID_CATALOG_NAME, message));
                }
                let change = (setting.as_deref(), value.as_deref());
                match of {
                    SettingsOf::Role(name) => self.alter_role_setting(name, change),
                    of => self.alter_common_setting(of, database.is_some(), change),
                }
            }
            RoleStatement::Rename { name, to } => self.rename_role(name, to),
            RoleStatement::Drop { names, if_exists } => self.drop_roles(names, *if_exists),
            RoleStatement::Grant(grant) => self.grant_roles(grant),
            RoleStatement::Comment { name, text } => self.comment_role(name, text.as_deref()),
        }
    }

    /// The role that a statement names.
    pub(super) fn role_named(&self, name: &RoleName) -> Result<u32> {
        match name {
            RoleName::Named(name) => self.environment().oid_of(&name.text).ok_or_else(|| no_role(&name.text)),
            RoleName::Current => Ok(self.role()),
            RoleName::Session => Ok(self.environment().session_role_oid()),
            RoleName::Public => Err(no_role("public")),
        }
    }

    fn role_entry(&self, oid: u32) -> Result<Arc<Role>> {
        let found = self.environment().catalog.role_by_oid(oid).cloned();
        found.ok_or_else(|| no_role(&self.environment().role_name(oid)))
    }

    fn may_create_roles(&self) -> bool {
        let role = self.environment().catalog.role_by_oid(self.role());
        role.is_some_and(|role| role.superuser || role.create_role)
    }

    /// The name of a new role, if it can be one's.
    fn new_role_name(&self, name: &Name, catalog: &Catalog) -> Result<String> {
        if name.text.starts_with("pg_") {
            let message = format!("role name \"{}\" is reserved", name.text);
            return Err(SqlError::new(SqlState::RESERVED_NAME, message)
                .with_detail("Role names starting with \"pg_\" are reserved."));
        }
        if catalog.role(&name.text).is_some() {
            return Err(exists(&name.text));
        }
        Ok(name.text.clone())
    }

    fn create_role(&mut self, name: &RoleName, login: bool, options: &[RoleOption]) -> Result<&'static str> {
        let mut catalog = self.catalog_to_change();
        let name = match name {
            RoleName::Named(name) => name,
            RoleName::Public => {
                return Err(SqlError::new(SqlState::RESERVED_NAME, "role name \"public\" is reserved"));
            }
            _ => {
                let message = "CURRENT_USER cannot be used as a role name here";
                return Err(SqlError::new(SqlState::RESERVED_NAME, message));
            }
        };
        if !self.is_superuser() {
            self.check_new_role(options)?;
        }
        let mut role = Role::new(catalog.new_oid(), &self.new_role_name(name, &catalog)?);
        role.login = login;
        self.apply_role_options(&mut role, options)?;
        let oid = role.oid;
        let had_passwords = has_passwords(&catalog);
        catalog.put_role(role);
        let mut changed = vec![oid];
        let grantor = self.role();
        for option in options {
            match option {
                RoleOption::InRole(roles) => {
                    for role in roles {
                        let role = self.role_named(role)?;
                        let new = Membership { role: oid, admin: false, grantor };
                        self.add_membership(&mut catalog, role, new)?;
                    }
                }
                RoleOption::Members(members, admin) => {
                    for member in members {
                        let member = self.role_named(member)?;
                        let new = Membership { role: member, admin: *admin, grantor };
                        self.add_membership(&mut catalog, oid, new)?;
                        changed.push(member);
                    }
                }
                _ => {}
            }
        }
        self.warn_of_passwords(had_passwords, &catalog);
        self.publish_roles(&changed, catalog)?;
        Ok("CREATE ROLE")
    }

    fn check_new_role(&self, options: &[RoleOption]) -> Result<()> {
        for option in options {
            match option {
                RoleOption::Superuser(true) => {
                    return Err(denied("must be superuser to create superusers"));
                }
                RoleOption::Replication(true) => {
                    return Err(denied("must be superuser to create replication users"));
                }
                RoleOption::BypassRls(true) => {
                    return Err(denied("must be superuser to create bypassrls users"));
                }
                _ => {}
            }
        }
        if self.may_create_roles() { Ok(()) } else { Err(denied("permission denied to create role")) }
    }

    fn apply_role_options(&mut self, role: &mut Role, options: &[RoleOption]) -> Result<()> {
        for (position, option) in options.iter().enumerate() {
            let same = |other: &RoleOption| std::mem::discriminant(other) == std::mem::discriminant(option);
            if options[..position].iter().any(same) && !matches!(option, RoleOption::Members(..)) {
                let message = "conflicting or redundant options";
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
            match option {
                RoleOption::Superuser(on) => role.superuser = *on,
                RoleOption::Inherit(on) => role.inherit = *on,
                RoleOption::CreateRole(on) => role.create_role = *on,
                RoleOption::CreateDb(on) => role.create_db = *on,
                RoleOption::Login(on) => role.login = *on,
                RoleOption::Replication(on) => role.replication = *on,
                RoleOption::BypassRls(on) => role.bypass_rls = *on,
                RoleOption::ConnectionLimit(limit) => {
                    let invalid = || {
                        let message = format!("invalid connection limit: {limit}");
                        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
                    };
                    let valid = i32::try_from(*limit).ok().filter(|limit| *limit >= -1);
                    role.connection_limit = valid.ok_or_else(invalid)?;
                }
                RoleOption::Password(None) => role.verifier = None,
                RoleOption::Password(Some(password)) => role.verifier = self.verifier(password)?,
                RoleOption::ValidUntil(text) => {
                    let value = from_text(self.environment(), Type::Timestamptz, Modifier::NONE, text)?;
                    role.valid_until = match value {
                        Value::Timestamptz(until) => Some(until),
                        _ => None,
                    };
                }
                RoleOption::InRole(_) | RoleOption::Members(..) => {}
            }
        }
        Ok(())
    }

    /// The stored form of a password: its verifier, which the statement may also give itself.
    fn verifier(&mut self, password: &str) -> Result<Option<String>> {
        if password.is_empty() {
            let message = "empty string is not a valid password, clearing password";
            self.environment_mut().add_notice(Severity::Notice, SqlState::SUCCESSFUL_COMPLETION, message);
            return Ok(None);
        }
        if Verifier::parse(password).is_some() {
            return Ok(Some(password.to_string()));
        }
        let is_md5 = |text: &str| text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if password.strip_prefix("md5").is_some_and(is_md5) {
            let error = SqlError::unsupported("MD5 password hashes are not supported");
            return Err(error.with_hint("Give the password itself, or its SCRAM-SHA-256 verifier."));
        }
        let verifier = Verifier::new(password);
        let verifier = verifier.map_err(|_| SqlError::internal("the system gives no random numbers"))?;
        Ok(Some(verifier.to_string()))
    }

    /// The first password ends the trust in local clients: a superuser should have one.
    fn warn_of_passwords(&mut self, had_passwords: bool, catalog: &Catalog) {
        let of_superuser = catalog.roles().iter().any(|role| role.superuser && role.verifier.is_some());
        if !had_passwords && has_passwords(catalog) && !of_superuser {
            let message = "clients need a password from now on, and no superuser has one";
            self.environment_mut().add_notice(Severity::Warning, SqlState::WARNING, message);
        }
    }

    fn drop_roles(&mut self, names: &[RoleName], if_exists: bool) -> Result<&'static str> {
        if !self.may_create_roles() {
            return Err(denied("permission denied to drop role"));
        }
        let mut catalog = self.catalog_to_change();
        let mut dropped = Vec::new();
        for name in names {
            let RoleName::Named(name) = name else {
                let message = "cannot use special role specifier in DROP ROLE";
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
            };
            match self.environment().oid_of(&name.text) {
                Some(oid) => {
                    self.check_droppable(oid)?;
                    dropped.push(oid);
                }
                None if if_exists => self.skip_missing("role", &name.text),
                None => return Err(no_role(&name.text)),
            }
        }
        let mut changed = Vec::new();
        for &oid in &dropped {
            catalog.remove_role(oid);
            let members: Vec<Arc<Role>> = catalog.roles().into_iter().cloned().collect();
            for member in members {
                if member.memberships.iter().any(|it| it.role == oid) {
                    let mut left = member.as_ref().clone();
                    left.memberships.retain(|it| it.role != oid);
                    catalog.put_role(left);
                    changed.push(member.oid);
                }
            }
            let dependents = self.dependents_of_role(oid, &catalog);
            if !dependents.is_empty() {
                let name = self.environment().role_name(oid);
                let message = format!("role \"{name}\" cannot be dropped because some objects depend on it");
                let error = SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message);
                return Err(error.with_detail(dependents.join("\n")));
            }
        }
        changed.retain(|oid| !dropped.contains(oid));
        self.publish_roles(&changed, catalog)?;
        self.delete_definitions(&dropped)?;
        Ok("DROP ROLE")
    }

    fn check_droppable(&self, oid: u32) -> Result<()> {
        let in_use = |message| Err(SqlError::new(SqlState::OBJECT_IN_USE, message));
        if oid == self.role() {
            return in_use("current user cannot be dropped");
        }
        if oid == self.environment().session_role_oid() {
            return in_use("session user cannot be dropped");
        }
        let role = self.role_entry(oid)?;
        self.check_superuser_role(&role, "drop")?;
        if role.is_built_in() {
            let message =
                format!("cannot drop role {} because it is required by the database system", role.name);
            return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message));
        }
        Ok(())
    }

    fn publish_roles(&mut self, roles: &[u32], catalog: Catalog) -> Result<()> {
        let found = roles.iter().filter_map(|oid| catalog.role_by_oid(*oid));
        let objects: Vec<Object> = found.map(|role| Object::Role(role.as_ref().clone())).collect();
        self.publish(&objects, catalog)
    }
}

fn has_passwords(catalog: &Catalog) -> bool {
    catalog.roles().iter().any(|role| role.verifier.is_some())
}
