//! The origins of the values of a body's variables, while the body is walked for its footprint.
//!
//! # Invariants
//! - A row variable's origin is that of all its fields together; of NEW and OLD in a trigger's function, each field has its own.

use crate::bind::VariableRef;
use crate::routine::footprint::RowOrigin;
use crate::routine::footprint::collect::Origin;

/// See the module's description.
#[derive(Clone)]
pub(super) struct Origins {
    /// The origins by the numbers of variables.
    slots: Vec<Origin>,
    /// Variables whose fields have origins of their own.
    rows: Vec<(usize, Vec<Origin>)>,
}

impl Origins {
    /// The origins of this many variables, all of the arguments alone.
    pub(super) fn new(variables: usize) -> Origins {
        Origins { slots: vec![Origin::ARGUMENTS; variables], rows: Vec::new() }
    }

    /// The origin of a variable, or of one of its fields.
    pub(super) fn of(&self, variable: &VariableRef) -> Origin {
        let whole = self.slots[variable.slot].clone();
        let Some((_, fields)) = self.rows.iter().find(|(slot, _)| *slot == variable.slot) else {
            return whole;
        };
        match variable.field {
            Some(field) => fields.get(field).cloned().unwrap_or_default().and(whole),
            None => fields.iter().cloned().fold(whole, Origin::and),
        }
    }

    /// The origin of a whole variable.
    pub(super) fn of_slot(&self, slot: usize) -> Origin {
        self.of(&VariableRef { slot, field: None })
    }

    /// Sets the origin of a variable.
    pub(super) fn set(&mut self, slot: usize, origin: Origin) {
        self.rows.retain(|(row, _)| *row != slot);
        self.slots[slot] = origin;
    }

    /// Sets the origin of a variable of a trigger's function.
    pub(super) fn give(&mut self, slot: usize, origin: &RowOrigin) {
        match origin {
            RowOrigin::Value(origin) => self.set(slot, origin.clone()),
            RowOrigin::Fields(fields) => {
                self.set(slot, Origin::ARGUMENTS);
                self.rows.push((slot, fields.clone()));
            }
        }
    }

    /// Sets the origin of a field of a variable, if the variable's fields have origins of their own; returns true if
    /// they have.
    pub(super) fn set_field(&mut self, slot: usize, field: usize, origin: &Origin) -> bool {
        let row = self.rows.iter_mut().find(|(row, _)| *row == slot);
        match row.and_then(|(_, fields)| fields.get_mut(field)) {
            Some(place) => {
                *place = origin.clone();
                true
            }
            None => false,
        }
    }

    /// Makes a variable depend on something more.
    pub(super) fn spoil(&mut self, slot: usize, by: &Origin) {
        let own = std::mem::take(&mut self.slots[slot]);
        self.slots[slot] = own.and(by.clone());
    }

    /// Merges the origins behind two sides of a branch: each value depends on both.
    pub(super) fn merge(&mut self, other: &Origins) {
        for (own, other) in self.slots.iter_mut().zip(&other.slots) {
            *own = std::mem::take(own).and(other.clone());
        }
        for (slot, fields) in &mut self.rows {
            match other.rows.iter().find(|(row, _)| row == slot) {
                Some((_, others)) => {
                    for (own, other) in fields.iter_mut().zip(others) {
                        *own = std::mem::take(own).and(other.clone());
                    }
                }
                None => {
                    let whole = other.slots[*slot].clone();
                    fields.iter_mut().for_each(|own| *own = std::mem::take(own).and(whole.clone()));
                }
            }
        }
    }
}
