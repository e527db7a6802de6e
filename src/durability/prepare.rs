//! Segments that are prepared ahead, so that a commit never waits for a file to be made.
//!
//! [`Segments`] is shared by the log's writer, which takes segments, and by whichever thread prepares them (one background
//! thread, or the writer's own before it starts). Room is counted here, so that callers can be held back before
//! the log is full. The last page that is prepared is never given away: a segment is filled to its end only when
//! the next one is in place.

use std::collections::VecDeque;

use parking_lot::Mutex;

use super::block_reader::BlockReader;
use super::log_holds::{ARCHIVE, Hold, LogHolds};
use super::segment::{LogFiles, OpenSegment};
use super::starts::{GroupStart, GroupStarts};
use super::{PAGE_BYTES, SegmentSizes, Uuid};
use crate::Result;
use crate::base::disk::Disk;

/// The segments that are ready to be written.
pub(crate) struct Segments {
    files: LogFiles,
    options: SegmentSizes,
    ready: Mutex<Ready>,
    /// Held while a file is made: the number of the next one. Taken before `ready`, never after it.
    next_number: Mutex<u32>,
    starts: Mutex<GroupStarts>,
    /// The feeds that hold the log back. Locked before `starts`, never after it.
    holds: Mutex<LogHolds>,
}

struct Ready {
    queue: VecDeque<OpenSegment>,
    /// Bytes left in the writer's present segment.
    current_bytes: u64,
}

impl Segments {
    /// Segments behind the writer's present one, which has `current_bytes` left.
    pub(super) fn new(
        files: LogFiles,
        options: SegmentSizes,
        current_bytes: u64,
        queue: VecDeque<OpenSegment>,
        next_number: u32,
        starts: GroupStarts,
    ) -> Segments {
        let ready = Mutex::new(Ready { queue, current_bytes });
        let (next_number, starts) = (Mutex::new(next_number), Mutex::new(starts));
        Segments { files, options, ready, next_number, starts, holds: Mutex::default() }
    }

    /// The disk that the log is on.
    pub(super) fn disk(&self) -> &dyn Disk {
        &*self.files.disk
    }

    /// Notes where a group of this many bytes begins that is durable now.
    pub(super) fn note_group(&self, start: GroupStart, bytes: u64) {
        self.starts.lock().note(start, bytes);
    }

    /// A place in the log behind which are all groups from this epoch on.
    pub(crate) fn start_before(&self, epoch: u64) -> GroupStart {
        self.starts.lock().before(epoch)
    }

    /// The epoch of the last group that is durable; 0: there is none.
    pub(crate) fn last_epoch(&self) -> u64 {
        self.starts.lock().last_epoch()
    }

    /// Bytes of all groups that were read when the log was opened, and written since.
    pub(crate) fn log_bytes(&self) -> u64 {
        self.starts.lock().bytes()
    }

    /// A place in the log behind which are all groups of later epochs than this one.
    ///
    /// # Errors
    /// The log does not reach back so far: the oldest epoch of which this can be asked.
    pub(crate) fn start_after(&self, epoch: u64) -> std::result::Result<GroupStart, u64> {
        let starts = self.starts.lock();
        let first = starts.first();
        if first.epoch > epoch.saturating_add(1) {
            Err(first.epoch - 1)
        } else {
            Ok(starts.before(epoch + 1))
        }
    }

    /// The identity in every header.
    pub(crate) fn uuid(&self) -> Uuid {
        self.files.uuid
    }

    /// Makes the log be held back for a feed, or moves its hold forward.
    ///
    /// # Errors
    /// Same errors as [`start_after`](Self::start_after), of the epoch to which it holds the log back.
    pub(crate) fn hold(&self, feed: &str, hold: Hold) -> std::result::Result<(), u64> {
        // Locked before the log is asked: what it has then is not removed before the hold is there.
        let mut holds = self.holds.lock();
        self.start_after(hold.epoch).map(|_| holds.put(feed, hold))
    }

    /// Returns true if a feed holds the log back, and has not lost what it needs.
    pub(crate) fn is_held(&self, feed: &str) -> bool {
        self.holds.lock().is_held(feed)
    }

    /// The first place of the log that is there.
    pub(crate) fn first(&self) -> GroupStart {
        self.starts.lock().first()
    }

    /// Removes the hold of a feed.
    pub(crate) fn release(&self, feed: &str) {
        self.holds.lock().remove(feed);
    }

    /// Bytes of whole segments between the position that a feed holds and the present segment.
    ///
    /// # Errors
    /// A segment cannot be read.
    pub(crate) fn bytes_behind(&self, epoch: u64) -> Result<u64> {
        let (first, last) = {
            let starts = self.starts.lock();
            (starts.before(epoch.saturating_add(1)).segment, starts.before(u64::MAX).segment)
        };
        self.files.bytes_of(first..last)
    }

    /// Registers the holds of feeds, once, before anything is written. Segments that neither they nor recovery need are
    /// removed: a removal may have been interrupted. An archive holds the whole log that is there, if
    /// its limit is not 0.
    ///
    /// # Errors
    /// A segment cannot be removed.
    pub(crate) fn begin_to_hold(&self, mut holds: LogHolds, archive_bytes: u64) -> Result<()> {
        let first = self.starts.lock().first().segment;
        if !holds.is_empty() || archive_bytes > 0 {
            // What cannot be read is lost to the feeds that need it, and to nothing else.
            for number in (1..first).rev() {
                match self.files.first_group(number) {
                    Ok(Some(start)) => self.starts.lock().note_before(start),
                    Ok(None) => {}
                    Err(_) => break,
                }
            }
        }
        if archive_bytes > 0 {
            // How far an archive is, it says later: until then it may need all that is there.
            let epoch = self.starts.lock().first().epoch.saturating_sub(1);
            holds.put(ARCHIVE, Hold { epoch, limit: archive_bytes });
        }
        *self.holds.lock() = holds;
        self.remove_before(first).map(drop)
    }

    /// Reads the log from here on, for a follower or a feed.
    pub(crate) fn block_reader(&self, start: GroupStart) -> BlockReader {
        BlockReader::new(self.files.clone(), start)
    }

    /// Removes the segments before this one, which a checkpoint has made useless, except those that feeds hold; returns
    /// their number.
    pub(crate) fn remove_before(&self, segment: u32) -> Result<u64> {
        let mut holds = self.holds.lock();
        let start = |epoch: u64| {
            let starts = self.starts.lock();
            let is_there = starts.first().epoch <= epoch.saturating_add(1);
            is_there.then(|| starts.before(epoch.saturating_add(1)).segment)
        };
        let first = holds.first_needed(segment, start, |numbers| self.files.bytes_of(numbers))?;
        self.starts.lock().drop_before(first);
        drop(holds);
        self.files.remove_before(first)
    }

    /// Makes one more segment. If it fails, above all because the disk is full, the log continues as long as it has
    /// room, and a later attempt may succeed.
    pub(crate) fn prepare_next(&self) -> Result<()> {
        let mut next_number = self.next_number.lock();
        let segment = self.files.create_segment(*next_number, self.options.segment_bytes())?;
        *next_number += 1;
        self.ready.lock().queue.push_back(segment);
        Ok(())
    }

    /// Bytes that groups may take, in the present segment and in those prepared: a group fits if its
    /// [`group_bytes_max`](super::group_bytes_max) is not larger.
    pub(crate) fn remaining_bytes(&self) -> u64 {
        let ready = self.ready.lock();
        let prepared: u64 = ready.queue.iter().map(|open| open.segment.bytes - PAGE_BYTES).sum();
        (ready.current_bytes + prepared).saturating_sub(PAGE_BYTES)
    }

    /// Number of segments that are ready behind the present one.
    pub(crate) fn prepared(&self) -> usize {
        self.ready.lock().queue.len()
    }

    /// Takes the next segment, whose whole body is the writer's room now.
    pub(super) fn take(&self) -> Option<OpenSegment> {
        let mut ready = self.ready.lock();
        let next = ready.queue.pop_front()?;
        ready.current_bytes = next.segment.bytes - PAGE_BYTES;
        Some(next)
    }

    /// Notes how much of the present segment was written.
    pub(super) fn use_up(&self, bytes: u64) {
        let mut ready = self.ready.lock();
        ready.current_bytes = ready.current_bytes.saturating_sub(bytes);
    }
}
