//! Slices of operands, however they are spread over worker contexts, have the effect of the operands one after the
//! other.

use proptest::prelude::*;

use super::*;
use crate::error::Error;
use crate::row;
use crate::types::strategies::{data_type, int, nullable_value, ordered_tuple, value};
use crate::types::{OrderedTuple, TopK, TupleType, Value};

fn operand(operation: Operation, data_type: &DataType) -> BoxedStrategy<Value> {
    match (operation, data_type) {
        (Operation::Add, DataType::Int64) => int(i64::MIN, i64::MAX).prop_map(Value::from).boxed(),
        (Operation::Add, _) => value(data_type),
        (Operation::Multiply, _) => int(-3, 40).prop_map(Value::from).boxed(),
        (Operation::TopKInsert, DataType::TopK { of, .. }) => prop_oneof![
            4 => ordered_tuple(of.clone()).prop_map(Value::from),
            1 => nullable_value(data_type),
        ]
        .boxed(),
        _ => nullable_value(data_type),
    }
}

/// An operation, a column that it splits and its value, and operands with the worker context that gives each.
fn split() -> impl Strategy<Value = (Operation, DataType, Value, Vec<(usize, Value)>)> {
    (prop::sample::select(Operation::ALL), data_type())
        .prop_filter("it can be split", |(operation, of)| operation.splittable(of))
        .prop_flat_map(|(operation, of)| {
            let given = prop::collection::vec((0..4_usize, operand(operation, &of)), 0..16);
            (Just(operation), Just(of.clone()), value(&of), given)
        })
}

fn apply(
    operation: Operation,
    current: &Value,
    operand: ValueRef<'_>,
    data_type: &DataType,
) -> Result<Value> {
    let mut buffer = Vec::new();
    let applied = operation.apply(current.as_value_ref(), operand, data_type, &mut buffer)?;
    Ok(applied.value(current.as_value_ref(), &buffer).to_value())
}

/// Bits as stored: -0 differs from 0, and each NaN from every other.
fn bits(value: &Value) -> Value {
    match value {
        Value::Float(float) => Value::Bytes(float.to_bits().to_be_bytes().to_vec()),
        other => other.clone(),
    }
}

fn bits_of(slice: &Slice) -> Option<Value> {
    slice.value().map(|value| bits(&value.to_value()))
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 100_000, ..ProptestConfig::with_cases(800) })]

    #[test]
    fn slices_come_to_what_the_operands_do_one_after_the_other(
        (operation, data_type, base, given) in split()
    ) {
        let mut slices = vec![Slice::default(); 4];
        let mut expected = base.clone();
        let mut buffer = vec![0xEE; 3];
        for (worker_context, operand) in &given {
            let Ok(operand) = operation.check_operand(operand.as_value_ref(), &data_type) else { continue };
            let before = bits_of(&slices[*worker_context]);
            let Ok(after) = apply(operation, &expected, operand, &data_type) else { continue };
            match slices[*worker_context].merge(operation, operand, &data_type, &mut buffer) {
                Ok(()) => expected = after,
                Err(error) => {
                    prop_assert!(matches!(error, Error::Overflow { .. }), "{}", error);
                    prop_assert_eq!(bits_of(&slices[*worker_context]), before, "an error changes nothing");
                    continue;
                }
            }
        }
        // Some way through the bounds there may be none from slice to slice: that is what headroom is for.
        let applied = slices.iter().filter_map(Slice::value).try_fold(base, |value, operand| {
            apply(operation, &value, operand, &data_type)
        });
        if let Ok(applied) = applied {
            prop_assert_eq!(bits(&applied), bits(&expected));
        }
    }

    #[test]
    fn slices_merged_with_each_other_do_the_same(
        (operation, data_type, base, given) in split()
    ) {
        let mut slices = vec![Slice::default(); 4];
        let (mut whole, mut buffer) = (Slice::default(), Vec::new());
        for (worker_context, operand) in &given {
            let Ok(operand) = operation.check_operand(operand.as_value_ref(), &data_type) else { continue };
            let mut next = whole.clone();
            if next.merge(operation, operand, &data_type, &mut buffer).is_err() {
                continue;
            }
            if slices[*worker_context].merge(operation, operand, &data_type, &mut buffer).is_ok() {
                whole = next;
            }
        }
        let mut all = Slice::default();
        for slice in &slices {
            let Some(operand) = slice.value() else { continue };
            prop_assume!(all.merge(operation, operand, &data_type, &mut buffer).is_ok());
        }
        prop_assert_eq!(all.is_untouched(), whole.is_untouched());
        // By what they do: a tuple and the set of it are the same operand.
        let effect = |slice: &Slice| match slice.value() {
            Some(operand) => apply(operation, &base, operand, &data_type).map(|value| bits(&value)),
            None => Ok(bits(&base)),
        };
        prop_assert_eq!(effect(&all), effect(&whole));
    }
}

#[test]
fn an_integer_slice_goes_beyond_64_bits_and_comes_back() {
    let (mut slice, mut buffer) = (Slice::default(), Vec::new());
    let mut add = |slice: &mut Slice, operand: i64| {
        slice.merge(Operation::Add, ValueRef::Int(operand), &DataType::Int64, &mut buffer).unwrap();
    };
    add(&mut slice, i64::MAX);
    add(&mut slice, i64::MAX);
    assert!(matches!(slice.value(), Some(ValueRef::Decimal(_))));
    assert_eq!(slice.value().unwrap().to_value().to_string(), (2 * i128::from(i64::MAX)).to_string());
    add(&mut slice, -i64::MAX);
    assert!(matches!(slice.value(), Some(ValueRef::Int(i64::MAX))));
    assert!(matches!(slice.merged, Merged::Int(_)), "it goes the short way again");
}

#[test]
fn null_touches_nothing_and_add_refuses_it() {
    let (mut slice, mut buffer) = (Slice::default(), Vec::new());
    for operation in [Operation::Max, Operation::Min] {
        slice.merge(operation, ValueRef::Null, &DataType::Int64, &mut buffer).unwrap();
        assert!(slice.is_untouched() && slice.value().is_none());
    }
    for operation in [Operation::Add, Operation::Multiply] {
        assert!(slice.merge(operation, ValueRef::Null, &DataType::Int64, &mut buffer).is_err());
        assert!(slice.is_untouched());
    }
}

#[test]
fn a_product_beyond_64_bits_leaves_the_slice_as_it_was() {
    let (mut slice, mut buffer) = (Slice::default(), Vec::new());
    let mut multiply = |operand: i64| {
        let merged = slice.merge(Operation::Multiply, ValueRef::Int(operand), &DataType::Int64, &mut buffer);
        (merged.is_ok(), slice.value().map(ValueRef::to_value))
    };
    assert_eq!(multiply(1 << 40), (true, Some(Value::from(1_i64 << 40))));
    assert_eq!(multiply(1 << 40), (false, Some(Value::from(1_i64 << 40))));
    assert_eq!(multiply(-2), (true, Some(Value::from(-2_i64 << 40))));
}

/// However many entries are inserted, K of them are kept, in memory that is used again.
#[test]
fn a_slice_of_a_set_does_not_grow_with_the_number_of_operations() {
    let of = TupleType::new(vec![DataType::Int64], vec![]).unwrap();
    let data_type = DataType::TopK { limit: 3, of: of.clone() };
    let (mut slice, mut buffer) = (Slice::default(), Vec::new());
    let tuple = |number: i64| OrderedTuple::new(&of, &row![number], &row![]).unwrap();
    let mut most = 0;
    for number in 0..1000 {
        let operand = tuple(number);
        slice.merge(Operation::TopKInsert, ValueRef::from(&operand), &data_type, &mut buffer).unwrap();
        let Some(ValueRef::Tuple(bytes) | ValueRef::TopK(bytes)) = slice.value() else { panic!("{slice:?}") };
        most = most.max(bytes.len());
    }
    let kept = TopK::of(3, &[tuple(999), tuple(998), tuple(997)]).unwrap();
    assert_eq!(slice.value().unwrap().to_value(), Value::from(kept.clone()));
    assert_eq!(most, kept.as_bytes().len());
}

#[test]
fn a_slice_is_a_few_words() {
    assert!(size_of::<Slice>() <= 40, "{} bytes", size_of::<Slice>());
}
