//! The error of every SQL statement: a SQLSTATE, a message, and where it applies a position, a detail and a hint.
