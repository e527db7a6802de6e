//! Statistics: what `pg_stats` shows, which plan frequent and rare values get, estimates beside what is there, and plans that
//! follow their tables and the values of their parameters.

use heddle_sql::{ConnectOptions, Connection, Sql};
use heddledb::{Database, Durability, Options};

use super::super::{memory, rows, run};
use super::plan;

/// Orders: most are done, few failed; `number` is unique, `day` even, `note` NULL in a tenth of the rows.
const ORDERS: &str = "create table orders (id int primary key, status text not null, number int, day date, note text, cat int);
     insert into orders select n, case when n % 100 = 0 then 'failed' when n % 10 = 0 then 'open' else 'done' end,
         n * 7919 % 20011, date '2024-01-01' + n % 200, case when n % 10 > 0 then 'note ' || n % 1000 end,
         case when n % 5 > 0 then 1 else 2 + n % 97 end
     from generate_series(1, 20000) n;
     create index orders_status on orders (status); create index orders_number on orders (number);
     create index orders_cat on orders (cat); create index orders_note on orders (note)";

fn orders() -> Connection {
    let mut connection = memory();
    run(&mut connection, ORDERS);
    run(&mut connection, "analyze orders");
    connection
}

#[test]
fn pg_stats_has_what_postgresql_has_for_the_same_rows() {
    let mut connection = memory();
    run(
        &mut connection,
        "create table s (id int primary key, k int, t text, v numeric(8,2), d date, u text, b bool);
         insert into s select n, case when n % 5 = 0 then null when n % 2 = 0 then 1 else n % 7 end,
             case when n % 4 = 0 then 'often' else 'x' || n % 300 end, n * 1.5, date '2020-01-01' + n % 100,
             'user-' || n * 7919 % 1000, n % 3 = 0 from generate_series(1, 1000) n;
         alter table s alter column v set statistics 4; analyze s",
    );
    // PostgreSQL 15's own: the values' texts by their digests.
    let expected = [
        "b 0 1 2 f04965e3b83b70453ead07a026a74602 960a6c5a74412e46c1a4984db334fbfc NULL 0.557",
        "d 0 4 100 622d6c6052f1e6995438aac4759c2d07 7e9d65526034ba103f37526d67d9c9b3 NULL 0.104",
        "id 0 4 -1 NULL NULL 333b1c5f9871f84c75c84e5365c1367f 1.000",
        "k 0.2 4 7 861860830bc4a1f55445bc3f4fc25c3e 6d550bfa42f28a477b87dd26bbc74f16 NULL 0.360",
        "t 0 4 -0.226 228651ed3753176e5d0b30e0bc513f18 8d0571002629c2c229fd5eacaf564533 \
         07a8cd67f1d465beaca07b7a48fb499d 0.124",
        "u 0 8 -1 NULL NULL 2071bae93cb27eaf7a047ee2e0a3fb30 -0.014",
        "v 0 -1 NULL NULL cccf780650864c057acab224a0de83bf 1.000",
    ];
    let text = "select attname, null_frac, case attname when 'v' then null else avg_width end, n_distinct,
             md5(most_common_vals::text), md5(most_common_freqs::text), md5(histogram_bounds::text),
             round(correlation::numeric, 3) from pg_stats where tablename = 's' order by 1";
    // The width of numerics is that of their form in memory.
    let found: Vec<String> =
        rows(&mut connection, text).iter().map(|row| row.replace("v 0 NULL", "v 0")).collect();
    assert_eq!(found, expected);
    assert_eq!(
        rows(
            &mut connection,
            "select histogram_bounds from pg_stats where tablename = 's' and attname = 'v'"
        ),
        ["{1.50,375.00,750.00,1125.00,1500.00}"]
    );
}

#[test]
fn analyze_takes_targets_and_columns_and_says_what_it_did() {
    let mut connection = memory();
    run(
        &mut connection,
        "create table s (a int, b int); insert into s select n / 2, n from generate_series(1, 500) n",
    );
    assert_eq!(rows(&mut connection, "select count(*) from pg_stats where tablename = 's'"), ["0"]);
    run(&mut connection, "set default_statistics_target = 10; analyze verbose s (a, b)");
    let kept = "select cardinality(most_common_freqs), n_distinct from pg_stats where attname = 'a'";
    assert_eq!(rows(&mut connection, kept), ["10 -0.502"]);
    run(
        &mut connection,
        "alter table s alter a set (n_distinct = 40), alter b set statistics 0; analyze (verbose) s",
    );
    assert_eq!(rows(&mut connection, kept), ["10 40"]);
    let bounds = "select histogram_bounds is null from pg_stats where attname = 'b'";
    assert_eq!(rows(&mut connection, bounds), ["t"]);
    for (text, state) in [
        ("analyze s (c)", "42703"),
        ("analyze s (a, a)", "42701"),
        ("analyze missing", "42P01"),
        ("vacuum s (a)", "0A000"),
    ] {
        assert_eq!(connection.query(text).expect_err(text).state().as_str(), state, "{text}");
    }
    run(&mut connection, "vacuum (analyze, verbose) s (a); create view v as select 1; analyze v; analyze");
}

#[test]
fn a_role_sees_statistics_of_columns_that_it_may_read() {
    let database =
        Database::in_memory_with(Options::default().durability(Durability::None)).expect("a database");
    let sql = Sql::new(&database).expect("SQL on a database");
    let mut owner = sql.connect(ConnectOptions::default()).expect("a connection");
    run(
        &mut owner,
        "create table s (a int, b int); insert into s values (1, 2), (1, 3); analyze s;
         create role reader login; grant select (b) on s to reader",
    );
    run(&mut owner, "set role reader");
    assert_eq!(rows(&mut owner, "select attname from pg_stats where tablename = 's'"), ["b"]);
}

#[test]
fn a_frequent_value_is_read_by_a_scan_and_a_rare_one_by_the_index() {
    let mut connection = orders();
    for (condition, index) in [
        ("status = 'done'", None),
        ("status = 'failed'", Some("orders_status")),
        ("status = 'no such status'", Some("orders_status")),
        ("status in ('done', 'open')", None),
        ("status in ('failed', 'none')", Some("orders_status")),
        ("status = any('{done,open}')", None),
        ("cat = 1", None),
        ("cat = 50", Some("orders_cat")),
        ("number < 19000", None),
        ("number < 900", Some("orders_number")),
        ("number between 5 and 19000", None),
        ("number between 5 and 900", Some("orders_number")),
        ("number > 19000", Some("orders_number")),
        ("note is null", Some("orders_note")),
        ("note is not null", None),
        ("note like 'note%'", None),
        ("note like 'note 77%'", Some("orders_note")),
    ] {
        let plan = plan(&mut connection, &format!("select * from orders where {condition}"));
        match index {
            Some(index) => assert!(plan.contains(&format!("using {index} ")), "{condition}: {plan}"),
            None => assert!(plan.contains("Seq Scan"), "{condition}: {plan}"),
        }
    }
}

/// The numbers behind `rows=` in the first line of EXPLAIN ANALYZE: what was expected, and what there was.
fn expected_and_found(connection: &mut Connection, query: &str) -> (f64, f64) {
    let lines = rows(connection, &format!("explain analyze {query}"));
    let mut numbers = lines[0]
        .split("rows=")
        .skip(1)
        .map(|rest| rest.split([' ', ')']).next().and_then(|number| number.parse().ok()).unwrap_or(f64::NAN));
    (numbers.next().expect("what is expected"), numbers.next().expect("what was found"))
}

#[test]
fn estimates_are_within_a_factor_of_what_is_there() {
    let mut connection = orders();
    run(
        &mut connection,
        "create table kinds (cat int, label text); insert into kinds select n, 'k' || n from generate_series(1, 98) n;
         create table calls (cat int); insert into calls select case when n % 5 = 0 then 1 else 500 + n end
             from generate_series(1, 100) n; analyze",
    );
    let conditions = [
        "status = 'done'",
        "status = 'failed'",
        "status <> 'done'",
        "status in ('open', 'failed')",
        "status not in ('open', 'failed')",
        "status = any('{open,failed}')",
        "cat = 1",
        "cat = 50",
        "cat <> 1",
        "cat < 10",
        "cat >= 60",
        "number < 5000",
        "number > 15000",
        "5000 > number",
        "number between 4000 and 6000",
        "number > 4000 and number <= 4500",
        "number >= 10 and number < 20000 and number > 9000",
        "day = '2024-03-01'",
        "day >= '2024-06-01'",
        "day between '2024-02-01' and '2024-02-20'",
        "note is null",
        "note is not null",
        "note = 'note 77'",
        "note like 'note 7%'",
        "note like 'note 77_'",
        "note ~ '^note 12'",
        "status = 'done' and number < 10000",
        "status = 'failed' or number < 1000",
        "not (status = 'done')",
        "cat % 2 = 1",
        "length(note) = 8",
    ];
    let queries = conditions.iter().map(|condition| format!("select * from orders where {condition}"));
    let others = [
        "select * from orders o join kinds k on o.cat = k.cat",
        "select * from orders o join calls c on o.cat = c.cat",
        "select * from orders o join calls c on o.cat = c.cat and o.number < 2000",
        "select cat, count(*) from orders group by cat",
        "select day, count(*) from orders group by day",
        "select note, count(*) from orders group by note",
    ];
    for query in queries.chain(others.map(str::to_string)) {
        let (expected, found) = expected_and_found(&mut connection, &query);
        let factor = (expected.max(1.0) / found.max(1.0)).max(found.max(1.0) / expected.max(1.0));
        assert!(factor <= 2.5, "{query}: {expected} were expected, there are {found}");
    }
}

#[test]
fn statistics_follow_changes_without_analyze() {
    let mut connection = memory();
    run(
        &mut connection,
        "create table t (id int primary key, a int); insert into t select n, 1 from generate_series(1, 6000) n;
         create index t_a on t (a)",
    );
    assert!(plan(&mut connection, "select * from t where a = 1").contains("Seq Scan"));
    run(&mut connection, "update t set a = id where id > 3");
    let found = plan(&mut connection, "select * from t where a = 1 -- again");
    assert!(found.contains("using t_a "), "{found}");
    // A small table that was empty, and is filled.
    run(&mut connection, "create table u (id int primary key)");
    let estimate = |connection: &mut Connection| expected_and_found(connection, "select * from u").0;
    assert!(estimate(&mut connection) <= 1.0);
    run(&mut connection, "insert into u select generate_series(1, 300)");
    assert_eq!(estimate(&mut connection), 300.0);
    run(&mut connection, "delete from u where id > 20");
    assert_eq!(estimate(&mut connection), 20.0);
    // Rows that a transaction has loaded into a table of its own.
    run(&mut connection, "begin; create table w (id int primary key); select * from w where id > 3");
    run(&mut connection, "insert into w select generate_series(1, 200); commit");
    assert_eq!(expected_and_found(&mut connection, "select * from w").0, 200.0);
}

#[test]
fn a_sample_waits_for_no_writer_and_no_writer_for_it() {
    let database =
        Database::in_memory_with(Options::default().durability(Durability::None)).expect("a database");
    let sql = Sql::new(&database).expect("SQL on a database");
    let [mut writer, mut other] =
        [(); 2].map(|()| sql.connect(ConnectOptions::default()).expect("a connection"));
    run(
        &mut writer,
        "create table t (id int primary key, a int); insert into t select n, n % 3 from generate_series(1, 300) n",
    );
    run(&mut writer, "begin; lock table t in row exclusive mode; update t set a = 7");
    run(&mut other, "set lock_timeout = '1s'; analyze t");
    let common = "select most_common_vals from pg_stats where tablename = 't' and attname = 'a'";
    assert_eq!(rows(&mut other, common), ["{0,1,2}"], "what has committed");
    run(&mut writer, "update t set a = 8; commit; analyze t");
    assert_eq!(rows(&mut other, common), ["{8}"]);
}

fn custom_plans(connection: &mut Connection, name: &str) -> String {
    let text = format!("select custom_plans from pg_prepared_statements where name = '{name}'");
    rows(connection, &text).join("")
}

#[test]
fn executions_are_planned_for_their_values_as_plan_cache_mode_says() {
    let mut connection = orders();
    run(&mut connection, "prepare p (text) as select * from orders where status = $1");
    let explained = |connection: &mut Connection, value: &str| {
        rows(connection, &format!("explain (costs off) execute p ('{value}')")).join("\n")
    };
    run(&mut connection, "set plan_cache_mode = force_custom_plan");
    assert!(explained(&mut connection, "done").contains("Seq Scan"));
    let rare = explained(&mut connection, "failed");
    assert!(rare.contains("Index Cond: (status = 'failed'::text)"), "{rare}");
    run(&mut connection, "set plan_cache_mode = force_generic_plan");
    let generic = explained(&mut connection, "failed");
    assert!(generic.contains("$1") && !generic.contains("'failed'"), "{generic}");
    assert_eq!(generic, explained(&mut connection, "done"));
    // A plan for any value costs more than those for rare ones.
    run(
        &mut connection,
        "reset plan_cache_mode; deallocate p; prepare p (text) as select * from orders where status = $1",
    );
    for _ in 0..7 {
        assert!(explained(&mut connection, "failed").contains("using orders_status "));
    }
    assert!(explained(&mut connection, "done").contains("Seq Scan"));
    assert_eq!(custom_plans(&mut connection, "p"), "8");
    assert_eq!(rows(&mut connection, "execute p ('failed')").len(), 200);
    assert_eq!(rows(&mut connection, "execute p ('open')").len(), 1_800);
}

#[test]
fn a_plan_for_any_value_is_used_where_it_is_not_costlier() {
    let mut connection = orders();
    for (name, text) in [
        ("frequent", "prepare frequent (int) as select * from orders where cat = $1 and id < 100"),
        (
            "range",
            "prepare range (int, int) as select * from orders where number > $1 and number < $2 and id in (1, 2, 3)",
        ),
        ("key", "prepare key (int) as select status from orders where id = $1"),
        ("keyed", "prepare keyed (int, text) as update orders set note = 'x' where id = $1 and status = $2"),
        ("even", "prepare even (int) as select * from orders where number = $1"),
    ] {
        run(&mut connection, text);
        for number in 0..9 {
            let values = match name {
                "range" => "5, 9".to_string(),
                "keyed" => format!("{}, 'none'", 100_000 + number),
                _ => "1".to_string(),
            };
            run(&mut connection, &format!("execute {name} ({values})"));
        }
        let expected = if name == "frequent" { "5" } else { "0" };
        assert_eq!(custom_plans(&mut connection, name), expected, "{name}");
    }
}

#[test]
fn statements_with_literals_are_planned_for_these_where_that_is_cheaper() {
    let mut connection = orders();
    // A text is planned once for any literals; the count of lines tells the rows, and EXPLAIN the plan that a literal gets.
    for round in 0..9 {
        for (value, count) in [("failed", 200), ("open", 1_800), ("done", 18_000)] {
            let found = rows(&mut connection, &format!("select id from orders where status = '{value}'"));
            assert_eq!(found.len(), count, "{round} {value}");
        }
    }
}
