//! `\d` and its kin: what is in a database, asked of the system catalogs.

use std::fmt::Write;

use heddle_sql::Sql;
use heddle_sql::describe::RelationDescription;

use crate::failure::Result;
use crate::output;
use crate::sql::lists;
use crate::sql::meta::refuse;
use crate::sql::print::{Display, Format, Rows};
use crate::sql::shell::Shell;
use crate::sql::variables::literal;

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

/// Runs a command of the `\d` family.
pub fn run(shell: &mut Shell, command: &str, arguments: &[String]) -> Result {
    let is_verbose = command.contains('+');
    let name = command.trim_end_matches(['+', 'S']);
    let pattern = arguments.first().map(String::as_str).unwrap_or_default();
    if name == "d" && !pattern.is_empty() {
        return relation(shell, pattern, is_verbose);
    }
    let Some(list) = lists::query(name, pattern, is_verbose) else {
        refuse(shell, &format!("\\{command}: no such command; \\? tells all"));
        return Ok(());
    };
    let Some(results) = shell.connection_results(&list.query) else { return Ok(()) };
    let Some(result) = results.last() else { return Ok(()) };
    if result.rows.is_empty() && !list.shows_empty {
        // As psql: a list that is empty says so; that is no table, and no failure.
        let whose = if pattern.is_empty() { String::new() } else { format!(" named \"{pattern}\"") };
        output::report(format_args!("Did not find any {}{whose}.", list.title));
        return Ok(());
    }
    let rows = shell.rows(result)?;
    let title = std::mem::replace(&mut shell.display.title, format!("List of {}", list.title));
    let null = std::mem::take(&mut shell.display.null);
    let printed = shell.print_rows(&rows);
    (shell.display.title, shell.display.null) = (title, null);
    printed
}

/// `\d NAME`: one relation in full, or each that a pattern means.
fn relation(shell: &mut Shell, pattern: &str, is_verbose: bool) -> Result {
    let has_wildcard = pattern.contains(['*', '?']);
    let names: Vec<String> = if has_wildcard { matching(shell, pattern)? } else { vec![pattern.to_owned()] };
    let mut text = String::new();
    for name in names {
        match shell.sql.describe_relation(&name) {
            Some(found) => {
                text.push_str(&in_full(&found));
                more(shell, &found, is_verbose, &mut text)?;
            }
            None => {
                refuse(shell, &format!("Did not find any relation named \"{name}\"."));
                return Ok(());
            }
        }
    }
    if text.is_empty() {
        refuse(shell, &format!("Did not find any relation named \"{pattern}\"."));
        return Ok(());
    }
    shell.print_long(&text)
}

/// The names that a pattern means, with their schemas.
fn matching(shell: &mut Shell, pattern: &str) -> Result<Vec<String>> {
    let query = format!(
        "select n.nspname || '.' || c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
         where c.relkind in ('r', 'p', 'v', 'm', 'S', 'i') and {} order by 1",
        lists::condition(pattern, "n.nspname", "c.relname", "pg_table_is_visible(c.oid)")
    );
    texts(shell, &query)
}

/// The values of a query of one column.
fn texts(shell: &mut Shell, query: &str) -> Result<Vec<String>> {
    let Some(results) = shell.connection_results(query) else { return Ok(Vec::new()) };
    let Some(result) = results.last() else { return Ok(Vec::new()) };
    Ok(shell.rows(result)?.rows.into_iter().flatten().flatten().collect())
}

/// Appends the references to a relation, its triggers, and, if more is wanted, its comments and size.
fn more(shell: &mut Shell, found: &RelationDescription, is_verbose: bool, text: &mut String) -> Result {
    let relation = &found.relation;
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let oid = format!(
        "{}::regclass::oid",
        literal(&format!("{}.{}", quoted(&relation.schema), quoted(&relation.name)))
    );
    let referenced = format!(
        "select 'TABLE \"' || conrelid::regclass || '\" CONSTRAINT \"' || conname || '\" ' || pg_get_constraintdef(oid)
         from pg_constraint where confrelid = {oid} and contype = 'f' order by 1"
    );
    let triggers = format!(
        "select replace(replace(pg_get_triggerdef(oid), 'CREATE TRIGGER ', ''), 'CREATE CONSTRAINT TRIGGER ', '')
         from pg_trigger where tgrelid = {oid} and not tgisinternal order by tgname"
    );
    for (heading, query) in [("Referenced by:", referenced), ("Triggers:", triggers)] {
        section(text, heading, &texts(shell, &query)?);
    }
    if is_verbose && relation.kind != "index" {
        let comments = format!(
            "select case when a.attnum is null then 'relation' else a.attname end || ': ' || d.description
             from pg_description d left join pg_attribute a on a.attrelid = d.objoid and a.attnum = d.objsubid and d.objsubid > 0
             where d.objoid = {oid} and d.classoid = 'pg_class'::regclass order by d.objsubid"
        );
        section(text, "Comments:", &texts(shell, &comments)?);
        if matches!(relation.kind, "table" | "materialized view") {
            let size = format!("select pg_size_pretty(pg_total_relation_size({oid}))");
            section(text, "Size, with indexes:", &texts(shell, &size)?);
        }
    }
    Ok(())
}

fn section(text: &mut String, heading: &str, lines: &[String]) {
    if !lines.is_empty() {
        let _ = writeln!(text, "{heading}");
        lines.iter().for_each(|line| {
            let _ = writeln!(text, "    {line}");
        });
    }
}

/// `.schema [NAME]`
pub fn schema(shell: &mut Shell, name: &str) -> Result {
    if !name.is_empty() {
        return relation(shell, name, false);
    }
    let tables = shell.sql.relations().into_iter().filter(|relation| relation.kind == "table");
    let texts = tables.filter_map(|relation| {
        shell
            .sql
            .describe_relation(&format!("{}.{}", relation.schema, relation.name))
            .map(|found| in_full(&found))
    });
    let text = texts.collect::<Vec<_>>().join("\n");
    shell.print_long(&text)
}

fn in_full(found: &RelationDescription) -> String {
    let relation = &found.relation;
    let mut text = format!("{} \"{}.{}\"\n", capitalized(relation.kind), relation.schema, relation.name);
    let cells = found.columns.iter().map(|column| {
        let nullable = if column.nullable { "" } else { "not null" };
        let cells = [column.name.clone(), column.ty.clone(), nullable.to_string(), column.default.clone()];
        cells.map(Some).to_vec()
    });
    let names = ["Column", "Type", "Nullable", "Default"].map(str::to_owned).to_vec();
    let rows = Rows { numbers: vec![false; names.len()], names, rows: cells.collect() };
    // The count of columns says nothing.
    text.push_str(&rows.text(&Display { footer: false, ..Display::new(Format::Table) }, usize::MAX));
    section(&mut text, "Indexes:", &found.indexes);
    section(&mut text, "Constraints:", &found.constraints);
    if let Some(query) = &found.query {
        let _ = writeln!(text, "View definition:\n {query}");
    }
    text
}

fn capitalized(kind: &str) -> String {
    let mut letters = kind.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
