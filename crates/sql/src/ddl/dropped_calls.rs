//! Checks and rules of domains that call routines which are dropped.

use std::sync::Arc;

use crate::catalog::store::Object;
use crate::catalog::{Catalog, Routine, UserType};
use crate::ddl::drop::depends;
use crate::ddl::routine::{calls, shown};
use crate::error::Result;

/// Rules of domains that call dropped routines. CASCADE drops them.
///
/// # Errors
/// 2BP01.
pub(super) fn check_domains(catalog: &Catalog, types: &[u32], routines: &[Arc<Routine>]) -> Result<()> {
    for ty in catalog.types() {
        let UserType::Domain(domain) = ty else { continue };
        if types.contains(&domain.oid) {
            continue;
        }
        let texts = domain.checks.iter().map(|check| &check.condition).chain(&domain.default);
        for text in texts {
            if let Some(routine) = routines.iter().find(|routine| calls(text, routine)) {
                return Err(depends(&shown(catalog, routine), &format!("type {}", domain.name)));
            }
        }
    }
    Ok(())
}

/// Takes the checks and the rules of domains that call dropped routines out of a catalog. What is changed by it.
pub(super) fn without_calls(catalog: &mut Catalog, routines: &[Arc<Routine>]) -> Vec<Object> {
    let is_gone = |text: &str| routines.iter().any(|routine| calls(text, routine));
    let mut changed = Vec::new();
    for table in catalog.tables().cloned().collect::<Vec<_>>() {
        if table.checks.iter().any(|check| is_gone(&check.condition)) {
            let mut table = table.as_ref().clone();
            table.checks.retain(|check| !is_gone(&check.condition));
            let table = Arc::new(table);
            catalog.put_table(table.clone());
            changed.push(Object::table(&table));
        }
    }
    for ty in catalog.types().cloned().collect::<Vec<_>>() {
        let UserType::Domain(domain) = ty else { continue };
        let mut domain = domain.as_ref().clone();
        let rules = domain.checks.len() + usize::from(domain.default.is_some());
        domain.checks.retain(|check| !is_gone(&check.condition));
        domain.default = domain.default.filter(|text| !is_gone(text));
        if domain.checks.len() + usize::from(domain.default.is_some()) < rules {
            catalog.put_type(UserType::Domain(Arc::new(domain.clone())));
            changed.push(Object::Domain(domain));
        }
    }
    changed
}
