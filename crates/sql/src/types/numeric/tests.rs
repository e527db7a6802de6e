//! `numeric` by its text forms; the comparison with PostgreSQL itself is in `tests/oracle.rs`.

use super::*;
use crate::interrupt::Interrupt;
use crate::types::Modifier;
use proptest::prelude::*;

fn n(text: &str) -> Numeric {
    text.parse().unwrap()
}

#[test]
fn text_forms_keep_their_scale() {
    for (text, printed) in [
        ("1.50", "1.50"),
        ("-0.00", "0.00"),
        ("  12e3 ", "12000"),
        ("1.5e-3", "0.0015"),
        (".5", "0.5"),
        ("5.", "5"),
        ("nan", "NaN"),
        ("-inf", "-Infinity"),
        ("123456789012345678901234567890.12", "123456789012345678901234567890.12"),
    ] {
        assert_eq!(n(text).to_string(), printed);
    }
    for text in ["", ".", "1e", "1 2", "+nan", "0x1", "--1"] {
        assert_eq!(text.parse::<Numeric>().unwrap_err().state().as_str(), "22P02", "{text}");
    }
    assert_eq!("1e131072".parse::<Numeric>().unwrap_err().state().as_str(), "22003");
}

#[test]
fn quotients_have_postgresqls_scale() {
    for (left, right, quotient) in [
        ("1", "3", "0.33333333333333333333"),
        ("10", "3", "3.3333333333333333"),
        ("1.0", "3", "0.33333333333333333333"),
        ("100000", "7", "14285.714285714286"),
        ("2", "3", "0.66666666666666666667"),
        ("-2", "3", "-0.66666666666666666667"),
        ("0", "3", "0.00000000000000000000"),
    ] {
        assert_eq!(n(left).divide(&n(right)).unwrap().to_string(), quotient, "{left} / {right}");
    }
    assert_eq!(n("1").divide(&n("0")).unwrap_err().state().as_str(), "22012");
}

#[test]
fn functions_have_postgresqls_scale() {
    assert_eq!(n("2").sqrt().unwrap().to_string(), "1.414213562373095");
    assert_eq!(n("1").exp().unwrap().to_string(), "2.7182818284590452");
    assert_eq!(n("2").ln().unwrap().to_string(), "0.6931471805599453");
    assert_eq!(Numeric::log(&n("10"), &n("100")).unwrap().to_string(), "2.0000000000000000");
    assert_eq!(n("2").power(&n("0.5")).unwrap().to_string(), "1.4142135623730950");
    assert_eq!(n("2").power(&n("10")).unwrap().to_string(), "1024.0000000000000000");
}

/// PostgreSQL 15's lengths, first and last digits.
#[test]
fn long_powers_have_all_their_digits() {
    for (base, exponent, length, first, last) in [
        ("7", "120000", 101_429, "581837503080632289909267454227", "8153672000001.0000000000000000"),
        ("2.5", "300000", 119_400, "100600840987339098435996487913", "2810552525448.2594089207026756"),
        ("-3", "200001", 95_443, "-53464460304369544409867230640", "1193132000003.0000000000000000"),
        ("1.0000001", "1000000000", 61, "268810370126492381050560030147", "5037465638377.7515747256270721"),
        (
            "12345678901234567890.123",
            "3000",
            57_292,
            "350696666763535942442910892334",
            "8982025893894.6113902429624925",
        ),
        ("1.00000000000000000001", "1e21", 26, "22026.46579480671651585658", "22026.46579480671651585658"),
        (
            "1.5",
            "0.3333333333333333333333333333333333333333",
            42,
            "1.1447142425533318678080422119",
            "533318678080422119396770089159",
        ),
        ("0.5", "1000000", 18, "0.0000000000000000", "0.0000000000000000"),
        ("0.9999", "1000000", 18, "0.0000000000000000", "0.0000000000000000"),
        ("1.5", "-2000", 18, "0.0000000000000000", "0.0000000000000000"),
    ] {
        let power = n(base).power(&n(exponent)).unwrap().to_string();
        assert_eq!(power.len(), length, "{base} ^ {exponent}");
        assert!(power.starts_with(first) && power.ends_with(last), "{base} ^ {exponent}: {power:.40}");
    }
    for (base, exponent) in [("1.1", "3333333.5"), ("99999", "2147483647"), ("99999", "30000.5")] {
        assert_eq!(n(base).power(&n(exponent)).unwrap_err().state().as_str(), "22003");
    }
    assert_eq!(n("1e100").gcd(&n("-6")).unwrap().to_string(), "2");
    assert_eq!(n("0").lcm(&n("0")).unwrap().to_string(), "0");
    assert_eq!(n("-4").lcm(&n("6.0")).unwrap().to_string(), "12.0");
}

#[test]
fn rounding_is_away_from_zero_and_works_before_the_point() {
    assert_eq!(n("2.5").round(0).unwrap().to_string(), "3");
    assert_eq!(n("-2.5").round(0).unwrap().to_string(), "-3");
    assert_eq!(n("1550").round(-2).unwrap().to_string(), "1600");
    assert_eq!(n("1599").truncate(-2).unwrap().to_string(), "1500");
    assert_eq!(n("-1.5").floor().unwrap().to_string(), "-2");
    assert_eq!(n("-1.5").ceil().unwrap().to_string(), "-1");
}

#[test]
fn modifiers_round_and_refuse() {
    assert_eq!(n("123.456").with_modifier(Modifier::numeric(5, 2)).unwrap().to_string(), "123.46");
    let error = n("999.999").with_modifier(Modifier::numeric(5, 2)).unwrap_err();
    assert_eq!(error.state().as_str(), "22003");
    assert!(error.detail().unwrap().contains("10^3"));
    assert!(Numeric::Infinity.with_modifier(Modifier::numeric(5, 2)).is_err());
    assert!(Numeric::NaN.with_modifier(Modifier::numeric(5, 2)).unwrap().is_nan());
}

#[test]
fn order_puts_nan_above_infinity() {
    let mut numbers =
        [Numeric::NaN, n("1"), Numeric::Infinity, n("-1e30"), Numeric::NegativeInfinity, n("0.5")];
    numbers.sort();
    let printed: Vec<_> = numbers.iter().map(ToString::to_string).collect();
    assert_eq!(printed, ["-Infinity", "-1000000000000000000000000000000", "0.5", "1", "Infinity", "NaN"]);
}

#[test]
fn special_values_combine_as_in_postgresql() {
    assert!(Numeric::Infinity.add(&Numeric::NegativeInfinity).unwrap().is_nan());
    assert!(Numeric::Infinity.multiply(&n("0")).unwrap().is_nan());
    assert_eq!(Numeric::Infinity.multiply(&n("-2")).unwrap(), Numeric::NegativeInfinity);
    assert_eq!(n("5").divide(&Numeric::Infinity).unwrap(), n("0"));
    assert_eq!(Numeric::NaN.to_i64("integer").unwrap_err().state().as_str(), "0A000");
}

#[test]
fn an_interrupted_operation_fails_or_has_its_result() {
    let digits = "7".repeat(2000);
    let (number, negative, scaled) = (n(&digits), n(&format!("-{digits}")), n(&format!("{digits}.500")));
    let canceled = Interrupt::new();
    canceled.cancel();
    let _entered = interrupt::enter(Some(canceled));
    assert_eq!(number.negate(), negative);
    assert_eq!(negative.abs(), number);
    assert_eq!(n(&digits), number);
    assert_eq!(Numeric::from_binary(&number.to_binary()).unwrap(), number);
    for (call, result) in [
        ("add", number.add(&number)),
        ("subtract", number.subtract(&negative)),
        ("multiply", number.multiply(&number)),
        ("divide", number.divide(&n("7"))),
        ("divide_whole", number.divide_whole(&n("7"))),
        ("remainder", number.remainder(&n(&"8".repeat(2000)))),
        ("floor", scaled.floor()),
        ("ceil", scaled.ceil()),
        ("round", scaled.round(1)),
        ("trim_scale", scaled.trim_scale()),
        ("sqrt", n(&"7".repeat(4000)).sqrt()),
        ("exp", n("2000").exp().and_then(|power| power.multiply(&number))),
        ("power", number.negate().power(&n("3"))),
        ("factorial", Numeric::factorial(2000)),
        ("polled", number.clone().polled()),
    ] {
        assert_eq!(result.map_err(|error| error.state()), Err(SqlState::QUERY_CANCELED), "{call}");
    }
}

#[test]
fn the_lowest_coefficient_is_negated_and_back() {
    let lowest = Numeric::Small { coefficient: i64::MIN, scale: 2 };
    assert_eq!(lowest.negate().to_string(), "92233720368547758.08");
    assert!(matches!(lowest.negate().negate(), Numeric::Small { coefficient: i64::MIN, scale: 2 }));
}

proptest! {
    #[test]
    fn the_binary_format_leads_back(coefficient in any::<i128>(), scale in 0..60i32) {
        let number = Numeric::from_wide(coefficient, scale).unwrap();
        let back = Numeric::from_binary(&number.to_binary()).unwrap();
        prop_assert_eq!(back.to_string(), number.to_string());
    }

    #[test]
    fn sums_and_products_agree_with_wide_integers(left in any::<i64>(), right in any::<i64>()) {
        let (a, b) = (Numeric::from(left), Numeric::from(right));
        prop_assert_eq!(a.add(&b).unwrap().to_string(), (i128::from(left) + i128::from(right)).to_string());
        prop_assert_eq!(a.multiply(&b).unwrap().to_string(), (i128::from(left) * i128::from(right)).to_string());
    }

    #[test]
    fn the_square_of_a_root_is_near(value in 1..u32::MAX) {
        let number = Numeric::from(i64::from(value));
        let root = number.sqrt().unwrap();
        let error = root.multiply(&root).unwrap().subtract(&number).unwrap().abs();
        prop_assert!(error < n("0.0001"));
    }

    #[test]
    fn any_text_is_parsed_or_refused(text in "[-+0-9.eE a-z]{0,20}") {
        let _ = text.parse::<Numeric>();
    }
}
