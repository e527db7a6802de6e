//! User-defined routines as statements of SQL: the output of `pg_get_functiondef` and its kin.

use super::SystemCatalog;
use super::definitions::shown_relation;
use crate::catalog::{Argument, ArgumentMode, Catalog, Language, Routine, Stability};
use crate::parse::quote_identifier;
use crate::session::{is_list, split_names};
use crate::types::{Modifier, Type, format_type};

fn type_text(catalog: &Catalog, ty: Type) -> String {
    format_type(ty, Modifier::NONE, &|_| match ty {
        Type::Array(element) => Some(catalog.type_display(element.get())),
        ty => Some(catalog.type_display(ty)),
    })
}

fn argument_text(catalog: &Catalog, argument: &Argument, with_default: bool) -> String {
    let mode = match argument.mode {
        ArgumentMode::In | ArgumentMode::Table => "",
        ArgumentMode::Out => "OUT ",
        ArgumentMode::InOut => "INOUT ",
        ArgumentMode::Variadic => "VARIADIC ",
    };
    let name = match argument.name.as_str() {
        "" => String::new(),
        name => format!("{} ", quote_identifier(name)),
    };
    let default = match &argument.default {
        Some(default) if with_default => format!(" DEFAULT {default}"),
        _ => String::new(),
    };
    let ty = match argument.row_of.and_then(|table| catalog.relation_name(table)) {
        Some((schema, table)) => format!("{}.{}", quote_identifier(schema), quote_identifier(table)),
        None => type_text(catalog, argument.ty),
    };
    format!("{mode}{name}{ty}{default}")
}

/// `pg_get_function_arguments` and, without defaults, `pg_get_function_identity_arguments`.
pub(super) fn arguments(system: &SystemCatalog<'_>, oid: u32, with_defaults: bool) -> Option<String> {
    let routine = system.objects().routine_by_oid(oid)?;
    Some(arguments_of(system.objects(), routine, with_defaults))
}

fn arguments_of(catalog: &Catalog, routine: &Routine, with_defaults: bool) -> String {
    let arguments = routine.arguments.iter().filter(|argument| argument.mode != ArgumentMode::Table);
    let texts: Vec<String> =
        arguments.map(|argument| argument_text(catalog, argument, with_defaults)).collect();
    // Procedures show the modes of all arguments.
    match routine.is_procedure {
        true => routine
            .arguments
            .iter()
            .zip(texts)
            .map(|(argument, text)| match argument.mode {
                ArgumentMode::In => format!("IN {text}"),
                _ => text,
            })
            .collect::<Vec<_>>()
            .join(", "),
        false => texts.join(", "),
    }
}

/// `pg_get_function_result`; none for procedures.
pub(super) fn result(system: &SystemCatalog<'_>, oid: u32) -> Option<String> {
    let catalog = system.objects();
    let routine = catalog.routine_by_oid(oid).filter(|routine| !routine.is_procedure)?;
    Some(result_of(system, routine))
}

fn result_of(system: &SystemCatalog<'_>, routine: &Routine) -> String {
    let catalog = system.objects();
    let columns: Vec<String> = routine
        .arguments
        .iter()
        .filter(|argument| argument.mode == ArgumentMode::Table)
        .map(|argument| argument_text(catalog, argument, false))
        .collect();
    if !columns.is_empty() {
        return format!("TABLE({})", columns.join(", "));
    }
    let row = routine.row_of.and_then(|table| shown_relation(system, table));
    let kind = match row {
        Some(table) => table,
        None => type_text(catalog, routine.result),
    };
    if routine.is_set { format!("SETOF {kind}") } else { kind }
}

/// `pg_get_functiondef`
pub(super) fn definition(system: &SystemCatalog<'_>, oid: u32) -> Option<String> {
    let catalog = system.objects();
    let routine = catalog.routine_by_oid(oid)?;
    let kind = routine.kind().to_uppercase();
    let name = format!("{}.{}", quote_identifier(&routine.schema), quote_identifier(&routine.name));
    let arguments = arguments_of(catalog, routine, true);
    let mut text = format!("CREATE OR REPLACE {kind} {name}({arguments})\n");
    if !routine.is_procedure {
        text += &format!(" RETURNS {}\n", result_of(system, routine));
    }
    text += &format!(" LANGUAGE {}\n", routine.language.name());
    let mut options = Vec::new();
    match routine.stability {
        Stability::Immutable => options.push("IMMUTABLE"),
        Stability::Stable => options.push("STABLE"),
        Stability::Volatile => {}
    }
    if routine.is_strict {
        options.push("STRICT");
    }
    if routine.is_definer {
        options.push("SECURITY DEFINER");
    }
    if routine.is_leakproof {
        options.push("LEAKPROOF");
    }
    if !options.is_empty() {
        text += &format!(" {}\n", options.join(" "));
    }
    for (name, value) in &routine.settings {
        text += &format!(" SET {} TO {}\n", quote_identifier(name), setting_text(name, value));
    }
    let mut tag = format!("${kind}$").to_lowercase();
    let (body, library) = match routine.language {
        Language::C => (source(routine), format!("'{}', ", library(system, routine))),
        _ => (routine.body.as_str(), String::new()),
    };
    while body.contains(&tag) {
        tag = tag.replacen('$', "$x", 1);
    }
    Some(format!("{text}AS {library}{tag}{body}{tag}\n"))
}

/// `pg_proc.prosrc`: the body, or the name of an extension's function.
pub(super) fn source(routine: &Routine) -> &str {
    match routine.language {
        Language::C => routine.body.split('(').next().unwrap_or_default(),
        _ => &routine.body,
    }
}

/// `pg_proc.probin`: where PostgreSQL has the code of an extension's function.
pub(super) fn library(system: &SystemCatalog<'_>, routine: &Routine) -> String {
    let extension = routine.extension.and_then(|oid| system.objects().extension_by_oid(oid));
    format!("$libdir/{}", extension.map_or("", |it| it.name.as_str()))
}

fn quote_literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The value of a routine's setting: the names of a list one by one.
fn setting_text(name: &str, value: &str) -> String {
    if !is_list(name) {
        return quote_literal(value);
    }
    let names: Vec<String> = split_names(value).iter().map(|name| quote_literal(name)).collect();
    if names.is_empty() { "''".to_string() } else { names.join(", ") }
}
