//! `jsonb`: a JSON document as a tree.
//!
//! Invariants: the members of an object are sorted by the length of their keys and then by bytes, each key once (the
//! last one written wins), which is PostgreSQL's order of output; numbers are `numeric`s without NaN and infinities. No
//! value of SQL nests deeper than [`DEPTH_MAX`], whether it was read or composed: trees are copied, compared and
//! dropped recursively. Recursive functions over them loop instead of using iterator adapters, each of which is on the
//! stack once a level.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::types::numeric::Numeric;

/// Maximum nesting depth of documents: the number of levels below the root.
pub const DEPTH_MAX: usize = 1000;

/// A JSON value.
#[derive(Clone, Debug)]
pub enum Jsonb {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number
    Number(Numeric),
    /// A string
    String(Arc<str>),
    /// An array
    Array(Vec<Jsonb>),
    /// An object
    Object(Members),
}

/// The members of an object, in order.
#[derive(Clone, Debug, Default)]
pub struct Members(Vec<(Arc<str>, Jsonb)>);

fn compare_keys(left: &str, right: &str) -> Ordering {
    left.len().cmp(&right.len()).then_with(|| left.cmp(right))
}

impl Members {
    /// Sorts members and keeps the last of equal keys.
    pub fn from_pairs(mut pairs: Vec<(Arc<str>, Jsonb)>) -> Members {
        pairs.sort_by(|left, right| compare_keys(&left.0, &right.0));
        let mut members: Vec<(Arc<str>, Jsonb)> = Vec::with_capacity(pairs.len());
        for pair in pairs {
            match members.last_mut() {
                Some(last) if last.0 == pair.0 => *last = pair,
                _ => members.push(pair),
            }
        }
        Members(members)
    }

    /// The member with this key.
    pub fn get(&self, key: &str) -> Option<&Jsonb> {
        let found = self.0.binary_search_by(|(other, _)| compare_keys(other, key));
        found.ok().map(|at| &self.0[at].1)
    }

    /// The members in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &(Arc<str>, Jsonb)> {
        self.0.iter()
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there are no members.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds or replaces a member.
    pub fn insert(&mut self, key: Arc<str>, value: Jsonb) {
        match self.0.binary_search_by(|(other, _)| compare_keys(other, &key)) {
            Ok(at) => self.0[at].1 = value,
            Err(at) => self.0.insert(at, (key, value)),
        }
    }

    /// Takes a member out.
    pub fn remove(&mut self, key: &str) -> Option<Jsonb> {
        let found = self.0.binary_search_by(|(other, _)| compare_keys(other, key));
        found.ok().map(|at| self.0.remove(at).1)
    }

    /// The members, as pairs.
    pub fn into_pairs(self) -> Vec<(Arc<str>, Jsonb)> {
        self.0
    }
}

impl Jsonb {
    /// A string.
    pub fn string(text: impl AsRef<str>) -> Jsonb {
        Jsonb::String(Arc::from(text.as_ref()))
    }

    /// Returns true if this is neither an array nor an object.
    pub fn is_scalar(&self) -> bool {
        !matches!(self, Jsonb::Array(_) | Jsonb::Object(_))
    }

    /// Returns true if there are at most this many levels below the root.
    pub fn has_at_most_levels(&self, levels: usize) -> bool {
        match self {
            Jsonb::Array(values) => {
                for value in values {
                    if levels == 0 || !value.has_at_most_levels(levels - 1) {
                        return false;
                    }
                }
                true
            }
            Jsonb::Object(members) => {
                for (_, value) in &members.0 {
                    if levels == 0 || !value.has_at_most_levels(levels - 1) {
                        return false;
                    }
                }
                true
            }
            _ => true,
        }
    }

    /// Approximate number of bytes that the tree occupies.
    pub fn heap_size(&self) -> usize {
        let mut bytes = size_of::<Jsonb>();
        match self {
            Jsonb::String(text) => bytes += text.len() + 16,
            Jsonb::Array(values) => {
                for value in values {
                    bytes += value.heap_size();
                }
            }
            Jsonb::Object(members) => {
                for (key, value) in &members.0 {
                    bytes += 32 + key.len() + value.heap_size();
                }
            }
            _ => {}
        }
        bytes
    }

    fn rank(&self) -> u8 {
        match self {
            Jsonb::Null => 0,
            Jsonb::String(_) => 1,
            Jsonb::Number(_) => 2,
            Jsonb::Bool(_) => 3,
            Jsonb::Array(_) => 4,
            Jsonb::Object(_) => 5,
        }
    }
}

/// PostgreSQL's order: object > array > boolean > number > string > null; longer arrays and objects are greater.
/// Historically, the empty array at the top level is below everything.
impl Ord for Jsonb {
    fn cmp(&self, other: &Jsonb) -> Ordering {
        match (self, other) {
            (Jsonb::Array(left), Jsonb::Array(right)) => compare_arrays(left, right),
            (Jsonb::Array(left), _) if left.is_empty() => Ordering::Less,
            (_, Jsonb::Array(right)) if right.is_empty() => Ordering::Greater,
            (left, right) => compare_nested(left, right),
        }
    }
}

/// The order inside of a document, where the empty array has its ordinary place.
fn compare_nested(left: &Jsonb, right: &Jsonb) -> Ordering {
    match (left, right) {
        (Jsonb::Bool(left), Jsonb::Bool(right)) => left.cmp(right),
        (Jsonb::Number(left), Jsonb::Number(right)) => left.cmp(right),
        (Jsonb::String(left), Jsonb::String(right)) => left.cmp(right),
        (Jsonb::Array(left), Jsonb::Array(right)) => compare_arrays(left, right),
        (Jsonb::Object(left), Jsonb::Object(right)) => compare_objects(left, right),
        (left, right) => left.rank().cmp(&right.rank()),
    }
}

fn compare_arrays(left: &[Jsonb], right: &[Jsonb]) -> Ordering {
    if left.len() != right.len() {
        return left.len().cmp(&right.len());
    }
    for (left, right) in left.iter().zip(right) {
        let order = compare_nested(left, right);
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

/// Compares objects in PostgreSQL's order: number of members, then key, value, key, value.
fn compare_objects(left: &Members, right: &Members) -> Ordering {
    if left.len() != right.len() {
        return left.len().cmp(&right.len());
    }
    for ((key, value), (other_key, other)) in left.0.iter().zip(&right.0) {
        let order = key.cmp(other_key);
        if order.is_ne() {
            return order;
        }
        let order = compare_nested(value, other);
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

impl PartialOrd for Jsonb {
    fn partial_cmp(&self, other: &Jsonb) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Jsonb {
    fn eq(&self, other: &Jsonb) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Jsonb {}

impl Hash for Jsonb {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u8(self.rank());
        match self {
            Jsonb::Null => {}
            Jsonb::Bool(value) => value.hash(state),
            Jsonb::Number(value) => value.hash(state),
            Jsonb::String(value) => value.hash(state),
            Jsonb::Array(values) => values.hash(state),
            Jsonb::Object(members) => {
                for (key, value) in members.iter() {
                    key.hash(state);
                    value.hash(state);
                }
            }
        }
    }
}
