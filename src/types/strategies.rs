//! Random types and values for property tests, with many that are equal, at a bound, or nearly so.

use proptest::prelude::*;

use crate::types::{
    DataType, Date, Decimal, OrderedTuple, Timestamp, TopK, TupleType, Uuid, Value, ValueRef,
};

/// A type that may be in a key.
pub(crate) fn scalar_type() -> impl Strategy<Value = DataType> + Clone {
    prop_oneof![
        Just(DataType::Bool),
        Just(DataType::Int32),
        Just(DataType::Int64),
        Just(DataType::Float64),
        (1_u8..=Decimal::PRECISION_MAX)
            .prop_flat_map(|precision| (Just(precision), 0..=precision))
            .prop_map(|(precision, scale)| DataType::Decimal { precision, scale }),
        Just(DataType::Text),
        Just(DataType::Bytes),
        Just(DataType::Date),
        Just(DataType::Timestamp),
        Just(DataType::Uuid),
    ]
}

/// The type of an entry.
pub(crate) fn tuple_type() -> impl Strategy<Value = TupleType> {
    let members = |count| prop::collection::vec(scalar_type(), count);
    (members(1..3_usize), members(0..3_usize))
        .prop_map(|(order, payload)| TupleType::new(order, payload).expect("scalar members"))
}

/// Any type of a column.
pub(crate) fn data_type() -> impl Strategy<Value = DataType> {
    prop_oneof![
        4 => scalar_type(),
        1 => tuple_type().prop_map(DataType::OrderedTuple),
        1 => (1_u32..=8, tuple_type()).prop_map(|(limit, of)| DataType::TopK { limit, of }),
    ]
}

/// Integers: small, anywhere, and at a bound.
pub(crate) fn int(min: i64, max: i64) -> impl Strategy<Value = i64> {
    prop_oneof![3 => -3..=3_i64, 2 => min..=max, 1 => Just(min), 1 => Just(max), 1 => Just(max - 1)]
}

/// Floats: anywhere, and the ones that are unlike others.
pub(crate) fn float() -> impl Strategy<Value = f64> {
    let special =
        vec![0.0, -0.0, 1.0, -1.0, f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE];
    prop_oneof![prop::num::f64::ANY, prop::sample::select(special)]
}

/// Decimals of this type.
pub(crate) fn decimal(precision: u8, scale: u8) -> impl Strategy<Value = Decimal> {
    let max = 10_i128.pow(u32::from(precision)) - 1;
    let small = max.min(3);
    prop_oneof![-small..=small, -max..=max, Just(max), Just(-max)]
        .prop_map(move |unscaled| Decimal::new(unscaled, scale).expect("within the precision"))
}

/// Days: around 1970, anywhere, and at a bound.
pub(crate) fn date() -> impl Strategy<Value = Date> {
    let (min, max) = (Date::MIN.days(), Date::MAX.days());
    prop_oneof![-400..=400, min..=max, Just(min), Just(max)]
        .prop_map(|days| Date::from_days(days).expect("in range"))
}

/// Times: around 1970, anywhere, and at a bound.
pub(crate) fn timestamp() -> impl Strategy<Value = Timestamp> {
    let (min, max) = (Timestamp::MIN.microseconds(), Timestamp::MAX.microseconds());
    prop_oneof![-3..=3_i64, min..=max, Just(min), Just(max)]
        .prop_map(|microseconds| Timestamp::from_microseconds(microseconds).expect("in range"))
}

/// A value of this type, other than NULL.
pub(crate) fn value(data_type: &DataType) -> BoxedStrategy<Value> {
    match data_type.clone() {
        DataType::Bool => any::<bool>().prop_map(Value::from).boxed(),
        DataType::Int32 => int(i32::MIN.into(), i32::MAX.into()).prop_map(Value::from).boxed(),
        DataType::Int64 => int(i64::MIN, i64::MAX).prop_map(Value::from).boxed(),
        DataType::Float64 => float().prop_map(Value::from).boxed(),
        DataType::Decimal { precision, scale } => decimal(precision, scale).prop_map(Value::from).boxed(),
        DataType::Text => "[ab\u{1}é\u{10FFFF}]{0,4}".prop_map(Value::from).boxed(),
        DataType::Bytes => {
            let byte = prop::sample::select(vec![0_u8, 1, 254, 255]);
            prop::collection::vec(byte, 0..5).prop_map(Value::from).boxed()
        }
        DataType::Date => date().prop_map(Value::from).boxed(),
        DataType::Timestamp => timestamp().prop_map(Value::from).boxed(),
        DataType::Uuid => any::<[u8; 16]>().prop_map(|bytes| Value::from(Uuid::from_bytes(bytes))).boxed(),
        DataType::OrderedTuple(of) => ordered_tuple(of).prop_map(Value::from).boxed(),
        DataType::TopK { limit, of } => prop::collection::vec(ordered_tuple(of), 0..=limit as usize)
            .prop_map(move |entries| Value::from(TopK::of(limit, &entries).expect("short entries")))
            .boxed(),
    }
}

/// A value of this type, or NULL.
pub(crate) fn nullable_value(data_type: &DataType) -> BoxedStrategy<Value> {
    prop_oneof![1 => Just(Value::Null), 6 => value(data_type)].boxed()
}

/// A row of values of these types, or NULL.
pub(crate) fn row_of(data_types: Vec<DataType>) -> BoxedStrategy<Vec<Value>> {
    data_types.iter().map(nullable_value).collect::<Vec<_>>().boxed()
}

/// An entry of this type.
pub(crate) fn ordered_tuple(of: TupleType) -> BoxedStrategy<OrderedTuple> {
    (row_of(of.order().to_vec()), row_of(of.payload().to_vec()))
        .prop_map(move |(order, payload)| {
            let order: Vec<ValueRef<'_>> = order.iter().map(Value::as_value_ref).collect();
            let payload: Vec<ValueRef<'_>> = payload.iter().map(Value::as_value_ref).collect();
            OrderedTuple::new(&of, &order, &payload).expect("values of the members' types")
        })
        .boxed()
}
