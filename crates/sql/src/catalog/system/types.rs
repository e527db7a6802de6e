//! `pg_type`, `pg_enum`, and the relations that types refer to: collations, operator classes, access methods,
//! languages.

use std::sync::LazyLock;

use hashbrown::HashMap;

use super::classes::schema_oid;
use super::definitions::default_text;
use super::privileges::acl_of;
use super::row::{Output, row};
use super::{OWNER, PG_CATALOG_OID, SystemCatalog, derived_oid};
use crate::catalog::UserType;
use crate::catalog::{Language, Method};
use crate::error::{Result, SqlError, SqlState};
use crate::types::Type;

/// A line of `types.txt`: the columns of `pg_type` for a type that PostgreSQL has.
struct Line {
    words: Vec<&'static str>,
}

/// The positions of the words in a line.
mod at {
    pub const OID: usize = 0;
    pub const NAME: usize = 1;
    pub const LENGTH: usize = 2;
    pub const BY_VALUE: usize = 3;
    pub const KIND: usize = 4;
    pub const CATEGORY: usize = 5;
    pub const PREFERRED: usize = 6;
    pub const DELIMITER: usize = 7;
    pub const ELEMENT: usize = 8;
    pub const ARRAY: usize = 9;
    pub const INPUT: usize = 10;
    pub const OUTPUT: usize = 12;
    pub const RECEIVE: usize = 14;
    pub const SEND: usize = 16;
    pub const MODIFIER_IN: usize = 18;
    pub const MODIFIER_OUT: usize = 20;
    pub const ALIGN: usize = 22;
    pub const STORAGE: usize = 23;
    pub const COLLATION: usize = 24;
    pub const SUBSCRIPT: usize = 25;
}

impl Line {
    fn word(&self, at: usize) -> &'static str {
        self.words.get(at).copied().unwrap_or("")
    }

    fn oid(&self, at: usize) -> u32 {
        self.word(at).parse().unwrap_or(0)
    }

    fn letter(&self, at: usize) -> char {
        self.word(at).chars().next().unwrap_or(' ')
    }
}

static LINES: LazyLock<Vec<Line>> = LazyLock::new(|| {
    include_str!("types.txt").lines().map(|line| Line { words: line.split(' ').collect() }).collect()
});

static LINES_BY_OID: LazyLock<HashMap<u32, usize>> =
    LazyLock::new(|| LINES.iter().enumerate().map(|(at, line)| (line.oid(at::OID), at)).collect());

/// The functions that read and write values of types: oid and name.
pub(super) static TYPE_FUNCTIONS: LazyLock<Vec<(u32, &'static str)>> = LazyLock::new(|| {
    let places =
        [at::INPUT, at::OUTPUT, at::RECEIVE, at::SEND, at::MODIFIER_IN, at::MODIFIER_OUT, at::SUBSCRIPT];
    let all = LINES.iter().flat_map(|line| places.map(|at| (line.oid(at), line.word(at + 1))));
    let mut all: Vec<_> = all
        .filter(|(oid, _)| *oid != 0)
        .chain([
            (3504, "anyenum_in"),
            (3506, "enum_in"),
            (3507, "enum_out"),
            (3532, "enum_recv"),
            (3533, "enum_send"),
            (2597, "domain_in"),
            (2598, "domain_recv"),
        ])
        .collect();
    all.sort_unstable();
    all.dedup();
    all
});

/// The layout of a type's values in PostgreSQL's rows.
pub(super) struct TypeFacts {
    pub by_value: bool,
    pub align: char,
    pub storage: char,
    pub collation: u32,
}

/// The facts of a type; an enum's are those of its ordinal.
pub(super) fn type_facts(ty: Type) -> TypeFacts {
    match LINES_BY_OID.get(&ty.oid()).map(|&at| &LINES[at]) {
        Some(line) => TypeFacts {
            by_value: line.word(at::BY_VALUE) == "1",
            align: line.letter(at::ALIGN),
            storage: line.letter(at::STORAGE),
            collation: line.oid(at::COLLATION),
        },
        None if ty.is_array() || ty.row_relation().is_some() => {
            TypeFacts { by_value: false, align: 'i', storage: 'x', collation: 0 }
        }
        None => TypeFacts { by_value: true, align: 'i', storage: 'p', collation: 0 },
    }
}

/// The name of a type in `pg_type`, and the schema that it is in.
pub(super) fn type_name(system: &SystemCatalog<'_>, oid: u32) -> Option<(String, String)> {
    let in_catalog = |name: String| (super::PG_CATALOG.to_string(), name);
    match Type::from_oid(oid) {
        Some(ty @ (Type::Enum(_) | Type::Composite(_) | Type::Array(_))) => match ty.internal_name() {
            Some(name) => Some(in_catalog(name)),
            None => {
                let element = ty.element().map_or(oid, Type::oid);
                let prefix = if element == oid { "" } else { "_" };
                let (schema, name) = match system.objects().user_type_by_oid(element) {
                    Some(ty) => (ty.schema(), ty.name()),
                    None => {
                        let (schema, name) = system.objects().row_type(Type::Composite(element))?;
                        (schema.as_str(), name.as_str())
                    }
                };
                Some((schema.to_string(), format!("{prefix}{name}")))
            }
        },
        Some(ty) => ty.internal_name().map(in_catalog),
        None => None,
    }
}

pub(super) fn rows(system: &SystemCatalog<'_>, out: &mut Output) {
    for line in LINES.iter() {
        row!(
            out,
            oid = line.oid(at::OID),
            typname = line.word(at::NAME),
            typnamespace = PG_CATALOG_OID,
            typowner = OWNER,
            typlen = line.word(at::LENGTH).parse::<i16>().unwrap_or(-1),
            typbyval = line.word(at::BY_VALUE) == "1",
            typtype = line.letter(at::KIND),
            typcategory = line.letter(at::CATEGORY),
            typispreferred = line.word(at::PREFERRED) == "1",
            typisdefined = true,
            typdelim = line.letter(at::DELIMITER),
            typsubscript = line.oid(at::SUBSCRIPT),
            typelem = line.oid(at::ELEMENT),
            typarray = line.oid(at::ARRAY),
            typinput = line.oid(at::INPUT),
            typoutput = line.oid(at::OUTPUT),
            typreceive = line.oid(at::RECEIVE),
            typsend = line.oid(at::SEND),
            typmodin = line.oid(at::MODIFIER_IN),
            typmodout = line.oid(at::MODIFIER_OUT),
            typalign = line.letter(at::ALIGN),
            typstorage = line.letter(at::STORAGE),
            typtypmod = -1_i32,
            typcollation = line.oid(at::COLLATION),
        );
    }
    user_types(system, out);
    row_types(system, out);
}

/// The oid of a function that reads or writes values of a type.
fn function(name: &str) -> u32 {
    TYPE_FUNCTIONS.iter().find(|(_, known)| *known == name).map_or(0, |(oid, _)| *oid)
}

fn user_types(system: &SystemCatalog<'_>, out: &mut Output) {
    let catalog = system.objects();
    let mut types: Vec<_> = catalog.types().collect();
    types.sort_by_key(|ty| ty.oid());
    for ty in types {
        match ty {
            UserType::Enum(ty) => {
                let schema = schema_oid(catalog, &ty.schema);
                let acl = acl_of(system, &ty.rights);
                user_enum(out, (ty.oid, &ty.name, schema), ty.rights.owner, acl);
            }
            UserType::Composite(ty) => {
                let schema = schema_oid(catalog, &ty.schema);
                let acl = acl_of(system, &ty.rights);
                row_type(out, (ty.relation(), &ty.name, schema), ty.rights.owner, acl);
            }
            UserType::Domain(domain) => {
                let facts = type_facts(domain.ty);
                row!(
                    out,
                    oid = domain.oid,
                    typname = &domain.name,
                    typnamespace = schema_oid(catalog, &domain.schema),
                    typowner = domain.rights.owner,
                    typacl = acl_of(system, &domain.rights),
                    typlen = domain.ty.length(),
                    typbyval = facts.by_value,
                    typtype = 'd',
                    typcategory = domain.ty.category().letter(),
                    typisdefined = true,
                    typdelim = ',',
                    typinput = function("domain_in"),
                    typreceive = function("domain_recv"),
                    typalign = facts.align,
                    typstorage = facts.storage,
                    typnotnull = domain.not_null,
                    typbasetype = domain.base.unwrap_or(domain.ty.oid()),
                    typtypmod = if domain.base.is_some() { -1 } else { domain.modifier.0 },
                    typcollation = facts.collation,
                    typdefaultbin = domain.default.as_ref().map(|text| default_text(system, domain.ty, text)),
                    typdefault = domain.default.as_ref().map(|text| default_text(system, domain.ty, text)),
                );
            }
        }
    }
}

/// The row types of tables, and their arrays.
fn row_types(system: &SystemCatalog<'_>, out: &mut Output) {
    let catalog = system.objects();
    for table in super::classes::tables(catalog) {
        let schema = schema_oid(catalog, &table.schema);
        row_type(out, (table.oid, &table.name, schema), table.rights.owner, crate::types::Value::Null);
    }
}

/// A row type, and its array type.
fn row_type(
    out: &mut Output,
    (relation, name, schema): (u32, &str, u32),
    owner: u32,
    acl: crate::types::Value,
) {
    let oid = Type::row_of(relation).oid();
    row!(
        out,
        oid = oid,
        typname = name,
        typnamespace = schema,
        typowner = owner,
        typacl = acl,
        typlen = -1_i16,
        typtype = 'c',
        typcategory = 'C',
        typisdefined = true,
        typdelim = ',',
        typrelid = relation,
        typarray = oid + 1,
        typinput = function("record_in"),
        typoutput = function("record_out"),
        typreceive = function("record_recv"),
        typsend = function("record_send"),
        typalign = 'd',
        typstorage = 'x',
        typtypmod = -1_i32,
    );
    array_type(out, oid, (name, schema), owner);
}

/// An enum and its array type.
fn user_enum(out: &mut Output, (oid, name, schema): (u32, &str, u32), owner: u32, acl: crate::types::Value) {
    row!(
        out,
        oid = oid,
        typname = name,
        typnamespace = schema,
        typowner = owner,
        typacl = acl,
        typlen = 4_i16,
        typbyval = true,
        typtype = 'e',
        typcategory = 'E',
        typisdefined = true,
        typdelim = ',',
        typarray = oid + 1,
        typinput = function("enum_in"),
        typoutput = function("enum_out"),
        typreceive = function("enum_recv"),
        typsend = function("enum_send"),
        typalign = 'i',
        typstorage = 'p',
        typtypmod = -1_i32,
    );
    array_type(out, oid, (name, schema), owner);
}

/// The array type over a user-defined type.
fn array_type(out: &mut Output, oid: u32, (name, schema): (&str, u32), owner: u32) {
    row!(
        out,
        oid = oid + 1,
        typname = format!("_{name}"),
        typnamespace = schema,
        typowner = owner,
        typlen = -1_i16,
        typtype = 'b',
        typcategory = 'A',
        typisdefined = true,
        typdelim = ',',
        typsubscript = function("array_subscript_handler"),
        typelem = oid,
        typinput = function("array_in"),
        typoutput = function("array_out"),
        typreceive = function("array_recv"),
        typsend = function("array_send"),
        typalign = 'i',
        typstorage = 'x',
        typtypmod = -1_i32,
    );
}

pub(super) fn labels(system: &SystemCatalog<'_>, out: &mut Output) {
    for ty in system.objects().types() {
        let UserType::Enum(ty) = ty else { continue };
        for (at, label) in ty.labels.iter().enumerate() {
            row!(
                out,
                oid = derived_oid(ty.oid, 'e', label),
                enumtypid = ty.oid,
                enumsortorder = (at + 1) as f32,
                enumlabel = &**label,
            );
        }
    }
}

/// The collations: the database's, and by bytes.
pub(super) const COLLATIONS: [(u32, &str); 3] = [(100, "default"), (950, "C"), (951, "POSIX")];

/// The oid of a collation that a column is declared with; the default, and those that are no rows of `pg_collation`, have none.
pub(crate) fn declared_collation(name: &str) -> Option<u32> {
    COLLATIONS.iter().find(|(oid, known)| *oid != 100 && *known == name).map(|(oid, _)| *oid)
}

/// The name of a collation.
pub(super) fn collation_name(oid: u32) -> Option<&'static str> {
    COLLATIONS.iter().find(|(known, _)| *known == oid).map(|(_, name)| *name)
}

pub(super) fn collations(_: &SystemCatalog<'_>, out: &mut Output) {
    for (oid, name) in COLLATIONS {
        let locale = (oid != 100).then_some(name);
        row!(
            out,
            oid = oid,
            collname = name,
            collnamespace = PG_CATALOG_OID,
            collowner = OWNER,
            collprovider = if oid == 100 { 'd' } else { 'c' },
            collisdeterministic = true,
            collencoding = -1_i32,
            collcollate = locale,
            collctype = locale,
        );
    }
}

pub(super) fn access_methods(_: &SystemCatalog<'_>, out: &mut Output) {
    row!(out, oid = 2_u32, amname = "heap", amtype = 't');
    for (oid, name) in Method::ALL.map(Method::oid_and_name) {
        row!(out, oid = oid, amname = name, amtype = 'i');
    }
}

pub(super) fn languages(_: &SystemCatalog<'_>, out: &mut Output) {
    let named = [Language::C, Language::Sql, Language::Plpgsql].map(|it| (it.oid(), it.name()));
    for (oid, name) in [(12, "internal")].into_iter().chain(named) {
        row!(
            out,
            oid = oid,
            lanname = name,
            lanowner = OWNER,
            lanispl = name == "plpgsql",
            lanpltrusted = !matches!(name, "internal" | "c"),
        );
    }
}

/// A line of `classes.txt`: oid, name, family, type, type of what is stored.
fn class_lines() -> impl Iterator<Item = (u32, &'static str, [u32; 3])> {
    include_str!("classes.txt").lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (oid, name) = (words.next()?.parse().ok()?, words.next()?);
        let mut number = || words.next().and_then(|word| word.parse().ok());
        Some((oid, name, [number()?, number()?, number()?]))
    })
}

/// Returns true if a class is the one that orders its type unless another one is named.
fn is_default(name: &str) -> bool {
    !name.ends_with("_pattern_ops") && !matches!(name, "varchar_ops" | "cidr_ops")
}

/// The B-tree operator class that is named for a key of an index; `None` for the default one of its type.
///
/// # Errors
/// 42704: there is none of this name; 42804: it is another type's.
pub(crate) fn named_class(name: &str, ty: Type) -> Result<Option<&'static str>> {
    let Some((oid, name, [_, input, _])) = class_lines().find(|(_, known, _)| *known == name) else {
        let message = format!("operator class \"{name}\" does not exist for access method \"btree\"");
        return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
    };
    let is_coercible = matches!(ty, Type::Text | Type::Varchar) && input == Type::Bpchar.oid();
    if oid != operator_class(ty, None) && input != class_input(ty).oid() && !is_coercible {
        let ty = ty.display_name();
        let message = format!("operator class \"{name}\" does not accept data type {ty}");
        return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
    }
    Ok((name.ends_with("_pattern_ops")).then_some(name))
}

/// The oid of the B-tree operator class by which an index orders a type, unless another one is named.
pub(super) fn operator_class(ty: Type, named: Option<&str>) -> u32 {
    let input = class_input(ty).oid();
    let is_it = |name: &str, kind: u32| match named {
        Some(named) => name == named,
        None => kind == input && is_default(name),
    };
    class_lines().find(|(_, name, [_, kind, _])| is_it(name, *kind)).map_or(0, |(oid, ..)| oid)
}

/// The type that operator classes name for a type.
fn class_input(ty: Type) -> Type {
    match ty {
        Type::Varchar => Type::Text,
        Type::Cidr => Type::Inet,
        Type::Enum(_) => Type::AnyEnum,
        Type::Array(_) | Type::Int2Vector => Type::AnyArray,
        Type::Xid => Type::Oid,
        other if other.is_reg() => Type::Oid,
        other => other,
    }
}

pub(super) fn operator_families(_: &SystemCatalog<'_>, out: &mut Output) {
    for line in include_str!("families.txt").lines() {
        let (oid, name) = line.split_once(' ').unwrap_or((line, ""));
        row!(
            out,
            oid = oid.parse::<u32>().unwrap_or(0),
            opfmethod = 403_u32,
            opfname = name,
            opfnamespace = PG_CATALOG_OID,
            opfowner = OWNER,
        );
    }
}

pub(super) fn operator_classes(_: &SystemCatalog<'_>, out: &mut Output) {
    for (oid, name, [family, input, key]) in class_lines() {
        row!(
            out,
            oid = oid,
            opcmethod = 403_u32,
            opcname = name,
            opcnamespace = PG_CATALOG_OID,
            opcowner = OWNER,
            opcfamily = family,
            opcintype = input,
            opcdefault = is_default(name),
            opckeytype = key,
        );
    }
}
