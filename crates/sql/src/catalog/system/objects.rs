//! Objects in words: `pg_describe_object` and `pg_identify_object`.
//!
//! # Invariants
//! - A description qualifies a name where the search path does not lead to it, an identity always does.
//!
//! Source: PostgreSQL 15, `getObjectDescription` and `getObjectIdentityParts` in `objectaddress.c`.

use std::sync::Arc;

use super::constraints::Owner;
use super::definitions::shown_relation;
use super::dependencies::RULE;
use super::listings::{PG_CLASS, PG_CONSTRAINT, PG_EXTENSION, PG_NAMESPACE, PG_PROC, PG_TRIGGER, PG_TYPE};
use super::names::name_of;
use super::owners::{constraint_by_oid, default_oid, owner_of};
use super::procedures::function_by_oid;
use super::types::type_name;
use super::{PG_CATALOG, PG_CATALOG_OID, SystemCatalog, relation_by_oid};
use crate::catalog::role::BOOTSTRAP;
use crate::catalog::{Catalog, Relation, UserType};
use crate::functions::definition::FunctionContext;
use crate::parse::quote_identifier;
use crate::types::environment::ObjectKind;
use crate::types::record::RecordValue;
use crate::types::{Modifier, Type, Value, format_type};

const PG_AUTHID: u32 = 1260;
const PG_ATTRDEF: u32 = 2604;
const PG_REWRITE: u32 = 2618;

/// An object in words.
struct Words {
    /// `table column`
    kind: String,
    schema: Option<String>,
    /// Its name, if that alone identifies it in its schema.
    name: Option<String>,
    /// `public.t.a`
    identity: String,
    /// `column a of table t`
    description: String,
}

/// `pg_describe_object(classid, objid, objsubid)`
pub(super) fn description(
    context: &mut FunctionContext<'_>,
    values: &[Value],
) -> crate::error::Result<Value> {
    let found = words(context, values);
    Ok(found.map_or(Value::Null, |words| Value::text(words.description)))
}

/// `pg_identify_object(classid, objid, objsubid)`
pub(super) fn identification(context: &mut FunctionContext<'_>, values: &[Value]) -> Value {
    let text = |text: Option<String>| text.map_or(Value::Null, Value::text);
    let fields = words(context, values).map_or_else(
        || vec![Value::Null; 4],
        |words| {
            vec![Value::text(words.kind), text(words.schema), text(words.name), Value::text(words.identity)]
        },
    );
    Value::Record(Arc::new(RecordValue::anonymous(&[Type::Text; 4], fields)))
}

fn words(context: &mut FunctionContext<'_>, values: &[Value]) -> Option<Words> {
    let (Value::Oid(class), Value::Oid(object), column) = (&values[0], &values[1], values[2].int4()) else {
        return None;
    };
    let system = context.environment.system_catalog()?;
    match *class {
        PG_CLASS => relation(&system, *object, column),
        PG_TYPE => of_type(&system, *object),
        PG_PROC => routine(&system, *object),
        PG_NAMESPACE => schema(&system, *object),
        PG_CONSTRAINT => constraint(&system, *object),
        PG_TRIGGER => trigger(&system, *object),
        PG_AUTHID => role(&system, *object),
        PG_ATTRDEF => default(&system, *object),
        PG_REWRITE => rule(&system, *object),
        PG_EXTENSION => {
            system.objects().extension_by_oid(*object).map(|it| plain("extension", None, &it.name))
        }
        _ => None,
    }
}

/// An object that its name identifies.
fn plain(kind: &str, schema: Option<&str>, name: &str) -> Words {
    let quoted = quote_identifier(name);
    Words {
        kind: kind.to_string(),
        schema: schema.map(str::to_string),
        identity: schema.map_or(quoted.clone(), |schema| format!("{}.{quoted}", quote_identifier(schema))),
        description: format!("{kind} {name}"),
        name: Some(quoted),
    }
}

fn role(system: &SystemCatalog<'_>, oid: u32) -> Option<Words> {
    let is_there = oid == BOOTSTRAP || system.objects().role_by_oid(oid).is_some();
    is_there.then(|| plain("role", None, &system.session.role_name(oid)))
}

/// The rule of a view or a materialized view.
fn rule(system: &SystemCatalog<'_>, oid: u32) -> Option<Words> {
    let on = relation(system, owner_of(system.objects(), oid)?, 0)?;
    Some(Words {
        kind: "rule".to_string(),
        schema: None,
        name: None,
        identity: format!("{} on {}", quote_identifier(RULE), on.identity),
        description: format!("rule {RULE} on {}", on.description),
    })
}

fn schema(system: &SystemCatalog<'_>, oid: u32) -> Option<Words> {
    let found = system.objects().schemas().find(|schema| schema.oid == oid);
    let name = found.map(|schema| schema.name.clone());
    Some(plain("schema", None, &name.or_else(|| (oid == PG_CATALOG_OID).then(|| PG_CATALOG.to_string()))?))
}

/// A relation's description, and the names of its columns.
fn relation(system: &SystemCatalog<'_>, oid: u32, column: i32) -> Option<Words> {
    let catalog = system.objects();
    let (kind, (schema, name), columns) = match relation_by_oid(oid) {
        Some(found) => {
            let kind = if found.kind == 'v' { "view" } else { "table" };
            let columns = found.columns.iter().map(|column| column.name.to_string()).collect();
            (kind, (found.schema.to_string(), found.name.to_string()), columns)
        }
        None => of_user(catalog, oid)?,
    };
    let shown = shown_relation(system, oid).unwrap_or_else(|| name.clone());
    let mut words = plain(kind, Some(&schema), &name);
    words.description = format!("{kind} {shown}");
    if column > 0 {
        let column = columns.get(column as usize - 1)?;
        words.kind = format!("{kind} column");
        words.identity = format!("{}.{}", words.identity, quote_identifier(column));
        words.description = format!("column {column} of {kind} {shown}");
    }
    Some(words)
}

type Named = (&'static str, (String, String), Vec<String>);

fn of_user(catalog: &Catalog, oid: u32) -> Option<Named> {
    let relation = catalog.relation_by_oid(oid)?;
    let (schema, name) = catalog.relation_name(oid)?;
    let columns: Vec<String> = match relation {
        Relation::Table(table) => table.visible().iter().map(|column| column.name.clone()).collect(),
        _ => relation.column_names().iter().map(|name| name.to_string()).collect(),
    };
    Some((relation.kind(), (schema.clone(), name.clone()), columns))
}

fn of_type(system: &SystemCatalog<'_>, oid: u32) -> Option<Words> {
    let (schema, name) = type_name(system, oid)?;
    let is_visible = schema == PG_CATALOG
        || system.objects().find_type(None, &name, &system.session.path()).map(UserType::oid) == Some(oid);
    let mut words = plain("type", Some(&schema), &name);
    if schema == PG_CATALOG {
        words.identity = qualified_type(system, Type::from_oid(oid)?);
        words.description = format!("type {}", format_type(Type::from_oid(oid)?, Modifier::NONE, &|_| None));
    } else if !is_visible {
        words.description = format!("type {}", words.identity);
    }
    Some(words)
}

/// A type with its schema, but for those that the grammar has words of their own for.
fn qualified_type(system: &SystemCatalog<'_>, ty: Type) -> String {
    let element = ty.element().filter(|_| matches!(ty, Type::Array(_))).unwrap_or(ty);
    let shown = format_type(element, Modifier::NONE, &|_| None);
    let name = match type_name(system, element.oid()) {
        Some((schema, name)) if schema != PG_CATALOG || name == shown => {
            format!("{}.{}", quote_identifier(&schema), quote_identifier(&name))
        }
        _ => shown,
    };
    if element == ty { name } else { format!("{name}[]") }
}

fn routine(system: &SystemCatalog<'_>, oid: u32) -> Option<Words> {
    let catalog = system.objects();
    let signature = name_of(catalog, &system.session.path(), "", ObjectKind::FunctionSignature, oid)?;
    let (kind, schema, name, types, is_visible) = match catalog.routine_by_oid(oid) {
        Some(routine) => {
            let found = catalog.find_routines(None, &routine.name, &system.session.path());
            let is_visible = found.iter().any(|found| found.oid == oid);
            let kind = if routine.is_procedure { "procedure" } else { "function" };
            (kind, routine.schema.clone(), routine.name.clone(), routine.input_types(), is_visible)
        }
        None => {
            let function = function_by_oid(oid)?;
            let kind = if function.is_aggregate() { "aggregate" } else { "function" };
            (kind, PG_CATALOG.to_string(), function.name.to_string(), function.arguments.to_vec(), true)
        }
    };
    let types: Vec<String> = types.into_iter().map(|ty| qualified_type(system, ty)).collect();
    let mut words = plain(kind, Some(&schema), &name);
    words.identity = format!("{}({})", words.identity, types.join(","));
    let prefix = if is_visible { String::new() } else { format!("{}.", quote_identifier(&schema)) };
    words.description = format!("function {prefix}{signature}");
    words.name = None;
    Some(words)
}

fn constraint(system: &SystemCatalog<'_>, oid: u32) -> Option<Words> {
    let found = constraint_by_oid(system.objects(), oid)?;
    let (kind, on) = match found.owner {
        Owner::Table(table) => ("table constraint", relation(system, table.oid, 0)?),
        Owner::Domain(domain) => ("domain constraint", of_type(system, domain.oid)?),
    };
    let on_what = match found.owner {
        Owner::Table(_) => format!(" on {}", on.description),
        Owner::Domain(_) => String::new(),
    };
    Some(Words {
        kind: kind.to_string(),
        schema: Some(found.schema.to_string()),
        name: None,
        identity: format!("{} on {}", quote_identifier(found.name), on.identity),
        description: format!("constraint {}{on_what}", found.name),
    })
}

fn trigger(system: &SystemCatalog<'_>, oid: u32) -> Option<Words> {
    let catalog = system.objects();
    let trigger = catalog.triggers_of(owner_of(catalog, oid)?).iter().find(|trigger| trigger.oid == oid)?;
    let on = relation(system, trigger.table, 0)?;
    Some(Words {
        kind: "trigger".to_string(),
        schema: None,
        name: None,
        identity: format!("{} on {}", quote_identifier(&trigger.name), on.identity),
        description: format!("trigger {} on {}", trigger.name, on.description),
    })
}

fn default(system: &SystemCatalog<'_>, oid: u32) -> Option<Words> {
    let catalog = system.objects();
    let table = catalog.table_by_oid(owner_of(catalog, oid)?)?;
    let column = table.visible().iter().position(|it| default_oid(table.oid, &it.name) == oid)?;
    let on = relation(system, table.oid, column as i32 + 1)?;
    Some(Words {
        kind: "default value".to_string(),
        schema: None,
        name: None,
        identity: format!("for {}", on.identity),
        description: format!("default value for {}", on.description),
    })
}
