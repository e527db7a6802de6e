//! Room on the stack for rules that call themselves: parsing, binding, planning and evaluating nested statements.
//!
//! Invariants: nesting is limited elsewhere (`parse::NESTING_MAX`, `parse::HEIGHT_MAX`), so that the room is bounded;
//! a statement within those limits never exhausts the stack, however small the caller's thread is.

/// Less than this is left: a new stretch is allocated.
const LEAST_BYTES: usize = 192 * 1024;
/// The size of a new stretch.
const STRETCH_BYTES: usize = 2 * 1024 * 1024;

/// The stack of a statement that may nest deeply.
const DEEP_BYTES: usize = 32 * 1024 * 1024;
/// Texts shorter than this cannot nest so deeply that an ordinary stack is too small.
const SHALLOW_TEXT_BYTES: usize = 768;

/// Runs what recurs over a statement of this text's length: planning, evaluating, copying and dropping its trees.
pub(crate) fn for_text<T>(text_bytes: usize, step: impl FnOnce() -> T) -> T {
    if text_bytes <= SHALLOW_TEXT_BYTES {
        step()
    } else {
        stacker::maybe_grow(DEEP_BYTES / 2, DEEP_BYTES, step)
    }
}

/// Runs a step of a recursion with enough stack for it.
pub(crate) fn grow<T>(step: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(LEAST_BYTES, STRETCH_BYTES, step)
}
