//! The log as a whole, on the simulated disk.

mod crash;
mod damage;
mod directory;
mod failures;
mod log_place;
mod log_stores;
mod middle;
mod round_trip;
mod seeded;
mod take_overs;
mod terms_and_times;
mod torn_tail;
mod two_in_flight;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::*;
use crate::testing::SimulatedDisk;
use crate::{Error, Result};

const DATABASE: &str = "bank";

/// Everything that opening a database gives.
struct Opened {
    writer: LogWriter,
    segments: Arc<Segments>,
    groups: Vec<Group>,
    cut: Option<Cut>,
    highest_epoch_seen: u64,
    directory: DatabaseDirectory,
}

/// Segments of this many pages, header included, and blocks of at most this many.
fn pages(segment: u64, block: u64) -> SegmentSizes {
    SegmentSizes::new(segment * PAGE_BYTES, block * PAGE_BYTES)
}

fn shared(disk: &SimulatedDisk) -> Arc<dyn crate::base::disk::Disk> {
    Arc::new(disk.clone())
}

/// Opens the database as the engine does: lock, read, repair, write.
fn open(disk: &SimulatedDisk, options: &SegmentSizes) -> Result<Opened> {
    open_with_log(disk, options, None)
}

/// The same, with the log in this directory.
fn open_with_log(disk: &SimulatedDisk, options: &SegmentSizes, log: Option<&str>) -> Result<Opened> {
    let directory = DatabaseDirectory::open(shared(disk), Path::new(DATABASE), options, log.map(Path::new))?;
    let (groups, end) = read_log(&directory)?;
    let repaired = repair(end)?;
    let (cut, highest_epoch_seen) = (repaired.cut.clone(), repaired.highest_epoch_seen);
    let (writer, segments) = LogWriter::open(repaired, options)?;
    Ok(Opened { writer, segments, groups, cut, highest_epoch_seen, directory })
}

fn read_log(directory: &DatabaseDirectory) -> Result<(Vec<Group>, LogEnd)> {
    let mut reader = {
        let (disk, path) = (directory.disk().clone(), directory.log_path());
        LogReader::open(disk, path, directory.uuid(), GroupStart::FIRST)?
    };
    let mut groups = Vec::new();
    while let Some(group) = reader.next_group()? {
        groups.push(group);
    }
    Ok((groups, reader.end()?))
}

/// Reads the database without changing anything but its lock.
fn read(disk: &SimulatedDisk) -> Result<(Vec<Group>, LogEnd)> {
    read_log(&DatabaseDirectory::open(shared(disk), Path::new(DATABASE), &pages(3, 1), None)?)
}

/// A group with content that no other group has.
fn group(epoch: u64, bytes: usize) -> Group {
    let payload = (0..bytes).map(|index| (epoch as usize * 31 + index * 7 + index / 251) as u8 | 1).collect();
    Group { epoch, payload }
}

impl Opened {
    /// Appends, after preparing segments until there is room.
    fn append(&mut self, group: &Group) -> Result<()> {
        while self.segments.remaining_bytes() < group_bytes_max(group.payload.len() as u64) {
            self.segments.prepare_next()?;
        }
        self.writer.append_group(group.epoch, &[&group.payload]).map(drop)
    }
}

/// A database that holds these groups, and that no process has open.
fn database_with(groups: &[Group], options: &SegmentSizes) -> SimulatedDisk {
    let disk = SimulatedDisk::new();
    let mut opened = open(&disk, options).expect("a new database");
    for group in groups {
        opened.append(group).expect("the disk is healthy");
    }
    disk
}

fn segment_path(number: u32) -> PathBuf {
    Path::new(DATABASE).join("log").join(format!("{number:08}.log"))
}

/// The content of every segment there is.
fn segment_bytes(disk: &SimulatedDisk) -> Vec<Vec<u8>> {
    (1..).map_while(|number| disk.bytes(&segment_path(number)).ok()).collect()
}

fn put_segment(disk: &SimulatedDisk, number: u32, bytes: Vec<u8>) {
    disk.put_bytes(&segment_path(number), bytes).expect("the directory is there");
}
