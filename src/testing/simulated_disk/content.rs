//! A file's bytes: what a reader sees, what is durable, and the changes that lie between.

use super::{Survival, Survivors};

/// The unit that a disk writes whole or not at all.
pub(super) const SECTOR_BYTES: usize = 512;

#[derive(Clone, Default)]
pub(super) struct Content {
    live: Vec<u8>,
    durable: Vec<u8>,
    /// Changes that are in `live`, and not known to be in `durable`, in the order in which they were made.
    pending: Vec<Change>,
    failed_syncs: u64,
}

#[derive(Clone)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    SetLength(usize),
}

impl Change {
    fn apply(&self, target: &mut Vec<u8>) {
        match self {
            Change::Write { offset, bytes } => put(target, *offset, bytes),
            Change::SetLength(length) => target.resize(*length, 0),
        }
    }

    fn apply_torn(&self, target: &mut Vec<u8>, survivors: &mut Survivors) {
        let Change::Write { offset, bytes } = self else {
            return self.apply(target);
        };
        let end = offset + bytes.len();
        if survivors.coin() && target.len() < end {
            // The length reached the disk, whatever becomes of the bytes.
            target.resize(end, 0);
        }
        let mut start = *offset;
        while start < end {
            let stop = end.min((start / SECTOR_BYTES + 1) * SECTOR_BYTES);
            if survivors.coin() {
                put(target, start, &bytes[start - offset..stop - offset]);
            }
            start = stop;
        }
    }
}

fn put(target: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if target.len() < end {
        target.resize(end, 0);
    }
    target[offset..end].copy_from_slice(bytes);
}

impl Content {
    /// A file whose every byte is durable.
    pub(super) fn durable(bytes: Vec<u8>) -> Self {
        Content { live: bytes.clone(), durable: bytes, pending: Vec::new(), failed_syncs: 0 }
    }

    pub(super) fn live(&self) -> &[u8] {
        &self.live
    }

    pub(super) fn len(&self) -> u64 {
        self.live.len() as u64
    }

    pub(super) fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.change(Change::Write { offset, bytes: bytes.to_vec() });
    }

    pub(super) fn set_length(&mut self, length: usize) {
        self.change(Change::SetLength(length));
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.live);
        self.pending.push(change);
    }

    /// A good sync. What an earlier failed one stranded stays stranded.
    pub(super) fn sync(&mut self) {
        for change in self.pending.drain(..) {
            change.apply(&mut self.durable);
        }
    }

    /// A failed sync: some of it reached the disk, and the file system has forgotten about the rest.
    pub(super) fn fail_sync(&mut self, survivors: &mut Survivors) {
        self.durable = self.after_crash(survivors);
        self.pending.clear();
        self.failed_syncs += 1;
    }

    /// The number of syncs that have failed.
    pub(super) fn failed_syncs(&self) -> u64 {
        self.failed_syncs
    }

    /// The bytes that are found after the power went.
    pub(super) fn after_crash(&self, survivors: &mut Survivors) -> Vec<u8> {
        let mut found = self.durable.clone();
        for change in &self.pending {
            match survivors.choose() {
                Survival::Lost => {}
                Survival::Kept => change.apply(&mut found),
                Survival::Torn => change.apply_torn(&mut found, survivors),
            }
        }
        found
    }
}
