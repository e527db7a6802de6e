//! The objects that depend on those of a DROP: they are dropped with them, or keep them from being dropped.
//!
//! Sequences depend on the columns that own them, foreign keys on the tables that they refer to, views on the relations that
//! their queries name, columns on their enums, domains and sequences.

use super::plan::Plan;
use super::{all_depend, depends};
use crate::catalog::{Catalog, ColumnOrigin, Index, Relation, Routine, UserType, View};
use crate::ddl::dropped_calls::check_domains;
use crate::ddl::routine::shown;
use crate::ddl::settled_bodies::{is_named, is_only, names_in_body};
use crate::error::Result;
use crate::parse::Reference;
use crate::parse::syntax::ObjectName;
use crate::types::Type;

/// Adds what depends on the objects to be dropped.
///
/// # Errors
/// 2BP01: something does, and there is no CASCADE, or cannot be dropped with them.
pub(super) fn complete(plan: &mut Plan, catalog: &Catalog, cascade: bool) -> Result<()> {
    for schema in plan.schemas.clone() {
        add_schema(plan, catalog, &schema);
    }
    add_extensions(plan, catalog);
    loop {
        let count = |plan: &Plan| {
            let relations = plan.tables.len() + plan.views.len() + plan.sequences.len();
            (relations, plan.foreign_keys.len(), plan.routines.len(), plan.types.len())
        };
        let before = count(plan);
        add_owned(plan, catalog);
        add_domains(plan, catalog);
        add_foreign_keys(plan, catalog);
        add_views(plan, catalog);
        add_routines(plan, catalog, cascade)?;
        if before == count(plan) {
            break;
        }
    }
    check_attributes(plan, catalog, cascade)?;
    add_triggers(plan, catalog, cascade)?;
    for (by, object) in check_domains(plan.gone(catalog, cascade))? {
        plan.note(by, object);
    }
    check_columns(plan, catalog, cascade)?;
    if cascade || plan.dependents.is_empty() { Ok(()) } else { Err(all_depend(&plan.dependents)) }
}

fn add_schema(plan: &mut Plan, catalog: &Catalog, schema: &str) {
    let object = format!("schema {schema}");
    for extension in catalog.extensions().filter(|extension| extension.schema == schema) {
        plan.note(format!("extension {}", extension.name), &object);
        plan.extensions.push(extension.oid);
    }
    for (name, relation) in catalog.relations_in(schema) {
        if !matches!(relation, Relation::Index { .. }) {
            plan.note(format!("{} {schema}.{name}", relation.kind()), &object);
        }
        match relation {
            Relation::Table(table) => plan.tables.push(table.clone()),
            Relation::View(view) => plan.views.push(view.clone()),
            Relation::Sequence(sequence) => plan.sequences.push(sequence.oid),
            Relation::Index { .. } => {}
        }
    }
    for routine in catalog.routines().filter(|routine| routine.schema == schema) {
        plan.note(shown(catalog, routine), &object);
        plan.routines.push(routine.clone());
    }
    for ty in catalog.types() {
        if ty.schema() == schema {
            plan.note(format!("type {schema}.{}", ty.name()), &object);
            plan.types.push(ty.oid());
        }
    }
    plan.tables.dedup_by_key(|table| table.oid);
}

/// The members of the extensions that go, and the extensions of members that go.
fn add_extensions(plan: &mut Plan, catalog: &Catalog) {
    let of_routines: Vec<u32> = plan.routines.iter().filter_map(|routine| routine.extension).collect();
    for oid in of_routines {
        if !plan.extensions.contains(&oid) {
            plan.extensions.push(oid);
        }
    }
    for oid in &plan.extensions {
        for routine in catalog.members(*oid) {
            if !plan.routines.iter().any(|dropped| dropped.oid == routine.oid) {
                plan.routines.push(routine.clone());
            }
        }
    }
}

/// Composite types keep the types of their attributes.
fn check_attributes(plan: &mut Plan, catalog: &Catalog, cascade: bool) -> Result<()> {
    for ty in catalog.composites() {
        if plan.types.contains(&ty.oid) {
            continue;
        }
        let Some(attribute) = ty.attributes.iter().find(|it| plan.drops_type(it.ty)) else { continue };
        let by = format!("column {} of composite type {}", attribute.name, ty.name);
        let object = type_shown(plan, catalog, attribute.ty);
        if cascade {
            return Err(depends(&object, &by).with_hint("Drop the attribute first."));
        }
        plan.note(by, object);
    }
    Ok(())
}

/// A dropped type, or the dropped table whose rows it is, in the words of messages.
fn type_shown(plan: &Plan, catalog: &Catalog, ty: Type) -> String {
    let relation = ty.element().unwrap_or(ty).row_relation();
    match plan.tables.iter().find(|table| Some(table.oid) == relation) {
        Some(table) => format!("table {}", table.name),
        None => format!("type {}", catalog.type_display(ty)),
    }
}

/// Domains over types and domains that are dropped.
fn add_domains(plan: &mut Plan, catalog: &Catalog) {
    for ty in catalog.types() {
        let UserType::Domain(domain) = ty else { continue };
        let beneath = domain.base.filter(|base| plan.types.contains(base));
        if plan.types.contains(&domain.oid) || beneath.is_none() && !plan.drops_type(domain.ty) {
            continue;
        }
        let beneath = beneath.and_then(|base| catalog.user_type_by_oid(base));
        let object = match beneath {
            Some(beneath) => format!("type {}", beneath.name()),
            None => type_shown(plan, catalog, domain.ty),
        };
        plan.note(format!("type {}", domain.name), object);
        plan.types.push(domain.oid);
    }
}

/// Sequences that are owned by columns of dropped tables.
fn add_owned(plan: &mut Plan, catalog: &Catalog) {
    for sequence in catalog.sequences() {
        let owned = sequence.owner.is_some_and(|(table, _)| plan.tables.iter().any(|it| it.oid == table));
        if owned && !plan.sequences.contains(&sequence.oid) {
            plan.sequences.push(sequence.oid);
        }
    }
}

fn add_foreign_keys(plan: &mut Plan, catalog: &Catalog) {
    for table in catalog.tables() {
        if plan.tables.iter().any(|dropped| dropped.oid == table.oid) {
            continue;
        }
        for key in &table.foreign_keys {
            let Some(dropped) = plan.tables.iter().find(|dropped| dropped.oid == key.table) else { continue };
            let object = format!("table {}", dropped.name);
            plan.note(format!("constraint {} on table {}", key.name, table.name), object);
            let entry = (table.oid, key.name.clone());
            if !plan.foreign_keys.contains(&entry) {
                plan.foreign_keys.push(entry);
            }
        }
    }
}

fn add_views(plan: &mut Plan, catalog: &Catalog) {
    for view in catalog.stored_queries() {
        if plan.drops_view(view.oid) {
            continue;
        }
        let named = |schema: &str, name: &str| names_relation(&view, schema, name);
        let of_table = plan.tables.iter().find(|table| named(&table.schema, &table.name));
        let of_view = plan.views.iter().find(|other| named(&other.schema, &other.name));
        let object = match (of_table, of_view) {
            (Some(table), _) => format!("{} {}", table.kind(), table.name),
            (None, Some(other)) => format!("view {}", other.name),
            (None, None) => continue,
        };
        plan.add_view(catalog, &view, &object);
    }
}

/// Routines whose arguments, their defaults and results are of what is dropped, and views that name it.
fn add_routines(plan: &mut Plan, catalog: &Catalog, cascade: bool) -> Result<()> {
    for routine in catalog.routines() {
        if plan.routines.iter().any(|dropped| dropped.oid == routine.oid) {
            continue;
        }
        let table = plan.tables.iter().find(|table| routine.names_row_of(table.oid));
        let is_of = |ty: Type| plan.drops_type(ty);
        let of_type = is_of(routine.result) || routine.arguments.iter().any(|argument| is_of(argument.ty));
        let object = match table {
            Some(table) => format!("table {}", table.name),
            None if of_type => {
                let mut types = routine.arguments.iter().map(|it| it.ty).chain([routine.result]);
                let ty = types.find(|ty| is_of(*ty)).unwrap_or(routine.result);
                type_shown(plan, catalog, ty)
            }
            None => {
                let in_arguments = plan.gone(catalog, cascade).in_arguments(routine)?;
                match in_arguments.or_else(|| named_in_body(plan, catalog, routine)) {
                    Some(object) => object,
                    None => continue,
                }
            }
        };
        plan.note(shown(catalog, routine), object);
        plan.routines.push(routine.clone());
    }
    for view in catalog.stored_queries() {
        if plan.drops_view(view.oid) {
            continue;
        }
        if let Some(object) = plan.gone(catalog, cascade).in_view(&view)? {
            plan.add_view(catalog, &view, &object);
        }
    }
    Ok(())
}

/// The dropped object that a routine's body names, if the body is of the standard's form.
fn named_in_body(plan: &Plan, catalog: &Catalog, routine: &Routine) -> Option<String> {
    let dropped = |(kind, name): (Reference, ObjectName)| {
        let of_table = || {
            let table = plan.tables.iter().find(|it| is_named(&name, &it.schema, &it.name))?;
            Some(format!("{} {}", table.kind(), table.name))
        };
        match kind {
            Reference::Relation => of_table()
                .or_else(|| {
                    let view = plan.views.iter().find(|it| is_named(&name, &it.schema, &it.name))?;
                    Some(format!("view {}", view.name))
                })
                .or_else(|| {
                    let names = plan.sequences.iter().filter_map(|oid| catalog.relation_name(*oid));
                    let (_, sequence) = { names }.find(|(schema, own)| is_named(&name, schema, own))?;
                    Some(format!("sequence {sequence}"))
                }),
            Reference::Type => of_table().or_else(|| {
                let types = plan.types.iter().filter_map(|oid| catalog.user_type_by_oid(*oid));
                let ty = { types }.find(|ty| is_named(&name, ty.schema(), ty.name()))?;
                Some(format!("type {}", ty.name()))
            }),
            Reference::Function => {
                let gone = plan.routines.iter().find(|gone| is_only(catalog, &name, gone))?;
                Some(shown(catalog, gone))
            }
            _ => None,
        }
    };
    names_in_body(routine).into_iter().find_map(dropped)
}

/// Triggers of tables and of functions that are dropped.
fn add_triggers(plan: &mut Plan, catalog: &Catalog, cascade: bool) -> Result<()> {
    for trigger in catalog.triggers() {
        if plan.triggers.contains(&trigger.oid) {
            continue;
        }
        if plan.tables.iter().any(|table| table.oid == trigger.table) {
            plan.triggers.push(trigger.oid);
            continue;
        }
        let Some(table) = catalog.table_by_oid(trigger.table) else { continue };
        let called = plan.routines.iter().find(|it| it.oid == trigger.function);
        let called = called.map(|routine| shown(catalog, routine));
        let object = match plan.gone(catalog, cascade).in_condition(trigger, table)? {
            Some(object) => Some(object),
            None => called,
        };
        if let Some(object) = object {
            plan.note(format!("trigger {} on table {}", trigger.name, table.name), object);
            plan.triggers.push(trigger.oid);
        }
    }
    Ok(())
}

/// Returns true if a view's query names a relation.
pub(crate) fn names_relation(view: &View, schema: &str, name: &str) -> bool {
    may_name(&view.query, name)
        && crate::parse::relation_names(&view.query).iter().any(|found| {
            found.last() == name
                && match found.schema() {
                    Some(of) => of == schema,
                    None => view.search_path.iter().any(|of| of == schema),
                }
        })
}

/// Returns true if a text can have this name in it. It spares the parser most views: each DROP looks at all of them.
pub(in crate::ddl) fn may_name(text: &str, name: &str) -> bool {
    // Quotes are doubled in quoted names, and U&"…" has escapes.
    let is_plain = name.is_ascii() && !name.contains('"') && !text.contains("&\"");
    !is_plain
        || text.as_bytes().windows(name.len().max(1)).any(|part| part.eq_ignore_ascii_case(name.as_bytes()))
}

/// Columns keep their types and their sequences: these cannot be dropped before them, but CASCADE drops defaults.
fn check_columns(plan: &mut Plan, catalog: &Catalog, cascade: bool) -> Result<()> {
    for table in catalog.tables() {
        if plan.tables.iter().any(|dropped| dropped.oid == table.oid) {
            continue;
        }
        for check in &table.checks {
            let by = || format!("constraint {} on table {}", check.name, table.name);
            if let Some(object) = plan.gone(catalog, cascade).in_row(&check.condition, table, by)? {
                plan.note(by(), object);
            }
        }
        for (position, column) in table.columns.iter().enumerate() {
            let by = || format!("column {} of table {}", column.name, table.name);
            let is_of_domain = column.domain.is_some_and(|domain| plan.types.contains(&domain));
            if column.indexed().is_none() && (is_of_domain || plan.drops_type(column.ty)) {
                let domain = column.domain.filter(|_| is_of_domain);
                let object = match domain.and_then(|oid| catalog.user_type_by_oid(oid)) {
                    Some(domain) => format!("type {}", domain.name()),
                    None => type_shown(plan, catalog, column.ty),
                };
                plan.note(by(), object);
                plan.columns.push((table.oid, column.name.clone()));
                continue;
            }
            let text = column.origin.text().unwrap_or_default();
            let is_over = |index: &&Index| index.columns.iter().any(|key| key.column == position);
            let index = column.indexed().and_then(|_| table.indexes.iter().find(is_over));
            let by_text = || match index {
                Some(index) => format!("index {}", index.name),
                None => format!("default value for {}", by()),
            };
            if let Some(object) = plan.gone(catalog, cascade).in_row(text, table, by_text)? {
                plan.note(by_text(), object);
                match (&column.origin, index) {
                    (_, Some(index)) => plan.indexes.push((table.oid, index.oid)),
                    (ColumnOrigin::Default(_), None) => {
                        plan.defaults.push((table.oid, column.name.clone()));
                    }
                    _ => plan.columns.push((table.oid, column.name.clone())),
                }
                continue;
            }
            let sequence = match &column.origin {
                ColumnOrigin::Identity { sequence, .. } => Some(*sequence),
                ColumnOrigin::Default(text) => {
                    plan.sequences.iter().copied().find(|oid| text.contains(&format!("nextval({oid}::")))
                }
                _ => None,
            };
            if sequence.is_some_and(|sequence| plan.sequences.contains(&sequence)) {
                let dropped = sequence.and_then(|oid| catalog.relation_name(oid));
                let object = format!("sequence {}", dropped.map_or("", |(_, name)| name.as_str()));
                let default = format!("default value for {}", by());
                if cascade && !matches!(column.origin, ColumnOrigin::Default(_)) {
                    return Err(depends(&object, &default));
                }
                plan.note(default, object);
                plan.defaults.push((table.oid, column.name.clone()));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::may_name;

    #[test]
    fn a_text_is_parsed_only_if_it_may_have_the_name() {
        assert!(!may_name("select a from t where b in (1, 2)", "orders"));
        assert!(!may_name("", "orders"));
        for (text, name) in [
            ("select a from Orders", "orders"),
            ("select a from s.\"orders\"", "orders"),
            ("select a from \"or\"\"ders\"", "or\"ders"),
            ("select a from U&\"\\006frders\"", "orders"),
            ("select a from größe", "größe"),
        ] {
            assert!(may_name(text, name), "{text}");
        }
    }
}
