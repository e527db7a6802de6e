//! `to_char` of numbers and `to_number`.
//!
//! Invariant: a number that does not fit its template is shown as `#`; `to_number` reads the digits that stand where the
//! template has digits.
//!
//! Source: PostgreSQL 15, `formatting.c`: `NUM_processor`, in its effects.

use super::definition::{Definition, FunctionContext, scalar};
use crate::error::{Result, SqlError, SqlState};
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

/// A part of a template.
#[derive(Clone, Debug, PartialEq)]
enum Node {
    /// `9`
    Nine,
    /// `0`
    Zero,
    /// `.` or `D`
    Point,
    /// `,` or `G`
    Group,
    /// `S`
    Sign,
    /// `SG`
    SignAlways,
    /// `MI`
    Minus,
    /// `PL`
    Plus,
    /// `TH` or `th`
    Ordinal(bool),
    /// `V`
    Shift,
    /// `RN` or `rn`
    Roman(bool),
    /// Text that stands for itself, `L` among it: the currency sign is a blank.
    Text(String),
}

/// A template, and what its parts mean together.
#[derive(Default)]
struct Template {
    nodes: Vec<Node>,
    is_filled: bool,
    has_brackets: bool,
    is_exponential: bool,
    /// Digits before and behind the point, and those that V shifts by.
    before: usize,
    behind: usize,
    shift: usize,
    /// The first digit before the point that is a zero.
    first_zero: Option<usize>,
    /// The last zero behind the point.
    last_zero: usize,
}

fn invalid(message: &str) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}

/// A text up to the closing quote, and what follows; a backslash stands before a character that is meant itself.
fn quoted(text: &str) -> (String, &str) {
    let mut inside = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (inside, &text[at + 1..]),
            '\\' => inside.extend(characters.next().map(|(_, escaped)| escaped)),
            other => inside.push(other),
        }
    }
    (inside, "")
}

impl Template {
    fn parse(text: &str) -> Result<Template> {
        let mut template = Template::default();
        let mut rest = text;
        let (mut has_point, mut has_shift) = (false, false);
        while !rest.is_empty() {
            let upper: String = rest.chars().take(4).collect::<String>().to_ascii_uppercase();
            let (length, node) = match upper.as_str() {
                word if word.starts_with("EEEE") => {
                    template.is_exponential = true;
                    rest = &rest[4..];
                    continue;
                }
                word if word.starts_with("FM") => {
                    template.is_filled = true;
                    rest = &rest[2..];
                    continue;
                }
                word if word.starts_with("PR") => {
                    template.has_brackets = true;
                    rest = &rest[2..];
                    continue;
                }
                word if word.starts_with("MI") => (2, Node::Minus),
                word if word.starts_with("PL") => (2, Node::Plus),
                word if word.starts_with("SG") => (2, Node::SignAlways),
                word if word.starts_with("TH") => (2, Node::Ordinal(rest.starts_with('T'))),
                word if word.starts_with("RN") => (2, Node::Roman(rest.starts_with('R'))),
                word if word.starts_with('S') => (1, Node::Sign),
                word if word.starts_with('V') => (1, Node::Shift),
                word if word.starts_with('L') => (1, Node::Text(" ".to_string())),
                word if word.starts_with(['.', 'D']) => (1, Node::Point),
                word if word.starts_with([',', 'G']) => (1, Node::Group),
                word if word.starts_with('9') => (1, Node::Nine),
                word if word.starts_with('0') => (1, Node::Zero),
                word if word.starts_with('B') => {
                    rest = &rest[1..];
                    continue;
                }
                word if word.starts_with("\\\"") => {
                    template.nodes.push(Node::Text("\"".to_string()));
                    rest = &rest[2..];
                    continue;
                }
                word if word.starts_with('"') => {
                    let (text, after) = quoted(&rest[1..]);
                    template.nodes.push(Node::Text(text));
                    rest = after;
                    continue;
                }
                _ => {
                    let length = rest.chars().next().map_or(1, char::len_utf8);
                    (length, Node::Text(rest[..length].to_string()))
                }
            };
            template.count(&node, &mut has_point, &mut has_shift)?;
            template.nodes.push(node);
            rest = &rest[length..];
        }
        Ok(template)
    }

    fn count(&mut self, node: &Node, has_point: &mut bool, has_shift: &mut bool) -> Result<()> {
        match node {
            Node::Point if *has_point => return Err(invalid("multiple decimal points")),
            Node::Point if *has_shift => return Err(invalid("cannot use \"V\" and decimal point together")),
            Node::Point => *has_point = true,
            Node::Shift if *has_point => return Err(invalid("cannot use \"V\" and decimal point together")),
            Node::Shift => *has_shift = true,
            Node::Nine | Node::Zero => {
                let is_zero = *node == Node::Zero;
                if *has_point {
                    self.behind += 1;
                    if is_zero {
                        self.last_zero = self.behind;
                    }
                } else {
                    if is_zero && self.first_zero.is_none() {
                        self.first_zero = Some(self.before);
                    }
                    self.before += 1;
                    self.shift += usize::from(*has_shift);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn has(&self, wanted: &[Node]) -> bool {
        self.nodes.iter().any(|node| wanted.contains(node))
    }
}

fn number_of(value: &Value) -> Result<Numeric> {
    match value {
        Value::Numeric(number) => Ok(number.clone()),
        Value::Float4(number) => Numeric::from_f32(*number),
        Value::Float8(number) => Numeric::from_f64(*number),
        integer => Ok(Numeric::from(integer.any_int())),
    }
}

fn to_char(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let template = Template::parse(v[1].str())?;
    let number = number_of(&v[0])?;
    if template.nodes.iter().any(|node| matches!(node, Node::Roman(_))) {
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
        return exponential(&template, &number);
    }
    let float = match v[0] {
        Value::Float4(value) => Some((f64::from(value), 6)),
        Value::Float8(value) => Some((value, 15)),
        _ => None,
    };
    if number.is_nan() && template.before >= 3 {
        return Ok(Value::text(not_a_number(&template)));
    }
    if !number.is_finite() {
        let behind = if matches!(v[0], Value::Float4(_)) { 0 } else { template.behind };
        return Ok(Value::text(write(&template, number.is_negative(), None, behind)));
    }
    let shifted =
        number.multiply(&Numeric::from(10i64).power(&Numeric::from(template.shift as i64))?.trim_scale())?;
    let rounded = shifted.round(template.behind as i32)?;
    // Floats are rounded as C's printf does it: exact halves to even.
    let text = match float {
        Some((value, _)) if template.shift == 0 => format!("{:.*}", template.behind, value.abs()),
        _ => rounded.abs().to_string(),
    };
    let is_negative = float.map_or(rounded.is_negative(), |(value, _)| value.is_sign_negative());
    // A float shows no more digits than it has.
    let whole_digits = text.split('.').next().map_or(0, str::len);
    let behind =
        float.map_or(template.behind, |(_, digits)| template.behind.min(digits - whole_digits.min(digits)));
    Ok(Value::text(write(&template, is_negative, Some(&text), behind)))
}

/// `NaN` where the digits before the point would stand.
fn not_a_number(template: &Template) -> String {
    if template.is_filled {
        return "NaN".to_string();
    }
    let (before, behind) = match template.nodes.last() {
        Some(Node::Minus) => ("", " "),
        Some(Node::Sign) => ("", "+"),
        _ if template.has(&[Node::Sign]) => ("+", ""),
        _ => (" ", ""),
    };
    format!("{before}{:>width$}{behind}", "NaN", width = template.before)
}

/// Writes digits into a template; none where the number has no digits.
fn write(template: &Template, is_negative: bool, text: Option<&str>, behind_max: usize) -> String {
    let mut writer = Writer::new(template, is_negative, text, behind_max);
    template.nodes.iter().for_each(|node| writer.push(node));
    if template.has_brackets {
        match (is_negative, template.is_filled) {
            (true, _) => writer.out.push('>'),
            (false, false) => writer.out.push(' '),
            (false, true) => {}
        }
    }
    writer.out
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
    /// Whether the sign stands already, or somewhere else.
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
        let has_sign = template.has(&[Node::Sign]);
        let leading_sign = has_sign && sign_is_leading(template);
        let is_elsewhere =
            template.has(&[Node::SignAlways, Node::Minus]) && !template.has_brackets && !has_sign;
        Writer {
            template,
            is_negative,
            whole,
            fraction,
            is_overflow: text.is_none() || whole.len() > template.before,
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
                self.out.push('.');
                self.is_behind = true;
            }
            Node::Group
                if self.is_behind || self.place > self.start || self.is_overflow && self.place > 0 =>
            {
                self.out.push(',');
            }
            Node::Group if !is_filled => self.out.push(' '),
            Node::Group | Node::Shift | Node::Roman(_) => {}
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

/// What stands before the first digit.
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

/// Whether `S` stands before the digits.
fn sign_is_leading(template: &Template) -> bool {
    let sign = template.nodes.iter().position(|node| *node == Node::Sign);
    let digit = template.nodes.iter().position(|node| matches!(node, Node::Nine | Node::Zero));
    sign < digit
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

/// `1.23e+05`
fn exponential(template: &Template, number: &Numeric) -> Result<Value> {
    if !number.is_finite() {
        let hashes = "#".repeat(template.before.max(1));
        let fraction =
            if template.behind > 0 { format!(".{}", "#".repeat(template.behind)) } else { String::new() };
        return Ok(Value::text(format!(" {hashes}{fraction}####")));
    }
    let (coefficient, scale) = number.abs().parts().unwrap_or_default();
    let digits = coefficient.to_string();
    let mut exponent = if number.is_zero() { 0 } else { digits.len() as i64 - 1 - i64::from(scale) };
    let mantissa: Numeric = match number.is_zero() {
        true => Numeric::ZERO,
        false => format!("{}.{}", &digits[..1], &digits[1..]).trim_end_matches('.').parse()?,
    };
    let mut rounded = mantissa.round(template.behind as i32)?;
    if rounded >= Numeric::from(10i64) {
        exponent += 1;
        rounded = rounded.divide_to_scale(&Numeric::from(10i64), template.behind as i32)?;
    }
    let sign = match (number.is_negative(), template.has(&[Node::Sign])) {
        (true, _) => "-",
        (false, true) => "+",
        (false, false) if template.is_filled => "",
        _ => " ",
    };
    let exponent_sign = if exponent < 0 { '-' } else { '+' };
    Ok(Value::text(format!("{sign}{rounded}e{exponent_sign}{:02}", exponent.abs())))
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

fn to_number(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let template = Template::parse(v[1].str())?;
    if template.nodes.is_empty() {
        return Ok(Value::Null);
    }
    if template.is_exponential {
        return Err(SqlError::unsupported("\"EEEE\" not supported for input"));
    }
    if template.nodes.iter().any(|node| matches!(node, Node::Roman(_))) {
        return Err(SqlError::unsupported("\"RN\" not supported for input"));
    }
    let text = v[0].str();
    let is_negative = text.contains('-') || template.has_brackets && text.contains('<');
    let mut digits = String::new();
    let (mut before, mut behind, mut has_point) = (0, 0, false);
    let has_point_node = template.has(&[Node::Point]);
    for character in text.chars() {
        match character {
            '0'..='9' if has_point && behind < template.behind => {
                behind += 1;
                digits.push(character);
            }
            '0'..='9' if !has_point && before < template.before => {
                before += 1;
                digits.push(character);
            }
            '.' if has_point_node && !has_point => {
                has_point = true;
                digits.push('.');
            }
            _ => {}
        }
    }
    if digits.trim_matches('.').is_empty() {
        let message = format!(
            "invalid input syntax for type numeric: \"{}\"",
            text.trim().chars().next().map_or(String::from(" "), String::from)
        );
        return Err(SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message));
    }
    let number: Numeric = digits.parse()?;
    let shift = Numeric::from(10i64).power(&Numeric::from(template.shift as i64))?.trim_scale();
    let number = if template.shift > 0 { number.divide(&shift)? } else { number };
    Ok(Value::Numeric(if is_negative { number.negate() } else { number }))
}
