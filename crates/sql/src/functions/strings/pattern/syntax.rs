//! The syntax tree of a regular expression.

use super::classes::CharSet;

/// The length of a repetition without an upper bound.
pub(super) const UNBOUNDED: u32 = u32::MAX;

/// Branches, of which one is to match.
#[derive(Debug)]
pub(super) struct Alternatives(pub Vec<Vec<Piece>>);

/// An atom and how often it is repeated.
#[derive(Debug)]
pub(super) struct Piece {
    pub atom: Atom,
    pub min: u32,
    pub max: u32,
    /// The quantifier's preference, if it has one: `{m}` and no quantifier leave that to the atom.
    pub prefers: Option<Preference>,
}

/// The preferred one of several matches that begin at the same character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Preference {
    Longest,
    Shortest,
}

/// The part that a quantifier repeats.
#[derive(Debug)]
pub(super) enum Atom {
    /// One character of a set, by its number.
    Set(usize),
    /// A condition on the place.
    Constraint(Constraint),
    /// Parentheses, and their number if they capture.
    Group(Option<usize>, Alternatives),
    /// `\1`
    BackReference(usize),
}

/// A condition on a place between two characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Constraint {
    TextStart,
    TextEnd,
    LineStart,
    LineEnd,
    WordStart,
    WordEnd,
    WordBoundary,
    NoWordBoundary,
    /// `(?=…)` and the other look-arounds, by number.
    Look(usize),
}

/// `(?=…)`, `(?!…)`, `(?<=…)`, `(?<!…)`.
#[derive(Debug)]
pub(super) struct Look {
    pub inside: Alternatives,
    pub is_behind: bool,
    pub is_negated: bool,
}

/// A pattern that was read.
#[derive(Debug)]
pub(super) struct Parsed {
    pub root: Alternatives,
    pub sets: Vec<CharSet>,
    pub looks: Vec<Look>,
    /// Number of parentheses that capture.
    pub groups: usize,
    pub has_back_references: bool,
}
