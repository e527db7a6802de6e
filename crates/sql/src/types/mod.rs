//! SQL types and their values: text and binary formats, casts, arithmetic.
