//! Bodies of the standard's form (`RETURN …`, `BEGIN ATOMIC … END`): they keep what they name from being dropped, and follow
//! its new names.
//!
//! # Invariants
//! - Relations, types and users' functions have their schemas in such a body (see [`routine_body`](super::routine_body)), so a name
//!   means one object whatever the search path is.

use std::sync::Arc;

use crate::catalog::store::Object;
use crate::catalog::{Catalog, Routine};
use crate::error::Result;
use crate::parse::syntax::ObjectName;
use crate::parse::{Reference, parse, references, with_names};
use crate::session::Connection;

/// The names in a routine's body, if it is of the standard's form.
pub(super) fn names_in_body(routine: &Routine) -> Vec<(Reference, ObjectName)> {
    if !routine.is_settled {
        return Vec::new();
    }
    let Ok(statements) = parse(&routine.body) else { return Vec::new() };
    let named = statements.iter().flat_map(|it| references(&routine.body[it.start..it.end]));
    named.map(|(kind, name, _)| (kind, name)).collect()
}

/// Renames in a routine's body, if it is of the standard's form; returns true if it changes.
pub(super) fn rename_in_body(
    routine: &mut Routine,
    renaming: &dyn Fn(Reference, &ObjectName) -> Option<String>,
) -> bool {
    if !routine.is_settled {
        return false;
    }
    let Ok(statements) = parse(&routine.body) else { return false };
    let body = &routine.body;
    let renamed: Vec<String> =
        statements.iter().map(|it| with_names(&body[it.start..it.end], renaming)).collect();
    let renamed = renamed.join(";\n");
    let is_changed = renamed != *body;
    routine.body = renamed;
    is_changed
}

impl Connection {
    /// Has bodies follow a relation that gets another name, as they are to write it.
    pub(super) fn follow_in_bodies(&mut self, relation: &(String, String), to: &str) -> Result<()> {
        let (schema, name) = relation;
        let mut catalog = self.catalog_to_change();
        let mut changed = Vec::new();
        for routine in catalog.routines().cloned().collect::<Vec<_>>() {
            let mut routine = routine.as_ref().clone();
            let is_renamed = rename_in_body(&mut routine, &|kind, found| {
                let is_it = matches!(kind, Reference::Relation | Reference::Type)
                    && found.schema() == Some(schema.as_str())
                    && found.last() == name;
                is_it.then(|| to.to_string())
            });
            if is_renamed {
                catalog.put_routine(Arc::new(routine.clone()));
                changed.push(Object::Routine(routine));
            }
        }
        if changed.is_empty() { Ok(()) } else { self.publish(&changed, catalog) }
    }
}

/// Returns true if a name in a body is this object's.
pub(super) fn is_named(name: &ObjectName, schema: &str, own: &str) -> bool {
    name.schema() == Some(schema) && name.last() == own
}

/// Returns true if a name in a body is a routine's, and no other routine's.
pub(super) fn is_only(catalog: &Catalog, name: &ObjectName, routine: &Routine) -> bool {
    is_named(name, &routine.schema, &routine.name)
        && catalog.routines_of(&routine.schema, &routine.name).len() == 1
}

#[cfg(test)]
mod tests {
    use super::is_named;
    use crate::parse::{Reference, references};

    #[test]
    fn a_name_is_an_objects_only_with_its_schema() {
        let found = references("select a from public.t join t on true");
        let names: Vec<_> = found.iter().filter(|(kind, ..)| *kind == Reference::Relation).collect();
        let is_it: Vec<bool> = names.iter().map(|(_, name, _)| is_named(name, "public", "t")).collect();
        assert_eq!(is_it, [true, false]);
    }
}
