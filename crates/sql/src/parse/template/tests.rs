//! Templates of statements, and the constants that are replaced in them.

use super::*;

fn of(text: &str) -> Option<(String, String)> {
    let (mut found, mut literals) = (String::new(), Literals::new());
    template(text, &mut found, &mut literals).then(|| (found, literals.iter().map(Literal::letter).collect()))
}

#[test]
fn operands_bounds_and_values_are_taken_out() {
    for (text, expected, letters) in [
        ("select a from t where id = 7", "select a from t where id = $1", "i"),
        ("SELECT a FROM t WHERE id=7 and n >= 1.5;", "SELECT a FROM t WHERE id=$1 and n >= $2;", "in"),
        ("update t set n = n + 5000000000 where s = 'it''s'", "update t set n = n + $1 where s = $2", "bt"),
        ("delete from t where x between -1 and 2e3", "delete from t where x between -$1 and $2", "in"),
        (
            "insert into t (a, b) values (1, 'x'), (2, f(3)) on conflict (a) do update set n = t.n + 1",
            "insert into t (a, b) values ($1, $2), ($3, f(3)) on conflict (a) do update set n = t.n + $4",
            "itii",
        ),
        (
            "select a from t where b in (1, -2, 'x') and c not in (1.5) and d = 4",
            "select a from t where b in ($1, -$2, $3) and c not in ($4) and d = $5",
            "iitni",
        ),
        (
            "select \"odd = 1\" from t where a <> 99999999999999999999",
            "select \"odd = 1\" from t where a <> $1",
            "n",
        ),
    ] {
        assert_eq!(of(text), Some((expected.to_string(), letters.to_string())), "{text}");
    }
}

#[test]
fn literals_whose_value_matters_are_not_parameterized() {
    for (text, expected) in [
        (
            "select a from t where b = 1 order by 2 limit 3 offset 4",
            "select a from t where b = $1 order by 2 limit 3 offset 4",
        ),
        ("select a::numeric(10, 2) from t where b = 1", "select a::numeric(10, 2) from t where b = $1"),
        (
            "select a from t where d > now() - interval '1 day' and b = 1",
            "select a from t where d > now() - interval '1 day' and b = $1",
        ),
        (
            "select a from t where d = '2020-01-01'::date and b = 1",
            "select a from t where d = '2020-01-01'::date and b = $1",
        ),
        (
            "select round(a, 2), x[1] from t where 3 in (1, 2) and c = 1",
            "select round(a, 2), x[1] from t where 3 in (1, 2) and c = $1",
        ),
        (
            "select a from t where b in (1 + 1, 2, null, 3, f(4, 5)) and (a, b) in ((1, 2), (3, 4))",
            "select a from t where b in (1 + 1, $1, null, 3, f(4, 5)) and (a, b) in ((1, 2), (3, 4))",
        ),
        (
            "select a from t where b in (select 1, 2 from u where x = 3) or b in ((4), 5)",
            "select a from t where b in (select 1, 2 from u where x = $1) or b in ((4), $2)",
        ),
        (
            "select a from t where not b is not null and b not in (1), (2)",
            "select a from t where not b is not null and b not in ($1), (2)",
        ),
        ("select a from t where b = 1 / 0 and c = 1", "select a from t where b = 1 / 0 and c = $1"),
        ("select a from t where 1 = 0 and c = 1", "select a from t where 1 = 0 and c = $1"),
        ("select a * 43 / 0, b + 1 from t", "select a * 43 / 0, b + $1 from t"),
        (
            "select case when 1 = 0 then 1 / 0 end, b + 1 from t",
            "select case when 1 = 0 then 1 / 0 end, b + $1 from t",
        ),
        (
            "select a from t where 1 between 0 and 2 and b between 0 and 2",
            "select a from t where 1 between 0 and 2 and b between $1 and $2",
        ),
        ("select - 5, a - 5 from t", "select - 5, a - $1 from t"),
        (
            "select a from (values (1), (2)) t (a) where a = 1",
            "select a from (values (1), (2)) t (a) where a = $1",
        ),
        ("insert into t values (1 + 1, -2)", "insert into t values (1 + 1, -$1)"),
    ] {
        assert_eq!(of(text).map(|(found, _)| found), Some(expected.to_string()), "{text}");
    }
}

#[test]
fn other_texts_have_no_template() {
    for text in [
        "",
        "select 1",
        "selected = 1",
        "begin",
        "create table t (a int default 1)",
        "select a from t where b = 1; select 2",
        "select a from t where b = $1 and c = 1",
        "select a from t where b = 1 -- a comment",
        "select a from t /* x = 2 */ where b = 1",
        "select a from t where b = e'\\n'",
        "select a from t where b = $$x$$ and c = 1",
        "select a from t where b = 'x'\n'y'",
        "select a from t where b = 1x",
        "select a from t where b = 'x",
        "select a from t where b =-1",
        "select a from t) where b = 1",
    ] {
        assert_eq!(of(text), None, "{text}");
    }
    assert_eq!(of(&format!("select a from t where b = '{}'", "x".repeat(TEXT_BYTES_MAX))), None);
}

#[test]
fn many_literals_are_taken_out_only_so_far() {
    let text = format!("insert into t values {}", vec!["(1)"; LITERALS_MAX + 5].join(", "));
    let (found, letters) = of(&text).expect("it has a template");
    assert_eq!(letters.len(), LITERALS_MAX);
    assert!(found.contains("$64") && found.ends_with(", (1), (1), (1), (1), (1)"));
}
