//! `pg_catalog` and `information_schema`: relations whose rows are computed from the catalog when a query reads them.
//!
//! ```text
//! relations.txt        names, oids and columns, as in PostgreSQL 15
//! row                  rows by the names of their columns
//! classes              pg_class, pg_attribute, pg_index, …
//! constraints, owners  pg_constraint; the objects that constraints, defaults, triggers and rules belong to
//! types, procedures    pg_type, pg_enum, …; pg_proc, pg_operator, pg_cast
//! dependencies         pg_depend, pg_rewrite
//! listings             pg_tables, pg_views, pg_indexes, …
//! extensions           pg_extension, pg_available_extensions
//! cluster, session     roles, databases, settings, activity; pg_prepared_statements, pg_cursors, …
//! information          information_schema, with information_constraints, _privileges and _routines
//! visible              the objects that information_schema shows to a role
//! engine               heddle_*, pg_stat_statements
//! monitoring           pg_stat_database, pg_stat_all_tables, …; sizes: pg_relation_size, …
//! functions            format_type, pg_get_indexdef, …; privileges: has_table_privilege, …
//! definitions          objects as statements of SQL; objects: in words
//! names                objects by name, and their names
//! ```
//!
//! The binder reads a system relation as a call of [`ROWS`] with the relation's oid, so the planner and the executor
//! treat it as any function in FROM.
//!
//! # Invariants
//! - Oids of relations, types and schemas that PostgreSQL has are PostgreSQL's; of a new database's objects, the
//!   catalog's own. What the catalog gives no oid (CHECK and foreign key constraints, defaults) has one that is derived
//!   from the table and the name, so that it is the same in every relation and in every query.
//! - A relation that `relations.txt` names and no function fills is empty, because the database has no such objects.

mod classes;
mod cluster;
pub(crate) mod constraints;
mod definitions;
mod dependencies;
mod engine;
mod extensions;
pub(crate) mod functions;
mod information;
mod information_constraints;
mod information_privileges;
mod information_routines;
mod listings;
pub(crate) mod monitoring;
mod names;
mod objects;
mod owners;
pub(crate) mod privileges;
mod procedures;
mod routines;
mod row;
mod session;
mod sizes;
pub(crate) mod splitting;
mod statistics;
mod triggers;
mod types;
mod visible;

use std::sync::{Arc, LazyLock};

use hashbrown::HashMap;

pub(crate) use definitions::with_sequence_names;
pub(crate) use names::{name_of, oid_by_name, oid_by_signature};
pub(crate) use owners::Owners;
pub(crate) use row::Output;
pub(crate) use types::{declared_collation, named_class};

use crate::catalog::Catalog;
use crate::session::SessionEnvironment;
use crate::types::record::RecordField;
use crate::types::{Type, Value};

/// The name of the function that yields a system relation's rows.
pub(crate) const ROWS: &str = "heddle_system_rows";

/// The schema of PostgreSQL's own objects.
pub(crate) const PG_CATALOG: &str = "pg_catalog";
/// The schema of the standard's views.
pub(crate) const INFORMATION_SCHEMA: &str = "information_schema";
/// The oid of `pg_catalog`.
const PG_CATALOG_OID: u32 = 11;
/// The oid of `information_schema`.
const INFORMATION_SCHEMA_OID: u32 = 13207;
/// The oid of the database.
const DATABASE: u32 = crate::catalog::DATABASE_OID;
/// The oid of the role that owns what the system has.
const OWNER: u32 = crate::catalog::role::BOOTSTRAP;

/// A relation of the system's.
pub(crate) struct SystemRelation {
    /// Its oid, PostgreSQL's.
    pub oid: u32,
    /// `pg_catalog` or `information_schema`.
    pub schema: &'static str,
    /// Its name.
    pub name: &'static str,
    /// `r` for a table, `v` for a view, as PostgreSQL has it.
    pub kind: char,
    /// Its columns.
    pub columns: Vec<SystemColumn>,
    fields: Arc<[RecordField]>,
}

/// A column of a system relation.
pub(crate) struct SystemColumn {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub ty: Type,
    /// True if it is never NULL.
    pub not_null: bool,
}

/// The catalog with what of the session its relations show.
pub struct SystemCatalog<'s> {
    pub(crate) session: &'s SessionEnvironment,
}

/// Fills a relation.
type Fill = fn(&SystemCatalog<'_>, &mut Output);

/// The relations that have rows.
const FILLED: &[(&str, Fill)] = &[
    ("heddle_archive", engine::archive),
    ("heddle_checkpoints", engine::checkpoints),
    ("heddle_choices", engine::choices),
    ("heddle_hot_rows", engine::hot_rows),
    ("heddle_partitions", engine::partitions),
    ("heddle_replication", engine::replication),
    ("heddle_schedule", engine::schedule),
    ("heddle_split_columns", engine::split_columns),
    ("heddle_stats", engine::statistics),
    ("pg_aggregate", procedures::aggregates),
    ("pg_am", types::access_methods),
    ("pg_attrdef", classes::defaults),
    ("pg_attribute", classes::attributes),
    ("pg_auth_members", cluster::memberships),
    ("pg_authid", cluster::authorizations),
    ("pg_available_extension_versions", extensions::versions),
    ("pg_available_extensions", extensions::available),
    ("pg_cast", procedures::casts),
    ("pg_class", classes::classes),
    ("pg_collation", types::collations),
    ("pg_constraint", constraints::rows),
    ("pg_cursors", session::cursors),
    ("pg_database", cluster::databases),
    ("pg_db_role_setting", cluster::role_settings),
    ("pg_default_acl", cluster::default_acls),
    ("pg_depend", dependencies::dependencies),
    ("pg_description", listings::descriptions),
    ("pg_enum", types::labels),
    ("pg_extension", extensions::installed),
    ("pg_group", cluster::groups),
    ("pg_index", classes::indexes),
    ("pg_indexes", listings::indexes),
    ("pg_language", types::languages),
    ("pg_locks", cluster::locks),
    ("pg_matviews", listings::materialized_views),
    ("pg_namespace", classes::namespaces),
    ("pg_opclass", types::operator_classes),
    ("pg_operator", procedures::operators),
    ("pg_opfamily", types::operator_families),
    ("pg_prepared_statements", session::prepared_statements),
    ("pg_proc", procedures::rows),
    ("pg_rewrite", dependencies::rules),
    ("pg_roles", cluster::roles),
    ("pg_sequence", listings::sequences),
    ("pg_sequences", listings::sequence_list),
    ("pg_settings", cluster::settings),
    ("pg_shadow", cluster::shadow),
    ("pg_stat_activity", cluster::activity),
    ("pg_stat_all_indexes", monitoring::index_rows),
    ("pg_stat_all_tables", monitoring::all_table_rows),
    ("pg_stat_archiver", monitoring::archiver),
    ("pg_stat_bgwriter", monitoring::checkpointing),
    ("pg_stat_database", monitoring::databases),
    ("pg_stat_database_conflicts", monitoring::standby_conflicts),
    ("pg_stat_gssapi", monitoring::gssapi),
    ("pg_stat_ssl", session::encryption),
    ("pg_stat_statements", engine::statements),
    ("pg_stat_sys_tables", monitoring::system_table_rows),
    ("pg_stat_user_indexes", monitoring::index_rows),
    ("pg_stat_user_tables", monitoring::user_table_rows),
    ("pg_stat_wal", monitoring::log),
    ("pg_statio_all_indexes", monitoring::index_rows),
    ("pg_statio_all_sequences", monitoring::sequence_blocks),
    ("pg_statio_all_tables", monitoring::all_table_blocks),
    ("pg_statio_sys_tables", monitoring::system_table_blocks),
    ("pg_statio_user_indexes", monitoring::index_rows),
    ("pg_statio_user_sequences", monitoring::sequence_blocks),
    ("pg_statio_user_tables", monitoring::user_table_blocks),
    ("pg_stats", statistics::columns),
    ("pg_tables", listings::tables),
    ("pg_tablespace", cluster::tablespaces),
    ("pg_timezone_names", session::time_zones),
    ("pg_trigger", triggers::rows),
    ("pg_type", types::rows),
    ("pg_user", cluster::users),
    ("pg_views", listings::views),
    ("attributes", information::attributes),
    ("check_constraints", information_constraints::checks),
    ("column_privileges", information_privileges::columns),
    ("columns", information::columns),
    ("constraint_column_usage", information_constraints::column_usage),
    ("constraint_table_usage", information_constraints::table_usage),
    ("domains", information::domains),
    ("enabled_roles", information::enabled_roles),
    ("key_column_usage", information_constraints::key_columns),
    ("parameters", information_routines::parameters),
    ("referential_constraints", information_constraints::foreign_keys),
    ("role_column_grants", information_privileges::columns_of_roles),
    ("role_routine_grants", information_privileges::routines_of_roles),
    ("role_table_grants", information_privileges::tables_of_roles),
    ("role_usage_grants", information_privileges::usage_of_roles),
    ("routine_privileges", information_privileges::routines),
    ("routines", information_routines::routines),
    ("schemata", information::schemata),
    ("sequences", information::sequences),
    ("table_constraints", information_constraints::constraints),
    ("table_privileges", information_privileges::tables),
    ("tables", information::tables),
    ("triggered_update_columns", information_routines::triggered_columns),
    ("triggers", information_routines::triggers),
    ("usage_privileges", information_privileges::usage),
    ("user_defined_types", information::user_defined_types),
    ("views", information::views),
];

/// All system relations.
struct Relations {
    all: Vec<SystemRelation>,
    by_name: HashMap<(&'static str, &'static str), usize>,
    by_oid: HashMap<u32, usize>,
}

static RELATIONS: LazyLock<Relations> = LazyLock::new(|| {
    let all: Vec<SystemRelation> =
        include_str!("relations.txt").lines().filter_map(SystemRelation::parse).collect();
    let by_name = all.iter().enumerate().map(|(at, it)| ((it.schema, it.name), at)).collect();
    let by_oid = all.iter().enumerate().map(|(at, it)| (it.oid, at)).collect();
    Relations { all, by_name, by_oid }
});

impl SystemRelation {
    /// A line of `relations.txt`: `1259 pg_catalog r pg_class oid:oid! relname:name! …`, `!` for NOT NULL.
    fn parse(line: &'static str) -> Option<SystemRelation> {
        let mut words = line.split(' ');
        let oid = words.next()?.parse().ok()?;
        let (schema, kind, name) = (words.next()?, words.next()?.chars().next()?, words.next()?);
        let column = |word: &'static str| {
            let (name, ty) = word.split_once(':')?;
            let not_null = ty.ends_with('!');
            Some(SystemColumn { name, ty: Type::from_name(ty.trim_end_matches('!'))?, not_null })
        };
        let columns: Vec<SystemColumn> = words.filter_map(column).collect();
        let field = |it: &SystemColumn| RecordField { name: it.name.into(), kind: it.ty };
        let fields = columns.iter().map(field).collect();
        Some(SystemRelation { oid, schema, name, kind, columns, fields })
    }
}

impl SystemRelation {
    /// Returns true if it shows secrets of superusers: passwords' verifiers.
    pub fn is_secret(&self) -> bool {
        ["pg_authid", "pg_shadow"].contains(&self.name)
    }
}

/// All system relations.
pub(crate) fn relations() -> &'static [SystemRelation] {
    &RELATIONS.all
}

/// The system relation with this oid.
pub(crate) fn relation_by_oid(oid: u32) -> Option<&'static SystemRelation> {
    RELATIONS.by_oid.get(&oid).map(|&at| &RELATIONS.all[at])
}

/// Returns true if a schema is the system's, in which nothing is created.
pub(crate) fn is_schema(name: &str) -> bool {
    matches!(name, PG_CATALOG | INFORMATION_SCHEMA)
}

/// The system relation that a name means: those of `pg_catalog` without their schema, too, unless the path names
/// `pg_catalog` behind a schema that has a relation of this name.
pub(crate) fn find(
    catalog: &Catalog,
    schema: Option<&str>,
    name: &str,
    path: &[String],
) -> Option<&'static SystemRelation> {
    let named = |schema: &str| {
        let at = RELATIONS.by_name.get(&(schema, name));
        at.map(|&at| &RELATIONS.all[at])
    };
    if let Some(schema) = schema {
        return named(schema);
    }
    if !path.iter().any(|it| it == PG_CATALOG)
        && let Some(found) = named(PG_CATALOG)
    {
        return Some(found);
    }
    for schema in path {
        if let Some(found) = named(schema) {
            return Some(found);
        }
        if catalog.relation(schema, name).is_some() {
            return None;
        }
    }
    None
}

impl<'s> SystemCatalog<'s> {
    /// The objects.
    pub(crate) fn objects(&self) -> &'s Catalog {
        &self.session.catalog
    }

    /// The rows of a relation, as records; none for an oid that is no system relation's.
    pub(crate) fn rows(&self, oid: u32) -> Vec<Value> {
        let Some(relation) = relation_by_oid(oid) else { return Vec::new() };
        let mut output = Output::new(relation);
        if let Some((_, fill)) = FILLED.iter().find(|(name, _)| *name == relation.name) {
            fill(self, &mut output);
        }
        output.finish()
    }
}

/// The CREATE INDEX of an index.
pub(crate) fn index_statement(session: &SessionEnvironment, oid: u32) -> Option<String> {
    definitions::index_definition(&SystemCatalog { session }, oid, 0, false)
}

/// An oid for what the catalog gives none, derived from the table's and a name or number: between 2^30 and 2^31, where
/// the catalog's own oids do not come.
fn derived_oid(table: u32, kind: char, part: &str) -> u32 {
    // FNV-1a
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in table.to_le_bytes().into_iter().chain([kind as u8]).chain(part.bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    0x4000_0000 | ((hash ^ (hash >> 32)) as u32 & 0x3fff_ffff)
}
