//! Decimals are exact: nothing is rounded, and what does not fit is an error.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use crate::types::strategies;

fn decimal(text: &str) -> Decimal {
    text.parse().unwrap()
}

const NINES: &str = "99999999999999999999999999999999999999";

fn any_decimal() -> impl Strategy<Value = Decimal> {
    (1..=Decimal::PRECISION_MAX, 0..=Decimal::PRECISION_MAX)
        .prop_flat_map(|(precision, scale)| strategies::decimal(precision, scale))
}

#[test]
fn texts_keep_their_digits() {
    for text in ["0", "-1", "0.00", "12.50", "-0.05", NINES, "-99999999999999999999.999999999999999999"] {
        assert_eq!(decimal(text).to_string(), text);
    }
    assert_eq!(decimal("+1.5").to_string(), "1.5");
    assert_eq!(decimal("007").to_string(), "7");
    assert_eq!(decimal(".5").to_string(), "0.5");
    assert_eq!(decimal("5.").to_string(), "5");
    assert_eq!(decimal("-0").to_string(), "0");
    assert_eq!(decimal("-0.0").to_string(), "0.0");
    assert_eq!((decimal("-12.50").unscaled(), decimal("-12.50").scale()), (-1250, 2));
}

#[test]
fn what_is_no_number_is_refused() {
    for text in ["", "-", ".", "+.", "1.2.3", "1e5", "0x1", "1 ", " 1", "NaN", "--1", "1,5", "١"] {
        assert!(matches!(text.parse::<Decimal>(), Err(Error::Unparsable { .. })), "{text:?}");
    }
}

#[test]
fn more_than_38_digits_are_refused() {
    let too_long = format!("1{}", "0".repeat(38));
    let too_fine = format!("0.{}1", "0".repeat(38));
    let very_long = "9".repeat(300);
    let very_fine = format!("0.{}", "0".repeat(300));
    for text in [&too_long, &too_fine, &very_long, &very_fine] {
        assert!(matches!(text.parse::<Decimal>(), Err(Error::Overflow { .. })), "{text}");
    }
    assert!(Decimal::new(10_i128.pow(38), 0).is_err());
    assert!(Decimal::new(-(10_i128.pow(38)), 0).is_err());
    assert!(Decimal::new(0, 39).is_err());
    assert!(Decimal::new(i128::MIN, 0).is_err());
}

#[test]
fn precision_counts_digits() {
    for (text, precision) in [("0", 1), ("9", 1), ("10", 2), ("-0.05", 1), ("99.99", 4), (NINES, 38)] {
        assert_eq!(decimal(text).precision(), precision, "{text}");
    }
}

#[test]
fn rescaling_adds_zeros_or_takes_them_away_and_nothing_else() {
    assert_eq!(decimal("1.5").rescale(3).unwrap().to_string(), "1.500");
    assert_eq!(decimal("1.500").rescale(1).unwrap().to_string(), "1.5");
    assert_eq!(decimal("-20.00").rescale(0).unwrap().to_string(), "-20");
    assert!(matches!(decimal("1.55").rescale(1), Err(Error::Inexact { .. })));
    assert!(matches!(decimal("-0.01").rescale(0), Err(Error::Inexact { .. })));
    assert!(matches!(decimal(NINES).rescale(1), Err(Error::Overflow { .. })));
    assert!(matches!(decimal("1").rescale(38), Err(Error::Overflow { .. })));
    assert!(decimal("0").rescale(38).is_ok());
    assert!(decimal("0").rescale(255).is_err());
}

#[test]
fn numbers_compare_by_value_across_scales() {
    let ascending = [
        format!("-{NINES}"),
        "-10.5".to_owned(),
        "-10.49".to_owned(),
        "-0.00000000000000000000000000000000000001".to_owned(),
        "0.000".to_owned(),
        "0.00000000000000000000000000000000000001".to_owned(),
        "1".to_owned(),
        "1.0000000000000000001".to_owned(),
        NINES.to_owned(),
    ];
    let numbers: Vec<Decimal> = ascending.iter().map(|text| decimal(text)).collect();
    for (left_position, left) in numbers.iter().enumerate() {
        for (right_position, right) in numbers.iter().enumerate() {
            assert_eq!(left.cmp(right), left_position.cmp(&right_position), "{left} and {right}");
        }
    }
}

#[test]
fn equal_numbers_are_one_in_a_set() {
    let set: HashSet<Decimal> = ["1.5", "1.50", "1.500", "0", "0.00", "-0.0"].map(decimal).into();
    assert_eq!(set.len(), 2);
}

#[test]
fn sums_differences_and_products_are_exact_or_an_error() {
    assert_eq!(decimal("0.1").checked_add(decimal("0.20")).unwrap().to_string(), "0.30");
    assert_eq!(decimal("1").checked_sub(decimal("0.001")).unwrap().to_string(), "0.999");
    assert_eq!(decimal("-1.5").checked_mul(decimal("0.25")).unwrap().to_string(), "-0.375");
    assert!(matches!(decimal(NINES).checked_add(decimal("1")), Err(Error::Overflow { .. })));
    assert!(matches!(decimal(NINES).checked_add(decimal(NINES)), Err(Error::Overflow { .. })));
    assert!(matches!(decimal(NINES).checked_add(decimal("0.1")), Err(Error::Overflow { .. })));
    assert!(matches!(decimal(NINES).checked_mul(decimal("2")), Err(Error::Overflow { .. })));
    let fine = decimal("0.0000000000000000000000001");
    assert!(matches!(fine.checked_mul(fine), Err(Error::Overflow { .. })));
}

#[test]
fn a_value_is_no_larger_for_holding_decimals() {
    assert_eq!(size_of::<Decimal>(), 24);
    assert!(size_of::<crate::ValueRef<'_>>() <= 32);
    assert!(size_of::<crate::Value>() <= 32);
}

proptest! {
    #[test]
    fn the_text_of_a_number_is_that_number(number in any_decimal()) {
        let again = decimal(&number.to_string());
        prop_assert_eq!(again, number);
        prop_assert_eq!(again.scale(), number.scale());
    }

    #[test]
    fn any_text_is_a_number_or_an_error(text in "[-+.0-9]{0,45}|.{0,10}") {
        let _ = text.parse::<Decimal>();
    }

    #[test]
    fn a_rescaled_number_is_equal(number in any_decimal(), scale in 0..=Decimal::PRECISION_MAX) {
        if let Ok(rescaled) = number.rescale(scale) {
            prop_assert_eq!(rescaled, number);
            prop_assert_eq!(rescaled.scale(), scale);
            prop_assert_eq!(rescaled.normalized(), number.normalized());
        }
    }

    #[test]
    fn order_is_that_of_the_differences(left in any_decimal(), right in any_decimal()) {
        prop_assert_eq!(left.cmp(&right), right.cmp(&left).reverse());
        prop_assert_eq!(left == right, left.normalized() == right.normalized());
        if let Ok(difference) = left.checked_sub(right) {
            prop_assert_eq!(left.cmp(&right), difference.unscaled().cmp(&0));
            prop_assert_eq!(difference.checked_add(right).unwrap_or(left), left);
        }
    }

    #[test]
    fn small_numbers_add_as_integers(left in -1000..1000_i64, right in -1000..1000_i64) {
        let (left_decimal, right_decimal) = (Decimal::from(left), Decimal::from(right));
        prop_assert_eq!(left_decimal.checked_add(right_decimal).unwrap(), Decimal::from(left + right));
        prop_assert_eq!(left_decimal.checked_mul(right_decimal).unwrap(), Decimal::from(left * right));
        prop_assert_eq!(left_decimal.cmp(&right_decimal), left.cmp(&right));
        prop_assert_eq!(-left_decimal, Decimal::from(-left));
    }
}

#[test]
fn operators_are_exact_and_panic_where_there_is_no_result() {
    let decimal = |text: &str| text.parse::<Decimal>().unwrap();
    let mut sum = decimal("19.90") + decimal("0.1") - decimal("1");
    sum *= decimal("-2.5");
    assert_eq!(sum.to_string(), "-47.500");
    assert_eq!([decimal("1.5"), decimal("2.25")].into_iter().sum::<Decimal>(), decimal("3.75"));
    let greatest = decimal(&"9".repeat(38));
    assert!(std::panic::catch_unwind(|| greatest + decimal("1")).is_err());
}

#[test]
fn quotients_are_rounded_to_the_nearest_and_halves_away_from_zero() {
    let divide = |left: &str, right: &str, scale| {
        left.parse::<Decimal>()
            .unwrap()
            .checked_div(right.parse().unwrap(), scale)
            .map(|quotient| quotient.to_string())
    };
    for (left, right, scale, expected) in [
        ("1", "3", 4, "0.3333"),
        ("2", "3", 0, "1"),
        ("1", "8", 2, "0.13"),
        ("-1", "8", 2, "-0.13"),
        ("1", "-8", 3, "-0.125"),
        ("10.00", "0.5", 0, "20"),
        ("0.0001", "1000", 2, "0.00"),
        ("99999999999999999999999999999999999999", "1", 0, "99999999999999999999999999999999999999"),
    ] {
        assert_eq!(divide(left, right, scale).unwrap(), expected, "{left} / {right}");
    }
    assert!(matches!(divide("1", "0.00", 2), Err(Error::DivisionByZero { .. })));
    assert!(matches!(
        divide("99999999999999999999999999999999999999", "0.1", 2),
        Err(Error::Overflow { .. })
    ));
}
