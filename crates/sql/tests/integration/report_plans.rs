//! Plans of reports: what the planner makes of conditions and subqueries, and that every plan answers alike.
//!
//! For each rule of the planner, a query to which it applies is compared with one of the same meaning to
//! which it does not, and EXPLAIN shows that it was applied.

use heddle_sql::{Connection, Sql};
use heddledb::{Database, Durability, Options};

/// Customers of a few nations, their orders, and the orders' lines; as many as make the planner think.
const TABLES: [&str; 8] = [
    "create table nation (n_key int primary key, n_name text not null)",
    "insert into nation select n, 'nation ' || n from generate_series(1, 50) n",
    "create table customer (c_key int primary key, c_nation int not null, c_phone text, c_balance numeric(10,2))",
    "insert into customer select n, n % 50 + 1, (n % 10) || '-' || n, n % 97 from generate_series(1, 3000) n",
    "create table orders (o_key int primary key, o_customer int not null, o_day int not null, o_note text)",
    "insert into orders select n, n * 7 % 2500 + 1, n % 365, 'note ' || n from generate_series(1, 9000) n",
    "create table line (l_order int, l_number int, l_item int not null, l_day int, l_amount numeric(10,2), \
     primary key (l_order, l_number))",
    "insert into line select n / 4 + 1, n % 4, n * 13 % 1000, case when n % 9 > 0 then n * 11 % 400 end, n % 89 \
     from generate_series(0, 35999) n",
];

fn connection() -> Connection {
    let db = Database::in_memory_with(Options::default().durability(Durability::None)).unwrap();
    let mut connection = Sql::new(&db).unwrap().connect(Default::default()).unwrap();
    for statement in TABLES {
        connection.query(statement).unwrap();
    }
    connection.query("analyze").unwrap();
    connection
}

fn rows(connection: &mut Connection, query: &str) -> Vec<Vec<Option<String>>> {
    let results = connection.query(query).unwrap_or_else(|error| panic!("{query}: {error:?}"));
    connection.text_rows(&results[0]).unwrap()
}

/// The plan, with the rows that each node returned.
fn plan(connection: &mut Connection, query: &str) -> String {
    let lines = rows(connection, &format!("explain (analyze, timing off) {query}"));
    lines.into_iter().flatten().flatten().collect::<Vec<_>>().join("\n")
}

/// The lines of a plan that have these words.
fn lines_with<'p>(plan: &'p str, words: &str) -> Vec<&'p str> {
    plan.lines().filter(|line| line.contains(words)).collect()
}

/// Both queries have the same rows, whatever their order; they are not empty.
fn assert_same(connection: &mut Connection, one: &str, other: &str) {
    let (mut left, mut right) = (rows(connection, one), rows(connection, other));
    left.sort();
    right.sort();
    assert!(!left.is_empty(), "{one}");
    assert_eq!(left, right, "{one}\n{other}");
}

const TRADE: &str = "select o_key, a.n_name, b.n_name from customer, orders, nation a, nation b \
     where c_key = o_customer and a.n_key = c_nation and b.n_key = o_day % 50 + 1";

#[test]
fn an_or_between_items_restricts_each_of_them() {
    let mut connection = connection();
    let or = format!(
        "{TRADE} and ((a.n_name = 'nation 3' and b.n_name = 'nation 4') \
         or (a.n_name = 'nation 4' and b.n_name = 'nation 2'))"
    );
    let found = plan(&mut connection, &or);
    let nations = lines_with(&found, "on nation");
    assert_eq!(nations.len(), 2, "{found}");
    // Each is scanned for its two names, or looked up for rows that are few because the other one was.
    assert!(
        nations.iter().any(|line| line.contains("Seq Scan") && line.contains("actual rows=2")),
        "{found}"
    );
    let row = format!(
        "{TRADE} and (a.n_name, b.n_name)::text in ('(\"nation 3\",\"nation 4\")', '(\"nation 4\",\"nation 2\")')"
    );
    assert_same(&mut connection, &or, &row);
}

#[test]
fn an_or_that_one_alternative_says_nothing_in_restricts_nothing() {
    let mut connection = connection();
    let or = format!("{TRADE} and ((a.n_name = 'nation 3' and b.n_name = 'nation 7') or o_day = 5)");
    let union =
        format!("{TRADE} and a.n_name = 'nation 3' and b.n_name = 'nation 7' union {TRADE} and o_day = 5");
    assert_same(&mut connection, &or, &union);
}

#[test]
fn an_equality_beside_an_or_is_a_hash_join() {
    let mut connection = connection();
    for kind in ["", "left", "right", "full"] {
        let query = format!(
            "select l.l_order, l.l_number, m.o_key from nation n join line l on l.l_item = n.n_key \
             {kind} join orders m on l.l_day = m.o_day and (l.l_amount > 40 or m.o_customer > 1200)"
        );
        let found = plan(&mut connection, &query);
        assert!(lines_with(&found, "Nested Loop").is_empty(), "{found}");
    }
    assert_same(
        &mut connection,
        "select l_order, l_number, o_key from line join orders \
         on l_day = o_day and (l_amount > 86 or o_customer > 2490)",
        "select l_order, l_number, o_key from line join orders on l_day = o_day and l_amount > 86 union \
         select l_order, l_number, o_key from line join orders on l_day = o_day and o_customer > 2490",
    );
}

#[test]
fn a_query_in_with_that_is_named_twice_is_evaluated_once() {
    let mut connection = connection();
    let with = "with revenue (item, total) as (select l_item, sum(l_amount) from line group by l_item) ";
    let best =
        format!("{with} select item, total from revenue where total = (select max(total) from revenue)");
    let limit =
        "select l_item, sum(l_amount) from line group by l_item order by 2 desc fetch first row with ties";
    assert_same(&mut connection, &best, limit);
    // Within a recursion, what it defines changes from round to round.
    let rounds = "with recursive r (n) as (select 1 union all select m + 1 from \
         (with c as (select n from r) select c.n, (select max(n) from c) as m from c, c as d) q where m < 5) \
         select n from r";
    assert_eq!(rows(&mut connection, rounds).len(), 5);
    // And within a query that sees the row around it, from row to row.
    let inner = "select n_key, (with c as (select c_key from customer where c_nation = n_key) \
         select count(*) from c where c_key = (select max(c_key) from c)) from nation where n_key < 4";
    assert_same(&mut connection, inner, "select n_key, 1 from nation where n_key < 4");
}

#[test]
fn exists_reads_only_the_columns_that_conditions_name() {
    let mut connection = connection();
    let exists =
        "select o_key from orders where exists (select * from line where l_order = o_key and l_day > o_day)";
    let found = plan(&mut connection, exists);
    assert!(!found.contains("width=5"), "{found}");
    assert_same(
        &mut connection,
        exists,
        "select distinct o_key from orders, line where l_order = o_key and l_day > o_day",
    );
    let absent = "select o_key from orders where not exists \
         (select distinct l_item, 1 from line where l_order = o_key and l_day > o_day order by 1)";
    let counted = "select o_key from orders where \
         (select count(*) from line where l_order = o_key and l_day > o_day) = 0";
    assert_same(&mut connection, absent, counted);
    // What is not asked for is not computed.
    let failing =
        "select count(*) from nation where exists (select 1 / 0 from customer where c_nation = n_key)";
    assert_eq!(rows(&mut connection, failing), [[Some("50".to_owned())]]);
    // An aggregate has a row even where there is nothing to aggregate.
    let whole =
        "select count(*) from nation where exists (select max(c_key) from customer where c_nation = -n_key)";
    assert_eq!(rows(&mut connection, whole), [[Some("50".to_owned())]]);
}

#[test]
fn a_subquery_that_keeps_few_rows_of_an_item_is_joined_before_other_items() {
    let mut connection = connection();
    let early = "select l_order, c_key from line, orders, customer \
         where l_order = o_key and o_customer = c_key and l_item in (select n_key from nation where n_name like '% 4%')";
    let found = plan(&mut connection, early);
    // Its left side is the item's scan: no other item has been joined yet.
    let semi = found.lines().position(|line| line.contains("Semi Join"));
    let below = semi.and_then(|at| found.lines().skip(at + 1).find(|line| line.contains("->")));
    assert!(below.is_some_and(|line| line.contains("Seq Scan on line")), "{found}");
    let late = "select l_order, c_key from line, orders, customer, nation \
         where l_order = o_key and o_customer = c_key and l_item = n_key and n_name like '% 4%'";
    assert_same(&mut connection, early, late);
}

#[test]
fn estimates_see_what_depends_on_each_other_and_what_expressions_give() {
    let mut connection = connection();
    let estimated = |connection: &mut Connection, query: &str| {
        let found = plan(connection, query);
        let scan = lines_with(&found, "Seq Scan").first().map(|line| (*line).to_owned());
        let scan = scan.unwrap_or_else(|| panic!("no scan:\n{found}"));
        let rows = scan.split(" rows=").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
        rows.parse::<f64>().unwrap()
    };
    for (condition, share) in [
        ("l_day < 200 and l_day < 210 and l_day + 5 < 230", 0.444),
        ("l_amount % 2 = 0", 0.5),
        ("l_day is null", 0.111),
        ("l_item between 100 and 299", 0.2),
        ("l_item between 100 and 299 or l_item > 899", 0.3),
    ] {
        let rows = estimated(&mut connection, &format!("select count(*) from line where {condition}"));
        let expected = 36_000.0 * share;
        assert!((expected * 0.5..expected * 2.0).contains(&rows), "{condition}: {rows}");
    }
}

#[test]
fn estimates_of_wide_rows_are_those_of_the_whole_table() {
    let mut connection = connection();
    for statement in [
        "create table wide (id int primary key, n int not null, body text not null)",
        "insert into wide select n, n, repeat('x', 4000) from generate_series(1, 4000) n",
        "analyze wide",
    ] {
        connection.query(statement).unwrap();
    }
    let found = plan(&mut connection, "select count(*) from wide where n <= 2000");
    let scan = lines_with(&found, "wide")[0];
    let estimate = scan.split(" rows=").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    let estimate: f64 = estimate.parse().unwrap();
    assert!((1000.0..3000.0).contains(&estimate), "{found}");
}

/// The columns of a key are not independent: the shares of their equalities are not multiplied. Each of 2,000 parts has four of a
/// hundred suppliers, as in TPC-H; the product of the shares names a twenty-fifth of the rows.
#[test]
fn a_join_by_all_columns_of_a_key_is_expected_to_find_the_rows_that_it_names() {
    let mut connection = connection();
    for statement in [
        "create table offer (part int, supplier int, cost int not null, primary key (part, supplier))",
        "insert into offer select n / 4, (n / 4 + n % 4 * 25) % 100, n % 90 from generate_series(0, 7999) n",
        "create table sold (part int not null, supplier int not null, day int not null)",
        "insert into sold select n / 8, (n / 8 + n % 4 * 25) % 100, n % 100 from generate_series(0, 15999) n",
        "analyze offer",
        "analyze sold",
    ] {
        connection.query(statement).unwrap();
    }
    let estimate = |connection: &mut Connection, text: &str| -> f64 {
        let found = plan(connection, text);
        let lines = [lines_with(&found, "Join"), lines_with(&found, "Lookup: ")].concat();
        let rows =
            lines.first().and_then(|line| line.split(" rows=").nth(1)?.split(' ').next()?.parse().ok());
        rows.unwrap_or_else(|| panic!("{found}"))
    };
    let by_key =
        "select count(*) from sold, offer where offer.part = sold.part and offer.supplier = sold.supplier";
    assert_eq!(rows(&mut connection, by_key), [[Some("16000".to_owned())]]);
    let expected = estimate(&mut connection, by_key);
    assert!((8_000.0..32_000.0).contains(&expected), "{expected} of 16,000");
    // A condition of one side's own counts, too.
    let restricted = estimate(&mut connection, &format!("{by_key} and day = 4"));
    assert!((40.0..640.0).contains(&restricted), "{restricted} of 160");
    let not_by_key =
        "select count(*) from sold, offer where offer.cost = sold.day and offer.supplier = sold.supplier";
    let expected = estimate(&mut connection, not_by_key);
    assert!(
        (4_000.0..50_000.0).contains(&expected),
        "{expected}: no key is named, so the shares are multiplied"
    );
}

#[test]
fn results_are_the_same_where_hash_joins_and_groups_spill() {
    let mut connection = connection();
    let query = "select c_phone, count(*), min(o_note) from customer \
         left join orders on c_key = o_customer and o_day > 3 \
         left join line on l_order = o_key and l_day > o_day group by c_phone";
    let sorted = |connection: &mut Connection| {
        let mut found = rows(connection, query);
        found.sort();
        found
    };
    let whole = sorted(&mut connection);
    assert_eq!(whole.len(), 3_000);
    for limit in ["64kB", "300kB", "512kB", "1MB", "2MB", "3MB", "5MB", "8MB", "12MB"] {
        connection.query(&format!("set work_mem = '{limit}'")).unwrap();
        assert_eq!(sorted(&mut connection), whole, "{limit}");
    }
}

#[test]
fn no_side_of_a_join_is_read_for_rows_that_there_are_not() {
    let mut connection = connection();
    let from = "from line join orders on o_day + 0 = l_day where l_amount + 0 >";
    let none =
        format!("select count(*), max(o_note) {from} (select max(l_amount) from line where l_item < 0)");
    let found = plan(&mut connection, &none);
    let scan = lines_with(&found, "on orders");
    assert!(scan.len() == 1 && scan[0].contains("never executed"), "{found}");
    // Without EXPLAIN several threads do it.
    assert_eq!(rows(&mut connection, &none), [[Some("0".to_owned()), None]]);
    let some = format!("select count(*) {from} (select max(l_amount) - 1 from line)");
    let by_row =
        "select sum((select count(*) from orders where o_day = l_day)) from line where l_amount = 88";
    assert_same(&mut connection, &some, by_row);
}

#[test]
fn scans_leave_out_rows_that_joins_above_them_would_reject() {
    let mut connection = connection();
    connection.query("create table wanted (w_item bigint, w_day smallint)").unwrap();
    connection
        .query("insert into wanted select n * 90, n from generate_series(1, 8) n union all select null, 3")
        .unwrap();
    connection.query("analyze").unwrap();
    // Keys of different widths, of which some are NULL, and a filter of the scan's own.
    let joined = "select l_order, l_number, w_day, n_name from line, wanted, nation \
         where l_item = w_item and l_day = n_key and l_amount > 10";
    let found = plan(&mut connection, joined);
    let scan = lines_with(&found, "Seq Scan on line");
    assert!(scan.first().is_some_and(|line| !line.contains("actual rows=36000")), "{found}");
    let by_row = "select l_order, l_number, (select w_day from wanted where w_item = l_item), \
         (select n_name from nation where n_key = l_day) from line \
         where l_amount > 10 and l_item % 90 = 0 and l_item between 90 and 720 and l_day between 1 and 50";
    assert_same(&mut connection, joined, by_row);
    // Several threads group the rows that are left.
    let grouped = "select w_day, count(*), sum(l_amount) from line, wanted, orders, customer \
         where l_item = w_item and o_key = l_order and o_customer = c_key group by w_day";
    let by_group = "select l_item / 90, count(*), sum(l_amount) from line where l_item in (select w_item from wanted) \
         and l_order <= 9000 group by l_item / 90";
    assert_same(&mut connection, grouped, by_group);
    // The rows of an outer join go with the row that they are rows of, and no other ones do.
    let outer = "select l_order, l_number, o_day from line left join orders on o_key = l_order and o_day < 100 \
         join wanted on w_item = l_item";
    let inner = "select l_order, l_number, (select o_day from orders where o_key = l_order and o_day < 100) \
         from line where l_item in (select w_item from wanted)";
    assert_same(&mut connection, outer, inner);
    let kept = "select count(*), count(w_day) from line left join wanted on w_item = l_item";
    assert_eq!(rows(&mut connection, kept), [[Some("36000".to_owned()), Some("288".to_owned())]]);
    let absent = "select count(*) from line where not exists (select 1 from wanted where w_item = l_item)";
    assert_eq!(rows(&mut connection, absent), [[Some("35712".to_owned())]]);
}

/// Samples hold values of the columns that a table had when they were read.
#[test]
fn a_sample_of_other_columns_is_not_evaluated() {
    let db = Database::in_memory_with(Options::default().durability(Durability::None)).unwrap();
    let sql = Sql::new(&db).unwrap();
    let (mut first, mut other) =
        (sql.connect(Default::default()).unwrap(), sql.connect(Default::default()).unwrap());
    let expect = |connection: &mut Connection, query: &str, expected: &str| {
        assert_eq!(rows(connection, query), [[Some(expected.to_owned())]], "{query}");
    };
    first.query("create table part (a int primary key, b text, c int, d text)").unwrap();
    first
        .query("insert into part select n, 'x' || n, n % 10, 'y' || n from generate_series(1, 1000) n")
        .unwrap();
    expect(&mut first, "select count(*) from part where b like 'x1%' and c < 5 and upper(d) > 'Y'", "57");
    // What was the third column is the second one now.
    first.query("alter table part drop column b").unwrap();
    expect(&mut first, "select count(*) from part where c < 5 and d like 'y2%'", "56");
    // One session sees another type than the others.
    first.query("begin").unwrap();
    first.query("alter table part alter c type text").unwrap();
    expect(&mut first, "select count(*) from part where upper(c) like '1%'", "100");
    expect(&mut other, "select count(*) from part where c % 2 = 0 and c < 5", "300");
    expect(&mut first, "select count(*) from part where c || d like '1y%'", "100");
    first.query("rollback").unwrap();
    expect(&mut first, "select count(*) from part where c % 2 = 1 and c < 5", "200");
    first.query("alter table part alter c type text").unwrap();
    expect(&mut other, "select count(*) from part where c like '7%' and length(c) = 1", "100");
}

/// Subqueries in assignments see the rows as they were before the statement, however many it has changed already.
#[test]
fn assigned_subqueries_do_not_see_what_the_statement_writes() {
    let mut connection = connection();
    connection.query("create table step (id int primary key, v int, s int, u int)").unwrap();
    connection.query("insert into step select n, n, n, 0 from generate_series(1, 60) n").unwrap();
    connection
        .query("update step a set v = a.v + 1, s = (select count(*) from step b where b.v = a.v), u = a.v")
        .unwrap();
    let wrong = "select count(*) from step where s <> 1 or v <> id + 1 or u <> id";
    assert_eq!(rows(&mut connection, wrong), [[Some("0".to_owned())]]);
    connection
        .query(
            "update step a set (v, u) = (select max(b.v), min(b.id) from step b where b.v <= a.v), s = x.n \
             from generate_series(1, 60) x(n) where x.n = a.id",
        )
        .unwrap();
    let wrong = "select count(*) from step where v <> id + 1 or u <> 1 or s <> id";
    assert_eq!(rows(&mut connection, wrong), [[Some("0".to_owned())]]);
}

/// The rows that a node of a plan has returned.
fn actual_rows(line: &str) -> usize {
    let counts = line.rsplit_once("actual rows=").expect("EXPLAIN ANALYZE").1;
    let (rows, loops) = counts.trim_end_matches(')').split_once(" loops=").expect("rows and loops");
    rows.parse::<usize>().expect("a number") * loops.parse::<usize>().expect("a number")
}

#[test]
fn subqueries_over_the_columns_of_a_view_are_joined() {
    let mut connection = connection();
    connection
        .query(
            "create view sale as select o_key as key, o_customer + 0 as customer, c_nation as nation, o_day as day \
             from orders join customer on c_key = o_customer where o_note is not null or c_phone is null",
        )
        .unwrap();
    let all = "select key, customer from sale where key > 50";
    let joined =
        |on: &str| format!("select distinct key, customer from sale join line on {on} where key > 50");
    let later = "l_item = customer and l_day > day";
    for (condition, kind, same) in [
        (
            "exists (select 1 from line where l_item = sale.customer and l_day > sale.day)",
            "Semi Join",
            joined(later),
        ),
        (
            "not exists (select 1 from line where l_item = sale.customer and l_day > sale.day)",
            "Anti Join",
            format!("{all} except {}", joined(later)),
        ),
        (
            "(customer, day) in (select l_item, l_day from line)",
            "Semi Join",
            joined("l_item = customer and l_day = day"),
        ),
        (
            "customer not in (select l_item from line where l_item > 3)",
            "Anti Join",
            format!("{all} except {}", joined("l_item = customer and l_item > 3")),
        ),
    ] {
        let query = format!(
            "with s as (select key, customer from sale where {condition}) select * from s where key > 50"
        );
        let found = plan(&mut connection, &query);
        assert!(found.contains(kind), "{found}");
        assert_same(&mut connection, &query, &same);
    }
}

#[test]
fn lateral_queries_run_once_for_the_same_values() {
    let mut connection = connection();
    let by_key = |query: &str| format!("select l_order, l_number, q.* from line {query}");
    let scanned = |found: &str| actual_rows(lines_with(found, "on customer")[0]);
    let newest = "(select c_key, c_balance from customer where c_nation = l_number + 1 \
         order by c_balance desc, c_key limit 2) q";
    for kind in ["cross join lateral", "left join lateral"] {
        let on = if kind.starts_with("left") { "on true" } else { "" };
        let query = by_key(&format!("{kind} {newest} {on}"));
        let found = plan(&mut connection, &query);
        assert!(found.contains("(memoized)"), "{found}");
        assert_eq!(scanned(&found), 4 * 60, "each nation's customers are read once: {found}");
        let ranked = by_key(
            "join (select *, row_number() over (partition by c_nation order by c_balance desc, c_key) as n \
             from customer) r on c_nation = l_number + 1 and n <= 2 \
             cross join lateral (select r.c_key, r.c_balance) q",
        );
        assert_same(&mut connection, &query, &ranked);
    }
    // No row at all is kept, too, and values that differ in their scale alone keep it.
    let scales = "select v, q.n, q.k from (values (1.5), (1.50), (1.5), (2), (null)) v(v) \
         left join lateral (select v + c_balance as n, c_key as k from customer where c_balance = v * 2 order by c_key limit 1) q on true";
    assert_eq!(rows(&mut connection, scales).iter().filter(|row| row[1].is_none()).count(), 1);
    let shown: Vec<_> = rows(&mut connection, scales).into_iter().filter_map(|row| row[1].clone()).collect();
    assert_eq!(shown, ["4.50", "4.50", "4.50", "6.00"]);
    // What may differ each time is run each time.
    let volatile = by_key(
        "cross join lateral (select random() + c_key as x from customer where c_nation = l_item % 50 + 1 \
         order by c_key limit 1) q where l_order <= 10",
    );
    let found = plan(&mut connection, &volatile);
    assert!(!found.contains("(memoized)"), "{found}");
    let different = format!("select count(distinct x) from ({volatile}) q");
    assert_eq!(rows(&mut connection, &different), [[Some("40".to_owned())]]);
}

#[test]
fn lateral_queries_are_kept_as_far_as_there_is_memory() {
    let mut connection = connection();
    let query = "select o_key, q.n from orders cross join lateral \
         (select n_key as n from nation where n_key + 0 > o_key % 40 and n_key <> o_key order by n_key + 0 limit 1) q where o_key <= 5000";
    let by_value = "select o_key, min(n_key) from orders join nation on n_key > o_key % 40 and n_key <> o_key \
         where o_key <= 5000 group by o_key";
    let found = plan(&mut connection, query);
    assert!(found.contains("(memoized)"), "{found}");
    assert_same(&mut connection, query, by_value);
    let whole = rows(&mut connection, query);
    connection.query("set work_mem = '64kB'").unwrap();
    assert_eq!(rows(&mut connection, query), whole);
}
