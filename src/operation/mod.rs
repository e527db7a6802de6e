//! The commutative operations: add, max, min, ordered put, top-K insert.
