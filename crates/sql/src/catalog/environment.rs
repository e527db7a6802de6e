//! An environment without a session that knows the users' types: definitions in the catalog are bound in it.

use std::sync::Arc;

use crate::catalog::Catalog;
use crate::parse::quote_identifier;
use crate::types::environment::{EnumLabels, FormatSettings};
use crate::types::record::Shape;
use crate::types::{Environment, PlainEnvironment};

/// The users' types of a catalog, and default settings.
pub(crate) struct CatalogEnvironment<'c> {
    catalog: &'c Catalog,
    plain: PlainEnvironment,
}

impl CatalogEnvironment<'_> {
    pub fn new(catalog: &Catalog) -> CatalogEnvironment<'_> {
        CatalogEnvironment { catalog, plain: PlainEnvironment::new(0) }
    }

    /// Returns the environment with a session's formats.
    pub fn with_formats(mut self, formats: FormatSettings) -> Self {
        self.plain.formats = formats;
        self
    }
}

impl Environment for CatalogEnvironment<'_> {
    fn formats(&self) -> &FormatSettings {
        self.plain.formats()
    }

    fn transaction_start(&self) -> i64 {
        self.plain.transaction_start()
    }

    fn random_bits(&mut self) -> u64 {
        self.plain.random_bits()
    }

    fn enum_labels(&self, oid: u32) -> Option<EnumLabels> {
        self.catalog.enum_by_oid(oid).map(|ty| ty.numbered_labels())
    }

    fn type_name(&self, oid: u32) -> Option<String> {
        self.catalog.user_type_name(oid).map(|name| quote_identifier(&name))
    }

    fn shape(&self, oid: u32) -> Option<Arc<Shape>> {
        self.catalog.shape(oid)
    }
}
