//! Keys compare as values do, and come back as what they were.

use std::cmp::Ordering;

use proptest::prelude::*;

use super::*;
use crate::types::strategies::{nullable_value, scalar_type, value};

/// A column of a key: its type, and whether it may be NULL.
type Column = (DataType, bool);

fn columns() -> impl Strategy<Value = Vec<Column>> {
    prop::collection::vec((scalar_type(), any::<bool>()), 1..4)
}

fn row(columns: &[Column]) -> BoxedStrategy<Vec<Value>> {
    let strategies = columns.iter().map(|(data_type, nullable)| match nullable {
        true => nullable_value(data_type),
        false => value(data_type),
    });
    strategies.collect::<Vec<_>>().boxed()
}

/// Two rows that often share their first values.
fn two_rows() -> impl Strategy<Value = (Vec<Column>, Vec<Value>, Vec<Value>)> {
    columns().prop_flat_map(|columns| {
        let (left, right) = (row(&columns), row(&columns));
        let count = columns.len();
        (Just(columns), left, right, 0..=count).prop_map(|(columns, left, mut right, shared)| {
            right[..shared].clone_from_slice(&left[..shared]);
            (columns, left, right)
        })
    })
}

fn encode(columns: &[Column], row: &[Value]) -> EncodedKey {
    let mut key = EncodedKey::new();
    for ((data_type, nullable), value) in columns.iter().zip(row) {
        encode_component(&mut key, value.as_value_ref(), data_type, *nullable).unwrap();
    }
    key
}

fn compare(left: &[Value], right: &[Value]) -> Ordering {
    let mut columns = left.iter().zip(right);
    columns
        .find_map(|(left, right)| {
            left.as_value_ref().partial_cmp(&right.as_value_ref()).filter(|ordering| ordering.is_ne())
        })
        .unwrap_or(Ordering::Equal)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn keys_compare_as_their_values((columns, left, right) in two_rows()) {
        let keys = (encode(&columns, &left), encode(&columns, &right));
        prop_assert_eq!(keys.0.cmp(&keys.1), compare(&left, &right));
    }

    #[test]
    fn no_key_is_a_prefix_of_another((columns, left, right) in two_rows()) {
        let keys = (encode(&columns, &left), encode(&columns, &right));
        prop_assert_eq!(keys.0.starts_with(&keys.1), keys.0 == keys.1);
    }

    #[test]
    fn a_key_decodes_to_its_values((columns, row, _) in two_rows()) {
        let key = encode(&columns, &row);
        let mut rest = key.as_slice();
        for ((data_type, nullable), value) in columns.iter().zip(&row) {
            let decoded = decode_component(&mut rest, data_type, *nullable).unwrap();
            prop_assert_eq!(&decoded, value);
            assignment::check(decoded.as_value_ref(), data_type, !nullable, "decoded").unwrap();
        }
        prop_assert!(rest.is_empty());
    }

    #[test]
    fn any_bytes_decode_to_a_value_with_that_encoding_or_to_an_error(
        (data_type, nullable) in (scalar_type(), any::<bool>()),
        bytes in prop::collection::vec(prop_oneof![any::<u8>(), 0..=1_u8, 254..=255_u8], 0..24),
    ) {
        let mut rest = bytes.as_slice();
        match decode_component(&mut rest, &data_type, nullable) {
            Ok(value) => {
                let taken = &bytes[..bytes.len() - rest.len()];
                let again = encode(&[(data_type, nullable)], &[value]);
                prop_assert_eq!(again.as_slice(), taken);
            }
            Err(error) => prop_assert!(matches!(error, Error::Malformed { .. }), "{}", error),
        }
    }

    #[test]
    fn a_cut_key_is_an_error((columns, row, _) in two_rows(), cut: prop::sample::Index) {
        let key = encode(&columns[..1], &row[..1]);
        let mut rest = &key[..cut.index(key.len())];
        prop_assert!(decode_component(&mut rest, &columns[0].0, columns[0].1).is_err());
    }

    #[test]
    fn the_end_of_a_prefix_is_above_all_keys_with_it_and_no_others(
        prefix in prop::collection::vec(254..=255_u8, 0..3),
        key in prop::collection::vec(prop_oneof![253..=255_u8, 0..=1_u8], 0..5),
    ) {
        let begins = key.starts_with(&prefix);
        let within = key >= prefix && prefix_end(&prefix).is_none_or(|end| key.as_slice() < end.as_slice());
        prop_assert_eq!(begins, within);
    }
}

/// The bytes of one not-null value.
fn bytes_of<'a>(value: impl Into<ValueRef<'a>>, data_type: &str) -> Vec<u8> {
    let mut key = EncodedKey::new();
    encode_component(&mut key, value.into(), &data_type.parse().unwrap(), false).unwrap();
    key.to_vec()
}

#[test]
fn the_format_is_the_documented_one() {
    assert_eq!(bytes_of(true, "bool"), [1]);
    assert_eq!(bytes_of(1, "int32"), [0x80, 0, 0, 1]);
    assert_eq!(bytes_of(-1, "int64"), [0x7F, 255, 255, 255, 255, 255, 255, 255]);
    assert_eq!(bytes_of(1.0, "float64"), [0xBF, 0xF0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes_of(-1.0, "float64"), [0x40, 0x0F, 255, 255, 255, 255, 255, 255]);
    assert_eq!(bytes_of(2, "decimal(18,1)"), [0x80, 0, 0, 0, 0, 0, 0, 20]);
    assert_eq!(bytes_of(2, "decimal(19,1)"), [0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 20]);
    assert_eq!(bytes_of("ab", "text"), [b'a', b'b', 0, 0]);
    assert_eq!(bytes_of(b"\0a\0", "bytes"), [0, 255, b'a', 0, 255, 0, 0]);
    assert_eq!(bytes_of(b"", "bytes"), [0, 0]);
    assert_eq!(bytes_of(Date::from_days(-1).unwrap(), "date"), [0x7F, 255, 255, 255]);
    assert_eq!(bytes_of(Uuid::from_bytes([7; 16]), "uuid"), [7; 16]);
    let mut nullable = EncodedKey::new();
    encode_component(&mut nullable, ValueRef::Null, &DataType::Bool, true).unwrap();
    encode_component(&mut nullable, ValueRef::Bool(false), &DataType::Bool, true).unwrap();
    assert_eq!(nullable.as_slice(), [0, 1, 0]);
}

#[test]
fn zeros_are_one_and_nans_are_one() {
    assert_eq!(bytes_of(-0.0, "float64"), bytes_of(0.0, "float64"));
    assert_eq!(bytes_of(-f64::NAN, "float64"), bytes_of(f64::NAN, "float64"));
    assert_eq!(bytes_of(f64::from_bits(0x7FF0_0000_0000_0001), "float64"), bytes_of(f64::NAN, "float64"));
    assert!(bytes_of(f64::NAN, "float64") > bytes_of(f64::INFINITY, "float64"));
    assert!(bytes_of(f64::NEG_INFINITY, "float64") < bytes_of(f64::MIN, "float64"));
}

#[test]
fn a_decimal_is_found_by_any_of_its_texts() {
    let exact: Decimal = "1.50".parse().unwrap();
    let short: Decimal = "1.5".parse().unwrap();
    assert_eq!(bytes_of(exact, "decimal(10,3)"), bytes_of(short, "decimal(10,3)"));
    assert_eq!(bytes_of(2, "decimal(10,3)"), bytes_of(Decimal::from(2), "decimal(10,3)"));
    assert_eq!(bytes_of(2, "float64"), bytes_of(2.0, "float64"));
}

#[test]
fn what_no_column_holds_is_no_key() {
    let encode = |value: ValueRef<'_>, data_type: &str| {
        encode_component(&mut EncodedKey::new(), value, &data_type.parse().unwrap(), false).unwrap_err()
    };
    assert!(matches!(encode(ValueRef::Null, "int64"), Error::NullValue { .. }));
    assert!(matches!(encode(ValueRef::Int(i64::MAX), "int32"), Error::Overflow { .. }));
    assert!(matches!(encode(ValueRef::Int(1000), "decimal(3,0)"), Error::Overflow { .. }));
    assert!(matches!(encode(ValueRef::Text("1"), "int64"), Error::WrongType { .. }));
    assert!(matches!(encode(ValueRef::Text("\0"), "text"), Error::InvalidValue { .. }));
    assert!(matches!(encode(ValueRef::Tuple(&[]), "ordered_tuple(int64)"), Error::WrongType { .. }));
    assert!(decode_component(&mut &[0; 16][..], &"ordered_tuple(int64)".parse().unwrap(), false).is_err());
}

#[test]
fn usual_keys_need_no_allocation() {
    let mut key = EncodedKey::new();
    for value in [i64::MIN, 0, i64::MAX] {
        encode_component(&mut key, ValueRef::Int(value), &DataType::Int64, true).unwrap();
    }
    encode_component(&mut key, ValueRef::Text("a customer's last name"), &DataType::Text, true).unwrap();
    assert!(key.is_in_place());
}

#[test]
fn a_prefix_has_an_end_unless_it_is_the_greatest() {
    assert_eq!(prefix_end(&[1, 2]).unwrap().as_slice(), [1, 3]);
    assert_eq!(prefix_end(&[1, 255]).unwrap().as_slice(), [2]);
    assert_eq!(prefix_end(&[255, 255]), None);
    assert_eq!(prefix_end(&[]), None);
}
