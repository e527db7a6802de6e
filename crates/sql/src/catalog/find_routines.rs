//! The routines and triggers of a catalog, by name and by oid.

use std::sync::Arc;

use super::Catalog;
use super::routine::{Argument, ResultColumn, Routine, Trigger};
use crate::catalog::store::{self, temporary_in};
use crate::catalog::uses::{Thing, note};
use crate::types::Modifier;

impl Catalog {
    /// All functions and procedures.
    pub fn routines(&self) -> impl Iterator<Item = &Arc<Routine>> {
        self.routines_by_oid.values()
    }

    /// The overloads of this name in a schema.
    pub fn routines_of(&self, schema: &str, name: &str) -> &[Arc<Routine>] {
        note(self.position, Thing::Routine(schema, name));
        self.routines.get(schema).and_then(|names| names.get(name)).map_or(&[], Vec::as_slice)
    }

    /// The overloads of this name in the schema that was given, or along a path of schemas; of two with the same input
    /// types the first counts.
    pub fn find_routines(&self, schema: Option<&str>, name: &str, path: &[String]) -> Vec<Arc<Routine>> {
        match (schema, temporary_in(path)) {
            (Some("pg_temp"), Some(temporary)) => return self.routines_of(temporary, name).to_vec(),
            (Some(schema), _) => return self.routines_of(schema, name).to_vec(),
            (None, _) => {}
        }
        let mut found: Vec<Arc<Routine>> = Vec::new();
        // Temporary functions are found under their schema's name only.
        let schemas = path.iter().filter(|schema| !schema.starts_with(store::TEMPORARY));
        for routine in schemas.flat_map(|schema| self.routines_of(schema, name)) {
            if !found.iter().any(|known| known.input_types() == routine.input_types()) {
                found.push(routine.clone());
            }
        }
        found
    }

    /// The routine with this oid.
    pub fn routine_by_oid(&self, oid: u32) -> Option<&Arc<Routine>> {
        note(self.position, Thing::Oid(oid));
        self.routines_by_oid.get(&oid)
    }

    /// Adds a routine, or replaces the one with its oid.
    pub fn put_routine(&mut self, routine: Arc<Routine>) {
        self.reserve_oid(routine.oid);
        self.remove_routine(routine.oid);
        self.routines_by_oid.insert(routine.oid, routine.clone());
        let names = self.routines.entry(routine.schema.clone()).or_default();
        names.entry(routine.name.clone()).or_default().push(routine);
    }

    pub fn remove_routine(&mut self, oid: u32) {
        let Some(removed) = self.routines_by_oid.remove(&oid) else { return };
        if let Some(names) = self.routines.get_mut(&removed.schema)
            && let Some(overloads) = names.get_mut(&removed.name)
        {
            overloads.retain(|routine| routine.oid != oid);
            if overloads.is_empty() {
                names.remove(&removed.name);
            }
        }
    }

    /// The triggers of a table, in the order in which they fire.
    pub fn triggers_of(&self, table: u32) -> &[Arc<Trigger>] {
        note(self.position, Thing::Oid(table));
        self.triggers.get(&table).map_or(&[], Vec::as_slice)
    }

    /// All triggers.
    pub fn triggers(&self) -> impl Iterator<Item = &Arc<Trigger>> {
        self.triggers.values().flatten()
    }

    /// Adds a trigger, or replaces the one of its name.
    pub fn put_trigger(&mut self, trigger: Arc<Trigger>) {
        self.reserve_oid(trigger.oid);
        let triggers = self.triggers.entry(trigger.table).or_default();
        triggers.retain(|known| known.name != trigger.name);
        triggers.push(trigger);
        triggers.sort_by(|left, right| left.name.cmp(&right.name));
    }

    pub fn remove_trigger(&mut self, oid: u32) {
        self.triggers.values_mut().for_each(|triggers| triggers.retain(|trigger| trigger.oid != oid));
        self.triggers.retain(|_, triggers| !triggers.is_empty());
    }

    /// The columns of a routine's result; one without a name of its own for a plain value.
    pub fn result_columns(&self, routine: &Routine) -> Vec<ResultColumn> {
        if let Some(columns) = routine.row_of.and_then(|oid| self.row_columns(oid)) {
            return columns;
        }
        let column = |argument: &Argument| ResultColumn {
            name: argument.name.clone(),
            ty: argument.ty,
            modifier: Modifier::NONE,
            domain: argument.domain,
        };
        let mut columns: Vec<ResultColumn> = routine.outputs().map(column).collect();
        for (number, column) in columns.iter_mut().enumerate() {
            if column.name.is_empty() {
                column.name = format!("column{}", number + 1);
            }
        }
        columns
    }
}
