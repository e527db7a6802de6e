//! Blocks: immutable memory for values that don't fit into a word.
//!
//! ```text
//! ┌ head, one atomic word ─────────────────────┬ bytes ─ ─ ─ ┐     8-aligned
//! │ length: 32 bits │ further owners: 32 bits  │             │
//! └────────────────────────────────────────────┴─────────────┘
//! ```
//!
//! # Invariants
//!
//! - What a block holds never changes; the number of its further owners does, as long as it is on the heap.
//! - A block has one owner (a row, or an image on its way into one), and one more for each version of that row that an open
//!   snapshot needs ([`crate::storage::versions`]). The last owner that releases it frees it.
//! - Only an owner makes another one. So an owner that finds no further owners is the last.

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;

use bumpalo::Bump;

use super::INLINE_BYTES;
use crate::base::atomics::{AtomicU64, Ordering};
use crate::base::prefetch::prefetch_line;
use crate::types::memory::Refused;

/// What a block takes before its bytes.
const HEAD_BYTES: usize = 8;
/// One further owner, in the head.
const OWNER: u64 = 1 << 32;

const _: () =
    assert!(cfg!(target_endian = "little"), "inline values lie in a word as little-endian machines have it");
const _: () = assert!(super::MAXIMAL_ROW_BYTES <= u32::MAX as usize);

/// Begins to bring a block's first lines into the cache.
pub(crate) fn prefetch_block(word: u64) {
    let block = std::ptr::without_provenance::<u8>(word as usize);
    prefetch_line(block);
    prefetch_line(block.wrapping_add(64));
}

/// Whether a variable column's word is the address of a block.
pub(crate) fn is_block(word: u64) -> bool {
    word != 0 && word & 1 == 0
}

fn block_layout(bytes: usize) -> Layout {
    match Layout::from_size_align(HEAD_BYTES + bytes, 8) {
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
    // SAFETY: a block's layout has at least the 8 bytes of the head.
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
    debug_assert!((bytes.len() as u64) < OWNER);
    // SAFETY: the block is fresh, 8-aligned, and has room for the head and the bytes.
    unsafe {
        block.cast::<AtomicU64>().write(AtomicU64::new(bytes.len() as u64));
        block.add(HEAD_BYTES).copy_from_nonoverlapping(NonNull::from(bytes).cast::<u8>(), bytes.len());
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
        std::slice::from_raw_parts(block.add(HEAD_BYTES), length_of(*word))
    }
}

/// # Safety
/// `word` is the address of a block that is alive for `'b`.
unsafe fn head<'b>(word: u64) -> &'b AtomicU64 {
    debug_assert!(is_block(word));
    // SAFETY: the caller's promise; a block begins with its head, which is only ever used as an atomic.
    unsafe { &*std::ptr::with_exposed_provenance::<AtomicU64>(word as usize) }
}

fn length_in(head: u64) -> usize {
    (head % OWNER) as usize
}

/// # Safety
/// `word` is the address of a block that is alive.
unsafe fn length_of(word: u64) -> usize {
    // SAFETY: the caller's promise. Relaxed: the length never changes, and came with the address.
    length_in(unsafe { head(word) }.load(Ordering::Relaxed))
}

/// How many bytes a block takes.
///
/// # Safety
/// `word` is the address of a block that is alive.
pub(crate) unsafe fn block_bytes(word: u64) -> usize {
    // SAFETY: the caller's promise.
    HEAD_BYTES + unsafe { length_of(word) }
}

/// Makes one more owner of a block of the heap.
///
/// # Safety
/// The caller is an owner of the block, or holds the record that is.
pub(crate) unsafe fn share_block(word: u64) {
    // SAFETY: the caller's promise. Relaxed: an owner gives the block to the next one.
    unsafe { head(word) }.fetch_add(OWNER, Ordering::Relaxed);
}

/// Gives up a block of the heap; its last owner frees it.
///
/// # Safety
/// `word` is the address of a block of the heap; the caller is an owner of it, does not use it any more, and does not
/// release it twice.
pub(crate) unsafe fn free_block(word: u64) {
    // SAFETY: the caller's promise; the layout is the one it was made with.
    unsafe {
        // Acquire, and AcqRel: what other owners have read was read before the block is freed.
        let mut owned = head(word).load(Ordering::Acquire);
        if owned >= OWNER {
            owned = head(word).fetch_sub(OWNER, Ordering::AcqRel);
            if owned >= OWNER {
                return;
            }
        }
        dealloc(std::ptr::with_exposed_provenance_mut::<u8>(word as usize), block_layout(length_in(owned)));
    }
}
