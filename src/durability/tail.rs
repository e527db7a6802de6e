//! The end of the log's whole groups: decides whether the log ends there, or is damaged.
//!
//! Each block says which blocks were durable when its group was written: all but those of the groups that were in flight
//! then. So if a block of a *later* group lies anywhere behind the first block that is missing, and says that this one
//! was durable, something else than a power loss has destroyed it: that is damage, and nothing is cut. Blocks of the same
//! unfinished group, and of a group that was written while it was in flight, prove nothing: neither was acknowledged.

use std::fmt;
use std::path::PathBuf;

use super::PAGE_BYTES;
use super::block::BlockHeader;
use super::chain::Chain;
use super::failure::damaged;
use super::log_reader::{Extent, Position};
use super::position::{LogPosition, time_of_group};
use super::segment::{LogFiles, Segment};
use super::starts::GroupStarts;
use super::window::Window;
use crate::Result;
use crate::types::Timestamp;

static ZEROS: [u8; PAGE_BYTES as usize] = [0; PAGE_BYTES as usize];

/// The rest that a power failure left of groups that were never acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// The segment in which the unfinished group begins.
    pub(crate) path: PathBuf,
    /// The offset in that segment at which the group begins.
    pub(crate) offset: u64,
    /// Number of nonzero bytes that are thrown away.
    pub(crate) dropped_bytes: u64,
}

impl fmt::Display for Cut {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cut { path, offset, dropped_bytes } = self;
        write!(
            formatter,
            "the log's end was unfinished and never acknowledged; {dropped_bytes} bytes of it were cut at byte \
             {offset} of {}",
            path.display()
        )
    }
}

/// The end of a log that is not damaged.
pub(crate) struct LogEnd {
    /// The part that has to be thrown away; `None` if nothing lies behind the last whole group.
    pub(crate) cut: Option<Cut>,
    /// The last whole group's epoch; 0 if there is none.
    pub(crate) last_epoch: u64,
    /// The highest epoch met, unfinished groups included. New groups get higher ones.
    pub(crate) highest_epoch_seen: u64,
    /// The highest term met, unfinished groups included. The next writer gets a higher one.
    pub(super) highest_term_seen: u64,
    /// Behind the last whole group.
    pub(super) chain: Chain,
    /// Right behind the last whole group.
    pub(super) position: Position,
    /// Extents of the last whole group, and of those that were in flight when it was written.
    pub(super) last_groups: Vec<Extent>,
    /// Positions at which groups begin.
    pub(super) starts: GroupStarts,
    /// Extents behind the last whole group that are not zeros.
    pub(super) dirty: Vec<Extent>,
    pub(super) files: LogFiles,
    pub(super) segments: Vec<Segment>,
}

impl LogEnd {
    /// The position of the last whole group; `None` if there is none.
    pub(crate) fn last_position(&self) -> Option<LogPosition> {
        (self.last_epoch > 0).then(|| self.chain.position())
    }

    /// The time of the last whole group, if it has one.
    pub(crate) fn last_time(&self) -> Option<Timestamp> {
        time_of_group(self.chain.time())
    }

    /// Checks that the log reaches as far as is known to have been durable.
    ///
    /// # Errors
    /// It ends before a group of this epoch: what looks like its end is damage.
    pub(crate) fn must_reach(&self, epoch: u64) -> Result<()> {
        if self.last_epoch >= epoch {
            return Ok(());
        }
        let segment = &self.segments[self.position.index];
        let detail = format!(
            "the log ends there with epoch {}, but a checkpoint was made when a group of epoch {epoch} was durable",
            self.last_epoch
        );
        Err(damaged(&segment.path, self.position.offset, detail))
    }
}

/// The group whose blocks are not all there.
pub(super) struct UnfinishedGroup {
    pub(super) start: Position,
    /// The position of the first missing block, and its sequence number.
    pub(super) first_missing: Position,
    pub(super) missing_sequence: u64,
    /// The sequence number of its first block.
    pub(super) first_sequence: u64,
}

/// Summary of the bytes behind the last whole group.
#[derive(Default)]
pub(super) struct Tail {
    pub(super) highest_epoch: u64,
    pub(super) highest_term: u64,
    pub(super) dropped_bytes: u64,
    pub(super) dirty: Vec<Extent>,
}

/// Looks at everything from the unfinished group's start to the last segment's end.
pub(super) fn examine(files: &LogFiles, segments: &[Segment], group: &UnfinishedGroup) -> Result<Tail> {
    let mut tail = Tail::default();
    for index in group.start.index..segments.len() {
        let offset = if index == group.start.index { group.start.offset } else { PAGE_BYTES };
        examine_segment(files, segments, group, Position { index, offset }, &mut tail)?;
    }
    Ok(tail)
}

fn examine_segment(
    files: &LogFiles,
    segments: &[Segment],
    group: &UnfinishedGroup,
    start: Position,
    tail: &mut Tail,
) -> Result<()> {
    let segment = &segments[start.index];
    let mut window = Window::open(files, segment)?;
    // The payload of a block that is cut ends here: a user's bytes, which prove nothing.
    let mut payload_end = start.offset;
    let mut place = start;
    while place.offset < segment.bytes {
        let page = window.bytes(place.offset, PAGE_BYTES)?;
        if page != ZEROS {
            tail.note_dirty_page(place, page);
            if place.offset >= payload_end
                && let Some(header) = BlockHeader::decode(page, files.uuid)
            {
                if header.durable_before() > group.missing_sequence {
                    return Err(damage(segments, group, place));
                }
                if header.group_start() >= group.first_sequence {
                    tail.highest_epoch = tail.highest_epoch.max(header.epoch);
                    tail.highest_term = tail.highest_term.max(header.term);
                    payload_end = place.offset + header.disk_bytes();
                }
            }
        }
        place.offset += PAGE_BYTES;
    }
    Ok(())
}

fn damage(segments: &[Segment], group: &UnfinishedGroup, later: Position) -> crate::Error {
    let missing = &segments[group.first_missing.index];
    let witness = &segments[later.index];
    let detail = format!(
        "the log block there is not as it was written, and a group that was written later follows at byte {} of {}",
        later.offset,
        witness.path.display()
    );
    damaged(&missing.path, group.first_missing.offset, detail)
}

impl Tail {
    fn note_dirty_page(&mut self, place: Position, page: &[u8]) {
        self.dropped_bytes += page.iter().filter(|byte| **byte != 0).count() as u64;
        match self.dirty.last_mut() {
            Some(extent)
                if extent.start.index == place.index
                    && extent.start.offset + extent.bytes == place.offset =>
            {
                extent.bytes += PAGE_BYTES;
            }
            _ => self.dirty.push(Extent { start: place, bytes: PAGE_BYTES }),
        }
    }
}
