//! Objects as statements of SQL: the output of `pg_get_indexdef`, `pg_get_constraintdef` and their kin.
//!
//! Expressions are printed as they were written; PostgreSQL prints them with casts and parentheses of its own.

use super::SystemCatalog;
use super::classes::{IndexOf, index_by_oid, relation_name};
use super::constraints::{Constraint, Owner, Rule};
use super::owners::constraint_by_oid;
use crate::bind::names_of_query;
use crate::catalog::{Catalog, KeyAction, NominalKey, PUBLIC, Relation, Table, UserType, View};
use crate::ddl::text_key_name;
use crate::functions::functions_named;
use crate::parse::{
    Reference, is_call, parse_expression, qualified_name, quote_identifier, references, with_names,
};
use crate::types::{Modifier, Type, format_type};

/// A DEFAULT as clients read it: a sequence is named, where the catalog keeps its oid.
/// Texts have their types behind them, as PostgreSQL has it.
pub(super) fn default_text(system: &SystemCatalog<'_>, ty: Type, text: &str) -> String {
    let is_literal = text.len() > 1 && text.starts_with('\'') && text.ends_with('\'');
    let element = ty.element().unwrap_or(ty);
    let is_number = matches!(ty, Type::Int2 | Type::Int4 | Type::Int8 | Type::Numeric | Type::Float4)
        || matches!(ty, Type::Float8 | Type::Bool);
    if is_literal && !text[1..text.len() - 1].replace("''", "").contains('\'') && !is_number {
        if let Type::Enum(oid) = element {
            let Some(UserType::Enum(named)) = system.objects().user_type_by_oid(oid) else {
                return text.to_string();
            };
            let brackets = if element == ty { "" } else { "[]" };
            let name = qualified_name(&named.schema, &named.name);
            return expression_text(system, &format!("{text}::{name}{brackets}"));
        }
        return format!("{text}::{}", format_type(ty, Modifier::NONE, &|_| None));
    }
    expression_text(system, &with_sequence_names(text, |oid| shown_relation(system, oid)))
}

/// A default with its sequences named, where the catalog keeps their oids.
pub(crate) fn with_sequence_names(text: &str, name: impl Fn(u32) -> Option<String>) -> String {
    let mut shown = text.to_string();
    for oid in sequences_of(text) {
        if let Some(name) = name(oid) {
            let name = format!("nextval('{}'::regclass)", name.replace('\'', "''"));
            shown = shown.replace(&format!("nextval({oid}::oid::regclass)"), &name);
        }
    }
    shown
}

/// The sequences that a default takes values from.
pub(super) fn sequences_of(text: &str) -> impl Iterator<Item = u32> {
    text.split("nextval(").skip(1).filter_map(|rest| rest.split_once("::oid::regclass)")?.0.parse().ok())
}

/// An expression as clients read it.
pub(super) fn expression_text(system: &SystemCatalog<'_>, text: &str) -> String {
    shown_text(system, text, &[PUBLIC.to_string()])
}

/// A text in which names have their schemas before them where the session's search path does not lead to them. Names without
/// one were found along `path`.
fn shown_text(system: &SystemCatalog<'_>, text: &str, path: &[String]) -> String {
    let (catalog, shown_path) = (system.objects(), system.session.path());
    let references = references(text);
    let is_cte =
        |name: &str| references.iter().any(|(kind, cte, _)| *kind == Reference::Cte && cte.last() == name);
    with_names(text, |kind, name| {
        let (own, given) = (name.last(), name.schema());
        if given == Some("pg_temp") {
            return None;
        }
        let (schema, is_visible) = match kind {
            Reference::Relation if given.is_some() || !is_cte(own) => {
                let found = catalog.find(given, own, path)?.oid();
                let visible = catalog.find(None, own, &shown_path).map(Relation::oid);
                (catalog.relation_name(found)?.0.clone(), visible == Some(found))
            }
            Reference::Type if Type::from_name(own).is_none() => {
                let found = catalog.find_type(given, own, path)?;
                let visible = catalog.find_type(None, own, &shown_path).map(UserType::oid);
                (found.schema().to_string(), visible == Some(found.oid()))
            }
            Reference::Function => {
                let is_built_in = functions_named(own).next().is_some();
                if given.is_none() && is_built_in {
                    return None;
                }
                let schema = catalog.find_routines(given, own, path).first()?.schema.clone();
                let visible = catalog.find_routines(None, own, &shown_path);
                let is_own = visible.iter().all(|routine| routine.schema == schema);
                (schema, !visible.is_empty() && is_own && !is_built_in)
            }
            _ => return None,
        };
        Some(if is_visible { quote_identifier(own) } else { qualified_name(&schema, own) })
    })
}

/// The oids of the relations that a view reads.
pub(super) fn relations_of(catalog: &Catalog, view: &View) -> Vec<u32> {
    let references = references(&view.query);
    let named = references.iter().filter(|(kind, ..)| *kind == Reference::Relation);
    let mut oids: Vec<u32> = named
        .filter_map(|(_, name, _)| catalog.find(name.schema(), name.last(), &view.search_path))
        .map(Relation::oid)
        .collect();
    oids.sort_unstable();
    oids.dedup();
    oids
}

/// The oids of the routines that a definition calls: all that have a name in it.
pub(super) fn routines_of(catalog: &Catalog, text: &str) -> Vec<u32> {
    let named = references(text).into_iter().filter(|(kind, ..)| *kind == Reference::Function);
    let path = [PUBLIC.to_string()];
    let found = named.flat_map(|(_, name, _)| catalog.find_routines(name.schema(), name.last(), &path));
    found.map(|routine| routine.oid).collect()
}

/// A relation's name, with its schema if the search path does not lead to it.
pub(super) fn shown_relation(system: &SystemCatalog<'_>, oid: u32) -> Option<String> {
    let (schema, name) = relation_name(system.objects(), oid)?;
    let path = system.session.path();
    let found = system.objects().find(None, name, &path);
    let quoted = quote_identifier(name);
    let visible = found.is_some_and(|found| found.oid() == oid);
    Some(if visible { quoted } else { format!("{}.{quoted}", quote_identifier(schema)) })
}

/// The positions of an index's columns: those that it orders by, then those that it carries along.
pub(super) fn index_columns(index: &IndexOf<'_>) -> Vec<usize> {
    index.columns.iter().map(|it| it.column).chain(index.included.iter().copied()).collect()
}

/// The names of an index's columns: a column's own, or what an expression is called. A repeated name gets a number.
pub(super) fn index_column_names(index: &IndexOf<'_>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for at in index_columns(index) {
        let column = &index.table.columns[at];
        let base = column.indexed().map_or_else(|| column.name.clone(), text_key_name);
        let numbered = (1..).map(|number: u32| format!("{base}{number}"));
        let name = std::iter::once(base.clone()).chain(numbered).find(|name| !names.contains(name));
        names.extend(name);
    }
    names
}

fn names(table: &Table, positions: &[usize]) -> String {
    let name = |&at: &usize| if at < table.columns.len() { table.column_text(at) } else { String::new() };
    positions.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// `CREATE INDEX …`; with a column's number, that column alone. `pretty`: the table's schema is left out where the
/// search path leads to it. None for what is no index.
pub(super) fn index_definition(
    system: &SystemCatalog<'_>,
    oid: u32,
    column: i32,
    pretty: bool,
) -> Option<String> {
    let Some(index) = index_by_oid(system.objects(), oid) else {
        return nominal_definition(system, oid, column, pretty);
    };
    let key = |column: usize| match index.table.columns[column].indexed() {
        Some(text) if is_call(text) => expression_text(system, text),
        Some(text) if pretty => format!("({})", check_text(system, text)),
        Some(text) => format!("(({}))", check_text(system, text)),
        None => names(index.table, &[column]),
    };
    if column > 0 {
        let position = index_columns(&index).get(column as usize - 1).copied();
        return Some(position.map_or(String::new(), key));
    }
    let keys = index.columns.iter().map(|column| {
        let class = column.class.as_ref().map_or(String::new(), |class| format!(" {class}"));
        let order = match (column.descending, column.nulls_at_other_end) {
            (false, false) => "",
            (false, true) => " NULLS FIRST",
            (true, false) => " DESC",
            (true, true) => " DESC NULLS LAST",
        };
        format!("{}{class}{order}", key(column.column))
    });
    let included = match index.included {
        [] => String::new(),
        included => format!(" INCLUDE ({})", names(index.table, included)),
    };
    let table = match pretty {
        true => shown_relation(system, index.table.oid)?,
        false => {
            format!("{}.{}", quote_identifier(&index.table.schema), quote_identifier(&index.table.name))
        }
    };
    let predicate = index.predicate.map_or(String::new(), |text| match pretty {
        true => format!(" WHERE {}", check_text(system, text)),
        false => format!(" WHERE {}", grouped(check_text(system, text))),
    });
    Some(format!(
        "CREATE {}INDEX {} ON {} USING {} ({}){included}{}{predicate}",
        if index.unique { "UNIQUE " } else { "" },
        quote_identifier(index.name),
        table,
        index.method.name(),
        keys.collect::<Vec<_>>().join(", "),
        if index.nulls_equal { " NULLS NOT DISTINCT" } else { "" },
    ))
}

/// `CREATE INDEX …` of an index that queries do not use.
fn nominal_definition(system: &SystemCatalog<'_>, oid: u32, column: i32, pretty: bool) -> Option<String> {
    let Relation::Index { table, .. } = system.objects().relation_by_oid(oid)? else { return None };
    let table = system.objects().table_by_oid(*table)?;
    let index = table.nominal_indexes.iter().find(|index| index.oid == oid)?;
    let key = |key: &NominalKey| match (key.is_column || is_call(&key.text), pretty) {
        (true, _) if key.is_column => key.text.clone(),
        (true, _) => expression_text(system, &key.text),
        (false, _) => format!("({})", check_text(system, &key.text)),
    };
    if column > 0 {
        return Some(index.keys.get(column as usize - 1).map_or(String::new(), key));
    }
    let keys: Vec<String> = index
        .keys
        .iter()
        .map(|it| match &it.class {
            Some(class) => format!("{} {}", key(it), quote_identifier(class)),
            None => key(it),
        })
        .collect();
    let of = match pretty {
        true => shown_relation(system, table.oid)?,
        false => format!("{}.{}", quote_identifier(&table.schema), quote_identifier(&table.name)),
    };
    let predicate = index.predicate.as_ref().map_or(String::new(), |text| match pretty {
        true => format!(" WHERE {}", check_text(system, text)),
        false => format!(" WHERE {}", grouped(check_text(system, text))),
    });
    Some(format!(
        "CREATE INDEX {} ON {of} USING {} ({}){predicate}",
        quote_identifier(&index.name),
        index.method.name(),
        keys.join(", ")
    ))
}

/// `PRIMARY KEY (id)`, `CHECK ((x > 0))`, `FOREIGN KEY …`; `pretty`: with as few parentheses as can be.
pub(super) fn constraint_definition(system: &SystemCatalog<'_>, oid: u32, pretty: bool) -> Option<String> {
    let constraint = constraint_by_oid(system.objects(), oid)?;
    Some(rule_text(system, &constraint, pretty))
}

/// A condition without the parentheses around it: one that was printed and read again is the same.
pub(super) fn check_text(system: &SystemCatalog<'_>, condition: &str) -> String {
    let inner = condition.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    match inner.filter(|inner| parse_expression(inner).is_ok()) {
        Some(inner) => check_text(system, inner),
        None => expression_text(system, condition),
    }
}

/// A condition in parentheses, unless it is a call.
fn grouped(text: String) -> String {
    if is_call(&text) { text } else { format!("({text})") }
}

fn rule_text(system: &SystemCatalog<'_>, constraint: &Constraint<'_>, pretty: bool) -> String {
    match (&constraint.rule, constraint.owner) {
        (Rule::Check(condition), _) if pretty => format!("CHECK ({})", check_text(system, condition)),
        (Rule::Check(condition), _) => format!("CHECK ({})", grouped(check_text(system, condition))),
        (Rule::Key(index), Owner::Table(table)) => {
            let word = match (index.primary, index.nulls_equal) {
                (true, _) => "PRIMARY KEY",
                (false, true) => "UNIQUE NULLS NOT DISTINCT",
                (false, false) => "UNIQUE",
            };
            let included = match index.included {
                [] => String::new(),
                included => format!(" INCLUDE ({})", names(table, included)),
            };
            let timing = timing(constraint.rule.timing());
            format!("{word} ({}){included}{timing}", names(table, &constraint.rule.key_columns()))
        }
        (Rule::Foreign(key), Owner::Table(table)) => {
            let referenced = system.objects().table_by_oid(key.table);
            let columns = referenced.map_or(String::new(), |it| names(it, &key.references));
            format!(
                "FOREIGN KEY ({}) REFERENCES {}({columns}){}{}{}{}",
                names(table, &key.columns),
                shown_relation(system, key.table).unwrap_or_default(),
                if key.is_full { " MATCH FULL" } else { "" },
                action(" ON UPDATE ", key.on_update),
                action(" ON DELETE ", key.on_delete),
                timing((key.deferrable, key.deferred)),
            )
        }
        (_, Owner::Domain(_)) => String::new(),
    }
}

fn timing((deferrable, deferred): (bool, bool)) -> &'static str {
    match (deferrable, deferred) {
        (_, true) => " DEFERRABLE INITIALLY DEFERRED",
        (true, false) => " DEFERRABLE",
        (false, false) => "",
    }
}

fn action(clause: &str, action: KeyAction) -> String {
    let word = rule_word(action);
    if action == KeyAction::NoAction { String::new() } else { format!("{clause}{word}") }
}

/// The words of an action on referencing rows.
pub(super) fn rule_word(action: KeyAction) -> &'static str {
    match action {
        KeyAction::NoAction => "NO ACTION",
        KeyAction::Restrict => "RESTRICT",
        KeyAction::Cascade => "CASCADE",
        KeyAction::SetNull => "SET NULL",
        KeyAction::SetDefault => "SET DEFAULT",
    }
}

/// A view's query, with the semicolon that PostgreSQL puts behind it.
pub(super) fn view_text(system: &SystemCatalog<'_>, view: &View) -> String {
    let query = shown_text(system, view.query.trim().trim_end_matches(';'), &view.search_path);
    let is_renamed = names_of_query(system.objects(), view).is_some_and(|names| names != view.columns);
    if !is_renamed {
        return format!(" {query};");
    }
    let columns: Vec<String> = view.columns.iter().map(|name| quote_identifier(name)).collect();
    let name = quote_identifier(&view.name);
    format!(" SELECT * FROM ({query}) {name}({});", columns.join(", "))
}

/// The query of the view with this oid.
pub(super) fn view_definition(system: &SystemCatalog<'_>, oid: u32) -> Option<String> {
    match system.objects().relation_by_oid(oid)? {
        Relation::View(view) => Some(view_text(system, view)),
        Relation::Table(table) => Some(view_text(system, &table.as_view()?)),
        _ => None,
    }
}
