//! Roles, owners and privileges of a database, as statements.
//!
//! Invariants: the script is run by a superuser. What belongs to the superuser that every database has, whatever it is
//! called there, belongs to the one that runs the script.

use heddle_sql::Connection;

use crate::dump::catalog::{FIRST_OID, OURS, Script, lines, literal, quoted};
use crate::failure::Result;

/// Privileges on the schema `public` of every new database.
const PUBLIC_SCHEMA: &str = "pg_database_owner=UC/pg_database_owner\n=U/pg_database_owner";

/// Roles with their passwords' verifiers, memberships and settings.
pub(super) fn roles(connection: &mut Connection, script: &mut Script) -> Result {
    let flag = |column: &str, word: &str| format!("case when {column} then ' {word}' else ' NO{word}' end");
    let flags = [
        flag("rolsuper", "SUPERUSER"),
        flag("rolinherit", "INHERIT"),
        flag("rolcreaterole", "CREATEROLE"),
        flag("rolcreatedb", "CREATEDB"),
        flag("rolcanlogin", "LOGIN"),
        flag("rolreplication", "REPLICATION"),
        flag("rolbypassrls", "BYPASSRLS"),
    ];
    let query = format!(
        "select rolname, {}, rolconnlimit, coalesce(rolpassword, ''), coalesce(rolvaliduntil::text, '')
         from pg_authid where oid >= {FIRST_OID} order by oid",
        flags.join(" || ")
    );
    for [name, flags, limit, verifier, until] in lines(connection, &query)? {
        let mut text = format!("CREATE ROLE {} WITH{flags}", quoted(&name));
        if limit != "-1" {
            text += &format!(" CONNECTION LIMIT {limit}");
        }
        if !verifier.is_empty() {
            text += &format!(" PASSWORD {}", literal(&verifier));
        }
        if !until.is_empty() {
            text += &format!(" VALID UNTIL {}", literal(&until));
        }
        script.before.push(text + ";");
    }
    let query = format!(
        "select r.rolname, m.rolname, a.admin_option from pg_auth_members a join pg_roles r on r.oid = a.roleid
             join pg_roles m on m.oid = a.member where m.oid >= {FIRST_OID} order by m.oid, r.oid"
    );
    for [role, member, admin] in lines(connection, &query)? {
        let option = if admin == "t" { " WITH ADMIN OPTION" } else { "" };
        script.before.push(format!("GRANT {} TO {}{option};", quoted(&role), quoted(&member)));
    }
    let query = format!(
        "select r.rolname, split_part(c, '=', 1), substr(c, strpos(c, '=') + 1)
         from pg_db_role_setting s join pg_roles r on r.oid = s.setrole, unnest(s.setconfig) c
         where r.oid >= {FIRST_OID} order by r.oid, c"
    );
    for [role, name, value] in lines(connection, &query)? {
        // A search path is a list of names, which is written unchanged.
        let value = if name == "search_path" { value } else { literal(&value) };
        script.before.push(format!("ALTER ROLE {} SET {name} TO {value};", quoted(&role)));
    }
    // The database's own settings come later, because they take precedence. Its name may be another one elsewhere.
    let query = "select split_part(c, '=', 1), substr(c, strpos(c, '=') + 1)
                 from pg_db_role_setting s, unnest(s.setconfig) c where s.setrole = 0 order by s.setdatabase, c";
    for [name, value] in lines(connection, query)? {
        let value = if name == "search_path" { value } else { literal(&value) };
        script.before.push(format!("ALTER ROLE ALL SET {name} TO {value};"));
    }
    Ok(())
}

/// An object that has an owner and privileges: its kind and name as statements say them.
struct Object {
    /// The kind as ALTER … OWNER TO spells it.
    kind: String,
    /// The kind as GRANT spells it.
    granted_as: &'static str,
    name: String,
    /// Its owner, quoted; `None` for the superuser that every database has.
    owner: Option<String>,
    /// Its access list, an item on each line; empty: the default one.
    acl: String,
    /// The columns that it is about, if these have privileges of their own.
    columns: String,
}

/// The columns of an object's owner and access list.
fn rights_of(owner: &str, acl: &str) -> String {
    format!(
        "case when {owner} = 10 then '' else quote_ident(pg_get_userbyid({owner})) end,
         coalesce(array_to_string({acl}, chr(10)), '')"
    )
}

fn objects(connection: &mut Connection) -> Result<Vec<Object>> {
    let mut found = Vec::new();
    let mut add = |kind: String, granted_as, name: String, owner: String, acl: String, columns: String| {
        let owner = Some(owner).filter(|owner| !owner.is_empty());
        found.push(Object { kind, granted_as, name, owner, acl, columns });
    };
    let query = format!(
        "select quote_ident(n.nspname), {} from pg_namespace n where {OURS} order by n.oid",
        rights_of("n.nspowner", "n.nspacl")
    );
    for [name, owner, acl] in lines(connection, &query)? {
        let is_new = name == "public" && acl == PUBLIC_SCHEMA;
        add("SCHEMA".into(), "SCHEMA", name, owner, if is_new { String::new() } else { acl }, String::new());
    }
    let query = format!(
        "select case t.typtype when 'd' then 'DOMAIN' else 'TYPE' end,
             quote_ident(n.nspname) || '.' || quote_ident(t.typname), {}
         from pg_type t join pg_namespace n on n.oid = t.typnamespace
         where (t.typtype in ('e', 'd') or exists (select from pg_class c where c.oid = t.typrelid and c.relkind = 'c'))
             and {OURS} order by t.oid",
        rights_of("t.typowner", "t.typacl")
    );
    for [kind, name, owner, acl] in lines(connection, &query)? {
        add(kind, "TYPE", name, owner, acl, String::new());
    }
    let query = format!(
        "select case p.prokind when 'p' then 'PROCEDURE' else 'FUNCTION' end, quote_ident(n.nspname) || '.'
             || quote_ident(p.proname) || '(' || pg_get_function_identity_arguments(p.oid) || ')', {}
         from pg_proc p join pg_namespace n on n.oid = p.pronamespace where {OURS} order by p.oid",
        rights_of("p.proowner", "p.proacl")
    );
    for [kind, name, owner, acl] in lines(connection, &query)? {
        let granted_as = if kind == "PROCEDURE" { "PROCEDURE" } else { "FUNCTION" };
        add(kind, granted_as, name, owner, acl, String::new());
    }
    let query = format!(
        "select case c.relkind when 'v' then 'VIEW' when 'm' then 'MATERIALIZED VIEW' when 'S' then 'SEQUENCE'
             else 'TABLE' end, quote_ident(n.nspname) || '.' || quote_ident(c.relname), {}
         from pg_class c join pg_namespace n on n.oid = c.relnamespace
         where c.relkind in ('r', 'v', 'm', 'S') and c.relpersistence <> 't' and {OURS} order by c.oid",
        rights_of("c.relowner", "c.relacl")
    );
    for [kind, name, owner, acl] in lines(connection, &query)? {
        let granted_as = if kind == "SEQUENCE" { "SEQUENCE" } else { "TABLE" };
        add(kind, granted_as, name, owner, acl, String::new());
    }
    let query = format!(
        "select quote_ident(a.attname), quote_ident(n.nspname) || '.' || quote_ident(c.relname), {}
         from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
         where a.attacl is not null and a.attnum > 0 and c.relpersistence <> 't' and {OURS} order by c.oid, a.attnum",
        rights_of("c.relowner", "a.attacl")
    );
    for [column, name, owner, acl] in lines(connection, &query)? {
        add(String::new(), "TABLE", name, owner, acl, format!(" ({column})"));
    }
    Ok(found)
}

/// The owners of all objects, what was granted on them, and what is granted on new ones.
pub(super) fn rights(connection: &mut Connection, script: &mut Script) -> Result {
    let superuser: Vec<[String; 1]> = lines(connection, "select quote_ident(pg_get_userbyid(10))")?;
    let superuser = superuser.first().map_or("", |[name]| name.as_str());
    // Sequences of columns have the owners of their tables.
    let query = "select quote_ident(n.nspname) || '.' || quote_ident(c.relname)
         from pg_depend d join pg_class c on c.oid = d.objid and c.relkind = 'S'
             join pg_namespace n on n.oid = c.relnamespace where d.deptype in ('a', 'i') and d.refobjsubid > 0";
    let owned: Vec<String> = lines(connection, query)?.into_iter().map(|[name]| name).collect();
    let objects = objects(connection)?;
    for object in &objects {
        let is_default = object.name == "public" && object.owner.as_deref() == Some("pg_database_owner");
        if let Some(owner) = &object.owner
            && !object.kind.is_empty()
            && !is_default
            && !(object.kind == "SEQUENCE" && owned.contains(&object.name))
        {
            script.after.push(format!("ALTER {} {} OWNER TO {owner};", object.kind, object.name));
        }
    }
    for object in objects.iter().filter(|object| !object.acl.is_empty()) {
        let on = format!("ON {} {}", object.granted_as, object.name);
        let owner = object.owner.as_deref().unwrap_or("CURRENT_USER");
        if object.columns.is_empty() {
            script.after.push(format!("REVOKE ALL {on} FROM PUBLIC, {owner};"));
        }
        for item in object.acl.lines().filter_map(|item| Item::of(item, superuser)) {
            let grants = item.grants("", &on, &object.columns);
            if item.grantor == owner {
                script.after.extend(grants);
                continue;
            }
            script.after.push(format!("SET SESSION AUTHORIZATION {};", item.grantor));
            script.after.extend(grants);
            script.after.push("RESET SESSION AUTHORIZATION;".to_string());
        }
    }
    default_privileges(connection, script, superuser)
}

fn default_privileges(connection: &mut Connection, script: &mut Script, superuser: &str) -> Result {
    let query = "select quote_ident(pg_get_userbyid(d.defaclrole)), d.defaclobjtype, coalesce(quote_ident(n.nspname), ''),
             array_to_string(d.defaclacl, chr(10))
         from pg_default_acl d left join pg_namespace n on n.oid = d.defaclnamespace order by d.oid";
    for [role, kind, schema, acl] in lines(connection, query)? {
        let role = if role == superuser { "CURRENT_USER".to_string() } else { role };
        let on = match kind.as_str() {
            "r" => "ON TABLES",
            "S" => "ON SEQUENCES",
            "f" => "ON FUNCTIONS",
            "T" => "ON TYPES",
            _ => "ON SCHEMAS",
        };
        let of = match schema.is_empty() {
            true => format!("ALTER DEFAULT PRIVILEGES FOR ROLE {role} "),
            false => format!("ALTER DEFAULT PRIVILEGES FOR ROLE {role} IN SCHEMA {schema} "),
        };
        // The default privileges of a schema are added to those of all schemas, which replace the built-in
        // ones.
        if schema.is_empty() {
            script.after.push(format!("{of}REVOKE ALL {on} FROM PUBLIC, {role};"));
        }
        for item in acl.lines().filter_map(|item| Item::of(item, superuser)) {
            script.after.extend(item.grants(&of, on, ""));
        }
    }
    Ok(())
}

/// An item of an access list.
struct Item {
    grantee: String,
    grantor: String,
    /// Privileges without and with the right to grant them.
    privileges: [Vec<&'static str>; 2],
}

impl Item {
    /// `grantee=r*w/grantor`, with names as SQL writes them; the empty one is PUBLIC's.
    fn of(text: &str, superuser: &str) -> Option<Item> {
        let name_end = |text: &str| {
            let mut is_quoted = false;
            text.find(|character| {
                is_quoted ^= character == '"';
                !is_quoted && character == '='
            })
        };
        let (grantee, rest) = text.split_at(name_end(text)?);
        let (letters, grantor) = rest[1..].split_once('/')?;
        let role = |name: &str| match name {
            "" => "PUBLIC".to_string(),
            name if name == superuser => "CURRENT_USER".to_string(),
            name => name.to_string(),
        };
        let mut privileges = [Vec::new(), Vec::new()];
        let mut letters = letters.chars().peekable();
        while let Some(letter) = letters.next() {
            let with_option = letters.next_if_eq(&'*').is_some();
            privileges[usize::from(with_option)].push(privilege(letter)?);
        }
        Some(Item { grantee: role(grantee), grantor: role(grantor), privileges })
    }

    fn grants(&self, before: &str, on: &str, columns: &str) -> Vec<String> {
        let options = ["", " WITH GRANT OPTION"];
        let of = |(privileges, option): (&Vec<&str>, &str)| {
            let named: Vec<String> =
                privileges.iter().map(|privilege| format!("{privilege}{columns}")).collect();
            format!("{before}GRANT {} {on} TO {}{option};", named.join(", "), self.grantee)
        };
        self.privileges.iter().zip(options).filter(|(privileges, _)| !privileges.is_empty()).map(of).collect()
    }
}

/// The privilege that a letter of an access list means.
fn privilege(letter: char) -> Option<&'static str> {
    Some(match letter {
        'r' => "SELECT",
        'a' => "INSERT",
        'w' => "UPDATE",
        'd' => "DELETE",
        'D' => "TRUNCATE",
        'x' => "REFERENCES",
        't' => "TRIGGER",
        'X' => "EXECUTE",
        'U' => "USAGE",
        'C' => "CREATE",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_of_access_lists_are_grants() {
        let grants = |text: &str| Item::of(text, "boss").map(|item| item.grants("", "ON TABLE t", " (a)"));
        let one = |text: &str| Some(vec![text.to_string()]);
        assert_eq!(grants("app=rw/boss"), one("GRANT SELECT (a), UPDATE (a) ON TABLE t TO app;"));
        assert_eq!(grants("=r/boss"), one("GRANT SELECT (a) ON TABLE t TO PUBLIC;"));
        assert_eq!(grants("boss=X/boss"), one("GRANT EXECUTE (a) ON TABLE t TO CURRENT_USER;"));
        assert_eq!(grants("\"a=/b\"\"c\"=d/x"), one("GRANT DELETE (a) ON TABLE t TO \"a=/b\"\"c\";"));
        let both = grants("app=r*aD*/boss").expect("it is an item");
        assert_eq!(
            both,
            [
                "GRANT INSERT (a) ON TABLE t TO app;",
                "GRANT SELECT (a), TRUNCATE (a) ON TABLE t TO app WITH GRANT OPTION;"
            ]
        );
        assert!(grants("nothing").is_none() && grants("a=?/b").is_none() && grants("a=r").is_none());
    }

    #[test]
    fn who_granted_is_the_last_name() {
        let item = Item::of("app=r/\"odd/name\"", "boss").expect("it is an item");
        assert_eq!((item.grantee.as_str(), item.grantor.as_str()), ("app", "\"odd/name\""));
        assert_eq!(Item::of("app=r/boss", "boss").expect("it is an item").grantor, "CURRENT_USER");
    }
}
