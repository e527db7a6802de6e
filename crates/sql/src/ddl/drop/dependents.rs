//! The objects that depend on those of a DROP: they are dropped with them, or keep them from being dropped.
//!
//! Sequences depend on the columns that own them, foreign keys on the tables that they refer to, views on the relations that
//! their queries name, columns on their enums, domains and sequences.

use super::depends;
use super::plan::Plan;
use crate::catalog::{Catalog, ColumnOrigin, Index, Relation, View};
use crate::ddl::dropped_calls::check_domains;
use crate::ddl::routine::shown;
use crate::error::Result;
use crate::types::Type;

/// Adds what depends on the objects to be dropped, or refuses.
pub(super) fn complete(plan: &mut Plan, catalog: &Catalog, cascade: bool) -> Result<()> {
    for schema in plan.schemas.clone() {
        add_schema(plan, catalog, &schema, cascade)?;
    }
    add_extensions(plan, catalog);
    loop {
        let count = |plan: &Plan| {
            let relations = plan.tables.len() + plan.views.len() + plan.sequences.len();
            (relations, plan.foreign_keys.len(), plan.routines.len())
        };
        let before = count(plan);
        add_owned(plan, catalog);
        add_foreign_keys(plan, catalog, cascade)?;
        add_views(plan, catalog, cascade)?;
        add_routines(plan, catalog, cascade)?;
        if before == count(plan) {
            break;
        }
    }
    check_attributes(plan, catalog, cascade)?;
    add_triggers(plan, catalog, cascade)?;
    check_domains(plan.gone(catalog, cascade))?;
    check_columns(plan, catalog, cascade)
}

fn add_schema(plan: &mut Plan, catalog: &Catalog, schema: &str, cascade: bool) -> Result<()> {
    let object = format!("schema {schema}");
    for extension in catalog.extensions().filter(|extension| extension.schema == schema) {
        if !cascade {
            return Err(depends(&object, &format!("extension {}", extension.name)));
        }
        plan.extensions.push(extension.oid);
    }
    for (name, relation) in catalog.relations_in(schema) {
        if !cascade {
            return Err(depends(&object, &format!("{} {schema}.{name}", relation.kind())));
        }
        match relation {
            Relation::Table(table) => plan.tables.push(table.clone()),
            Relation::View(view) => plan.views.push(view.clone()),
            Relation::Sequence(sequence) => plan.sequences.push(sequence.oid),
            Relation::Index { .. } => {}
        }
    }
    for routine in catalog.routines().filter(|routine| routine.schema == schema) {
        if !cascade {
            return Err(depends(&object, &shown(catalog, routine)));
        }
        plan.routines.push(routine.clone());
    }
    for ty in catalog.types() {
        if ty.schema() == schema {
            if !cascade {
                return Err(depends(&object, &format!("type {schema}.{}", ty.name())));
            }
            plan.types.push(ty.oid());
        }
    }
    plan.tables.dedup_by_key(|table| table.oid);
    Ok(())
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
fn check_attributes(plan: &Plan, catalog: &Catalog, cascade: bool) -> Result<()> {
    for ty in catalog.composites().filter(|ty| !plan.types.contains(&ty.oid)) {
        let Some(attribute) = ty.attributes.iter().find(|it| plan.drops_type(it.ty)) else { continue };
        let by = format!("column {} of composite type {}", attribute.name, ty.name);
        let error = depends("type", &by);
        return Err(if cascade { error.with_hint("Drop the attribute first.") } else { error });
    }
    Ok(())
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

fn add_foreign_keys(plan: &mut Plan, catalog: &Catalog, cascade: bool) -> Result<()> {
    for table in catalog.tables() {
        if plan.tables.iter().any(|dropped| dropped.oid == table.oid) {
            continue;
        }
        for key in &table.foreign_keys {
            let Some(dropped) = plan.tables.iter().find(|dropped| dropped.oid == key.table) else { continue };
            if !cascade {
                let by = format!("constraint {} on table {}", key.name, table.name);
                return Err(depends(&format!("table {}", dropped.name), &by));
            }
            let entry = (table.oid, key.name.clone());
            if !plan.foreign_keys.contains(&entry) {
                plan.foreign_keys.push(entry);
            }
        }
    }
    Ok(())
}

fn add_views(plan: &mut Plan, catalog: &Catalog, cascade: bool) -> Result<()> {
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
        plan.add_view(catalog, &view, &object, cascade)?;
    }
    Ok(())
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
                let names_row = |ty: Type| {
                    let element = ty.element().unwrap_or(ty);
                    let of = element.row_relation();
                    plan.tables.iter().find(|table| Some(table.oid) == of)
                };
                let mut types = routine.arguments.iter().map(|it| it.ty).chain([routine.result]);
                match types.find_map(names_row) {
                    Some(table) => format!("table {}", table.name),
                    None => "type".to_string(),
                }
            }
            None if plan.gone(catalog, cascade).is_in_arguments(routine)? => {
                plan.routines.push(routine.clone());
                continue;
            }
            None => continue,
        };
        if !cascade {
            return Err(depends(&object, &shown(catalog, routine)));
        }
        plan.routines.push(routine.clone());
    }
    for view in catalog.stored_queries() {
        if !plan.drops_view(view.oid) && plan.gone(catalog, cascade).is_in_view(&view)? {
            plan.add_view(catalog, &view, "function", cascade)?;
        }
    }
    Ok(())
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
        if plan.gone(catalog, cascade).is_in_condition(trigger, table)? {
            plan.triggers.push(trigger.oid);
        } else if let Some(routine) = plan.routines.iter().find(|it| it.oid == trigger.function) {
            if !cascade {
                let by = format!("trigger {} on table {}", trigger.name, table.name);
                return Err(depends(&shown(catalog, routine), &by));
            }
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
            plan.gone(catalog, cascade).is_in_row(&check.condition, table, by)?;
        }
        for (position, column) in table.columns.iter().enumerate() {
            let by = || format!("column {} of table {}", column.name, table.name);
            let is_of_domain = column.domain.is_some_and(|domain| plan.types.contains(&domain));
            if column.indexed().is_none() && (is_of_domain || plan.drops_type(column.ty)) {
                if !cascade {
                    return Err(depends("type", &by()));
                }
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
            if plan.gone(catalog, cascade).is_in_row(text, table, by_text)? {
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
                if cascade && matches!(column.origin, ColumnOrigin::Default(_)) {
                    plan.defaults.push((table.oid, column.name.clone()));
                    continue;
                }
                return Err(depends("sequence", &format!("default value for {}", by())));
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
