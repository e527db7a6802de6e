//! Values compare in one order, convert both ways, and print as `psql` prints them.

use proptest::prelude::*;

use super::*;
use crate::row;
use crate::types::Value;
use crate::types::strategies::{data_type, float, nullable_value, scalar_type};

fn text<'a>(value: impl Into<ValueRef<'a>>) -> String {
    value.into().to_string()
}

#[test]
fn values_print_as_psql_prints_them() {
    assert_eq!(text(ValueRef::Null), "");
    assert_eq!((text(true), text(false)), ("t".to_owned(), "f".to_owned()));
    assert_eq!(text(-7), "-7");
    assert_eq!(text("1.50".parse::<Decimal>().unwrap()), "1.50");
    assert_eq!(text("a \"b\"\n"), "a \"b\"\n");
    assert_eq!(text(&[0_u8, 0xAB]), "\\x00ab");
    assert_eq!(text("2024-02-29".parse::<Date>().unwrap()), "2024-02-29");
    assert_eq!(text("2024-02-29 12:00+02".parse::<Timestamp>().unwrap()), "2024-02-29T10:00:00Z");
    assert_eq!(text(Uuid::from_bytes([0; 16])), "00000000-0000-0000-0000-000000000000");
    assert_eq!(text(ValueRef::Tuple(&[1, 2])), "\\x0102");
}

#[test]
fn floats_print_as_short_as_possible() {
    for (float, expected) in [
        (0.0, "0"),
        (-0.0, "-0"),
        (1.0, "1"),
        (0.1, "0.1"),
        (-1.5, "-1.5"),
        (100000000000000.0, "100000000000000"),
        (1e15, "1e+15"),
        (1.5e300, "1.5e+300"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (5e-324, "5e-324"),
        (f64::NAN, "NaN"),
        (f64::INFINITY, "Infinity"),
        (f64::NEG_INFINITY, "-Infinity"),
    ] {
        assert_eq!(text(float), expected);
    }
}

#[test]
fn null_is_below_everything_and_kinds_do_not_mix() {
    let values =
        row![true, 1, 1.0, Decimal::from(1), "1", b"1", Date::MIN, Timestamp::MIN, Uuid::from_bytes([1; 16])];
    for (position, value) in values.iter().enumerate() {
        assert_eq!(ValueRef::Null.partial_cmp(value), Some(Ordering::Less));
        assert_eq!(value.partial_cmp(&ValueRef::Null), Some(Ordering::Greater));
        for (other_position, other) in values.iter().enumerate() {
            assert_eq!(value.partial_cmp(other).is_some(), position == other_position, "{value:?} {other:?}");
        }
    }
    assert_eq!(ValueRef::Null, ValueRef::Null);
}

#[test]
fn sets_are_equal_or_not_ordered() {
    let (one, other) = (ValueRef::TopK(&[1]), ValueRef::TopK(&[2]));
    assert_eq!(one, one);
    assert_ne!(one, other);
    assert_eq!(one.partial_cmp(&other), None);
}

#[test]
fn floats_have_one_order() {
    assert_eq!(ValueRef::Float(0.0), ValueRef::Float(-0.0));
    assert_eq!(ValueRef::Float(f64::NAN), ValueRef::Float(-f64::NAN));
    let ascending =
        [f64::NEG_INFINITY, f64::MIN, -1.0, -5e-324, 0.0, 5e-324, 1.0, f64::MAX, f64::INFINITY, f64::NAN];
    assert!(ascending.is_sorted_by(|left, right| ValueRef::Float(*left) < ValueRef::Float(*right)));
}

#[test]
fn options_are_values_or_null() {
    assert_eq!(ValueRef::from(Some("a")), ValueRef::Text("a"));
    assert_eq!(ValueRef::from(None::<&str>), ValueRef::Null);
    assert_eq!(Value::from(Some(1)), ValueRef::Int(1));
    assert!(Value::from(None::<String>).is_null());
    assert_eq!(Value::default(), Value::Null);
}

#[test]
fn owned_and_borrowed_sources_make_the_same_value() {
    let name = "name".to_owned();
    assert_eq!(Value::from(&name), Value::from(name.clone()));
    assert_eq!(Value::from(name.as_str()), ValueRef::from(&name));
    let bytes = vec![1_u8, 2];
    assert_eq!(Value::from(&bytes), Value::from(bytes.clone()));
    assert_eq!(Value::from(&bytes[..]), ValueRef::from(&[1_u8, 2]));
    assert_eq!(Value::from(u32::MAX), Value::from(i64::from(u32::MAX)));
}

proptest! {
    #[test]
    fn a_value_is_equal_to_its_borrowed_and_owned_self(
        value in data_type().prop_flat_map(|data_type| nullable_value(&data_type))
    ) {
        prop_assert_eq!(&Value::from(&value), &value);
        prop_assert_eq!(value.as_value_ref().to_value(), value.clone());
        prop_assert_eq!(ValueRef::from(&value), value.clone());
        prop_assert_eq!(value.to_string(), value.as_value_ref().to_string());
        prop_assert_eq!(value.is_null(), value.as_value_ref().is_null());
    }

    #[test]
    fn the_order_is_total_within_a_type(
        (left, middle, right) in scalar_type().prop_flat_map(|data_type| {
            (nullable_value(&data_type), nullable_value(&data_type), nullable_value(&data_type))
        })
    ) {
        let (left, middle, right) = (left.as_value_ref(), middle.as_value_ref(), right.as_value_ref());
        let ordering = left.partial_cmp(&middle).unwrap();
        prop_assert_eq!(middle.partial_cmp(&left).unwrap(), ordering.reverse());
        prop_assert_eq!(ordering.is_eq(), left == middle);
        if left <= middle && middle <= right {
            prop_assert!(left <= right);
        }
    }

    #[test]
    fn the_text_of_a_float_reads_back_as_that_float(float in float()) {
        let again: f64 = text(float).replace("Infinity", "inf").parse().unwrap();
        prop_assert_eq!(ValueRef::Float(again), ValueRef::Float(float));
    }
}
