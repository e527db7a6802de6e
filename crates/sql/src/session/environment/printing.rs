//! The part of a session that prints values: formats, labels, names. It is kept apart so that values can be printed
//! while the session runs.

use std::sync::Arc;

use super::{now, object_name};
use crate::catalog::Catalog;
use crate::parse::quote_identifier;
use crate::types::Environment;
use crate::types::environment::{EnumLabels, FormatSettings, ObjectKind};

/// The part of a session that printing a value needs, apart from the session, which runs meanwhile.
pub(crate) struct Printing {
    pub(super) formats: FormatSettings,
    pub(super) catalog: Arc<Catalog>,
    pub(super) path: Vec<String>,
    /// The name of the bootstrap superuser.
    pub(super) bootstrap: String,
}

impl Environment for Printing {
    fn formats(&self) -> &FormatSettings {
        &self.formats
    }

    fn transaction_start(&self) -> i64 {
        now()
    }

    fn random_bits(&mut self) -> u64 {
        0
    }

    fn enum_labels(&self, oid: u32) -> Option<EnumLabels> {
        self.catalog.enum_by_oid(oid).map(|ty| ty.numbered_labels())
    }

    fn type_name(&self, oid: u32) -> Option<String> {
        self.catalog.enum_by_oid(oid).map(|ty| quote_identifier(&ty.name))
    }

    fn object_name(&self, kind: ObjectKind, oid: u32) -> Option<String> {
        object_name(&self.catalog, &self.path, &self.bootstrap, kind, oid)
    }
}
