//! The laws that every operation keeps, and what each of them does.

use proptest::prelude::*;

use super::*;
use crate::row;
use crate::types::strategies::{data_type, int, nullable_value, ordered_tuple, value};
use crate::types::{Date, Decimal, OrderedTuple, TopK, TupleType, Value};

mod headroom;

/// Applies an operand that passed its check.
fn apply_checked(
    operation: Operation,
    current: &Value,
    operand: ValueRef<'_>,
    data_type: &DataType,
) -> Result<Value> {
    let mut buffer = vec![0xEE];
    let applied = operation.apply(current.as_value_ref(), operand, data_type, &mut buffer)?;
    Ok(applied.value(current.as_value_ref(), &buffer).to_value())
}

fn merge_checked(
    operation: Operation,
    first: ValueRef<'_>,
    second: ValueRef<'_>,
    data_type: &DataType,
) -> Result<Value> {
    let mut buffer = vec![0xEE];
    let applied = operation.merge(first, second, data_type, &mut buffer)?;
    Ok(applied.value(first, &buffer).to_value())
}

fn apply(operation: Operation, current: &Value, operand: &Value, data_type: &DataType) -> Result<Value> {
    let operand = operation.check_operand(operand.as_value_ref(), data_type)?;
    apply_checked(operation, current, operand, data_type)
}

fn merge(operation: Operation, first: &Value, second: &Value, data_type: &DataType) -> Result<Value> {
    let first = operation.check_operand(first.as_value_ref(), data_type)?;
    let second = operation.check_operand(second.as_value_ref(), data_type)?;
    merge_checked(operation, first, second, data_type)
}

/// As stored: so that -0 differs from 0, and each NaN from every other.
fn bits(value: Result<Value>) -> Result<Value> {
    value.map(|value| match value {
        Value::Float(float) => Value::Bytes(float.to_bits().to_be_bytes().to_vec()),
        other => other,
    })
}

fn applicable() -> impl Strategy<Value = (Operation, DataType)> {
    (prop::sample::select(Operation::ALL), data_type())
        .prop_filter("the operation applies", |(operation, data_type)| operation.accepts(data_type).is_ok())
}

fn operand(operation: Operation, data_type: &DataType) -> BoxedStrategy<Value> {
    match (operation, data_type) {
        (Operation::Add | Operation::Multiply, _) => value(data_type),
        (Operation::TopKInsert, DataType::TopK { of, .. }) => prop_oneof![
            3 => ordered_tuple(of.clone()).prop_map(Value::from),
            1 => nullable_value(data_type),
        ]
        .boxed(),
        _ => nullable_value(data_type),
    }
}

/// An operation, a column's type and value, and two operands.
fn case() -> impl Strategy<Value = (Operation, DataType, Value, Value, Value)> {
    applicable().prop_flat_map(|(operation, data_type)| {
        let operands = (operand(operation, &data_type), operand(operation, &data_type));
        let current = nullable_value(&data_type);
        (Just(operation), Just(data_type), current, operands.0, operands.1)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 100_000, ..ProptestConfig::with_cases(600) })]

    #[test]
    fn merged_operands_do_what_they_do_one_after_the_other(
        (operation, data_type, current, first, second) in case()
    ) {
        prop_assume!(operation.splittable(&data_type));
        let stepwise = apply(operation, &current, &first, &data_type)
            .and_then(|value| apply(operation, &value, &second, &data_type));
        let merged = merge(operation, &first, &second, &data_type);
        match (&stepwise, &merged) {
            (Ok(_), Ok(merged)) => {
                let at_once = apply_checked(operation, &current, merged.as_value_ref(), &data_type);
                prop_assert_eq!(bits(stepwise), bits(at_once));
            }
            // Only the sum of two decimals of 38 digits may be beyond what an operand holds, and the product of
            // two factors for a column that is zero or NULL.
            (Ok(_), Err(error)) => prop_assert!(
                matches!(error, Error::Overflow { .. })
                    && (operation == Operation::Multiply || matches!(data_type, DataType::Decimal { .. })),
                "{}", error
            ),
            (Err(error), _) => prop_assert!(matches!(error, Error::Overflow { .. }), "{}", error),
        }
    }

    #[test]
    fn the_sequence_of_operands_does_not_matter((operation, data_type, current, first, second) in case()) {
        prop_assume!(operation.splittable(&data_type));
        let in_sequence = |first, second| {
            apply(operation, &current, first, &data_type)
                .and_then(|value| apply(operation, &value, second, &data_type))
        };
        if let (Ok(forth), Ok(back)) = (in_sequence(&first, &second), in_sequence(&second, &first)) {
            prop_assert_eq!(bits(Ok(forth)), bits(Ok(back)));
        }
    }

    #[test]
    fn merging_commutes_and_associates(
        (operation, data_type, current, first, second) in case(),
        again: bool,
    ) {
        prop_assume!(operation.splittable(&data_type));
        let third = if again { first.clone() } else { second.clone() };
        let merge = |first: &Value, second: &Value| {
            merge_checked(operation, first.as_value_ref(), second.as_value_ref(), &data_type)
        };
        // By what they do: a tuple and the set of it are the same operand.
        let effect = |operand: Result<Value>| {
            bits(operand.and_then(|operand| apply_checked(operation, &current, operand.as_value_ref(), &data_type)))
        };
        if let (Ok(forth), Ok(back)) = (effect(merge(&first, &second)), effect(merge(&second, &first))) {
            prop_assert_eq!(forth, back);
        }
        let left = merge(&first, &second).and_then(|merged| merge(&merged, &third));
        let right = merge(&second, &third).and_then(|merged| merge(&first, &merged));
        if let (Ok(left), Ok(right)) = (effect(left), effect(right)) {
            prop_assert_eq!(left, right);
        }
    }

    #[test]
    fn a_result_fits_its_column((operation, data_type, current, first, _) in case()) {
        if let Ok(result) = apply(operation, &current, &first, &data_type) {
            crate::types::assignment::check(result.as_value_ref(), &data_type, false, "result").unwrap();
        }
    }

    #[test]
    fn the_short_way_for_integers_is_the_long_way(
        operation in prop::sample::select(
            &[Operation::Add, Operation::Multiply, Operation::Max, Operation::Min][..]
        ),
        current in int(i32::MIN.into(), i32::MAX.into()),
        operand in int(i64::MIN, i64::MAX),
        is_wide: bool,
    ) {
        let data_type = if is_wide { DataType::Int64 } else { DataType::Int32 };
        let long = operation.check_operand(ValueRef::Int(operand), &data_type).and_then(|checked| {
            let applied = operation.apply(ValueRef::Int(current), checked, &data_type, &mut Vec::new())?;
            Ok(applied.value(ValueRef::Int(current), &[]).to_value())
        });
        if let Ok(long) = &long {
            let short = operation.apply_int(current, operand, &data_type);
            prop_assert_eq!(short.as_ref().ok().map(|short| Value::from(*short)), Some(long.clone()));
        } else if matches!(operation, Operation::Add | Operation::Multiply) {
            prop_assert!(operation.apply_int(current, operand, &data_type).is_err());
        }
    }

    #[test]
    fn damaged_operands_never_panic(
        bytes in prop::collection::vec(0_u8..10, 0..24),
        current in value(&"top_k(3; int64; text)".parse().unwrap()),
    ) {
        let set: DataType = "top_k(3; int64; text)".parse().unwrap();
        let tuple: DataType = "ordered_tuple(int64; text)".parse().unwrap();
        let mut buffer = Vec::new();
        for operand in [ValueRef::Tuple(&bytes), ValueRef::TopK(&bytes)] {
            let _ = Operation::TopKInsert.apply(current.as_value_ref(), operand, &set, &mut buffer);
            let _ = Operation::TopKInsert.apply(operand, current.as_value_ref(), &set, &mut buffer);
            let _ = Operation::OrderedPut.apply(operand, operand, &tuple, &mut buffer);
        }
    }
}

fn parse(text: &str) -> DataType {
    text.parse().unwrap()
}

fn decimal(text: &str) -> Value {
    Value::from(text.parse::<Decimal>().unwrap())
}

#[test]
fn codes_and_names_tell_the_operations_apart() {
    let codes: Vec<u8> = Operation::ALL.iter().map(|operation| operation.code()).collect();
    assert_eq!(codes, [1, 2, 3, 4, 5, 6], "codes are in logs, and stay as they are");
    for operation in Operation::ALL {
        assert_eq!(Operation::from_code(operation.code()), Some(*operation));
    }
    assert_eq!(Operation::from_code(0), None);
    assert_eq!(Operation::from_code(7), None);
    let names: Vec<&str> = Operation::ALL.iter().map(|operation| operation.name()).collect();
    assert_eq!(names, ["add", "max", "min", "ordered put", "top-K insert", "multiply"]);
}

#[test]
fn operations_apply_to_the_types_that_they_name() {
    let (numbers, integers) = ("add max min", "add max min multiply");
    for (text, accepted) in [
        ("bool", ""),
        ("int32", integers),
        ("int64", integers),
        ("float64", numbers),
        ("decimal(10,2)", numbers),
        ("text", ""),
        ("bytes", ""),
        ("date", "max min"),
        ("timestamp", "max min"),
        ("uuid", ""),
        ("ordered_tuple(int64)", "ordered put"),
        ("top_k(5; int64)", "top-K insert"),
    ] {
        let accepting = Operation::ALL.iter().filter(|operation| operation.accepts(&parse(text)).is_ok());
        let names: Vec<&str> = accepting.map(|operation| operation.name()).collect();
        assert_eq!(names.join(" "), accepted, "{text}");
    }
    let error = Operation::Add.accepts(&DataType::Text).unwrap_err().to_string();
    assert!(error.contains("add") && error.contains("text") && error.contains("int64"), "{error}");
}

#[test]
fn only_sums_of_floats_cannot_be_split() {
    for operation in Operation::ALL {
        for text in [
            "int32",
            "float64",
            "decimal(5,1)",
            "date",
            "timestamp",
            "ordered_tuple(int64)",
            "top_k(5; int64)",
        ] {
            if operation.accepts(&parse(text)).is_ok() {
                let is_float_sum = *operation == Operation::Add && text == "float64";
                assert_eq!(operation.splittable(&parse(text)), !is_float_sum, "{operation:?} on {text}");
            }
        }
    }
    let merged = merge(Operation::Add, &Value::from(0.5), &Value::from(0.5), &DataType::Float64);
    assert!(matches!(merged, Err(Error::WrongOperation { .. })));
}

#[test]
fn null_is_nothing_to_keep_but_unknown_to_add() {
    let of = TupleType::new(vec![DataType::Int64], vec![]).unwrap();
    let tuple = OrderedTuple::new(&of, &row![1], &row![]).unwrap();
    let set = Value::from(TopK::of(5, [&tuple]).unwrap());
    let tuple = Value::from(tuple);
    for (operation, text, operand, result) in [
        (Operation::Max, "int64", Value::from(3), Value::from(3)),
        (Operation::Min, "date", Value::from(Date::MAX), Value::from(Date::MAX)),
        (Operation::OrderedPut, "ordered_tuple(int64)", tuple.clone(), tuple.clone()),
        (Operation::TopKInsert, "top_k(5; int64)", tuple.clone(), set.clone()),
        (Operation::TopKInsert, "top_k(5; int64)", set.clone(), set.clone()),
    ] {
        assert_eq!(
            apply(operation, &Value::Null, &operand, &parse(text)),
            Ok(result.clone()),
            "{operation:?}"
        );
        assert_eq!(apply(operation, &result, &Value::Null, &parse(text)), Ok(result), "{operation:?}");
        assert_eq!(
            apply(operation, &Value::Null, &Value::Null, &parse(text)),
            Ok(Value::Null),
            "{operation:?}"
        );
    }
    assert_eq!(apply(Operation::Add, &Value::Null, &Value::from(1), &DataType::Int64), Ok(Value::Null));
    let error = apply(Operation::Add, &Value::from(1), &Value::Null, &DataType::Int64).unwrap_err();
    assert!(error.to_string().contains("add needs a value"), "{error}");
}

#[test]
fn a_sum_beyond_the_column_is_an_error_and_never_a_wrap() {
    let overflows = |current: Value, operand: Value, text: &str| {
        let result = apply(Operation::Add, &current, &operand, &parse(text));
        assert!(matches!(result, Err(Error::Overflow { .. })), "{current} + {operand}: {result:?}");
    };
    overflows(Value::from(i32::MAX), Value::from(1), "int32");
    overflows(Value::from(i64::MAX), Value::from(1), "int64");
    overflows(Value::from(i64::MIN), Value::from(-1), "int64");
    overflows(decimal("9.9"), decimal("0.1"), "decimal(2,1)");
    overflows(decimal("-9.9"), Value::from(-1), "decimal(2,1)");
    overflows(Value::from(f64::MAX), Value::from(f64::MAX), "float64");
    assert!(matches!(Operation::Add.apply_int(i64::MAX, 1, &DataType::Int64), Err(Error::Overflow { .. })));
    let beyond = Operation::Add.apply_int(i32::MAX.into(), 1, &DataType::Int32);
    assert!(matches!(beyond, Err(Error::Overflow { .. })));
}

#[test]
fn sums_are_exact() {
    let add = |current: Value, operand: Value, text: &str| {
        apply(Operation::Add, &current, &operand, &parse(text)).map(|sum| sum.to_string())
    };
    assert_eq!(add(Value::from(40), Value::from(2), "int32").unwrap(), "42");
    assert_eq!(
        add(Value::from(-2_000_000_000), Value::from(3_000_000_000_i64), "int32").unwrap(),
        "1000000000"
    );
    assert_eq!(add(decimal("0.10"), decimal("0.2"), "decimal(5,2)").unwrap(), "0.30");
    assert_eq!(add(decimal("0.10"), Value::from(5), "decimal(5,2)").unwrap(), "5.10");
    assert_eq!(add(Value::from(0.5), Value::from(1), "float64").unwrap(), "1.5");
    assert_eq!(add(Value::from(f64::INFINITY), Value::from(1.0), "float64").unwrap(), "Infinity");
    assert!(matches!(add(decimal("0.10"), decimal("0.001"), "decimal(5,2)"), Err(Error::Inexact { .. })));
    assert!(matches!(add(Value::from(1), decimal("0.5"), "int64"), Err(Error::WrongType { .. })));
    assert!(matches!(add(Value::from(1), Value::from("1"), "int64"), Err(Error::WrongType { .. })));
}

#[test]
fn merged_sums_may_be_beyond_the_column_that_they_go_to() {
    let int64 = DataType::Int64;
    let twice = merge(Operation::Add, &Value::from(i64::MAX), &Value::from(i64::MAX), &int64).unwrap();
    let sum =
        |current: i64| apply_checked(Operation::Add, &Value::from(current), twice.as_value_ref(), &int64);
    assert_eq!(sum(i64::MIN), Ok(Value::from(i64::MAX - 1)));
    let overflow = sum(0);
    assert!(matches!(overflow, Err(Error::Overflow { .. })));
    let back = merge_checked(Operation::Add, twice.as_value_ref(), ValueRef::Int(-i64::MAX), &int64).unwrap();
    assert_eq!(back, Value::from(i64::MAX));
}

#[test]
fn max_and_min_keep_a_side_of_the_one_order() {
    let keep = |operation, current: Value, operand: Value, text: &str| {
        apply(operation, &current, &operand, &parse(text)).unwrap().to_string()
    };
    assert_eq!(keep(Operation::Max, Value::from(1), Value::from(2), "int32"), "2");
    assert_eq!(keep(Operation::Min, Value::from(1), Value::from(2), "int32"), "1");
    assert_eq!(keep(Operation::Max, decimal("1.50"), decimal("1.6"), "decimal(5,2)"), "1.60");
    assert_eq!(keep(Operation::Max, Value::from(1.0), Value::from(f64::NAN), "float64"), "NaN");
    assert_eq!(keep(Operation::Min, Value::from(1.0), Value::from(f64::NAN), "float64"), "1");
    assert_eq!(keep(Operation::Max, Value::from(-0.0), Value::from(0.0), "float64"), "0");
    assert_eq!(keep(Operation::Min, Value::from(0.0), Value::from(-0.0), "float64"), "-0");
    assert_eq!(keep(Operation::Min, Value::from(Date::MAX), Value::from(Date::MIN), "date"), "0001-01-01");
    let refused = apply(Operation::Max, &Value::from(1), &Value::from(1_i64 << 40), &DataType::Int32);
    assert!(matches!(refused, Err(Error::Overflow { .. })));
}

#[test]
fn what_changes_nothing_is_said_to_be_unchanged() {
    let mut buffer = Vec::new();
    let applied = Operation::Max.apply(ValueRef::Int(3), ValueRef::Int(3), &DataType::Int64, &mut buffer);
    assert_eq!(applied, Ok(Applied::Unchanged));
    let of = TupleType::new(vec![DataType::Int64], vec![DataType::Text]).unwrap();
    let tuple = OrderedTuple::new(&of, &row![1], &row!["a"]).unwrap();
    let stored = ValueRef::from(&tuple);
    let put = Operation::OrderedPut.apply(stored, stored, &DataType::OrderedTuple(of), &mut buffer);
    assert_eq!(put, Ok(Applied::Unchanged));
    assert!(buffer.is_empty());
}

#[test]
fn tuples_of_another_type_are_refused() {
    let of = TupleType::new(vec![DataType::Int64], vec![DataType::Text]).unwrap();
    let tuple = Value::from(OrderedTuple::new(&of, &row![1], &row!["a"]).unwrap());
    let refused = |operation, text: &str| apply(operation, &Value::Null, &tuple, &parse(text)).is_err();
    assert!(refused(Operation::OrderedPut, "ordered_tuple(int64)"));
    assert!(refused(Operation::TopKInsert, "top_k(5; int64; int64)"));
    assert!(!refused(Operation::TopKInsert, "top_k(5; int64; text)"));
    assert!(
        apply(Operation::OrderedPut, &Value::Null, &Value::from(1), &parse("ordered_tuple(int64)")).is_err()
    );
    assert!(Operation::OrderedPut.apply_int(1, 2, &DataType::Int64).is_err());
}

#[test]
fn products_are_exact_or_an_error() {
    let multiply = |current: Value, factor: Value, text: &str| {
        apply(Operation::Multiply, &current, &factor, &parse(text))
    };
    assert_eq!(multiply(Value::from(6), Value::from(-7), "int32"), Ok(Value::from(-42)));
    assert_eq!(multiply(Value::from(0), Value::from(i64::MAX), "int32"), Ok(Value::from(0)));
    assert_eq!(multiply(Value::Null, Value::from(2), "int64"), Ok(Value::Null));
    for (current, factor, text) in [
        (1 << 30, 2, "int32"),
        (1 << 62, 2, "int64"),
        (i64::MIN, -1, "int64"),
        (i64::from(i32::MIN), -1, "int32"),
    ] {
        let error = multiply(Value::from(current), Value::from(factor), text).unwrap_err();
        assert!(matches!(error, Error::Overflow { .. }), "{current} * {factor}: {error}");
    }
    let error = multiply(Value::from(1), Value::Null, "int64").unwrap_err();
    assert!(error.to_string().contains("multiply needs a value"), "{error}");
    assert!(matches!(multiply(Value::from(1), Value::from(0.5), "int64"), Err(Error::WrongType { .. })));
    assert!(matches!(
        multiply(decimal("1.5"), Value::from(2), "decimal(3,1)"),
        Err(Error::WrongOperation { .. })
    ));
    let merged = merge(Operation::Multiply, &Value::from(1 << 20), &Value::from(1 << 20), &DataType::Int32);
    assert_eq!(merged, Ok(Value::from(1_i64 << 40)), "a product of operands has 64 bits");
    let beyond =
        merge(Operation::Multiply, &Value::from(1_i64 << 40), &Value::from(1_i64 << 40), &DataType::Int64);
    assert!(matches!(beyond, Err(Error::Overflow { .. })));
}
