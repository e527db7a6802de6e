//! `to_char` of numbers.
//!
//! Invariant: a number that does not fit its template is shown as `#`.
//!
//! Source: PostgreSQL 15, `formatting.c`: `NUM_processor`, in its effects.

use super::definition::{Definition, FunctionContext, scalar};
use super::number_input::to_number;
use super::number_template::{Node, Template};
use crate::error::{Result, SqlError, SqlState};
use crate::interrupt;
use crate::types::Value;
use crate::types::numeric::Numeric;

/// The table.
pub(super) const FUNCTIONS: &[Definition] = &[
    scalar("to_char(int4, text) text", to_char).stable(),
    scalar("to_char(int8, text) text", to_char).stable(),
    scalar("to_char(numeric, text) text", to_char).stable(),
    scalar("to_char(float4, text) text", to_char).stable(),
    scalar("to_char(float8, text) text", to_char).stable(),
    scalar("to_number(text, text) numeric", to_number).stable(),
];

/// Text that takes the place of digits.
const NAN: &str = "NaN";

/// Maximum number of a float's digits after the point; zeros follow.
const MAX_FLOAT_DIGITS: usize = 1074;

fn number_of(value: &Value) -> Result<Numeric> {
    match value {
        Value::Numeric(number) => Ok(number.clone()),
        Value::Float4(number) => Numeric::from_f32(*number),
        Value::Float8(number) => Numeric::from_f64(*number),
        integer => Ok(Numeric::from(integer.any_int())),
    }
}

/// A number multiplied by as many tens as V says, in its own type: an `integer` wraps around, as in PostgreSQL.
fn shifted_by(shift: usize, value: &Value, number: &Numeric) -> Result<Numeric> {
    if let (Value::Int4(value), 1..) = (value, shift) {
        let factor = u32::try_from(shift).ok().and_then(|shift| 10_i32.checked_pow(shift));
        return Ok(Numeric::from(i64::from(value.wrapping_mul(factor.unwrap_or(i32::MIN)))));
    }
    let shifted =
        number.multiply(&Numeric::from(10i64).power(&Numeric::from(shift as i64))?.trim_scale()?)?;
    if matches!(value, Value::Int8(_)) {
        shifted.to_i64("bigint")?;
    }
    Ok(shifted)
}

fn to_char(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let template = Template::parse(v[1].str())?;
    let number = number_of(&v[0])?;
    if template.is_roman {
        if !matches!(v[0], Value::Float4(_) | Value::Float8(_)) {
            let whole = number.to_i64("integer")?;
            i32::try_from(whole).map_err(|_| super::arithmetic::out_of_range("integer"))?;
        }
        let number = match v[0] {
            Value::Float8(value) => Numeric::from_f64(value.round_ties_even())?,
            Value::Float4(value) => Numeric::from_f32(value.round_ties_even())?,
            _ => number,
        };
        return Ok(Value::text(roman(&template, &number)));
    }
    if template.is_exponential {
        return exponential(&template, &v[0], &number);
    }
    let float = match v[0] {
        Value::Float4(value) => Some((f64::from(value), 6)),
        Value::Float8(value) => Some((value, 15)),
        _ => None,
    };
    if number.is_nan() && template.before >= 3 {
        return Ok(Value::text(write(&template, false, Some(NAN), 0)?));
    }
    if !number.is_finite() {
        let behind = if matches!(v[0], Value::Float4(_)) { 0 } else { template.behind };
        return Ok(Value::text(write(&template, number.is_negative(), None, behind)?));
    }
    let rounded = shifted_by(template.shift, &v[0], &number)?.round(template.behind as i32)?;
    // Floats are rounded as C's printf does it: exact halves to even.
    let text = match float {
        Some((value, _)) => {
            let tens = template.shift as f64;
            let value = match v[0] {
                Value::Float4(value) => f64::from(value * 10_f64.powf(tens) as f32),
                _ => value * 10_f64.powf(tens),
            };
            format!("{:.*}", template.behind.min(MAX_FLOAT_DIGITS), value.abs())
        }
        None => rounded.abs().to_string(),
    };
    let is_negative = float.map_or(rounded.is_negative(), |(value, _)| value.is_sign_negative());
    // A float shows no more digits than it has.
    let whole_digits = text.split('.').next().map_or(0, str::len);
    let behind =
        float.map_or(template.behind, |(_, digits)| template.behind.min(digits - whole_digits.min(digits)));
    Ok(Value::text(write(&template, is_negative, Some(&text), behind)?))
}

/// Writes digits into a template; none where the number has no digits. `NaN` ends at the point, and has no ordinal ending.
fn write(template: &Template, is_negative: bool, text: Option<&str>, behind_max: usize) -> Result<String> {
    let mut writer = Writer::new(template, is_negative, text, behind_max);
    for node in &template.nodes {
        interrupt::step()?;
        match node {
            Node::Point if text == Some(NAN) => return Ok(writer.out),
            Node::Ordinal(_) if text == Some(NAN) => return Err(no_number(NAN)),
            _ => writer.push(node),
        }
    }
    if template.has_brackets {
        match (is_negative, template.is_filled) {
            (true, _) => writer.out.push('>'),
            (false, false) => writer.out.push(' '),
            (false, true) => {}
        }
    }
    Ok(writer.out)
}

fn no_number(text: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, format!("\"{text}\" is not a number"))
}

/// A template that is being filled.
struct Writer<'a> {
    template: &'a Template,
    is_negative: bool,
    whole: &'a str,
    fraction: &'a str,
    is_overflow: bool,
    /// The place of the number's first digit, and that from which on something is printed for every digit.
    first_digit: usize,
    start: usize,
    shown_fraction: usize,
    behind_max: usize,
    leading_sign: bool,
    sign: String,
    /// True if the sign is already printed, or printed elsewhere.
    is_anchored: bool,
    place: usize,
    behind: usize,
    is_behind: bool,
    out: String,
}

impl<'a> Writer<'a> {
    fn new(
        template: &'a Template,
        is_negative: bool,
        text: Option<&'a str>,
        behind_max: usize,
    ) -> Writer<'a> {
        let (whole, fraction) = text.map_or(("", ""), |text| text.split_once('.').unwrap_or((text, "")));
        let whole = if whole == "0" && template.behind > 0 { "" } else { whole };
        let first_digit = template.before.saturating_sub(whole.len());
        let shown_fraction = match template.is_filled {
            true => fraction.trim_end_matches('0').len().max(template.last_zero),
            false => template.behind,
        };
        let has_sign = template.has_sign;
        let leading_sign = has_sign && template.sign_is_leading();
        let is_elsewhere =
            template.has(&[Node::SignAlways, Node::Minus]) && !template.has_brackets && !has_sign;
        Writer {
            template,
            is_negative,
            whole,
            fraction,
            // A number has a digit before its point.
            is_overflow: text.is_none()
                || whole.len().max(usize::from(template.behind > 0)) > template.before,
            first_digit,
            start: first_digit.min(template.first_zero.unwrap_or(template.before)),
            shown_fraction,
            behind_max,
            leading_sign,
            sign: anchored_sign(template, is_negative, leading_sign),
            is_anchored: is_elsewhere || has_sign && !leading_sign,
            place: 0,
            behind: 0,
            is_behind: false,
            out: String::new(),
        }
    }

    fn anchor(&mut self) {
        if !self.is_anchored {
            self.out.push_str(&self.sign);
            self.is_anchored = true;
        }
    }

    fn push(&mut self, node: &Node) {
        let (is_negative, is_filled) = (self.is_negative, self.template.is_filled);
        match node {
            Node::Nine | Node::Zero if self.is_behind => self.digit_behind(),
            Node::Nine | Node::Zero => self.digit_before(),
            Node::Point => {
                self.anchor();
                if self.template.behind > 0 || self.is_overflow {
                    self.out.push('.');
                }
                self.is_behind = true;
            }
            Node::Comma | Node::Group
                if self.is_behind || self.place > self.start || self.is_overflow && self.place > 0 =>
            {
                self.out.push(',');
            }
            Node::Comma | Node::Group if !is_filled => self.out.push(' '),
            Node::Comma | Node::Group | Node::Shift | Node::Roman(_) => {}
            Node::Currency => self.out.push(' '),
            Node::Sign if self.leading_sign => {}
            Node::Sign | Node::SignAlways => self.out.push(if is_negative { '-' } else { '+' }),
            Node::Minus if is_negative => self.out.push('-'),
            Node::Plus if !is_negative => self.out.push('+'),
            Node::Minus | Node::Plus if !is_filled => self.out.push(' '),
            Node::Minus | Node::Plus => {}
            Node::Ordinal(is_upper) if !is_negative && self.template.behind == 0 && !self.is_overflow => {
                self.out.push_str(ending(self.whole, *is_upper));
            }
            Node::Ordinal(_) => {}
            Node::Text(text) => self.out.push_str(text),
        }
    }

    fn digit_behind(&mut self) {
        let at = self.behind;
        let digit = if self.is_overflow { "#" } else { self.fraction.get(at..at + 1).unwrap_or("0") };
        if at < self.behind_max && (at < self.shown_fraction || self.is_overflow) {
            self.out.push_str(digit);
        }
        self.behind += 1;
    }

    /// Zero under FM shows the digit before the point, as nothing follows it.
    fn is_bare_zero(&self) -> bool {
        self.template.is_filled
            && self.template.behind > 0
            && self.whole.is_empty()
            && self.shown_fraction == 0
            && self.template.first_zero.is_none()
    }

    fn digit_before(&mut self) {
        let is_printed = self.place >= self.start || self.is_overflow;
        if is_printed {
            self.anchor();
        }
        if self.is_overflow {
            self.out.push('#');
        } else if self.place + 1 == self.template.before && self.is_bare_zero() {
            self.anchor();
            self.out.push('0');
        } else if self.place >= self.first_digit {
            let at = self.place - self.first_digit;
            self.out.push_str(&self.whole[at..=at]);
        } else if is_printed {
            self.out.push('0');
        } else if !self.template.is_filled {
            self.out.push(' ');
        }
        self.place += 1;
    }
}

/// The sign before the first digit.
fn anchored_sign(template: &Template, is_negative: bool, leading_sign: bool) -> String {
    let sign = match (template.has_brackets, leading_sign, is_negative) {
        (true, _, true) => "<",
        (_, true, false) => "+",
        (_, _, true) => "-",
        _ if template.is_filled => "",
        _ => " ",
    };
    sign.to_string()
}

fn ending(digits: &str, is_upper: bool) -> &'static str {
    let bytes = digits.as_bytes();
    let is_teen = bytes.len() > 1 && bytes[bytes.len() - 2] == b'1';
    let (upper, lower) = match bytes.last() {
        Some(b'1') if !is_teen => ("ST", "st"),
        Some(b'2') if !is_teen => ("ND", "nd"),
        Some(b'3') if !is_teen => ("RD", "rd"),
        _ => ("TH", "th"),
    };
    if is_upper { upper } else { lower }
}

/// `1.23e+05`: of numeric and bigint the mantissa is rounded as it is, so that 99.9 is `10.0e+01`.
fn exponential(template: &Template, value: &Value, number: &Numeric) -> Result<Value> {
    if !number.is_finite() {
        let (before, behind) = ("#".repeat(template.before), "#".repeat(template.behind));
        return Ok(Value::text(format!(" {before}.{behind}####")));
    }
    let float = match value {
        Value::Float4(number) => Some(f64::from(*number)),
        Value::Float8(number) => Some(*number),
        Value::Int4(number) => Some(f64::from(*number)),
        _ => None,
    };
    let (mantissa, exponent) = match float {
        Some(number) => {
            let shown = template.behind.min(MAX_FLOAT_DIGITS);
            let text = format!("{:.*e}", shown, number.abs());
            let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            let zeros = "0".repeat(template.behind - shown);
            (mantissa.to_string() + &zeros, exponent.parse().unwrap_or(0))
        }
        None => {
            let (coefficient, scale) = number.abs().parts().unwrap_or_default();
            let digits = coefficient.to_string();
            let exponent = if number.is_zero() { 0 } else { digits.len() as i64 - 1 - i64::from(scale) };
            let mantissa: Numeric = match number.is_zero() {
                true => Numeric::ZERO,
                false => format!("{}.{}", &digits[..1], &digits[1..]).trim_end_matches('.').parse()?,
            };
            (mantissa.round(template.behind as i32)?.to_string(), exponent)
        }
    };
    let is_negative = float.map_or(number.is_negative(), f64::is_sign_negative);
    let sign = if is_negative { '-' } else { ' ' };
    let exponent_sign = if exponent < 0 { '-' } else { '+' };
    Ok(Value::text(format!("{sign}{mantissa}e{exponent_sign}{:02}", exponent.abs())))
}

/// 1 to 3999 in Roman digits, right-aligned in 15 columns.
fn roman(template: &Template, number: &Numeric) -> String {
    const DIGITS: [(i64, &str); 13] = [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    let value = number.to_i64("integer").ok().filter(|value| (1..4000).contains(value));
    let Some(mut left) = value else { return "#".repeat(15) };
    let mut text = String::new();
    for (worth, digits) in DIGITS {
        while left >= worth {
            text.push_str(digits);
            left -= worth;
        }
    }
    if template.has(&[Node::Roman(false)]) {
        text = text.to_lowercase();
    }
    if template.is_filled { text } else { format!("{text:>15}") }
}
