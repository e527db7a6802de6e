//! The look at each key and range that a session has read, once more: what is there now, or was there in its snapshot.
//!
//! The protocol covers these looks as any read.

use std::ops::Bound;

use super::SessionMode;
use crate::base::atomics::Ordering;
use crate::error::{Error, Result};
use crate::protocol::attempt::scan::as_slice;
use crate::protocol::attempt::{Attempt, Claim, KeyRange};
use crate::storage::index::Lookup;
use crate::storage::read_set::Part;
use crate::storage::session_buffer::{Key, Observed, RangeRead};
use crate::storage::table::TableCore;
use crate::storage::versions::Found;
use crate::storage::word::{ABSENT, DEAD, SPLIT, Stamp};
use crate::types::key::EncodedKey;

impl<'a> Attempt<'a> {
    /// The epoch of the snapshot that it reads from; 0: none.
    pub(super) fn as_of(&self) -> u64 {
        match self.held.borrow().session.as_ref().map(|session| session.mode) {
            Some(SessionMode::Snapshot(epoch)) => epoch,
            _ => 0,
        }
    }

    /// The state of a key in a snapshot of this epoch.
    pub(crate) fn observe_as_of(
        &self,
        table: &TableCore,
        key: &[u8],
        part: Part,
        epoch: u64,
    ) -> Result<Observed> {
        let table = self.hold(table)?;
        let present = match table.find(table.hash(key), key, self.guard) {
            Lookup::Missing(_) => false,
            Lookup::Found(record) => {
                matches!(self.store.versions().read(table.layout(), record, epoch, &mut []), Found::Row(_))
            }
        };
        Ok(Observed { part, present, stamp: Stamp::new(epoch, 0), is_bound: true, phase: 0 })
    }

    /// Looks a key up again and notes what is there.
    ///
    /// # Errors
    /// Same errors as a read under the protocol.
    pub(crate) fn observe(&self, table: &TableCore, key: &[u8], part: Part) -> Result<Observed> {
        let table = self.hold(table)?;
        self.claim_below_session(table, key, Claim::Read)?;
        let hash = table.hash(key);
        loop {
            let record = match table.find(hash, key, self.guard) {
                Lookup::Found(record) => record,
                Lookup::Missing(version) => {
                    (self.access.get().missed)(self, version)?;
                    return Ok(Observed {
                        part,
                        present: false,
                        stamp: Stamp::ZERO,
                        is_bound: false,
                        phase: 0,
                    });
                }
            };
            let word = record.stable_word();
            self.reads.borrow_mut().note(record, word, part);
            if word == DEAD {
                continue;
            }
            self.note_seen(word);
            let present = word & ABSENT == 0;
            let is_split = present && part == Part::Row && word & SPLIT != 0;
            let phase = self.phase_if(is_split);
            return Ok(Observed { part, present, stamp: Stamp::of(word), is_bound: false, phase });
        }
    }

    /// The number of the split phase, in which the attempt must end then.
    fn phase_if(&self, is_split: bool) -> u64 {
        if !is_split {
            return 0;
        }
        let phase = self.store.splits().current(self.guard).map(|set| set.phase());
        self.reads.borrow_mut().note_phase(phase);
        phase.unwrap_or(0)
    }

    /// Returns true if a range has no rows but known ones; for one that was read from a snapshot: if nothing in it is
    /// newer.
    ///
    /// # Errors
    /// Same errors as a read under the protocol.
    pub(crate) fn has_only(
        &self,
        table: &TableCore,
        range: &RangeRead,
        is_known: impl Fn(&[u8]) -> bool,
    ) -> Result<bool> {
        let table = self.hold(table)?;
        let owned = |bound: &Bound<Key>| bound.as_ref().map(|key| EncodedKey::from(&key[..]));
        let mut pages = KeyRange::all_of(table, owned(&range.lower), owned(&range.upper));
        if let Some(claim) = self.access.get().range {
            let (_, lower, upper) = pages.bounds();
            claim(self, table, as_slice(lower), as_slice(upper))?;
        }
        while self.next_page(&mut pages)? {
            for &record in pages.page() {
                if range.as_of.is_some() {
                    // The range includes the rows in it: until the commit they must not change.
                    self.claim_below_session(table, record.key(), Claim::Read)?;
                }
                let word = record.stable_word();
                let part = if range.as_of.is_some() { Part::Row } else { Part::Existence };
                self.reads.borrow_mut().note(record, word, part);
                self.note_seen(word);
                let is_unchanged = match range.as_of {
                    _ if word == DEAD => true,
                    None => word & ABSENT != 0 || is_known(record.key()),
                    Some(_) if word & (SPLIT | ABSENT) == SPLIT => return Err(self.wait_for_joined_phase()),
                    Some(epoch) => Stamp::of(word).epoch() <= epoch,
                };
                if !is_unchanged {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Has the attempt retried in the next joined phase.
    pub(crate) fn wait_for_joined_phase(&self) -> Error {
        // Relaxed: the protocol looks at it on this thread.
        self.worker_context.met_hidden.store(true, Ordering::Relaxed);
        Error::Conflict
    }
}
