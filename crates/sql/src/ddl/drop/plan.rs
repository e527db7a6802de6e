//! The plan of a DROP: the objects that are dropped, and the parts that others lose.

use std::sync::Arc;

use crate::catalog::{Catalog, Routine, Table, View};
use crate::ddl::dropped_calls::Gone;
use crate::types::Type;

/// The plan of a DROP.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) tables: Vec<Arc<Table>>,
    pub(super) views: Vec<Arc<View>>,
    pub(super) sequences: Vec<u32>,
    pub(super) types: Vec<u32>,
    pub(super) schemas: Vec<String>,
    pub(super) routines: Vec<Arc<Routine>>,
    pub(super) extensions: Vec<u32>,
    pub(super) triggers: Vec<u32>,
    /// Tables that lose foreign keys: the keys' names.
    pub(super) foreign_keys: Vec<(u32, String)>,
    /// Columns of dropped types: their tables and names.
    pub(super) columns: Vec<(u32, String)>,
    /// Columns that lose their defaults: their tables and names.
    pub(super) defaults: Vec<(u32, String)>,
    /// Indexes whose expressions call dropped routines: their tables and oids.
    pub(super) indexes: Vec<(u32, u32)>,
    /// The objects that CASCADE drops, each with the object on which it depends, in the words of messages.
    pub(super) dependents: Vec<(String, String)>,
}

impl Plan {
    pub(super) fn is_empty(&self) -> bool {
        let relations = self.tables.len() + self.views.len() + self.sequences.len();
        relations + self.types.len() + self.schemas.len() + self.routines.len() + self.extensions.len() == 0
    }

    /// Notes that an object depends on a dropped one.
    pub(super) fn note(&mut self, by: impl Into<String>, object: impl Into<String>) {
        let entry = (by.into(), object.into());
        if !self.dependents.contains(&entry) {
            self.dependents.push(entry);
        }
    }

    pub(super) fn gone<'g>(&'g self, catalog: &'g Catalog, cascade: bool) -> Gone<'g> {
        Gone { catalog, routines: &self.routines, types: &self.types, cascade }
    }

    /// Returns true if a type is dropped, with its elements or as the rows of a table.
    pub(super) fn drops_type(&self, ty: Type) -> bool {
        let element = ty.element().unwrap_or(ty);
        let table = element.row_relation();
        element.user_oid().is_some_and(|oid| self.types.contains(&oid))
            || table.is_some_and(|oid| self.tables.iter().any(|table| table.oid == oid))
    }

    /// Returns true if a view, or a materialized one, is dropped.
    pub(super) fn drops_view(&self, oid: u32) -> bool {
        self.views.iter().any(|view| view.oid == oid) || self.tables.iter().any(|table| table.oid == oid)
    }

    /// Adds a view, or the materialized view that it represents, which depends on `object`.
    pub(super) fn add_view(&mut self, catalog: &Catalog, view: &Arc<View>, object: &str) {
        let materialized = catalog.table_by_oid(view.oid);
        let kind = materialized.map_or("view", |table| table.kind());
        self.note(format!("{kind} {}", view.name), object);
        match materialized {
            Some(table) => self.tables.push(table.clone()),
            None => self.views.push(view.clone()),
        }
    }
}
