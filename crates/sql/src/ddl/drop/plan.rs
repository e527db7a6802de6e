//! The plan of a DROP: the objects that are dropped, and the parts that others lose.

use std::sync::Arc;

use super::depends;
use crate::catalog::{Catalog, Routine, Table, View};
use crate::ddl::dropped_calls::Gone;
use crate::error::Result;
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
}

impl Plan {
    pub(super) fn is_empty(&self) -> bool {
        let relations = self.tables.len() + self.views.len() + self.sequences.len();
        relations + self.types.len() + self.schemas.len() + self.routines.len() + self.extensions.len() == 0
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
    pub(super) fn add_view(
        &mut self,
        catalog: &Catalog,
        view: &Arc<View>,
        object: &str,
        cascade: bool,
    ) -> Result<()> {
        let materialized = catalog.table_by_oid(view.oid);
        if !cascade {
            let kind = materialized.map_or("view", |table| table.kind());
            return Err(depends(object, &format!("{kind} {}", view.name)));
        }
        match materialized {
            Some(table) => self.tables.push(table.clone()),
            None => self.views.push(view.clone()),
        }
        Ok(())
    }
}
