//! Layouts: the slot of each column in a row, while a query is planned.
//!
//! Rows are flat arrays of slots. A layout maps columns, groups and results of functions to slots, so that bound
//! expressions, which name columns, become expressions over slots, and the executor looks no name up.

use std::collections::HashMap;

use crate::bind::tree::RelationId;
use crate::plan::node::Plan;

/// The content of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// A relation's column.
    Column(RelationId, usize),
    /// A grouping expression of the query that is being planned.
    Group(usize),
    /// An aggregate of the query with this id.
    Aggregate(RelationId, usize),
    /// A window function's result.
    Window(usize),
    /// The number of the grouping set that a row belongs to.
    GroupingSet,
}

/// Map from columns and computed values to the slots that hold them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    slots: HashMap<Key, usize>,
}

impl Layout {
    /// The columns of a relation, one after the other.
    pub(crate) fn of_relation(relation: RelationId, columns: impl IntoIterator<Item = usize>) -> Layout {
        let keys = columns.into_iter().map(|column| Key::Column(relation, column));
        Layout { slots: keys.enumerate().map(|(slot, key)| (key, slot)).collect() }
    }

    pub(crate) fn slot(&self, key: Key) -> Option<usize> {
        self.slots.get(&key).copied()
    }

    pub(crate) fn set(&mut self, key: Key, slot: usize) {
        self.slots.insert(key, slot);
    }

    /// Returns true if it holds columns of this relation.
    pub(crate) fn has_relation(&self, relation: RelationId) -> bool {
        self.slots.keys().any(|key| matches!(key, Key::Column(other, _) if *other == relation))
    }

    /// The relations of which it holds columns.
    pub(crate) fn relations(&self) -> Vec<RelationId> {
        let of_key = |key: &Key| match key {
            Key::Column(relation, _) => Some(*relation),
            _ => None,
        };
        let mut relations: Vec<RelationId> = self.slots.keys().filter_map(of_key).collect();
        relations.sort_unstable_by_key(|relation| relation.0);
        relations.dedup();
        relations
    }

    /// This layout, followed after its `width` slots by another one.
    pub(crate) fn joined(&self, width: usize, right: &Layout) -> Layout {
        let mut slots = self.slots.clone();
        slots.extend(right.slots.iter().map(|(key, slot)| (*key, slot + width)));
        Layout { slots }
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (Key, usize)> {
        self.slots.iter().map(|(key, slot)| (*key, *slot))
    }
}

/// A plan under construction.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) plan: Plan,
    pub(crate) layout: Layout,
    /// The columns by which its rows are sorted, if they are.
    pub(crate) order: Vec<Sorted>,
}

/// A column by which rows are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sorted {
    pub(crate) key: Key,
    pub(crate) descending: bool,
    /// All rows have the same value, so that it orders nothing.
    pub(crate) is_fixed: bool,
    /// True if NULLs are first, false if last; `None` if there are none, or if they may be anywhere.
    pub(crate) nulls_first: Option<bool>,
}
