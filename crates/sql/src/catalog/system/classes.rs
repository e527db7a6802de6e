//! `pg_namespace`, `pg_class`, `pg_attribute`, `pg_attrdef`, `pg_index`: relations and their columns.

use std::sync::Arc;

use super::definitions::{default_text, index_column_names, index_columns};
use super::privileges::{acl_of, acl_value};
use super::row::{Output, list, row, vector};
use super::types::{TypeFacts, operator_class, type_facts};
use super::{
    INFORMATION_SCHEMA, INFORMATION_SCHEMA_OID, OWNER, PG_CATALOG, PG_CATALOG_OID, SystemCatalog,
    derived_oid, relations,
};
use crate::bind::{BindContext, Checks, bind};
use crate::catalog::NominalKey;
use crate::catalog::relation::ViewOptions;
use crate::catalog::rights::Rights;
use crate::catalog::store::TEMPORARY;
use crate::catalog::{
    Catalog, CatalogEnvironment, Column, ColumnOrigin, ColumnSettings, CompositeType, Deferral, IndexColumn,
    Method, Persistence, Relation, Sequence, Table, UserType, View,
};
use crate::parse::quote_identifier;
use crate::parse::syntax::Statement;
use crate::types::{Modifier, Type, Value};

/// The access method of tables.
const HEAP: u32 = 2;

/// The letter of a relation's kind, and the access method of an index.
struct Kind(char, Method);

impl From<char> for Kind {
    fn from(kind: char) -> Kind {
        Kind(kind, Method::Btree)
    }
}

impl From<(char, Method)> for Kind {
    fn from((kind, method): (char, Method)) -> Kind {
        Kind(kind, method)
    }
}

/// An index, or the one behind a primary key.
pub(super) struct IndexOf<'t> {
    pub oid: u32,
    pub name: &'t str,
    pub table: &'t Table,
    pub columns: Vec<IndexColumn>,
    pub included: &'t [usize],
    /// The predicate of a partial index.
    pub predicate: Option<&'t str>,
    pub unique: bool,
    pub primary: bool,
    /// True if it belongs to a constraint of the same name.
    pub constraint: bool,
    /// The time at which a DEFERRABLE constraint is checked.
    pub deferral: Option<Deferral>,
    /// NULLS NOT DISTINCT.
    pub nulls_equal: bool,
    pub method: Method,
}

/// The indexes of a table, the primary key's first.
pub(super) fn indexes_of(table: &Table) -> Vec<IndexOf<'_>> {
    let plain = |&column: &usize| IndexColumn::ascending(column);
    let primary = table.key_name.as_deref().zip(table.key_oid).filter(|_| !table.key.is_empty());
    let primary = primary.map(|(name, oid)| IndexOf {
        oid,
        name,
        table,
        columns: table.key.iter().map(plain).collect(),
        included: &[],
        predicate: None,
        unique: true,
        primary: true,
        constraint: true,
        deferral: None,
        nulls_equal: false,
        method: Method::Btree,
    });
    let others = table.indexes.iter().map(|index| IndexOf {
        oid: index.oid,
        name: &index.name,
        table,
        columns: table.index_keys(index).to_vec(),
        included: &index.included,
        predicate: table.predicate(index),
        unique: index.unique,
        primary: index.primary,
        constraint: index.constraint,
        deferral: index.deferral,
        nulls_equal: index.nulls_equal,
        method: index.method,
    });
    primary.into_iter().chain(others).collect()
}

/// Returns true if a table has an index of any kind.
pub(super) fn has_index(table: &Table) -> bool {
    table.key_oid.is_some() || !table.indexes.is_empty() || !table.nominal_indexes.is_empty()
}

/// The oid of a schema; that of `pg_temp_1` and its kin if no schema has the name.
pub(super) fn schema_oid(catalog: &Catalog, name: &str) -> u32 {
    match name {
        PG_CATALOG => PG_CATALOG_OID,
        INFORMATION_SCHEMA => INFORMATION_SCHEMA_OID,
        name => catalog.schema(name).map_or_else(|| derived_oid(0, 'n', name), |schema| schema.oid),
    }
}

/// All schemas: oid and name.
pub(super) fn schemas(system: &SystemCatalog<'_>) -> Vec<(u32, String)> {
    let catalog = system.objects();
    let mut schemas: Vec<(u32, String)> =
        catalog.schemas().map(|schema| (schema.oid, schema.name.clone())).collect();
    for name in [PG_CATALOG, INFORMATION_SCHEMA] {
        schemas.push((schema_oid(catalog, name), name.to_string()));
    }
    schemas.extend(catalog.temporary_schemas().map(|name| (schema_oid(catalog, name), name.clone())));
    schemas.sort();
    schemas
}

pub(super) fn namespaces(system: &SystemCatalog<'_>, out: &mut Output) {
    for (oid, name) in schemas(system) {
        let rights = system.objects().schema(&name).map(|schema| &schema.rights);
        let (owner, acl) = match rights {
            Some(rights) => (rights.owner, acl_of(system, rights)),
            None => (OWNER, Value::Null),
        };
        row!(out, oid = oid, nspname = name, nspowner = owner, nspacl = acl);
    }
}

/// The tables, in the order of their oids.
pub(super) fn tables(catalog: &Catalog) -> Vec<&Arc<Table>> {
    let mut tables: Vec<_> = catalog.tables().collect();
    tables.sort_by_key(|table| table.oid);
    tables
}

/// The views, in the order of their oids.
pub(super) fn views(catalog: &Catalog) -> Vec<&Arc<View>> {
    let mut views: Vec<_> = catalog.views().collect();
    views.sort_by_key(|view| view.oid);
    views
}

/// The views and the materialized views, in the order of their oids.
pub(super) fn stored_queries(catalog: &Catalog) -> Vec<Arc<View>> {
    let mut views: Vec<_> = catalog.stored_queries().collect();
    views.sort_by_key(|view| view.oid);
    views
}

/// The composite types, in the order of their oids.
pub(super) fn composites(catalog: &Catalog) -> Vec<&Arc<CompositeType>> {
    let mut types: Vec<_> = catalog.composites().collect();
    types.sort_by_key(|ty| ty.oid);
    types
}

/// The sequences, in the order of their oids.
pub(super) fn sequences(catalog: &Catalog) -> Vec<&Arc<Sequence>> {
    let mut sequences: Vec<_> = catalog.sequences().collect();
    sequences.sort_by_key(|sequence| sequence.oid);
    sequences
}

fn persistence(table: &Table) -> char {
    match table.persistence {
        Persistence::Permanent => 'p',
        Persistence::Unlogged => 'u',
        Persistence::Temporary | Persistence::EmptiedAtCommit | Persistence::DroppedAtCommit => 't',
    }
}

pub(super) fn classes(system: &SystemCatalog<'_>, out: &mut Output) {
    let catalog = system.objects();
    for relation in relations() {
        // pg_dump restores the rights that it finds, and these are in every database: it is to find none.
        let of = ClassFacts { owner: OWNER, acl: Value::Null, persistence: 'p', options: Value::Null };
        let schema = schema_oid(catalog, relation.schema);
        class(out, (relation.oid, relation.name, schema), relation.kind, of, relation.columns.len());
    }
    for table in tables(catalog) {
        class_of_table(system, table, out);
    }
    for view in views(catalog) {
        let schema = schema_oid(catalog, &view.schema);
        let of = ClassFacts {
            options: view_options(view.options),
            ..ClassFacts::in_schema(system, &view.rights, &view.schema)
        };
        class(out, (view.oid, &view.name, schema), 'v', of, view.columns.len());
    }
    for ty in composites(catalog) {
        let of = ClassFacts { acl: Value::Null, ..ClassFacts::of(system, &ty.rights) };
        let schema = schema_oid(catalog, &ty.schema);
        class(out, (ty.relation(), &ty.name, schema), 'c', of, ty.attributes.len());
    }
    for sequence in sequences(catalog) {
        let schema = schema_oid(catalog, &sequence.schema);
        let of = ClassFacts::in_schema(system, &sequence.rights, &sequence.schema);
        class(out, (sequence.oid, &sequence.name, schema), 'S', of, 3);
    }
}

/// The rows of a table and of its indexes.
fn class_of_table(system: &SystemCatalog<'_>, table: &Table, out: &mut Output) {
    let catalog = system.objects();
    let schema = schema_oid(catalog, &table.schema);
    let has_triggers = !table.foreign_keys.is_empty()
        || !catalog.triggers_of(table.oid).is_empty()
        || catalog.tables().any(|other| other.foreign_keys.iter().any(|key| key.table == table.oid));
    row!(
        out,
        oid = table.oid,
        relname = &table.name,
        relnamespace = schema,
        reltype = Type::row_of(table.oid).oid(),
        relowner = table.rights.owner,
        relacl = acl_of(system, &table.rights),
        relam = HEAP,
        relfilenode = table.oid,
        reltuples = -1.0_f32,
        relhasindex = has_index(table),
        relpersistence = persistence(table),
        relkind = if table.stored_query.is_some() { 'm' } else { 'r' },
        relnatts = table.visible().len() as i16,
        relchecks = table.checks.len() as i16,
        relhastriggers = has_triggers,
        relhasrules = table.stored_query.is_some(),
        relispopulated = table.stored_query.as_ref().is_none_or(|stored| stored.populated),
        relreplident = 'd',
        reloptions = texts(&table.options),
    );
    let of_index = || ClassFacts {
        owner: table.rights.owner,
        acl: Value::Null,
        persistence: persistence(table),
        options: Value::Null,
    };
    for index in indexes_of(table) {
        let natts = index.columns.len() + index.included.len();
        class(out, (index.oid, index.name, schema), ('i', index.method), of_index(), natts);
    }
    for index in &table.nominal_indexes {
        class(out, (index.oid, &index.name, schema), ('i', index.method), of_index(), index.keys.len());
    }
}

/// Texts as an array; NULL for none.
fn texts(texts: &[String]) -> Value {
    if texts.is_empty() { Value::Null } else { list(Type::Text, texts.iter().map(String::as_str)) }
}

/// The facts in a row of `pg_class` about a relation's owner and its life.
struct ClassFacts {
    owner: u32,
    acl: Value,
    persistence: char,
    options: Value,
}

/// The options of a view that were said.
fn view_options(options: ViewOptions) -> Value {
    let said = [("security_barrier", options.barrier), ("security_invoker", options.invoker)];
    let mut said: Vec<String> =
        said.iter().filter_map(|(name, value)| value.map(|value| format!("{name}={value}"))).collect();
    said.extend(options.check_option.map(|option| format!("check_option={}", option.name())));
    if said.is_empty() { Value::Null } else { list(Type::Text, said.iter().map(String::as_str)) }
}

impl ClassFacts {
    /// A permanent relation with these rights.
    fn of(system: &SystemCatalog<'_>, rights: &Rights) -> ClassFacts {
        let acl = acl_of(system, rights);
        ClassFacts { owner: rights.owner, acl, persistence: 'p', options: Value::Null }
    }

    /// A relation without rows of its own, which is temporary if its schema is.
    fn in_schema(system: &SystemCatalog<'_>, rights: &Rights, schema: &str) -> ClassFacts {
        let persistence = if schema.starts_with(TEMPORARY) { 't' } else { 'p' };
        ClassFacts { persistence, ..ClassFacts::of(system, rights) }
    }
}

fn class(
    out: &mut Output,
    (oid, name, schema): (u32, &str, u32),
    kind: impl Into<Kind>,
    of: ClassFacts,
    columns: usize,
) {
    let Kind(kind, method) = kind.into();
    row!(
        out,
        oid = oid,
        relname = name,
        relnamespace = schema,
        reltype = if kind == 'c' { Type::row_of(oid).oid() } else { 0 },
        relowner = of.owner,
        relacl = of.acl,
        relam = match kind {
            'i' => method.oid_and_name().0,
            'r' => HEAP,
            _ => 0,
        },
        relfilenode = if matches!(kind, 'v' | 'c') { 0 } else { oid },
        reltuples = if kind == 'r' { -1.0_f32 } else { 0.0 },
        relpersistence = of.persistence,
        relkind = kind,
        relnatts = columns as i16,
        relhasrules = kind == 'v',
        relispopulated = true,
        relreplident = if kind == 'r' { 'd' } else { 'n' },
        reloptions = of.options,
    );
}

/// A column as `pg_attribute` shows it.
struct Attribute<'a> {
    relation: u32,
    number: i16,
    name: &'a str,
    ty: Type,
    /// The type's oid, or the domain's.
    oid: u32,
    modifier: Modifier,
    not_null: bool,
    origin: &'a ColumnOrigin,
    acl: Value,
    /// `None` for the type's.
    collation: Option<u32>,
    settings: Option<&'a ColumnSettings>,
}

impl Attribute<'_> {
    fn write(self, out: &mut Output) {
        let facts: TypeFacts = type_facts(self.ty);
        let (identity, generated) = match self.origin {
            ColumnOrigin::Identity { always: true, .. } => ("a", ""),
            ColumnOrigin::Identity { always: false, .. } => ("d", ""),
            ColumnOrigin::Generated(_) => ("", "s"),
            _ => ("", ""),
        };
        row!(
            out,
            attrelid = self.relation,
            attname = self.name,
            atttypid = self.oid,
            attstattarget = self.settings.and_then(|it| it.statistics).unwrap_or(-1),
            attlen = self.ty.length(),
            attnum = self.number,
            attndims = i32::from(matches!(self.ty, Type::Array(_))),
            attcacheoff = -1_i32,
            atttypmod = self.modifier.0,
            attbyval = facts.by_value,
            attalign = facts.align,
            attstorage = self.settings.and_then(|it| it.storage).unwrap_or(facts.storage),
            attcompression = self.settings.and_then(|it| it.compression).map_or(String::new(), String::from),
            attnotnull = self.not_null,
            atthasdef = matches!(self.origin, ColumnOrigin::Default(_) | ColumnOrigin::Generated(_)),
            attidentity = identity,
            attgenerated = generated,
            attislocal = true,
            attcollation = self.collation.unwrap_or(facts.collation),
            attacl = self.acl,
            attoptions = self.settings.map_or(Value::Null, |it| texts(&it.options)),
        );
    }
}

pub(super) fn attributes(system: &SystemCatalog<'_>, out: &mut Output) {
    let catalog = system.objects();
    for relation in relations() {
        for (at, column) in relation.columns.iter().enumerate() {
            plain(relation.oid, at, column.name, column.ty, Modifier::NONE, column.not_null).write(out);
        }
    }
    for table in tables(catalog) {
        for (at, column) in table.visible().iter().enumerate() {
            let acl = column.acl.as_ref().map_or(Value::Null, |acl| acl_value(system, acl));
            Attribute { acl, ..of_table(catalog, table, at, column) }.write(out);
        }
        for index in indexes_of(table) {
            let names = index_column_names(&index);
            for (at, &position) in index_columns(&index).iter().enumerate() {
                let column = &table.columns[position];
                let plain = plain(index.oid, at, &names[at], column.ty, column.modifier, false);
                Attribute { collation: column.collation, ..plain }.write(out);
            }
        }
    }
    for view in views(catalog) {
        for (at, (name, ty, modifier)) in view_columns(catalog, view).iter().enumerate() {
            let granted = view.column_acls.iter().find(|(column, _)| *column == at);
            let acl = granted.map_or(Value::Null, |(_, acl)| acl_value(system, acl));
            Attribute { acl, ..plain(view.oid, at, name, *ty, *modifier, false) }.write(out);
        }
    }
    for ty in composites(catalog) {
        for (at, attribute) in ty.attributes.iter().enumerate() {
            let plain = plain(ty.relation(), at, &attribute.name, attribute.ty, attribute.modifier, false);
            Attribute { collation: attribute.collation, ..plain }.write(out);
        }
    }
    for sequence in sequences(catalog) {
        let columns = [("last_value", Type::Int8), ("log_cnt", Type::Int8), ("is_called", Type::Bool)];
        for (at, (name, ty)) in columns.into_iter().enumerate() {
            plain(sequence.oid, at, name, ty, Modifier::NONE, true).write(out);
        }
    }
}

fn plain(
    relation: u32,
    at: usize,
    name: &str,
    ty: Type,
    modifier: Modifier,
    not_null: bool,
) -> Attribute<'_> {
    let number = at as i16 + 1;
    Attribute {
        relation,
        number,
        name,
        ty,
        oid: ty.oid(),
        modifier,
        not_null,
        origin: &ColumnOrigin::Nothing,
        acl: Value::Null,
        collation: None,
        settings: None,
    }
}

fn of_table<'t>(catalog: &Catalog, table: &Table, at: usize, column: &'t Column) -> Attribute<'t> {
    // NOT NULL of its domain is the domain's.
    let domain = column.domain.and_then(|oid| catalog.user_type_by_oid(oid));
    let is_domains = matches!(domain, Some(UserType::Domain(domain)) if catalog.domain_refuses_null(domain));
    let not_null = column.not_null && !is_domains || table.key.contains(&at);
    // A domain carries its modifier itself.
    let modifier = if column.domain.is_some() { Modifier::NONE } else { column.modifier };
    let plain = plain(table.oid, at, &column.name, column.ty, modifier, not_null);
    Attribute {
        oid: column_type(column),
        origin: &column.origin,
        collation: column.collation,
        settings: Some(&column.settings),
        ..plain
    }
}

/// The oid of a column's type: the domain's if it was declared with one.
pub(super) fn column_type(column: &Column) -> u32 {
    column.domain.unwrap_or_else(|| column.ty.oid())
}

/// The columns of a view. A view whose query can no longer be bound has none.
pub(super) fn view_columns(catalog: &Catalog, view: &View) -> Vec<(String, Type, Modifier)> {
    let Ok(query) = crate::parse::parse_query(&view.query) else { return Vec::new() };
    let context = BindContext { catalog, path: &view.search_path, text: &view.query };
    let statement = Statement::Query(Box::new(query));
    let mut environment = CatalogEnvironment::new(catalog);
    let Ok(bound) = bind(context, &mut environment, &statement, &[], Checks::Nothing) else {
        return Vec::new();
    };
    let typed = bound.columns.into_iter().map(|column| (column.name, column.ty, column.modifier));
    let named = typed
        .enumerate()
        .map(|(at, (name, ty, modifier))| (view.columns.get(at).cloned().unwrap_or(name), ty, modifier));
    named.collect()
}

pub(super) fn defaults(system: &SystemCatalog<'_>, out: &mut Output) {
    let catalog = system.objects();
    for table in tables(catalog) {
        for (at, column) in table.columns.iter().enumerate() {
            let (ColumnOrigin::Default(text) | ColumnOrigin::Generated(text)) = &column.origin else {
                continue;
            };
            row!(
                out,
                oid = super::owners::default_oid(table.oid, &column.name),
                adrelid = table.oid,
                adnum = at as i16 + 1,
                adbin = default_text(system, column.ty, text),
            );
        }
    }
}

pub(super) fn indexes(system: &SystemCatalog<'_>, out: &mut Output) {
    let catalog = system.objects();
    for table in tables(catalog) {
        for index in indexes_of(table) {
            let columns = index_columns(&index);
            let keys = index.columns.iter();
            let keys = keys.map(|it| operator_class(table.columns[it.column].ty, it.class.as_deref()));
            let collation = |it: &IndexColumn| {
                let column = &table.columns[it.column];
                column.collation.unwrap_or(type_facts(column.ty).collation)
            };
            // Zero means an expression.
            let number = |&at: &usize| if at < table.visible().len() { at as i16 + 1 } else { 0 };
            let expressions: Vec<&str> =
                columns.iter().filter_map(|&at| table.columns[at].indexed()).collect();
            // 1: DESC; 2: NULLs first.
            let options = index
                .columns
                .iter()
                .map(|it| i16::from(it.descending) + 2 * i16::from(it.descending != it.nulls_at_other_end));
            row!(
                out,
                indexrelid = index.oid,
                indrelid = table.oid,
                indnatts = columns.len() as i16,
                indnkeyatts = index.columns.len() as i16,
                indisunique = index.unique,
                indnullsnotdistinct = index.nulls_equal,
                indisprimary = index.primary,
                indimmediate = index.deferral.is_none(),
                indisvalid = true,
                indisready = true,
                indislive = true,
                indkey = vector(Type::Int2, columns.iter().map(number)),
                indcollation = vector(Type::Oid, index.columns.iter().map(collation)),
                indclass = vector(Type::Oid, keys),
                indoption = vector(Type::Int2, options),
                indexprs = (!expressions.is_empty()).then(|| expressions.join(", ")),
                indpred = index.predicate,
            );
        }
        for index in &table.nominal_indexes {
            let number = |key: &NominalKey| {
                let column = table.visible().iter().position(|it| quote_identifier(&it.name) == key.text);
                column.filter(|_| key.is_column).map_or(0, |at| at as i16 + 1)
            };
            let keys = || index.keys.iter();
            let expressions: Vec<&str> =
                keys().filter(|key| !key.is_column).map(|key| key.text.as_str()).collect();
            row!(
                out,
                indexrelid = index.oid,
                indrelid = table.oid,
                indnatts = index.keys.len() as i16,
                indnkeyatts = index.keys.len() as i16,
                indimmediate = true,
                indisvalid = true,
                indisready = true,
                indislive = true,
                indkey = vector(Type::Int2, keys().map(number)),
                indcollation = vector(Type::Oid, keys().map(|_| 0_u32)),
                indclass = vector(Type::Oid, keys().map(|_| 0_u32)),
                indoption = vector(Type::Int2, keys().map(|_| 0_i16)),
                indexprs = (!expressions.is_empty()).then(|| expressions.join(", ")),
                indpred = index.predicate.as_deref(),
            );
        }
    }
}

/// Positions as numbers of columns, from 1.
pub(super) fn numbers(positions: &[usize]) -> crate::types::Value {
    list(Type::Int2, positions.iter().map(|&at| at as i16 + 1))
}

/// The schema and name of a relation of the user's.
pub(super) fn relation_name(catalog: &Catalog, oid: u32) -> Option<(&str, &str)> {
    catalog.relation_name(oid).map(|(schema, name)| (schema.as_str(), name.as_str()))
}

/// The table and the index with this oid.
pub(super) fn index_by_oid(catalog: &Catalog, oid: u32) -> Option<IndexOf<'_>> {
    let Some(Relation::Index { table, .. }) = catalog.relation_by_oid(oid) else { return None };
    indexes_of(catalog.table_by_oid(*table)?).into_iter().find(|index| index.oid == oid)
}
