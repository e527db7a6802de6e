//! CREATE, ALTER and DROP ROLE; GRANT and REVOKE of roles.
//!
//! Source: PostgreSQL 15, `gram.y` (`CreateRoleStmt` and on).

use crate::error::{Result, SqlState};
use crate::parse::parser::Parser;
use crate::parse::syntax::{GrantRole, Name, RoleName, RoleOption, RoleStatement, SettingsOf, Statement};

/// An attribute that is on or off.
type Flag = fn(bool) -> RoleOption;

impl Parser<'_> {
    /// A role, or the word for one.
    pub fn role_name(&mut self) -> Result<RoleName> {
        let is_quoted = matches!(self.peek(0), crate::parse::lexer::TokenKind::Quoted(_));
        let name = self.label()?;
        Ok(match name.text.as_str() {
            "public" => RoleName::Public,
            "current_user" | "current_role" if !is_quoted => RoleName::Current,
            "session_user" if !is_quoted => RoleName::Session,
            "none" => {
                let message = "role name \"none\" is reserved";
                return Err(self.error(name.at, SqlState::RESERVED_NAME, message));
            }
            _ => RoleName::Named(name),
        })
    }

    /// The rest of CREATE ROLE, CREATE USER and CREATE GROUP.
    pub fn create_role(&mut self, login: bool) -> Result<Statement> {
        let name = self.role_name()?;
        self.accept("with");
        let options = self.role_options(true)?;
        Ok(Statement::Role(Box::new(RoleStatement::Create { name, login, options })))
    }

    /// The rest of ALTER ROLE, ALTER USER and ALTER GROUP.
    pub fn alter_role(&mut self) -> Result<Statement> {
        if self.accept("all") {
            let database = if self.accept_words(&["in", "database"]) { Some(self.label()?) } else { None };
            let statement = self.kept_setting(SettingsOf::AllRoles, database)?;
            return statement.ok_or_else(|| self.unexpected());
        }
        let name = self.role_name()?;
        if self.accept_words(&["rename", "to"]) {
            let to = self.label()?;
            return Ok(Statement::Role(Box::new(RoleStatement::Rename { name, to })));
        }
        let database = if self.accept_words(&["in", "database"]) { Some(self.label()?) } else { None };
        if let Some(statement) = self.kept_setting(SettingsOf::Role(name.clone()), database)? {
            return Ok(statement);
        }
        if self.is_one_of(&["add", "drop"]) {
            let grants = self.accept("add");
            if !grants {
                self.advance();
            }
            self.expect("user")?;
            let members = self.list(Self::role_name)?;
            let RoleName::Named(group) = name else { return Err(self.unexpected()) };
            let roles = vec![group];
            let grant = GrantRole { grants, roles, members, admin: false, grantor: None, alters_group: true };
            return Ok(Statement::Role(Box::new(RoleStatement::Grant(grant))));
        }
        self.accept("with");
        let options = self.role_options(false)?;
        Ok(Statement::Role(Box::new(RoleStatement::Alter { name, options })))
    }

    /// SET and RESET of a setting with which sessions begin, if one of them is there.
    pub(in crate::parse) fn kept_setting(
        &mut self,
        of: SettingsOf,
        database: Option<Name>,
    ) -> Result<Option<Statement>> {
        let (setting, value) = if self.is_word(0, "set") {
            let Statement::Set { name, value, .. } = self.setting("set")? else {
                return Err(self.unexpected());
            };
            let value = value.text(&name);
            (Some(name), value)
        } else if self.is_word(0, "reset") {
            let Statement::Reset(setting) = self.setting("reset")? else { return Err(self.unexpected()) };
            (setting, None)
        } else {
            return Ok(None);
        };
        Ok(Some(Statement::Role(Box::new(RoleStatement::AlterSetting { of, database, setting, value }))))
    }

    /// The rest of DROP ROLE, DROP USER and DROP GROUP.
    pub fn drop_role(&mut self) -> Result<Statement> {
        let if_exists = self.accept_words(&["if", "exists"]);
        let names = self.list(Self::role_name)?;
        Ok(Statement::Role(Box::new(RoleStatement::Drop { names, if_exists })))
    }

    fn role_options(&mut self, creates: bool) -> Result<Vec<RoleOption>> {
        let mut options = Vec::new();
        while !self.is_end() && !self.is_mark(0, ";") {
            if creates && self.accept("sysid") {
                // Numbers are given by the system.
                self.signed_integer()?;
                continue;
            }
            options.push(self.role_option(creates)?);
        }
        Ok(options)
    }

    fn role_option(&mut self, creates: bool) -> Result<RoleOption> {
        const FLAGS: [(&str, &str, Flag); 7] = [
            ("superuser", "nosuperuser", RoleOption::Superuser),
            ("inherit", "noinherit", RoleOption::Inherit),
            ("createrole", "nocreaterole", RoleOption::CreateRole),
            ("createdb", "nocreatedb", RoleOption::CreateDb),
            ("login", "nologin", RoleOption::Login),
            ("replication", "noreplication", RoleOption::Replication),
            ("bypassrls", "nobypassrls", RoleOption::BypassRls),
        ];
        for (on, off, option) in FLAGS {
            if self.accept(on) {
                return Ok(option(true));
            }
            if self.accept(off) {
                return Ok(option(false));
            }
        }
        match () {
            () if self.accept_words(&["connection", "limit"]) => {
                Ok(RoleOption::ConnectionLimit(self.signed_integer()?))
            }
            () if self.accept_words(&["valid", "until"]) => Ok(RoleOption::ValidUntil(self.string()?)),
            () if self.accept_words(&["password", "null"]) => Ok(RoleOption::Password(None)),
            () if self.accept("password") || self.accept_words(&["encrypted", "password"]) => {
                Ok(RoleOption::Password(Some(self.string()?)))
            }
            () if self.accept_words(&["unencrypted", "password"]) => {
                let message = "UNENCRYPTED PASSWORD is no longer supported";
                let error = self.error(self.position(), SqlState::FEATURE_NOT_SUPPORTED, message);
                Err(error.with_hint("Remove UNENCRYPTED to store the password in encrypted form instead."))
            }
            () if creates && (self.accept_words(&["in", "role"]) || self.accept_words(&["in", "group"])) => {
                Ok(RoleOption::InRole(self.list(Self::role_name)?))
            }
            () if creates && (self.accept("role") || self.accept("user")) => {
                Ok(RoleOption::Members(self.list(Self::role_name)?, false))
            }
            () if creates && self.accept("admin") => {
                Ok(RoleOption::Members(self.list(Self::role_name)?, true))
            }
            () => Err(self.unexpected()),
        }
    }

    /// GRANT role TO role, and REVOKE role FROM role, after the roles. `admin`: REVOKE ADMIN OPTION FOR.
    pub fn grant_role(&mut self, grants: bool, admin: bool) -> Result<Statement> {
        let roles = self.list(Self::label)?;
        self.expect(if grants { "to" } else { "from" })?;
        let members = self.list(Self::role_name)?;
        let admin = admin || (grants && self.accept_words(&["with", "admin", "option"]));
        let grantor = if self.accept_words(&["granted", "by"]) { Some(self.role_name()?) } else { None };
        self.cascade();
        let grant = GrantRole { grants, roles, members, admin, grantor, alters_group: false };
        Ok(Statement::Role(Box::new(RoleStatement::Grant(grant))))
    }
}
