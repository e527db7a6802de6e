//! Segments that are prepared ahead, so that a commit never waits for a file to be made.
//!
//! [`Segments`] is shared by the log's writer, which takes segments, and by whichever thread prepares them (one background
//! thread, or the writer's own before it starts). Room is counted here, so that callers can be held back before
//! the log is full. The last page that is prepared is never given away: a segment is filled to its end only when
//! the next one is in place.

use std::collections::VecDeque;

use parking_lot::Mutex;

use super::block_reader::BlockReader;
use super::segment::{LogFiles, OpenSegment};
use super::starts::{GroupStart, GroupStarts};
use super::{PAGE_BYTES, SegmentSizes};
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
}

struct Ready {
    queue: VecDeque<OpenSegment>,
    /// What the writer's present segment has left.
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
        Segments { files, options, ready, next_number, starts }
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

    /// Reads the log from here on, for a follower.
    pub(crate) fn block_reader(&self, start: GroupStart) -> BlockReader {
        BlockReader::new(self.files.clone(), start)
    }

    /// Removes the segments before this one: a checkpoint has made them useless. How many there were.
    pub(crate) fn remove_before(&self, segment: u32) -> Result<u64> {
        self.starts.lock().drop_before(segment);
        self.files.remove_before(segment)
    }

    /// Makes one more segment. When it fails, above all because the disk is full, the log goes on as long as it
    /// has room, and a later attempt may succeed.
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

    /// How many segments are ready behind the present one.
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
