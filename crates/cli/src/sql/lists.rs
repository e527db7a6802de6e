//! The queries of lists: `\dt`, `\df`, `\du` and their kin, each as psql asks them.

use crate::sql::variables::literal;

/// A list.
pub struct List {
    /// The listed kind of objects, in the plural.
    pub title: &'static str,
    pub query: String,
    /// True if an empty list is shown as a table.
    pub shows_empty: bool,
}

/// A condition for what a pattern means, and what is visible without a schema in it. `*` and `?` are psql's; letters outside of double
/// quotes are lower case.
pub fn condition(pattern: &str, schema: &str, name: &str, visible: &str) -> String {
    let parts = expressions(pattern);
    match parts.as_slice() {
        [only] if only.is_empty() => visible.to_owned(),
        [only] => format!("{name} ~ {} and {visible}", literal(&format!("^({only})$"))),
        [.., of_schema, of_name] => {
            format!(
                "{schema} ~ {} and {name} ~ {}",
                literal(&format!("^({of_schema})$")),
                literal(&format!("^({of_name})$"))
            )
        }
        [] => visible.to_owned(),
    }
}

/// The parts of a pattern, between periods, as regular expressions.
fn expressions(pattern: &str) -> Vec<String> {
    let (mut parts, mut is_quoted) = (vec![String::new()], false);
    for letter in pattern.chars() {
        let last = parts.len() - 1;
        match letter {
            '"' => is_quoted = !is_quoted,
            '*' if !is_quoted => parts[last].push_str(".*"),
            '?' if !is_quoted => parts[last].push('.'),
            '.' if !is_quoted => parts.push(String::new()),
            '$' => parts[last].push_str("\\$"),
            letter if is_quoted && "|*+?()[]{}.^\\".contains(letter) => parts[last].extend(['\\', letter]),
            letter if is_quoted => parts[last].push(letter),
            letter => parts[last].extend(letter.to_lowercase()),
        }
    }
    parts
}

/// The list that a command without its backslash asks for.
pub fn query(command: &str, pattern: &str, is_verbose: bool) -> Option<List> {
    let relations = |kinds: &str| Some(relations(kinds, pattern, is_verbose));
    match command {
        "d" => relations("'r', 'p', 'v', 'm', 'S', 'f'"),
        "dt" => relations("'r', 'p'"),
        "dv" => relations("'v'"),
        "dm" => relations("'m'"),
        "di" => relations("'i', 'I'"),
        "ds" => relations("'S'"),
        "dtv" | "dvt" => relations("'r', 'p', 'v'"),
        "df" => Some(functions(pattern, is_verbose)),
        "du" | "dg" => Some(roles(pattern, is_verbose)),
        "dn" => Some(schemas(pattern, is_verbose)),
        "dT" => Some(types(pattern)),
        "dD" => Some(domains(pattern)),
        "dp" => Some(privileges(pattern)),
        "dx" => Some(extensions(pattern)),
        "l" => Some(databases()),
        _ => None,
    }
}

fn relations(kinds: &str, pattern: &str, is_verbose: bool) -> List {
    let is_meant = condition(pattern, "n.nspname", "c.relname", "pg_table_is_visible(c.oid)");
    let not_system = if pattern.contains('.') || pattern.starts_with("pg_") {
        ""
    } else {
        " and n.nspname not in ('pg_catalog', 'information_schema') and n.nspname !~ '^pg_toast'"
    };
    let table = if kinds.contains("'i'") {
        ", (select t.relname from pg_index x join pg_class t on t.oid = x.indrelid where x.indexrelid = c.oid) as \"Table\""
    } else {
        ""
    };
    let more = if is_verbose {
        ", pg_size_pretty(pg_table_size(c.oid)) as \"Size\", obj_description(c.oid, 'pg_class') as \"Description\""
    } else {
        ""
    };
    let query = format!(
        "select n.nspname as \"Schema\", c.relname as \"Name\", case c.relkind when 'r' then 'table' when 'p' then 'partitioned table'
             when 'v' then 'view' when 'm' then 'materialized view' when 'i' then 'index' when 'I' then 'partitioned index'
             when 'S' then 'sequence' when 'f' then 'foreign table' end as \"Type\", pg_get_userbyid(c.relowner) as \"Owner\"{table}{more}
         from pg_class c left join pg_namespace n on n.oid = c.relnamespace
         where c.relkind in ({kinds}) and {is_meant}{not_system} order by 1, 2"
    );
    List { title: "relations", query, shows_empty: false }
}

fn functions(pattern: &str, is_verbose: bool) -> List {
    let is_meant = condition(pattern, "n.nspname", "p.proname", "pg_function_is_visible(p.oid)");
    let not_system =
        if pattern.is_empty() { " and n.nspname not in ('pg_catalog', 'information_schema')" } else { "" };
    let more = if is_verbose {
        ", case p.provolatile when 'i' then 'immutable' when 's' then 'stable' else 'volatile' end as \"Volatility\",
         pg_get_userbyid(p.proowner) as \"Owner\", case when p.prosecdef then 'definer' else 'invoker' end as \"Security\",
         l.lanname as \"Language\", p.prosrc as \"Source code\", obj_description(p.oid, 'pg_proc') as \"Description\""
    } else {
        ""
    };
    let query = format!(
        "select n.nspname as \"Schema\", p.proname as \"Name\", pg_get_function_result(p.oid) as \"Result data type\",
             pg_get_function_arguments(p.oid) as \"Argument data types\", case p.prokind when 'a' then 'agg' when 'w' then 'window'
             when 'p' then 'proc' else case when p.prorettype = 'trigger'::regtype then 'trigger' else 'func' end end as \"Type\"{more}
         from pg_proc p left join pg_namespace n on n.oid = p.pronamespace left join pg_language l on l.oid = p.prolang
         where {is_meant}{not_system} order by 1, 2, 4"
    );
    List { title: "functions", query, shows_empty: true }
}

fn roles(pattern: &str, is_verbose: bool) -> List {
    let is_meant = condition(pattern, "''", "r.rolname", "true");
    let more = if is_verbose { ", shobj_description(r.oid, 'pg_authid') as \"Description\"" } else { "" };
    let query = format!(
        "select r.rolname as \"Role name\", concat_ws(', ', case when r.rolsuper then 'Superuser' end,
             case when not r.rolinherit then 'No inheritance' end, case when r.rolcreaterole then 'Create role' end,
             case when r.rolcreatedb then 'Create DB' end, case when not r.rolcanlogin then 'Cannot login' end,
             case when r.rolreplication then 'Replication' end, case when r.rolbypassrls then 'Bypass RLS' end,
             case when r.rolconnlimit = 0 then 'No connections' when r.rolconnlimit > 0 then r.rolconnlimit || ' connections' end,
             case when r.rolvaliduntil is not null then 'Password valid until ' || r.rolvaliduntil end) as \"Attributes\",
             array(select b.rolname from pg_auth_members m join pg_roles b on m.roleid = b.oid where m.member = r.oid order by 1)
             as \"Member of\"{more}
         from pg_roles r where {is_meant} and (r.rolname !~ '^pg_' or {}) order by 1",
        pattern.starts_with("pg_")
    );
    List { title: "roles", query, shows_empty: true }
}

fn schemas(pattern: &str, is_verbose: bool) -> List {
    let is_meant = condition(pattern, "''", "n.nspname", "true");
    let not_system = if pattern.is_empty() {
        " and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'"
    } else {
        ""
    };
    let more = if is_verbose {
        ", array_to_string(n.nspacl, E'\\n') as \"Access privileges\", obj_description(n.oid, 'pg_namespace') as \"Description\""
    } else {
        ""
    };
    let query = format!(
        "select n.nspname as \"Name\", pg_get_userbyid(n.nspowner) as \"Owner\"{more} from pg_namespace n
         where {is_meant}{not_system} order by 1"
    );
    List { title: "schemas", query, shows_empty: true }
}

fn types(pattern: &str) -> List {
    let is_meant = condition(pattern, "n.nspname", "t.typname", "pg_type_is_visible(t.oid)");
    let not_system =
        if pattern.is_empty() { " and n.nspname not in ('pg_catalog', 'information_schema')" } else { "" };
    let query = format!(
        "select n.nspname as \"Schema\", format_type(t.oid, null) as \"Name\", case t.typtype when 'e' then 'enum'
             when 'd' then 'domain' when 'c' then 'composite' when 'r' then 'range' else 'base' end as \"Kind\",
             obj_description(t.oid, 'pg_type') as \"Description\"
         from pg_type t left join pg_namespace n on n.oid = t.typnamespace
         where (t.typrelid = 0 or (select c.relkind = 'c' from pg_class c where c.oid = t.typrelid)) and t.typcategory <> 'A'
             and {is_meant}{not_system} order by 1, 2"
    );
    List { title: "data types", query, shows_empty: true }
}

fn domains(pattern: &str) -> List {
    let is_meant = condition(pattern, "n.nspname", "t.typname", "pg_type_is_visible(t.oid)");
    let query = format!(
        "select n.nspname as \"Schema\", t.typname as \"Name\", format_type(t.typbasetype, t.typtypmod) as \"Type\",
             case when t.typnotnull then 'not null' end as \"Nullable\", t.typdefault as \"Default\", array_to_string(array(
             select pg_get_constraintdef(r.oid, true) from pg_constraint r where t.oid = r.contypid order by r.conname), ' ') as \"Check\"
         from pg_type t left join pg_namespace n on n.oid = t.typnamespace
         where t.typtype = 'd' and n.nspname not in ('pg_catalog', 'information_schema') and {is_meant} order by 1, 2"
    );
    List { title: "domains", query, shows_empty: true }
}

fn privileges(pattern: &str) -> List {
    let is_meant = condition(pattern, "n.nspname", "c.relname", "pg_table_is_visible(c.oid)");
    let query = format!(
        "select n.nspname as \"Schema\", c.relname as \"Name\", case c.relkind when 'r' then 'table' when 'v' then 'view'
             when 'm' then 'materialized view' when 'S' then 'sequence' when 'p' then 'partitioned table' end as \"Type\",
             array_to_string(c.relacl, E'\\n') as \"Access privileges\",
             array_to_string(array(select attname || ': ' || array_to_string(attacl, ', ') from pg_attribute a
             where attrelid = c.oid and not attisdropped and attacl is not null), E'\\n') as \"Column privileges\"
         from pg_class c left join pg_namespace n on n.oid = c.relnamespace
         where c.relkind in ('r', 'v', 'm', 'S', 'p') and n.nspname not in ('pg_catalog', 'information_schema') and {is_meant}
         order by 1, 2"
    );
    List { title: "access privileges", query, shows_empty: true }
}

fn extensions(pattern: &str) -> List {
    let is_meant = condition(pattern, "''", "e.extname", "true");
    let query = format!(
        "select e.extname as \"Name\", e.extversion as \"Version\", n.nspname as \"Schema\" from pg_extension e
         left join pg_namespace n on n.oid = e.extnamespace where {is_meant} order by 1"
    );
    List { title: "installed extensions", query, shows_empty: true }
}

fn databases() -> List {
    let query = "select d.datname as \"Name\", pg_get_userbyid(d.datdba) as \"Owner\", pg_encoding_to_char(d.encoding) as \"Encoding\",
         d.datcollate as \"Collate\", d.datctype as \"Ctype\", array_to_string(d.datacl, E'\\n') as \"Access privileges\"
         from pg_database d order by 1";
    List { title: "databases", query: query.to_owned(), shows_empty: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_psqls() {
        let of = |pattern: &str| condition(pattern, "s", "n", "visible");
        assert_eq!(of(""), "visible");
        assert_eq!(of("It*m?"), "n ~ '^(it.*m.)$' and visible");
        assert_eq!(of("public.*"), "s ~ '^(public)$' and n ~ '^(.*)$'");
        assert_eq!(of("\"A.b\""), "n ~  E'^(A\\\\.b)$' and visible");
    }
}
