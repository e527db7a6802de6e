//! Binding: the syntax tree becomes the bound tree, in which names are resolved and every expression knows its type.

pub(crate) mod tree;
