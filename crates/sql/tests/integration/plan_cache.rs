//! Tests of plans that are shared by texts without literals: what a statement means may not depend on those before it.

use heddle_sql::{ConnectOptions, Connection, Sql, SqlState, Type};
use heddledb::{Database, Durability, Options};

fn sql() -> Sql {
    let database =
        Database::in_memory_with(Options::default().durability(Durability::None)).expect("a database");
    Sql::new(&database).expect("SQL on an empty database")
}

fn connect(sql: &Sql, user: &str) -> Connection {
    let options = ConnectOptions { user: user.to_string(), ..ConnectOptions::default() };
    sql.connect(options).expect("a connection")
}

/// The rows of a text's last statement, columns between blanks.
fn rows(connection: &mut Connection, text: &str) -> Vec<String> {
    let results = connection.query(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let rows = connection.text_rows(results.last().expect("a result")).expect("values print");
    let shown = |row: Vec<Option<String>>| {
        row.into_iter().map(|value| value.unwrap_or("NULL".to_string())).collect::<Vec<_>>().join(" ")
    };
    rows.into_iter().map(shown).collect()
}

fn ty(connection: &mut Connection, text: &str) -> Type {
    let results = connection.query(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    results[0].fields.as_ref().expect("columns")[0].ty
}

#[test]
fn statements_that_differ_in_literals_have_their_own_results_and_types() {
    let sql = sql();
    let mut connection = connect(&sql, "heddle");
    connection
        .query(
            "create type mood as enum ('sad', 'ok'); create domain small as int check (value < 10);
             create table t (id int primary key, s smallint, c char(4), v varchar(3), m mood, d date, p numeric(6, 2), w small)",
        )
        .expect("the definitions are right");
    for id in 1..=3 {
        let text =
            format!("insert into t values ({id}, {id}, 'c{id}', 'v{id}', 'ok', '2020-01-0{id}', 1.5, {id})");
        assert_eq!(connection.query(&text).expect(&text)[0].tag, "INSERT 0 1");
    }
    for id in 1..=3 {
        for condition in [
            format!("id = {id}"),
            format!("s = {id}"),
            format!("id in ({id}, {}, 5000000000)", id + 100),
            format!("s in ({id}, {}) and id not in ({}, 77)", id + 100, id + 1),
            format!("id in ('{id}', {})", id + 100),
            format!("c in ('c{id}', 'other') and id in ({id})"),
            format!("p in (1.5, 2) and id in ({id}, {id}, {id})"),
            format!("m in ('ok', 'sad') and d in ('2020-01-0{id}')"),
            format!("c = 'c{id}'"),
            format!("v = 'v{id}'"),
            format!("d = '2020-01-0{id}'"),
            format!("m = 'ok' and id between {id} and {id}"),
            format!("id * 2 = {}", 2 * id),
            format!("id = {id}.0"),
            format!("id - {} = -2147483648", 2_147_483_648_i64 + id),
        ] {
            let found = rows(&mut connection, &format!("select id, c, v, d, p, w from t where {condition}"));
            assert_eq!(found, [format!("{id} c{id}   v{id} 2020-01-0{id} 1.50 {id}")], "{condition}");
        }
    }
    for (text, expected) in [
        ("select id + 1 from t where id = 1", Type::Int4),
        ("select id + 5000000000 from t where id = 1", Type::Int8),
        ("select id + 1.5 from t where id = 1", Type::Numeric),
        ("select id + 1 from t where id = 2", Type::Int4),
        ("select 'a' from t where id = 2", Type::Text),
    ] {
        assert_eq!(ty(&mut connection, text), expected, "{text}");
    }
    assert_eq!(rows(&mut connection, "select 7 / 2, 7 / 2.0"), ["3 3.5000000000000000"]);
    assert_eq!(rows(&mut connection, "select 8 / 2, 8 / 2.0"), ["4 4.0000000000000000"]);
    assert_eq!(rows(&mut connection, "select id + 1 from t group by id + 1 order by 1 limit 2"), ["2", "3"]);
}

#[test]
fn errors_are_those_of_the_statement_as_it_is_written() {
    let sql = sql();
    let mut connection = connect(&sql, "heddle");
    connection
        .query("create table t (id int primary key, d date, v varchar(2)); insert into t values (1, '2020-01-01', 'a')")
        .expect("the definitions are right");
    for (text, state) in [
        ("select id from t where d = '2020-13-01'", SqlState::DATETIME_FIELD_OVERFLOW),
        ("select id from t where id = 'x'", SqlState::INVALID_TEXT_REPRESENTATION),
        ("select id from t where no = 1", SqlState::UNDEFINED_COLUMN),
        ("select id from missing where id = 1", SqlState::UNDEFINED_TABLE),
        ("select 1 / 0", SqlState::DIVISION_BY_ZERO),
        ("insert into t values (2, '2020-01-01', 'abc')", SqlState::STRING_DATA_RIGHT_TRUNCATION),
        ("insert into t values (1, '2020-01-01', 'a')", SqlState::UNIQUE_VIOLATION),
        ("insert into t values (3000000000, '2020-01-01', 'a')", SqlState::NUMERIC_VALUE_OUT_OF_RANGE),
        ("select id from t where id = 1 = 2", SqlState::SYNTAX_ERROR),
    ] {
        // A text with a comment is planned as it is written.
        let expected = connection.query(&format!("{text} -- as it is")).expect_err(text);
        assert_eq!(expected.state(), state, "{text}");
        for _ in 0..2 {
            let error = connection.query(text).expect_err(text);
            let shown = |error: &heddle_sql::SqlError| (error.message().to_string(), error.position());
            assert_eq!((error.state(), shown(&error)), (state, shown(&expected)), "{text}");
        }
        assert_eq!(rows(&mut connection, "select id from t where d = '2020-01-01'"), ["1"], "after {text}");
    }
    let error = connection.query("begin; select 1 / 0").expect_err("it fails");
    assert_eq!(error.state(), SqlState::DIVISION_BY_ZERO);
    let error = connection.query("select id from t where id = 1").expect_err("the block has failed");
    assert_eq!(error.state(), SqlState::IN_FAILED_SQL_TRANSACTION);
}

#[test]
fn plans_follow_the_schema_the_settings_and_the_role() {
    let sql = sql();
    let (mut ada, mut bob) = (connect(&sql, "ada"), connect(&sql, "bob"));
    ada.query(
        "create schema ada; create schema other; create table public.t (a int); insert into public.t values (1);
         create table other.t (a int); insert into other.t values (1), (1)",
    )
    .expect("the definitions are right");
    let text = "select count(*) from t where a = 1";
    assert_eq!((rows(&mut ada, text), rows(&mut bob, text)), (vec!["1".to_string()], vec!["1".to_string()]));
    bob.query("set search_path = other").expect("it is a setting");
    assert_eq!((rows(&mut ada, text), rows(&mut bob, text)), (vec!["1".to_string()], vec!["2".to_string()]));
    // A table of the user's own schema comes first.
    ada.query("create table ada.t (a int)").expect("a new table");
    bob.query("reset search_path").expect("it is a setting");
    assert_eq!((rows(&mut ada, text), rows(&mut bob, text)), (vec!["0".to_string()], vec!["1".to_string()]));
    // A temporary table is one connection's.
    bob.query("create temporary table t (a int); insert into t values (1), (1), (1)").expect("a new table");
    let mut second = connect(&sql, "bob");
    assert_eq!(
        (rows(&mut bob, text), rows(&mut second, text)),
        (vec!["3".to_string()], vec!["1".to_string()])
    );
    bob.query("drop table t").expect("it is there");
    assert_eq!(rows(&mut bob, text), ["1"]);
    bob.query("alter table public.t alter column a type text").expect("it can be changed");
    let error = second.query(text).expect_err("text is no integer");
    assert_eq!(error.state(), SqlState::UNDEFINED_FUNCTION);
    bob.query("drop table public.t").expect("it is there");
    assert_eq!(second.query(text).expect_err("it is gone").state(), SqlState::UNDEFINED_TABLE);
    // Formats decide what a literal means.
    let text = "select date '2000-01-01' < '02-01-2000' and date '2000-01-15' < '02-01-2000'";
    assert_eq!(rows(&mut bob, text), ["t"]);
    bob.query("set datestyle = 'iso, dmy'").expect("it is a setting");
    assert_eq!(rows(&mut bob, text), ["f"]);
}

#[test]
fn writes_by_text_are_seen_by_reads_by_text_from_many_threads() {
    let sql = sql();
    let mut connection = connect(&sql, "heddle");
    connection.query("create table t (id int primary key, n bigint not null)").expect("a new table");
    std::thread::scope(|scope| {
        for number in 0..4 {
            let mut worker = connect(&sql, "heddle");
            scope.spawn(move || {
                for round in 0..100 {
                    let id = number * 100 + round;
                    rows(&mut worker, &format!("insert into t values ({id}, {round})"));
                    rows(&mut worker, &format!("update t set n = n + 1 where id = {id}"));
                    let found = rows(&mut worker, &format!("select n from t where id = {id}"));
                    assert_eq!(found, [format!("{}", round + 1)]);
                    if round % 10 == 0 {
                        rows(&mut worker, &format!("create table x{id} (a int)"));
                    }
                    if round % 2 == 0 {
                        rows(&mut worker, &format!("delete from t where id = {id}"));
                    }
                }
            });
        }
    });
    assert_eq!(rows(&mut connection, "select count(*), sum(n) from t"), ["200 10200"]);
}

#[test]
fn dropping_what_is_not_there_keeps_the_plans() {
    let sql = sql();
    let mut connection = connect(&sql, "heddle");
    connection
        .query(
            "create table t (id int primary key, b int);
             create function f(x int) returns int language sql as 'update t set b = 0 where id = x returning b'",
        )
        .expect("the definitions are right");
    let generation = |connection: &mut Connection| rows(connection, "explain function f(int)")[1].clone();
    let before = generation(&mut connection);
    assert!(before.contains("generation"), "{before}");
    for kind in ["table", "view", "index", "sequence", "schema", "type", "domain", "materialized view"] {
        connection.query(&format!("drop {kind} if exists missing cascade")).expect(kind);
        assert_eq!(generation(&mut connection), before, "after DROP {kind}");
    }
    connection.query("create view v as select 1; drop view if exists v, missing").expect("v is there");
    assert_ne!(generation(&mut connection), before);
}
