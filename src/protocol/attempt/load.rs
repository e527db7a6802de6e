//! Inserts of a session that loads ([`Session::load`](crate::Session::load)): they go at once into the tables that its transaction has
//! made, and no buffer keeps them.
//!
//! # Invariants
//! A row is loaded only into a table that no other transaction has access to, which has no foreign key, of which the session has
//! buffered nothing, and while nothing can be rolled back but the whole transaction. So it needs no lock, no validation and no undo.

use std::sync::Arc;

use smallvec::SmallVec;

use super::write::{duplicate, not_unique};
use super::{Attempt, Target};
use crate::error::Result;
use crate::storage::foreign_keys::TableLinks;
use crate::storage::redo::LoadedRedo;
use crate::storage::table::{LoadScratch, Loaded};
use crate::types::ValueRef;

/// A session's state while it loads.
#[derive(Default)]
pub(crate) struct Loading {
    scratch: LoadScratch,
    /// True if the running access has loaded rows: it must not be executed twice.
    pub(crate) has_loaded: bool,
    /// True if the access has taken a savepoint.
    is_paused: bool,
}

impl<'a> Attempt<'a> {
    /// Loads a row, if the session loads and the table is one that it may load into. Returns true if it has.
    pub(super) fn load(&self, target: &Target<'_, 'a>, values: &[ValueRef<'_>]) -> Result<bool> {
        let mut held = self.held.borrow_mut();
        let Some(session) = &mut held.session else { return Ok(false) };
        let table = target.table;
        if session.loading.as_ref().is_none_or(|loading| loading.is_paused)
            || !session.schema.is_own(table.id())
            // A row whose foreign key refuses it must be taken back, and a deferred one is checked by the writes.
            || table.is_linked() && session.schema.links().table(table.id()).is_some_and(TableLinks::has_own)
        {
            return Ok(false);
        }
        let number = session.number_of(self.store, table)?;
        if session.buffer.is_table_written(number) {
            return Ok(false);
        }
        table.slabs().budget().admit()?;
        let mut coerced = SmallVec::<[ValueRef<'_>; 16]>::new();
        let checked = table.layout().checked_row(values, &mut coerced)?;
        if let Some(checks) = table.checks() {
            checks.check_row(&|column| checked[column])?;
        }
        let Some(loading) = &mut session.loading else { return Ok(false) };
        let cutter = &mut self.workspace.borrow_mut().cutter;
        match table.load((target.hash, target.key), checked, &mut loading.scratch, cutter, self.guard)? {
            Loaded::Row => {
                loading.has_loaded = true;
                Ok(true)
            }
            Loaded::Duplicate => Err(duplicate(table, target.key)),
            Loaded::NotUnique(position, key) => Err(not_unique(table, position, &key)),
            Loaded::Occupied => Ok(false),
        }
    }

    /// The commit logs this behind its other redo.
    pub(crate) fn set_loaded(&self, redo: Option<Arc<LoadedRedo>>) {
        self.workspace.borrow_mut().loaded = redo;
    }

    /// Ends loading: from here on the access can be rolled back in part, so that its inserts are buffered.
    pub(crate) fn stop_loading(&self) {
        if self.claims.get().is_some()
            && let Some(session) = &mut self.held.borrow_mut().session
            && let Some(loading) = &mut session.loading
        {
            loading.is_paused = true;
        }
    }
}
