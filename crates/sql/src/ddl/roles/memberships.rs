//! Memberships of roles in each other: GRANT and REVOKE of roles, and the options of CREATE ROLE.
//!
//! # Invariants
//! Every statement that makes a role a member of another goes through `add_membership`, which checks that it may.
//!
//! Source: PostgreSQL 15, `AddRoleMems` and `DelRoleMems` in `user.c`.

use super::denied;
use crate::catalog::Catalog;
use crate::catalog::role::{DATABASE_OWNER, Membership, no_role};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{GrantRole, RoleName, RoleOption};
use crate::session::{Connection, Severity};

impl Connection {
    pub(super) fn grant_roles(&mut self, grant: &GrantRole) -> Result<&'static str> {
        let mut catalog = self.catalog_to_change();
        let grantor = match &grant.grantor {
            Some(grantor) => self.role_named(grantor)?,
            None => self.role(),
        };
        let mut members = Vec::with_capacity(grant.members.len());
        for member in &grant.members {
            members.push(self.role_named(member)?);
        }
        let mut changed = Vec::new();
        for name in &grant.roles {
            if grant.alters_group {
                Self::check_not_reserved(&RoleName::Named(name.clone()))?;
            }
            let role = self.environment().oid_of(&name.text).ok_or_else(|| no_role(&name.text))?;
            if grant.alters_group && !self.is_superuser() {
                let added = RoleOption::Members(grant.members.clone(), false);
                self.check_altered_role(&*self.role_entry(role)?, &[added])?;
            }
            for &member in &members {
                let has_changed = if grant.grants {
                    self.add_membership(
                        &mut catalog,
                        role,
                        Membership { role: member, admin: grant.admin, grantor },
                    )?
                } else {
                    self.remove_membership(&mut catalog, role, member, (grant.admin, grantor))?
                };
                if has_changed {
                    changed.push(member);
                }
            }
        }
        self.publish_roles(&changed, catalog)?;
        Ok(if grant.grants { "GRANT ROLE" } else { "REVOKE ROLE" })
    }

    /// Checks that the current role may change a role's members: the only such check, of every statement.
    fn check_admin(&self, catalog: &Catalog, role: u32, grantor: u32, grants: bool) -> Result<()> {
        let missing = || SqlError::internal("a role is not in the catalog");
        let entry = catalog.role_by_oid(role).ok_or_else(missing)?;
        self.check_superuser_role(entry, "alter")?;
        if !self.may_create_roles() && !catalog.is_admin_of(grantor, role) {
            return Err(denied(format!("must have admin option on role \"{}\"", entry.name)));
        }
        if grants && role == DATABASE_OWNER {
            let message = format!("role \"{}\" cannot have explicit members", entry.name);
            return Err(SqlError::new(SqlState::INVALID_GRANT_OPERATION, message));
        }
        if grants && grantor != self.role() && !self.is_superuser() {
            return Err(denied("must be superuser to set grantor"));
        }
        Ok(())
    }

    /// Makes a role, that of `new`, a member of another, if the current role may. Returns true if that changes
    /// anything.
    pub(super) fn add_membership(
        &mut self,
        catalog: &mut Catalog,
        role: u32,
        new: Membership,
    ) -> Result<bool> {
        let Membership { role: member, admin, grantor } = new;
        self.check_admin(catalog, role, grantor, true)?;
        if member == DATABASE_OWNER {
            let message = "role \"pg_database_owner\" cannot be a member of any role";
            return Err(SqlError::new(SqlState::INVALID_GRANT_OPERATION, message));
        }
        let missing = || SqlError::internal("a role is not in the catalog");
        let (of, mut entry) = match (catalog.role_by_oid(role), catalog.role_by_oid(member)) {
            (Some(of), Some(member)) => (of.clone(), member.as_ref().clone()),
            _ => return Err(missing()),
        };
        if catalog.is_member_of_strictly(role, member) {
            let (of, member) = (&of.name, &entry.name);
            let message = format!("role \"{of}\" is a member of role \"{member}\"");
            return Err(SqlError::new(SqlState::INVALID_GRANT_OPERATION, message));
        }
        match entry.memberships.iter_mut().find(|it| it.role == role) {
            Some(known) if known.admin || !admin => {
                let message = format!("role \"{}\" is already a member of role \"{}\"", entry.name, of.name);
                let state = SqlState::SUCCESSFUL_COMPLETION;
                self.environment_mut().add_notice(Severity::Notice, state, message);
                return Ok(false);
            }
            Some(known) => *known = Membership { role, admin, grantor },
            None => entry.memberships.push(Membership { role, admin, grantor }),
        }
        catalog.put_role(entry);
        Ok(true)
    }

    /// Ends a membership, or its admin option only. Returns true if that changes anything.
    fn remove_membership(
        &mut self,
        catalog: &mut Catalog,
        role: u32,
        member: u32,
        (option_only, grantor): (bool, u32),
    ) -> Result<bool> {
        self.check_admin(catalog, role, grantor, false)?;
        let Some(mut entry) = catalog.role_by_oid(member).map(|member| member.as_ref().clone()) else {
            return Ok(false);
        };
        let Some(position) = entry.memberships.iter().position(|it| it.role == role) else {
            let of = self.environment().role_name(role);
            let message = format!("role \"{}\" is not a member of role \"{of}\"", entry.name);
            self.environment_mut().add_notice(Severity::Warning, SqlState::WARNING, message);
            return Ok(false);
        };
        if option_only {
            entry.memberships[position].admin = false;
        } else {
            entry.memberships.remove(position);
        }
        catalog.put_role(entry);
        Ok(true)
    }
}
