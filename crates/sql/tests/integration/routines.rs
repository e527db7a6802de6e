//! Functions in PL/pgSQL: functions as HammerDB has them, compared with PostgreSQL 15; the context of errors; conflicts among
//! callers; what names mean. Random ones are in `random_routines.rs`.

mod foreign_key_triggers;
mod hammerdb;
mod scripts;

use crate::support::oracle::{Answer, Oracle};
use heddle_sql::{Connection, Sql};
use heddledb::{Database, Durability, Options, ProtocolKind};

fn sql(protocol: ProtocolKind) -> Sql {
    let options = Options::default().durability(Durability::None).protocol(protocol);
    Sql::new(&Database::in_memory_with(options).expect("a database in memory")).expect("SQL")
}

/// The answer of a statement here, in the oracle's form.
fn answer(connection: &mut Connection, text: &str) -> Answer {
    match connection.query(text) {
        Ok(results) => {
            let rows = results.last().map(|result| connection.text_rows(result).expect("texts"));
            Answer { rows: rows.unwrap_or_default(), sqlstate: "00000".to_string() }
        }
        Err(error) => Answer { rows: Vec::new(), sqlstate: error.state().as_str().to_string() },
    }
}

#[test]
fn contexts_name_functions_and_lines_as_postgres_does() {
    let Some(oracle) = Oracle::start() else { return };
    let mut theirs = oracle.connect();
    let mut ours = sql(ProtocolKind::Optimistic).connect(Default::default()).expect("a connection");
    let script = [
        "create table t (a int primary key)",
        "create function inner_one(x int) returns int language plpgsql as $$\nbegin\n  if x = 0 then\n    return 1 / x;\n  elsif x = 1 then\n    raise exception 'one';\n  elsif x = 2 then\n    insert into t values (1), (1);\n  end if;\n  return x;\nend $$",
        "create function outer_one(x int, y text) returns text language plpgsql as $$\ndeclare\n  n int;\n  context text;\nbegin\n  n := inner_one(x);\n  return n;\nexception when others then\n  get stacked diagnostics context = pg_exception_context;\n  return context;\nend $$",
        "create function with_default() returns text language plpgsql as $$\ndeclare c text;\nbegin\n  declare n int := 1 / (c is null)::int / 0;\n  begin\n    null;\n  end;\n  return 'x';\nexception when division_by_zero then\n  get stacked diagnostics c = pg_exception_context;\n  return c;\nend $$",
        "select outer_one(0, 'a')",
        "select outer_one(1, 'a')",
        "select outer_one(2, 'a')",
        "select outer_one(3, 'a')",
        "select with_default()",
    ];
    for statement in script {
        assert_eq!(answer(&mut ours, statement), theirs.run(statement), "{statement}");
    }
}

#[test]
fn an_error_carries_the_function_and_the_line() {
    let mut connection = sql(ProtocolKind::Optimistic).connect(Default::default()).expect("a connection");
    connection
        .query("create function f(x int) returns int language plpgsql as $$\nbegin\n  return 1 / x;\nend $$")
        .expect("a function");
    let error = connection.query("select f(0)").expect_err("a division by zero");
    assert_eq!(error.state().as_str(), "22012");
    assert_eq!(error.context(), Some("PL/pgSQL function f(integer) line 3 at RETURN"));
}

#[test]
fn notices_come_once_with_the_statement_that_raised_them() {
    let mut connection = sql(ProtocolKind::Optimistic).connect(Default::default()).expect("a connection");
    connection.query("set client_min_messages = 'debug1'").expect("a setting");
    connection
        .query("do $$ begin for i in 1..2 loop raise notice 'n %', i; end loop; raise debug 'd'; raise warning '%%'; end $$")
        .expect("a block");
    let found: Vec<(&str, String)> =
        connection.take_notices().into_iter().map(|it| (it.severity.as_str(), it.message)).collect();
    let expected = [("NOTICE", "n 1"), ("NOTICE", "n 2"), ("DEBUG", "d"), ("WARNING", "%")];
    assert_eq!(found, expected.map(|(severity, text)| (severity, text.to_string())));
}

#[test]
fn conflicts_are_never_caught_and_calls_are_retried_as_a_whole() {
    for &protocol in ProtocolKind::ALL {
        let sql = sql(protocol);
        let mut connection = sql.connect(Default::default()).expect("a connection");
        connection
            .query(
                "create table counter (id int primary key, n int not null);
                 create table call_log (id bigint primary key);
                 insert into counter values (1, 0), (2, 0);
                 create function add_one(number bigint) returns int language plpgsql as $$
                 declare seen int; other int;
                 begin
                   begin
                     select n into seen from counter where id = 1;
                     select n into other from counter where id = 2;
                     if seen <> other then raise exception 'torn'; end if;
                     update counter set n = seen + 1 where id = 1;
                     insert into call_log values (number);
                     raise notice 'one %', number;
                     update counter set n = other + 1 where id = 2;
                   exception
                     when serialization_failure or deadlock_detected or query_canceled then
                       return -1;
                   end;
                   return seen + 1;
                 end $$",
            )
            .expect("the schema");
        let (threads, calls) = (4, 50);
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let mut connection = sql.connect(Default::default()).expect("a connection");
                scope.spawn(move || {
                    for call in 0..calls {
                        let number = thread * 1_000 + call;
                        let text = format!("select add_one({number})");
                        let results =
                            connection.query(&text).unwrap_or_else(|error| panic!("{protocol:?}: {error}"));
                        let rows = connection.text_rows(&results[0]).expect("texts");
                        assert_ne!(rows[0][0].as_deref(), Some("-1"), "{protocol:?}: a conflict was caught");
                        assert_eq!(
                            connection.take_notices().len(),
                            1,
                            "{protocol:?}: notices of one attempt"
                        );
                    }
                });
            }
        });
        let found =
            answer(&mut connection, "select min(n), max(n), (select count(*) from call_log) from counter");
        let all = (threads * calls).to_string();
        assert_eq!(found.rows, [[Some(all.clone()), Some(all.clone()), Some(all)]], "{protocol:?}");
    }
}

#[test]
fn functions_are_there_after_the_database_is_opened_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let open =
        || Sql::new(&Database::open(directory.path(), Options::default()).expect("a database")).expect("SQL");
    {
        let mut connection = open().connect(Default::default()).expect("a connection");
        connection
            .query("create function kept(x int default 4) returns int language plpgsql as $$ begin return x * 2; end $$")
            .expect("a function");
        connection
            .query("create function dropped() returns int language sql as 'select 1'")
            .expect("a function");
        connection.query("drop function dropped()").expect("a drop");
    }
    let mut connection = open().connect(Default::default()).expect("a connection");
    assert_eq!(
        answer(&mut connection, "select kept(), kept(5)").rows,
        [[Some("8".to_string()), Some("10".to_string())]]
    );
    assert_eq!(answer(&mut connection, "select dropped()").sqlstate, "42883");
}

fn connection() -> Connection {
    sql(ProtocolKind::Optimistic).connect(Default::default()).expect("a connection")
}

#[test]
fn a_function_that_writes_the_table_that_its_statement_reads_meets_no_row_of_its_own() {
    for &protocol in ProtocolKind::ALL {
        let mut connection = sql(protocol).connect(Default::default()).expect("a connection");
        connection
            .query(
                "create table t (a int primary key, b int);
                 insert into t select n, 0 from generate_series(1, 3000) n;
                 create function add(x int) returns bool language plpgsql as
                   $$ begin insert into t values (x + 1000000, 1); return true; end $$",
            )
            .expect("the schema");
        connection.query("select add(a) from t where b = 0").expect("a query");
        let found = answer(&mut connection, "select count(*), max(a) from t");
        assert_eq!(found.rows, [[Some("6000".to_string()), Some("1003000".to_string())]], "{protocol:?}");
        connection.query("select a from t where a < 1000 and add(a + 5000000)").expect("a query");
        let found = answer(&mut connection, "select count(*) from t");
        assert_eq!(found.rows, [[Some("6999".to_string())]], "{protocol:?}");
    }
}

#[test]
fn an_endless_loop_ends_with_the_statement_timeout_which_no_handler_catches() {
    let mut connection = connection();
    connection.query("set statement_timeout = '40ms'").expect("a setting");
    let error = connection
        .query("do $$ begin loop begin loop null; end loop; exception when others or query_canceled then null; end; end loop; end $$")
        .expect_err("it never ends otherwise");
    assert_eq!(error.state().as_str(), "57014");
}

#[test]
fn an_error_that_a_function_raises_as_a_conflict_is_an_error_like_others() {
    let mut connection = connection();
    connection
        .query(
            "create function raised(state text) returns int language plpgsql as
               $$ begin raise exception 'x' using errcode = state; end $$;
             create function caught() returns text language plpgsql as
               $$ begin return raised('40001'); exception when serialization_failure then return 'caught'; end $$",
        )
        .expect("functions");
    assert_eq!(answer(&mut connection, "select raised('40001')").sqlstate, "40001");
    assert_eq!(answer(&mut connection, "select raised('40P01')").sqlstate, "40P01");
    assert_eq!(answer(&mut connection, "select caught()").rows, [[Some("caught".to_string())]]);
}

#[test]
fn calls_are_prepared_with_parameters() {
    let mut connection = connection();
    connection
        .query(
            "create table t (a int primary key);
             create function add(x int) returns int language plpgsql as
               $$ begin insert into t values (x); return x + 1; end $$;
             create procedure put(x int, inout count bigint) language plpgsql as
               $$ begin insert into t values (x); select count(*) + put.count into count from t; end $$",
        )
        .expect("the schema");
    connection.prepare("add", "select add($1)", &[]).expect("it is prepared");
    connection.prepare("put", "call put($1, $2)", &[]).expect("it is prepared");
    let (types, fields) = connection.describe_statement("put").expect("a description");
    assert_eq!(types[..], [heddle_sql::Type::Int4, heddle_sql::Type::Int8]);
    assert_eq!(fields.expect("columns")[0].name, "count");
    let found = answer(&mut connection, "execute add(5)");
    assert_eq!(found.rows, [[Some("6".to_string())]]);
    let found = answer(&mut connection, "execute put(6, 100)");
    assert_eq!(found.rows, [[Some("102".to_string())]]);
}

#[test]
fn a_call_in_a_block_belongs_to_the_block() {
    let mut connection = connection();
    connection
        .query(
            "create table t (a int primary key);
             create procedure put(x int) language plpgsql as
               $$ begin insert into t values (x); begin insert into t values (x); exception when unique_violation then insert into t values (-x); end; end $$",
        )
        .expect("the schema");
    connection.query("begin").expect("a block");
    connection.query("call put(1)").expect("a call");
    connection.query("savepoint s").expect("a savepoint");
    connection.query("call put(2)").expect("a call");
    connection.query("rollback to s").expect("back");
    connection.query("commit").expect("a commit");
    let found = answer(&mut connection, "select string_agg(a::text, ',' order by a) from t");
    assert_eq!(found.rows, [[Some("-1,1".to_string())]]);
    connection.query("begin; call put(3); rollback").expect("a block");
    assert_eq!(answer(&mut connection, "select count(*) from t").rows, [[Some("2".to_string())]]);
}

#[test]
fn defaults_checks_and_views_call_functions() {
    let mut connection = connection();
    connection
        .query(
            "create function three() returns int language plpgsql as $$ begin return 3; end $$;
             create function small(x int) returns bool immutable language plpgsql as $$ begin return x < 10; end $$;
             create table t (a int primary key, b int default three() check (small(b)));
             create view v as select a, small(b) as is_small from t",
        )
        .expect("the schema");
    connection.query("insert into t values (1), (2)").expect("rows");
    assert_eq!(answer(&mut connection, "insert into t values (3, 11)").sqlstate, "23514");
    assert_eq!(answer(&mut connection, "update t set b = 12 where a = 1").sqlstate, "23514");
    assert_eq!(answer(&mut connection, "select sum(b) from t").rows, [[Some("6".to_string())]]);
    assert_eq!(
        answer(&mut connection, "select count(*) from v where is_small").rows,
        [[Some("2".to_string())]]
    );
    assert_eq!(answer(&mut connection, "drop function three()").sqlstate, "2BP01");
    assert_eq!(answer(&mut connection, "drop function small(int)").sqlstate, "2BP01");
}

#[test]
fn procedures_that_commit_lose_no_update_under_any_protocol() {
    for &protocol in ProtocolKind::ALL {
        let sql = sql(protocol);
        let mut first = sql.connect(Default::default()).expect("a connection");
        first
            .query(
                "create table counter (id int primary key, n int not null);
                 create table done (worker int, call int, part int, primary key (worker, call, part));
                 insert into counter values (1, 0), (2, 0);
                 create procedure twice(worker int, call int, inout parts int) language plpgsql as $$
                 begin
                   for part in 1..2 loop
                     update counter set n = n + 1 where id = part;
                     perform sum(n) from counter;
                     insert into done values (worker, call, part);
                     if call % 5 = 0 then rollback; else commit; parts := part; end if;
                   end loop;
                 end $$",
            )
            .expect("the schema");
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let mut connection = sql.connect(Default::default()).expect("a connection");
                scope.spawn(move || {
                    for call in 1..=20 {
                        let found = answer(&mut connection, &format!("call twice({worker}, {call}, 0)"));
                        // After a commit, a conflict is the client's to handle.
                        let parts = if call % 5 == 0 { "0" } else { "2" };
                        let is_right = match &*found.sqlstate {
                            "00000" => found.rows == [[Some(parts.to_string())]],
                            state => state == "40001" || state == "40P01",
                        };
                        assert!(is_right, "{}: {} {:?}", protocol.name(), found.sqlstate, found.rows);
                    }
                });
            }
        });
        let found = answer(
            &mut first,
            "select c.id, c.n - count(d.part) from counter c left join done d on d.part = c.id group by 1, c.n order by 1",
        );
        let right = [["1", "0"], ["2", "0"]].map(|row| row.map(|text| Some(text.to_string())));
        assert_eq!(found.rows, right, "{}", protocol.name());
        let found = answer(&mut first, "select count(*) from done where part = 1");
        assert_eq!(found.rows, [[Some("64".to_string())]], "{}: the first part is retried", protocol.name());
    }
}

#[test]
fn a_default_sees_what_is_declared_before_it() {
    let mut connection = connection();
    connection
        .query(
            "create function f(x text, y int default 7) returns text language plpgsql as $$
             <<outside>>
             declare
                 a int := y;
                 y int := y + 1;
                 c cursor for select a + y as sum;
                 d int := outside.y * 10;
             begin
                 declare x int := length(x); y int := y * 2; z int default outside.y;
                 begin
                     return concat_ws(' ', x, a, y, z, d, outside.y, f.y, f.x);
                 end;
             end $$",
        )
        .expect("a function");
    assert_eq!(
        answer(&mut connection, "select f('four')").rows,
        [[Some("4 7 16 8 80 8 7 four".to_string())]]
    );
    let twice = "do $$ declare a int := 1; b int := a; a int; begin end $$";
    assert_eq!(answer(&mut connection, twice).sqlstate, "42601");
}

#[test]
fn a_call_with_named_arguments_assigns_its_outputs() {
    let mut connection = connection();
    connection
        .query(
            "create procedure p(x int, inout y int, d int default 0, inout z text default 'z') language plpgsql as
                 $$ begin y := y + x + d; z := z || x; end $$;
             create function by_name() returns text language plpgsql as
                 $$ declare b int := 1; t text := 't'; begin
                     call p(2, d => 10, z => t, y => b);
                     call p(z => t, y => b, x => 3);
                     call p(4, b, z => t);
                     return b || t;
                 end $$;
             create function not_given() returns int language plpgsql as
                 $$ declare b int := 1; begin call p(2, y => b, d => 3); return b; end $$",
        )
        .expect("functions");
    assert_eq!(answer(&mut connection, "select by_name()").rows, [[Some("20t234".to_string())]]);
    assert_eq!(answer(&mut connection, "select not_given()").sqlstate, "42601");
}

#[test]
fn void_is_null_of_a_function_in_sql_and_empty_of_one_in_plpgsql() {
    let mut connection = connection();
    connection
        .query(
            "create function in_sql() returns void language sql as 'select 1';
             create function in_plpgsql() returns void language plpgsql as 'begin end'",
        )
        .expect("functions");
    assert_eq!(answer(&mut connection, "select in_sql()").rows, [[None]]);
    assert_eq!(answer(&mut connection, "select in_plpgsql()").rows, [[Some(String::new())]]);
}

#[test]
fn execute_runs_the_statements_of_its_text_one_after_another() {
    let mut connection = connection();
    connection
        .query(
            "create table t (a int primary key);
             create function last_one() returns text language plpgsql as
                 $$ declare a int; n int; begin
                     execute 'insert into t values ($1); insert into t values ($1 + 1), ($1 + 2)' using 1;
                     get diagnostics n = row_count;
                     execute 'select 7; select count(*) from t' into a;
                     return n || ' ' || a;
                 end $$;
             create function all_of_them() returns setof int language plpgsql as
                 $$ begin return query execute 'select 1; select 2'; end $$;
             create function in_a_loop() returns int language plpgsql as
                 $$ declare a int; begin for a in execute 'select 1; select 2' loop null; end loop; return 0; end $$",
        )
        .expect("functions");
    assert_eq!(answer(&mut connection, "select last_one()").rows, [[Some("2 3".to_string())]]);
    let rows = answer(&mut connection, "select * from all_of_them()").rows;
    assert_eq!(rows, [[Some("1".to_string())], [Some("2".to_string())]]);
    assert_eq!(answer(&mut connection, "select in_a_loop()").sqlstate, "42P11");
}

#[test]
fn of_several_violated_foreign_keys_the_oldest_is_reported() {
    for _ in 0..8 {
        let mut connection = connection();
        connection
            .query(
                "create table parent (id int primary key);
                 create table b (id int primary key references parent);
                 create table a (id int primary key references parent);
                 create table c (id int primary key references parent);
                 insert into parent values (1); insert into a values (1); insert into b values (1); insert into c values (1)",
            )
            .expect("the schema");
        let error = connection.query("delete from parent").expect_err("rows refer to it");
        assert_eq!(error.constraint(), Some("b_id_fkey"));
    }
}
