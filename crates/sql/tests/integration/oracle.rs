//! The oracle itself: what it answers to statements and expressions, so that comparisons with it can be trusted.

use crate::support::oracle::{Evaluated, Oracle};

#[test]
fn the_oracle_answers_rows_types_and_errors() {
    let Some(oracle) = Oracle::start() else { return };
    let mut session = oracle.connect();
    let answer = session.run("SELECT 1, NULL::text, E'a\\nb' UNION ALL SELECT 2, 'x', ''");
    let row = |fields: [Option<&str>; 3]| fields.map(|field| field.map(str::to_string)).to_vec();
    assert_eq!(answer.rows, [row([Some("1"), None, Some("a\nb")]), row([Some("2"), Some("x"), Some("")])]);
    assert_eq!(answer.sqlstate, "00000");
    assert_eq!(session.run("SELECT 1/0").sqlstate, "22012");
    assert_eq!(session.run("SELEC").sqlstate, "42601");
    assert_eq!(
        session.describe("SELECT 1 AS a, 1.5 AS b").unwrap(),
        [("a".to_string(), "integer".to_string()), ("b".to_string(), "numeric".to_string())]
    );
    let expressions = ["1 + 1", "1 / 0", "NULL::int8", "true", "'a' || chr(31)"].map(str::to_string);
    assert_eq!(
        session.evaluate(&expressions),
        [
            Evaluated::Value("integer".into(), Some("2".into())),
            Evaluated::Error("22012".into()),
            Evaluated::Value("bigint".into(), None),
            Evaluated::Value("boolean".into(), Some("t".into())),
            Evaluated::Value("text".into(), Some("a\x1f".into())),
        ]
    );
}
