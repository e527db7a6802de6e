//! Making a log that was read fit to be written again.
//!
//! Two things have to happen before the engine may rely on what it read:
//! - What lies behind the last whole group becomes zeros, durably, so that it can never be taken for a part of
//!   what is written there next.
//! - The last whole group becomes durable, with those that were in flight when it was written. They were read, and that
//!   proves little: a process that was killed between write and sync leaves them in the system's cache only, and after a
//!   failed sync the cache holds, as if they were clean, pages that the disk never got. So they are written again, with
//!   the same bytes, and synced. (The groups before them were durable before the last one was written.) This is the one
//!   case in which a page that may be durable is written again: a torn write of what is there already changes nothing.

use super::chain::Chain;
use super::failure::{reading, writing};
use super::log_reader::{Extent, Position};
use super::segment::{LogFiles, OpenSegment, Segment};
use super::starts::GroupStarts;
#[cfg(test)]
use super::tail::Cut;
use super::tail::LogEnd;
use crate::Result;
use crate::base::disk::has_bug;

/// The size of the pieces in which bytes are copied and zeroed.
const PIECE_BYTES: u64 = 1 << 20;

/// A log that ends cleanly and durably behind its last whole group.
pub(crate) struct RepairedLog {
    /// The part that was cut off: tests compare it with what was torn.
    #[cfg(test)]
    pub(crate) cut: Option<Cut>,
    /// New groups get higher epochs than this.
    pub(crate) highest_epoch_seen: u64,
    /// The writer gets a higher term than this.
    pub(super) highest_term_seen: u64,
    /// Behind the last whole group.
    pub(super) chain: Chain,
    pub(super) position: Position,
    pub(super) starts: GroupStarts,
    pub(super) files: LogFiles,
    pub(super) segments: Vec<Segment>,
}

/// Zeroes what has to be cut, makes the last whole groups durable, and removes files that interrupted preparations
/// left. It may be interrupted and done again any number of times.
pub(crate) fn repair(end: LogEnd) -> Result<RepairedLog> {
    let mut indexes: Vec<usize> =
        end.last_groups.iter().chain(&end.dirty).map(|extent| extent.start.index).collect();
    indexes.sort_unstable();
    indexes.dedup();
    for index in indexes {
        repair_segment(&end, index)?;
    }
    end.files.remove_temporary_files()?;
    // A segment's name may not be durable yet if the process was killed right after giving it.
    end.files.disk.sync_dir(&end.files.directory).map_err(writing(&end.files.directory))?;
    Ok(RepairedLog {
        #[cfg(test)]
        cut: end.cut,
        highest_epoch_seen: end.highest_epoch_seen,
        highest_term_seen: end.highest_term_seen,
        chain: end.chain,
        position: end.position,
        starts: end.starts,
        files: end.files,
        segments: end.segments,
    })
}

fn repair_segment(end: &LogEnd, index: usize) -> Result<()> {
    let open = end.files.open_write(&end.segments[index])?;
    for extent in end.last_groups.iter().filter(|extent| extent.start.index == index) {
        in_pieces(extent, |offset, bytes| rewrite(&open, offset, bytes))?;
    }
    let dirty = if has_bug!(end.files.disk, TailNotZeroed) { &[] } else { &end.dirty[..] };
    for extent in dirty.iter().filter(|extent| extent.start.index == index) {
        in_pieces(extent, |offset, bytes| write(&open, offset, &vec![0; bytes]))?;
    }
    open.files[0].sync_data().map_err(writing(&open.segment.path))
}

fn in_pieces(extent: &Extent, mut act: impl FnMut(u64, usize) -> Result<()>) -> Result<()> {
    let end = extent.start.offset + extent.bytes;
    let mut offset = extent.start.offset;
    while offset < end {
        let bytes = (end - offset).min(PIECE_BYTES);
        act(offset, bytes as usize)?;
        offset += bytes;
    }
    Ok(())
}

fn rewrite(open: &OpenSegment, offset: u64, bytes: usize) -> Result<()> {
    let mut buffer = vec![0; bytes];
    open.files[0].read_exact_at(&mut buffer, offset).map_err(reading(&open.segment.path))?;
    write(open, offset, &buffer)
}

fn write(open: &OpenSegment, offset: u64, bytes: &[u8]) -> Result<()> {
    open.files[0].write_all_at(bytes, offset).map_err(writing(&open.segment.path))
}
