//! Reading the log: every whole group from a given place on, in order.
//!
//! Invariants: a group is yielded only if all its blocks are there with correct checksums, in the right
//! places of the chain, and the last one bears the commit mark. Where that ends, [`tail`] decides
//! whether the log ends there or is damaged.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use super::block::{BlockHeader, HEADER_BYTES, header_checksum};
use super::chain::Chain;
use super::failure::{damaged, what_is_wrong};
use super::position::LogPosition;
use super::segment::{LogFiles, Segment};
use super::starts::{GroupStart, GroupStarts};
use super::tail::{self, Cut, LogEnd, Tail, UnfinishedGroup};
use super::window::Window;
use super::{PAGE_BYTES, Uuid};
use crate::base::disk::{Disk, has_bug};
use crate::{Error, Result};

/// The transactions of one epoch, as they were handed to the writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// The group's epoch: larger than those of the groups before.
    pub(crate) epoch: u64,
    /// The payload as the writer was given it.
    pub(crate) payload: Vec<u8>,
}

/// A place in the log: an index into the list of segments, and an offset in that file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(super) index: usize,
    pub(super) offset: u64,
}

/// Some pages of one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) start: Position,
    pub(super) bytes: u64,
}

/// The group that is being put together.
#[derive(Default)]
struct Assembly {
    extents: Vec<Extent>,
    /// All blocks before this one were durable when the group was written.
    durable_before: u64,
    payload: Vec<u8>,
}

/// Reads a log from its beginning to its end. It changes nothing.
pub(crate) struct LogReader {
    files: LogFiles,
    segments: Vec<Segment>,
    window: Window,
    /// The position at which the next block is expected.
    position: Position,
    /// Behind the last block.
    chain: Chain,
    assembly: Assembly,
    /// Behind the last whole group.
    whole: Chain,
    /// The last whole group, and before it those that were in flight when it was written: each with the sequence number of
    /// its first block.
    last_groups: VecDeque<(u64, Vec<Extent>)>,
    starts: GroupStarts,
    /// Set once the last whole group has been read.
    tail: Option<Tail>,
    /// True if another process may be writing to the log meanwhile.
    is_live: bool,
    /// The changes of terms that were met.
    terms: Vec<TermStart>,
}

/// The first group of a term, and the group before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TermStart {
    /// `None` if reading has begun with this term.
    pub(crate) before: Option<LogPosition>,
    pub(crate) first: LogPosition,
}

impl LogReader {
    /// Opens the log in `directory`, and checks that all its segments from `start` on are there and are this database's.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        directory: &Path,
        uuid: Uuid,
        start: GroupStart,
    ) -> Result<LogReader> {
        let files = LogFiles { disk, directory: directory.to_path_buf(), uuid };
        let segments = files.segments(start.segment)?;
        let first = &segments[0];
        if !(PAGE_BYTES..=first.bytes).contains(&start.offset) {
            let detail = format!("it is to be read from byte {} on, and has {}", start.offset, first.bytes);
            return Err(damaged(&first.path, first.bytes, detail));
        }
        let window = Window::open(&files, first)?;
        Ok(LogReader {
            files,
            segments,
            window,
            position: Position { index: 0, offset: start.offset },
            chain: Chain::before(start.sequence),
            assembly: Assembly::default(),
            whole: Chain::before(start.sequence),
            last_groups: VecDeque::new(),
            starts: GroupStarts::new(start),
            tail: None,
            is_live: false,
            terms: Vec::new(),
        })
    }

    /// Opens a log that another process may be writing to; all that is read is opened here and now. It ends for this
    /// reader where a block was not there whole when it was looked for.
    pub(crate) fn open_beside_a_writer(
        disk: Arc<dyn Disk>,
        directory: &Path,
        uuid: Uuid,
        start: GroupStart,
    ) -> Result<LogReader> {
        Ok(LogReader { is_live: true, ..LogReader::open(disk, directory, uuid, start)? })
    }

    /// The next group, or `None` at the log's end.
    pub(crate) fn next_group(&mut self) -> Result<Option<Group>> {
        while self.tail.is_none() {
            if !self.enter_segment_with_room()? {
                self.tail = Some(Tail::default());
                break;
            }
            match self.read_block()? {
                Some(header) if header.last => return Ok(Some(self.finish_group())),
                Some(_) => {}
                None => {
                    self.tail = Some(self.find_tail()?);
                    if has_bug!(self.files.disk, TornTailAccepted) && !self.assembly.extents.is_empty() {
                        return Ok(Some(self.finish_group()));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Bytes of the log before the read position, and bytes in all.
    pub(super) fn progress(&self) -> (u64, u64) {
        let bytes = |segments: &[Segment]| segments.iter().map(|segment| segment.bytes).sum::<u64>();
        (bytes(&self.segments[..self.position.index]) + self.position.offset, bytes(&self.segments))
    }

    /// The position at which the last whole group begins.
    pub(super) fn last_place(&self) -> Position {
        self.last_groups
            .back()
            .and_then(|(_, extents)| extents.first())
            .map_or(self.position, |extent| extent.start)
    }

    /// The changes of terms that were met, in their order.
    pub(super) fn terms(&self) -> &[TermStart] {
        &self.terms
    }

    /// The place in the chain right behind the last whole group: its position and its time.
    pub(crate) fn last_whole(&self) -> &Chain {
        &self.whole
    }

    /// The places at which groups begin that were read.
    pub(super) fn starts(&self) -> &GroupStarts {
        &self.starts
    }

    /// The content of the group at this place makes no sense although its checksums fit: that is damage of the place,
    /// whatever it was that refused it.
    pub(super) fn blame(&self, place: Position, error: Error) -> Error {
        match error {
            error @ Error::Damaged { .. } => error,
            error => damaged(&self.segments[place.index].path, place.offset, what_is_wrong(error)),
        }
    }

    /// Reads on to the log's end, if need be, and says how it looks there.
    pub(crate) fn end(mut self) -> Result<LogEnd> {
        while self.next_group()?.is_some() {}
        let tail = self.tail.take().unwrap_or_default();
        let position = self.group_position();
        let segment = &self.segments[position.index];
        let cut = (tail.dropped_bytes > 0).then(|| Cut {
            path: segment.path.clone(),
            offset: position.offset,
            dropped_bytes: tail.dropped_bytes,
        });
        Ok(LogEnd {
            cut,
            last_epoch: self.whole.epoch(),
            highest_epoch_seen: tail.highest_epoch.max(self.whole.epoch()),
            highest_term_seen: tail.highest_term.max(self.whole.position().term()),
            chain: self.whole,
            position,
            last_groups: self.last_groups.into_iter().flat_map(|(_, extents)| extents).collect(),
            starts: self.starts,
            dirty: tail.dirty,
            files: self.files,
            segments: self.segments,
        })
    }

    /// The position at which the group begins that is being assembled.
    fn group_position(&self) -> Position {
        self.assembly.extents.first().map_or(self.position, |extent| extent.start)
    }

    /// Moves from the end of a full segment to the next one; returns false if that one was made after the log was
    /// opened.
    fn enter_segment_with_room(&mut self) -> Result<bool> {
        let full = &self.segments[self.position.index];
        if self.position.offset < full.bytes {
            return Ok(true);
        }
        let Some(next) = self.segments.get(self.position.index + 1) else {
            if self.is_live && self.files.is_there(full.number + 1)? {
                return Ok(false);
            }
            let detail = "the segment before is full, and is filled only when this one is in place";
            return Err(self.files.missing(full.number + 1, detail));
        };
        self.window = Window::open(&self.files, next)?;
        self.position = Position { index: self.position.index + 1, offset: PAGE_BYTES };
        Ok(true)
    }

    /// Takes the block at the present position into the group; `None` if none was written whole there.
    fn read_block(&mut self) -> Result<Option<BlockHeader>> {
        let offset = self.position.offset;
        let bytes = self.window.bytes(offset, HEADER_BYTES as u64)?;
        let Some(header) = BlockHeader::decode(bytes, self.files.uuid) else {
            return Ok(None);
        };
        let checksum = header_checksum(bytes);
        self.check_place(&header)?;
        let payload = self.window.bytes(offset + header.bytes() as u64, u64::from(header.payload_bytes))?;
        let is_whole = header.vouches_for(payload, self.files.uuid);
        if !is_whole && !has_bug!(self.files.disk, BadChecksumAccepted) {
            return Ok(None);
        }
        self.assembly.payload.extend_from_slice(payload);
        self.assembly.durable_before = header.durable_before();
        self.assembly.extents.push(Extent { start: self.position, bytes: header.disk_bytes() });
        self.position.offset += header.disk_bytes();
        self.chain.pass(&header, checksum);
        Ok(Some(header))
    }

    /// A header whose checksum is correct was written by us; then it is the one that belongs here, or the log was
    /// tampered with: what is not yet written is zeros, never an old block.
    fn check_place(&self, header: &BlockHeader) -> Result<()> {
        let segment = &self.segments[self.position.index];
        let fits = self.chain.may_continue_with(header)
            && header.segment == segment.number
            && header.disk_bytes() <= segment.bytes - self.position.offset;
        if fits {
            return Ok(());
        }
        let detail = format!(
            "block {} of epoch {}, term {} and time {} (number {} in its group, of segment {}) is out of place: block {} is \
             expected, behind epoch {} of term {} and time {}",
            header.sequence,
            header.epoch,
            header.term,
            header.time,
            header.index,
            header.segment,
            self.chain.next_sequence(),
            self.chain.epoch(),
            self.chain.position().term(),
            self.chain.time()
        );
        Err(damaged(&segment.path, self.position.offset, detail))
    }

    fn finish_group(&mut self) -> Group {
        let (sequence, epoch) = (self.whole.next_sequence(), self.chain.epoch());
        let Assembly { extents, durable_before, payload } = std::mem::take(&mut self.assembly);
        if let Some(Extent { start, .. }) = extents.first() {
            let segment = self.segments[start.index].number;
            let start = GroupStart { epoch, segment, offset: start.offset, sequence };
            self.starts.note(start, extents.iter().map(|extent| extent.bytes).sum());
        }
        let is_first = self.whole.epoch() == 0;
        if is_first || self.whole.position().term() != self.chain.position().term() {
            let before = (!is_first).then(|| self.whole.position());
            self.terms.push(TermStart { before, first: self.chain.position() });
        }
        self.whole = self.chain;
        let is_kept = !has_bug!(self.files.disk, FlightNotRewritten);
        self.last_groups.retain(|(first, _)| is_kept && *first >= durable_before);
        self.last_groups.push_back((sequence, extents));
        if is_first && has_bug!(self.files.disk, FirstGroupSkipped) {
            return Group { epoch, payload: Vec::new() };
        }
        if has_bug!(self.files.disk, GroupHalfReplayed) {
            return Group { epoch, payload: first_transaction(&payload) };
        }
        Group { epoch, payload }
    }

    /// A block was not there. If a later group says that it was durable by then, and the log is being written, it must be
    /// there now, and it was looked for too early. Then the log ends before it, for this reader.
    fn find_tail(&mut self) -> Result<Tail> {
        let damage = match self.examine_tail() {
            Err(Error::Damaged { .. }) if has_bug!(self.files.disk, HoleSkipped) => {
                return Ok(Tail::default());
            }
            Err(error @ Error::Damaged { .. }) if self.is_live => error,
            other => return other,
        };
        self.window = Window::open(&self.files, &self.segments[self.position.index])?;
        self.read_block()?.map(|_| Tail::default()).ok_or(damage)
    }

    fn examine_tail(&self) -> Result<Tail> {
        let group = UnfinishedGroup {
            start: self.group_position(),
            first_missing: self.position,
            missing_sequence: self.chain.next_sequence(),
            first_sequence: self.whole.next_sequence(),
        };
        tail::examine(&self.files, &self.segments, &group)
    }
}

/// Reading behind a writer.
impl LogReader {
    /// Goes back behind the last whole group, and has later files opened on this disk.
    ///
    /// # Errors
    /// The segment of that group cannot be opened.
    pub(super) fn read_on_from(&mut self, disk: Arc<dyn Disk>) -> Result<()> {
        self.look_again()?;
        self.files.disk = disk;
        Ok(())
    }

    /// The next group of a log that another process writes to; `None` if it is not there whole now. What was read of an unfinished
    /// group is read once more, because after a crash the next writer replaces it.
    ///
    /// # Errors
    /// The log cannot be read; what is there is not the continuation of what was read; or the writer has removed what was not read yet.
    pub(super) fn next_group_behind_writer(&mut self) -> Result<Option<Group>> {
        loop {
            if !self.enter_new_segment()? || self.assembly.extents.is_empty() && !self.is_begun()? {
                self.look_again()?;
                return Ok(None);
            }
            match self.read_block()? {
                Some(header) if header.last => return Ok(Some(self.finish_group())),
                Some(_) => {}
                None => {
                    self.look_again()?;
                    return Ok(None);
                }
            }
        }
    }

    /// Returns true if a block begins at the present position, by a look at its header alone.
    fn is_begun(&mut self) -> Result<bool> {
        let mut header = [0; HEADER_BYTES];
        self.window.read_now(&mut header, self.position.offset)?;
        if BlockHeader::decode(&header, self.files.uuid).is_none() {
            return Ok(false);
        }
        if self.window.bytes(self.position.offset, HEADER_BYTES as u64)? != header {
            self.window.forget();
        }
        Ok(true)
    }

    /// Goes back behind the last whole group.
    fn look_again(&mut self) -> Result<()> {
        let start = self.group_position();
        if start.index == self.position.index {
            self.window.forget();
        } else {
            self.window = Window::open(&self.files, &self.segments[start.index])?;
        }
        (self.position, self.chain, self.tail) = (start, self.whole, None);
        self.assembly = Assembly::default();
        Ok(())
    }

    /// Says whether what is at the present position is the log's end, or damage: see [`tail`].
    ///
    /// # Errors
    /// It is damage.
    pub(super) fn check_end(&mut self) -> Result<()> {
        self.find_tail()?;
        self.look_again()
    }

    /// Moves from the end of a full segment to the next one, which may have been made since the log was opened; returns false if
    /// it is not there yet.
    fn enter_new_segment(&mut self) -> Result<bool> {
        let full = &self.segments[self.position.index];
        if self.position.offset < full.bytes {
            return Ok(true);
        }
        let next = full.number + 1;
        if self.position.index + 1 == self.segments.len() {
            if !self.files.is_there(next)? {
                if self.files.first_number()?.is_some_and(|first| first > next) {
                    let detail = "a checkpoint has replaced it before it was read";
                    return Err(self.files.missing(next, detail));
                }
                return Ok(false);
            }
            self.segments.push(self.files.open_read(next)?.0);
        }
        self.enter_segment_with_room()
    }
}

/// Redo of a group's first transaction alone: of that only what a bug on purpose makes of it.
fn first_transaction(payload: &[u8]) -> Vec<u8> {
    let length = payload.get(8..12).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes);
    payload[..payload.len().min(12 + length as usize)].to_vec()
}
