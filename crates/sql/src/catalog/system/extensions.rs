//! `pg_extension`, `pg_available_extensions` and their versions.

use super::classes::schema_oid;
use super::row::{Output, row};
use super::{PG_CATALOG, PG_CATALOG_OID, SystemCatalog};
use crate::catalog::PLPGSQL;
use crate::extension::AVAILABLE;

pub(super) fn installed(system: &SystemCatalog<'_>, out: &mut Output) {
    let catalog = system.objects();
    for extension in catalog.extensions() {
        let is_system = extension.schema == PG_CATALOG;
        row!(
            out,
            oid = extension.oid,
            extname = &extension.name,
            extowner = extension.rights.owner,
            extnamespace = if is_system { PG_CATALOG_OID } else { schema_oid(catalog, &extension.schema) },
            extrelocatable = extension.oid != PLPGSQL,
            extversion = &extension.version,
        );
    }
}

pub(super) fn available(system: &SystemCatalog<'_>, out: &mut Output) {
    for extension in AVAILABLE {
        let installed = system.objects().extension(extension.name);
        row!(
            out,
            name = extension.name,
            default_version = extension.version,
            installed_version = installed.map(|it| it.version.as_str()),
            comment = extension.comment,
        );
    }
}

pub(super) fn versions(system: &SystemCatalog<'_>, out: &mut Output) {
    for extension in AVAILABLE {
        let is_system = extension.name == "plpgsql";
        row!(
            out,
            name = extension.name,
            version = extension.version,
            installed = system.objects().extension(extension.name).is_some(),
            superuser = true,
            trusted = extension.is_trusted,
            relocatable = !is_system,
            schema = is_system.then_some(PG_CATALOG),
            comment = extension.comment,
        );
    }
}
