//! ALTER ROLE: options, settings, names and comments of roles.

use super::{denied, has_passwords};
use crate::catalog::role::Role;
use crate::catalog::store::Object;
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{Name, RoleName, RoleOption, SettingsOf};
use crate::session::{Connection, check_changeable, is_known, unrecognized_setting};

impl Connection {
    pub(super) fn alter_role(&mut self, name: &RoleName, options: &[RoleOption]) -> Result<&'static str> {
        Self::check_not_reserved(name)?;
        let mut catalog = self.catalog_to_change();
        let oid = self.role_named(name)?;
        let mut role = self.role_entry(oid)?.as_ref().clone();
        if !self.is_superuser() {
            self.check_altered_role(&role, options)?;
        }
        let had_passwords = has_passwords(&catalog);
        self.apply_role_options(&mut role, options)?;
        catalog.put_role(role);
        self.warn_of_passwords(had_passwords, &catalog);
        self.publish_roles(&[oid], catalog)?;
        Ok("ALTER ROLE")
    }

    pub(super) fn check_altered_role(&self, role: &Role, options: &[RoleOption]) -> Result<()> {
        let says = |wanted: fn(&RoleOption) -> bool| options.iter().any(wanted);
        if role.superuser || says(|it| matches!(it, RoleOption::Superuser(_))) {
            let message = "must be superuser to alter superuser roles or change superuser attribute";
            return Err(denied(message));
        }
        if role.replication || says(|it| matches!(it, RoleOption::Replication(_))) {
            let message = "must be superuser to alter replication roles or change replication attribute";
            return Err(denied(message));
        }
        if says(|it| matches!(it, RoleOption::BypassRls(_))) {
            return Err(denied("must be superuser to change bypassrls attribute"));
        }
        let is_own =
            |option: &RoleOption| role.oid == self.role() && matches!(option, RoleOption::Password(_));
        let is_own_password = !options.is_empty() && options.iter().all(is_own);
        if is_own_password || self.may_create_roles() { Ok(()) } else { Err(denied("permission denied")) }
    }

    /// The predefined roles are as the system defines them, for superusers, too.
    pub(super) fn check_not_reserved(name: &RoleName) -> Result<()> {
        match name {
            RoleName::Named(name) if name.text.starts_with("pg_") => {
                let message = format!("role name \"{}\" is reserved", name.text);
                Err(SqlError::new(SqlState::RESERVED_NAME, message)
                    .with_detail("Cannot alter reserved roles."))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn check_superuser_role(&self, role: &Role, what: &str) -> Result<()> {
        if role.superuser && !self.is_superuser() {
            return Err(denied(format!("must be superuser to {what} superusers")));
        }
        Ok(())
    }

    /// ALTER ROLE … SET and RESET of one role.
    pub(super) fn alter_role_setting(
        &mut self,
        name: &RoleName,
        change: (Option<&str>, Option<&str>),
    ) -> Result<&'static str> {
        Self::check_not_reserved(name)?;
        let mut catalog = self.catalog_to_change();
        let oid = self.role_named(name)?;
        let mut role = self.role_entry(oid)?.as_ref().clone();
        self.check_superuser_role(&role, "alter")?;
        if oid != self.role() && !self.may_create_roles() {
            return Err(denied("permission denied"));
        }
        self.change_settings(&mut role.settings, change)?;
        catalog.put_role(role);
        self.publish_roles(&[oid], catalog)?;
        Ok("ALTER ROLE")
    }

    /// ALTER ROLE ALL and ALTER DATABASE: SET and RESET.
    pub(super) fn alter_common_setting(
        &mut self,
        of: &SettingsOf,
        of_database: bool,
        change: (Option<&str>, Option<&str>),
    ) -> Result<&'static str> {
        let mut catalog = self.catalog_to_change();
        let mut database = catalog.database.clone();
        if *of == SettingsOf::Database {
            let name = self.environment().database.clone();
            self.check_owner(&database.rights, "database", &name)?;
        } else if !self.is_superuser() {
            return Err(denied("must be superuser to alter settings globally"));
        }
        let settings = if of_database { &mut database.settings } else { &mut database.settings_of_all };
        self.change_settings(settings, change)?;
        catalog.database = database.clone();
        self.publish(&[Object::Database(database)], catalog)?;
        Ok(if *of == SettingsOf::Database { "ALTER DATABASE" } else { "ALTER ROLE" })
    }

    /// Changes the settings with which sessions begin: a setting and its value. Without a value it is removed, without a
    /// setting all are.
    fn change_settings(
        &self,
        settings: &mut Vec<(String, String)>,
        (setting, value): (Option<&str>, Option<&str>),
    ) -> Result<()> {
        match (setting, value) {
            (None, _) => {
                let is_superuser = self.is_superuser();
                settings.retain(|(known, _)| check_kept(known, is_superuser).is_err());
            }
            (Some(setting), None) => {
                check_kept(setting, self.is_superuser())?;
                settings.retain(|(known, _)| known != setting);
            }
            (Some(setting), Some(value)) => {
                self.check_kept_setting(setting, value)?;
                settings.retain(|(known, _)| known != setting);
                settings.push((setting.to_string(), value.to_string()));
            }
        }
        Ok(())
    }

    /// Checks a setting that is kept for sessions, or for calls.
    ///
    /// # Errors
    /// 42501; 42704 and 22023 as SET.
    pub(in crate::ddl) fn check_kept_setting(&self, setting: &str, value: &str) -> Result<()> {
        let environment = self.environment();
        check_kept(setting, environment.is_superuser())?;
        environment.settings.clone().set_default(setting, value)
    }

    /// Checks that a setting may be kept, or removed.
    ///
    /// # Errors
    /// 42501, 42704.
    pub(in crate::ddl) fn check_kept_name(&self, setting: &str) -> Result<()> {
        if !setting.contains('.') && !is_known(setting) {
            return Err(unrecognized_setting(setting));
        }
        check_kept(setting, self.is_superuser())
    }

    pub(super) fn rename_role(&mut self, name: &RoleName, to: &Name) -> Result<&'static str> {
        let mut catalog = self.catalog_to_change();
        let oid = self.role_named(name)?;
        let mut role = self.role_entry(oid)?.as_ref().clone();
        let refused = |message| Err(SqlError::unsupported(message));
        if oid == self.environment().session_role_oid() {
            return refused("session user cannot be renamed");
        }
        if oid == self.role() {
            return refused("current user cannot be renamed");
        }
        if role.is_built_in() {
            let message = format!("role name \"{}\" is reserved", role.name);
            return Err(SqlError::new(SqlState::RESERVED_NAME, message));
        }
        let new = self.new_role_name(to, &catalog)?;
        self.check_superuser_role(&role, "rename")?;
        if !self.may_create_roles() {
            return Err(denied("permission denied to rename role"));
        }
        role.name = new;
        catalog.put_role(role);
        self.publish_roles(&[oid], catalog)?;
        Ok("ALTER ROLE")
    }

    pub(super) fn comment_role(&mut self, name: &RoleName, text: Option<&str>) -> Result<&'static str> {
        let mut catalog = self.catalog_to_change();
        let oid = self.role_named(name)?;
        let mut role = self.role_entry(oid)?.as_ref().clone();
        if role.superuser && !self.is_superuser() {
            return Err(denied("must be superuser"));
        }
        if !self.may_create_roles() {
            return Err(denied("must have CREATEROLE privilege"));
        }
        role.comment = text.map(str::to_string);
        catalog.put_role(role);
        self.publish_roles(&[oid], catalog)?;
        Ok("COMMENT")
    }
}

/// Checks that a role may have a setting kept: one that the system does not know is a superuser's.
fn check_kept(setting: &str, is_superuser: bool) -> Result<()> {
    if !is_superuser && setting.contains('.') && !is_known(setting) {
        return Err(denied(format!("permission denied to set parameter \"{setting}\"")));
    }
    check_changeable(setting, is_superuser)
}
