//! Reading a record as it was in an epoch: its row, a version of it, or its absence.

use super::Versions;
use crate::base::atomics::{Ordering, fence};
use crate::storage::record::Record;
use crate::storage::row::RowLayout;
use crate::storage::word::{ABSENT, BUSY, Stamp};

/// The state of a record in the epoch of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// It had a row, which was written in this epoch, and was copied.
    Row(u64),
    /// It had none, since this epoch or an earlier one.
    Nothing(u64),
}

impl Versions {
    /// Copies the row, as this layout has it, that the record had at the end of `epoch`, which an open snapshot holds and which is sealed. The caller is
    /// pinned, and asks afterwards whether the snapshot has failed ([`has_failed`](super::OpenSnapshot::has_failed)).
    ///
    /// It waits for no writer, not even for one in the middle of an install. The argument, for a record whose word shows an
    /// epoch that the snapshot contains: what the copy shows is that row, unless an install has begun to change it, which
    /// must be of a later epoch. Before an install changes the first word of the row it puts the row it overwrites into the side
    /// table, and then fences (release, in `commit::install`). If any copied word came from it, the fence here (acquire) makes
    /// sure that the look into the side table finds that version. If the look finds none, and the word has not changed, the copy
    /// was the row; if the word has changed without a version, nothing but a mark has, and it is tried again.
    pub(crate) fn read(&self, layout: &RowLayout, record: Record<'_>, epoch: u64, copy: &mut [u64]) -> Found {
        loop {
            // Acquire pairs with the release that ends an install, and with that of the one which deletes.
            let word = record.word().load(Ordering::Acquire);
            let written = Stamp::of(word).epoch();
            if written > epoch {
                return self.find(layout, record, epoch, copy).unwrap_or(Found::Nothing(epoch));
            }
            if word & ABSENT != 0 {
                return Found::Nothing(written);
            }
            record.copy(layout, copy);
            fence(Ordering::Acquire);
            let now = record.word().load(Ordering::Relaxed);
            if now == word && word & BUSY == 0 {
                return Found::Row(written);
            }
            if let Some(found) = self.find(layout, record, epoch, copy) {
                return found;
            }
            if now == word {
                return Found::Row(written);
            }
        }
    }

    fn find(&self, layout: &RowLayout, record: Record<'_>, epoch: u64, copy: &mut [u64]) -> Option<Found> {
        let address = record.pointer().to_bits();
        #[cfg(test)]
        if self.is_broken(super::Break::KeepsVersionsTooLong)
            && let Some(overwritten) = self.shard(address).lock().find(layout, address, epoch - 1, copy)
        {
            return Some(Found::Row(overwritten));
        }
        self.shard(address).lock().find(layout, address, epoch, copy).map(Found::Row)
    }
}
