//! Retention: removal of the part of a timeline that is not kept.
//!
//! Invariants: the checkpoint on which the rest is based has been read to its end, and the log since was found without a hole,
//! before anything is removed; and the catalog no longer lists what is removed.

use std::time::Duration;

use heddledb::Uuid;

use crate::archiver::replace_catalog;
use crate::catalog::{ArchivedCheckpoint, Catalog};
use crate::error::Result;
use crate::names::{Timeline, of_chunk, of_log};
use crate::objects::Objects;
use crate::reader::{Walk, newest_catalog, timelines};
use crate::restore::read_chunks;
use crate::timeline::now;

/// Rules for the part of a timeline that is kept. With neither, everything is; with both, what either of them keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Restore to each moment of this last time.
    pub age: Option<Duration>,
    /// The last checkpoints, this many of them, and the log since the oldest of these.
    pub checkpoints: Option<u32>,
}

/// Report of a removal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PruneReport {
    /// Number of objects.
    pub objects: u64,
    /// The number of the checkpoint on which the rest is based; 0: nothing was removed.
    pub base: u32,
}

/// Removes what is not kept of all timelines of a database, or of all databases.
///
/// # Errors
/// What would be kept is damaged: nothing of that timeline is removed; the storage cannot be reached.
pub fn prune(
    objects: &dyn Objects,
    database: Option<Uuid>,
    retention: &Retention,
) -> Result<Vec<(Timeline, PruneReport)>> {
    let mut done = Vec::new();
    for line in timelines(objects, database)? {
        let Some(catalog) = newest_catalog(objects, line)? else { continue };
        let report = prune_line(objects, line, &catalog, retention, now())?;
        done.push((line, report.map_or(PruneReport::default(), |(_, report)| report)));
    }
    Ok(done)
}

/// Removes what is not kept of one timeline; `None` if nothing is to be removed.
pub(crate) fn prune_line(
    objects: &dyn Objects,
    line: Timeline,
    catalog: &Catalog,
    retention: &Retention,
    now: u64,
) -> Result<Option<(Catalog, PruneReport)>> {
    let Some(base) = base(catalog, retention, now) else { return Ok(None) };
    let has_older = catalog.checkpoints.iter().any(|checkpoint| checkpoint.number < base.number);
    let mut walk = Walk::new(objects, line, catalog)?;
    let first = walk.search(|object| object.piece.start.sequence > base.log_start.sequence)?;
    let first = first.unwrap_or(catalog.first);
    if !has_older && first == catalog.first {
        return Ok(None);
    }
    read_chunks(objects, line, &base, &mut |_| Ok(()))?;
    walk.seek(first);
    let mut newer = catalog.clone();
    while let Some(walked) = walk.next() {
        let walked = walked?;
        if walked.sequence == first {
            (newer.first, newer.start) = (first, walked.object.piece.start);
        }
    }
    newer.checkpoints.retain(|checkpoint| checkpoint.number >= base.number);
    let newer = replace_catalog(objects, line, newer)?;
    let objects = remove_unlisted(objects, line, &newer)?;
    Ok(Some((newer, PruneReport { objects, base: base.number })))
}

/// The checkpoint on which what is kept is based; `None` if all is kept.
fn base(catalog: &Catalog, retention: &Retention, now: u64) -> Option<ArchivedCheckpoint> {
    let archived = catalog.last.map_or(0, |last| last.epoch);
    // One whose log is not archived yet is of no use.
    let usable: Vec<_> = catalog.checkpoints.iter().filter(|it| it.log_epoch <= archived).collect();
    let by_age = retention.age.map(|age| {
        let oldest = now.saturating_sub(u64::try_from(age.as_micros()).unwrap_or(u64::MAX));
        usable.iter().rposition(|checkpoint| checkpoint.archived <= oldest)
    });
    let by_count = retention.checkpoints.map(|count| usable.len().checked_sub(count.max(1) as usize));
    // What either of them keeps is kept, so the older base counts, and none means that all is kept.
    let at = match (by_age, by_count) {
        (None, None) => None,
        (Some(only), None) | (None, Some(only)) => only,
        (Some(one), Some(other)) => one.zip(other).map(|(one, other)| one.min(other)),
    };
    at.map(|at| *usable[at])
}

/// Removes the objects that no catalog lists any more: what an earlier attempt has left, too.
fn remove_unlisted(objects: &dyn Objects, line: Timeline, catalog: &Catalog) -> Result<u64> {
    let mut removed = 0;
    let oldest = catalog.checkpoints.first().map_or(0, |checkpoint| checkpoint.number);
    for object in objects.list(&line.checkpoints())? {
        if of_chunk(&object.name).is_some_and(|(number, _)| number < oldest) {
            objects.remove(&object.name)?;
            removed += 1;
        }
    }
    for object in objects.list(&line.logs())? {
        if of_log(&object.name).is_some_and(|(_, sequence)| sequence < catalog.first) {
            objects.remove(&object.name)?;
            removed += 1;
        }
    }
    Ok(removed)
}
