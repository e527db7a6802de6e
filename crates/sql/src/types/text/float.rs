//! Floats as text: the shortest decimal form that reads back as the same float, as PostgreSQL prints it.

use num_bigint::BigUint;

use crate::error::{Result, SqlError, SqlState};

use super::invalid_syntax;

/// Digits and exponent from which on a `double precision` is printed with an exponent.
const FLOAT8_FIXED_DIGITS: i32 = 15;
/// Digits and exponent from which on a `real` is printed with an exponent.
const FLOAT4_FIXED_DIGITS: i32 = 6;

/// A `double precision` as text.
pub fn float8_text(value: f64, extra_digits: i32) -> String {
    match special(value) {
        Some(text) => text.to_string(),
        None if extra_digits > 0 => arrange(&shortest_double(value), FLOAT8_FIXED_DIGITS),
        None => format_significant(value, (15 + extra_digits).max(1) as usize),
    }
}

/// A `real` as text.
pub fn float4_text(value: f32, extra_digits: i32) -> String {
    match special(f64::from(value)) {
        Some(text) => text.to_string(),
        None if extra_digits > 0 => arrange(&shortest_real(value), FLOAT4_FIXED_DIGITS),
        None => format_significant(f64::from(value), (6 + extra_digits).max(1) as usize),
    }
}

/// The shortest digits that are strictly between the neighbors' midpoints. Rust also accepts a midpoint itself where it
/// reads back as the same float; PostgreSQL does not.
fn shortest_real(value: f32) -> String {
    let shortest = format!("{value:e}");
    let is_midpoint = |text: &str| {
        // Texts of nine digits and midpoints of reals are exact in 64 bits.
        let exact = text.parse::<f64>().unwrap_or(f64::NAN).abs();
        let magnitude = value.abs();
        let middle = |other: f32| (f64::from(magnitude) + f64::from(other)) / 2.0;
        exact == middle(magnitude.next_up()) || exact == middle(magnitude.next_down())
    };
    if !is_midpoint(&shortest) {
        return shortest;
    }
    (0..9)
        .map(|digits| format!("{value:.digits$e}"))
        .find(|text| text.parse() == Ok(value) && !is_midpoint(text))
        .unwrap_or(shortest)
}

/// The shortest such digits of a double; only whole numbers beyond 2^53 can be midpoints with so few digits.
fn shortest_double(value: f64) -> String {
    let shortest = format!("{value:e}");
    if value.abs() < 9_007_199_254_740_992.0 {
        return shortest;
    }
    let is_midpoint = |text: &str| {
        let exact = whole_number(text);
        let magnitude = whole_number(&format!("{:.400e}", value.abs()));
        let twice = exact.map(|exact| exact * 2u8);
        let middle = |other: f64| Some(whole_number(&format!("{other:.400e}"))? + magnitude.clone()?);
        twice == middle(value.abs().next_up()) || twice == middle(value.abs().next_down())
    };
    if !is_midpoint(&shortest) {
        return shortest;
    }
    (0..17)
        .map(|digits| format!("{value:.digits$e}"))
        .find(|text| text.parse() == Ok(value) && !is_midpoint(text))
        .unwrap_or(shortest)
}

/// The magnitude of a whole number in scientific form; none if it is not whole.
fn whole_number(text: &str) -> Option<BigUint> {
    let (mantissa, exponent) = text.trim_start_matches('-').split_once('e')?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let fraction = fraction.trim_end_matches('0');
    let shift = exponent.parse::<i64>().ok()? - fraction.len() as i64;
    let digits = BigUint::parse_bytes(format!("{whole}{fraction}").as_bytes(), 10)?;
    Some(digits * BigUint::from(10u8).pow(u32::try_from(shift).ok()?))
}

fn special(value: f64) -> Option<&'static str> {
    if value.is_nan() {
        Some("NaN")
    } else if value == f64::INFINITY {
        Some("Infinity")
    } else if value == f64::NEG_INFINITY {
        Some("-Infinity")
    } else {
        None
    }
}

/// C's `%.*g`.
pub fn format_significant(value: f64, digits: usize) -> String {
    if value == 0.0 {
        return if value.is_sign_negative() { "-0".to_string() } else { "0".to_string() };
    }
    let precision = digits.max(1) - 1;
    let scientific = format!("{value:.precision$e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let trimmed =
        if mantissa.contains('.') { mantissa.trim_end_matches('0').trim_end_matches('.') } else { mantissa };
    arrange(&format!("{trimmed}e{exponent}"), digits as i32)
}

/// `1.25e7` as `12500000`, or as `1.25e+07` where the exponent is below -4 or at least `fixed_digits`.
fn arrange(scientific: &str, fixed_digits: i32) -> String {
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    if exponent < -4 || exponent >= fixed_digits {
        let exponent_sign = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{mantissa}e{exponent_sign}{:02}", exponent.abs());
    }
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    if exponent < 0 {
        let zeros = "0".repeat((-exponent - 1) as usize);
        return format!("{sign}0.{zeros}{digits}");
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        format!("{sign}{digits}{}", "0".repeat(whole - digits.len()))
    } else {
        format!("{sign}{}.{}", &digits[..whole], &digits[whole..])
    }
}

/// A text as a `double precision`.
pub fn parse_float8(text: &str) -> Result<f64> {
    parse(
        text,
        "double precision",
        |body| body.parse::<f64>().ok(),
        |value| *value == 0.0,
        |v| v.is_infinite(),
    )
}

/// A text as a `real`.
pub fn parse_float4(text: &str) -> Result<f32> {
    parse(text, "real", |body| body.parse::<f32>().ok(), |value| *value == 0.0, |v| v.is_infinite())
}

fn parse<T>(
    text: &str,
    kind: &str,
    read: impl Fn(&str) -> Option<T>,
    is_zero: impl Fn(&T) -> bool,
    is_infinite: impl Fn(&T) -> bool,
) -> Result<T> {
    let body = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
    let unsigned = body.strip_prefix(['+', '-']).unwrap_or(body);
    let is_word = ["inf", "infinity", "nan"].iter().any(|word| unsigned.eq_ignore_ascii_case(word));
    let looks_numeric = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    if !is_word && !looks_numeric {
        return Err(invalid_syntax(kind, text));
    }
    let value = read(body).ok_or_else(|| invalid_syntax(kind, text))?;
    let mantissa = unsigned.split(['e', 'E']).next().unwrap_or(unsigned);
    let underflows =
        is_zero(&value) && !is_word && mantissa.bytes().any(|byte| (b'1'..=b'9').contains(&byte));
    if !is_word && (is_infinite(&value) || underflows) {
        let message = format!("\"{body}\" is out of range for type {kind}");
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_print_as_in_postgresql() {
        for (value, text) in [
            (0.1, "0.1"),
            (1e15, "1e+15"),
            (123_456_789_012_345.0, "123456789012345"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (-0.0, "-0"),
            (1.0 / 3.0, "0.3333333333333333"),
            (f64::INFINITY, "Infinity"),
            (2.5e300, "2.5e+300"),
            (1e23, "9.999999999999999e+22"),
        ] {
            assert_eq!(float8_text(value, 1), text);
        }
        assert_eq!(float4_text(3e10, 1), "3.0000001e+10");
        assert_eq!(float4_text(1e6, 1), "1e+06");
        assert_eq!(float4_text(123_456.0, 1), "123456");
        assert_eq!(float8_text(1.0 / 3.0, 0), "0.333333333333333");
    }

    #[test]
    fn floats_out_of_range_are_refused() {
        assert_eq!(parse_float8("1e400").unwrap_err().state().as_str(), "22003");
        assert_eq!(parse_float8("1e-400").unwrap_err().state().as_str(), "22003");
        assert_eq!(parse_float8("0e-400").unwrap(), 0.0);
        assert_eq!(parse_float8("x").unwrap_err().state().as_str(), "22P02");
        assert!(parse_float8(" nan ").unwrap().is_nan());
        assert_eq!(parse_float4("-inf").unwrap(), f32::NEG_INFINITY);
    }
}
