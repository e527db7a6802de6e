//! Aggregates over merged states give the same results as over all rows; the comparison with PostgreSQL is in
//! `tests/aggregates.rs`.

use crate::functions::definition::{Accumulator, FunctionContext, FunctionKind};
use crate::functions::registry::all_functions;
use crate::types::text::{from_text, to_text};
use crate::types::{Modifier, PlainEnvironment, Type, Value};

fn start(signature: &str, context: &FunctionContext<'_>) -> Box<dyn Accumulator> {
    let function = all_functions().iter().find(|it| it.signature == signature).unwrap();
    match function.kind {
        FunctionKind::Aggregate { start, .. } => start(context),
        _ => panic!("{signature} is not an aggregate"),
    }
}

/// Aggregates texts of one type in as many states as there are parts.
fn aggregate(signature: &str, kind: Type, result_type: Type, parts: &[&[&str]]) -> String {
    let mut environment = PlainEnvironment::new(0);
    let parts: Vec<Vec<Value>> = parts
        .iter()
        .map(|part| {
            part.iter().map(|text| from_text(&environment, kind, Modifier::NONE, text).unwrap()).collect()
        })
        .collect();
    let types = [kind, kind];
    let mut context = FunctionContext { environment: &mut environment, argument_types: &types, result_type };
    let mut states = parts.iter().map(|part| {
        let mut state = start(signature, &context);
        for value in part {
            state.accumulate(&mut context, &[value.clone(), value.clone()]).unwrap();
        }
        state
    });
    let mut first = states.next().unwrap();
    let others: Vec<_> = states.collect();
    for other in others {
        first.merge(other).unwrap();
    }
    assert!(first.size() > 0);
    let result = first.finish(&mut context, &[]).unwrap();
    if result.is_null() { "NULL".to_string() } else { to_text(&environment, result_type, &result).unwrap() }
}

#[test]
fn merged_states_answer_as_one() {
    let values = ["1", "5", "2", "8", "2"];
    for (signature, kind, result) in [
        ("sum(int4) int8", Type::Int4, Type::Int8),
        ("avg(int4) numeric", Type::Int4, Type::Numeric),
        ("min(int4) int4", Type::Int4, Type::Int4),
        ("max(text) text", Type::Text, Type::Text),
        ("stddev(int8) numeric", Type::Int8, Type::Numeric),
        ("var_pop(float8) float8", Type::Float8, Type::Float8),
        ("corr(float8, float8) float8", Type::Float8, Type::Float8),
        ("array_agg(anynonarray) anyarray", Type::Int4, Type::array_of(Type::Int4)),
        ("string_agg(text, text) text", Type::Text, Type::Text),
        ("bit_xor(int8) int8", Type::Int8, Type::Int8),
        ("jsonb_agg(anyelement) jsonb", Type::Numeric, Type::Jsonb),
    ] {
        let whole = aggregate(signature, kind, result, &[&values]);
        let split = aggregate(signature, kind, result, &[&values[..2], &[], &values[2..]]);
        assert_eq!(whole, split, "{signature}");
        assert_ne!(whole, "NULL");
        assert_eq!(aggregate(signature, kind, result, &[&[], &[]]), "NULL", "{signature}");
    }
}

#[test]
fn a_sum_beyond_bigint_is_out_of_range() {
    let mut environment = PlainEnvironment::new(0);
    let types = [Type::Int4];
    let mut context =
        FunctionContext { environment: &mut environment, argument_types: &types, result_type: Type::Int8 };
    let mut state = start("sum(int8) numeric", &context);
    state.accumulate(&mut context, &[Value::Int8(i64::MAX)]).unwrap();
    state.accumulate(&mut context, &[Value::Int8(i64::MAX)]).unwrap();
    let sum = state.finish(&mut context, &[]).unwrap();
    assert_eq!(sum.as_numeric().to_string(), "18446744073709551614");
}

#[test]
fn states_of_different_aggregates_do_not_merge() {
    let mut environment = PlainEnvironment::new(0);
    let types = [Type::Int4];
    let context =
        FunctionContext { environment: &mut environment, argument_types: &types, result_type: Type::Int8 };
    let mut count = start("count(any) int8", &context);
    let sum = start("sum(int4) int8", &context);
    assert!(count.merge(sum).is_err());
}
