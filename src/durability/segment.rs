//! Segments: the files that the log consists of.
//!
//! A segment begins with a header page; blocks follow. It has its full length, all zeros, before it has its name:
//! writing to it never changes its length, and a shorter file was never written by us.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use super::block::{BlockHeader, HEADER_BYTES};
use super::failure::{damaged, reading, writing};
use super::groups_in_flight::GROUPS_IN_FLIGHT_MAX;
use super::manifest::check_version;
use super::starts::GroupStart;
use super::{LOG_VERSION, PAGE_BYTES, Uuid};
use crate::base::disk::{Disk, File, has_bug};
use crate::{Error, Result};

const MAGIC: &[u8; 8] = b"HEDDLLOG";
const PAGE: usize = PAGE_BYTES as usize;
/// The checksum is the page's last four bytes, and covers all before it, in every format version.
const CHECKSUM_AT: usize = PAGE - 4;
const TEMPORARY: &str = ".tmp";
/// The size of the pieces in which zeros are written.
const PIECE_BYTES: u64 = 1 << 20;
/// Such a piece. It is made when the first database opens, so that a system without memory refuses no segment later.
static ZEROS: LazyLock<Vec<u8>> = LazyLock::new(|| vec![0; PIECE_BYTES as usize]);

/// The directory of the log's files, and the database that they belong to.
#[derive(Clone)]
pub(super) struct LogFiles {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) directory: PathBuf,
    pub(super) uuid: Uuid,
}

/// A segment as its name and header say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) number: u32,
    pub(super) path: PathBuf,
    /// Bytes of the file, header page included: a multiple of the page size, two pages at least.
    pub(super) bytes: u64,
}

/// A segment that is open for writing, once for each group that may be in flight: the system reports a failed write to
/// each open file that is synced, but only once, so two threads that sync need two.
pub(super) struct OpenSegment {
    pub(super) segment: Segment,
    pub(super) files: [Box<dyn File>; GROUPS_IN_FLIGHT_MAX],
}

pub(super) fn file_name(number: u32) -> String {
    format!("{number:08}.log")
}

/// The number in a segment's name.
fn number_of(name: &OsStr) -> Option<u32> {
    let digits = name.to_str()?.strip_suffix(".log")?;
    let number = digits.parse().ok()?;
    (file_name(number) == name.to_str()?).then_some(number)
}

/// A segment's header page.
pub(super) fn encode_header(number: u32, bytes: u64, uuid: Uuid) -> Vec<u8> {
    let mut page = vec![0; PAGE];
    page[0..8].copy_from_slice(MAGIC);
    page[8..12].copy_from_slice(&LOG_VERSION.to_le_bytes());
    page[12..16].copy_from_slice(&number.to_le_bytes());
    page[16..32].copy_from_slice(&uuid.0);
    page[32..40].copy_from_slice(&bytes.to_le_bytes());
    let checksum = crc32c::crc32c(&page[..CHECKSUM_AT]);
    page[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
    page
}

fn field<const N: usize>(page: &[u8; PAGE], offset: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&page[offset..offset + N]);
    bytes
}

/// Checks a header page against the name of its file, and says how long the file has to be.
fn decode_header(page: &[u8; PAGE], number: u32, uuid: Uuid, path: &Path) -> Result<u64> {
    if page[0..8] != *MAGIC {
        return Err(damaged(path, 0, "it does not begin like a log segment"));
    }
    if crc32c::crc32c(&page[..CHECKSUM_AT]) != u32::from_le_bytes(field(page, CHECKSUM_AT)) {
        return Err(damaged(path, 0, "the segment header's checksum does not fit its content"));
    }
    check_version(LOG_VERSION, u32::from_le_bytes(field(page, 8)), path)?;
    if field(page, 16) != uuid.0 {
        return Err(Error::ForeignFile { path: path.display().to_string() });
    }
    let found = u32::from_le_bytes(field(page, 12));
    if found != number {
        return Err(damaged(path, 12, format!("it is segment {found} under the name of segment {number}")));
    }
    let bytes = u64::from_le_bytes(field(page, 32));
    if bytes < 2 * PAGE_BYTES || !bytes.is_multiple_of(PAGE_BYTES) {
        return Err(damaged(path, 32, format!("no segment has {bytes} bytes")));
    }
    Ok(bytes)
}

impl LogFiles {
    fn path_of(&self, number: u32) -> PathBuf {
        self.directory.join(file_name(number))
    }

    /// Says that the segment of this number is not there.
    pub(super) fn missing(&self, number: u32, detail: &str) -> Error {
        Error::MissingFile { path: self.path_of(number).display().to_string(), detail: detail.to_string() }
    }

    /// Returns true if there is a segment of this number now.
    pub(super) fn is_there(&self, number: u32) -> Result<bool> {
        let path = self.path_of(number);
        self.disk.exists(&path).map_err(reading(&path))
    }

    /// The numbers of all segments, ascending.
    fn numbers(&self) -> Result<Vec<u32>> {
        let names = self.disk.list(&self.directory).map_err(reading(&self.directory))?;
        let mut numbers: Vec<u32> = names.iter().filter_map(|name| number_of(name)).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// The number of the first segment that is there.
    pub(super) fn first_number(&self) -> Result<Option<u32>> {
        Ok(self.numbers()?.first().copied())
    }

    /// All segments from the number `first` on, in order, each one's header and length checked; they have no gap.
    /// Earlier segments are not read: they wait to be removed.
    pub(super) fn segments(&self, first: u32) -> Result<Vec<Segment>> {
        let numbers: Vec<u32> = self.numbers()?.into_iter().filter(|&number| number >= first).collect();
        let gap = (first..).zip(&numbers).find(|(expected, number)| expected != *number);
        if let Some(missing) = gap.map(|(expected, _)| expected).or(numbers.is_empty().then_some(first)) {
            let detail = format!("the log's segments are numbered from {first} without gaps");
            return Err(self.missing(missing, &detail));
        }
        numbers.into_iter().map(|number| self.check_segment(number)).collect()
    }

    /// Removes all segments before this one, the first one first; returns their number.
    pub(super) fn remove_before(&self, number: u32) -> Result<u64> {
        let mut removed = 0;
        for number in self.numbers()?.into_iter().filter(|&other| other < number) {
            let path = self.path_of(number);
            self.disk.remove(&path).map_err(writing(&path))?;
            removed += 1;
        }
        if removed > 0 {
            self.disk.sync_dir(&self.directory).map_err(writing(&self.directory))?;
        }
        Ok(removed)
    }

    fn check_segment(&self, number: u32) -> Result<Segment> {
        let path = self.path_of(number);
        let file = self.disk.open_read(&path).map_err(reading(&path))?;
        let length = file.len().map_err(reading(&path))?;
        if length < PAGE_BYTES {
            return Err(damaged(&path, length, "the file ends within the segment header"));
        }
        let mut page = [0; PAGE];
        file.read_exact_at(&mut page, 0).map_err(reading(&path))?;
        let bytes = decode_header(&page, number, self.uuid, &path)?;
        if length != bytes {
            let detail = format!("the file has {length} bytes, and its header says {bytes}");
            return Err(damaged(&path, length.min(bytes), detail));
        }
        Ok(Segment { number, path, bytes })
    }

    /// Opens the segment of this number for reading.
    pub(super) fn open_read(&self, number: u32) -> Result<(Segment, Box<dyn File>)> {
        let segment = self.check_segment(number)?;
        let file = self.disk.open_read(&segment.path).map_err(reading(&segment.path))?;
        Ok((segment, file))
    }

    /// The position of the first group that begins in the segment of this number; `None` if none does.
    ///
    /// # Errors
    /// The segment cannot be read, or is not full of blocks up to there.
    pub(super) fn first_group(&self, number: u32) -> Result<Option<GroupStart>> {
        let (segment, file) = self.open_read(number)?;
        let mut offset = PAGE_BYTES;
        while offset < segment.bytes {
            let mut bytes = [0; HEADER_BYTES];
            file.read_exact_at(&mut bytes, offset).map_err(reading(&segment.path))?;
            let Some(header) = BlockHeader::decode(&bytes, self.uuid) else {
                return Err(damaged(
                    &segment.path,
                    offset,
                    "no block is there, and later segments have some",
                ));
            };
            if header.index == 0 {
                let (epoch, sequence) = (header.epoch, header.sequence);
                return Ok(Some(GroupStart { epoch, segment: number, offset, sequence }));
            }
            offset += header.disk_bytes();
        }
        Ok(None)
    }

    /// Total bytes of the segments of these numbers.
    pub(super) fn bytes_of(&self, numbers: std::ops::Range<u32>) -> Result<u64> {
        numbers.map(|number| self.check_segment(number).map(|segment| segment.bytes)).sum()
    }

    pub(super) fn open_write(&self, segment: &Segment) -> Result<OpenSegment> {
        let open = || self.disk.open_write(&segment.path).map_err(writing(&segment.path));
        Ok(OpenSegment { segment: segment.clone(), files: [open()?, open()?] })
    }

    /// Makes a segment: header and zeros, durable before it gets its name, and its name durable, too. When this
    /// fails, nothing is left but perhaps a file of that number that is not used.
    pub(super) fn create_segment(&self, number: u32, bytes: u64) -> Result<OpenSegment> {
        let path = self.path_of(number);
        let temporary = self.directory.join(file_name(number) + TEMPORARY);
        if self.disk.exists(&temporary).map_err(reading(&temporary))? {
            self.disk.remove(&temporary).map_err(writing(&temporary))?;
        }
        let file = self.disk.create_new(&temporary).map_err(writing(&temporary))?;
        let header = encode_header(number, bytes, self.uuid);
        let synced = !has_bug!(self.disk, SegmentNotSynced);
        let made = fill(&*file, &header, bytes, synced).and_then(|()| self.disk.rename(&temporary, &path));
        if let Err(error) = made {
            // The space matters more than the file; should removing fail, too, then the next attempt removes it.
            let _ = self.disk.remove(&temporary);
            return Err(writing(&temporary)(error));
        }
        if !has_bug!(self.disk, SegmentNameNotSynced) {
            self.disk.sync_dir(&self.directory).map_err(writing(&self.directory))?;
        }
        let second = self.disk.open_write(&path).map_err(writing(&path))?;
        Ok(OpenSegment { segment: Segment { number, path, bytes }, files: [file, second] })
    }

    /// Removes what interrupted preparations left.
    pub(super) fn remove_temporary_files(&self) -> Result<()> {
        for name in self.disk.list(&self.directory).map_err(reading(&self.directory))? {
            let segment = name.to_str().and_then(|name| name.strip_suffix(TEMPORARY));
            if segment.is_some_and(|name| number_of(OsStr::new(name)).is_some()) {
                let path = self.directory.join(&name);
                self.disk.remove(&path).map_err(writing(&path))?;
            }
        }
        Ok(())
    }
}

/// Writes a header and zeros up to `bytes`, and syncs.
fn fill(file: &dyn File, header: &[u8], bytes: u64, synced: bool) -> std::io::Result<()> {
    file.write_all_at(header, 0)?;
    let mut offset = PAGE_BYTES;
    while offset < bytes {
        let piece = (bytes - offset).min(PIECE_BYTES);
        file.write_all_at(&ZEROS[..piece as usize], offset)?;
        offset += piece;
    }
    if synced { file.sync_all() } else { Ok(()) }
}
