//! Numbers of variable length: seven bits in each byte, the lowest ones first, and the highest bit of all bytes but
//! the last set (LEB128); signed ones in zigzag.
//!
//! Invariants: a number is read as byte by byte it would be, whether its bytes are looked at one by one or together; and
//! nothing behind the bytes that are there is looked at.

use super::{Reader, malformed};
use crate::error::Result;

/// The most bytes that a number of 64 bits takes.
const NUMBER_BYTES_MAX: usize = 10;

/// Appends a number.
#[inline]
pub(super) fn number(out: &mut Vec<u8>, number: u64) {
    if number < 0x80 { out.push(number as u8) } else { long_number(out, number) }
}

#[inline(never)]
fn long_number(out: &mut Vec<u8>, mut number: u64) {
    // Put together aside: the vector is looked at once, not for each byte.
    let (mut bytes, mut length) = ([0; NUMBER_BYTES_MAX], 0);
    while number >= 0x80 {
        bytes[length] = number as u8 | 0x80;
        number >>= 7;
        length += 1;
    }
    bytes[length] = number as u8;
    out.extend_from_slice(&bytes[..=length]);
}

/// Appends a signed number.
pub(super) fn signed(out: &mut Vec<u8>, value: i64) {
    number(out, (value << 1 ^ value >> 63) as u64);
}

/// Appends a signed number of up to 128 bits.
pub(super) fn wide(out: &mut Vec<u8>, value: i128) {
    let mut number = (value << 1 ^ value >> 127) as u128;
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

impl Reader<'_> {
    /// The next number.
    ///
    /// # Errors
    /// The bytes end, or it has more than 64 bits.
    #[inline]
    pub(super) fn number(&mut self) -> Result<u64> {
        // Most are short, and most of the others take no more than eight bytes, which are looked at together.
        if let Some((&byte, rest)) = self.rest.split_first()
            && byte < 0x80
        {
            self.rest = rest;
            return Ok(u64::from(byte));
        }
        match self.short_number() {
            Some(number) => Ok(number),
            None => u64::try_from(self.long_number()?).map_err(|_| malformed("a number over 64 bits".into())),
        }
    }

    /// A number whose bytes are among the next eight, if eight are left.
    #[inline]
    fn short_number(&mut self) -> Option<u64> {
        let bytes = u64::from_le_bytes(*self.rest.first_chunk()?);
        let ends = !bytes & 0x8080_8080_8080_8080;
        if ends == 0 {
            return None;
        }
        // Through the last byte's highest bit, which is zero as it should.
        let last = ends.trailing_zeros();
        self.rest = &self.rest[last as usize / 8 + 1..];
        // Seven bits of each byte, put together in pairs, then in pairs of pairs.
        let sevens = bytes & (u64::MAX >> (63 - last)) & 0x7f7f_7f7f_7f7f_7f7f;
        let pairs = sevens & 0x007f_007f_007f_007f | (sevens & 0x7f00_7f00_7f00_7f00) >> 1;
        let fours = pairs & 0x0000_3fff_0000_3fff | (pairs & 0x3fff_0000_3fff_0000) >> 2;
        Some(fours & 0x0fff_ffff | (fours & 0x0fff_ffff_0000_0000) >> 4)
    }

    fn wide_unsigned(&mut self) -> Result<u128> {
        match self.short_number() {
            Some(number) => Ok(u128::from(number)),
            None => self.long_number(),
        }
    }

    /// A number of any length, byte by byte.
    fn long_number(&mut self) -> Result<u128> {
        let mut number = 0_u128;
        for shift in (0..128).step_by(7) {
            let byte = self.byte()?;
            number |= u128::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(malformed("a number without end".into()))
    }

    /// The next signed number.
    #[inline]
    pub(super) fn signed(&mut self) -> Result<i64> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// The next signed number of up to 128 bits.
    pub(super) fn wide(&mut self) -> Result<i128> {
        let number = self.wide_unsigned()?;
        Ok((number >> 1) as i128 ^ -((number & 1) as i128))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of every length, and around every boundary of bytes.
    fn telling() -> impl Iterator<Item = u64> {
        let around = |bits: u32| {
            [(1_u64 << bits) - 1, 1 << bits, (1 << bits) + 1, 0x5a5a_5a5a_5a5a_5a5a >> (63 - bits)]
        };
        (0..64).flat_map(around).chain([0, u64::MAX, u64::MAX - 1, i64::MAX as u64])
    }

    #[test]
    fn a_number_is_read_as_it_was_written_whatever_follows() {
        for telling in telling() {
            for behind in [&[][..], &[0; 9], &[0xff; 9], &[0x80; 3]] {
                let mut written = Vec::new();
                number(&mut written, telling);
                let length = written.len();
                written.extend_from_slice(behind);
                let mut reader = Reader::new(&written);
                assert_eq!(reader.number(), Ok(telling), "{behind:?}");
                assert_eq!(written.len() - reader.left(), length, "{telling} before {behind:?}");
                assert_eq!(Reader::new(&written).long_number(), Ok(telling.into()), "byte by byte");
            }
        }
    }

    #[test]
    fn signed_and_wide_numbers_are_read_as_they_were_written() {
        let mut written = Vec::new();
        let signs = |number: u64| [number as i64, (number as i64).wrapping_neg(), !(number as i64)];
        let all: Vec<i64> = telling().flat_map(signs).chain([i64::MIN, i64::MAX]).collect();
        for &one in &all {
            signed(&mut written, one);
            wide(&mut written, i128::from(one) << 60 ^ i128::from(one));
            wide(&mut written, one.into());
        }
        let mut reader = Reader::new(&written);
        for &one in &all {
            assert_eq!(reader.signed(), Ok(one));
            assert_eq!(reader.wide(), Ok(i128::from(one) << 60 ^ i128::from(one)));
            assert_eq!(reader.wide(), Ok(one.into()));
        }
        assert_eq!(reader.left(), 0);
        for limit in [i128::MIN, i128::MAX, 0, -1] {
            let mut written = Vec::new();
            wide(&mut written, limit);
            assert_eq!(Reader::new(&written).wide(), Ok(limit));
        }
    }

    #[test]
    fn numbers_without_an_end_and_those_that_are_too_large_are_refused() {
        for length in 0..30 {
            assert!(Reader::new(&vec![0x80; length]).number().is_err(), "{length} bytes, and no last one");
            assert!(Reader::new(&vec![0xff; length]).wide().is_err(), "{length} bytes, and no last one");
        }
        let mut large = Vec::new();
        wide(&mut large, 1 << 70);
        assert!(Reader::new(&large).number().is_err());
        // Longer than need be, as no thread writes it, but a number.
        assert_eq!(Reader::new(&[0x85, 0x80, 0x00]).number(), Ok(5));
        assert_eq!(
            Reader::new(&[0x85, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00]).number(),
            Ok(5)
        );
    }
}
