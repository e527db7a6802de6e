//! The serial protocol, after Blott and Korth, "An Almost-Serial Protocol for Transaction Execution in Main-Memory
//! Database Systems" (SP, VLDB 2002).
//!
//! Updates run one at a time, without record locks, and leave their partition before the log is on disk (precommit,
//! section 4.2); a reader waits only for the newest commit that it read from (section 4.3: here by the highest epoch
//! that it met, which the waiter slots of `durability` hold until it is durable). Readers run beside each other
//! (section 6.2). The database may be divided into partitions (the paper's sites), each serial in itself (section
//! 6.3); a call takes every partition that its footprint names, in ascending order, and so never deadlocks.
//!
//! - A procedure locks its partitions shared or exclusive by its footprint.
//! - A closure declares nothing. It starts with every partition shared and notes what it reads; if it has writes, it
//!   releases them, locks every partition exclusively, and validates. If something it read has changed, it is retried
//!   with every partition exclusive from the start: a closure runs at most twice, so it does not starve. One whose last
//!   runs wrote has every partition exclusive at once.
//! - Where there are several partitions, a procedure that writes a table with foreign keys takes all of them: shared, if
//!   they are only checked, and exclusive, if they change other rows. What reaches records through a secondary index takes all of them, because index
//!   records are not divided among partitions.
//!
//! Why it is serializable: a thread that commits holds exclusively every partition that it writes and at least shared every
//! partition that it reads, from before its first access (or its validation) to after its install: two-phase locking on
//! partitions.

mod partition;

use std::fmt;
use std::str::FromStr;

use smallvec::SmallVec;

use self::partition::{Partition, acquire, covers, release};
use super::attempt::{Attempt, DIRECT, TRACKED};
use super::footprint::{Footprint, Mode, Reference, Routed};
use super::write_predictor::WritePredictor;
use super::{Held, Hold, Protocol, Settings, Try};
use crate::error::{Error, Result};
use crate::storage::commit::{CommitFailure, Excluded};
use crate::storage::foreign_keys::Reach;
use crate::storage::word::Stamp;

/// The three ways of serial execution that the paper develops, for comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SerialVariant {
    /// Section 4.1: one call at a time, readers too, which holds its partition until it is durable.
    Naive,
    /// Section 4.2: updates leave before they are durable; readers wait for all of the log so far.
    Precommit,
    /// Section 4.3: readers wait only for what they read.
    #[default]
    Sp,
}

impl SerialVariant {
    /// Every variant.
    pub const ALL: &'static [SerialVariant] =
        &[SerialVariant::Naive, SerialVariant::Precommit, SerialVariant::Sp];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            SerialVariant::Naive => "naive",
            SerialVariant::Precommit => "precommit",
            SerialVariant::Sp => "sp",
        }
    }
}

impl fmt::Display for SerialVariant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for SerialVariant {
    type Err = Error;

    fn from_str(text: &str) -> Result<SerialVariant> {
        SerialVariant::ALL.iter().copied().find(|kind| kind.name() == text).ok_or_else(|| {
            Error::InvalidOption {
                option: "variant",
                given: text.to_string(),
                expected: "naive, precommit or sp".to_string(),
            }
        })
    }
}

/// The partitions that an attempt wants, each with whether it wants it alone.
type Wanted = SmallVec<[(usize, bool); 4]>;

/// The serial protocol.
pub(super) struct Serial {
    partitions: Box<[Partition]>,
    variant: SerialVariant,
    write_predictor: WritePredictor,
    /// The maximum number of threads that spin for a partition instead of parking.
    max_spinners: u32,
}

impl Serial {
    pub(super) fn new(settings: &Settings) -> Serial {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Serial {
            partitions: (0..settings.partitions).map(|_| Partition::new()).collect(),
            variant: settings.serial_variant,
            write_predictor: WritePredictor::new(),
            // The naive variant holds its partition while it waits for the disk: no thread should spin that long.
            max_spinners: if settings.serial_variant == SerialVariant::Naive {
                0
            } else {
                processors as u32 - 1
            },
        }
    }

    /// Locks every partition, after a release of all that are held: one kept from an earlier call of the group would
    /// hide that a closure that begins shared may have to upgrade.
    /// Returns false if the attempt is over, because its protocol was replaced while it waited.
    fn take_all(&self, held: &mut Held, alone: bool, attempt: &Attempt<'_>) -> bool {
        release(&self.partitions, held);
        acquire(
            &self.partitions,
            held,
            (0..self.partitions.len()).map(|number| (number, alone)),
            self.max_spinners,
            &|| !attempt.is_of_current_schema(),
        )
    }

    fn wanted(&self, footprint: &Footprint) -> Wanted {
        let naive = self.variant == SerialVariant::Naive;
        let mut wanted = Wanted::new();
        if self.partitions.len() == 1 {
            wanted.push((0, naive || !footprint.is_read_only()));
            return wanted;
        }
        let reach = footprint.reach();
        if reach != Reach::Nothing {
            let alone = naive || reach == Reach::Writes;
            (0..self.partitions.len()).for_each(|number| want(&mut wanted, number, alone));
        }
        for reference in &footprint.references {
            let alone = naive || reference.mode != Mode::Read;
            match self.site_of(reference) {
                Some(number) => want(&mut wanted, number, alone),
                None => (0..self.partitions.len()).for_each(|number| want(&mut wanted, number, alone)),
            }
        }
        wanted.sort_unstable();
        wanted
    }

    fn site_of(&self, reference: &Reference) -> Option<usize> {
        let number = match reference.routing {
            _ if reference.has_secondary_indexes => return None,
            Routed::Unknown => return None,
            Routed::Prefix(bytes) => spread(&reference.key[..usize::from(bytes)]),
            Routed::Hash(place) => spread(&place.to_be_bytes()),
        };
        Some(number % self.partitions.len())
    }

    /// Makes sure that what is held is enough; the rest of a group's calls may need other partitions.
    ///
    /// If the protocol was replaced meanwhile, nothing is held: the body runs unnecessarily, because its commit and its reads belong to a
    /// generation that is over.
    fn take(&self, held: &mut Held, wanted: &Wanted, attempt: &Attempt<'_>) {
        if !covers(held, wanted) {
            release(&self.partitions, held);
            let is_over = || !attempt.is_of_current_schema();
            acquire(&self.partitions, held, wanted.iter().copied(), self.max_spinners, &is_over);
        }
    }

    /// A closure declares nothing: it begins with all partitions.
    fn begin_closure(&self, attempt: &Attempt<'_>, attempted: Try) {
        let optimistic = attempted.number == 1
            && self.variant != SerialVariant::Naive
            && !self.write_predictor.writes(attempted.code);
        attempt.set_access(if optimistic { &TRACKED } else { &DIRECT });
        let mut held = attempt.held().borrow_mut();
        held.code = Some(attempted.code);
        self.take_all(&mut held, !optimistic, attempt);
    }
}

/// The first key component chooses the partition. Its last bytes are those in which neighbors differ, so that small
/// numbers go around the partitions one after another.
fn spread(routing: &[u8]) -> usize {
    let tail = &routing[routing.len().saturating_sub(8)..];
    let mut number = [0; 8];
    number[8 - tail.len()..].copy_from_slice(tail);
    (u64::from_be_bytes(number) & (i64::MAX as u64)) as usize
}

fn want(wanted: &mut Wanted, number: usize, alone: bool) {
    match wanted.iter_mut().find(|(other, _)| *other == number) {
        Some((_, already)) => *already |= alone,
        None => wanted.push((number, alone)),
    }
}

impl Protocol for Serial {
    fn useful_workers(&self) -> usize {
        self.partitions.len()
    }

    fn begin(&self, attempt: &Attempt<'_>, footprint: Option<&Footprint>, attempted: Try) {
        let Some(footprint) = footprint else { return self.begin_closure(attempt, attempted) };
        attempt.set_access(&DIRECT);
        let mut held = attempt.held().borrow_mut();
        held.code = None;
        self.take(&mut held, &self.wanted(footprint), attempt);
    }

    fn commit(&self, attempt: &Attempt<'_>) -> Result<Option<Stamp>, CommitFailure> {
        let writes = !attempt.workspace().borrow().writes.is_empty();
        let mut held = attempt.held().borrow_mut();
        if let Some(code) = held.code {
            self.write_predictor.note(code, writes);
        }
        if !writes {
            return Ok(None);
        }
        let optimistic = attempt.is_tracked();
        if optimistic && !self.take_all(&mut held, true, attempt) {
            return Err(CommitFailure::Conflict);
        }
        drop(held);
        // Only the caller can be busy with a record: it has locked every partition.
        let stamp = attempt.commit(&Excluded, |_| {
            !optimistic || attempt.reads().borrow().still_holds(|_| true, attempt.highest_seen())
        })?;
        let held = attempt.held().borrow();
        for &(number, _) in held.partitions.iter().filter(|&&(_, alone)| alone) {
            self.partitions[number].set_last_epoch(stamp.epoch());
        }
        Ok(Some(stamp))
    }

    fn validate_reads(&self, _attempt: &Attempt<'_>) -> bool {
        // Its partitions were held all along, so the body saw one state, and a possible one.
        true
    }

    fn release_epoch(&self, attempt: &Attempt<'_>, highest_seen: u64) -> u64 {
        if self.variant == SerialVariant::Sp {
            return highest_seen;
        }
        let held = attempt.held().borrow();
        let of_sites = held.partitions.iter().map(|&(number, _)| self.partitions[number].last_epoch()).max();
        highest_seen.max(of_sites.unwrap_or(0))
    }

    fn hold(&self) -> Hold {
        if self.variant == SerialVariant::Naive { Hold::UntilDurable } else { Hold::UntilCommit }
    }

    fn end(&self, attempt: &Attempt<'_>) {
        let mut held = attempt.held().borrow_mut();
        if !held.in_group || attempt.is_tracked() || self.variant == SerialVariant::Naive {
            release(&self.partitions, &mut held);
        }
    }

    fn keeps_between_calls(&self) -> bool {
        true
    }

    fn end_group(&self, held: &mut Held) {
        release(&self.partitions, held);
    }
}
