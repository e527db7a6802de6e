//! The owners of constraints, defaults, triggers and rules: found once for a catalog, because clients ask for each of
//! them.
//!
//! # Invariants
//! - A copy of a catalog, which is made to be changed, begins without it; a published catalog is never changed.

use std::sync::OnceLock;

use hashbrown::HashMap;

use super::classes::{stored_queries, tables};
use super::constraints::{Constraint, Owner, constraints, constraints_of, domain_constraints};
use super::dependencies::rule_oid;
use super::derived_oid;
use crate::catalog::{Catalog, ColumnOrigin, UserType};

/// The oids of the tables, domains and views that own constraints, defaults, triggers and rules, by the oids of these.
#[derive(Debug, Default)]
pub(crate) struct Owners(OnceLock<HashMap<u32, u32>>);

impl Clone for Owners {
    fn clone(&self) -> Owners {
        Owners::default()
    }
}

/// The oid of a column's default.
pub(super) fn default_oid(table: u32, column: &str) -> u32 {
    derived_oid(table, 'd', column)
}

fn find(catalog: &Catalog) -> HashMap<u32, u32> {
    let mut owners: HashMap<u32, u32> = HashMap::new();
    for constraint in constraints(catalog) {
        let owner = match constraint.owner {
            Owner::Table(table) => table.oid,
            Owner::Domain(domain) => domain.oid,
        };
        owners.insert(constraint.oid, owner);
    }
    for table in tables(catalog) {
        let has_default =
            |origin: &ColumnOrigin| matches!(origin, ColumnOrigin::Default(_) | ColumnOrigin::Generated(_));
        let columns = table.visible().iter().filter(|column| has_default(&column.origin));
        owners.extend(columns.map(|column| (default_oid(table.oid, &column.name), table.oid)));
    }
    owners.extend(catalog.triggers().map(|trigger| (trigger.oid, trigger.table)));
    owners.extend(stored_queries(catalog).into_iter().map(|view| (rule_oid(view.oid), view.oid)));
    owners
}

/// The object to which a constraint, a default, a trigger or a rule belongs.
pub(super) fn owner_of(catalog: &Catalog, oid: u32) -> Option<u32> {
    catalog.owners.0.get_or_init(|| find(catalog)).get(&oid).copied()
}

/// The constraint with this oid.
pub(super) fn constraint_by_oid(catalog: &Catalog, oid: u32) -> Option<Constraint<'_>> {
    let owner = owner_of(catalog, oid)?;
    let found = match (catalog.table_by_oid(owner), catalog.user_type_by_oid(owner)) {
        (Some(table), _) => constraints_of(table),
        (None, Some(UserType::Domain(domain))) => domain_constraints(domain).collect(),
        _ => return None,
    };
    found.into_iter().find(|constraint| constraint.oid == oid)
}
