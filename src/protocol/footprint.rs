//! Footprints: what a call declares to touch before it runs.
//!
//! Made from a procedure's actions and a call's arguments; everything that wants to know beforehand comes from it:
//! which sites a call needs, which keys to look up and prefetch together, what a body may reach.

use crate::storage::table::TableId;
use crate::types::key::EncodedKey;

/// What an action does to its table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Reads only.
    #[default]
    Read,
    /// Reads and writes.
    Write,
    /// Uses commutative operations only, which return nothing.
    Commute,
}

/// One identifier that a call touches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reference {
    /// The table.
    pub(crate) table: TableId,
    /// The key, or the beginning of the keys; empty: the whole table.
    pub(crate) key: EncodedKey,
    /// Whether `key` is a whole key.
    pub(crate) whole: bool,
    /// The hash of a whole key.
    pub(crate) hash: u64,
    /// What is done.
    pub(crate) mode: Mode,
    /// How many bytes of `key` choose the site or dataset: its first component. `None`: the key doesn't have it.
    pub(crate) routing: Option<u16>,
    /// Whether what is done reaches records that the key does not route: a secondary index's.
    pub(crate) unrouted: bool,
}

/// Which instance of which action of a procedure a reference is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instance {
    pub(crate) action: u32,
    /// Counted from 0, within the action.
    pub(crate) number: u32,
}

/// Everything that a call declares: one reference for each action, or for each instance of a repeated one, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Footprint {
    pub(crate) references: Vec<Reference>,
    /// What each reference is, where an action of the procedure is repeated; of no meaning elsewhere.
    pub(crate) instances: Vec<Instance>,
    /// Whether one of them is more than read.
    pub(crate) writes: bool,
}

impl Footprint {
    /// Whether the call declares only reads.
    #[inline]
    pub(crate) fn is_read_only(&self) -> bool {
        !self.writes
    }
}
