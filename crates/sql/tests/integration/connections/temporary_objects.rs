//! Temporary tables and functions end with their connection.

use heddle_sql::SqlState;

use super::{connect, in_memory, rows, state};

#[test]
fn temporary_tables_end_with_their_connection() {
    let sql = in_memory();
    let mut one = connect(&sql);
    one.query("create temp table t (x int); insert into t values (1)").expect("a table");
    assert_eq!(rows(&mut one, "select * from t"), ["1"]);
    assert_eq!(state(&mut connect(&sql), "select * from t"), SqlState::UNDEFINED_TABLE);
    let tables = sql.database().tables().len();
    drop(one);
    assert_eq!(sql.database().tables().len(), tables - 1);
}

#[test]
fn temporary_functions_end_with_their_connection() {
    let sql = in_memory();
    let [mut first, mut second] = [connect(&sql), connect(&sql)];
    let create = "create function pg_temp.one() returns int language sql as 'select 1'";
    first.query(create).expect("made");
    second.query(create).expect("another one");
    assert_eq!(rows(&mut first, "select pg_temp.one()"), ["1"]);
    let count = "select count(*) from pg_proc where proname = 'one'";
    assert_eq!(rows(&mut first, count), ["2"]);
    drop(second);
    assert_eq!(rows(&mut first, count), ["1"]);
    first.query("discard temp").expect("dropped");
    assert_eq!(rows(&mut first, count), ["0"]);
}

#[test]
fn what_outlives_a_session_does_not_call_its_temporary_functions() {
    let sql = in_memory();
    let [mut first, mut second] = [connect(&sql), connect(&sql)];
    let create = "create function pg_temp.same(x int) returns int immutable language sql as 'select x';
        create function pg_temp.act() returns trigger language plpgsql as 'begin return new; end';
        create table t (a int); insert into t values (1)";
    first.query(create).expect("made");
    for permanent in [
        "create table u (a int check (pg_temp.same(a) > 0))",
        "create table u (a int default pg_temp.same(1))",
        "alter table t add check (\"pg_temp\" . same (a) > 0)",
        "create domain d as int check (pg_temp.same(value) > 0)",
        "create view v as select pg_temp.same(a) from t",
        "create materialized view v as select pg_temp.same(a) from t",
        "create function f(x int default pg_temp.same(1)) returns int language sql as 'select x'",
        "create trigger g before insert on t for each row execute function pg_temp.act()",
    ] {
        assert_eq!(state(&mut first, permanent), SqlState::FEATURE_NOT_SUPPORTED, "{permanent}");
    }
    let temporary = "create temp table x (a int check (pg_temp.same(a) > 0), b int default pg_temp.same(2));
        create temp view y as select pg_temp.same(a) from x;
        create trigger g before insert on x for each row execute function pg_temp.act();
        insert into x values (1)";
    first.query(temporary).expect("temporary objects may");
    // A temporary function's name alone does not mean it.
    let other = "create function same(x int) returns int immutable language sql as 'select x';
        create table w (a int check (same(a) > 0))";
    second.query(other).expect("made");
    first.query("discard all").expect("everything temporary is dropped");
    assert_eq!(
        rows(&mut second, "insert into w values (1); select count(*) from pg_class where relname = 'x'"),
        ["0"]
    );
}

#[test]
fn temporary_schemas_of_others_are_listed_but_closed() {
    let sql = in_memory();
    let [mut first, mut second] = [connect(&sql), connect(&sql)];
    first.query("create function pg_temp.one() returns int language sql as 'select 1'").expect("made");
    let joined =
        "select n.nspname from pg_proc p join pg_namespace n on n.oid = pronamespace where proname = 'one'";
    let [own, others] = [rows(&mut first, joined), rows(&mut second, joined)];
    assert_eq!(own, others);
    let schema = &own[0];
    assert!(schema.starts_with("pg_temp_"), "{schema}");
    first.query("create temp table x (a int)").expect("made");
    let alter = format!("alter table {schema}.x add b int");
    assert_eq!(state(&mut second, &alter), SqlState::INSUFFICIENT_PRIVILEGE);
    first.query(&alter).expect("its own");
}
