//! `heddle dump --sql`: the script creates the same database again, in HeddleDB and in PostgreSQL 15.

use std::path::{Path, PathBuf};

use crate::common::{heddle, succeed};
use crate::oracle;

/// Queries that each database is asked.
const QUESTIONS: [&str; 31] = [
    "select relname, o from pg_class, unnest(reloptions) o where relname in ('packed', 'barred') order by relname, o",
    "select attname, attstattarget, array_to_string(attoptions, ' '), attstorage, attcompression from pg_attribute
         where attrelid = 'shop.packed'::regclass and attnum > 0 order by attnum",
    "select attname, attcollation::text from pg_attribute where attrelid in ('collated'::regclass, 'collated_b'::regclass)
         and attnum > 0 order by attrelid::regclass::text, attnum",
    "select column_name, collation_schema, collation_name from information_schema.columns where table_name = 'collated'
         order by ordinal_position",
    "select * from public.person order by id",
    "select * from shop.team order by id",
    "select count(*), min(at), max(at), max(what) from public.temp_log",
    "select * from shop.base order by id",
    "select * from public.over order by n",
    "select shop.twice(4), id from public.team_of(1)",
    "select column_name, is_nullable, is_identity, identity_generation, is_generated
         from information_schema.columns where table_name in ('person', 'team') order by table_name, ordinal_position",
    "select conname, contype, condeferrable, condeferred from pg_constraint where contype in ('p', 'u', 'f', 'c')
         and connamespace in ('public'::regnamespace, 'shop'::regnamespace) order by conname",
    "select indexname from pg_indexes where schemaname in ('public', 'shop') order by 1",
    "select obj_description('public.person'::regclass), col_description('public.person'::regclass, 2)",
    "select seqstart, seqincrement, seqmin, seqmax, seqcycle from pg_sequence order by 1, 2, 3, 4",
    "select rolname, rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolconnlimit, rolvaliduntil,
         substr(rolpassword, 1, 13) from pg_authid where rolname in ('Ada L', 'readers', 'writers') order by 1",
    "select r.rolname, m.rolname, admin_option from pg_auth_members a join pg_roles r on r.oid = roleid
         join pg_roles m on m.oid = member where m.rolname = 'Ada L' order by 1",
    "select c from pg_db_role_setting, unnest(setconfig) c order by 1",
    "select relname, pg_get_userbyid(relowner) from pg_class
         where relname in ('owned', 'owned_id_seq', 'owned_pkey', 'mine') order by 1",
    "select pg_get_userbyid(nspowner) from pg_namespace where nspname = 'shop'",
    "select r, p, has_table_privilege(r, 'shop.owned', p), has_table_privilege(r, 'shop.owned', p || ' with grant option'),
         has_table_privilege(r, 'shop.marks', p), has_table_privilege(r, 'shop.mine', p)
         from unnest(array['Ada L', 'readers', 'writers']) r, unnest(array['select', 'insert', 'update', 'delete']) p order by r, p",
    "select c, p, has_column_privilege('readers', 'shop.owned', c, p)
         from unnest(array['id', 'a', 'b c']) c, unnest(array['select', 'update']) p order by c, p",
    "select has_function_privilege('readers', (select oid from pg_proc where proname = 'twice'), 'execute'), has_function_privilege('writers', (select oid from pg_proc where proname = 'twice'), 'execute'),
         has_schema_privilege('readers', 'shop', 'usage'), has_schema_privilege('readers', 'shop', 'create'),
         has_schema_privilege('writers', 'shop', 'create'), has_sequence_privilege('writers', 'shop.numbers', 'usage'),
         has_sequence_privilege('readers', 'shop.numbers', 'usage'), has_type_privilege('readers', 'shop.mood', 'usage')",
    "select pg_get_userbyid(defaclrole), defaclobjtype, array_to_string(defaclacl, ' ') from pg_default_acl order by 1",
    "select tgname, tgtype, tgnargs from pg_trigger where not tgisinternal order by 1",
    "select a, \"b c\" from shop.owned order by id",
    "select mark, n from shop.marks order by mark",
    "select relname, relkind, relispopulated from pg_class where relname in ('marks', 'later', 'of_marks') order by 1",
    "select obj_description('shop.marks'::regclass), obj_description((select oid from pg_proc where proname = 'twice'), 'pg_proc'),
         obj_description('shop.mood'::regtype, 'pg_type'), obj_description((select oid from pg_type where typname = 'amount'), 'pg_type'),
         obj_description('shop'::regnamespace, 'pg_namespace')",
    "select description from pg_description where objoid >= 16384 order by description collate \"C\"",
    "select indexdef from pg_indexes where indexname in ('one place', 'parts_code') order by 1",
];

fn paths(directory: &Path) -> (PathBuf, String) {
    let database = directory.join("database");
    let path = database.to_str().expect("a path in UTF-8").to_string();
    (database, path)
}

/// A database with something of everything, and its dump.
fn dumped(directory: &Path) -> (String, String) {
    let (_, path) = paths(directory);
    let filled = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/integration/dump.sql");
    succeed(&["sql", &path, "-f", filled]);
    let script = succeed(&["dump", "--sql", &path]);
    (path, script)
}

fn answers(path: &str) -> Vec<String> {
    let ask = |question| succeed(&["sql", path, "--format", "csv", "-c", question]);
    QUESTIONS.into_iter().map(ask).collect()
}

#[test]
fn a_dump_creates_the_same_database_again() {
    let place = tempfile::tempdir().expect("a directory");
    let (path, script) = dumped(place.path());
    let (file, copy) = (place.path().join("script.sql"), place.path().join("copy"));
    std::fs::write(&file, &script).expect("the script is written");
    let copy = copy.to_str().expect("a path in UTF-8");
    succeed(&["sql", copy, "-f", file.to_str().expect("a path in UTF-8")]);
    assert_eq!(answers(copy), answers(&path));
    // Sequences skip values when a database is opened again; everything else is the same text.
    let stable = |script: &str| -> Vec<String> {
        script.lines().filter(|line| !line.contains("setval")).map(str::to_string).collect()
    };
    assert_eq!(stable(&succeed(&["dump", "--sql", copy])), stable(&script));
    let refused = heddle(&["sql", copy, "-c", "insert into person (nick, ok) values ('TOM', true)"]);
    assert!(!refused.status.success(), "the unique index on an expression is there");
}

#[test]
fn a_dump_creates_the_same_database_in_postgresql() {
    let Some(oracle) = oracle::Oracle::start() else { return };
    let place = tempfile::tempdir().expect("a directory");
    let (path, script) = dumped(place.path());
    let file = place.path().join("script.sql");
    std::fs::write(&file, &script).expect("the script is written");
    oracle.run_script(&file).unwrap_or_else(|error| panic!("{error}"));
    let mut session = oracle.connect();
    for question in QUESTIONS {
        let theirs: Vec<Vec<String>> = session
            .run(question)
            .rows
            .into_iter()
            .map(|row| row.into_iter().map(Option::unwrap_or_default).collect())
            .collect();
        let ours = succeed(&["sql", &path, "--format", "csv", "-c", question]);
        let ours: Vec<Vec<String>> = csv::Reader::from_reader(ours.as_bytes())
            .records()
            .map(|record| record.expect("CSV").iter().map(str::to_string).collect())
            .collect();
        assert_eq!(ours, theirs, "{question}");
    }
}

#[test]
fn an_empty_database_and_one_without_sql_are_dumped() {
    let place = tempfile::tempdir().expect("a directory");
    let (database, path) = paths(place.path());
    drop(heddledb::Database::open(&database, heddledb::Options::default()).expect("a database"));
    assert!(!succeed(&["dump", "--sql", &path]).contains("CREATE"));
    let table = heddledb::TableDefinition::new("plain")
        .column("id", heddledb::DataType::Int64)
        .column("name", heddledb::DataType::Text)
        .primary_key(["id"]);
    {
        let db = heddledb::Database::open(&database, heddledb::Options::default()).expect("a database");
        let table = db.create_table(table).expect("a table");
        db.run(|tx| tx.insert(&table, [heddledb::ValueRef::Int(7), heddledb::ValueRef::Text("seven")]))
            .expect("a row");
    }
    let script = succeed(&["dump", "--sql", &path]);
    assert!(script.contains("CREATE TABLE \"public\".\"plain\""), "{script}");
    assert!(script.contains("\n7\tseven\n\\.\n"), "{script}");
}

#[test]
fn wrong_arguments_are_refused() {
    assert_eq!(heddle(&["dump", "--sql", "/nonexistent/database"]).status.code(), Some(2));
    assert_eq!(heddle(&["dump", "--sql", "database", "table"]).status.code(), Some(2));
    assert_eq!(heddle(&["dump", "database"]).status.code(), Some(2));
}
