//! Samples that worker contexts give the coordinator: the records that they conflict about, and those that make them
//! stash calls.
//!
//! Each worker context has one [`Sampler`], which only its own thread writes and the coordinator drains at the end of a
//! phase; so its lock is free nearly always. It is asked only where a call is delayed anyway, never on the hot path.
//!
//! The counts are kept by the space-saving scheme (Metwally et al., 2005): a fixed number of entries, of which the
//! least counted makes room for a newcomer, which inherits its count. What is reported is an entry's own count
//! without the inheritance: never more than what was reported, so that conflicts spread over very many records can't
//! make one of them look contended; and close to the truth for whatever has a fair share of all reports.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::operation::Operation;
use crate::storage::index::hash::hash_key;
use crate::storage::table::TableId;
use crate::types::key::EncodedKey;

/// Entries for each of conflicts and stashes. At most as many columns are split at once: whatever is worth splitting
/// has more than this share of a worker context's reports, or there are more such columns than can be split.
const ENTRIES: usize = 64;
/// Number of reports between two drains that are all counted: below it, the counts are exact.
const EXACT_REPORTS: u64 = 256;
/// One in this many further reports is counted, for all of them: at a million conflicts per second what remains is
/// a lock without rivals and a decrement.
const SAMPLED_ONE_IN: u64 = 8;

/// The identity of a record, which finds it again without an address that could die.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RecordKey {
    pub(crate) table: TableId,
    pub(crate) key: EncodedKey,
}

/// A column of a record that could be split for an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) record: RecordKey,
    pub(crate) column: u16,
    pub(crate) operation: Operation,
}

/// The access of a call to a record, made or about to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// An operation on a column for which that column can be split.
    Operation { column: u16, operation: Operation },
    /// A read or another write of this column alone.
    Column(u16),
    /// A read or another write of the record as a whole, or of columns that are not known.
    Record,
}

impl Access {
    /// A number that no other access has.
    fn code(self) -> u32 {
        match self {
            Access::Record => 0,
            Access::Column(column) => 1 << 24 | u32::from(column) << 8,
            Access::Operation { column, operation } => {
                2 << 24 | u32::from(column) << 8 | u32::from(operation as u8)
            }
        }
    }
}

impl Ord for Access {
    fn cmp(&self, other: &Access) -> std::cmp::Ordering {
        self.code().cmp(&other.code())
    }
}

impl PartialOrd for Access {
    fn partial_cmp(&self, other: &Access) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The number of accesses of each kind, by record.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts(BTreeMap<RecordKey, BTreeMap<Access, u64>>);

impl Counts {
    /// Adds to the count of one access to one record.
    pub(crate) fn add(&mut self, record: RecordKey, access: Access, count: u64) {
        *self.0.entry(record).or_default().entry(access).or_insert(0) += count;
    }

    /// The counts of one record.
    pub(crate) fn get(&self, record: &RecordKey) -> Option<&BTreeMap<Access, u64>> {
        self.0.get(record)
    }

    /// Every record with its counts, always in the same order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&RecordKey, &BTreeMap<Access, u64>)> {
        self.0.iter()
    }
}

/// The samples of all worker contexts in one phase.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples {
    /// Attempts that met a rival at a record.
    pub(crate) conflicts: Counts,
    /// Calls that were stashed because of a split record.
    pub(crate) stashes: Counts,
    /// Operations on columns whose policy is that they are always split, while they were not.
    pub(crate) operations: Counts,
}

/// One worker context's samples of the current phase.
#[derive(Default)]
pub(crate) struct Sampler {
    /// Locked by the worker context's thread for each report, and once a phase by the coordinator.
    tallies: Mutex<Tallies>,
}

#[derive(Default)]
struct Tallies {
    conflicts: Tally,
    stashes: Tally,
    operations: Tally,
}

impl Sampler {
    /// A sampler without samples.
    pub(crate) fn new() -> Sampler {
        Sampler::default()
    }

    /// An attempt found this record taken by a rival, or its read of it failed the validation. `accesses` is what the
    /// attempt did with the record: all its operations there, if it did nothing else that they couldn't be split
    /// from, or else [`Access::Column`] or [`Access::Record`]. Once for each attempt.
    pub(crate) fn report_conflict(&self, table: TableId, key: &[u8], accesses: &[Access]) {
        self.tallies.lock().conflicts.report(table, key, accesses);
    }

    /// Notes a call that was stashed because of this record: `accesses` is what was not possible on it while it is
    /// split. Called once for each call that is stashed.
    pub(crate) fn report_stash(&self, table: TableId, key: &[u8], accesses: &[Access]) {
        self.tallies.lock().stashes.report(table, key, accesses);
    }

    /// Returns true if nothing was counted since the last drain.
    pub(crate) fn is_empty(&self) -> bool {
        let tallies = self.tallies.lock();
        tallies.conflicts.entries.is_empty()
            && tallies.stashes.entries.is_empty()
            && tallies.operations.entries.is_empty()
    }

    /// Notes operations of a commit on columns of this record that are always to be split, and are not. Returns true if it was counted,
    /// and not one of those for which another one counts.
    pub(crate) fn report_operations(&self, table: TableId, key: &[u8], accesses: &[Access]) -> bool {
        self.tallies.lock().operations.report(table, key, accesses)
    }

    /// Moves everything into the samples of all worker contexts.
    pub(crate) fn drain_into(&self, samples: &mut Samples) {
        // The lock is held for three moves only; a tally gets its memory again when it is next used.
        let (conflicts, stashes, operations) = {
            let mut tallies = self.tallies.lock();
            (tallies.conflicts.take(), tallies.stashes.take(), tallies.operations.take())
        };
        conflicts.hand_batch(&mut samples.conflicts);
        stashes.hand_batch(&mut samples.stashes);
        operations.hand_batch(&mut samples.operations);
    }
}

/// The most frequent of the reports since the last drain.
#[derive(Default)]
struct Tally {
    /// The hashes by which entries are compared, apart from the entries, so that a search reads eight cache lines at
    /// most. Two things that share 64 bits of hash are counted as one: then a record is split that need not be, which
    /// is undone by its lack of writes.
    fingerprints: Vec<u64>,
    /// The count of each entry, with what it inherited.
    counts: Vec<u64>,
    entries: Vec<Entry>,
    /// The number of reports that were counted, each for itself or for others too.
    counted: u64,
    /// The number of reports that pass before the next one is counted.
    skip: u64,
    /// The state of the pseudo-random numbers that vary the gaps: a fixed gap would meet the same call of a regular
    /// sequence every time. It goes on over drains.
    random: u32,
}

struct Entry {
    record: RecordKey,
    access: Access,
    /// The part of the count that is others'.
    inherited: u64,
}

impl Tally {
    /// Counts a report. The accesses of one report are counted or skipped together, so that columns which are used
    /// together have equal counts. Returns true if it was counted.
    fn report(&mut self, table: TableId, key: &[u8], accesses: &[Access]) -> bool {
        let Some(weight) = self.weight() else { return false };
        let hash = hash_key(key);
        for &access in accesses {
            self.count(fingerprint(hash, table, access), table, key, access, weight);
        }
        true
    }

    /// The number of reports that this one counts for; `None` if it is skipped.
    fn weight(&mut self) -> Option<u64> {
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        self.counted += 1;
        if self.counted < EXACT_REPORTS {
            return Some(1);
        }
        // From nothing to twice what is skipped on average.
        self.skip = self.next_random() % (2 * SAMPLED_ONE_IN - 1);
        Some(if self.counted == EXACT_REPORTS { 1 } else { SAMPLED_ONE_IN })
    }

    /// A linear congruential generator (the constants of "Numerical Recipes"), by its better upper bits.
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        u64::from(self.random >> 16)
    }

    fn count(&mut self, fingerprint: u64, table: TableId, key: &[u8], access: Access, weight: u64) {
        if let Some(at) = self.fingerprints.iter().position(|&known| known == fingerprint) {
            self.counts[at] += weight;
            return;
        }
        let record = RecordKey { table, key: EncodedKey::from(key) };
        if self.entries.len() < ENTRIES {
            self.fingerprints.push(fingerprint);
            self.counts.push(weight);
            self.entries.push(Entry { record, access, inherited: 0 });
            return;
        }
        let least = (0..ENTRIES).min_by_key(|&at| self.counts[at]).unwrap_or(0);
        self.fingerprints[least] = fingerprint;
        self.entries[least] = Entry { record, access, inherited: self.counts[least] };
        self.counts[least] += weight;
    }

    /// Everything that was counted; an empty tally stays.
    fn take(&mut self) -> Tally {
        let random = self.random;
        std::mem::replace(self, Tally { random, ..Tally::default() })
    }

    fn hand_batch(self, counts: &mut Counts) {
        for (entry, count) in self.entries.into_iter().zip(self.counts) {
            counts.add(entry.record, entry.access, count - entry.inherited);
        }
    }
}

/// One number for the three things that identify an entry.
fn fingerprint(hash: u64, table: TableId, access: Access) -> u64 {
    // Odd multipliers (of the golden ratio and of splitmix64) spread the small numbers over all bits.
    let table = u64::from(table).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let access = u64::from(access.code()).wrapping_add(1).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    hash ^ table ^ access.rotate_left(32)
}

#[cfg(test)]
mod tests;
