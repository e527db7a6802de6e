//! Texts of the catalog that call routines or name types which are dropped.
//!
//! # Invariants
//! - Nothing is dropped because of a name alone: CASCADE drops what calls a routine if the text, bound, calls that very one.
//!   A text that may call it and no longer binds is refused.

use std::sync::Arc;

use crate::bind::definition_path;
use crate::bind::routines::{TextOf, routines_called};
use crate::catalog::store::{Object, TEMPORARY};
use crate::catalog::{Catalog, Domain, Routine, Table, Trigger, UserType, View};
use crate::ddl::renamed_names::may_mean_routine;
use crate::ddl::routine::shown;
use crate::error::{Result, SqlError, SqlState};
use crate::parse::{Reference, references};
use crate::routine::trigger::names_of_rows;
use crate::types::Type;

/// The dropped objects that texts may name.
#[derive(Clone, Copy)]
pub(super) struct Gone<'g> {
    pub catalog: &'g Catalog,
    pub routines: &'g [Arc<Routine>],
    pub types: &'g [u32],
    pub cascade: bool,
}

impl Gone<'_> {
    /// The dropped object that an expression of a table's names. `by`: the object to which the expression belongs.
    ///
    /// # Errors
    /// 2BP01: it may call a dropped routine.
    pub fn in_row(&self, text: &str, table: &Arc<Table>, by: impl Fn() -> String) -> Result<Option<String>> {
        self.named_in(text, &self.path(), || self.called(text, TextOf::Row(table)), by)
    }

    /// The dropped object that a rule of a domain's names.
    ///
    /// # Errors
    /// 2BP01.
    pub fn in_domain(&self, text: &str, domain: &Domain) -> Result<Option<String>> {
        let by = || format!("type {}", domain.name);
        self.named_in(text, &self.path(), || self.called(text, TextOf::Value(domain.ty)), by)
    }

    /// The dropped object that a default of an argument names.
    ///
    /// # Errors
    /// 2BP01.
    pub fn in_arguments(&self, routine: &Routine) -> Result<Option<String>> {
        let mut texts = routine.arguments.iter().filter_map(|argument| argument.default.as_deref());
        let called = |text: &str| self.called(text, TextOf::Value(Type::Unknown));
        let by = || shown(self.catalog, routine);
        texts.try_fold(None, |found: Option<String>, text| match found {
            Some(found) => Ok(Some(found)),
            None => self.named_in(text, &self.path(), || called(text), by),
        })
    }

    /// The dropped object that a trigger's condition names.
    ///
    /// # Errors
    /// 2BP01.
    pub fn in_condition(&self, trigger: &Trigger, table: &Table) -> Result<Option<String>> {
        let Some(text) = trigger.condition.as_deref() else { return Ok(None) };
        let called = || self.called(text, TextOf::Condition(&names_of_rows(table)));
        self.named_in(text, &self.path(), called, || {
            format!("trigger {} on table {}", trigger.name, table.name)
        })
    }

    /// The dropped object that a view's query names.
    ///
    /// # Errors
    /// 2BP01.
    pub fn in_view(&self, view: &View) -> Result<Option<String>> {
        let path = &view.search_path;
        let called = || routines_called(self.catalog, path, &view.query, TextOf::Query);
        let kind = self.catalog.table_by_oid(view.oid).map_or("view", |table| table.kind());
        self.named_in(&view.query, path, called, || format!("{kind} {}", view.name))
    }

    /// The schemas in which the names of definitions are looked up, with that of temporary routines.
    fn path(&self) -> Vec<String> {
        let temporary = self.routines.iter().find(|routine| routine.schema.starts_with(TEMPORARY));
        let temporary: Vec<String> = temporary.map(|routine| routine.schema.clone()).into_iter().collect();
        definition_path(&temporary)
    }

    fn called(&self, text: &str, of: TextOf<'_>) -> Result<Vec<Arc<Routine>>> {
        routines_called(self.catalog, &self.path(), text, of)
    }

    fn named_in(
        &self,
        text: &str,
        path: &[String],
        called: impl FnOnce() -> Result<Vec<Arc<Routine>>>,
        by: impl Fn() -> String,
    ) -> Result<Option<String>> {
        if self.types.is_empty() && self.routines.is_empty() {
            return Ok(None);
        }
        let references = references(text);
        let named =
            |wanted| references.iter().filter(move |(kind, ..)| *kind == wanted).map(|(_, name, _)| name);
        let ty = named(Reference::Type).find_map(|name| {
            let is_free = name.schema().is_some() || Type::from_name(name.last()).is_none();
            let found = is_free.then(|| self.catalog.find_type(name.schema(), name.last(), path)).flatten();
            found.filter(|ty| self.types.contains(&ty.oid()))
        });
        if let Some(ty) = ty {
            return Ok(Some(format!("type {}", ty.name())));
        }
        let may_call = |routine: &&Arc<Routine>| {
            let is_temporary = routine.schema.starts_with(TEMPORARY);
            named(Reference::Function).filter(|name| name.last() == routine.name).any(|name| {
                match name.schema() {
                    Some(schema) => schema == routine.schema || is_temporary && schema == "pg_temp",
                    None => !is_temporary && may_mean_routine(name),
                }
            })
        };
        let Some(candidate) = self.routines.iter().find(may_call) else { return Ok(None) };
        let Ok(called) = called() else {
            let candidate = shown(self.catalog, candidate);
            return if self.cascade { Err(doubtful(&candidate, &by())) } else { Ok(Some(candidate)) };
        };
        let is_gone = |routine: &&Arc<Routine>| self.routines.iter().any(|gone| gone.oid == routine.oid);
        Ok(called.iter().find(is_gone).map(|routine| shown(self.catalog, routine)))
    }
}

fn doubtful(object: &str, by: &str) -> SqlError {
    let message = format!("cannot drop {object} because {by} may call it");
    SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
        .with_detail("It names what is not found, so what it calls is not known.")
        .with_hint("Drop what calls it first, and create it again.")
}

/// The rules of domains that name what is dropped, each with the object that it names. CASCADE drops them.
///
/// # Errors
/// 2BP01.
pub(super) fn check_domains(gone: Gone<'_>) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for ty in gone.catalog.types() {
        let UserType::Domain(domain) = ty else { continue };
        if gone.types.contains(&domain.oid) {
            continue;
        }
        for check in &domain.checks {
            if let Some(object) = gone.in_domain(&check.condition, domain)? {
                found.push((format!("constraint {}", check.name), object));
            }
        }
        if let Some(default) = &domain.default
            && let Some(object) = gone.in_domain(default, domain)?
        {
            found.push((format!("type {}", domain.name), object));
        }
    }
    Ok(found)
}

/// Removes the checks and the rules of domains that name dropped objects from a catalog, and returns the changed
/// objects.
///
/// # Errors
/// 2BP01.
pub(super) fn without_calls(
    catalog: &mut Catalog,
    routines: &[Arc<Routine>],
    types: &[u32],
    tables: &[Arc<Table>],
) -> Result<Vec<Object>> {
    if routines.is_empty() && types.is_empty() {
        return Ok(Vec::new());
    }
    let before = catalog.clone();
    let gone = Gone { catalog: &before, routines, types, cascade: true };
    let mut changed = Vec::new();
    for known in before.tables().filter(|table| tables.iter().all(|dropped| dropped.oid != table.oid)) {
        let mut table = known.as_ref().clone();
        let by = |name: &str| format!("constraint {name} on table {}", known.name);
        let mut kept = Vec::new();
        for check in table.checks.drain(..) {
            if gone.in_row(&check.condition, known, || by(&check.name))?.is_none() {
                kept.push(check);
            }
        }
        table.checks = kept;
        if table.checks.len() < known.checks.len() {
            let table = Arc::new(table);
            catalog.put_table(table.clone());
            changed.push(Object::table(&table));
        }
    }
    for ty in before.types() {
        let UserType::Domain(known) = ty else { continue };
        if types.contains(&known.oid) {
            continue;
        }
        let mut domain = known.as_ref().clone();
        let mut kept = Vec::new();
        for check in domain.checks.drain(..) {
            if gone.in_domain(&check.condition, known)?.is_none() {
                kept.push(check);
            }
        }
        domain.checks = kept;
        if let Some(text) = &known.default
            && gone.in_domain(text, known)?.is_some()
        {
            domain.default = None;
        }
        if (domain.checks.len(), &domain.default) != (known.checks.len(), &known.default) {
            catalog.put_type(UserType::Domain(Arc::new(domain.clone())));
            changed.push(Object::Domain(domain));
        }
    }
    Ok(changed)
}
