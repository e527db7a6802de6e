//! An encoded key: a byte string that stays on the stack up to 64 bytes.

use std::ops::Deref;

use crate::types::memory::{Refused, reserve};

const INLINE_BYTES: usize = 64;

/// The value of `length` once the bytes are on the heap: more than there is room for in place.
const ON_HEAP: u8 = u8::MAX;
const _: () = assert!(ON_HEAP as usize > INLINE_BYTES);

/// The bytes of a key. Short ones lie in place; a longer one moves to the heap as a whole.
#[derive(Clone, Debug)]
pub(crate) struct EncodedKey {
    /// Number of bytes of `short` in use; [`ON_HEAP`] if none are, because `long` is in use.
    length: u8,
    short: [u8; INLINE_BYTES],
    long: Vec<u8>,
}

impl EncodedKey {
    /// An empty key.
    pub(crate) const fn new() -> EncodedKey {
        EncodedKey { length: 0, short: [0; INLINE_BYTES], long: Vec::new() }
    }

    /// The bytes.
    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        self.short.get(..usize::from(self.length)).unwrap_or(&self.long)
    }

    /// Returns true if the bytes are in place, so that no memory was allocated.
    #[cfg(test)]
    pub(crate) fn is_in_place(&self) -> bool {
        self.length != ON_HEAP
    }

    /// Takes every byte away.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.length = 0;
    }

    /// Appends one byte.
    pub(crate) fn push(&mut self, byte: u8) {
        self.append(&[byte]);
    }

    /// Appends a number of bytes that is known at compile time, if there is room in place; returns true if there was.
    #[inline(always)]
    pub(crate) fn append_in_place<const N: usize>(&mut self, bytes: &[u8; N]) -> bool {
        let start = usize::from(self.length);
        let Some(room) = self.short.get_mut(start..start + N) else { return false };
        room.copy_from_slice(bytes);
        self.length = (start + N) as u8;
        true
    }

    /// Appends a number of bytes that is known at compile time: the usual case, without a call.
    #[inline]
    pub(crate) fn append<const N: usize>(&mut self, bytes: &[u8; N]) {
        if !self.append_in_place(bytes) {
            self.extend_from_slice(bytes);
        }
    }

    /// Appends bytes.
    pub(crate) fn extend_from_slice(&mut self, bytes: &[u8]) {
        let start = usize::from(self.length);
        match self.short.get_mut(start..start + bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.length += bytes.len() as u8;
            }
            None => {
                if self.length != ON_HEAP {
                    self.long.clear();
                    self.long.extend_from_slice(&self.short[..start]);
                    self.length = ON_HEAP;
                }
                self.long.extend_from_slice(bytes);
            }
        }
    }

    /// Makes room on the heap for this many more bytes.
    ///
    /// # Errors
    /// The system refuses the memory.
    #[cold]
    pub(crate) fn reserve(&mut self, additional: usize) -> Result<(), Refused> {
        let used = self.as_slice().len();
        if self.length != ON_HEAP {
            self.long.clear();
            return reserve(&mut self.long, used + additional);
        }
        reserve(&mut self.long, additional)
    }

    /// The bytes, owned.
    pub(crate) fn into_vec(self) -> Vec<u8> {
        if self.length == ON_HEAP { self.long } else { self.as_slice().to_vec() }
    }
}

impl Default for EncodedKey {
    fn default() -> EncodedKey {
        EncodedKey::new()
    }
}

impl Deref for EncodedKey {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl From<&[u8]> for EncodedKey {
    fn from(bytes: &[u8]) -> EncodedKey {
        let mut key = EncodedKey::new();
        key.extend_from_slice(bytes);
        key
    }
}

impl PartialEq for EncodedKey {
    fn eq(&self, other: &EncodedKey) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for EncodedKey {}

impl PartialOrd for EncodedKey {
    fn partial_cmp(&self, other: &EncodedKey) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for EncodedKey {
    fn cmp(&self, other: &EncodedKey) -> std::cmp::Ordering {
        self.as_slice().cmp(other.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_what_was_appended_on_the_stack_and_on_the_heap() {
        let mut key = EncodedKey::new();
        let mut all = Vec::new();
        for round in 0..200_u8 {
            match round % 3 {
                0 => key.push(round),
                1 => key.append(&[round, 0, 255, 7]),
                _ => key.extend_from_slice(&vec![round; usize::from(round) % 23]),
            }
            match round % 3 {
                0 => all.push(round),
                1 => all.extend([round, 0, 255, 7]),
                _ => all.extend(vec![round; usize::from(round) % 23]),
            }
            assert_eq!(key.as_slice(), all);
            assert_eq!(EncodedKey::from(all.as_slice()), key);
        }
        assert_eq!(key.clone().into_vec(), all);
        key.clear();
        assert!(key.is_empty() && key.is_in_place());
        key.push(1);
        assert_eq!(key.as_slice(), [1]);
        assert_eq!(key.clone().into_vec(), [1], "what was on the heap before counts no more");
        key.extend_from_slice(&[2; 100]);
        assert_eq!(key.as_slice(), [&[1][..], &[2; 100]].concat());
    }

    #[test]
    fn keys_compare_as_their_bytes_do() {
        let long = EncodedKey::from([5; 100].as_slice());
        let short = EncodedKey::from([5; 3].as_slice());
        assert!(short < long && long < EncodedKey::from([6].as_slice()));
    }
}
