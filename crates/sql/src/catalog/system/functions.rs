//! The functions that clients ask about objects, roles and the session.
//!
//! # Invariants
//! - A function that finds no object answers NULL, as PostgreSQL's do.

use super::cluster::UTF8;
use super::definitions::{constraint_definition, index_definition, view_definition};
use super::listings::{commented_catalog, comments};
use super::objects;
use super::procedures::{function_by_oid, is_function};
use super::routines;
use super::sizes;
use super::triggers;
use super::types::type_name;
use super::{DATABASE, PG_CATALOG, SystemCatalog, find, relation_by_oid};
use crate::catalog::{Relation, UserType};
use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::{Definition, FunctionContext, Rows, RowsOf, scalar, set};
use crate::parse::{parse_name, quote_identifier};
use crate::types::array::ArrayValue;
use crate::types::environment::ObjectKind;

use crate::types::record::RecordValue;
use crate::types::{Modifier, Type, Value, format_type};

/// The functions of objects.
pub(crate) const OBJECTS: &[Definition] = &[
    set("heddle_system_rows(oid) setof record", system_rows).stable(),
    // No table is a partition.
    set("pg_partition_ancestors(regclass) setof regclass", |_, _| Ok(Box::new(RowsOf(std::iter::empty()))))
        .stable(),
    set("pg_partition_tree(regclass) setof record relid regclass; parentrelid regclass; isleaf bool; level int4", |_, _| {
        Ok(Box::new(RowsOf(std::iter::empty())))
    })
    .stable(),
    scalar("pg_describe_object(oid, oid, int4) text", objects::description).stable(),
    set("pg_identify_object(oid, oid, int4) setof record type text; schema text; name text; identity text", |c, v| {
        Ok(Box::new(RowsOf(std::iter::once(Ok(objects::identification(c, v))))))
    })
    .stable(),
    set("_pg_expandarray(int2vector) setof record x int2; n int4", expand).stable(),
    scalar("format_type(oid, int4) text", type_text).nullable().stable(),
    scalar("pg_get_expr(text, oid) text", |_, v| Ok(v[0].clone())).stable(),
    scalar("pg_get_expr(text, oid, bool) text", |_, v| Ok(v[0].clone())).stable(),
    scalar("pg_get_constraintdef(oid) text", |c, v| {
        of(c, |it| constraint_definition(it, oid(v), v.get(1).is_some_and(Value::bool)))
    })
    .stable(),
    scalar("pg_get_constraintdef(oid, bool) text", |c, v| {
        of(c, |it| constraint_definition(it, oid(v), v.get(1).is_some_and(Value::bool)))
    })
    .stable(),
    scalar("pg_get_indexdef(oid) text", |c, v| of(c, |it| index_definition(it, oid(v), 0, false))).stable(),
    scalar("pg_get_indexdef(oid, int4, bool) text", |c, v| {
        of(c, |it| index_definition(it, oid(v), v[1].int4(), v[2].bool()))
    })
    .stable(),
    scalar("pg_get_viewdef(text) text", view_definition_by_name).stable(),
    scalar("pg_get_viewdef(text, bool) text", view_definition_by_name).stable(),
    scalar("pg_get_viewdef(oid) text", |c, v| of(c, |it| view_definition(it, oid(v)))).stable(),
    scalar("pg_get_viewdef(oid, bool) text", |c, v| of(c, |it| view_definition(it, oid(v)))).stable(),
    scalar("pg_get_viewdef(oid, int4) text", |c, v| of(c, |it| view_definition(it, oid(v)))).stable(),
    set(
        "pg_get_keywords() setof record word text; catcode \"char\"; barelabel bool; catdesc text; baredesc text",
        keywords,
    )
    .stable(),
    set("pg_options_to_table(text[]) setof record option_name text; option_value text", options).stable(),
    scalar("pg_get_userbyid(oid) name", user_by_oid).stable(),
    scalar("pg_get_serial_sequence(text, text) text", serial_sequence).stable(),
    scalar("pg_get_function_result(oid) text", |c, v| of(c, |it| function_result(it, oid(v)))).stable(),
    scalar("pg_get_function_arguments(oid) text", |c, v| of(c, |it| function_arguments(it, oid(v), true)))
        .stable(),
    scalar("pg_get_function_identity_arguments(oid) text", |c, v| {
        of(c, |it| function_arguments(it, oid(v), false))
    })
    .stable(),
    scalar("pg_get_functiondef(oid) text", |c, v| of(c, |it| routines::definition(it, oid(v)))).stable(),
    scalar("pg_get_triggerdef(oid) text", |c, v| of(c, |it| triggers::definition(it, oid(v), false)))
        .stable(),
    scalar("pg_get_triggerdef(oid, bool) text", |c, v| {
        of(c, |it| triggers::definition(it, oid(v), v[1].bool()))
    })
    .stable(),
    scalar("pg_relation_is_publishable(regclass) bool", |c, v| {
        of(c, |it| Some(it.objects().table_by_oid(oid(v)).is_some()))
    })
    .stable(),
    scalar("obj_description(oid) text", |c, v| of(c, |it| comment(it, None, oid(v), 0))).stable(),
    scalar("obj_description(oid, name) text", |c, v| of(c, |it| comment(it, Some(v[1].str()), oid(v), 0)))
        .stable(),
    scalar("col_description(oid, int4) text", |c, v| {
        of(c, |it| comment(it, Some("pg_class"), oid(v), v[1].int4()).filter(|_| v[1].int4() > 0))
    })
    .stable(),
    scalar("shobj_description(oid, name) text", none).stable(),
    // Of objects that no database of ours has.
    scalar("pg_get_function_sqlbody(oid) text", none).stable(),
    scalar("pg_get_ruledef(oid) text", none).stable(),
    scalar("pg_get_ruledef(oid, bool) text", none).stable(),
    scalar("pg_get_partkeydef(oid) text", none).stable(),
    scalar("pg_get_partition_constraintdef(oid) text", none).stable(),
    scalar("pg_get_statisticsobjdef(oid) text", none).stable(),
    scalar("pg_get_statisticsobjdef_columns(oid) text", none).stable(),
    scalar("pg_relation_size(regclass) int8", |c, v| of(c, |it| sizes::relation(it, oid(v)))).stable(),
    scalar("pg_relation_size(regclass, text) int8", fork_size).stable(),
    scalar("pg_table_size(regclass) int8", |c, v| of(c, |it| sizes::table(it, oid(v)))).stable(),
    scalar("pg_indexes_size(regclass) int8", |c, v| of(c, |it| sizes::indexes(it, oid(v)))).stable(),
    scalar("pg_total_relation_size(regclass) int8", |c, v| of(c, |it| sizes::total(it, oid(v)))).stable(),
    scalar("pg_database_size(name) int8", named_database_size).stable(),
    scalar("pg_database_size(oid) int8", |c, v| {
        of(c, |it| (oid(v) == DATABASE).then(|| sizes::database(it)))
    })
    .stable(),
    scalar("pg_size_pretty(int8) text", |_, v| Ok(Value::text(sizes::pretty(v[0].int8())))),
    scalar("pg_size_pretty(numeric) text", |_, v| Ok(Value::text(sizes::pretty_number(v[0].as_numeric())?))),
    scalar("to_regclass(text) regclass", |c, v| by_name(c, ObjectKind::Relation, v)).stable(),
    scalar("to_regtype(text) regtype", |c, v| by_name(c, ObjectKind::Type, v)).stable(),
    scalar("to_regproc(text) regproc", |c, v| by_name(c, ObjectKind::Function, v)).stable(),
    scalar("to_regprocedure(text) regprocedure", |c, v| {
        by_name(c, ObjectKind::FunctionSignature, v)
    })
    .stable(),
    scalar("to_regnamespace(text) regnamespace", |c, v| by_name(c, ObjectKind::Schema, v)).stable(),
    scalar("to_regrole(text) regrole", |c, v| by_name(c, ObjectKind::Role, v)).stable(),
    scalar("pg_table_is_visible(oid) bool", |c, v| of(c, |it| relation_is_visible(it, oid(v)))).stable(),
    scalar("pg_type_is_visible(oid) bool", |c, v| of(c, |it| type_is_visible(it, oid(v)))).stable(),
    scalar("pg_function_is_visible(oid) bool", |c, v| of(c, |it| function_is_visible(it, oid(v)))).stable(),
    scalar("pg_collation_is_visible(oid) bool", is_built_in).stable(),
    scalar("pg_opclass_is_visible(oid) bool", is_built_in).stable(),
    scalar("pg_opfamily_is_visible(oid) bool", is_built_in).stable(),
    scalar("pg_operator_is_visible(oid) bool", is_built_in).stable(),
    scalar("pg_statistics_obj_is_visible(oid) bool", none).stable(),
    scalar("pg_ts_config_is_visible(oid) bool", none).stable(),
    scalar("pg_ts_dict_is_visible(oid) bool", none).stable(),
    scalar("pg_ts_parser_is_visible(oid) bool", none).stable(),
    scalar("pg_ts_template_is_visible(oid) bool", none).stable(),
    scalar("pg_conversion_is_visible(oid) bool", none).stable(),
];

/// The functions of the session and the server.
pub(crate) const SESSION: &[Definition] = &[
    scalar("current_schema() name", |c, _| {
        Ok(c.environment.schemas(false).first().map_or(Value::Null, Value::text))
    })
    .stable(),
    scalar("current_schemas(bool) name[]", |c, v| {
        let schemas = c.environment.schemas(v[0].bool()).iter().map(Value::text).collect();
        Ok(Value::array(ArrayValue::list(Type::Name, schemas)))
    })
    .stable(),
    scalar("current_user() name", |c, _| Ok(Value::text(c.environment.user()))).stable(),
    scalar("session_user() name", |c, _| Ok(Value::text(c.environment.session_user()))).stable(),
    scalar("current_database() name", |c, _| Ok(Value::text(c.environment.database()))).stable(),
    scalar("current_catalog() name", |c, _| Ok(Value::text(c.environment.database()))).stable(),
    scalar("version() text", version).stable(),
    scalar("pg_backend_pid() int4", |c, _| Ok(Value::Int4(c.environment.backend_pid()))).stable(),
    scalar("pg_is_in_recovery() bool", |c, _| Ok(Value::Bool(c.environment.is_in_recovery()))).stable(),
    scalar("pg_my_temp_schema() oid", |c, _| {
        let temporary = |it: &SystemCatalog<'_>| {
            let schema = &it.session.temporary;
            let is_used = it.objects().relations_in(schema).next().is_some();
            Some(if is_used {
                Value::Oid(super::classes::schema_oid(it.objects(), schema))
            } else {
                Value::Oid(0)
            })
        };
        of(c, temporary)
    })
    .stable(),
    scalar("pg_is_other_temp_schema(oid) bool", |_, _| Ok(Value::Bool(false))).stable(),
    scalar("getdatabaseencoding() name", |_, _| Ok(Value::text("UTF8"))).stable(),
    scalar("pg_client_encoding() name", |context, _| {
        Ok(Value::text(context.environment.setting("client_encoding").unwrap_or_default()))
    })
    .stable(),
    scalar("pg_encoding_to_char(int4) name", |_, v| {
        Ok(Value::text(if v[0].int4() == UTF8 { "UTF8" } else { "" }))
    }),
    scalar("pg_char_to_encoding(name) int4", |_, v| {
        let is_utf8 = ["utf8", "utf-8", "unicode"].iter().any(|name| v[0].str().eq_ignore_ascii_case(name));
        Ok(Value::Int4(if is_utf8 { UTF8 } else { -1 }))
    }),
    scalar("pg_tablespace_location(oid) text", |_, _| Ok(Value::text(""))).stable(),
    // Everything lies in the default one.
    scalar("pg_tablespace_size(oid) int8", |c, v| {
        of(c, |it| Some(if oid(v) == super::cluster::DEFAULT_TABLESPACE { sizes::database(it) } else { 0 }))
    })
    .stable(),
];

fn none(_: &mut FunctionContext<'_>, _: &[Value]) -> Result<Value> {
    Ok(Value::Null)
}

fn oid(values: &[Value]) -> u32 {
    match values.first() {
        Some(Value::Oid(oid)) => *oid,
        _ => 0,
    }
}

/// Asks the catalog; without a session, and where nothing is found, NULL.
fn of<T: super::row::Cell>(
    context: &mut FunctionContext<'_>,
    ask: impl FnOnce(&SystemCatalog<'_>) -> Option<T>,
) -> Result<Value> {
    let system = context.environment.system_catalog();
    Ok(system.and_then(|system| ask(&system)).map_or(Value::Null, super::row::Cell::value))
}

/// The size of a relation's fork: all of a relation is in the main one.
fn fork_size(context: &mut FunctionContext<'_>, values: &[Value]) -> Result<Value> {
    match values[1].str() {
        "main" => of(context, |it| sizes::relation(it, oid(values))),
        "fsm" | "vm" | "init" => of(context, |it| sizes::relation(it, oid(values)).map(|_| 0_i64)),
        _ => Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "invalid fork name")
            .with_hint("Valid fork names are \"main\", \"fsm\", \"vm\", and \"init\".")),
    }
}

fn named_database_size(context: &mut FunctionContext<'_>, values: &[Value]) -> Result<Value> {
    let name = values[0].str();
    let is_served = |system: SystemCatalog<'_>| system.session.is_database(name);
    if name != context.environment.database() && !context.environment.system_catalog().is_some_and(is_served)
    {
        let message = format!("database \"{name}\" does not exist");
        return Err(SqlError::new(SqlState::INVALID_CATALOG_NAME, message));
    }
    of(context, |it| Some(sizes::database(it)))
}

fn system_rows(context: &mut FunctionContext<'_>, values: &[Value]) -> Result<Box<dyn Rows>> {
    let system = context.environment.system_catalog();
    let is_secret = relation_by_oid(oid(values)).is_some_and(|relation| relation.is_secret());
    if is_secret && system.as_ref().is_some_and(|system| !system.session.is_superuser()) {
        let name = relation_by_oid(oid(values)).map_or("", |relation| relation.name);
        return Err(crate::bind::privileges::denied("table", name));
    }
    let rows = system.map_or(Vec::new(), |system| system.rows(oid(values)));
    Ok(Box::new(RowsOf(rows.into_iter().map(Ok))))
}

/// The elements of an array with their places, from 1.
fn expand(_: &mut FunctionContext<'_>, values: &[Value]) -> Result<Box<dyn Rows>> {
    let array = values[0].as_array().clone();
    let kinds = [Type::Int2, Type::Int4];
    let rows = (0..array.values.len()).map(move |at| {
        let values = vec![array.values[at].clone(), Value::Int4(at as i32 + 1)];
        Ok(Value::Record(std::sync::Arc::new(RecordValue::anonymous(&kinds, values))))
    });
    Ok(Box::new(RowsOf(rows)))
}

/// PostgreSQL's key words: their kinds, and whether they can name columns without AS.
fn keywords(_: &mut FunctionContext<'_>, _: &[Value]) -> Result<Box<dyn Rows>> {
    let kinds = [Type::Text, Type::Char, Type::Bool, Type::Text, Type::Text];
    let rows = include_str!("keywords.txt").lines().flat_map(move |line| {
        let mut parts = line.split(' ');
        let (category, label) = (parts.next().unwrap_or_default(), parts.next());
        let is_label = label == Some("+");
        let described = match category {
            "C" => "unreserved (cannot be function or type name)",
            "T" => "reserved (can be function or type name)",
            "R" => "reserved",
            _ => "unreserved",
        };
        let label = if is_label { "can be bare label" } else { "requires AS" };
        parts.map(move |word| {
            let texts = [word, category, described, label].map(Value::text);
            let [word, category, described, label] = texts;
            let values = vec![word, category, Value::Bool(is_label), described, label];
            Ok(Value::Record(std::sync::Arc::new(RecordValue::anonymous(&kinds, values))))
        })
    });
    Ok(Box::new(RowsOf(rows)))
}

/// `name=value` texts as rows; without a value it is NULL.
fn options(_: &mut FunctionContext<'_>, values: &[Value]) -> Result<Box<dyn Rows>> {
    let array = values[0].as_array().clone();
    let rows = (0..array.values.len()).filter(|&at| !array.values[at].is_null()).collect::<Vec<_>>();
    let rows = rows.into_iter().map(move |at| {
        let text = array.values[at].str();
        let (name, value) =
            text.split_once('=').map_or((text, Value::Null), |(name, value)| (name, Value::text(value)));
        let fields = vec![Value::text(name), value];
        Ok(Value::Record(std::sync::Arc::new(RecordValue::anonymous(&[Type::Text, Type::Text], fields))))
    });
    Ok(Box::new(RowsOf(rows)))
}

fn version(context: &mut FunctionContext<'_>, _: &[Value]) -> Result<Value> {
    let number = context.environment.setting("server_version").unwrap_or_default();
    Ok(Value::text(format!("PostgreSQL {number} (HeddleDB {})", env!("CARGO_PKG_VERSION"))))
}

/// `format_type`: NULL for no oid, `???` for one that no type has.
fn type_text(context: &mut FunctionContext<'_>, values: &[Value]) -> Result<Value> {
    let Value::Oid(oid) = values[0] else { return Ok(Value::Null) };
    if oid == 0 {
        return Ok(Value::text("-"));
    }
    let modifier = match values[1] {
        Value::Int4(modifier) => Modifier(modifier),
        // Without a modifier, not with none, as psql asks for the types of casts.
        _ if oid == Type::Bpchar.oid() => return Ok(Value::text("character")),
        _ => Modifier::NONE,
    };
    of(context, |system| Some(shown_type(system, oid, modifier).unwrap_or_else(|| "???".to_string())))
}

/// A type as `format_type` prints it: users' types with their schema if the search path does not lead to them.
fn shown_type(system: &SystemCatalog<'_>, oid: u32, modifier: Modifier) -> Option<String> {
    let ty = Type::from_oid(oid)?;
    let element = ty.element().filter(|_| matches!(ty, Type::Array(_))).unwrap_or(ty);
    let (Type::Enum(user) | Type::Composite(user)) = element else {
        return Some(format_type(ty, modifier, &|_| None));
    };
    let (schema, name) = type_name(system, user)?;
    let name = quote_identifier(&name);
    let visible = type_is_visible(system, user)?;
    let name = if visible { name } else { format!("{}.{name}", quote_identifier(&schema)) };
    Some(if element == ty { name } else { format!("{name}[]") })
}

fn user_by_oid(context: &mut FunctionContext<'_>, values: &[Value]) -> Result<Value> {
    of(context, |it| Some(it.session.role_name(oid(values))))
}

fn by_name(context: &mut FunctionContext<'_>, kind: ObjectKind, values: &[Value]) -> Result<Value> {
    let found = context.environment.object_by_name(kind, values[0].str())?;
    Ok(found.map_or(Value::Null, Value::Oid))
}

fn view_definition_by_name(context: &mut FunctionContext<'_>, values: &[Value]) -> Result<Value> {
    let found = by_name(context, ObjectKind::Relation, values)?;
    if found.is_null() {
        return Err(crate::catalog::no_relation(values[0].str()));
    }
    of(context, |it| view_definition(it, oid(&[found])))
}

fn relation_is_visible(system: &SystemCatalog<'_>, oid: u32) -> Option<bool> {
    let path = system.session.path();
    if let Some(relation) = relation_by_oid(oid) {
        let found = find(system.objects(), None, relation.name, &path);
        return Some(found.is_some_and(|found| found.oid == oid));
    }
    let (_, name) = system.objects().relation_name(oid)?;
    let found = system.objects().find_oid(None, name, &path);
    Some(found == Some(oid) && find(system.objects(), None, name, &path).is_none())
}

fn type_is_visible(system: &SystemCatalog<'_>, oid: u32) -> Option<bool> {
    let element = Type::from_oid(oid)?;
    let element = element.element().filter(|_| matches!(element, Type::Array(_))).unwrap_or(element);
    let (schema, name) = type_name(system, element.oid())?;
    if schema == PG_CATALOG {
        return Some(true);
    }
    let path = system.session.path();
    let found = system.objects().find_type(None, &name, &path).map(UserType::oid);
    let found = found.or_else(|| Some(system.objects().find_row_type(None, &name, &path)?.oid()));
    Some(found == Some(element.oid()))
}

fn function_is_visible(system: &SystemCatalog<'_>, oid: u32) -> Option<bool> {
    if is_function(oid) {
        return Some(true);
    }
    let routine = system.objects().routine_by_oid(oid)?;
    let found = system.objects().find_routines(None, &routine.name, &system.session.path());
    Some(found.iter().any(|found| found.oid == oid))
}

/// The visibility of a built-in object: true, if the object exists.
fn is_built_in(_: &mut FunctionContext<'_>, values: &[Value]) -> Result<Value> {
    let known = oid(values) != 0 && oid(values) < crate::types::FIRST_USER_OID;
    Ok(if known { Value::Bool(true) } else { Value::Null })
}

fn comment(system: &SystemCatalog<'_>, class: Option<&str>, oid: u32, column: i32) -> Option<String> {
    let class = class.map(|class| commented_catalog(class).unwrap_or(0));
    let comments = comments(system.objects());
    let found = comments.into_iter().find(|(of_class, object, at, _)| {
        class.is_none_or(|class| class == *of_class) && *object == oid && *at == column
    });
    found.map(|(.., text)| text.to_string())
}

/// `pg_get_serial_sequence`: the sequence that a column owns.
///
/// # Errors
/// 42P01, 42703: no such table or column.
fn serial_sequence(context: &mut FunctionContext<'_>, values: &[Value]) -> Result<Value> {
    let Some(system) = context.environment.system_catalog() else { return Ok(Value::Null) };
    let name = parse_name(values[0].str())?;
    let found = system.objects().find(name.schema(), name.last(), &system.session.path());
    let Some(Relation::Table(table)) = found else {
        let message = format!("relation \"{}\" does not exist", values[0].str());
        return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message));
    };
    let column = table.columns.iter().position(|column| column.name == values[1].str()).ok_or_else(|| {
        let message = format!("column \"{}\" of relation \"{}\" does not exist", values[1].str(), table.name);
        SqlError::new(SqlState::UNDEFINED_COLUMN, message)
    })?;
    let sequence = system.objects().sequences().find(|it| it.owner == Some((table.oid, column)));
    Ok(sequence.map_or(Value::Null, |it| {
        Value::text(format!("{}.{}", quote_identifier(&it.schema), quote_identifier(&it.name)))
    }))
}

fn function_result(system: &SystemCatalog<'_>, oid: u32) -> Option<String> {
    if let Some(routine) = routines::result(system, oid) {
        return Some(routine);
    }
    let function = function_by_oid(oid)?;
    let kind = shown_type(system, function.result.oid(), Modifier::NONE)?;
    let is_set = matches!(function.kind, crate::functions::FunctionKind::Set(_));
    Some(if is_set { format!("SETOF {kind}") } else { kind })
}

fn function_arguments(system: &SystemCatalog<'_>, oid: u32, with_defaults: bool) -> Option<String> {
    if let Some(routine) = routines::arguments(system, oid, with_defaults) {
        return Some(routine);
    }
    let function = function_by_oid(oid)?;
    let shown = function.arguments.iter().zip(&function.argument_names).map(|(ty, name)| {
        let kind = shown_type(system, ty.oid(), Modifier::NONE).unwrap_or_default();
        if name.is_empty() { kind } else { format!("{name} {kind}") }
    });
    Some(shown.collect::<Vec<_>>().join(", "))
}
