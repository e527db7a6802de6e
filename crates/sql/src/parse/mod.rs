//! Parsing: a statement's text becomes the syntax tree of this crate, in which nodes know their source positions.
