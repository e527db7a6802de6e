//! The functions that ask for privileges: of the current role or of a named one, of objects by name or by oid; access
//! lists as `aclitem[]` prints them.
//!
//! # Invariants
//! An object that is named must exist; of an oid that no object has, the answer is NULL, as in PostgreSQL.
//!
//! Source: PostgreSQL 15, `acl.c` (`has_table_privilege` and its kin).

use super::row::list;
use super::{SystemCatalog, relation_by_oid};
use crate::catalog::Relation;
use crate::catalog::rights::{
    AclItem, EXECUTE, NAMES, PUBLIC_ROLE, Privileges, Rights, RightsKind, SELECT, USAGE, default_acl,
    item_text,
};
use crate::catalog::role::no_role;
use crate::catalog::securables::Securable;
use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::{Definition, FunctionContext, scalar};
use crate::parse::quote_identifier;
use crate::types::environment::ObjectKind;
use crate::types::{Type, Value};

/// The implementation of a function.
type Answer = fn(&mut FunctionContext<'_>, &[Value]) -> Result<Value>;

/// The functions.
pub(crate) const PRIVILEGES: &[Definition] = &[
    scalar("pg_has_role(name, text) bool", has_role).stable(),
    scalar("pg_has_role(oid, text) bool", has_role).stable(),
    scalar("pg_has_role(name, name, text) bool", has_role).stable(),
    scalar("pg_has_role(name, oid, text) bool", has_role).stable(),
    scalar("pg_has_role(oid, name, text) bool", has_role).stable(),
    scalar("pg_has_role(oid, oid, text) bool", has_role).stable(),
    scalar("acldefault(char, oid) text[]", default_privileges).stable(),
    scalar("has_table_privilege(text, text) bool", TABLE).stable(),
    scalar("has_table_privilege(oid, text) bool", TABLE).stable(),
    scalar("has_table_privilege(name, text, text) bool", TABLE).stable(),
    scalar("has_table_privilege(name, oid, text) bool", TABLE).stable(),
    scalar("has_table_privilege(oid, text, text) bool", TABLE).stable(),
    scalar("has_table_privilege(oid, oid, text) bool", TABLE).stable(),
    scalar("has_any_column_privilege(text, text) bool", ANY_COLUMN).stable(),
    scalar("has_any_column_privilege(oid, text) bool", ANY_COLUMN).stable(),
    scalar("has_any_column_privilege(name, text, text) bool", ANY_COLUMN).stable(),
    scalar("has_any_column_privilege(name, oid, text) bool", ANY_COLUMN).stable(),
    scalar("has_column_privilege(text, text, text) bool", has_column).stable(),
    scalar("has_column_privilege(text, int2, text) bool", has_column).stable(),
    scalar("has_column_privilege(oid, text, text) bool", has_column).stable(),
    scalar("has_column_privilege(oid, int2, text) bool", has_column).stable(),
    scalar("has_column_privilege(name, text, text, text) bool", has_column).stable(),
    scalar("has_column_privilege(name, oid, text, text) bool", has_column).stable(),
    scalar("has_column_privilege(name, text, int2, text) bool", has_column).stable(),
    scalar("has_column_privilege(name, oid, int2, text) bool", has_column).stable(),
    scalar("has_sequence_privilege(text, text) bool", SEQUENCE).stable(),
    scalar("has_sequence_privilege(oid, text) bool", SEQUENCE).stable(),
    scalar("has_sequence_privilege(name, text, text) bool", SEQUENCE).stable(),
    scalar("has_sequence_privilege(name, oid, text) bool", SEQUENCE).stable(),
    scalar("has_schema_privilege(text, text) bool", SCHEMA).stable(),
    scalar("has_schema_privilege(oid, text) bool", SCHEMA).stable(),
    scalar("has_schema_privilege(name, text, text) bool", SCHEMA).stable(),
    scalar("has_schema_privilege(name, oid, text) bool", SCHEMA).stable(),
    scalar("has_database_privilege(text, text) bool", DATABASE).stable(),
    scalar("has_database_privilege(oid, text) bool", DATABASE).stable(),
    scalar("has_database_privilege(name, text, text) bool", DATABASE).stable(),
    scalar("has_database_privilege(name, oid, text) bool", DATABASE).stable(),
    scalar("has_type_privilege(oid, text) bool", TYPE).stable(),
    scalar("has_type_privilege(text, text) bool", TYPE).stable(),
    scalar("has_type_privilege(name, text, text) bool", TYPE).stable(),
    scalar("has_function_privilege(text, text) bool", FUNCTION).stable(),
    scalar("has_function_privilege(oid, text) bool", FUNCTION).stable(),
    scalar("has_function_privilege(name, text, text) bool", FUNCTION).stable(),
    scalar("has_function_privilege(name, oid, text) bool", FUNCTION).stable(),
    scalar("has_tablespace_privilege(oid, text) bool", yes).stable(),
    scalar("has_tablespace_privilege(text, text) bool", yes).stable(),
    scalar("has_language_privilege(oid, text) bool", yes).stable(),
];

const TABLE: Answer = |context, values| has(context, values, RightsKind::Table, false);
const ANY_COLUMN: Answer = |context, values| has(context, values, RightsKind::Table, true);
const SEQUENCE: Answer = |context, values| has(context, values, RightsKind::Sequence, false);
const SCHEMA: Answer = |context, values| has(context, values, RightsKind::Schema, false);
const DATABASE: Answer = |context, values| has(context, values, RightsKind::Database, false);
const FUNCTION: Answer = |context, values| has(context, values, RightsKind::Function, false);
const TYPE: Answer = |context, values| has(context, values, RightsKind::Type, false);

/// The answer for objects on which nothing is granted or revoked.
fn yes(_: &mut FunctionContext<'_>, _: &[Value]) -> Result<Value> {
    Ok(Value::Bool(true))
}

/// Privileges of which one is asked for, each with whether the option to grant it is.
type Wanted = Vec<(Privileges, bool)>;

/// Reads `SELECT, UPDATE WITH GRANT OPTION`.
fn wanted(text: &str, kind: RightsKind) -> Result<Wanted> {
    let read = |part: &str| {
        let upper = part.trim().to_uppercase();
        let (name, option) = match upper.strip_suffix("WITH GRANT OPTION") {
            Some(name) => (name.trim(), true),
            None => (upper.as_str(), false),
        };
        let name = if name == "TEMP" { "TEMPORARY" } else { name };
        let known = NAMES.iter().find(|(known, bit, _)| *known == name && kind.all() & bit != 0);
        let unknown = || {
            let message = format!("unrecognized privilege type: \"{}\"", part.trim());
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
        };
        known.map(|(_, bit, _)| (*bit, option)).ok_or_else(unknown)
    };
    text.split(',').map(read).collect()
}

/// The role of a call with `width` arguments besides it, and these arguments.
fn role_and_rest<'v>(
    context: &FunctionContext<'_>,
    values: &'v [Value],
    width: usize,
) -> Result<(u32, &'v [Value])> {
    if values.len() <= width {
        return Ok((context.environment.role(), values));
    }
    let role = match &values[0] {
        Value::Oid(oid) => *oid,
        name if name.str() == "public" => PUBLIC_ROLE,
        name => role_oid(context, name.str())?,
    };
    Ok((role, &values[1..]))
}

fn role_oid(context: &FunctionContext<'_>, name: &str) -> Result<u32> {
    let system = context.environment.system_catalog();
    system.and_then(|system| system.session.oid_of(name)).ok_or_else(|| no_role(name))
}

/// The oid of the object that an argument names.
fn object_oid(context: &FunctionContext<'_>, kind: RightsKind, value: &Value) -> Result<u32> {
    if let Value::Oid(oid) = value {
        return Ok(*oid);
    }
    let name = value.str();
    let (object, state, what) = match kind {
        RightsKind::Schema => (ObjectKind::Schema, SqlState::INVALID_SCHEMA_NAME, "schema"),
        RightsKind::Type => (ObjectKind::Type, SqlState::UNDEFINED_OBJECT, "type"),
        RightsKind::Function => (ObjectKind::FunctionSignature, SqlState::UNDEFINED_FUNCTION, "function"),
        RightsKind::Database => {
            let system = context.environment.system_catalog();
            if name == context.environment.database()
                || system.is_some_and(|system| system.session.is_database(name))
            {
                return Ok(super::DATABASE);
            }
            let message = format!("database \"{name}\" does not exist");
            return Err(SqlError::new(SqlState::INVALID_CATALOG_NAME, message));
        }
        _ => (ObjectKind::Relation, SqlState::UNDEFINED_TABLE, "relation"),
    };
    let found = context.environment.object_by_name(object, name)?;
    found.ok_or_else(|| SqlError::new(state, format!("{what} \"{name}\" does not exist")))
}

/// The object with this oid that has rights.
fn securable(system: &SystemCatalog<'_>, kind: RightsKind, oid: u32) -> Option<Securable> {
    match kind {
        RightsKind::Schema => {
            let schema = system.objects().schemas().find(|schema| schema.oid == oid)?;
            Some(Securable::Schema(schema.name.clone()))
        }
        RightsKind::Database => (oid == super::DATABASE).then_some(Securable::Database),
        RightsKind::Type => Some(Securable::Type(oid)),
        RightsKind::Function => Some(Securable::Routine(oid)),
        _ => Some(Securable::Relation(oid)),
    }
}

/// Rights on the system's own objects: every role reads them, but for those that show passwords.
fn system_rights(kind: RightsKind, oid: u32) -> Option<Rights> {
    let granted = match kind {
        RightsKind::Table if !relation_by_oid(oid)?.is_secret() => SELECT,
        RightsKind::Table => 0,
        RightsKind::Schema if [super::PG_CATALOG_OID, super::INFORMATION_SCHEMA_OID].contains(&oid) => USAGE,
        RightsKind::Type => USAGE,
        RightsKind::Function => EXECUTE,
        _ => return None,
    };
    let item = AclItem { grantee: PUBLIC_ROLE, grantor: super::OWNER, privileges: granted, grantable: 0 };
    Some(Rights { owner: super::OWNER, acl: Some(vec![item]) })
}

fn has(
    context: &mut FunctionContext<'_>,
    values: &[Value],
    kind: RightsKind,
    any_column: bool,
) -> Result<Value> {
    let (role, values) = role_and_rest(context, values, 2)?;
    let oid = object_oid(context, kind, &values[0])?;
    let wanted = wanted(values[1].str(), kind)?;
    let Some(system) = context.environment.system_catalog() else { return Ok(Value::Null) };
    let catalog = system.objects();
    let known = securable(&system, kind, oid).and_then(|object| catalog.rights(&object));
    if kind == RightsKind::Sequence
        && !matches!(catalog.relation_by_oid(oid), Some(Relation::Sequence(_)) | None)
    {
        let name = catalog.relation_name(oid).map_or("", |(_, name)| name.as_str());
        let message = format!("\"{name}\" is not a sequence");
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
    }
    let rights = known.map(|(_, rights)| rights).or_else(|| system_rights(kind, oid));
    let Some(rights) = rights else { return Ok(Value::Null) };
    let mut found = wanted.iter().any(|wanted| allows(&system, role, &rights, kind, *wanted));
    if any_column && !found {
        let columns = catalog.relation_by_oid(oid).map_or(0, |it| it.column_names().len());
        found = (0..columns).any(|column| has_on_column(&system, role, oid, column, &wanted));
    }
    Ok(Value::Bool(found))
}

fn allows(
    system: &SystemCatalog<'_>,
    role: u32,
    rights: &Rights,
    kind: RightsKind,
    (privilege, option): (Privileges, bool),
) -> bool {
    let catalog = system.objects();
    if option {
        catalog.grantable(role, rights, kind, privilege) != 0
    } else {
        catalog.may(role, rights, kind, privilege)
    }
}

fn has_on_column(system: &SystemCatalog<'_>, role: u32, table: u32, column: usize, wanted: &Wanted) -> bool {
    let rights = system.objects().rights(&Securable::Column(table, column));
    rights.is_some_and(|(_, rights)| {
        wanted.iter().any(|wanted| allows(system, role, &rights, RightsKind::Column, *wanted))
    })
}

fn has_column(context: &mut FunctionContext<'_>, values: &[Value]) -> Result<Value> {
    let (role, values) = role_and_rest(context, values, 3)?;
    let table = object_oid(context, RightsKind::Table, &values[0])?;
    let wanted = wanted(values[2].str(), RightsKind::Column)?;
    let Some(system) = context.environment.system_catalog() else { return Ok(Value::Null) };
    let Some(relation) = system.objects().relation_by_oid(table) else {
        let known = system_rights(RightsKind::Table, table).filter(|_| relation_by_oid(table).is_some());
        return Ok(known.map_or(Value::Null, |rights| {
            let allowed = |it: &(Privileges, bool)| allows(&system, role, &rights, RightsKind::Table, *it);
            Value::Bool(wanted.iter().any(allowed))
        }));
    };
    let names = relation.column_names();
    let position = match &values[1] {
        Value::Int2(number) => usize::try_from(*number - 1).ok().filter(|at| *at < names.len()),
        name => {
            let found = names.iter().position(|known| *known == name.str());
            if found.is_none() {
                let of = system.objects().relation_name(table).map_or("", |(_, name)| name.as_str());
                let message = format!("column \"{}\" of relation \"{of}\" does not exist", name.str());
                return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
            }
            found
        }
    };
    let Some(position) = position else { return Ok(Value::Null) };
    let rights = relation.rights().cloned().unwrap_or_default();
    let on_table = wanted.iter().any(|it| allows(&system, role, &rights, RightsKind::Table, *it));
    Ok(Value::Bool(on_table || has_on_column(&system, role, table, position, &wanted)))
}

/// `pg_has_role`: true if a role is a member of another (MEMBER), or also has its privileges (USAGE).
fn has_role(context: &mut FunctionContext<'_>, values: &[Value]) -> Result<Value> {
    let (member, values) = role_and_rest(context, values, 2)?;
    let role = match &values[0] {
        Value::Oid(oid) => *oid,
        name => role_oid(context, name.str())?,
    };
    let Some(system) = context.environment.system_catalog() else { return Ok(Value::Null) };
    let catalog = system.objects();
    let asks = |part: &str| -> Result<bool> {
        let upper = part.trim().to_uppercase();
        match upper.as_str() {
            "USAGE" => Ok(catalog.has_privileges_of(member, role)),
            "MEMBER" => Ok(catalog.is_member_of(member, role)),
            "USAGE WITH GRANT OPTION"
            | "USAGE WITH ADMIN OPTION"
            | "MEMBER WITH GRANT OPTION"
            | "MEMBER WITH ADMIN OPTION" => Ok(catalog.is_admin_of(member, role)),
            _ => {
                let message = format!("unrecognized privilege type: \"{}\"", part.trim());
                Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
            }
        }
    };
    for part in values[1].str().split(',') {
        if asks(part)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

/// The access list that an object has where nothing was granted.
fn default_privileges(context: &mut FunctionContext<'_>, values: &[Value]) -> Result<Value> {
    let letter = values[0].str().chars().next().unwrap_or_default();
    let Value::Oid(owner) = values[1] else { return Ok(Value::Null) };
    let kinds = [
        RightsKind::Table,
        RightsKind::Column,
        RightsKind::Sequence,
        RightsKind::Schema,
        RightsKind::Database,
        RightsKind::Type,
        RightsKind::Function,
    ];
    let Some(system) = context.environment.system_catalog() else { return Ok(Value::Null) };
    if let Some(kind) = kinds.into_iter().find(|kind| kind.letter() == letter) {
        return Ok(acl_value(&system, &default_acl(kind, owner)));
    }
    // Kinds of objects that PostgreSQL has besides.
    let (public, own) = match letter {
        'l' => ("U", "U"),
        'L' => ("", "rw"),
        't' => ("", "C"),
        'F' | 'S' => ("", "U"),
        'p' => ("", "sA"),
        _ => {
            let message = format!("unrecognized object type abbreviation: {letter}");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
    };
    let owner = quote_identifier(&system.session.role_name(owner));
    let granted = [("", public), (owner.as_str(), own)];
    let items = granted.iter().filter(|(_, privileges)| !privileges.is_empty());
    Ok(list(Type::Text, items.map(|(grantee, privileges)| format!("{grantee}={privileges}/{owner}"))))
}

/// An access list as `aclitem[]` prints it.
pub(super) fn acl_value(system: &SystemCatalog<'_>, acl: &[AclItem]) -> Value {
    let name = |oid| quote_identifier(&system.session.role_name(oid));
    list(Type::Text, acl.iter().map(|item| item_text(item, name)))
}

/// An object's access list; NULL where it is the default one.
pub(super) fn acl_of(system: &SystemCatalog<'_>, rights: &Rights) -> Value {
    rights.acl.as_ref().map_or(Value::Null, |acl| acl_value(system, acl))
}
