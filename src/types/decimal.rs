//! An exact decimal number: an integer and the number of its digits that are behind the point.
//!
//! Invariants: at most 38 digits, at most 38 of them behind the point; nothing is ever rounded; numbers
//! compare by value, so that 1.5 equals 1.50.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use crate::error::{Error, Result};

/// An exact decimal number of up to 38 digits.
///
/// ```
/// use heddledb::Decimal;
/// let price: Decimal = "19.90".parse()?;
/// assert_eq!(price.checked_add("0.1".parse()?)?.to_string(), "20.00");
/// assert_eq!((price * Decimal::from(3)).to_string(), "59.70");
/// # Ok::<(), heddledb::Error>(())
/// ```
// Packed to a boundary of 8, because an i128 of its own would make every value half as large again.
#[derive(Clone, Copy)]
#[repr(Rust, packed(8))]
pub struct Decimal {
    unscaled: i128,
    scale: u8,
}

const UNSCALED_MAX: i128 = 10_i128.pow(Decimal::PRECISION_MAX as u32) - 1;

/// Ten to this power, for powers up to 38; None above.
pub(crate) fn power_of_ten(exponent: u8) -> Option<i128> {
    10_i128.checked_pow(u32::from(exponent))
}

impl Decimal {
    /// The largest number of digits, and also the largest scale.
    pub const PRECISION_MAX: u8 = 38;

    /// The number `unscaled` / 10^`scale`.
    pub fn new(unscaled: i128, scale: u8) -> Result<Decimal> {
        if scale > Self::PRECISION_MAX || !(-UNSCALED_MAX..=UNSCALED_MAX).contains(&unscaled) {
            return Err(too_large(&format!("{unscaled}e-{scale}")));
        }
        Ok(Decimal { unscaled, scale })
    }

    /// A number whose parts came out of a decimal, and so are within bounds.
    pub(crate) const fn from_stored(unscaled: i128, scale: u8) -> Decimal {
        Decimal { unscaled, scale }
    }

    /// The number without its point: 1990 of 19.90.
    pub const fn unscaled(self) -> i128 {
        self.unscaled
    }

    /// Number of digits behind the point.
    pub const fn scale(self) -> u8 {
        self.scale
    }

    /// Number of digits of the unscaled number; 1 for zero.
    pub fn precision(self) -> u8 {
        let unscaled = self.unscaled.unsigned_abs();
        // Of 64 bits, as nearly all numbers are, the count is far faster.
        let digits = match u64::try_from(unscaled) {
            Ok(short) => short.checked_ilog10(),
            Err(_) => unscaled.checked_ilog10(),
        };
        digits.map_or(1, |digits| (digits + 1) as u8)
    }

    /// Converts the number to `scale` digits behind the point; fails if there is no such number.
    pub fn rescale(self, scale: u8) -> Result<Decimal> {
        match scale.cmp(&self.scale) {
            Ordering::Equal => Ok(self),
            Ordering::Greater => power_of_ten(scale - self.scale)
                .and_then(|factor| self.unscaled().checked_mul(factor))
                .ok_or_else(|| too_large(&format!("{self} with {scale} digits behind the point")))
                .and_then(|unscaled| Decimal::new(unscaled, scale)),
            Ordering::Less => {
                let unscaled = power_of_ten(self.scale - scale)
                    .and_then(|divisor| (self.unscaled % divisor == 0).then_some(self.unscaled / divisor));
                match unscaled {
                    Some(unscaled) => Ok(Decimal { unscaled, scale }),
                    None => Err(Error::Inexact {
                        what: "a decimal".to_owned(),
                        detail: format!("{self} has more than {scale} digits behind the point"),
                    }),
                }
            }
        }
    }

    /// The exact sum, with the greater of the two scales.
    pub fn checked_add(self, other: Decimal) -> Result<Decimal> {
        let scale = self.scale.max(other.scale);
        let (left, right) = (self.rescale(scale)?, other.rescale(scale)?);
        match left.unscaled().checked_add(right.unscaled()) {
            Some(unscaled) => Decimal::new(unscaled, scale),
            None => Err(too_large(&format!("{self} + {other}"))),
        }
    }

    /// The exact difference, with the greater of the two scales.
    pub fn checked_sub(self, other: Decimal) -> Result<Decimal> {
        self.checked_add(-other)
    }

    /// The exact product, with the sum of the two scales.
    pub fn checked_mul(self, other: Decimal) -> Result<Decimal> {
        match self.unscaled().checked_mul(other.unscaled()) {
            Some(unscaled) => Decimal::new(unscaled, self.scale + other.scale),
            None => Err(too_large(&format!("{self} * {other}"))),
        }
    }

    /// The quotient with this many digits behind the point, rounded to the nearest, halves away from zero.
    ///
    /// ```
    /// use heddledb::Decimal;
    /// let share = Decimal::from(100).checked_div(Decimal::from(3), 2)?;
    /// assert_eq!(share.to_string(), "33.33");
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::DivisionByZero`]; [`Error::Overflow`]: the quotient, or a step on the way to it, has too many digits.
    pub fn checked_div(self, other: Decimal, scale: u8) -> Result<Decimal> {
        if other.unscaled() == 0 {
            return Err(Error::DivisionByZero { what: "a decimal" });
        }
        let overflow = || too_large(&format!("{self} / {other} with {scale} digits behind the point"));
        let scaled = |number: i128, zeros: i16| {
            let factor = power_of_ten(u8::try_from(zeros.max(0)).unwrap_or(u8::MAX)).ok_or_else(overflow)?;
            number.checked_mul(factor).ok_or_else(overflow)
        };
        // left / 10^a divided by right / 10^b, times 10^scale.
        let zeros = i16::from(scale) + i16::from(other.scale) - i16::from(self.scale);
        let (left, right) = (scaled(self.unscaled(), zeros)?, scaled(other.unscaled(), -zeros)?);
        let (quotient, rest) = (left / right, left % right);
        let rounds_up = rest.unsigned_abs() >= right.unsigned_abs() - rest.unsigned_abs();
        let away = if (left < 0) == (right < 0) { 1 } else { -1 };
        Decimal::new(if rounds_up { quotient + away } else { quotient }, scale)
    }

    /// The number without its sign.
    pub fn abs(self) -> Decimal {
        if self.unscaled < 0 { -self } else { self }
    }

    /// Returns true if it is zero, with any number of digits behind the point.
    pub fn is_zero(self) -> bool {
        self.unscaled == 0
    }

    /// The number with at most this many digits behind the point, rounded to the nearest, halves away from zero.
    ///
    /// ```
    /// use heddledb::Decimal;
    /// let price: Decimal = "2.345".parse()?;
    /// assert_eq!((price.round(2).to_string(), (-price).round(1).to_string()), ("2.35".to_string(), "-2.3".to_string()));
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    pub fn round(self, scale: u8) -> Decimal {
        let Some(divisor) =
            self.scale.checked_sub(scale).and_then(power_of_ten).filter(|divisor| *divisor > 1)
        else {
            return self;
        };
        let (quotient, rest) = (self.unscaled() / divisor, self.unscaled() % divisor);
        let away = if rest.unsigned_abs() * 2 >= divisor.unsigned_abs() { rest.signum() } else { 0 };
        Decimal { unscaled: quotient + away, scale }
    }

    /// The parts without trailing zeros behind the point: the same for equal numbers.
    fn normalized(self) -> (i128, u8) {
        let (mut unscaled, mut scale) = (self.unscaled, self.scale);
        while scale > 0 && unscaled % 10 == 0 {
            unscaled /= 10;
            scale -= 1;
        }
        (unscaled, scale)
    }
}

fn too_large(detail: &str) -> Error {
    Error::Overflow {
        what: "a decimal".to_owned(),
        detail: format!("{detail} has more than {} digits", Decimal::PRECISION_MAX),
    }
}

impl std::ops::Neg for Decimal {
    type Output = Decimal;

    fn neg(self) -> Decimal {
        // The bounds are symmetric and far from those of i128.
        Decimal { unscaled: -self.unscaled, scale: self.scale }
    }
}

/// Arithmetic as with Rust's integers, but checked in every build: `+`, `-` and `*` panic where the exact result has more
/// than 38 digits, which fails a transaction's body ([`Error::Panicked`]). `checked_add` and its kin give an error instead.
macro_rules! operators {
    ($($operator:ident, $assigning:ident, $method:ident, $assign:ident, $checked:ident;)*) => {$(
        impl std::ops::$operator for Decimal {
            type Output = Decimal;

            /// # Panics
            /// The exact result has more than 38 digits.
            fn $method(self, other: Decimal) -> Decimal {
                match self.$checked(other) {
                    Ok(result) => result,
                    Err(error) => panic!("{error}"),
                }
            }
        }

        impl std::ops::$assigning for Decimal {
            /// # Panics
            /// The exact result has more than 38 digits.
            fn $assign(&mut self, other: Decimal) {
                *self = std::ops::$operator::$method(*self, other);
            }
        }
    )*};
}

operators! {
    Add, AddAssign, add, add_assign, checked_add;
    Sub, SubAssign, sub, sub_assign, checked_sub;
    Mul, MulAssign, mul, mul_assign, checked_mul;
}

impl std::iter::Sum for Decimal {
    /// # Panics
    /// The exact sum has more than 38 digits.
    fn sum<I: Iterator<Item = Decimal>>(numbers: I) -> Decimal {
        numbers.fold(Decimal::from(0_i64), |sum, number| sum + number)
    }
}

impl<'d> std::iter::Sum<&'d Decimal> for Decimal {
    /// # Panics
    /// The exact sum has more than 38 digits.
    fn sum<I: Iterator<Item = &'d Decimal>>(numbers: I) -> Decimal {
        numbers.copied().sum()
    }
}

impl std::iter::Product for Decimal {
    /// # Panics
    /// The exact product has more than 38 digits.
    fn product<I: Iterator<Item = Decimal>>(numbers: I) -> Decimal {
        numbers.fold(Decimal::from(1_i64), |product, number| product * number)
    }
}

/// Zero, without digits behind the point.
impl Default for Decimal {
    fn default() -> Decimal {
        Decimal { unscaled: 0, scale: 0 }
    }
}

impl From<i64> for Decimal {
    fn from(value: i64) -> Decimal {
        Decimal { unscaled: i128::from(value), scale: 0 }
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Decimal) -> Ordering {
        let (left, right) = (self.unscaled(), other.unscaled());
        if self.scale == other.scale {
            return left.cmp(&right);
        }
        if self.scale > other.scale {
            return other.cmp(self).reverse();
        }
        let factor = power_of_ten(other.scale - self.scale);
        match factor.and_then(|factor| left.checked_mul(factor)) {
            Some(aligned) => aligned.cmp(&right),
            // Aligned, the left number would be beyond every i128, and so beyond the right one.
            None => left.cmp(&0),
        }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Decimal) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Decimal) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Decimal {}

impl Hash for Decimal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.normalized().hash(state);
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.unscaled < 0 { "-" } else { "" };
        let scale = usize::from(self.scale);
        // At least one digit before the point, so that 5 with scale 2 is 0.05.
        let digits = format!("{:0width$}", self.unscaled().unsigned_abs(), width = scale + 1);
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        let point = if scale > 0 { "." } else { "" };
        write!(f, "{sign}{whole}{point}{fraction}")
    }
}

impl fmt::Debug for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Decimal {
    type Err = Error;

    /// Digits with an optional sign and point; as many digits behind the point as are written.
    fn from_str(text: &str) -> Result<Decimal> {
        let unparsable =
            || Error::Unparsable { text: text.to_owned(), expected: "decimal number", example: "-12.50" };
        let (negative, digits) = match text.as_bytes() {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            all => (false, all),
        };
        let mut unscaled: i128 = 0;
        let mut scale: Option<u8> = None;
        let mut digit_count = 0_usize;
        for &byte in digits {
            match byte {
                b'0'..=b'9' => {
                    unscaled = unscaled
                        .checked_mul(10)
                        .and_then(|tens| tens.checked_add(i128::from(byte - b'0')))
                        .ok_or_else(|| too_large(text))?;
                    digit_count += 1;
                    scale = scale.map(|scale| scale.saturating_add(1));
                }
                b'.' if scale.is_none() => scale = Some(0),
                _ => return Err(unparsable()),
            }
        }
        if digit_count == 0 {
            return Err(unparsable());
        }
        Decimal::new(if negative { -unscaled } else { unscaled }, scale.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests;
