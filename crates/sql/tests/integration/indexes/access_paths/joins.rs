//! Joins: left joins among other joins, anti-joins, joins whose first rows are wanted, subqueries whose keys are looked up,
//! and conditions that reach the rows of a query in FROM.

use heddle_sql::Connection;

use super::super::{memory, rows, run};
use super::plan;
use crate::support::samples::Random;

const TABLES: &str = "create table customer (id int, name text not null, city int);
     create table orders (id int, customer int not null, made timestamp not null, status text);
     create table item (id int not null, line int not null, product int, amount int);
     create table sent (number int, id int not null, carrier int);
     create table carrier (id int, name text);
     insert into customer select n, 'c' || n, n % 20 from generate_series(1, 600) n;
     insert into orders select n, n * 7 % 500 + 1, timestamp '2024-01-01' + n * interval '1 hour',
         case when n % 100 = 0 then 'open' else 'done' end from generate_series(1, 3000) n;
     insert into item select n, line, (n * 11 + line) % 700, line from generate_series(1, 3000) n, generate_series(1, 2) line;
     insert into sent select n, n, n % 5 from generate_series(1, 3000) n where n % 10 > 0;
     insert into carrier select n, 'r' || n from generate_series(0, 4) n";

const INDEXES: &str = "alter table customer add primary key (id); alter table orders add primary key (id);
     alter table item add primary key (id, line); alter table sent add primary key (number);
     alter table carrier add primary key (id); create index orders_customer on orders (customer, made);
     create index orders_made on orders (made); create index item_product on item (product);
     create index sent_id on sent (id)";

/// The same tables in two schemas, with and without indexes.
fn tables(connection: &mut Connection) {
    for schema in ["plain", "indexed"] {
        run(connection, &format!("create schema {schema}; set search_path = {schema}; {TABLES}"));
    }
    run(connection, &format!("{INDEXES}; analyze"));
}

/// Queries, what their plans say, and the tables that they do not read as a whole.
const PATHS: &[(&str, &[&str], &[&str])] = &[
    // The left join waits for the conditions on other items.
    (
        "select o.id, c.name, i.line from orders o left join customer c on c.id = o.customer join item i on i.id = o.id
         where i.product = 77",
        &["Lookup Left Join: Key Lookup using customer_pkey on customer c", "using item_product on item i"],
        &["orders", "customer", "item"],
    ),
    (
        "select o.id, r.name from orders o left join sent s on s.id = o.id left join carrier r on r.id = s.carrier
         join customer c on c.id = o.customer where c.id = 77",
        &["Left Join"],
        &["orders", "sent", "customer"],
    ),
    (
        "select o.id, s.carrier from orders o join item i on i.id = o.id left join sent s on s.id = i.id and s.carrier > 1
         where i.product = 78 and coalesce(s.carrier, 9) > 2",
        &["Lookup Left Join: Index Scan using sent_id on sent s"],
        &["orders", "sent", "item"],
    ),
    (
        "select c.id, x.id from item i join orders o on o.id = i.id left join lateral (select l.id from orders l
         where l.customer = o.customer order by l.made desc limit 1) x on true join customer c on c.id = o.customer
         where i.product = 77",
        &["Nested Loop Left Join"],
        &["orders", "customer", "item"],
    ),
    // Rows without a partner.
    ("select c.id from customer c left join orders o on o.customer = c.id where o.id is null", &["Anti Join"], &[]),
    (
        "select o.id, s.number, s.carrier from orders o left join sent s on s.id = o.id where s.id is null and o.id < 50",
        &["Lookup Anti Join: Index Scan using sent_id on sent s"],
        &["sent", "orders"],
    ),
    (
        "select o.id from orders o left join sent s on s.number = o.id and s.carrier = 3 where s.carrier is null and o.id < 9",
        &["Lookup Anti Join: Key Lookup using sent_pkey on sent s"],
        &["sent", "orders"],
    ),
    // The first rows of an order, and any first rows.
    (
        "select o.id, c.name from orders o join customer c on c.id = o.customer order by o.made desc limit 7",
        &["Index Scan Backward using orders_made on orders o", "Lookup: Key Lookup using customer_pkey on customer c"],
        &["orders", "customer"],
    ),
    (
        "select o.id, c.name, s.carrier from orders o left join customer c on c.id = o.customer
         left join sent s on s.id = o.id where o.status = 'done' order by o.made, o.id limit 7 offset 5",
        &["Incremental Sort (top N)", "Index Scan using orders_made on orders o", "Lookup Left Join"],
        &["orders", "customer", "sent"],
    ),
    (
        "select o.id, c.name from orders o join customer c on c.id = o.customer where (o.made, o.id) < ('2024-03-01', 9)
         order by o.made desc, o.id desc limit 7",
        &["Index Scan Backward using orders_made on orders o", "Lookup: Key Lookup using customer_pkey on customer c"],
        &["orders", "customer"],
    ),
    (
        "select count(*) from (select o.id from orders o join item i on i.id = o.id where o.status = 'done' limit 10) x",
        &["Lookup: "],
        &[],
    ),
    // The keys of subqueries.
    (
        "select id, status from orders where id in (select id from item where product = 77)",
        &["Lookup: Key Lookup using orders_pkey on orders", "using item_product on item"],
        &["orders", "item"],
    ),
    (
        "select * from item where (id, line) in (values (5, 1), (6, 2), (6, 2), (null, 1))",
        &["using item_pkey on item"],
        &["item"],
    ),
    (
        "select id from orders where customer in (values (45), (77), (45))",
        &["Lookup: Index Scan using orders_customer on orders"],
        &["orders"],
    ),
    (
        "select o.id from orders o where exists (select from item i where i.id = o.id and i.product = 77 and i.amount > 0)",
        &["Lookup: Key Lookup using orders_pkey on orders o"],
        &["orders", "item"],
    ),
    (
        "select o.id, c.name from orders o join customer c on c.id = o.customer
         where o.id in (select id from item where product in (77, 78))",
        &["Lookup: Key Lookup using orders_pkey on orders o"],
        &["orders", "customer", "item"],
    ),
    ("delete from sent where id in (select id from item where product = 77)", &["Index Scan using sent_id on sent"], &["sent"]),
    (
        "update orders set status = 'x' where id in (select id from item where product = 77)",
        &["Key Lookup using orders_pkey on orders"],
        &["orders"],
    ),
    // Conditions on queries in FROM.
    (
        "select count(*) from (select id, count(*) n from item group by id) x join orders o on o.id = x.id where o.id = 60",
        &["using item_pkey on item"],
        &["item", "orders"],
    ),
    (
        "select id, place from (select o.*, row_number() over (partition by customer order by made desc, id) place from orders o) x
         where customer = 45 and place < 3",
        &["using orders_customer on orders"],
        &["orders"],
    ),
    (
        "select id from (select distinct on (customer) customer, id from orders order by customer, made desc, id) x
         where customer in (45, 46)",
        &["using orders_customer on orders"],
        &["orders"],
    ),
];

#[test]
fn joins_read_the_rows_that_they_need() {
    let mut connection = memory();
    tables(&mut connection);
    for (query, expected, not_whole) in PATHS {
        let plan = plan(&mut connection, query);
        for expected in *expected {
            assert!(plan.contains(expected), "{expected}\n{query}\n{plan}");
        }
        for table in *not_whole {
            let is_read = |line: &str| line.contains(&format!("Seq Scan on {table}"));
            assert!(!plan.lines().any(is_read), "{query}\n{plan}");
        }
    }
}

#[test]
fn joins_find_the_same_rows_without_indexes() {
    let mut connection = memory();
    tables(&mut connection);
    for (query, ..) in PATHS {
        let query = match query.split_once(' ') {
            Some(("delete" | "update", _)) => format!("{query} returning *"),
            _ => query.to_string(),
        };
        let [found, expected] = ["indexed", "plain"].map(|schema| {
            run(&mut connection, &format!("set search_path = {schema}"));
            let mut found = rows(&mut connection, &query);
            if !query.contains("order by o.made") {
                found.sort();
            }
            found
        });
        assert_eq!(found, expected, "{query}");
        assert!(!found.is_empty(), "{query}");
    }
}

#[test]
fn a_streaming_join_reads_few_rows() {
    let mut connection = memory();
    tables(&mut connection);
    for query in [
        "select o.id, c.name from orders o join customer c on c.id = o.customer order by o.made desc limit 7",
        "select o.id, i.line from orders o join item i on i.id = o.id limit 7",
    ] {
        let lines = rows(&mut connection, &format!("explain (analyze, timing off, costs off) {query}"));
        let counts = lines.iter().filter_map(|line| {
            let count = line.split("actual rows=").nth(1)?.split(' ').next()?;
            count.parse::<usize>().ok()
        });
        assert!(counts.max().is_some_and(|most| most < 200), "{query}\n{}", lines.join("\n"));
    }
}

/// A condition on the tables joined so far, the last of which is new.
fn condition(random: &mut Random, joined: &[&str]) -> String {
    let column = |random: &mut Random| format!("{}_{}", random.pick(joined), random.pick(&["p", "q"]));
    let last = joined[joined.len() - 1];
    let (one, other) = (column(random), column(random));
    match random.below(9) {
        0 => format!("coalesce({one}, 1) = {last}_p"),
        1 => format!("{one} < {last}_q"),
        2 => format!("({one} = {last}_q or {other} is null)"),
        3 => format!("{one} = 2"),
        4 => format!("{last}_p = 1"),
        5 => format!("{one} is not distinct from {last}_q"),
        _ => format!("{one} = {last}_p"),
    }
}

fn filter(random: &mut Random, joined: &[&str]) -> String {
    let column = |random: &mut Random| format!("{}_{}", random.pick(joined), random.pick(&["p", "q", "id"]));
    let (one, other) = (column(random), column(random));
    match random.below(8) {
        0 => format!("{one} = 1"),
        1 => format!("({one} is null or {other} > 1)"),
        2 => format!("coalesce({one}, 2) = {other}"),
        3 => format!("{one} in (select p from few)"),
        4 => format!("exists (select from few where p = {one})"),
        5 => format!("not exists (select from few where p = {one})"),
        _ => format!("{one} is null"),
    }
}

/// A random query of joins, and the same one whose joins are made in the order in which they are written.
fn joins(random: &mut Random) -> [String; 2] {
    let mut joined = vec!["a"];
    let (mut free, mut fixed) = ("a".to_string(), "a".to_string());
    for (at, table) in ["b", "c", "d"].into_iter().enumerate() {
        joined.push(table);
        let kind = random.pick(&["join", "left join", "left join", "left join", "right join", "full join"]);
        // A condition of a full join is an equality.
        let on = match kind {
            "full join" => format!("{}_p = {table}_p", joined[0]),
            _ if random.below(3) == 0 => {
                format!("{} and {}", condition(random, &joined), condition(random, &joined))
            }
            _ => condition(random, &joined),
        };
        let mut right = table.to_string();
        let mut right_fixed = right.clone();
        if random.below(4) == 0 {
            let inner = random.pick(&["join", "left join"]);
            let second = format!("e{at}");
            right = format!("({table} {inner} {second} on {second}_p = {table}_q)");
            right_fixed =
                format!("(select * from {table} {inner} {second} on {second}_p = {table}_q offset 0) r{at}");
        }
        free = format!("{free} {kind} {right} on {on}");
        fixed = format!("(select * from {fixed} {kind} {right_fixed} on {on} offset 0) x{at}");
    }
    let filters: Vec<String> = (0..random.below(4)).map(|_| filter(random, &joined)).collect();
    let filters = if filters.is_empty() { "true".to_string() } else { filters.join(" and ") };
    [free, fixed]
        .map(|from| format!("select a_id, a_p, b_id, b_q, c_id, c_p, d_id, d_q from {from} where {filters}"))
}

#[test]
fn random_joins_are_what_they_are_in_the_written_order() {
    let mut connection = memory();
    for (at, table) in ["a", "b", "c", "d", "e0", "e1", "e2"].into_iter().enumerate() {
        run(
            &mut connection,
            &format!(
                "create table {table} ({table}_id int primary key, {table}_p int, {table}_q int);
                 create index on {table} ({table}_p);
                 insert into {table} select n, nullif(n * {} % 5, 4), nullif(n * {} % 4, 3) from generate_series(1, 9) n",
                at + 2,
                at + 3
            ),
        );
    }
    run(&mut connection, "create table few (p int); insert into few values (1), (3), (1); analyze");
    let mut random = Random(11);
    let (mut found_some, mut anti) = (0, 0);
    for step in 0..400 {
        let [free, fixed] = joins(&mut random);
        let [mut found, mut expected] = [&free, &fixed].map(|query| rows(&mut connection, query));
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "step {step}\n{free}\n{fixed}");
        found_some += usize::from(!found.is_empty());
        anti += usize::from(plan(&mut connection, &free).contains("Anti Join"));
    }
    assert!(found_some > 100 && anti > 20, "{found_some} {anti}");
}
