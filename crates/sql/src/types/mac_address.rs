//! Texts of `macaddr`.
//!
//! Source: PostgreSQL 15, `macaddr_in` in `mac.c`, with C's `sscanf`.

use crate::error::{Result, SqlError, SqlState};
use crate::types::Value;
use crate::types::text::invalid_syntax;

/// The spellings: what separates numbers, after how many of them, and how many characters a number has at most.
const SPELLINGS: [(&str, usize, usize); 7] = [
    (":", 1, usize::MAX),
    ("-", 1, usize::MAX),
    (":", 3, 2),
    ("-", 3, 2),
    (".", 2, 2),
    ("-", 2, 2),
    ("", 6, 2),
];

const BYTES: usize = 6;

/// A text as a `macaddr`: six hexadecimal numbers, as PostgreSQL reads them.
///
/// # Errors
/// 22P02; 22003 for a number that is no byte.
pub fn mac_from_text(text: &str) -> Result<Value> {
    let numbers = SPELLINGS.iter().find_map(|spelling| read(text, *spelling));
    let numbers = numbers.ok_or_else(|| invalid_syntax("macaddr", text))?;
    let bytes: Option<Vec<u8>> = numbers.into_iter().map(|number| u8::try_from(number).ok()).collect();
    bytes.map(Value::bytes).ok_or_else(|| {
        let message = format!("invalid octet value in \"macaddr\" value: \"{text}\"");
        SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
    })
}

fn is_blank(character: char) -> bool {
    character.is_ascii_whitespace() || character == '\x0b'
}

fn read(text: &str, (separator, every, width): (&str, usize, usize)) -> Option<Vec<i64>> {
    let (mut rest, mut numbers) = (text, Vec::with_capacity(BYTES));
    for position in 0..BYTES {
        if position > 0 && position.is_multiple_of(every) {
            rest = rest.strip_prefix(separator)?;
        }
        let (number, behind) = hexadecimal(rest, width)?;
        numbers.push(number);
        rest = behind;
    }
    rest.trim_start_matches(is_blank).is_empty().then_some(numbers)
}

/// `%x` of C: blanks, a sign, `0x`, digits; the number and the text after it.
fn hexadecimal(text: &str, width: usize) -> Option<(i64, &str)> {
    let text = text.trim_start_matches(is_blank);
    let window = text.bytes().take(width).take_while(u8::is_ascii).count();
    let window = &text[..window];
    let unsigned = window.strip_prefix(['+', '-']).unwrap_or(window);
    let digits_of = |text: &str| text.bytes().take_while(u8::is_ascii_hexdigit).count();
    let without_prefix = unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X"));
    let digits = without_prefix.filter(|rest| digits_of(rest) > 0).unwrap_or(unsigned);
    let count = digits_of(digits);
    if count == 0 {
        return None;
    }
    // A number with too many digits is no byte either way.
    let number = i64::from_str_radix(&digits[..count], 16).unwrap_or(i64::MAX);
    let read = window.len() - digits.len() + count;
    Some((if window.starts_with('-') { -number } else { number }, &text[read..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Type;
    use crate::types::network::text_of;

    #[test]
    fn hardware_addresses_have_many_spellings() {
        for text in [
            "08:00:2b:01:02:03",
            "8:0:2b:1:2:3",
            "08002b-010203",
            "08002b:010203",
            "0800.2b01.0203",
            "0800-2b01-0203",
            "08-00-2B-01-02-03",
            "08002b010203",
            " 08:00:2b:01:02:03 ",
            "08: 00:2b:01:02:03",
            "0x8:0:2b:1:2:+3",
            "080.2b01.0203",
            "08002b010203 ",
        ] {
            let value = mac_from_text(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let printed = text_of(Type::Macaddr, value.as_bytes());
            assert_eq!(printed.as_deref(), Some("08:00:2b:01:02:03"), "{text}");
        }
        let short = mac_from_text("8002b010203").expect("an odd number of digits");
        assert_eq!(text_of(Type::Macaddr, short.as_bytes()).as_deref(), Some("80:02:b0:10:20:03"));
        let state = |text: &str| mac_from_text(text).err().map(|error| error.state());
        for text in ["8:0:2b", "zz:0:2b:1:2:3", "", "0800-2b01:0203", "0800:2b01:0203", "08.00.2b.01.02.03"] {
            assert_eq!(state(text), Some(SqlState::INVALID_TEXT_REPRESENTATION), "{text}");
        }
        for text in ["8:0:2b:1:2:300", "-8:0:2b:1:2:3", "8:0:2b:1:2:ffffffffffffffffffff"] {
            assert_eq!(state(text), Some(SqlState::NUMERIC_VALUE_OUT_OF_RANGE), "{text}");
        }
    }
}
