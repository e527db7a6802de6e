//! Tests of the binder: result columns and their types, parameters' types, and errors with their SQLSTATEs.

use std::sync::Arc;

use heddledb::{DataType, Database, Options, TableDefinition};

use crate::bind::tree::{BoundStatement, QueryBody, StatementKind};
use crate::bind::{BindContext, bind};
use crate::catalog::{
    Catalog, Check, Column, ColumnOrigin, Index, IndexColumn, Persistence, Relation, Table, View,
};
use crate::error::Result;
use crate::parse::parse;
use crate::types::{Modifier, PlainEnvironment, Type};

fn column(name: &str, ty: Type, engine: usize) -> Column {
    Column {
        name: name.to_string(),
        ty,
        modifier: Modifier::NONE,
        not_null: false,
        origin: ColumnOrigin::Nothing,
        domain: None,
        engine,
        comment: None,
        acl: None,
        collation: None,
        settings: Default::default(),
    }
}

/// `t(id int primary key, name text, n bigint default 7, twice int generated)`, `u(id int, v text)`, view `w`.
fn catalog() -> Catalog {
    let db = Database::in_memory_with(Options::default().durability(heddledb::Durability::None))
        .expect("a database in memory");
    let mut catalog = Catalog::default();
    let engine = |name: &str| {
        let definition = TableDefinition::new(name).column("id", DataType::Int32).primary_key(["id"]);
        db.create_table(definition).expect("a new table")
    };
    let mut columns = vec![
        column("id", Type::Int4, 0),
        column("name", Type::Text, 1),
        column("n", Type::Int8, 2),
        column("twice", Type::Int4, 3),
    ];
    columns[2].origin = ColumnOrigin::Default("3 + 4".to_string());
    columns[3].origin = ColumnOrigin::Generated("id * 2".to_string());
    let table = Table {
        oid: 20_000,
        schema: "public".to_string(),
        name: "t".to_string(),
        columns,
        key: vec![0],
        key_name: Some("t_pkey".to_string()),
        key_oid: Some(20_002),
        indexes: vec![Index {
            oid: 20_004,
            name: "t_name".to_string(),
            columns: vec![IndexColumn::ascending(1)],
            unique: true,
            constraint: false,
            included: Vec::new(),
            deferral: None,
            nulls_equal: false,
            primary: false,
            method: Default::default(),
        }],
        checks: vec![Check { name: "positive".to_string(), condition: "n > 0".to_string(), comment: None }],
        foreign_keys: Vec::new(),
        persistence: Persistence::Permanent,
        comment: None,
        key_comments: Vec::new(),
        rights: Default::default(),
        stored_query: None,
        nominal_indexes: Vec::new(),
        options: Vec::new(),
        engine: engine("t"),
    };
    let mut other = table.clone();
    (other.oid, other.name, other.key, other.key_name, other.key_oid) =
        (20_010, "u".to_string(), vec![], None, None);
    other.columns = vec![column("id", Type::Int4, 1), column("v", Type::Text, 2)];
    (other.indexes, other.checks, other.engine) = (Vec::new(), Vec::new(), engine("u"));
    catalog.put_table(Arc::new(table));
    catalog.put_table(Arc::new(other));
    let view = View {
        oid: 20_020,
        schema: "public".to_string(),
        name: "w".to_string(),
        columns: vec!["a".to_string(), "b".to_string()],
        query: "select id, v from u".to_string(),
        search_path: vec!["public".to_string()],
        comment: None,
        column_comments: Vec::new(),
        rights: Default::default(),
        column_acls: Vec::new(),
        options: Default::default(),
    };
    catalog.put_relation("public", "w", Relation::View(Arc::new(view)));
    catalog
}

fn bound(text: &str) -> Result<BoundStatement> {
    let catalog = catalog();
    let path = ["public".to_string()];
    let context = BindContext { catalog: &catalog, path: &path, text };
    let statements = parse(text)?;
    bind(
        context,
        &mut PlainEnvironment::new(0),
        &statements[0].statement,
        &[],
        crate::bind::Checks::Privileges,
    )
}

/// The result's columns as `name type, …`, or the error.
fn columns(text: &str) -> String {
    let bound = match bound(text) {
        Ok(bound) => bound,
        Err(error) => return error.to_string(),
    };
    let columns = bound.columns.iter().map(|column| format!("{} {}", column.name, column.ty.display_name()));
    columns.collect::<Vec<_>>().join(", ")
}

#[test]
fn results_have_postgresqls_names_and_types() {
    let mut wrong: Vec<String> = Vec::new();
    for (text, expected) in [
        (
            "select 1, 2147483648, 9223372036854775808, 1.5, 'x', null, true",
            "?column? integer, ?column? bigint, ?column? numeric, ?column? numeric, ?column? text, ?column? text, ?column? boolean",
        ),
        ("select id, name as label, t.n from t", "id integer, label text, n bigint"),
        ("select * from t", "id integer, name text, n bigint, twice integer"),
        ("select u.*, 1 as one from t, u", "id integer, v text, one integer"),
        ("select id + 1, n + id, -n from t", "?column? integer, ?column? bigint, ?column? bigint"),
        ("select case when id > 1 then 1 else 2.5 end from t", "case numeric"),
        ("select case id when 1 then 'a' else name end from t", "name text"),
        (
            "select coalesce(id, n), nullif(id, 3), greatest(id, 2.5) from t",
            "coalesce bigint, nullif integer, greatest numeric",
        ),
        (
            "select array[1, 2], array[1, 2.5], (array[1, 2])[1]",
            "array integer[], array numeric[], array integer",
        ),
        ("select cast(id as text), name::varchar(3) from t", "id text, name character varying"),
        (
            "select (select v from u limit 1), exists (select 1), array(select id from u)",
            "v text, exists boolean, array integer[]",
        ),
        ("select * from (values (1, 'a'), (2.5, null)) as x(a, b)", "a numeric, b text"),
        ("select 1 as a union select 2.5 union all select null", "a numeric"),
        ("select null union select 1", "?column? integer"),
        ("select * from t join u using (id)", "id integer, name text, n bigint, twice integer, v text"),
        ("select * from t natural join u", "id integer, name text, n bigint, twice integer, v text"),
        ("select t.id, u.id from t left join u on t.id = u.id", "id integer, id integer"),
        (
            "select j.* from (t cross join u) as j(a, b)",
            "a integer, b text, n bigint, twice integer, id integer, v text",
        ),
        ("select * from w", "a integer, b text"),
        ("with c(x) as (select id from t) select x, c.x from c", "x integer, x integer"),
        (
            "with recursive r(n) as (select 1 union all select n + 1 from r where n < 5) select n from r",
            "n integer",
        ),
        ("table u", "id integer, v text"),
        (
            "insert into t (id, name) values (1, 'a') returning *, id + 1 as next",
            "id integer, name text, n bigint, twice integer, next integer",
        ),
        ("update t set name = 'x' from u where t.id = u.id returning t.id, u.v", "id integer, v text"),
        ("delete from t using u where t.id = u.id returning u.v", "v text"),
        ("select id from t where (id, n) in (select id, id from u)", "id integer"),
        ("select x.id from t as x, lateral (select x.id + 1 as next) as y", "id integer"),
    ] {
        let found = columns(text);
        if found != expected {
            wrong.push(format!("{text}\n  found    {found}\n  expected {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Statements with the SQLSTATE, the message and the position of the mistake.
const MISTAKES: &[(&str, &str, &str, Option<u32>)] = &[
    ("select x from t", "42703", "column \"x\" does not exist", Some(8)),
    ("select t.x from t", "42703", "column t.x does not exist", Some(8)),
    ("select x.id from t", "42P01", "missing FROM-clause entry for table \"x\"", Some(8)),
    ("select 1 from nowhere", "42P01", "relation \"nowhere\" does not exist", Some(15)),
    ("select id from t, u", "42702", "column reference \"id\" is ambiguous", Some(8)),
    ("select 1 from t, t", "42712", "table name \"t\" specified more than once", Some(18)),
    ("select 1 + true", "42883", "operator does not exist: integer + boolean", Some(10)),
    ("select 'abc'::int", "22P02", "invalid input syntax for type integer: \"abc\"", Some(8)),
    ("select 1 where 1", "42804", "argument of WHERE must be type boolean, not type integer", Some(16)),
    (
        "select case when true then 1 else true end",
        "42804",
        "CASE types boolean and integer cannot be matched",
        Some(8),
    ),
    (
        "select 1 union select 1, 2",
        "42601",
        "each UNION query must have the same number of columns",
        Some(10),
    ),
    ("select 1 order by 2", "42P10", "ORDER BY position 2 is not in select list", Some(19)),
    (
        "select distinct id from t order by n",
        "42P10",
        "for SELECT DISTINCT, ORDER BY expressions must appear in select list",
        Some(36),
    ),
    ("select * from (select 1)", "42601", "subquery in FROM must have an alias", Some(15)),
    ("select (select 1, 2)", "42601", "subquery must return only one column", Some(8)),
    ("select 1 limit id from t", "42601", "syntax error at or near \"from\"", Some(19)),
    ("select 1 from t limit id", "42P10", "argument of LIMIT must not contain variables", Some(23)),
    (
        "insert into t values (1, 'a', 2, 3, 4)",
        "42601",
        "INSERT has more expressions than target columns",
        Some(37),
    ),
    (
        "insert into t (id, name) values (1)",
        "42601",
        "INSERT has more target columns than expressions",
        Some(34),
    ),
    ("insert into t (id, id) values (1, 2)", "42701", "column \"id\" specified more than once", Some(20)),
    (
        "insert into t (id, x) values (1, 2)",
        "42703",
        "column \"x\" of relation \"t\" does not exist",
        Some(20),
    ),
    (
        "insert into t (id) values (true)",
        "42804",
        "column \"id\" is of type integer but expression is of type boolean",
        Some(28),
    ),
    (
        "insert into t (twice) values (1)",
        "428C9",
        "cannot insert a non-DEFAULT value into column \"twice\"",
        None,
    ),
    ("update t set twice = 1", "428C9", "column \"twice\" can only be updated to DEFAULT", Some(14)),
    ("update t set id = 1, id = 2", "42601", "multiple assignments to same column \"id\"", Some(22)),
    (
        "insert into t (id) values (1) on conflict (n) do nothing",
        "42P10",
        "there is no unique or exclusion constraint matching the ON CONFLICT specification",
        Some(31),
    ),
    (
        "insert into t (id) values (1) on conflict do update set n = 1",
        "42601",
        "ON CONFLICT DO UPDATE requires inference specification or constraint name",
        Some(31),
    ),
    ("select $1", "", "", None),
    (
        "select * from (select t.id from u) as x, t",
        "42P01",
        "missing FROM-clause entry for table \"t\"",
        Some(23),
    ),
    (
        "select a collate \"de_DE\" from w",
        "42704",
        "collation \"de_DE\" for encoding \"UTF8\" does not exist",
        Some(18),
    ),
    (
        "with c as (select 1), c as (select 2) select 1",
        "42712",
        "WITH query name \"c\" specified more than once",
        Some(23),
    ),
    (
        "select 1 from t for update of x",
        "42P01",
        "relation \"x\" in FOR UPDATE clause not found in FROM clause",
        Some(31),
    ),
    (
        "select distinct id from t for update",
        "0A000",
        "FOR UPDATE is not allowed with DISTINCT clause",
        Some(27),
    ),
    ("select x::nothing from t", "42704", "type \"nothing\" does not exist", Some(11)),
    ("select no_such(1)", "42883", "function no_such(integer) does not exist", Some(8)),
];

#[test]
fn mistakes_have_postgresqls_sqlstates_and_positions() {
    let mut wrong: Vec<String> = Vec::new();
    for &(text, state, message, position) in MISTAKES {
        let found = match bound(text) {
            Ok(_) => (String::new(), String::new(), None),
            Err(error) => (error.state().as_str().to_string(), error.message().to_string(), error.position()),
        };
        let expected = (state.to_string(), message.to_string(), position);
        if found != expected {
            wrong.push(format!("{text}\n  found    {found:?}\n  expected {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn parameters_get_types_from_where_they_stand() {
    for (text, expected) in [
        ("select id from t where id = $1 and name = $2", vec![Type::Int4, Type::Text]),
        ("insert into t (id, n) values ($2, $1)", vec![Type::Int8, Type::Int4]),
        ("update t set n = n + $1 where id = $2", vec![Type::Int8, Type::Int4]),
        ("select $1", vec![Type::Text]),
        ("select $1::date, $1", vec![Type::Date]),
        ("select * from t limit $1 offset $2", vec![Type::Int8, Type::Int8]),
        ("select id from t where id in ($1, $2)", vec![Type::Int4, Type::Int4]),
        ("select id from t where id = any($1)", vec![Type::array_of(Type::Int4)]),
        ("select case when $1 then 1 end", vec![Type::Bool]),
    ] {
        let bound = bound(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(bound.parameters, expected, "{text}");
    }
    let error = bound("select 1 where $2 = 1").expect_err("nothing says what $1 is");
    assert_eq!(error.state().as_str(), "42P18");
}

#[test]
fn inserts_fill_in_defaults_and_derive_columns() {
    let insert = bound("insert into t (name, id) values ('a', 1), (default, 2)").expect("it binds");
    let StatementKind::Insert(insert) = insert.kind else { panic!("an INSERT") };
    assert_eq!(insert.values.len(), 4);
    assert!(
        format!("{:?}", insert.values[2]).contains('+'),
        "the default's expression: {:?}",
        insert.values[2]
    );
    assert_eq!(insert.generated.iter().map(|(column, _)| *column).collect::<Vec<_>>(), [3]);
    assert_eq!(insert.checks.len(), 1);
    let Some(QueryBody::Values(rows)) = insert.query.map(|query| query.body) else { panic!("VALUES") };
    assert_eq!(rows.len(), 2);
    assert_eq!((rows[1][0].ty(), rows[1][1].ty()), (Type::Text, Type::Int4));
}

#[test]
fn updates_derive_only_what_depends_on_the_change() {
    for (text, generated, checks) in
        [("update t set name = 'x'", 0, 0), ("update t set id = 4", 1, 0), ("update t set n = 4", 0, 1)]
    {
        let StatementKind::Update(update) = bound(text).expect("it binds").kind else { panic!("an UPDATE") };
        assert_eq!((update.generated.len(), update.checks.len()), (generated, checks), "{text}");
    }
}

#[test]
fn order_by_adds_hidden_targets_only_where_it_must() {
    for (text, targets, sorted) in [
        ("select id, name from t order by name", 2, vec![1]),
        ("select id as name, name as x from t order by name", 2, vec![0]),
        ("select id from t order by n, id", 2, vec![1, 0]),
        ("select id from t order by id + 1, 1", 2, vec![1, 0]),
        ("select id + 1 from t order by id + 1", 1, vec![0]),
    ] {
        let StatementKind::Query(query) = bound(text).expect("it binds").kind else { panic!("a query") };
        let QueryBody::Select(select) = &query.body else { panic!("a SELECT") };
        let found: Vec<usize> = query.order_by.iter().map(|item| item.target).collect();
        assert_eq!((select.targets.len(), found), (targets, sorted), "{text}");
    }
}
