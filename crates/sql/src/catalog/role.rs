//! Roles: users and groups, their attributes, and their memberships.
//!
//! # Invariants
//! - The bootstrap superuser ([`BOOTSTRAP`]) and the predefined roles (`pg_…`) are in every catalog; they cannot be
//!   dropped.
//! - Memberships form no cycle.
//! - A password is stored as its SCRAM verifier only.
//!
//! Source: PostgreSQL 15, `acl.c` (`roles_is_member_of`), `user.c`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::catalog::Catalog;
use crate::catalog::uses::{Thing, note};
use crate::error::{SqlError, SqlState};

/// The oid of the bootstrap superuser, which owns whatever no other role owns.
pub(crate) const BOOTSTRAP: u32 = 10;

/// The name of the bootstrap superuser.
pub(crate) const BOOTSTRAP_NAME: &str = "heddle";

/// The oid of `pg_database_owner`, whose only member is the owner of the database.
pub(crate) const DATABASE_OWNER: u32 = 6171;
/// Members may read every table, view and sequence.
pub(crate) const READ_ALL_DATA: u32 = 6181;
/// Members may write every table, view and sequence.
pub(crate) const WRITE_ALL_DATA: u32 = 6182;
/// Members see other roles' statements.
pub(crate) const READ_ALL_STATS: u32 = 3375;
/// Members may cancel other roles' statements.
pub(crate) const SIGNAL_BACKEND: u32 = 4200;
/// Members may run CHECKPOINT.
pub(crate) const CHECKPOINTER: u32 = 4544;

const MONITOR: u32 = 3373;
const READ_ALL_SETTINGS: u32 = 3374;

/// The predefined roles, as PostgreSQL 15 numbers them.
const PREDEFINED: [(u32, &str); 8] = [
    (DATABASE_OWNER, "pg_database_owner"),
    (READ_ALL_DATA, "pg_read_all_data"),
    (WRITE_ALL_DATA, "pg_write_all_data"),
    (MONITOR, "pg_monitor"),
    (READ_ALL_SETTINGS, "pg_read_all_settings"),
    (READ_ALL_STATS, "pg_read_all_stats"),
    (SIGNAL_BACKEND, "pg_signal_backend"),
    (CHECKPOINTER, "pg_checkpoint"),
];

/// A role.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Role {
    /// Its oid.
    pub oid: u32,
    /// Its name.
    pub name: String,
    /// True if no privilege is checked.
    pub superuser: bool,
    /// True if it has the privileges of the roles that it is a member of without SET ROLE.
    pub inherit: bool,
    pub create_role: bool,
    pub create_db: bool,
    /// True if it may connect.
    pub login: bool,
    pub replication: bool,
    pub bypass_rls: bool,
    /// The most connections at a time; negative: no limit.
    pub connection_limit: i32,
    /// The SCRAM-SHA-256 verifier of its password.
    pub verifier: Option<String>,
    /// The time until which the password is valid, in microseconds since 2000-01-01 UTC.
    pub valid_until: Option<i64>,
    /// Defaults of its sessions' settings.
    pub settings: Vec<(String, String)>,
    /// The roles that it is a member of.
    pub memberships: Vec<Membership>,
    /// COMMENT ON ROLE.
    pub comment: Option<String>,
}

/// A membership.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Membership {
    /// The role that the owner of this entry is a member of.
    pub role: u32,
    /// WITH ADMIN OPTION: the member may grant the membership to others.
    pub admin: bool,
    /// The role that granted it.
    pub grantor: u32,
}

impl std::fmt::Debug for Role {
    /// Formats the role without the verifier, which no log is to show.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Role").field("oid", &self.oid).field("name", &self.name).finish_non_exhaustive()
    }
}

impl Role {
    /// A role as CREATE ROLE without options makes it.
    pub fn new(oid: u32, name: &str) -> Role {
        Role {
            oid,
            name: name.to_string(),
            superuser: false,
            inherit: true,
            create_role: false,
            create_db: false,
            login: false,
            replication: false,
            bypass_rls: false,
            connection_limit: -1,
            verifier: None,
            valid_until: None,
            settings: Vec::new(),
            memberships: Vec::new(),
            comment: None,
        }
    }

    fn bootstrap() -> Role {
        Role {
            superuser: true,
            create_role: true,
            create_db: true,
            login: true,
            replication: true,
            bypass_rls: true,
            ..Role::new(BOOTSTRAP, BOOTSTRAP_NAME)
        }
    }

    /// Returns true if every database has this role.
    pub fn is_built_in(&self) -> bool {
        self.oid == BOOTSTRAP || PREDEFINED.iter().any(|(oid, _)| *oid == self.oid)
    }
}

/// `role "r" does not exist` (42704).
pub(crate) fn no_role(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"))
}

impl Catalog {
    /// Adds the roles that every database has.
    pub(super) fn add_built_in_roles(&mut self) {
        self.put_role(Role::bootstrap());
        for (oid, name) in PREDEFINED {
            let mut role = Role::new(oid, name);
            if oid == MONITOR {
                let membership = |role| Membership { role, admin: false, grantor: BOOTSTRAP };
                role.memberships = [READ_ALL_SETTINGS, READ_ALL_STATS].map(membership).to_vec();
            }
            self.put_role(role);
        }
    }

    /// All roles, by their oids.
    pub fn roles(&self) -> Vec<&Arc<Role>> {
        let mut roles: Vec<_> = self.roles.values().collect();
        roles.sort_by_key(|role| role.oid);
        roles
    }

    /// The role of this name.
    pub fn role(&self, name: &str) -> Option<&Arc<Role>> {
        note(self.position, Thing::Role(name));
        self.roles.get(name)
    }

    /// The role with this oid.
    pub fn role_by_oid(&self, oid: u32) -> Option<&Arc<Role>> {
        note(self.position, Thing::Oid(oid));
        self.roles.get(self.role_names.get(&oid)?)
    }

    /// Adds a role, or replaces the one with its oid.
    pub fn put_role(&mut self, role: Role) {
        if let Some(old) = self.role_names.insert(role.oid, role.name.clone()) {
            self.roles.remove(&old);
        }
        if !role.is_built_in() {
            self.reserve_oid(role.oid);
        }
        self.roles.insert(role.name.clone(), Arc::new(role));
    }

    /// Removes a role.
    pub fn remove_role(&mut self, oid: u32) {
        if let Some(name) = self.role_names.remove(&oid) {
            self.roles.remove(&name);
        }
    }

    /// Returns true if no privilege is checked for this role.
    pub fn is_superuser(&self, role: u32) -> bool {
        self.role_by_oid(role).is_some_and(|role| role.superuser)
    }

    /// Returns true if a role may SET ROLE to another: it is a member, directly or not, or a superuser.
    pub fn is_member_of(&self, member: u32, role: u32) -> bool {
        self.is_superuser(member) || self.reaches(member, role, false)
    }

    /// Returns true if a role is a member of another, directly or not: like [`is_member_of`](Self::is_member_of),
    /// without superusers' membership of everything.
    pub fn is_member_of_strictly(&self, member: u32, role: u32) -> bool {
        self.reaches(member, role, false)
    }

    /// Returns true if a role has the privileges of another: it is a superuser, or a member by roles that inherit.
    pub fn has_privileges_of(&self, member: u32, role: u32) -> bool {
        self.is_superuser(member) || self.reaches(member, role, true)
    }

    fn reaches(&self, member: u32, role: u32, by_inheritance: bool) -> bool {
        let mut pending = vec![member];
        let mut visited = Vec::new();
        while let Some(next) = pending.pop() {
            if next == role {
                return true;
            }
            if visited.contains(&next) {
                continue;
            }
            visited.push(next);
            let Some(found) = self.role_by_oid(next).filter(|found| found.inherit || !by_inheritance) else {
                continue;
            };
            pending.extend(found.memberships.iter().map(|membership| membership.role));
            if next == self.database.rights.owner {
                pending.push(DATABASE_OWNER);
            }
        }
        false
    }

    /// Returns true if a role may grant membership of another.
    pub fn is_admin_of(&self, member: u32, role: u32) -> bool {
        if self.is_superuser(member) {
            return true;
        }
        self.roles().iter().any(|found| {
            found.memberships.iter().any(|membership| membership.role == role && membership.admin)
                && self.reaches(member, found.oid, false)
        })
    }
}
