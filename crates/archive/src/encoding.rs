//! What all objects have in common: magic, version, the object's own name, the compressed body, and a checksum of all before.

use crate::error::{ArchiveError, Result};

const MAGIC: &[u8; 8] = b"HEDDLARC";
const VERSION: u32 = 1;
const SUM_BYTES: usize = 4;

/// An object's bytes, and the checksum at its end, by which others know it.
pub(crate) struct Encoded {
    pub(crate) bytes: Vec<u8>,
    pub(crate) sum: u32,
}

/// Makes an object of this name and body.
pub(crate) fn encode(name: &str, body: &[u8]) -> Encoded {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend((name.len() as u32).to_le_bytes());
    bytes.extend(name.as_bytes());
    bytes.extend((body.len() as u64).to_le_bytes());
    bytes.extend(lz4_flex::block::compress(body));
    let sum = crc32c::crc32c(&bytes);
    bytes.extend(sum.to_le_bytes());
    Encoded { bytes, sum }
}

/// The body of the object of this name, and the checksum at its end.
///
/// # Errors
/// It is not as it was written, or of a newer version.
pub(crate) fn decode(name: &str, bytes: &[u8]) -> Result<(Vec<u8>, u32)> {
    let damaged = |detail: &str| ArchiveError::damaged(name, detail);
    let (content, sum) = bytes.split_last_chunk::<SUM_BYTES>().ok_or_else(|| damaged("it is too short"))?;
    let sum = u32::from_le_bytes(*sum);
    let mut fields = Fields(content);
    if fields.take(MAGIC.len() as u64).is_none_or(|magic| magic != MAGIC) {
        return Err(damaged("it does not begin like an object of an archive"));
    }
    if crc32c::crc32c(content) != sum {
        return Err(damaged("its checksum does not fit its content"));
    }
    let version = fields.u32().ok_or_else(|| damaged("it is too short"))?;
    if version != VERSION {
        return Err(damaged(&format!(
            "it is of version {version}, and this program reads version {VERSION}; use a newer program"
        )));
    }
    let length = fields.u32().unwrap_or(u32::MAX);
    let found = fields.take(length.into()).ok_or_else(|| damaged("it is too short"))?;
    if found != name.as_bytes() {
        let found = String::from_utf8_lossy(found);
        return Err(damaged(&format!("the object {found} is there under its name")));
    }
    let length = fields.u64().and_then(|length| usize::try_from(length).ok());
    let length = length.ok_or_else(|| damaged("it is too short"))?;
    // The format compresses at most to a 255th: a length beyond that is not believed.
    let length = Some(length).filter(|length| length / 256 <= fields.0.len());
    let body = length.and_then(|length| lz4_flex::block::decompress(fields.0, length).ok());
    body.map(|body| (body, sum)).ok_or_else(|| damaged("its body cannot be decompressed"))
}

/// Reads fields, one after the other, from the front of a body.
pub(crate) struct Fields<'b>(pub(crate) &'b [u8]);

impl<'b> Fields<'b> {
    pub(crate) fn take(&mut self, count: u64) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(count).ok()?)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N as u64)?.try_into().ok()
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a number of things, each of at least `bytes_min` bytes.
    pub(crate) fn list<T>(
        &mut self,
        bytes_min: usize,
        mut one: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        let count = self.u32()? as usize;
        // A list that is longer than what is left is not made room for.
        (count <= self.0.len() / bytes_min).then_some(())?;
        (0..count).map(|_| one(self)).collect()
    }
}

/// Writes fields to the end of a body.
#[derive(Default)]
pub(crate) struct Body(pub(crate) Vec<u8>);

impl Body {
    pub(crate) fn u32(&mut self, number: u32) -> &mut Body {
        self.0.extend(number.to_le_bytes());
        self
    }

    pub(crate) fn u64s(&mut self, numbers: &[u64]) -> &mut Body {
        numbers.iter().for_each(|number| self.0.extend(number.to_le_bytes()));
        self
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Body {
        self.0.extend_from_slice(bytes);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        for body in [Vec::new(), b"content".to_vec(), vec![0; 100_000]] {
            let encoded = encode("a/b", &body);
            assert_eq!(decode("a/b", &encoded.bytes), Ok((body, encoded.sum)));
        }
        assert!(encode("a", &[0; 100_000]).bytes.len() < 1_000, "zeros are compressed");
    }

    #[test]
    fn each_flipped_bit_each_cut_and_another_name_are_damage() {
        let good = encode("a/b", b"some content of an object").bytes;
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(decode("a/b", &bad), Err(ArchiveError::Damaged { .. })), "bit {bit}");
        }
        for length in 0..good.len() {
            assert!(matches!(decode("a/b", &good[..length]), Err(ArchiveError::Damaged { .. })), "{length}");
        }
        let moved = decode("a/c", &good).expect_err("another name");
        assert!(moved.to_string().contains("a/b is there under its name"), "{moved}");
    }

    #[test]
    fn lengths_that_cannot_be_are_refused_before_memory_is_taken_for_them() {
        let mut fields = Fields(&[255, 255, 255, 255, 0]);
        assert_eq!(fields.list(1, |fields| fields.u32()), None);
        let mut bytes = encode("a", b"x").bytes;
        let at = MAGIC.len() + 4 + 4 + 1;
        bytes[at..at + 8].copy_from_slice(&u64::MAX.to_le_bytes());
        let end = bytes.len() - SUM_BYTES;
        let sum = crc32c::crc32c(&bytes[..end]);
        bytes[end..].copy_from_slice(&sum.to_le_bytes());
        assert!(matches!(decode("a", &bytes), Err(ArchiveError::Damaged { .. })));
    }
}
