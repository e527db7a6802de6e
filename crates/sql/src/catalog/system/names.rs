//! Objects of the system by their names, and their names: what `regclass`, `regproc` and their kin read and print.

use super::procedures::{function_by_oid, function_name, function_oid, overload_oid, type_function_oid};
use super::types::COLLATIONS;
use super::{
    INFORMATION_SCHEMA, INFORMATION_SCHEMA_OID, OWNER, PG_CATALOG, PG_CATALOG_OID, find, relation_by_oid,
};
use crate::catalog::{Catalog, UserType};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::{parse_name, quote_identifier};
use crate::types::Type;
use crate::types::environment::ObjectKind;

/// The name of an object that the catalog itself does not know: a system relation, a function, a role, a domain.
pub(crate) fn name_of(
    catalog: &Catalog,
    path: &[String],
    bootstrap: &str,
    kind: ObjectKind,
    oid: u32,
) -> Option<String> {
    match kind {
        ObjectKind::Relation => {
            let relation = relation_by_oid(oid)?;
            let visible = find(catalog, None, relation.name, path).is_some_and(|found| found.oid == oid);
            let schema = if visible { String::new() } else { format!("{}.", relation.schema) };
            Some(format!("{schema}{}", relation.name))
        }
        ObjectKind::Type => match catalog.user_type_by_oid(oid)? {
            UserType::Enum(ty) => Some(quote_identifier(&ty.name)),
            UserType::Domain(domain) => Some(quote_identifier(&domain.name)),
        },
        ObjectKind::Schema => match oid {
            PG_CATALOG_OID => Some(PG_CATALOG.to_string()),
            INFORMATION_SCHEMA_OID => Some(INFORMATION_SCHEMA.to_string()),
            _ => None,
        },
        ObjectKind::Role if oid == OWNER => Some(quote_identifier(bootstrap)),
        ObjectKind::Role => catalog.role_by_oid(oid).map(|role| quote_identifier(&role.name)),
        ObjectKind::Function => match catalog.routine_by_oid(oid) {
            Some(routine) => Some(quote_identifier(&routine.name)),
            None => function_name(oid).map(str::to_string),
        },
        ObjectKind::FunctionSignature => match catalog.routine_by_oid(oid) {
            Some(routine) => Some(routine.signature(|ty| catalog.type_display(ty))),
            None => function_by_oid(oid).map(|function| {
                let types = function.arguments.iter().map(|ty| catalog.type_display(*ty));
                format!("{}({})", function.name, types.collect::<Vec<_>>().join(","))
            }),
        },
        ObjectKind::Collation => {
            let known = COLLATIONS.into_iter().find(|(known, _)| *known == oid);
            known.map(|(_, name)| quote_identifier(name))
        }
        ObjectKind::Operator | ObjectKind::OperatorSignature => None,
    }
}

/// The object of the system with this name.
///
/// # Errors
/// 42601, 42602: the text is no name.
pub(crate) fn oid_by_name(
    catalog: &Catalog,
    path: &[String],
    bootstrap: &str,
    kind: ObjectKind,
    name: &str,
) -> Result<Option<u32>> {
    let parts = parse_name(name)?;
    Ok(match kind {
        ObjectKind::Relation => find(catalog, parts.schema(), parts.last(), path).map(|found| found.oid),
        ObjectKind::Schema => match parts.last() {
            PG_CATALOG => Some(PG_CATALOG_OID),
            INFORMATION_SCHEMA => Some(INFORMATION_SCHEMA_OID),
            _ => None,
        },
        ObjectKind::Role => match catalog.role(parts.last()) {
            Some(role) => Some(role.oid),
            None => (parts.last() == bootstrap).then_some(OWNER),
        },
        ObjectKind::Function => {
            let routines = catalog.find_routines(parts.schema(), parts.last(), path);
            routines.first().map_or_else(|| function_oid(parts.last()), |routine| Some(routine.oid))
        }
        ObjectKind::Collation => {
            COLLATIONS.into_iter().find(|(_, known)| *known == parts.last()).map(|(oid, _)| oid)
        }
        ObjectKind::Type
        | ObjectKind::FunctionSignature
        | ObjectKind::Operator
        | ObjectKind::OperatorSignature => None,
    })
}

/// The function with this name and these arguments, `name(integer, text)`.
///
/// # Errors
/// 22P02: parentheses are missing. 42601, 42602: the name is none. 42704: a type is unknown.
pub(crate) fn oid_by_signature(
    catalog: &Catalog,
    path: &[String],
    signature: &str,
    type_by_name: impl Fn(&str) -> Option<Type>,
) -> Result<Option<u32>> {
    let expected =
        |what| SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, format!("expected a {what} parenthesis"));
    let (name, types) = signature.split_once('(').ok_or_else(|| expected("left"))?;
    let types = types.trim_end().strip_suffix(')').ok_or_else(|| expected("right"))?;
    let parts = parse_name(name.trim())?;
    let is_built_in = parts.schema().is_none_or(|schema| schema == PG_CATALOG);
    // PostgreSQL has one function of each such name, and the types of its arguments are not kept here.
    if is_built_in && let Some(oid) = type_function_oid(parts.last()) {
        return Ok(Some(oid));
    }
    let types = types.split(',').map(str::trim).filter(|_| !types.trim().is_empty());
    let types = types.map(|name| {
        let unknown = || SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{name}\" does not exist"));
        type_by_name(name).ok_or_else(unknown)
    });
    let types: Vec<Type> = types.collect::<Result<_>>()?;
    let routines = catalog.find_routines(parts.schema(), parts.last(), path);
    let routine = routines.iter().find(|routine| routine.input_types() == types).map(|routine| routine.oid);
    Ok(routine.or_else(|| overload_oid(parts.last(), &types).filter(|_| is_built_in)))
}
