//! `\d` and its kin: what is in a database.

use std::fmt::Write;

use heddle_sql::Sql;
use heddle_sql::describe::{RelationDescription, RelationSummary};

use crate::sql::print::{Format, Rows};

/// Names that the line editor completes.
pub fn names(sql: &Sql) -> Vec<String> {
    let relations = sql.relations();
    let columns = relations.iter().filter(|relation| relation.kind == "table").flat_map(|relation| {
        let name = format!("{}.{}", relation.schema, relation.name);
        sql.describe_relation(&name).into_iter().flat_map(|table| table.columns).map(|column| column.name)
    });
    let mut names: Vec<String> =
        columns.chain(relations.iter().map(|relation| relation.name.clone())).collect();
    names.sort();
    names.dedup();
    names
}

/// What a command of the `\d` family tells.
///
/// # Errors
/// There is no such relation, or no such command.
pub fn describe(sql: &Sql, command: &str, name: &str) -> Result<String, String> {
    let of_kind = |kinds: &[&str]| list(&sql.relations(), kinds, name);
    match command.trim_end_matches(['+', 'S']) {
        "\\d" if name.is_empty() => Ok(of_kind(&["table", "view", "materialized view", "sequence"])),
        "\\dt" | ".tables" => Ok(of_kind(&["table"])),
        "\\dv" => Ok(of_kind(&["view"])),
        "\\dm" => Ok(of_kind(&["materialized view"])),
        "\\di" => Ok(of_kind(&["index"])),
        "\\ds" => Ok(of_kind(&["sequence"])),
        "\\dn" => Ok(one_column("Name", sql.schema_names())),
        "\\dT" => {
            Ok(table(&["Name", "Kind"], sql.type_names().into_iter().map(|(name, kind)| vec![name, kind])))
        }
        ".schema" if name.is_empty() => {
            let tables = sql.relations().into_iter().filter(|relation| relation.kind == "table");
            let texts = tables.filter_map(|relation| {
                sql.describe_relation(&format!("{}.{}", relation.schema, relation.name))
                    .map(|found| in_full(&found))
            });
            Ok(texts.collect::<Vec<_>>().join("\n"))
        }
        "\\d" | ".schema" => match sql.describe_relation(name) {
            Some(found) => Ok(in_full(&found)),
            None => Err(format!("Did not find any relation named \"{name}\".")),
        },
        other => Err(format!("{other}: no such command; \\? tells all")),
    }
}

fn table(names: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let rows: Vec<Vec<Option<String>>> = rows.map(|row| row.into_iter().map(Some).collect()).collect();
    let names: Vec<String> = names.iter().map(|name| (*name).to_string()).collect();
    Rows { numbers: vec![false; names.len()], names, rows }.text(Format::Table, false)
}

fn one_column(name: &str, values: Vec<String>) -> String {
    table(&[name], values.into_iter().map(|value| vec![value]))
}

fn list(relations: &[RelationSummary], kinds: &[&str], name: &str) -> String {
    let wanted = |relation: &&RelationSummary| {
        kinds.contains(&relation.kind) && (name.is_empty() || relation.name == name)
    };
    let row = |relation: &RelationSummary| {
        let (schema, name) = (relation.schema.clone(), relation.name.clone());
        vec![schema, name, relation.kind.to_string(), relation.table.clone().unwrap_or_default()]
    };
    table(&["Schema", "Name", "Type", "Table"], relations.iter().filter(wanted).map(row))
}

fn in_full(found: &RelationDescription) -> String {
    let relation = &found.relation;
    let mut text = format!("{} \"{}.{}\"\n", capitalized(relation.kind), relation.schema, relation.name);
    let columns = found.columns.iter().map(|column| {
        let nullable = if column.nullable { "" } else { "not null" };
        vec![column.name.clone(), column.ty.clone(), nullable.to_string(), column.default.clone()]
    });
    let columns = table(&["Column", "Type", "Nullable", "Default"], columns);
    // The count of columns says nothing.
    text.push_str(columns.rsplit_once("\n(").map_or(columns.as_str(), |(columns, _)| columns));
    text.push('\n');
    for (heading, lines) in [("Indexes:", &found.indexes), ("Constraints:", &found.constraints)] {
        if !lines.is_empty() {
            let _ = writeln!(text, "{heading}");
            lines.iter().for_each(|line| {
                let _ = writeln!(text, "    {line}");
            });
        }
    }
    if let Some(query) = &found.query {
        let _ = writeln!(text, "View definition:\n {query}");
    }
    text
}

fn capitalized(kind: &str) -> String {
    let mut letters = kind.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
