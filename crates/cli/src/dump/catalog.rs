//! The definitions of a database, read from the system catalogs.

use heddle_sql::Connection;

use crate::dump::rights::{rights, roles};
use crate::dump::settings;
use crate::failure::{Failure, Result};

/// The schemas of users.
pub(super) const OURS: &str = "n.nspname not like 'pg\\_%' and n.nspname <> 'information_schema'";

/// Functions that no extension has made.
const NO_MEMBER: &str = "not exists (select from pg_depend m
    where m.classid = 'pg_proc'::regclass and m.objid = p.oid and m.deptype = 'e')";

/// The oids of objects that users have made begin here.
pub(super) const FIRST_OID: u32 = 16_384;

/// The statements of a script, in the order in which they run.
#[derive(Default)]
pub(super) struct Script {
    /// Statements before the rows: schemas, types, sequences, tables with their keys.
    pub before: Vec<String>,
    /// The tables: names, and the columns that are copied.
    pub tables: Vec<(String, Vec<String>)>,
    /// Statements after the rows: the values of sequences, indexes, constraints, views, comments.
    pub after: Vec<String>,
}

/// The rows of a query as text.
pub(super) fn rows(connection: &mut Connection, query: &str) -> Result<Vec<Vec<Option<String>>>> {
    let failed = |error: heddle_sql::SqlError| Failure::Failed(error.to_string());
    let results = connection.query(query).map_err(failed)?;
    results.last().map_or(Ok(Vec::new()), |result| connection.text_rows(result).map_err(failed))
}

/// The rows of a query whose columns are never NULL.
pub(super) fn lines<const WIDTH: usize>(
    connection: &mut Connection,
    query: &str,
) -> Result<Vec<[String; WIDTH]>> {
    let full = |row: Vec<Option<String>>| {
        let mut row = row.into_iter().map(Option::unwrap_or_default);
        std::array::from_fn(|_| row.next().unwrap_or_default())
    };
    Ok(rows(connection, query)?.into_iter().map(full).collect())
}

/// A name as SQL writes it.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

pub(super) fn literal(text: &str) -> String {
    match text.contains('\\') {
        true => format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''")),
        false => format!("'{}'", text.replace('\'', "''")),
    }
}

/// Reads everything.
pub(super) fn read(connection: &mut Connection) -> Result<Script> {
    let mut script = Script::default();
    roles(connection, &mut script)?;
    schemas(connection, &mut script)?;
    extensions(connection, &mut script)?;
    types_and_routines(connection, &mut script)?;
    sequences(connection, &mut script)?;
    tables(connection, &mut script)?;
    script.before.extend(routines(connection, true)?.into_iter().map(|(_, definition)| definition));
    positions(connection, &mut script)?;
    constraints(connection, &mut script, "u")?;
    let populated = views(connection, &mut script)?;
    indexes(connection, &mut script)?;
    constraints(connection, &mut script, "f")?;
    triggers(connection, &mut script)?;
    settings::relations(connection, &mut script)?;
    settings::columns(connection, &mut script)?;
    script.after.extend(populated.into_iter().map(|name| format!("REFRESH MATERIALIZED VIEW {name};")));
    comments(connection, &mut script)?;
    rights(connection, &mut script)?;
    Ok(script)
}

fn schemas(connection: &mut Connection, script: &mut Script) -> Result {
    let query =
        format!("select n.nspname from pg_namespace n where {OURS} and n.nspname <> 'public' order by 1");
    for [name] in lines(connection, &query)? {
        script.before.push(format!("CREATE SCHEMA {};", quoted(&name)));
    }
    Ok(())
}

/// Extensions, with what users have said of them.
fn extensions(connection: &mut Connection, script: &mut Script) -> Result {
    let query = format!(
        "select e.extname, n.nspname, coalesce(d.description, ''), coalesce(a.comment, '')
         from pg_extension e join pg_namespace n on n.oid = e.extnamespace
             left join pg_available_extensions a on a.name = e.extname
             left join pg_description d on d.classoid = 'pg_extension'::regclass and d.objoid = e.oid
         where {OURS} order by e.oid"
    );
    for [name, schema, comment, usual] in lines(connection, &query)? {
        script.before.push(format!("CREATE EXTENSION {} SCHEMA {};", quoted(&name), quoted(&schema)));
        if comment != usual {
            let comment = if comment.is_empty() { "NULL".to_string() } else { literal(&comment) };
            script.after.push(format!("COMMENT ON EXTENSION {} IS {comment};", quoted(&name)));
        }
    }
    Ok(())
}

/// Types, and the routines that return no rows of tables, in the order in which they were made: rules of domains call functions,
/// whose arguments may be of domains. Tables follow, whose defaults and checks call functions.
fn types_and_routines(connection: &mut Connection, script: &mut Script) -> Result {
    let mut found = types(connection)?;
    found.extend(routines(connection, false)?);
    found.sort_by_key(|(oid, _)| *oid);
    script.before.extend(found.into_iter().map(|(_, definition)| definition));
    Ok(())
}

/// Enums and domains, with their oids.
fn types(connection: &mut Connection) -> Result<Vec<(u32, String)>> {
    let query = format!(
        "select t.oid, n.nspname, t.typname, t.typtype, format_type(t.typbasetype, t.typtypmod), t.typnotnull,
             coalesce(t.typdefault, '')
         from pg_type t join pg_namespace n on n.oid = t.typnamespace
         where t.typtype in ('e', 'd') and {OURS} order by t.oid"
    );
    let mut found = composites(connection)?;
    for [oid, schema, name, kind, base, not_null, default] in lines(connection, &query)? {
        let name = format!("{}.{}", quoted(&schema), quoted(&name));
        let number = oid.parse().unwrap_or(u32::MAX);
        if kind == "e" {
            let query =
                format!("select enumlabel from pg_enum where enumtypid = {oid} order by enumsortorder");
            let labels: Vec<String> =
                lines(connection, &query)?.into_iter().map(|[label]| literal(&label)).collect();
            found.push((number, format!("CREATE TYPE {name} AS ENUM ({});", labels.join(", "))));
            continue;
        }
        let mut text = format!("CREATE DOMAIN {name} AS {base}");
        if !default.is_empty() {
            text += &format!(" DEFAULT {default}");
        }
        if not_null == "t" {
            text += " NOT NULL";
        }
        let query = format!(
            "select conname, pg_get_constraintdef(oid) from pg_constraint where contypid = {oid} order by conname"
        );
        for [check, definition] in lines(connection, &query)? {
            text += &format!("\n    CONSTRAINT {} {definition}", quoted(&check));
        }
        found.push((number, text + ";"));
    }
    Ok(found)
}

/// Composite types, with the oids of their entries in `pg_class`: they count with those of other types.
fn composites(connection: &mut Connection) -> Result<Vec<(u32, String)>> {
    let query = format!(
        "select c.oid, n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
         where c.relkind = 'c' and {OURS} order by c.oid"
    );
    let mut found = Vec::new();
    for [oid, schema, name] in lines(connection, &query)? {
        let query = format!(
            "select a.attname, format_type(a.atttypid, a.atttypmod),
                 coalesce((select ' COLLATE pg_catalog.' || quote_ident(l.collname) from pg_collation l
                     join pg_type t on t.oid = a.atttypid where l.oid = a.attcollation and l.oid <> t.typcollation), '')
             from pg_attribute a where a.attrelid = {oid} and a.attnum > 0 order by a.attnum"
        );
        let attributes = lines(connection, &query)?.into_iter();
        let attributes: Vec<String> = attributes
            .map(|[name, ty, collation]| format!("    {} {ty}{collation}", quoted(&name)))
            .collect();
        let name = format!("{}.{}", quoted(&schema), quoted(&name));
        let text = format!("CREATE TYPE {name} AS (\n{}\n);", attributes.join(",\n"));
        found.push((oid.parse().unwrap_or(u32::MAX), text));
    }
    Ok(found)
}

/// Functions and procedures: those that return rows of tables, or the others, with their oids.
fn routines(connection: &mut Connection, of_rows: bool) -> Result<Vec<(u32, String)>> {
    let query = format!(
        "select p.oid, pg_get_functiondef(p.oid) from pg_proc p join pg_namespace n on n.oid = p.pronamespace
         where {OURS} and {NO_MEMBER} and {of_rows} = exists
             (select from pg_class c where c.relkind = 'r'
                  and pg_get_function_result(p.oid) in (c.oid::regclass::text, 'SETOF ' || c.oid::regclass::text))
         order by p.oid"
    );
    let found = lines(connection, &query)?.into_iter();
    let statement = |[oid, definition]: [String; 2]| {
        (oid.parse().unwrap_or(u32::MAX), format!("{};", definition.trim_end()))
    };
    Ok(found.map(statement).collect())
}

/// The options of a sequence.
const OPTIONS: &str =
    "'START WITH ' || s.seqstart || ' INCREMENT BY ' || s.seqincrement || ' MINVALUE ' || s.seqmin
    || ' MAXVALUE ' || s.seqmax || ' CACHE ' || s.seqcache || case when s.seqcycle then ' CYCLE' else '' end";

/// Sequences that no identity column owns.
fn sequences(connection: &mut Connection, script: &mut Script) -> Result {
    let query = format!(
        "select n.nspname, c.relname, format_type(s.seqtypid, null), {OPTIONS}
         from pg_sequence s join pg_class c on c.oid = s.seqrelid join pg_namespace n on n.oid = c.relnamespace
         where {OURS} and not exists
             (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'i')
         order by c.oid"
    );
    for [schema, name, ty, options] in lines(connection, &query)? {
        script.before.push(format!(
            "CREATE SEQUENCE {}.{} AS {ty} {options};",
            quoted(&schema),
            quoted(&name)
        ));
    }
    Ok(())
}

fn tables(connection: &mut Connection, script: &mut Script) -> Result {
    let query = format!(
        "select c.oid, n.nspname, c.relname, c.relpersistence
         from pg_class c join pg_namespace n on n.oid = c.relnamespace
         where c.relkind = 'r' and c.relpersistence <> 't' and {OURS} order by c.oid"
    );
    for [oid, schema, name, persistence] in lines(connection, &query)? {
        let name = format!("{}.{}", quoted(&schema), quoted(&name));
        let (mut parts, mut copied, mut identities) = (Vec::new(), Vec::new(), Vec::new());
        let query = format!(
            "select a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity, a.attgenerated,
                 coalesce(pg_get_expr(d.adbin, d.adrelid), ''),
                 coalesce((select ' COLLATE pg_catalog.' || quote_ident(c.collname) from pg_collation c
                     join pg_type t on t.oid = a.atttypid where c.oid = a.attcollation and c.oid <> t.typcollation), '')
             from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
             where a.attrelid = {oid} and a.attnum > 0 and not a.attisdropped order by a.attnum"
        );
        for [column, ty, not_null, identity, generated, default, collation] in lines(connection, &query)? {
            let mut part = format!("{} {ty}{collation}", quoted(&column));
            match (generated.as_str(), default.is_empty()) {
                ("s", _) => part += &format!(" GENERATED ALWAYS AS ({default}) STORED"),
                (_, false) => part += &format!(" DEFAULT {default}"),
                _ => {}
            }
            if not_null == "t" {
                part += " NOT NULL";
            }
            if generated != "s" {
                copied.push(quoted(&column));
            }
            if !identity.is_empty() {
                identities.push((column, identity));
            }
            parts.push(part);
        }
        let query = format!(
            "select conname, pg_get_constraintdef(oid) from pg_constraint
             where conrelid = {oid} and contype in ('p', 'c') order by contype desc, conname"
        );
        for [constraint, definition] in lines(connection, &query)? {
            parts.push(format!("CONSTRAINT {} {definition}", quoted(&constraint)));
        }
        let unlogged = if persistence == "u" { "UNLOGGED " } else { "" };
        script.before.push(format!("CREATE {unlogged}TABLE {name} (\n    {}\n);", parts.join(",\n    ")));
        for (column, kind) in identities {
            script.before.push(identity(connection, &oid, &name, &column, &kind)?);
        }
        script.tables.push((name, copied));
    }
    owners(connection, script)
}

/// Makes a column an identity column, with its sequence.
fn identity(connection: &mut Connection, oid: &str, table: &str, column: &str, kind: &str) -> Result<String> {
    let query = format!(
        "select n.nspname, c.relname, {OPTIONS}
         from pg_depend d join pg_sequence s on s.seqrelid = d.objid join pg_class c on c.oid = s.seqrelid
             join pg_namespace n on n.oid = c.relnamespace
             join pg_attribute a on a.attrelid = d.refobjid and a.attnum = d.refobjsubid
         where d.deptype = 'i' and d.refobjid = {oid} and a.attname = {}",
        literal(column)
    );
    let kind = if kind == "a" { "ALWAYS" } else { "BY DEFAULT" };
    let alter =
        format!("ALTER TABLE {table} ALTER COLUMN {} ADD GENERATED {kind} AS IDENTITY", quoted(column));
    Ok(match lines(connection, &query)?.into_iter().next() {
        Some([schema, name, options]) => {
            format!("{alter} (SEQUENCE NAME {}.{} {options});", quoted(&schema), quoted(&name))
        }
        None => format!("{alter};"),
    })
}

/// Writes which columns own sequences, apart from identity columns.
fn owners(connection: &mut Connection, script: &mut Script) -> Result {
    let query = format!(
        "select n.nspname, c.relname, tn.nspname, t.relname, a.attname
         from pg_depend d join pg_class c on c.oid = d.objid and c.relkind = 'S'
             join pg_namespace n on n.oid = c.relnamespace
             join pg_class t on t.oid = d.refobjid join pg_namespace tn on tn.oid = t.relnamespace
             join pg_attribute a on a.attrelid = t.oid and a.attnum = d.refobjsubid
         where d.deptype = 'a' and d.refobjsubid > 0 and {OURS} order by c.oid"
    );
    for [schema, name, table_schema, table, column] in lines(connection, &query)? {
        script.before.push(format!(
            "ALTER SEQUENCE {}.{} OWNED BY {}.{}.{};",
            quoted(&schema),
            quoted(&name),
            quoted(&table_schema),
            quoted(&table),
            quoted(&column)
        ));
    }
    Ok(())
}

/// Writes the current values of sequences.
fn positions(connection: &mut Connection, script: &mut Script) -> Result {
    let query = format!(
        "select n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
         where c.relkind = 'S' and c.relpersistence <> 't' and {OURS} order by c.oid"
    );
    for [schema, name] in lines(connection, &query)? {
        let sequence = format!("{}.{}", quoted(&schema), quoted(&name));
        for [last, called] in lines(connection, &format!("select last_value, is_called from {sequence}"))? {
            let called = called == "t";
            script.after.push(format!("SELECT pg_catalog.setval({}, {last}, {called});", literal(&sequence)));
        }
    }
    Ok(())
}

/// Unique constraints, or foreign keys.
fn constraints(connection: &mut Connection, script: &mut Script, kind: &str) -> Result {
    let query = format!(
        "select n.nspname, c.relname, o.conname, pg_get_constraintdef(o.oid)
         from pg_constraint o join pg_class c on c.oid = o.conrelid join pg_namespace n on n.oid = c.relnamespace
         where o.contype = '{kind}' and c.relpersistence <> 't' and {OURS} order by c.oid, o.conname"
    );
    for [schema, table, name, definition] in lines(connection, &query)? {
        let (table, name) = (format!("{}.{}", quoted(&schema), quoted(&table)), quoted(&name));
        script.after.push(format!("ALTER TABLE {table} ADD CONSTRAINT {name} {definition};"));
    }
    Ok(())
}

fn indexes(connection: &mut Connection, script: &mut Script) -> Result {
    let query = format!(
        "select pg_get_indexdef(i.indexrelid)
         from pg_index i join pg_class c on c.oid = i.indrelid join pg_namespace n on n.oid = c.relnamespace
         where c.relpersistence <> 't' and {OURS} and not exists
             (select from pg_constraint o where o.conindid = i.indexrelid and o.contype in ('p', 'u'))
         order by i.indexrelid"
    );
    for [definition] in lines(connection, &query)? {
        script.after.push(definition + ";");
    }
    Ok(())
}

fn triggers(connection: &mut Connection, script: &mut Script) -> Result {
    let query = format!(
        "select pg_get_triggerdef(t.oid) from pg_trigger t join pg_class c on c.oid = t.tgrelid
             join pg_namespace n on n.oid = c.relnamespace
         where not t.tgisinternal and c.relpersistence <> 't' and {OURS} order by t.oid"
    );
    for [definition] in lines(connection, &query)? {
        script.after.push(definition + ";");
    }
    Ok(())
}

/// Views, each behind those that it reads. The materialized ones that are to be populated, in that order.
fn views(connection: &mut Connection, script: &mut Script) -> Result<Vec<String>> {
    let query = format!(
        "select c.oid, n.nspname, c.relname, pg_get_viewdef(c.oid), c.relkind, c.relispopulated
         from pg_class c join pg_namespace n on n.oid = c.relnamespace
         where c.relkind in ('v', 'm') and {OURS} order by c.oid"
    );
    let mut populated = Vec::new();
    let mut waiting: Vec<[String; 6]> = lines(connection, &query)?;
    let reads: Vec<[String; 2]> = lines(
        connection,
        "select r.ev_class, d.refobjid from pg_rewrite r join pg_depend d on d.objid = r.oid
         where d.classid = 'pg_rewrite'::regclass and d.deptype = 'n'",
    )?;
    while !waiting.is_empty() {
        let open: Vec<String> = waiting.iter().map(|view| view[0].clone()).collect();
        let is_ready = |view: &[String; 6]| {
            !reads.iter().any(|[of, read]| *of == view[0] && *read != view[0] && open.contains(read))
        };
        // Views cannot read each other in a circle; were it so, the first one is taken, and running the script reports it.
        let next = waiting.iter().position(is_ready).unwrap_or_default();
        let [oid, schema, name, query, kind, is_populated] = waiting.remove(next);
        let columns =
            format!("select attname from pg_attribute where attrelid = {oid} and attnum > 0 order by attnum");
        let columns: Vec<String> =
            lines(connection, &columns)?.into_iter().map(|[column]| quoted(&column)).collect();
        let (name, columns) = (format!("{}.{}", quoted(&schema), quoted(&name)), columns.join(", "));
        if kind == "v" {
            script.after.push(format!("CREATE VIEW {name} ({columns}) AS\n{query}"));
            continue;
        }
        let query = query.trim_end_matches(';');
        script.after.push(format!("CREATE MATERIALIZED VIEW {name} ({columns}) AS\n{query}\nWITH NO DATA;"));
        if is_populated == "t" {
            populated.push(name);
        }
    }
    Ok(populated)
}

/// All comments, in the order of names: the script of a copy is the same.
fn comments(connection: &mut Connection, script: &mut Script) -> Result {
    let query = format!(
        "select case when t.oid is not null then case t.typtype when 'd' then 'DOMAIN ' else 'TYPE ' end
                 || quote_ident(tn.nspname) || '.' || quote_ident(t.typname)
             when p.oid is not null then case p.prokind when 'p' then 'PROCEDURE ' else 'FUNCTION ' end
                 || quote_ident(pn.nspname) || '.' || quote_ident(p.proname)
                 || '(' || pg_get_function_identity_arguments(p.oid) || ')'
             else 'SCHEMA ' || quote_ident(n.nspname) end, d.description
         from pg_description d
             left join pg_type t on d.classoid = 'pg_type'::regclass and t.oid = d.objoid
             left join pg_namespace tn on tn.oid = t.typnamespace
             left join pg_proc p on d.classoid = 'pg_proc'::regclass and p.oid = d.objoid
             left join pg_namespace pn on pn.oid = p.pronamespace
             left join pg_namespace n on d.classoid = 'pg_namespace'::regclass and n.oid = d.objoid
                 and not (n.nspname = 'public' and d.description = 'standard public schema') and {OURS}
         where t.oid >= {FIRST_OID} or p.oid >= {FIRST_OID} or n.oid is not null order by 1"
    );
    for [what, text] in lines(connection, &query)? {
        script.after.push(format!("COMMENT ON {what} IS {};", literal(&text)));
    }
    let query = format!(
        "select c.relkind, n.nspname, c.relname, coalesce(a.attname, ''), d.description
         from pg_description d join pg_class c on d.classoid = 'pg_class'::regclass and c.oid = d.objoid
             join pg_namespace n on n.oid = c.relnamespace
             left join pg_attribute a on d.objsubid > 0 and a.attrelid = c.oid and a.attnum = d.objsubid
         where {OURS} and c.relpersistence <> 't' order by n.nspname, c.relname, d.objsubid"
    );
    for [kind, schema, name, column, text] in lines(connection, &query)? {
        let name = format!("{}.{}", quoted(&schema), quoted(&name));
        let what = match (kind.as_str(), column.is_empty()) {
            (_, false) => format!("COLUMN {name}.{}", quoted(&column)),
            ("v", _) => format!("VIEW {name}"),
            ("m", _) => format!("MATERIALIZED VIEW {name}"),
            ("S", _) => format!("SEQUENCE {name}"),
            ("i", _) => format!("INDEX {name}"),
            _ => format!("TABLE {name}"),
        };
        script.after.push(format!("COMMENT ON {what} IS {};", literal(&text)));
    }
    comments_on_parts(connection, script)
}

/// Comments on constraints and triggers, which their tables and domains name.
fn comments_on_parts(connection: &mut Connection, script: &mut Script) -> Result {
    let query = format!(
        "select 'CONSTRAINT ' || quote_ident(k.conname) || ' ON '
                 || case when k.contypid <> 0 then 'DOMAIN ' else '' end
                 || quote_ident(n.nspname) || '.' || quote_ident(coalesce(t.typname, c.relname)), d.description
         from pg_description d join pg_constraint k on d.classoid = 'pg_constraint'::regclass and k.oid = d.objoid
             join pg_namespace n on n.oid = k.connamespace
             left join pg_type t on k.contypid <> 0 and t.oid = k.contypid
             left join pg_class c on k.conrelid <> 0 and c.oid = k.conrelid
         where {OURS} and (c.oid is null or c.relpersistence <> 't')
         union all
         select 'TRIGGER ' || quote_ident(g.tgname) || ' ON ' || quote_ident(n.nspname) || '.' || quote_ident(c.relname),
             d.description
         from pg_description d join pg_trigger g on d.classoid = 'pg_trigger'::regclass and g.oid = d.objoid
             join pg_class c on c.oid = g.tgrelid join pg_namespace n on n.oid = c.relnamespace
         where {OURS} order by 1"
    );
    for [what, text] in lines(connection, &query)? {
        script.after.push(format!("COMMENT ON {what} IS {};", literal(&text)));
    }
    Ok(())
}
