//! Installed extensions.
//!
//! # Invariants
//! - Each member of an extension names it by its oid; a member is dropped with its extension only.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::system::PG_CATALOG;
use super::{Catalog, Routine};
use crate::catalog::rights::Rights;
use crate::catalog::role::BOOTSTRAP;
use crate::extension::available;
use crate::functions::Function;

/// The oid of the extension plpgsql, which every database has.
pub(crate) const PLPGSQL: u32 = 13_639;

/// An installed extension.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Extension {
    /// Its oid.
    pub oid: u32,
    /// Its name.
    pub name: String,
    /// The schema that its functions were made in.
    pub schema: String,
    pub version: String,
    /// COMMENT ON EXTENSION; at first the extension's own.
    pub comment: Option<String>,
    /// Its owner.
    pub rights: Rights,
}

/// The extensions of a new database.
pub(super) fn built_in() -> BTreeMap<String, Arc<Extension>> {
    let found = available("plpgsql").map(|it| Extension {
        oid: PLPGSQL,
        name: it.name.to_string(),
        schema: PG_CATALOG.to_string(),
        version: it.version.to_string(),
        comment: Some(it.comment.to_string()),
        rights: Rights::of(BOOTSTRAP),
    });
    found.into_iter().map(|it| (it.name.clone(), Arc::new(it))).collect()
}

impl Catalog {
    /// The installed extensions, by name.
    pub fn extensions(&self) -> impl Iterator<Item = &Arc<Extension>> {
        self.extensions.values()
    }

    pub fn extension(&self, name: &str) -> Option<&Arc<Extension>> {
        self.extensions.get(name)
    }

    pub fn extension_by_oid(&self, oid: u32) -> Option<&Arc<Extension>> {
        self.extensions.values().find(|it| it.oid == oid)
    }

    /// Adds an extension, or replaces the one of its name.
    pub fn put_extension(&mut self, extension: Arc<Extension>) {
        self.reserve_oid(extension.oid);
        self.extensions.insert(extension.name.clone(), extension);
    }

    pub fn remove_extension(&mut self, oid: u32) {
        self.extensions.retain(|_, known| known.oid != oid);
    }

    /// The routines of an extension.
    pub fn members(&self, extension: u32) -> impl Iterator<Item = &Arc<Routine>> {
        self.routines().filter(move |routine| routine.extension == Some(extension))
    }

    /// The operators of the installed extensions.
    pub fn extension_operators(&self) -> impl Iterator<Item = &'static Function> {
        self.extensions().filter_map(|it| available(&it.name)).flat_map(|it| it.operators())
    }
}
