//! Objects of the system by their names, and their names: the input and output of `regclass`, `regproc` and their kin.

use super::procedures::{function_by_oid, function_name, function_oid, overload_oid, type_function_oid};
use super::types::COLLATIONS;
use super::{
    INFORMATION_SCHEMA, INFORMATION_SCHEMA_OID, OWNER, PG_CATALOG, PG_CATALOG_OID, find, relation_by_oid,
};
use crate::catalog::{Catalog, UserType};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::{parse_name, parse_name_of_labels, quote_identifier};
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
            UserType::Composite(ty) => Some(quote_identifier(&ty.name)),
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
        ObjectKind::FunctionSignature => {
            let signature = |name: &str, types: &[Type]| {
                let types: Vec<String> = types.iter().map(|ty| catalog.type_display(*ty)).collect();
                format!("{}({})", quote_identifier(name), types.join(","))
            };
            match catalog.routine_by_oid(oid) {
                Some(routine) => Some(signature(&routine.name, &routine.input_types())),
                None => function_by_oid(oid).map(|function| signature(function.name, &function.arguments)),
            }
        }
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
/// 22P02: it is no name with types in parentheses. 42602: the name is none. 42704: a type is unknown.
pub(crate) fn oid_by_signature(
    catalog: &Catalog,
    path: &[String],
    signature: &str,
    type_by_name: impl Fn(&str) -> Option<Type>,
) -> Result<Option<u32>> {
    let (name, types) = split_signature(signature)?;
    let parts = parse_name_of_labels(name)
        .map_err(|_| SqlError::new(SqlState::INVALID_NAME, "invalid name syntax"))?;
    let types = types.into_iter().map(|name| {
        let unknown = || SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{name}\" does not exist"));
        type_by_name(name).ok_or_else(unknown)
    });
    let types: Result<Vec<Type>> = types.collect();
    if let Ok(types) = &types {
        let routines = catalog.find_routines(parts.schema(), parts.last(), path);
        if let Some(routine) = routines.iter().find(|routine| routine.input_types() == *types) {
            return Ok(Some(routine.oid));
        }
    }
    let is_built_in = parts.schema().is_none_or(|schema| schema == PG_CATALOG);
    // PostgreSQL has one function of each such name, and the types of its arguments are not kept here.
    if is_built_in && let Some(oid) = type_function_oid(parts.last()) {
        return Ok(Some(oid));
    }
    Ok(overload_oid(parts.last(), &types?).filter(|_| is_built_in))
}

/// The name and the names of the types of a signature. Quoted parentheses and commas belong to a name, and those in
/// parentheses to a type.
fn split_signature(signature: &str) -> Result<(&str, Vec<&str>)> {
    let malformed = |message: &str| SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message);
    let mut is_quoted = false;
    let left = signature.bytes().position(|byte| {
        is_quoted ^= byte == b'"';
        byte == b'(' && !is_quoted
    });
    let (name, types) = signature.split_at(left.ok_or_else(|| malformed("expected a left parenthesis"))?);
    let types = types[1..].trim_end().strip_suffix(')');
    let types = types.ok_or_else(|| malformed("expected a right parenthesis"))?;
    if types.trim().is_empty() {
        return Ok((name, Vec::new()));
    }
    let (mut names, mut start, mut depth) = (Vec::new(), 0, 0_i32);
    is_quoted = false;
    for (at, byte) in types.bytes().enumerate() {
        is_quoted ^= byte == b'"';
        match byte {
            _ if is_quoted => {}
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b',' if depth == 0 => {
                names.push(types[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
        if depth < 0 {
            break;
        }
    }
    names.push(types[start..].trim());
    if is_quoted || depth != 0 {
        return Err(malformed("improper type name"));
    }
    if names.iter().any(|name| name.is_empty()) {
        return Err(malformed("expected a type name"));
    }
    Ok((name, names))
}
