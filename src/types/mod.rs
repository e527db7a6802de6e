//! Values and their types: what a column can hold, how it compares, how it is written as bytes.
