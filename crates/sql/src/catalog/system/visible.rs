//! The objects that `information_schema` shows to a role: those that it owns, and those on which it has a privilege.
//!
//! Source: PostgreSQL 15, `information_schema.sql`.

use super::SystemCatalog;
use crate::catalog::rights::{
    DELETE, INSERT, Privileges, REFERENCES, Rights, RightsKind, SELECT, TRIGGER, TRUNCATE, UPDATE,
};
use crate::catalog::securables::Securable;
use crate::catalog::{Relation, Table};

/// The privileges on single columns.
const ON_COLUMNS: Privileges = SELECT | INSERT | UPDATE | REFERENCES;

impl SystemCatalog<'_> {
    /// Returns true if the session's role has the privileges of an object's owner.
    pub(super) fn owns(&self, rights: &Rights) -> bool {
        self.objects().is_owner(self.session.role_oid(), rights)
    }

    /// Returns true if the session's role owns an object, or has one of these privileges on it.
    pub(super) fn sees(&self, kind: RightsKind, rights: &Rights, any_of: Privileges) -> bool {
        self.owns(rights) || self.objects().granted(self.session.role_oid(), rights, kind, any_of) != 0
    }

    /// Returns true if the session's role owns a table or view, or has any privilege on it or on one of its columns.
    pub(super) fn sees_relation(&self, oid: u32) -> bool {
        self.may_any(oid, RightsKind::Table.all(), ON_COLUMNS)
    }

    /// Returns true if the session's role owns a table, or has a privilege other than to read it or one of its columns.
    pub(super) fn may_change(&self, table: &Table) -> bool {
        let on_table = INSERT | UPDATE | DELETE | TRUNCATE | REFERENCES | TRIGGER;
        self.may_any(table.oid, on_table, ON_COLUMNS & !SELECT)
    }

    /// Returns true if the session's role owns a table or view, or has a privilege on it or on one of its columns.
    pub(super) fn sees_column(&self, oid: u32, column: usize) -> bool {
        let relation = self.objects().relation_by_oid(oid).and_then(Relation::rights);
        relation.is_none_or(|rights| self.sees(RightsKind::Table, rights, ON_COLUMNS))
            || self.has_on_column(oid, column, ON_COLUMNS)
    }

    fn may_any(&self, oid: u32, on_relation: Privileges, on_columns: Privileges) -> bool {
        let Some(relation) = self.objects().relation_by_oid(oid) else { return true };
        let columns = relation.column_names().len();
        relation.rights().is_none_or(|rights| self.sees(RightsKind::Table, rights, on_relation))
            || (0..columns).any(|column| self.has_on_column(oid, column, on_columns))
    }

    fn has_on_column(&self, oid: u32, column: usize, any_of: Privileges) -> bool {
        let role = self.session.role_oid();
        let rights = self.objects().rights(&Securable::Column(oid, column));
        rights.is_some_and(|(kind, rights)| self.objects().granted(role, &rights, kind, any_of) != 0)
    }
}
