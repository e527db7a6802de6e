//! Refusing numbers that are out of range, by the option's name.

use std::fmt;

use crate::error::{Error, Result};

/// The error for an option with a value that it cannot have.
pub(super) fn invalid(option: &'static str, given: &dyn fmt::Display, expected: impl Into<String>) -> Error {
    Error::InvalidOption { option, given: given.to_string(), expected: expected.into() }
}

/// # Errors
/// `given` is below `least` or above `most`.
pub(super) fn within(option: &'static str, given: u64, least: u64, most: u64) -> Result<()> {
    if (least..=most).contains(&given) {
        return Ok(());
    }
    Err(invalid(option, &given, format!("{least} to {most}")))
}

/// # Errors
/// `given` is below `least`, above `most`, or not a number.
pub(super) fn within_real(option: &'static str, given: f64, least: f64, most: f64) -> Result<()> {
    if (least..=most).contains(&given) {
        return Ok(());
    }
    Err(invalid(option, &given, format!("{least} to {most}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_within_their_range_and_what_is_no_number_is_not() {
        assert!(within("n", 1, 1, 3).is_ok() && within("n", 3, 1, 3).is_ok());
        assert!(within_real("x", 0.0, 0.0, 1.0).is_ok() && within_real("x", 1.0, 0.0, 1.0).is_ok());
        for refused in [within("n", 0, 1, 3), within("n", 4, 1, 3)] {
            assert!(refused.unwrap_err().to_string().contains("1 to 3"));
        }
        for wrong in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            let message = within_real("x", wrong, 0.0, 1.0).unwrap_err().to_string();
            assert!(message.contains('x') && message.contains("0 to 1"), "{message}");
        }
    }
}
