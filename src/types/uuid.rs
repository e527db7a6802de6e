//! A universally unique identifier: sixteen bytes, compared as such.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// A universally unique identifier (RFC 9562) of any version.
///
/// ```
/// use heddledb::Uuid;
/// let id: Uuid = "67e55044-10b1-426f-9247-bb680e5fe0c8".parse()?;
/// assert_eq!(id.bytes()[0], 0x67);
/// # Ok::<(), heddledb::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid([u8; 16]);

impl Uuid {
    /// The identifier with these bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Uuid {
        Uuid(bytes)
    }

    /// The sixteen bytes.
    pub const fn bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, byte) in self.0.iter().enumerate() {
            if matches!(position, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Uuid {
    type Err = Error;

    /// 32 hexadecimal digits, with all four hyphens or none.
    fn from_str(text: &str) -> Result<Uuid> {
        parse(text.as_bytes()).ok_or_else(|| Error::Unparsable {
            text: text.to_owned(),
            expected: "UUID",
            example: "67e55044-10b1-426f-9247-bb680e5fe0c8",
        })
    }
}

fn parse(text: &[u8]) -> Option<Uuid> {
    let hyphenated = match text.len() {
        32 => false,
        36 => true,
        _ => return None,
    };
    let mut nibbles = 0;
    let mut bytes = [0; 16];
    for (position, &character) in text.iter().enumerate() {
        if hyphenated && matches!(position, 8 | 13 | 18 | 23) {
            if character != b'-' {
                return None;
            }
            continue;
        }
        let nibble = char::from(character).to_digit(16)? as u8;
        let byte: &mut u8 = bytes.get_mut(nibbles / 2)?;
        *byte = *byte << 4 | nibble;
        nibbles += 1;
    }
    Some(Uuid(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    const TEXT: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";

    #[test]
    fn text_with_and_without_hyphens_and_in_capitals_is_one_identifier() {
        let id: Uuid = TEXT.parse().unwrap();
        assert_eq!(id.to_string(), TEXT);
        assert_eq!(TEXT.replace('-', "").parse::<Uuid>().unwrap(), id);
        assert_eq!(TEXT.to_uppercase().parse::<Uuid>().unwrap(), id);
        assert_eq!(id.bytes()[..4], [0x67, 0xe5, 0x50, 0x44]);
    }

    #[test]
    fn anything_else_is_refused() {
        let misplaced = "67e550441-0b1-426f-9247-bb680e5fe0c8";
        let no_digit = TEXT.replace('6', "g");
        let all_hyphens = "-".repeat(36);
        let too_long = format!("{TEXT}0");
        for text in [
            "",
            "67e55044",
            misplaced,
            &no_digit,
            &all_hyphens,
            &TEXT[1..],
            &too_long,
            "é".repeat(16).as_str(),
        ] {
            assert!(matches!(text.parse::<Uuid>(), Err(Error::Unparsable { .. })), "{text}");
        }
    }

    proptest! {
        #[test]
        fn the_text_of_an_identifier_is_that_identifier(bytes: [u8; 16]) {
            let id = Uuid::from_bytes(bytes);
            prop_assert_eq!(id.to_string().parse::<Uuid>().unwrap(), id);
        }

        #[test]
        fn any_text_is_an_identifier_or_an_error(text in "[-0-9a-f]{32}|[-0-9a-f]{36}|.{0,40}") {
            let _ = text.parse::<Uuid>();
        }
    }
}
