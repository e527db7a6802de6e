//! Reading a segment from front to back in large pieces.

use super::failure::reading;
use super::segment::{LogFiles, Segment};
use crate::Result;
use crate::base::disk::File;

/// The least that is read at once, if the segment has it.
const WINDOW_BYTES: u64 = 1 << 20;

/// A part of a segment in memory, which moves forward as it is asked for.
pub(super) struct Window {
    file: Box<dyn File>,
    segment: Segment,
    start: u64,
    buffer: Vec<u8>,
}

impl Window {
    pub(super) fn open(files: &LogFiles, segment: &Segment) -> Result<Window> {
        let file = files.disk.open_read(&segment.path).map_err(reading(&segment.path))?;
        Ok(Window { file, segment: segment.clone(), start: 0, buffer: Vec::new() })
    }

    /// Forgets what was read: another process may have written there since.
    pub(super) fn forget(&mut self) {
        self.buffer.clear();
    }

    /// The bytes that the segment has at `offset` now, whatever was read before.
    pub(super) fn read_now(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        self.file.read_exact_at(bytes, offset).map_err(reading(&self.segment.path))
    }

    /// `count` bytes at `offset`; all of them lie in the segment.
    pub(super) fn bytes(&mut self, offset: u64, count: u64) -> Result<&[u8]> {
        debug_assert!(offset + count <= self.segment.bytes);
        let end = self.start + self.buffer.len() as u64;
        if offset < self.start || offset + count > end {
            let wanted = count.max(WINDOW_BYTES.min(self.segment.bytes - offset));
            // Emptied first: a failed read leaves nothing behind that could be taken for the file's content.
            self.buffer.clear();
            let mut buffer = vec![0; wanted as usize];
            self.file.read_exact_at(&mut buffer, offset).map_err(reading(&self.segment.path))?;
            (self.start, self.buffer) = (offset, buffer);
        }
        let first = (offset - self.start) as usize;
        Ok(&self.buffer[first..first + count as usize])
    }
}
