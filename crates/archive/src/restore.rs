//! Makes a database's directory of an archive, as of a group.

use std::path::Path;

use heddledb::{Database, FileChunk, FilesReport, Options, SegmentPosition, Uuid};

use crate::catalog::{ArchivedCheckpoint, Catalog};
use crate::encoding::{Fields, decode};
use crate::error::{ArchiveError, Result};
use crate::names::Timeline;
use crate::objects::{Objects, get};
use crate::reader::{Walk, find};
use crate::timeline::{Beginning, Known, Parent, note};

/// The moment to which a database is restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestorePoint {
    /// The end of what is archived.
    End,
    /// The last group that was written by then, in microseconds since 1970.
    Time(u64),
    /// The last group of this epoch or an earlier one; a term, if it is not 0, must be that of the group.
    Position {
        /// The term.
        term: u64,
        /// The epoch.
        epoch: u64,
    },
}

/// Report of a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestoreReport {
    /// The timeline that it was restored from.
    pub timeline: Timeline,
    /// Term and epoch of the last group; zeros if there is none.
    pub position: (u64, u64),
    /// Time at which that was written, in microseconds since 1970; 0: the log does not say.
    pub time: u64,
    /// The files of the database.
    pub files: FilesReport,
}

/// The last group that is restored.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    term: u64,
    epoch: u64,
    time: u64,
}

/// Makes a database of an archive, in a new or empty directory. What is read is verified, and what is written is read again. When
/// the database is archived, it begins a timeline of its own.
///
/// # Errors
/// The archive does not reach back to the moment; an object is damaged or missing, which is named; the directory is not empty or
/// cannot be written; the storage cannot be reached. Then the directory is no database.
pub fn restore(
    objects: &dyn Objects,
    database: Option<Uuid>,
    timeline: Option<u32>,
    point: RestorePoint,
    directory: &Path,
    options: &Options,
) -> Result<RestoreReport> {
    let (line, catalog) = find(objects, database, timeline)?;
    Beginning::read(objects, line)?;
    let last = locate(objects, line, &catalog, point)?;
    let base = choose(&catalog, last, point)?;
    let start = base.map_or(catalog.start, |base| base.log_start);
    let mut rebuild = Database::rebuild_directory(directory, line.database, start, options)?;
    let filled = match base {
        Some(base) => read_chunks(objects, line, &base, &mut |chunk| Ok(rebuild.add_chunk(&chunk)?)),
        None => Ok(()),
    };
    let filled = filled.and_then(|()| {
        add_log(objects, line, &catalog, start, last, &mut |piece| Ok(rebuild.add_piece(piece)?))
    });
    if let Err(error) = filled {
        rebuild.abandon();
        return Err(error);
    }
    let files = rebuild.finish()?;
    let Last { term, epoch, time } = last;
    note(directory, Known::Restored(Parent { number: line.number, term, epoch }))?;
    Ok(RestoreReport { timeline: line, position: (term, epoch), time, files })
}

/// The last group that is restored.
fn locate(objects: &dyn Objects, line: Timeline, catalog: &Catalog, point: RestorePoint) -> Result<Last> {
    let mut walk = Walk::new(objects, line, catalog)?;
    let is_behind = |group: &heddledb::ArchivedGroup| match point {
        RestorePoint::End => false,
        RestorePoint::Time(time) => group.time > time,
        RestorePoint::Position { epoch, .. } => group.epoch > epoch,
    };
    if point == RestorePoint::End && catalog.next > catalog.first {
        // The last object has it, and those that the catalog does not list yet.
        walk.seek(catalog.next - 1);
    } else if let Some(sequence) = walk.search(|object| object.piece.groups.first().is_some_and(is_behind))? {
        walk.seek(sequence);
    }
    let mut last = Last::default();
    while let Some(walked) = walk.next() {
        let groups = walked?.object.piece.groups;
        let count = groups.partition_point(|group| !is_behind(group));
        if let Some(group) = count.checked_sub(1).map(|at| groups[at]) {
            last = Last { term: group.term, epoch: group.epoch, time: group.time };
        }
        if count < groups.len() {
            return check_position(last, point, true);
        }
    }
    check_position(last, point, false)
}

/// Refuses a position that is not in the timeline, and a time where the log does not say any.
fn check_position(last: Last, point: RestorePoint, has_later: bool) -> Result<Last> {
    if matches!(point, RestorePoint::Time(_)) && last.epoch > 0 && last.time == 0 {
        return Err(ArchiveError::Refused(
            "the log there does not say when it was written: restore to a position, or to a later time"
                .to_owned(),
        ));
    }
    let RestorePoint::Position { term, epoch } = point else { return Ok(last) };
    if term != 0 && last.term != term {
        return Err(ArchiveError::Refused(format!(
            "position {term}/{epoch} is not in the timeline: the group there has the position {}/{}",
            last.term, last.epoch
        )));
    }
    if !has_later && last.epoch < epoch {
        return Err(ArchiveError::Refused(format!(
            "the archive ends with the position {}/{}, before {term}/{epoch}",
            last.term, last.epoch
        )));
    }
    Ok(last)
}

/// The checkpoint from which the log is replayed; `None`: from its beginning.
fn choose(catalog: &Catalog, last: Last, point: RestorePoint) -> Result<Option<ArchivedCheckpoint>> {
    let base = catalog.checkpoints.iter().rev().find(|checkpoint| checkpoint.log_epoch <= last.epoch);
    let has_beginning = catalog.start == SegmentPosition::FIRST;
    if base.is_some() || has_beginning && (last.epoch > 0 || point == RestorePoint::End) {
        return Ok(base.copied());
    }
    let first = catalog.checkpoints.first().map_or(0, |checkpoint| checkpoint.log_epoch);
    Err(ArchiveError::Refused(if has_beginning {
        "nothing was written before that moment; choose a later one".to_owned()
    } else {
        format!("the archive does not reach back so far: it begins with epoch {first}; choose a later moment")
    }))
}

/// Reads the objects of a checkpoint, and gives the chunks of its files.
pub(crate) fn read_chunks(
    objects: &dyn Objects,
    line: Timeline,
    checkpoint: &ArchivedCheckpoint,
    add: &mut dyn FnMut(FileChunk) -> Result<()>,
) -> Result<()> {
    let mut sum = 0;
    for index in 1..=checkpoint.chunks {
        let name = line.chunk(checkpoint.number, index);
        let (body, object_sum) = decode(&name, &get(objects, &name, "the catalog lists the checkpoint")?)?;
        sum = crc32c::crc32c_append(sum, &object_sum.to_le_bytes());
        let chunk = chunk(&body).ok_or_else(|| ArchiveError::damaged(&name, "it is no chunk of a file"))?;
        add(chunk)?;
    }
    if sum != checkpoint.sum {
        let name = line.chunk(checkpoint.number, checkpoint.chunks);
        return Err(ArchiveError::damaged(&name, "the checkpoint is not the one that the catalog lists"));
    }
    Ok(())
}

fn chunk(body: &[u8]) -> Option<FileChunk> {
    let mut fields = Fields(body);
    let length = fields.u32()?;
    let file = String::from_utf8(fields.take(length.into())?.to_vec()).ok()?;
    Some(FileChunk { file, offset: fields.u64()?, bytes: fields.0.to_vec() })
}

/// Reads the log from a place through a group.
fn add_log(
    objects: &dyn Objects,
    line: Timeline,
    catalog: &Catalog,
    start: SegmentPosition,
    last: Last,
    add: &mut dyn FnMut(&heddledb::LogPiece) -> Result<()>,
) -> Result<()> {
    let mut walk = Walk::new(objects, line, catalog)?;
    if let Some(first) = walk.search(|object| object.piece.start.sequence > start.sequence)? {
        walk.seek(first);
    }
    while let Some(walked) = walk.next() {
        let mut piece = walked?.object.piece;
        if piece.end.sequence <= start.sequence {
            continue;
        }
        let count = piece.groups.partition_point(|group| group.epoch <= last.epoch);
        let is_whole = count == piece.groups.len();
        piece.truncate(count)?;
        // A piece of which all groups are before the checkpoint's log ends before it.
        if count > 0 && piece.end.sequence > start.sequence {
            add(&piece)?;
        }
        if !is_whole {
            break;
        }
    }
    Ok(())
}
