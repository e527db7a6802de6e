//! Functions in PL/pgSQL: functions as HammerDB has them, compared with PostgreSQL 15; the context of errors; conflicts among
//! callers; what names mean. Random ones are in `random_routines.rs`.

mod support;

use heddle_sql::{Connection, Sql};
use heddledb::{Database, Durability, Options, ProtocolKind};
use support::oracle::{Answer, Oracle};
use support::samples::Random;

fn sql(protocol: ProtocolKind) -> Sql {
    let options = Options::default().durability(Durability::None).protocol(protocol);
    Sql::new(&Database::in_memory_with(options).expect("a database in memory")).expect("SQL")
}

/// What a statement answers here, as the oracle puts it.
fn answer(connection: &mut Connection, text: &str) -> Answer {
    match connection.query(text) {
        Ok(results) => {
            let rows = results.last().map(|result| connection.text_rows(result).expect("texts"));
            Answer { rows: rows.unwrap_or_default(), sqlstate: "00000".to_string() }
        }
        Err(error) => Answer { rows: Vec::new(), sqlstate: error.state().as_str().to_string() },
    }
}

/// HammerDB's functions of TPC-C for PostgreSQL, in its style: positional aliases, cursors by name, arrays, handlers of
/// serialization failures.
const HAMMER: &[&str] = &[
    "create table district (d_id int, d_w_id int, d_next_o_id int, d_tax numeric(4,4), d_ytd numeric(12,2), primary key (d_w_id, d_id))",
    "create table customer (c_id int, c_d_id int, c_w_id int, c_first varchar(16), c_last varchar(16), c_balance numeric(12,2), c_data varchar(500), c_credit char(2), primary key (c_w_id, c_d_id, c_id))",
    "create table stock (s_i_id int, s_w_id int, s_quantity int, s_ytd int, primary key (s_w_id, s_i_id))",
    "create table orders (o_id int, o_d_id int, o_w_id int, o_c_id int, o_ol_cnt int, primary key (o_w_id, o_d_id, o_id))",
    "create table order_line (ol_o_id int, ol_d_id int, ol_w_id int, ol_number int, ol_i_id int, ol_amount numeric(6,2), primary key (ol_w_id, ol_d_id, ol_o_id, ol_number))",
    "insert into district select d, 1, 1, 0.05, 0 from generate_series(1, 3) d",
    "insert into customer select c, d, 1, 'first' || (c % 4), 'last' || (c % 3), 10, 'data', case when c % 5 = 0 then 'BC' else 'GC' end from generate_series(1, 12) c, generate_series(1, 3) d",
    "insert into stock select i, 1, 15 + i, 0 from generate_series(1, 20) i",
    "CREATE OR REPLACE FUNCTION DBMS_RANDOM (INTEGER, INTEGER) RETURNS INTEGER AS $$
    DECLARE
    start_int ALIAS FOR $1;
    end_int ALIAS FOR $2;
    BEGIN
    RETURN trunc(0.5 * (end_int-start_int + 1) + start_int);
    END;
    $$ LANGUAGE 'plpgsql' STRICT",
    "CREATE OR REPLACE FUNCTION NEWORD (INTEGER, INTEGER, INTEGER, INTEGER) RETURNS NUMERIC AS '
    DECLARE
    no_w_id ALIAS FOR $1;
    no_d_id ALIAS FOR $2;
    no_c_id ALIAS FOR $3;
    no_o_ol_cnt ALIAS FOR $4;
    no_d_next_o_id INTEGER;
    no_d_tax NUMERIC;
    no_c_last VARCHAR(16);
    item_id_array INTEGER[];
    quantity_array INTEGER[];
    no_s_quantity INTEGER;
    no_ol_amount NUMERIC := 0;
    loop_counter INTEGER;
    BEGIN
    SELECT c_last INTO no_c_last FROM customer WHERE c_w_id = no_w_id AND c_d_id = no_d_id AND c_id = no_c_id;
    UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_id = no_d_id AND d_w_id = no_w_id RETURNING d_next_o_id - 1, d_tax INTO no_d_next_o_id, no_d_tax;
    INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_ol_cnt) VALUES (no_d_next_o_id, no_d_id, no_w_id, no_c_id, no_o_ol_cnt);
    FOR loop_counter IN 1 .. no_o_ol_cnt
    LOOP
    item_id_array[loop_counter] := (no_c_id * 7 + loop_counter * 3) % 22 + 1;
    quantity_array[loop_counter] := round(DBMS_RANDOM(1, 10));
    SELECT s_quantity INTO STRICT no_s_quantity FROM stock WHERE s_i_id = item_id_array[loop_counter] AND s_w_id = no_w_id;
    IF ( no_s_quantity > quantity_array[loop_counter] ) THEN
    no_s_quantity := ( no_s_quantity - quantity_array[loop_counter] );
    ELSE
    no_s_quantity := ( no_s_quantity - quantity_array[loop_counter] + 91 );
    END IF;
    UPDATE stock SET s_quantity = no_s_quantity, s_ytd = s_ytd + quantity_array[loop_counter] WHERE s_i_id = item_id_array[loop_counter] AND s_w_id = no_w_id;
    no_ol_amount := no_ol_amount + quantity_array[loop_counter] * item_id_array[loop_counter];
    INSERT INTO order_line VALUES (no_d_next_o_id, no_d_id, no_w_id, loop_counter, item_id_array[loop_counter], quantity_array[loop_counter] * (1 + no_d_tax));
    END LOOP;
    RETURN no_ol_amount;
    EXCEPTION
    WHEN serialization_failure OR deadlock_detected OR no_data_found THEN
    RETURN -1;
    END;
    ' LANGUAGE 'plpgsql'",
    "CREATE OR REPLACE FUNCTION PAYMENT (p_w_id INTEGER, p_d_id INTEGER, p_c_last VARCHAR, p_h_amount NUMERIC, OUT p_c_id INTEGER, OUT p_c_balance NUMERIC, OUT namecnt INTEGER) AS $$
    DECLARE
    c_byname CURSOR FOR
    SELECT c_first, c_id, c_balance, c_credit FROM customer WHERE c_d_id = p_d_id AND c_last = p_c_last AND c_w_id = p_w_id ORDER BY c_first, c_id;
    p_c_first VARCHAR(16);
    p_c_credit CHAR(2);
    h_data VARCHAR(30);
    BEGIN
    UPDATE district SET d_ytd = d_ytd + p_h_amount WHERE d_w_id = p_w_id AND d_id = p_d_id;
    SELECT count(c_last) INTO namecnt FROM customer WHERE c_last = p_c_last AND c_d_id = p_d_id AND c_w_id = p_w_id;
    OPEN c_byname;
    IF mod (namecnt, 2) = 1 THEN namecnt := (namecnt + 1); END IF;
    FOR loop_counter IN 0 .. cast((namecnt/2) AS INTEGER)
    LOOP
    FETCH c_byname INTO p_c_first, p_c_id, p_c_balance, p_c_credit;
    END LOOP;
    CLOSE c_byname;
    p_c_balance := ( p_c_balance + p_h_amount );
    IF p_c_credit = 'BC' THEN
    h_data := substr(p_c_first || ' ' || p_c_id::text, 1, 30);
    UPDATE customer SET c_balance = p_c_balance, c_data = substr(h_data || ' ' || c_data, 1, 500) WHERE c_w_id = p_w_id AND c_d_id = p_d_id AND c_id = p_c_id;
    ELSE
    UPDATE customer SET c_balance = p_c_balance WHERE c_w_id = p_w_id AND c_d_id = p_d_id AND c_id = p_c_id;
    END IF;
    EXCEPTION
    WHEN serialization_failure OR deadlock_detected OR no_data_found THEN
    ROLLBACK;
    END;
    $$ LANGUAGE plpgsql",
    "CREATE OR REPLACE PROCEDURE DELIVERY (d_w_id INTEGER, INOUT delivered INTEGER) AS $$
    DECLARE
    d_d_id SMALLINT;
    d_amounts NUMERIC[];
    order_count INTEGER;
    BEGIN
    FOR d_d_id IN 1 .. 3 LOOP
      SELECT array_agg(ol_amount ORDER BY ol_o_id, ol_number), count(DISTINCT ol_o_id) INTO d_amounts, order_count FROM order_line WHERE ol_d_id = d_d_id AND ol_w_id = d_w_id;
      CONTINUE WHEN order_count = 0;
      UPDATE customer SET c_balance = c_balance + (SELECT sum(a) FROM unnest(d_amounts) a) WHERE c_d_id = d_d_id AND c_id = 1;
      delivered := delivered + order_count;
    END LOOP;
    END;
    $$ LANGUAGE plpgsql",
    "CREATE OR REPLACE FUNCTION SLEV (INTEGER, INTEGER, INTEGER) RETURNS INTEGER AS '
    DECLARE
    st_w_id ALIAS FOR $1;
    st_d_id ALIAS FOR $2;
    threshold ALIAS FOR $3;
    st_o_id NUMERIC;
    stock_count INTEGER;
    BEGIN
    SELECT d_next_o_id INTO st_o_id FROM district WHERE d_w_id=st_w_id AND d_id=st_d_id;
    SELECT COUNT(DISTINCT (s_i_id)) INTO stock_count FROM order_line, stock
    WHERE ol_w_id = st_w_id AND ol_d_id = st_d_id AND (ol_o_id < st_o_id) AND ol_o_id >= (st_o_id - 20)
    AND s_w_id = st_w_id AND s_i_id = ol_i_id AND s_quantity < threshold;
    RETURN stock_count;
    EXCEPTION WHEN serialization_failure OR deadlock_detected OR no_data_found THEN RETURN -2;
    END;
    ' LANGUAGE 'plpgsql'",
];

#[test]
fn functions_as_hammerdb_has_them_answer_as_on_postgres() {
    let Some(oracle) = Oracle::start() else { return };
    let mut theirs = oracle.connect();
    let connect = |&protocol| sql(protocol).connect(Default::default()).expect("a connection");
    let mut ours: Vec<Connection> = ProtocolKind::ALL.iter().map(connect).collect();
    let mut random = Random(5);
    let mut script: Vec<String> = HAMMER.iter().map(|statement| (*statement).to_string()).collect();
    for _ in 0..60 {
        let (district, customer) = (random.below(4), 1 + random.below(12));
        script.push(match random.below(5) {
            0 | 1 => format!("select NEWORD(1, {district}, {customer}, {})", 1 + random.below(6)),
            2 => format!("select * from PAYMENT(1, {district}, 'last{}', 12.5)", random.below(4)),
            3 => format!("select SLEV(1, {district}, 30)"),
            _ => "call DELIVERY(1, 0)".to_string(),
        });
    }
    for (table, key) in [
        ("district", "1, 2"),
        ("customer", "1, 2, 3"),
        ("stock", "1, 2"),
        ("orders", "1, 2, 3"),
        ("order_line", "1, 2, 3, 4"),
    ] {
        script.push(format!("select * from {table} order by {key}"));
    }
    for statement in &script {
        let expected = theirs.run(statement);
        for (connection, protocol) in ours.iter_mut().zip(ProtocolKind::ALL) {
            assert_eq!(answer(connection, statement), expected, "{protocol:?}: {statement}");
        }
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

/// Tables whose rows refer to each other, with triggers that keep a journal.
const FAMILY: &str = "
    create table parent (id int primary key);
    create table child (id int primary key, parent int references parent on delete cascade on update cascade,
        check (parent < 10));
    create table ward (id int primary key, parent int references parent on delete set null on update cascade);
    create table grandchild (id int primary key, child int not null references child on delete cascade);
    create table journal (number int generated always as identity, what text);
    create function note() returns trigger language plpgsql as $$
    begin
        insert into journal (what) values (concat_ws(' ', tg_table_name, tg_when, tg_level, tg_op,
            case when tg_level = 'ROW' then (case when tg_op = 'DELETE' then old else new end)::text end));
        if tg_when = 'BEFORE' and tg_op = 'DELETE' and old.id = 4 then
            return null;
        end if;
        return case when tg_op = 'DELETE' then old else new end;
    end $$;
    create trigger b before update or delete on child for each row execute function note();
    create trigger a after update or delete on child for each row execute function note();
    create trigger s before delete on child execute function note();
    create trigger t after delete on child execute function note();
    create trigger w after update of parent on ward for each row execute function note();
    create trigger g after delete on grandchild for each row execute function note();
    create trigger p after delete on parent for each row execute function note();
    insert into parent values (1), (2), (3);
    insert into child values (1, 1), (2, 2), (3, 1), (4, 3);
    insert into ward values (1, 1), (2, 2);
    insert into grandchild values (1, 1), (2, 1), (3, 2);
";

#[test]
fn rows_that_foreign_keys_change_meet_their_triggers_and_checks() {
    let script = [
        "delete from parent where id = 1",
        "select what from journal order by number",
        "update parent set id = 7 where id = 2",
        "update parent set id = 11 where id = 7",
        "delete from parent where id = 7",
        "delete from parent where id = 3",
        "delete from parent where id = 3",
        "select what from journal order by number",
        "select * from child order by id",
        "select * from ward order by id",
        "select * from grandchild order by id",
    ];
    let oracle = Oracle::start();
    let mut theirs = oracle.as_ref().map(Oracle::connect);
    if let Some(theirs) = &mut theirs {
        for statement in statements_of(FAMILY) {
            assert_eq!(theirs.run(&statement).sqlstate, "00000", "{statement}");
        }
    }
    for &protocol in ProtocolKind::ALL {
        let mut ours = sql(protocol).connect(Default::default()).expect("a connection");
        ours.query(FAMILY).expect("the schema");
        for statement in script {
            let found = answer(&mut ours, statement);
            if protocol == ProtocolKind::ALL[0] {
                let Some(theirs) = &mut theirs else { continue };
                assert_eq!(found, theirs.run(statement), "{statement}");
            }
        }
        let error = ours.query("insert into parent values (20); insert into child values (9, 20)");
        assert_eq!(error.expect_err("a check").state().as_str(), "23514", "{protocol}");
    }
}

/// The statements of a script, in which a semicolon ends a line that ends a statement.
fn statements_of(script: &str) -> Vec<String> {
    let mut statements = vec![String::new()];
    let mut quoted = false;
    for line in script.lines().filter(|line| !line.trim().is_empty()) {
        quoted ^= line.matches("$$").count() % 2 == 1;
        let last = statements.last_mut().expect("there is one");
        match line.trim_end().strip_suffix(';') {
            Some(line) if !quoted => {
                last.push_str(line);
                statements.push(String::new());
            }
            _ => {
                last.push_str(line);
                last.push('\n');
            }
        }
    }
    statements.pop();
    statements
}
