//! The session's user and role: the user that connected, SET SESSION AUTHORIZATION, SET ROLE.
//!
//! # Invariants
//! - Both are kept as settings, so that the end of a transaction restores them. No other code sets these settings.
//! - Plans depend on the current role's name through `Derived::binding`, and on its rights through the catalog's
//!   version: a plan is never run by a role that it was not checked for.
//! - A role that was dropped while a session has it keeps nothing but the privileges of PUBLIC.
//!
//! Source: PostgreSQL 15, `variable.c` (`check_session_authorization`, `check_role`), `miscinit.c`.

use std::sync::Arc;

use crate::bind::privileges::{denied, other_database};
use crate::catalog::rights::{CONNECT, INSERT, Privileges, RightsKind, USAGE};
use crate::catalog::role::{BOOTSTRAP, BOOTSTRAP_NAME, Role, SIGNAL_BACKEND};
use crate::catalog::securables::Securable;
use crate::catalog::store::TEMPORARY;
use crate::catalog::uses::{Thing, note};
use crate::catalog::{ColumnOrigin, DatabaseEntry, Relation, Sequence};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::ObjectName;
use crate::session::connection::Connection;
use crate::session::environment::SessionEnvironment;
use crate::session::sessions::Activity;
use crate::session::settings::{NO_ROLE, Settings, SettingsScope, check_changeable, is_role};
use crate::session::{Shared, Sql};
use crate::types::Environment;
use crate::types::environment::Acting;

/// An oid that no role has.
const NO_OID: u32 = u32::MAX;

/// The attributes of a role that a server needs when the role wants to connect.
#[derive(Clone)]
pub struct LoginRole {
    /// True if the role may connect.
    pub can_login: bool,
    /// The verifier of its password, if it has one that has not expired.
    pub verifier: Option<crate::password::Verifier>,
}

impl Sql {
    /// The role of this name, for its authentication; `None` if there is none.
    pub fn login_role(&self, name: &str) -> Option<LoginRole> {
        let catalog = self.shared.catalog();
        let role = catalog.role(name)?;
        let is_valid = role.valid_until.is_none_or(|until| until > super::environment::now());
        let verifier = role.verifier.as_deref().filter(|_| is_valid);
        let verifier = verifier.and_then(crate::password::Verifier::parse);
        Some(LoginRole { can_login: role.login, verifier })
    }

    /// Returns true if any role has a password. If none has, a server may trust its own machine.
    pub fn has_passwords(&self) -> bool {
        self.shared.catalog().roles().iter().any(|role| role.verifier.is_some())
    }

    /// Returns true if this is the bootstrap superuser, and it has no password yet.
    pub fn is_bootstrap_without_password(&self, name: &str) -> bool {
        let catalog = self.shared.catalog();
        catalog.role(name).is_some_and(|role| role.oid == BOOTSTRAP && role.verifier.is_none())
    }

    /// Names of the roles that may connect, each with whether it is a superuser. The bootstrap superuser is among them
    /// only if it has a password.
    pub fn login_roles(&self) -> Vec<(String, bool)> {
        let catalog = self.shared.catalog();
        let listed = |role: &&&Arc<Role>| role.login && (role.oid != BOOTSTRAP || role.verifier.is_some());
        let mut found: Vec<_> =
            catalog.roles().iter().filter(listed).map(|role| (role.name.clone(), role.superuser)).collect();
        found.sort();
        found
    }
}

/// Checks that a role may connect. The number of connections that it may have, if that is limited.
pub(super) fn admit(shared: &Shared, user: &str, is_superuser: bool) -> Result<Option<usize>> {
    let catalog = shared.catalog();
    let refuse = |message: String| SqlError::new(SqlState::INVALID_AUTHORIZATION_SPECIFICATION, message);
    let Some(role) = catalog.role(user) else {
        let unknown = || refuse(format!("role \"{user}\" does not exist"));
        return if is_superuser { Ok(None) } else { Err(unknown()) };
    };
    if is_superuser && role.oid == BOOTSTRAP {
        return Ok(None);
    }
    if !role.login {
        return Err(refuse(format!("role \"{user}\" is not permitted to log in")));
    }
    let rights = &catalog.database.rights;
    if !catalog.may(role.oid, rights, RightsKind::Database, CONNECT) {
        let message = "permission denied for database";
        return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
            .with_detail("User does not have CONNECT privilege."));
    }
    let is_limited = role.connection_limit >= 0 && !role.superuser;
    Ok(is_limited.then_some(role.connection_limit as usize))
}

/// The settings with which a session of this user begins.
pub(super) fn settings_of(database: &DatabaseEntry, role: Option<&Role>, user: &str) -> Result<Settings> {
    let mut settings = Settings::new();
    settings.set_fixed("session_authorization", user)?;
    let is_superuser = role.is_none_or(|role| role.superuser);
    settings.set_fixed("is_superuser", if is_superuser { "on" } else { "off" })?;
    // The later ones take precedence.
    let kept = database.settings_of_all.iter().chain(&database.settings);
    for (name, value) in kept.chain(role.iter().flat_map(|role| &role.settings)) {
        // A value that is no longer valid does not keep the role from connecting.
        let _ = settings.set_default(name, value);
    }
    Ok(settings)
}

/// Lists a session, unless its user has too many.
pub(super) fn enter(shared: &Shared, activity: &Arc<Activity>, limit: Option<usize>) -> Result<()> {
    shared.sessions.enter(activity.clone());
    if limit.is_none_or(|limit| shared.sessions.count_of(&activity.user) <= limit) {
        return Ok(());
    }
    shared.sessions.leave(activity.number);
    let message = format!("too many connections for role \"{}\"", activity.user);
    Err(SqlError::new(SqlState::TOO_MANY_CONNECTIONS, message))
}

impl SessionEnvironment {
    /// Returns true if this is a name of the database.
    pub fn is_database(&self, name: &str) -> bool {
        name == self.database || self.shared.database_names().iter().any(|served| served == name)
    }

    /// The oid of the current role.
    pub fn role_oid(&self) -> u32 {
        match &self.acting_as {
            Some(acting) => acting.role,
            None => {
                let now = (self.catalog.version, self.settings.derived.version);
                let (of, known) = self.known_role.get();
                if of == now {
                    return known;
                }
                let role = self.acting_oid_of(&self.settings.derived.current_user).unwrap_or(NO_OID);
                self.known_role.set((now, role));
                role
            }
        }
    }

    /// Notes that what runs depends on the rights of the current role.
    pub fn note_role(&self) {
        note(self.catalog.position, Thing::Oid(self.role_oid()));
    }

    /// The oid of the session's user.
    pub fn session_role_oid(&self) -> u32 {
        self.acting_oid_of(&self.settings.derived.session_user).unwrap_or(NO_OID)
    }

    /// The oid of a role whose rights the session has under this name. A session that connected as the bootstrap superuser keeps
    /// its rights when a role of its name is created, as a script of `pg_dumpall` does.
    fn acting_oid_of(&self, name: &str) -> Option<u32> {
        if self.is_bootstrap && name == self.user { Some(BOOTSTRAP) } else { self.oid_of(name) }
    }

    /// The oid of the role of this name, also of the name under which this session is the bootstrap superuser.
    pub fn oid_of(&self, name: &str) -> Option<u32> {
        match self.catalog.role(name) {
            Some(role) => Some(role.oid),
            None if self.is_bootstrap && name == self.user => Some(BOOTSTRAP),
            None => None,
        }
    }

    /// The name of a role; of one that is gone its number, as PostgreSQL prints it.
    pub fn role_name(&self, oid: u32) -> String {
        match self.catalog.role_by_oid(oid) {
            _ if oid == BOOTSTRAP => self.bootstrap_name(),
            Some(role) => role.name.clone(),
            None => format!("unknown (OID={oid})"),
        }
    }

    /// The name of the bootstrap superuser: that of the session if it connected as one, unless that is a role's.
    pub fn bootstrap_name(&self) -> String {
        match self.catalog.role_by_oid(BOOTSTRAP) {
            _ if self.is_bootstrap && self.catalog.role(&self.user).is_none() => self.user.clone(),
            Some(role) => role.name.clone(),
            None => BOOTSTRAP_NAME.to_string(),
        }
    }

    /// Returns true if no privilege is checked for the current role.
    pub fn is_superuser(&self) -> bool {
        self.catalog.is_superuser(self.role_oid())
    }

    /// The schemas of the search path that the current role may use; `pg_temp` is the session's own temporary schema, and
    /// other sessions' are not there.
    pub fn named_path(&self) -> Vec<String> {
        let mut path = self.settings.search_path(self.user());
        path.retain(|name| !name.starts_with(TEMPORARY) || *name == self.temporary);
        for name in path.iter_mut().filter(|name| *name == "pg_temp") {
            name.clone_from(&self.temporary);
        }
        let role = self.role_oid();
        if !self.catalog.is_superuser(role) {
            path.retain(|name| {
                self.catalog
                    .schema(name)
                    .is_none_or(|schema| self.catalog.may(role, &schema.rights, RightsKind::Schema, USAGE))
            });
        }
        path
    }

    /// Checks that a name is not of another database.
    ///
    /// # Errors
    /// 0A000.
    pub fn check_database_of(&self, name: &ObjectName) -> Result<()> {
        match name.database() {
            Some(database) if !self.is_database(database) => Err(other_database(name)),
            _ => Ok(()),
        }
    }

    /// Checks that the current role may use the schema that a name gives.
    ///
    /// # Errors
    /// 42501; 0A000 if it names another database.
    pub fn check_usage_of(&self, name: &ObjectName) -> Result<()> {
        self.check_database_of(name)?;
        let Some(schema) = name.schema().and_then(|schema| self.catalog.schema(schema)) else {
            return Ok(());
        };
        match self.catalog.may(self.role_oid(), &schema.rights, RightsKind::Schema, USAGE) {
            true => Ok(()),
            false => Err(denied("schema", &schema.name)),
        }
    }

    /// Checks that the current role has one of these privileges on a sequence. A role that inserts into a table takes
    /// values of its identity columns' sequences, too.
    pub fn check_sequence(&self, sequence: &Sequence, any_of: Privileges) -> Result<()> {
        let (catalog, role) = (&self.catalog, self.role_oid());
        if catalog.granted(role, &sequence.rights, RightsKind::Sequence, any_of) != 0 {
            return Ok(());
        }
        if any_of & USAGE != 0
            && let Some((table, column)) = sequence.owner
            && let Some(relation @ Relation::Table(table)) = catalog.relation_by_oid(table)
            && matches!(table.columns.get(column).map(|it| &it.origin), Some(ColumnOrigin::Identity { .. }))
            && (0..relation.column_names().len()).any(|column| self.may_insert(relation, column))
        {
            return Ok(());
        }
        Err(denied("sequence", &sequence.name))
    }

    /// Returns true if the current role may give a column values by INSERT.
    fn may_insert(&self, relation: &Relation, column: usize) -> bool {
        let objects = [Securable::Relation(relation.oid()), Securable::Column(relation.oid(), column)];
        objects
            .iter()
            .filter_map(|object| self.catalog.rights(object))
            .any(|(kind, rights)| self.catalog.may(self.role_oid(), &rights, kind, INSERT))
    }

    /// Checks that the current role may cancel or terminate a session of this user.
    pub fn check_signal(&self, user: &str, terminate: bool) -> Result<()> {
        let own = self.role_oid();
        let other = self.oid_of(user).unwrap_or(BOOTSTRAP);
        if self.catalog.is_superuser(own) {
            return Ok(());
        }
        let what = if terminate { "terminate process" } else { "cancel query" };
        let denied = |message: String| Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        if self.catalog.is_superuser(other) {
            return denied(format!("must be a superuser to {what} of a superuser's session"));
        }
        if self.catalog.has_privileges_of(own, other) || self.catalog.has_privileges_of(own, SIGNAL_BACKEND) {
            return Ok(());
        }
        denied(format!(
            "must be a member of the role whose session it is or member of pg_signal_backend to {what}"
        ))
    }

    /// Begins the scope of a routine that runs with these settings.
    ///
    /// # Errors
    /// 42501, 22023, 42704: one of them cannot be set.
    pub fn begin_scope(&mut self, settings: &[(String, String)]) -> Result<SettingsScope> {
        if !settings.is_empty() {
            let is_superuser = self.is_superuser();
            settings.iter().try_for_each(|(name, _)| check_changeable(name, is_superuser))?;
        }
        self.settings.begin_scope(settings)
    }

    /// Returns true if a security-restricted operation is in progress.
    pub fn is_restricted(&self) -> bool {
        self.acting_as.as_ref().is_some_and(|acting| acting.is_restricted)
    }

    /// SET of any setting, also a role.
    pub fn set_setting(
        &mut self,
        name: &str,
        value: Option<&str>,
        local: bool,
        in_block: bool,
    ) -> Result<()> {
        if !is_role(name) {
            check_changeable(name, self.is_superuser())?;
            return self.settings.set(name, value, local, in_block);
        }
        if let Some(acting) = &self.acting_as {
            let what = if acting.is_definer { "definer function" } else { "restricted operation" };
            let message = format!("cannot set parameter \"{name}\" within security-{what}");
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        if name.eq_ignore_ascii_case("role") {
            self.set_role(value.unwrap_or(NO_ROLE), local, in_block)
        } else {
            self.set_session_authorization(value, local, in_block)
        }
    }

    /// SET ROLE.
    fn set_role(&mut self, name: &str, local: bool, in_block: bool) -> Result<()> {
        let session_user = self.settings.derived.session_user.clone();
        let missing =
            || SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("role \"{name}\" does not exist"));
        let oid = if name == NO_ROLE {
            self.session_role_oid()
        } else {
            self.acting_oid_of(name).ok_or_else(missing)?
        };
        if name != NO_ROLE && !self.catalog.is_member_of(self.session_role_oid(), oid) {
            let message = format!("permission denied to set role \"{name}\"");
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        let is_superuser = self.catalog.is_superuser(oid);
        self.settings.set_roles((&session_user, name), is_superuser, local, in_block)
    }

    /// SET SESSION AUTHORIZATION; `None` restores that of the user that connected.
    fn set_session_authorization(&mut self, name: Option<&str>, local: bool, in_block: bool) -> Result<()> {
        let login = self.user.clone();
        let name = name.unwrap_or(&login);
        let missing =
            || SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("role \"{name}\" does not exist"));
        let oid = self.acting_oid_of(name).ok_or_else(missing)?;
        let is_allowed =
            name == login || self.acting_oid_of(&login).is_some_and(|login| self.catalog.is_superuser(login));
        if !is_allowed {
            let message = "permission denied to set session authorization";
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        let is_superuser = self.catalog.is_superuser(oid);
        self.settings.set_roles((name, NO_ROLE), is_superuser, local, in_block)
    }
}

impl Connection {
    /// Runs code of a definition as a security-restricted operation: with the rights of the role that answers for it, without a
    /// way to another role, and without a trace in the session's settings.
    ///
    /// Source: PostgreSQL 15, `SECURITY_RESTRICTED_OPERATION` in `miscadmin.h`.
    pub(crate) fn restricted<T>(&mut self, role: u32, act: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let environment = &mut self.environment;
        let acting =
            Acting { role, name: environment.role_name(role).into(), is_definer: false, is_restricted: true };
        let before = environment.acting_as.replace(acting);
        let settings = environment.settings.clone();
        let done = act(self);
        self.environment.settings.restore(settings);
        self.environment.acting_as = before;
        done
    }

    /// The oid of the current role.
    pub(crate) fn role(&self) -> u32 {
        self.environment().role_oid()
    }

    /// Returns true if no privilege is checked for the current role.
    pub(crate) fn is_superuser(&self) -> bool {
        self.environment().is_superuser()
    }
}
