//! The language as a whole: what is written is read back, types are checked, and logic has three values.

use proptest::prelude::*;

use super::bind::bind;
use super::parse::parse;
use super::{Arithmetic, Comparison, Expression};
use crate::error::{Error, Result};
use crate::types::{DataType, Value, ValueRef};

const COLUMNS: [(&str, &DataType); 10] = [
    ("a", &DataType::Int64),
    ("b", &DataType::Int64),
    ("price", &DataType::Decimal { precision: 8, scale: 2 }),
    ("weight", &DataType::Float64),
    ("name", &DataType::Text),
    ("photo", &DataType::Bytes),
    ("day", &DataType::Date),
    ("at", &DataType::Timestamp),
    ("open", &DataType::Bool),
    ("not", &DataType::Uuid),
];

fn row() -> [Value; 10] {
    [
        Value::Int(7),
        Value::Null,
        Value::Decimal("12.50".parse().expect("a decimal")),
        Value::Float(0.5),
        Value::Text("Ada".to_string()),
        Value::Bytes(vec![1, 2, 3]),
        Value::Date("2026-11-22".parse().expect("a date")),
        Value::Timestamp("2026-11-22 12:00:00".parse().expect("a time")),
        Value::Bool(true),
        Value::Uuid("00000000-0000-0000-0000-000000000001".parse().expect("a uuid")),
    ]
}

fn passes(text: &str) -> Result<bool> {
    let row = row();
    let condition = bind(&parse(text).expect("it can be read"), &COLUMNS).expect("it has types");
    condition.passes(&|column| ValueRef::from(&row[column]))
}

/// True, false, or unknown: passes itself, and its negation.
fn truth(text: &str) -> Option<bool> {
    match (passes(text), passes(&format!("NOT ({text})"))) {
        (Ok(true), Ok(true)) => None,
        (Ok(truth), Ok(negated)) => {
            assert_ne!(truth, negated, "{text}");
            Some(truth)
        }
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn comparisons_and_arithmetic_are_exact_across_types() {
    for text in [
        "a = 7",
        "a <> 8 AND a != 8",
        "a < 7.5",
        "7 <= a",
        "price > 12",
        "price = 12.500",
        "price * 2 = 25",
        "price - a = 5.5",
        "a + 1 = 8 AND a - 1 = 6 AND a * 3 = 21 AND a / 2 = 3 AND a % 4 = 3",
        "-a = -7",
        "- (a + 1) < - 7",
        "a - 2 - 3 = 2",
        "a + 2 * 3 = 13",
        "(a + 2) * 3 = 27",
        "weight * 2 = 1",
        "weight < price",
        "name = 'Ada'",
        "name < 'B'",
        "length(name) = 3 AND length(photo) = 3",
        "name LIKE 'A%' AND name NOT LIKE '_'",
        "a IN (1, 7, 9)",
        "a NOT IN (1, 2)",
        "a BETWEEN 7 AND 7",
        "a NOT BETWEEN 8 AND 9",
        "day >= '2026-01-01'",
        "at < '2026-11-22 12:00:01'",
        "\"not\" = '00000000-0000-0000-0000-000000000001'",
        "open",
        "open = TRUE AND NOT open = FALSE",
        "a IS NOT NULL",
        "b IS NULL",
    ] {
        assert_eq!(truth(text), Some(true), "{text}");
    }
}

#[test]
fn null_makes_unknown_unless_the_other_side_decides() {
    for text in ["b = 1", "b + 1 > 0", "NOT b = 1", "b IN (1, 2)", "a IN (1, b)", "a BETWEEN b AND 9"] {
        assert_eq!(truth(text), None, "{text}");
    }
    for (text, known) in [
        ("b = 1 AND a = 8", false),
        ("a = 8 AND b = 1", false),
        ("b = 1 OR a = 7", true),
        ("a = 7 OR b = 1", true),
        ("a IN (b, 7)", true),
        ("a BETWEEN b AND 6", false),
        ("NULL IS NULL", true),
    ] {
        assert_eq!(truth(text), Some(known), "{text}");
    }
    for text in ["b = 1 AND a = 7", "b = 1 OR a = 8", "name LIKE NULL", "length(NULL) = 1", "NULL"] {
        assert_eq!(truth(text), None, "{text}");
    }
}

#[test]
fn arithmetic_that_has_no_result_is_an_error() {
    for text in ["a / 0 = 1", "a % (a - 7) = 1", "weight / 0 > 1"] {
        assert!(matches!(passes(text), Err(Error::DivisionByZero { .. })), "{text}");
    }
    for text in ["a * 9223372036854775807 > 0", "-9223372036854775807 - a < 0"] {
        assert!(matches!(passes(text), Err(Error::Overflow { .. })), "{text}");
    }
    assert_eq!(passes("a = 8 AND a / 0 = 1"), Ok(false), "what is decided is not evaluated further");
}

#[test]
fn what_cannot_be_read_says_where_it_stops() {
    for (text, words) in [
        ("", "it ends where a column"),
        ("a >", "it ends where"),
        ("a = 1 b", "\"b\" stands where the end"),
        ("a BETWEEN 1", "AND"),
        ("a IN ()", "\")\" stands where"),
        ("a IS 1", "NULL"),
        ("a NOT 1", "IN, BETWEEN or LIKE"),
        ("(a = 1", "\")\""),
        ("name = 'Ada", "has no end"),
        ("a = 1; DROP", "';' has no meaning"),
        ("a = 1.2.3", "1.2.3"),
        ("AND = 1", "a column or a constant"),
    ] {
        let error = parse(text).expect_err(text);
        assert!(error.contains(words), "{text:?}: {error}");
    }
}

#[test]
fn types_that_do_not_go_together_are_refused() {
    for (text, words) in [
        ("missing = 1", "no column \"missing\""),
        ("a", "must be a condition"),
        ("a + 1", "must be a condition"),
        ("a = 'x'", "do not compare"),
        ("name > 1", "do not compare"),
        ("name + 1 > 0", "must be a number"),
        ("a LIKE '1%'", "must be a text"),
        ("length(a) = 1", "have a length"),
        ("NOT a", "must be a condition"),
        ("price / 2 > 1", "not divided"),
        ("day > 'yesterday'", "yesterday"),
        ("a IN (1, 'x')", "do not compare"),
    ] {
        let error = bind(&parse(text).expect("it can be read"), &COLUMNS).expect_err(text);
        assert!(error.contains(words), "{text:?}: {error}");
    }
}

#[test]
fn depth_and_length_are_bounded() {
    let nested = |levels: usize| format!("{}a = 1{}", "(".repeat(levels), ")".repeat(levels));
    assert!(parse(&nested(50)).is_ok());
    for text in [nested(3_000), "NOT ".repeat(2_000) + "open", "- ".repeat(4_000) + "a = 1"] {
        assert!(parse(&text).expect_err("too deep").contains("nested deeper"), "{}", &text[..20]);
    }
    let chain = vec!["a = 1"; 500].join(" AND ");
    assert!(parse(&chain).expect_err("too deep").contains("nested deeper"));
    assert!(parse(&vec!["a = 1"; 60].join(" OR ")).is_ok());
    assert!(parse(&"a ".repeat(10_000)).expect_err("too long").contains("bytes"));
}

#[test]
fn a_renamed_column_is_renamed_everywhere() {
    let text = "a = 1 AND NOT (b IS NULL OR -a < length(name)) AND a IN (a, 2) AND a BETWEEN 0 AND a + 1 AND name LIKE name";
    let renamed = parse(text).expect("an expression").renamed("a", "AND");
    assert!(renamed.names("AND") && !renamed.names("a") && renamed.names("b"));
    assert_eq!(
        parse(&renamed.to_string()).expect("it can be read").renamed("AND", "a"),
        parse(text).expect("it")
    );
}

fn constants() -> impl Strategy<Value = Expression> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (0..=i64::MAX).prop_map(Value::Int),
        (0..1_000_000_i64, 1..4_u8).prop_map(|(unscaled, scale)| {
            Value::Decimal(crate::types::Decimal::new(unscaled.into(), scale).expect("a decimal"))
        }),
        "[a-z'\"%\\\\ ]{0,5}".prop_map(Value::Text),
    ]
    .prop_map(Expression::Constant)
}

fn expressions() -> impl Strategy<Value = Expression> {
    let names = prop_oneof!["[a-z_]{1,6}", "[A-Za-z \"'0-9ü]{1,6}", Just("and".to_string())];
    let leaf = prop_oneof![constants(), names.prop_map(Expression::Column)];
    let comparisons = prop_oneof![
        Just(Comparison::Equal),
        Just(Comparison::NotEqual),
        Just(Comparison::Less),
        Just(Comparison::LessOrEqual),
        Just(Comparison::Greater),
        Just(Comparison::GreaterOrEqual),
    ];
    let operators = prop_oneof![
        Just(Arithmetic::Add),
        Just(Arithmetic::Subtract),
        Just(Arithmetic::Multiply),
        Just(Arithmetic::Divide),
        Just(Arithmetic::Remainder),
    ];
    leaf.prop_recursive(5, 40, 3, move |inner| {
        let one = || inner.clone().prop_map(Box::new);
        prop_oneof![
            one().prop_map(Expression::Negative),
            one().prop_map(Expression::Not),
            one().prop_map(Expression::IsNull),
            one().prop_map(Expression::Length),
            (operators.clone(), one(), one())
                .prop_map(|(operator, left, right)| Expression::Arithmetic(operator, left, right)),
            (comparisons.clone(), one(), one())
                .prop_map(|(comparison, left, right)| Expression::Compare(comparison, left, right)),
            (one(), one()).prop_map(|(left, right)| Expression::And(left, right)),
            (one(), one()).prop_map(|(left, right)| Expression::Or(left, right)),
            (one(), one()).prop_map(|(left, right)| Expression::Like(left, right)),
            (one(), one(), one()).prop_map(|(one, low, high)| Expression::Between(one, low, high)),
            (one(), prop::collection::vec(inner.clone(), 1..3))
                .prop_map(|(one, among)| Expression::In(one, among)),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(expression in expressions()) {
        let text = expression.to_string();
        prop_assert_eq!(parse(&text).map_err(|error| format!("{text}: {error}")), Ok(expression));
    }

    #[test]
    fn no_text_makes_it_panic(text in "[a-z0-9 ()'\"<>=.,+*/%-]{0,40}|(NOT|AND|OR|IS|NULL|IN|BETWEEN|LIKE|LENGTH|[()a1 ]| ){0,20}") {
        if let Ok(expression) = parse(&text) {
            let _ = bind(&expression, &COLUMNS);
        }
    }
}
