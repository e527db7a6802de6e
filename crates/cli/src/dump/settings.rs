//! The settings of relations and columns: storage parameters, options of views, statistics targets, storage,
//! compression.

use heddle_sql::Connection;

use crate::dump::catalog::{OURS, Script, lines, quoted};
use crate::failure::Result;

/// The options of an array of `name=value`, as SET (…) has them.
fn options_of(array: &str) -> String {
    format!(
        "(select string_agg(quote_ident(split_part(o, '=', 1)) || ' = ' || quote_literal(substr(o, strpos(o, '=') + 1)), ', ')
              from unnest({array}) o)"
    )
}

/// Sets the options of tables and views.
pub(super) fn relations(connection: &mut Connection, script: &mut Script) -> Result {
    let options = options_of("c.reloptions");
    let query = format!(
        "select case c.relkind when 'v' then 'VIEW' when 'm' then 'MATERIALIZED VIEW' else 'TABLE' end,
             n.nspname, c.relname, {options}
         from pg_class c join pg_namespace n on n.oid = c.relnamespace
         where c.relkind in ('r', 'v', 'm') and c.reloptions <> '{{}}' and c.relpersistence <> 't' and {OURS} order by c.oid"
    );
    for [kind, schema, name, options] in lines(connection, &query)? {
        script.after.push(format!("ALTER {kind} {}.{} SET ({options});", quoted(&schema), quoted(&name)));
    }
    Ok(())
}

/// Sets what columns of tables are set to.
pub(super) fn columns(connection: &mut Connection, script: &mut Script) -> Result {
    let options = options_of("a.attoptions");
    let query = format!(
        "select n.nspname, c.relname, a.attname,
             case when a.attstattarget >= 0 then 'SET STATISTICS ' || a.attstattarget else '' end,
             coalesce('SET (' || {options} || ')', ''),
             case when a.attstorage <> t.typstorage then 'SET STORAGE ' || case a.attstorage when 'p' then 'PLAIN'
                 when 'e' then 'EXTERNAL' when 'm' then 'MAIN' else 'EXTENDED' end else '' end,
             case a.attcompression when 'p' then 'SET COMPRESSION pglz' when 'l' then 'SET COMPRESSION lz4' else '' end
         from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
             join pg_type t on t.oid = a.atttypid
         where c.relkind = 'r' and c.relpersistence <> 't' and a.attnum > 0 and not a.attisdropped and {OURS}
         order by c.oid, a.attnum"
    );
    for [schema, table, column, settings @ ..] in lines::<7>(connection, &query)? {
        let (table, column) = (format!("{}.{}", quoted(&schema), quoted(&table)), quoted(&column));
        let changes: Vec<String> = settings
            .iter()
            .filter(|setting| !setting.is_empty())
            .map(|setting| format!("ALTER COLUMN {column} {setting}"))
            .collect();
        if !changes.is_empty() {
            script.after.push(format!("ALTER TABLE ONLY {table} {};", changes.join(", ")));
        }
    }
    Ok(())
}
