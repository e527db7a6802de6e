//! Random statements on a table with indexes and on one without, whose results must agree.

use super::super::{memory, run};
use crate::support::samples::Random;

fn atom(random: &mut Random) -> String {
    let number = |random: &mut Random| random.pick(&["NULL", "0", "1", "2", "3", "5", "-1"]);
    let text = |random: &mut Random| random.pick(&["'a'", "'ab'", "'B'", "'ba'", "''"]);
    let (a, b, c) = (number(random), number(random), text(random));
    match random.below(19) {
        0 => format!("a = {a}"),
        1 => format!("b = {b}"),
        2 => format!("a in ({a}, {b}, 4)"),
        3 => format!("(a, b) in (({a}, {b}), ({b}, 1), (2, {a}))"),
        4 => format!("(a, b) > ({a}, {b})"),
        5 => format!("(a, b) <= ({a}, {b})"),
        6 => format!("a between {a} and {b}"),
        7 => format!("a < {a}"),
        8 => format!("c like {c} || '%'"),
        9 => format!("c ~ ('^' || {c})"),
        10 => format!("c >= {c}"),
        11 => "a is null".to_string(),
        12 => "c is not null".to_string(),
        13 => format!("a = any(array[{a}, {b}]::int[])"),
        14 => format!("d = {a}"),
        15 => format!("d > {a} and a = {b}"),
        16 => format!("lower(c) = lower({c})"),
        17 => format!("id in ({a}, 7, 9, {b})"),
        _ => format!("(k, b) = (1, {b})"),
    }
}

fn condition(random: &mut Random, depth: usize) -> String {
    if depth == 0 || random.below(4) == 0 {
        return atom(random);
    }
    let (one, other) = (condition(random, depth - 1), condition(random, depth - 1));
    let connective = random.pick(&["and", "or", "or"]);
    format!("({one} {connective} {other})")
}

fn statement(random: &mut Random) -> String {
    let condition = condition(random, 3);
    let order = random.pick(&[
        "a, b, id",
        "a desc, b desc, id",
        "c, id",
        "b, k, id",
        "a nulls first, id",
        "id desc",
        "lower(c), id",
    ]);
    match random.below(15) {
        0 => format!("update TABLE set a = a + 1, b = b + 1 where {condition} returning id, a, b"),
        1 => format!("update TABLE set c = c || 'a' where id % 3 = 0 and {condition} returning id"),
        2 => format!("delete from TABLE where id % 5 = 0 and {condition} returning id"),
        3 => format!("select max(a), min(c), max(id) from TABLE where {condition}"),
        4 => format!("select min(b) from TABLE where {condition}"),
        5 => format!("select id from TABLE where {condition} order by {order} limit 4"),
        6 => format!("select id from TABLE where {condition} order by {order} offset 1 limit 7"),
        7 => format!(
            "select x.id, y.id from TABLE x join TABLE y on (x.a = y.b or x.d = y.id) where x.id < 9 and y.id < 30 and x.{condition}",
            condition = "a < 3"
        ),
        8 => "select count(*) from TABLE x where exists \
              (select from TABLE y where (y.a, y.b) in ((x.b, 1), (x.d, x.b)))"
            .to_string(),
        9 => format!(
            "insert into TABLE select id + 1000, k, a, b, c, d from TABLE where id < 1000 and {condition} on conflict (id) do nothing"
        ),
        10 => format!("select min(lower(c)), max(lower(c)) from TABLE where {condition}"),
        _ => format!("select * from TABLE where {condition}"),
    }
}

#[test]
fn random_statements_do_the_same_with_and_without_indexes() {
    for seed in 0..4 {
        let mut random = Random(seed);
        let mut connection = memory();
        let columns = "(id int primary key, k int not null, a int, b int not null, c text, d int)";
        run(&mut connection, &format!("create table t {columns}; create table plain {columns}"));
        run(
            &mut connection,
            "create index on t (a, b); create index on t (b); create index on t (c); create index on t (d, a);
             create index on t (lower(c)); create index on t (k, b, a); create index on t (a) where b > 1",
        );
        for table in ["t", "plain"] {
            run(
                &mut connection,
                &format!(
                    "insert into {table} select n, n % 3, nullif(n % 7, 6), n % 5, (array['a', 'ab', 'B', 'ba', '', null])[n % 6 + 1],
                     nullif(n % 11, 0) from generate_series(1, 400) n"
                ),
            );
        }
        run(&mut connection, "analyze");
        for step in 0..150 {
            let text = statement(&mut random);
            let is_ordered = text.contains("order by");
            let results = ["t", "plain"].map(|table| connection.query(&text.replace("TABLE", table)));
            let shown = results.map(|result| match result {
                Ok(results) => {
                    let mut rows = connection.text_rows(&results[0]).expect("values print");
                    if !is_ordered {
                        rows.sort();
                    }
                    format!("{} {rows:?}", results[0].tag)
                }
                Err(error) => format!("{:?}", error.state()),
            });
            assert_eq!(shown[0], shown[1], "seed {seed}, step {step}: {text}");
        }
    }
}
