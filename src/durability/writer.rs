//! Writing the log: one group after the other; at most [`GROUPS_IN_FLIGHT_MAX`] of them are written and not durable.
//!
//! Invariants: a group that is acknowledged is durable, whole, and so are all before it. After a failed sync, and after a write
//! that has failed on a broken disk, the writer is closed for good: the system may have thrown away what it could not write, so
//! trying again proves nothing. A write that finds no room, which a file system that copies what it overwrites has also for
//! a segment that exists, or finds the file system read-only, has changed nothing that counts: the same bytes are written
//! again to the same place, for as long as the caller waits.

use std::collections::VecDeque;
use std::sync::Arc;

use super::block::{BlockHeader, HEADER_BYTES, block_bytes, checksum, group_bytes_max, header_checksum};
use super::chain::Chain;
use super::failure::writing;
use super::groups_in_flight::{GROUPS_IN_FLIGHT_MAX, GroupsInFlight, Unsynced};
use super::segment::OpenSegment;
use super::space::may_pass;
use super::starts::GroupStart;
use super::{PAGE_BYTES, RepairedLog, SegmentSizes, Segments, Uuid};
use crate::base::disk::has_bug;
use crate::storage::redo::RedoPart;
use crate::types::Timestamp;
use crate::types::memory::{Refused, reserve};
use crate::{Error, Result};

/// The most memory that the buffer keeps between groups.
const RETAINED_BYTES: u64 = 1 << 20;

/// The log's one writer.
pub(crate) struct LogWriter {
    segments: Arc<Segments>,
    uuid: Uuid,
    block_bytes_max: u64,
    current: Arc<OpenSegment>,
    /// The offset of the next block in the present segment.
    offset: u64,
    /// Behind the last block.
    chain: Chain,
    /// The next group's epoch is higher.
    last_epoch: u64,
    /// This writer's term.
    term: u64,
    /// The file handle of the segment through which the next group is written: not that of the group before it.
    lane: usize,
    in_flight: Arc<GroupsInFlight>,
    /// The block that is being put together; kept for its memory.
    buffer: Vec<u8>,
}

/// The parts of a group's payload, of which blocks take as much as they hold.
struct Source<'a> {
    parts: &'a [RedoPart<'a>],
    /// Bytes of the first part that are taken already.
    taken: u64,
    left: u64,
}

impl<'a> Source<'a> {
    fn new(parts: &'a [RedoPart<'a>]) -> Self {
        Source { parts, taken: 0, left: parts.iter().map(|part| part.len()).sum() }
    }

    /// Moves the next `count` bytes to the end of `target`; they are there.
    ///
    /// # Errors
    /// A part's file cannot be read.
    fn append_to(&mut self, target: &mut Vec<u8>, count: usize) -> Result<()> {
        let mut wanted = count as u64;
        while wanted > 0
            && let Some((first, rest)) = self.parts.split_first()
        {
            let piece = wanted.min(first.len() - self.taken);
            first.read(self.taken, piece as usize, target)?;
            wanted -= piece;
            self.taken += piece;
            if self.taken == first.len() {
                (self.parts, self.taken) = (rest, 0);
            }
        }
        self.left -= count as u64 - wanted;
        Ok(())
    }
}

impl LogWriter {
    /// Continues behind the last whole group. The segments behind the present one are ready at once.
    pub(crate) fn open(log: RepairedLog, options: &SegmentSizes) -> Result<(LogWriter, Arc<Segments>)> {
        let mut open = log.segments[log.position.index..]
            .iter()
            .map(|segment| log.files.open_write(segment))
            .collect::<Result<VecDeque<_>>>()?;
        let next_number = log.segments.last().map_or(1, |last| last.number + 1);
        let uuid = log.files.uuid;
        let Some(current) = open.pop_front() else {
            return Err(log.files.missing(next_number, "the log has no segment to write to"));
        };
        let room = current.segment.bytes - log.position.offset;
        let mut buffer = Vec::new();
        // With as much, every group can be written, if in more blocks.
        reserve(&mut buffer, options.block_bytes_max().min(RETAINED_BYTES) as usize)
            .map_err(Refused::error)?;
        let segments = Arc::new(Segments::new(log.files, *options, room, open, next_number, log.starts));
        let writer = LogWriter {
            segments: segments.clone(),
            uuid,
            block_bytes_max: options.block_bytes_max(),
            current: Arc::new(current),
            offset: log.position.offset,
            chain: log.chain,
            last_epoch: log.highest_epoch_seen,
            term: log.highest_term_seen.saturating_add(1),
            lane: 0,
            in_flight: Arc::new(GroupsInFlight::new(GROUPS_IN_FLIGHT_MAX)),
            buffer,
        };
        Ok((writer, segments))
    }

    /// This writer's term.
    pub(crate) fn term(&self) -> u64 {
        self.term
    }

    /// The groups that were written and are not durable.
    pub(crate) fn in_flight(&self) -> &Arc<GroupsInFlight> {
        &self.in_flight
    }

    /// Writes a group, and returns when it is durable: how many files were synced for it.
    ///
    /// # Errors
    /// Same errors as [`write_group`](Self::write_group) and [`Unsynced::sync`].
    #[cfg(test)]
    pub(crate) fn append_group(&mut self, epoch: u64, payload: &[&[u8]]) -> Result<u64> {
        let parts: Vec<_> = payload.iter().map(|part| RedoPart::Bytes(part)).collect();
        let written = self.write_group(epoch, &parts, &mut |_| false)?;
        let flushes = written.flushes();
        written.sync().map(|_| flushes)
    }

    /// Writes a group, which is durable when it is synced, and those before it are. Its epoch is higher than those of all
    /// groups before, read or written. Where the disk is full or read-only, `waits` has the error, waits and says whether the
    /// write is tried again.
    ///
    /// # Errors
    /// [`Error::LogFull`] means that nothing was written and that it may be tried again. After any other error the
    /// group's fate is unknown until the log is read again, and every later call fails with the same error.
    ///
    /// # Panics
    /// If the epoch does not rise, or too many groups are in flight: the log would be unreadable.
    pub(crate) fn write_group(
        &mut self,
        epoch: u64,
        payload: &[RedoPart<'_>],
        waits: &mut dyn FnMut(&Error) -> bool,
    ) -> Result<Unsynced> {
        if let Some(failure) = self.in_flight.failure() {
            return Err(failure);
        }
        assert!(epoch > self.last_epoch, "epoch {epoch} was appended after epoch {}", self.last_epoch);
        assert!(self.in_flight.has_room(), "more groups are in flight than a segment has files");
        let source = Source::new(payload);
        let (needed, available) = (group_bytes_max(source.left), self.segments.remaining_bytes());
        if needed > available {
            return Err(Error::LogFull { needed, available });
        }
        let written = self.write_blocks(epoch, source, waits);
        let (start, files) = written.map_err(|error| self.in_flight.fail(&error))?;
        let lane = self.lane;
        (self.last_epoch, self.lane) = (epoch, (lane + 1) % GROUPS_IN_FLIGHT_MAX);
        let (segments, in_flight) = (self.segments.clone(), self.in_flight.clone());
        Ok(Unsynced { start, files, lane, segments, in_flight })
    }

    /// The reason why nothing more is written; `None` if writing continues.
    #[cfg(test)]
    pub(crate) fn failure(&self) -> Option<Error> {
        self.in_flight.failure()
    }

    /// Writes the group's blocks; returns the position at which it begins, and the segments that it is in.
    fn write_blocks(
        &mut self,
        epoch: u64,
        mut source: Source<'_>,
        waits: &mut dyn FnMut(&Error) -> bool,
    ) -> Result<(GroupStart, Vec<Arc<OpenSegment>>)> {
        if has_bug!(self.segments.disk(), AcknowledgedBeforeSync) {
            self.current.files[self.lane].sync_data().map_err(writing(&self.current.segment.path))?;
        }
        let is_noted = !has_bug!(self.segments.disk(), FlightNotNoted);
        let first = self.in_flight.first_sequence().filter(|_| is_noted);
        let in_flight = first.map_or(0, |first| (self.chain.next_sequence() - first) as u32);
        let of_group =
            BlockHeader { epoch, in_flight, term: self.term, time: self.time(), ..BlockHeader::default() };
        let (mut files, mut index, mut written) = (Vec::with_capacity(1), 0, 0);
        if self.offset == self.current.segment.bytes {
            self.enter_next_segment()?;
        }
        let segment = self.current.segment.number;
        let sequence = self.chain.next_sequence();
        let start = GroupStart { epoch, segment, offset: self.offset, sequence };
        loop {
            if self.offset == self.current.segment.bytes {
                files.push(self.enter_next_segment()?);
            }
            let room = self.affordable(self.current.segment.bytes - self.offset, source.left);
            let payload_bytes = source.left.min(room - HEADER_BYTES as u64);
            let last = payload_bytes == source.left;
            let header = BlockHeader { index, last, ..self.header(payload_bytes, &of_group) };
            self.assemble(header, &mut source)?;
            let (path, file) = (&self.current.segment.path, &self.current.files[self.lane]);
            while let Err(error) = file.write_all_at(&self.buffer, self.offset).map_err(writing(path)) {
                if !may_pass(&error) || !waits(&error) {
                    return Err(error);
                }
            }
            self.offset += self.buffer.len() as u64;
            written += self.buffer.len() as u64;
            self.chain.pass(&header, header_checksum(&self.buffer));
            self.segments.use_up(self.buffer.len() as u64);
            index += 1;
            if last {
                break;
            }
        }
        self.in_flight.begin(start, written);
        files.push(self.current.clone());
        self.buffer.shrink_to(self.block_bytes_max.min(RETAINED_BYTES) as usize);
        Ok((start, files))
    }

    /// The size of the next block: at most `room`, which the segment has left, and at most the buffer, which the system
    /// may refuse to enlarge; at least a page.
    fn affordable(&mut self, room: u64, payload_bytes: u64) -> u64 {
        self.buffer.clear();
        let wanted = self.block_bytes_max.min(room).min(block_bytes(payload_bytes));
        match reserve(&mut self.buffer, wanted as usize) {
            Ok(()) => wanted,
            Err(_) => wanted.min(self.buffer.capacity() as u64 / PAGE_BYTES * PAGE_BYTES),
        }
    }

    /// Enters the next segment, and returns the one left.
    fn enter_next_segment(&mut self) -> Result<Arc<OpenSegment>> {
        let Some(next) = self.segments.take() else {
            return Err(Error::LogFull { needed: PAGE_BYTES, available: 0 });
        };
        self.offset = PAGE_BYTES;
        Ok(std::mem::replace(&mut self.current, Arc::new(next)))
    }

    /// The next block's header, but for its place in its group, which says what all its blocks say.
    fn header(&self, payload_bytes: u64, of_group: &BlockHeader) -> BlockHeader {
        BlockHeader {
            payload_bytes: payload_bytes as u32,
            sequence: self.chain.next_sequence(),
            segment: self.current.segment.number,
            predecessor: self.chain.checksum(),
            ..*of_group
        }
    }

    /// The next group's time: now, or the time of the group before where the clock was set back since. All transactions that
    /// were acknowledged before a moment are in groups of this time or earlier ones.
    fn time(&self) -> u64 {
        // Zero is the time of groups from before log format 3.
        let now = u64::try_from(Timestamp::now().microseconds()).unwrap_or(0).max(1);
        now.max(self.chain.time())
    }

    /// Puts a block into the buffer: header, payload, zeros up to the page's end.
    fn assemble(&mut self, mut header: BlockHeader, source: &mut Source<'_>) -> Result<()> {
        self.buffer.clear();
        self.buffer.resize(HEADER_BYTES, 0);
        source.append_to(&mut self.buffer, header.payload_bytes as usize)?;
        header.payload_checksum = checksum(self.uuid, &self.buffer[HEADER_BYTES..]);
        self.buffer[..HEADER_BYTES].copy_from_slice(&header.encode(self.uuid));
        self.buffer.resize(block_bytes(u64::from(header.payload_bytes)) as usize, 0);
        Ok(())
    }
}
