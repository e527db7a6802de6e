//! Joins: kinds, methods, orders.

use super::Fixture;

fn fixture() -> Fixture {
    let fixture = Fixture::new()
        .table("l", "id int4!, v text", "id", &[])
        .table("r", "id int4!, lid int4, w int8", "id", &["lid"])
        .table("n", "x int4, y text", "", &[]);
    fixture.run("INSERT INTO l VALUES (1, 'a'), (2, 'b'), (3, 'c')");
    fixture
        .run("INSERT INTO r VALUES (10, 1, 100), (11, 1, 101), (12, 3, 102), (13, NULL, 103), (14, 9, 104)");
    fixture.run("INSERT INTO n VALUES (1, 'one'), (3, 'three'), (NULL, 'none'), (1, 'uno')");
    fixture
}

#[test]
fn every_kind_of_join_keeps_what_it_should() {
    let f = fixture();
    assert_eq!(f.line("SELECT l.id, r.id FROM l JOIN r ON r.lid = l.id ORDER BY 2"), "1 10 | 1 11 | 3 12");
    assert_eq!(
        f.line("SELECT l.id, r.id FROM l LEFT JOIN r ON r.lid = l.id ORDER BY 1, 2"),
        "1 10 | 1 11 | 2 NULL | 3 12"
    );
    assert_eq!(
        f.line("SELECT l.id, r.id FROM l RIGHT JOIN r ON r.lid = l.id ORDER BY 2"),
        "1 10 | 1 11 | 3 12 | NULL 13 | NULL 14"
    );
    assert_eq!(
        f.line("SELECT l.id, r.id FROM l FULL JOIN r ON r.lid = l.id ORDER BY 1, 2"),
        "1 10 | 1 11 | 2 NULL | 3 12 | NULL 13 | NULL 14"
    );
    assert_eq!(f.line("SELECT count(*) FROM l, r"), "15");
    assert_eq!(
        f.line("SELECT l.id, n.y FROM l LEFT JOIN n ON n.x = l.id AND n.y <> 'uno' ORDER BY 1"),
        "1 one | 2 NULL | 3 three"
    );
    assert_eq!(
        f.line("SELECT l.id, n.y FROM l LEFT JOIN n ON n.x > l.id AND l.id = 2"),
        "1 NULL | 2 three | 3 NULL"
    );
    assert_eq!(
        f.line("SELECT id, v, y FROM l JOIN n ON x = id WHERE v = 'a' ORDER BY y"),
        "1 a one | 1 a uno"
    );
}

#[test]
fn a_condition_on_what_may_be_missing_makes_the_join_an_inner_one() {
    let f = fixture();
    let plan = f.explain("SELECT * FROM l LEFT JOIN r ON r.lid = l.id WHERE r.w > 100");
    assert!(!plan.contains("Left"), "{plan}");
    assert_eq!(f.line("SELECT l.id FROM l LEFT JOIN r ON r.lid = l.id WHERE r.id IS NULL"), "2");
    assert_eq!(
        f.line("SELECT l.id, r.id FROM l FULL JOIN r ON r.lid = l.id WHERE l.id = 1 ORDER BY 2"),
        "1 10 | 1 11"
    );
}

#[test]
fn small_sides_are_looked_up_by_key_or_index() {
    let f = fixture();
    let plan = f.explain("SELECT * FROM l JOIN r ON r.lid = l.id WHERE l.id = 1");
    assert!(plan.contains("Key Lookup using l_pkey on l"), "{plan}");
    assert_eq!(f.line("SELECT r.w FROM l JOIN r ON r.lid = l.id WHERE l.id = 1 ORDER BY 1"), "100 | 101");
}

#[test]
fn lateral_sides_see_the_left() {
    let f = fixture();
    assert_eq!(
        f.line("SELECT l.id, k.w FROM l CROSS JOIN LATERAL (SELECT w FROM r WHERE r.lid = l.id ORDER BY w DESC LIMIT 1) AS k ORDER BY 1"),
        "1 101 | 3 102"
    );
    assert_eq!(
        f.line("SELECT l.id, k.n FROM l LEFT JOIN LATERAL (SELECT count(*) AS n FROM r WHERE r.lid = l.id) AS k ON true ORDER BY 1"),
        "1 2 | 2 0 | 3 1"
    );
}

#[test]
fn views_and_queries_in_from_are_merged_or_not_with_the_same_rows() {
    let f = fixture();
    assert_eq!(f.line("SELECT q.k FROM (SELECT id * 2 AS k, v FROM l) AS q WHERE q.k > 2 AND v <> 'c'"), "4");
    assert_eq!(
        f.line("SELECT q.k, count(*) FROM (SELECT lid + 1 AS k FROM r) AS q GROUP BY q.k ORDER BY 1"),
        "2 2 | 4 1 | 10 1 | NULL 1"
    );
    assert_eq!(
        f.line(
            "SELECT l.id, q.c FROM l LEFT JOIN (SELECT lid, 7 AS c FROM r) AS q ON q.lid = l.id ORDER BY 1, 2"
        ),
        "1 7 | 1 7 | 2 NULL | 3 7"
    );
    assert_eq!(
        f.line("SELECT q.lid FROM (SELECT lid, w FROM r ORDER BY w LIMIT 2) AS q WHERE q.w > 100"),
        "1"
    );
}

#[test]
fn many_tables_are_joined_in_a_good_order() {
    let mut f = Fixture::new();
    let count = 40;
    for number in 0..count {
        f = f.table(&format!("j{number}"), "a int4!, b int4", "a", &[]);
    }
    for number in 0..count {
        f.run(&format!("INSERT INTO j{number} SELECT g, (g * 7) % 10 + 1 FROM generate_series(1, 10) AS g"));
    }
    let tables: Vec<String> = (0..count).map(|number| format!("j{number}")).collect();
    let conditions: Vec<String> =
        (1..count).map(|number| format!("j{number}.a = j{}.b", number - 1)).collect();
    let mut mixed = conditions.clone();
    mixed.reverse();
    let text =
        format!("SELECT count(*) FROM {} WHERE j5.b = 3 AND {}", tables.join(", "), mixed.join(" AND "));
    assert_eq!(f.line(&text), "1");
}

#[test]
fn joins_of_different_integers_meet() {
    let f = fixture();
    assert_eq!(f.line("SELECT count(*) FROM l JOIN r ON l.id + 99 = r.w"), "3");
}

#[test]
fn scalar_aggregates_are_joined_where_rows_are_many() {
    let f = Fixture::new().table("o", "id int4!, k int4", "id", &[]).table("i", "k int4, x int4", "", &[]);
    f.run("INSERT INTO o SELECT g, g % 50 FROM generate_series(1, 500) AS g");
    f.run("INSERT INTO i SELECT g % 40, g FROM generate_series(1, 400) AS g");
    let text = "SELECT id, (SELECT count(*) FROM i WHERE i.k = o.k), (SELECT sum(x) + 1 FROM i WHERE o.k = i.k AND x > 380) FROM o";
    let plan = f.explain(text);
    assert!(plan.contains("HashAggregate") && plan.contains("Hash Left Join"), "{plan}");
    let rows = f.run(&format!("SELECT * FROM ({text}) AS q(a, b, c) WHERE a IN (41, 5, 30) ORDER BY a"));
    assert_eq!(rows, ["5 10 NULL", "30 10 391", "41 0 NULL"]);
    let filtered = "SELECT count(*) FROM o WHERE (SELECT avg(x) FROM i WHERE i.k = o.k) > 200";
    assert_eq!(f.line(filtered), f.line("SELECT sum((SELECT count(*) FROM o WHERE o.k = q.k)) FROM (SELECT k FROM i GROUP BY k HAVING avg(x) > 200) AS q"));
}
