//! Operators, scalar functions, aggregates, window functions and set-returning functions, as tables of signatures.
