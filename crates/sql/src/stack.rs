//! Room on the stack for rules that call themselves: parsing, binding, planning and evaluating nested statements.
//!
//! Invariants: nesting is limited elsewhere (`parse::NESTING_MAX`, `parse::HEIGHT_MAX`), so that the room is bounded;
//! a statement within those limits never exhausts the stack, however small the caller's thread is.

/// Less than this is left: a new stretch is allocated.
const LEAST_BYTES: usize = 192 * 1024;
/// The size of a new stretch.
const STRETCH_BYTES: usize = 2 * 1024 * 1024;

/// Runs a step of a recursion with enough stack for it.
pub(crate) fn grow<T>(step: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(LEAST_BYTES, STRETCH_BYTES, step)
}
