//! Roles and privileges.

use crate::parse::syntax::{Name, ObjectKind, ObjectName, RoutineName};

/// The form in which a statement names a role.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RoleName {
    Named(Name),
    /// `CURRENT_USER` or `CURRENT_ROLE`.
    Current,
    /// `SESSION_USER`.
    Session,
    /// `PUBLIC`.
    Public,
}

/// CREATE, ALTER and DROP ROLE, and GRANT of a role.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RoleStatement {
    Create {
        name: RoleName,
        /// CREATE USER: it may connect unless the statement forbids it.
        login: bool,
        options: Vec<RoleOption>,
    },
    Alter {
        name: RoleName,
        options: Vec<RoleOption>,
    },
    /// ALTER ROLE … SET and RESET, ALTER DATABASE … SET and RESET; without a value the default. No setting: RESET ALL.
    AlterSetting {
        of: SettingsOf,
        /// IN DATABASE.
        database: Option<Name>,
        setting: Option<String>,
        value: Option<String>,
    },
    Rename {
        name: RoleName,
        to: Name,
    },
    Drop {
        names: Vec<RoleName>,
        if_exists: bool,
    },
    Grant(GrantRole),
    Comment {
        name: RoleName,
        text: Option<String>,
    },
}

/// The sessions that begin with a setting.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SettingsOf {
    Role(RoleName),
    /// ALTER ROLE ALL.
    AllRoles,
    /// ALTER DATABASE.
    Database,
}

/// GRANT and REVOKE of roles.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GrantRole {
    pub grants: bool,
    pub roles: Vec<Name>,
    pub members: Vec<RoleName>,
    /// WITH ADMIN OPTION; of REVOKE: the option only.
    pub admin: bool,
    /// GRANTED BY.
    pub grantor: Option<RoleName>,
    /// ALTER GROUP, which needs what ALTER ROLE does.
    pub alters_group: bool,
}

/// An option of CREATE and ALTER ROLE.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RoleOption {
    Superuser(bool),
    Inherit(bool),
    CreateRole(bool),
    CreateDb(bool),
    Login(bool),
    Replication(bool),
    BypassRls(bool),
    ConnectionLimit(i64),
    /// `None`: PASSWORD NULL.
    Password(Option<String>),
    ValidUntil(String),
    /// IN ROLE: the new role becomes a member of these.
    InRole(Vec<RoleName>),
    /// ROLE and ADMIN: these become its members, with the option to grant it or without.
    Members(Vec<RoleName>, bool),
}

/// GRANT, REVOKE, ALTER DEFAULT PRIVILEGES, and changes of owners.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PrivilegeStatement {
    Change {
        change: PrivilegeChange,
        on: GrantTarget,
    },
    Default {
        /// FOR ROLE; `None` for the current role.
        roles: Vec<RoleName>,
        /// IN SCHEMA; empty for all.
        schemas: Vec<Name>,
        change: PrivilegeChange,
        kind: TargetKind,
    },
    Owner {
        kind: TargetKind,
        name: ObjectName,
        if_exists: bool,
        to: RoleName,
        tag: &'static str,
    },
    ReassignOwned {
        from: Vec<RoleName>,
        to: RoleName,
    },
    DropOwned {
        by: Vec<RoleName>,
        cascade: bool,
    },
}

/// The privileges that are granted or revoked, and the roles that it is for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PrivilegeChange {
    pub grants: bool,
    /// The privileges' names in upper case, each with the columns that it is for; `None` for ALL.
    pub privileges: Vec<(Option<String>, Vec<Name>)>,
    pub grantees: Vec<RoleName>,
    /// WITH GRANT OPTION; of REVOKE: the option only.
    pub option: bool,
    /// GRANTED BY.
    pub grantor: Option<RoleName>,
    pub cascade: bool,
}

/// The objects of a GRANT.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum GrantTarget {
    Objects(TargetKind, Vec<ObjectName>),
    Routines(ObjectKind, Vec<RoutineName>),
    /// ALL … IN SCHEMA.
    AllIn(TargetKind, Vec<Name>),
}

/// A kind of objects with rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TargetKind {
    /// Tables and views.
    Table,
    View,
    MaterializedView,
    Index,
    Sequence,
    Schema,
    Database,
    /// Types and domains.
    Type,
    Domain,
    Language,
    Routine,
}
