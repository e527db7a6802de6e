//! GRANT and REVOKE of roles: which role is a member of which.

use super::denied;
use crate::catalog::Catalog;
use crate::catalog::role::{DATABASE_OWNER, Membership, no_role};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::GrantRole;
use crate::session::{Connection, Severity};

impl Connection {
    pub(super) fn grant_roles(&mut self, grant: &GrantRole) -> Result<&'static str> {
        let mut catalog = self.catalog_to_change();
        let mut changed = Vec::new();
        for name in &grant.roles {
            let role = self.environment().oid_of(&name.text).ok_or_else(|| no_role(&name.text))?;
            self.check_admin(role)?;
            for member in &grant.members {
                let member = self.role_named(member)?;
                let has_changed = if grant.grants {
                    self.add_membership(&mut catalog, role, member, grant.admin)?
                } else {
                    self.remove_membership(&mut catalog, role, member, grant.admin)?
                };
                if has_changed {
                    changed.push(member);
                }
            }
        }
        self.publish_roles(&changed, catalog)?;
        Ok(if grant.grants { "GRANT ROLE" } else { "REVOKE ROLE" })
    }

    fn check_admin(&self, role: u32) -> Result<()> {
        let entry = self.role_entry(role)?;
        if role == DATABASE_OWNER {
            let message = format!("role \"{}\" cannot have explicit members", entry.name);
            return Err(SqlError::new(SqlState::INVALID_GRANT_OPERATION, message));
        }
        self.check_superuser_role(&entry, "alter")?;
        if self.may_create_roles() || self.environment().catalog.is_admin_of(self.role(), role) {
            return Ok(());
        }
        Err(denied(format!("must have admin option on role \"{}\"", entry.name)))
    }

    /// Makes a role a member of another. Whether that changes anything.
    pub(super) fn add_membership(
        &mut self,
        catalog: &mut Catalog,
        role: u32,
        member: u32,
        admin: bool,
    ) -> Result<bool> {
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
        let grantor = self.role();
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

    /// Ends a membership, or its admin option only. Whether that changes anything.
    fn remove_membership(
        &mut self,
        catalog: &mut Catalog,
        role: u32,
        member: u32,
        option_only: bool,
    ) -> Result<bool> {
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
