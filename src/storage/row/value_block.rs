//! Blocks: immutable memory for values that don't fit into a word.
//!
//! ```text
//! ┌ head, 32 atomic bits ──────────────────────┬ long blocks only ┬ bytes ─ ─ ─ ┐     8-aligned
//! │ length: 12 bits │ further owners: 20 bits  │ length: 32 bits  │             │
//! └────────────────────────────────────────────┴──────────────────┴─────────────┘
//! ```
//!
//! A block of 4,095 bytes or more is long: its head has 4,095 for its length.
//!
//! # Invariants
//!
//! - What a block holds never changes; the number of its further owners does, as long as it is on the heap.
//! - A block has one owner (a row, or an image on its way into one), and one more for each version of that row that an open
//!   snapshot needs ([`crate::storage::versions`]). The last owner that releases it frees it.
//! - Only an owner makes another one. So an owner that finds no further owners is the last.
//! - A block that ever had half as many owners as can be counted, such as the default of an added column in very many records,
//!   is not counted any more, and never freed.

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;

use bumpalo::Bump;

use super::INLINE_BYTES;
use crate::base::atomics::{AtomicU32, Ordering};
use crate::base::prefetch::prefetch_line;
use crate::types::memory::Refused;

/// The bytes of a block before its content, or before the length of a long one.
const HEAD_BYTES: usize = 4;
/// The bytes of a long block before its content.
const LONG_HEAD_BYTES: usize = 8;
/// One further owner, in the head.
const OWNER: u32 = 1 << 12;
/// The mark in a long block's head, in place of the length.
const LONG: u32 = OWNER - 1;
/// The number from which on owners are not counted any more.
const UNCOUNTED: u32 = 1 << 31;

const _: () =
    assert!(cfg!(target_endian = "little"), "inline values lie in a word as little-endian machines have it");
const _: () = assert!(super::MAXIMAL_ROW_BYTES <= u32::MAX as usize);

/// Begins to bring a block's first lines into the cache.
pub(crate) fn prefetch_block(word: u64) {
    let block = std::ptr::without_provenance::<u8>(word as usize);
    prefetch_line(block);
    prefetch_line(block.wrapping_add(64));
}

/// Returns true if a variable column's word is the address of a block.
pub(crate) fn is_block(word: u64) -> bool {
    word != 0 && word & 1 == 0
}

/// The bytes of a block before its content of this many bytes.
fn head_bytes(bytes: usize) -> usize {
    if bytes < LONG as usize { HEAD_BYTES } else { LONG_HEAD_BYTES }
}

fn block_layout(bytes: usize) -> Layout {
    match Layout::from_size_align(head_bytes(bytes) + bytes, 8) {
        Ok(layout) => layout,
        Err(_) => panic!("a value of {bytes} bytes is larger than the address space"),
    }
}

/// Room for a block in an arena.
pub(super) fn in_arena(arena: &Bump, layout: Layout) -> Result<NonNull<u8>, Refused> {
    arena.try_alloc_layout(layout).map_err(|_| Refused::of(layout.size()))
}

/// Room for a block on the heap.
pub(super) fn in_heap(layout: Layout) -> Result<NonNull<u8>, Refused> {
    // SAFETY: a block's layout has at least the bytes of the head.
    NonNull::new(unsafe { alloc(layout) }).ok_or_else(|| Refused::of(layout.size()))
}

/// The word of a variable column with these bytes; `long` makes it for bytes that don't fit into a word.
#[inline]
pub(super) fn word_of(
    bytes: &[u8],
    long: impl FnOnce(&[u8]) -> Result<u64, Refused>,
) -> Result<u64, Refused> {
    if bytes.len() > INLINE_BYTES {
        return long(bytes);
    }
    let mut word = [0; 8];
    word[0] = (bytes.len() as u8) << 1 | 1;
    word[1..=bytes.len()].copy_from_slice(bytes);
    Ok(u64::from_le_bytes(word))
}

/// The word of a variable column whose bytes lie in a block; `room` makes the block.
pub(super) fn word_of_block(
    bytes: &[u8],
    room: impl FnOnce(Layout) -> Result<NonNull<u8>, Refused>,
) -> Result<u64, Refused> {
    let block = room(block_layout(bytes.len()))?;
    let head_bytes = head_bytes(bytes.len());
    // SAFETY: the block is fresh, 8-aligned, and has room for the head, a long one's length and the bytes.
    unsafe {
        let is_long = head_bytes == LONG_HEAD_BYTES;
        let length = bytes.len() as u32;
        block.cast::<AtomicU32>().write(AtomicU32::new(if is_long { LONG } else { length }));
        if is_long {
            block.add(HEAD_BYTES).cast::<u32>().write(length);
        }
        block.add(head_bytes).copy_from_nonoverlapping(NonNull::from(bytes).cast::<u8>(), bytes.len());
    }
    Ok(block.as_ptr().expose_provenance() as u64)
}

/// The bytes behind a variable column's word.
///
/// # Safety
/// `word` was made by `word_of`, and its block, if it has one, is alive for `'r`.
pub(super) unsafe fn bytes_of(word: &u64) -> &[u8] {
    if *word & 1 == 1 {
        // SAFETY: a word's own eight bytes are plain bytes; little-endian puts the length first.
        let bytes: &[u8; 8] = unsafe { &*std::ptr::from_ref(word).cast() };
        return &bytes[1..1 + usize::from(bytes[0] >> 1)];
    }
    if *word == 0 {
        return &[];
    }
    // SAFETY: the caller's promise: a live block of a length and that many bytes, which never change.
    unsafe {
        let block = std::ptr::with_exposed_provenance::<u8>(*word as usize);
        let length = length_of(*word);
        std::slice::from_raw_parts(block.add(head_bytes(length)), length)
    }
}

/// # Safety
/// `word` is the address of a block that is alive for `'b`.
unsafe fn head<'b>(word: u64) -> &'b AtomicU32 {
    debug_assert!(is_block(word));
    // SAFETY: the caller's promise; a block begins with its head, which is only ever used as an atomic.
    unsafe { &*std::ptr::with_exposed_provenance::<AtomicU32>(word as usize) }
}

/// # Safety
/// `word` is the address of a block that is alive.
#[inline]
unsafe fn length_of(word: u64) -> usize {
    // SAFETY: the caller's promise. Relaxed: the length never changes, and came with the address.
    match unsafe { head(word) }.load(Ordering::Relaxed) % OWNER {
        // SAFETY: the caller's promise; a long block's length lies behind its head, and never changes.
        LONG => unsafe {
            let block = std::ptr::with_exposed_provenance::<u8>(word as usize);
            block.add(HEAD_BYTES).cast::<u32>().read() as usize
        },
        length => length as usize,
    }
}

/// The number of bytes that a block takes.
///
/// # Safety
/// `word` is the address of a block that is alive.
pub(crate) unsafe fn block_bytes(word: u64) -> usize {
    // SAFETY: the caller's promise.
    block_layout(unsafe { length_of(word) }).size()
}

/// Makes one more owner of a block of the heap.
///
/// # Safety
/// The caller is an owner of the block, or holds the record that is.
pub(crate) unsafe fn share_block(word: u64) {
    let one_more = |owned| (owned < UNCOUNTED).then_some(owned + OWNER);
    // SAFETY: the caller's promise. Relaxed: an owner gives the block to the next one.
    let _counted = unsafe { head(word) }.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
}

/// Releases a block of the heap; its last owner frees it.
///
/// # Safety
/// `word` is the address of a block of the heap; the caller is an owner of it, does not use it any more, and does not
/// release it twice.
pub(crate) unsafe fn free_block(word: u64) {
    // SAFETY: the caller's promise; the layout is the one it was made with.
    unsafe {
        let one_less = |owned: u32| (OWNER..UNCOUNTED).contains(&owned).then(|| owned - OWNER);
        // Acquire, and AcqRel: what other owners have read was read before the block is freed.
        let released = head(word).fetch_update(Ordering::AcqRel, Ordering::Acquire, one_less);
        if released.is_err_and(|owned| owned < OWNER) {
            let block = std::ptr::with_exposed_provenance_mut::<u8>(word as usize);
            dealloc(block, block_layout(length_of(word)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(length: usize) -> (u64, Vec<u8>) {
        let bytes: Vec<u8> = (0..length).map(|at| at as u8).collect();
        (word_of_block(&bytes, in_heap).expect("memory"), bytes)
    }

    #[test]
    fn blocks_of_every_length_give_their_bytes_back() {
        for length in [8, 100, 4_093, 4_094, 4_095, 4_096, 4_097, 70_000] {
            let (word, bytes) = block(length);
            assert!(is_block(word));
            // SAFETY: the block lives until it is freed here.
            unsafe {
                assert_eq!(bytes_of(&word), bytes);
                assert_eq!(block_bytes(word), length + if length < 4_095 { 4 } else { 8 });
                free_block(word);
            }
        }
    }

    #[test]
    fn a_block_lives_as_long_as_one_of_its_owners() {
        for length in [100, 5_000] {
            let (word, bytes) = block(length);
            // SAFETY: each owner frees it once, and it is looked at before the last one does.
            unsafe {
                (0..3).for_each(|_| share_block(word));
                for _ in 0..3 {
                    free_block(word);
                    assert_eq!(bytes_of(&word), bytes);
                }
                assert_eq!(head(word).load(Ordering::Relaxed) / OWNER, 0);
                free_block(word);
            }
        }
    }

    #[test]
    fn a_block_with_too_many_owners_is_never_freed() {
        let (word, bytes) = block(100);
        // SAFETY: the block is freed once its count is as it was made with.
        unsafe {
            let owners = (UNCOUNTED / OWNER) as usize;
            (0..owners + 10).for_each(|_| share_block(word));
            assert_eq!(head(word).load(Ordering::Relaxed), UNCOUNTED + 100, "counted up to there");
            (0..owners + 11).for_each(|_| free_block(word));
            assert_eq!(bytes_of(&word), bytes);
            head(word).store(100, Ordering::Relaxed);
            free_block(word);
        }
    }
}
