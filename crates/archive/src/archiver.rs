//! Copies a database's log and checkpoints to its archive, step by step; without threads.
//!
//! Invariants: an object of the log is created, then the catalog that lists it, and only then the database's log may be removed
//! that it has. Whatever fails in between is done again, and finds the same bytes there; where it finds others, another database
//! has continued the timeline, and a new one is begun.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use heddledb::{ArchiveSource, ArchiveStatus, CheckpointCopy, LogPiece, SegmentPosition};

use crate::catalog::{ArchivedCheckpoint, Catalog, LastGroup};
use crate::encoding::{Body, encode};
use crate::error::{ArchiveError, Result};
use crate::log_object::LogObject;
use crate::names::{Timeline, of_catalog};
use crate::objects::{Objects, put};
use crate::prune::{Retention, prune_line};
use crate::reader::{Walk, newest_catalog, read_catalog};
use crate::timeline::{Beginning, Known, Parent, known, note, now};

/// Number of attempts to find a base, each of which fails because a newer checkpoint has replaced it.
const ATTEMPTS: u32 = 10;

/// Settings of an archiver.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ArchiveSettings {
    /// The longest time until a durable group is uploaded, while the archive can be reached.
    pub interval: Duration,
    /// The least time between two checkpoints that are uploaded.
    pub checkpoint_interval: Duration,
    /// Bytes of the log at which an object is uploaded before its time.
    pub object_bytes: u64,
    /// Bytes of a checkpoint's file in an object.
    pub chunk_bytes: usize,
    /// Bytes of the log, not needed by recovery, that are held until they are archived.
    pub hold_bytes: u64,
    /// The retention.
    pub retention: Retention,
}

impl Default for ArchiveSettings {
    fn default() -> Self {
        ArchiveSettings {
            interval: Duration::from_secs(10),
            checkpoint_interval: Duration::from_secs(3_600),
            object_bytes: 16 << 20,
            chunk_bytes: 16 << 20,
            hold_bytes: 1 << 30,
            retention: Retention::default(),
        }
    }
}

/// The outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There was nothing to do, or not yet.
    Idle,
    /// Something was uploaded, and there may be more.
    Uploaded,
}

/// Copies one database to its archive.
pub struct Archiver {
    objects: Arc<dyn Objects>,
    source: ArchiveSource,
    directory: PathBuf,
    settings: ArchiveSettings,
    line: Option<(Timeline, Catalog)>,
    /// The moment at which an object of the log was uploaded last, and the bytes that the log had had by then.
    uploaded: Option<(Instant, u64)>,
    /// The moment at which a checkpoint was uploaded last.
    checkpoint: Option<Instant>,
    /// The moment of the last look for a newer checkpoint.
    looked: Option<Instant>,
    status: ArchiveStatus,
}

impl std::fmt::Debug for Archiver {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Archiver").field("status", &self.status).finish_non_exhaustive()
    }
}

impl Archiver {
    /// Archives the database in a directory. Nothing is read or written yet; the database shows from now on that it has an archive.
    pub fn new(
        objects: Arc<dyn Objects>,
        source: ArchiveSource,
        directory: &Path,
        settings: ArchiveSettings,
    ) -> Archiver {
        let (line, uploaded, checkpoint, looked) = (None, None, None, None);
        let (directory, status) = (directory.to_path_buf(), ArchiveStatus::default());
        source.report(status.clone());
        Archiver { objects, source, directory, settings, line, uploaded, checkpoint, looked, status }
    }

    /// Progress and failures.
    pub fn status(&self) -> &ArchiveStatus {
        &self.status
    }

    /// Uploads what is due; with `flush` everything that is durable. It notes success and failure in the status, which the
    /// database shows from then on.
    ///
    /// # Errors
    /// The storage cannot be reached; a file of the database is damaged.
    pub fn step(&mut self, flush: bool) -> Result<Step> {
        let done = self.attempt(flush);
        match &done {
            Ok(_) => self.status.failure = None,
            Err(error) => {
                self.status.failures += 1;
                self.status.failure = Some(error.to_string());
            }
        }
        self.look_at_the_hold();
        self.source.report(self.status.clone());
        done
    }

    fn attempt(&mut self, flush: bool) -> Result<Step> {
        if self.line.is_none() {
            self.connect()?;
        }
        let done = self.upload(flush);
        match done {
            Err(ArchiveError::Conflict { .. })
            | Err(ArchiveError::Database(heddledb::Error::MissingFile { .. })) => {
                // The next step looks at what is there, and begins a timeline if this one cannot be continued.
                self.line = None;
            }
            _ => {}
        }
        done
    }

    fn upload(&mut self, flush: bool) -> Result<Step> {
        if self.is_due(flush)
            && let Some(piece) = self.source.read(self.end(), self.settings.object_bytes)?
        {
            let is_last = (piece.bytes.len() as u64) < self.settings.object_bytes;
            self.upload_piece(piece)?;
            if is_last {
                self.uploaded = Some((Instant::now(), self.source.log_bytes()));
            }
            return Ok(Step::Uploaded);
        }
        if self.may_look_for_a_checkpoint()
            && let Some(copy) = self.source.newest_checkpoint()?
        {
            let newest = self.line.as_ref().and_then(|(_, catalog)| catalog.checkpoints.last());
            if newest.is_none_or(|newest| newest.number < copy.number()) {
                self.add_checkpoint(copy)?;
                self.prune()?;
                return Ok(Step::Uploaded);
            }
        }
        Ok(Step::Idle)
    }

    /// Returns true if a checkpoint is due, as far as time goes. Looking for one reads files.
    fn may_look_for_a_checkpoint(&mut self) -> bool {
        let is_over = |since: Option<Instant>, time| since.is_none_or(|since| since.elapsed() >= time);
        let is_due = is_over(self.checkpoint, self.settings.checkpoint_interval)
            && is_over(self.looked, self.settings.interval);
        if is_due {
            self.looked = Some(Instant::now());
        }
        is_due
    }

    /// Returns true if groups are due.
    fn is_due(&self, flush: bool) -> bool {
        if self.source.durable_epoch() < self.end().epoch {
            return false;
        }
        flush
            || self.uploaded.is_none_or(|(last, log_bytes)| {
                let pending = self.source.log_bytes().saturating_sub(log_bytes);
                last.elapsed() >= self.settings.interval || pending >= self.settings.object_bytes
            })
    }

    /// The position of the next group.
    fn end(&self) -> SegmentPosition {
        self.line.as_ref().map_or(SegmentPosition::FIRST, |(_, catalog)| catalog.end)
    }

    fn upload_piece(&mut self, piece: LogPiece) -> Result<()> {
        let Some((line, catalog)) = &self.line else { return Ok(()) };
        let mut newer = catalog.clone();
        let object = LogObject { predecessor: catalog.sum, piece };
        let term = object.piece.groups.last().map_or(0, |group| group.term);
        let name = line.log(term, catalog.next);
        let encoded = encode(&name, &object.encode());
        put(&*self.objects, &name, &encoded.bytes)?;
        newer.append(term, encoded.sum, &object.piece);
        let (line, bytes) = (*line, encoded.bytes.len() as u64);
        let newer = replace_catalog(&*self.objects, line, newer)?;
        self.status.objects += 1;
        self.status.bytes += bytes;
        self.go_on(line, newer);
        Ok(())
    }

    /// Goes on with a catalog that is written: the log before its end need not be held.
    fn go_on(&mut self, line: Timeline, catalog: Catalog) {
        // A false answer is looked at by the next step: the log no longer reaches back.
        let _ = self.source.hold(catalog.held_epoch(), self.settings.hold_bytes);
        self.status.timeline = line.number;
        self.status.archived_epoch =
            catalog.last.map_or(catalog.end.epoch.saturating_sub(1), |last| last.epoch);
        self.status.last_upload = Some(std::time::SystemTime::now());
        self.line = Some((line, catalog));
    }

    fn add_checkpoint(&mut self, copy: CheckpointCopy) -> Result<()> {
        let Some((line, catalog)) = self.line.clone() else { return Ok(()) };
        let archived = self.upload_checkpoint(line, copy)?;
        let mut newer = catalog;
        newer.checkpoints.push(archived);
        let newer = replace_catalog(&*self.objects, line, newer)?;
        self.checkpoint = Some(Instant::now());
        self.status.checkpoint = archived.number;
        self.go_on(line, newer);
        Ok(())
    }

    fn upload_checkpoint(&mut self, line: Timeline, mut copy: CheckpointCopy) -> Result<ArchivedCheckpoint> {
        let (mut chunks, mut bytes, mut sum) = (0, 0, 0);
        while let Some(chunk) = copy.next_chunk(self.settings.chunk_bytes)? {
            chunks += 1;
            let name = line.chunk(copy.number(), chunks);
            let mut body = Body::default();
            body.u32(chunk.file.len() as u32).bytes(chunk.file.as_bytes()).u64s(&[chunk.offset]);
            body.bytes(&chunk.bytes);
            let encoded = encode(&name, &body.0);
            put(&*self.objects, &name, &encoded.bytes)?;
            bytes += chunk.bytes.len() as u64;
            sum = crc32c::crc32c_append(sum, &encoded.sum.to_le_bytes());
            self.status.objects += 1;
            self.status.bytes += encoded.bytes.len() as u64;
        }
        let (number, log_epoch, log_start) = (copy.number(), copy.log_epoch(), copy.log_start());
        Ok(ArchivedCheckpoint { number, log_epoch, log_start, chunks, bytes, archived: now(), sum })
    }

    /// Removes what the retention does not keep; not before a newer checkpoint is there.
    fn prune(&mut self) -> Result<()> {
        let Some((line, catalog)) = self.line.clone() else { return Ok(()) };
        if let Some((newer, _)) = prune_line(&*self.objects, line, &catalog, &self.settings.retention, now())?
        {
            self.line = Some((line, newer));
        }
        Ok(())
    }

    /// Notes how much of the log is held, and whether the archive has lost some of it.
    fn look_at_the_hold(&mut self) {
        let epoch = self.end().epoch.saturating_sub(1);
        self.status.durable_epoch = self.source.durable_epoch();
        self.status.bytes_behind = self.source.bytes_behind(epoch).unwrap_or(self.status.bytes_behind);
        self.status.alarm = self.status.failure.is_some()
            && (!self.source.is_held() || self.status.bytes_behind > self.settings.hold_bytes);
    }

    /// Finds the timeline that the database continues, or begins one.
    fn connect(&mut self) -> Result<()> {
        let (line, catalog) = match known(&self.directory) {
            Known::Continues(number, token) => {
                let line = Timeline { database: self.source.identity(), number };
                match self.resume(line, token)? {
                    Some(catalog) => (line, catalog),
                    None => self.begin(Parent { number, ..Parent::default() })?,
                }
            }
            Known::Restored(parent) => self.begin(parent)?,
            Known::Nothing => self.begin(Parent::default())?,
        };
        self.status.checkpoint = catalog.checkpoints.last().map_or(0, |checkpoint| checkpoint.number);
        self.go_on(line, catalog);
        Ok(())
    }

    /// The catalog of a timeline, if this database's log continues what it has.
    fn resume(&self, line: Timeline, token: [u8; 16]) -> Result<Option<Catalog>> {
        match Beginning::read(&*self.objects, line) {
            Ok(beginning) if beginning.token == token => {}
            // Another archive, in which the number is another database's or none's.
            Ok(_) | Err(ArchiveError::Missing { .. }) => return Ok(None),
            Err(error) => return Err(error),
        }
        let Some(listed) = newest_catalog(&*self.objects, line)? else { return Ok(None) };
        let mut catalog = listed.clone();
        let mut walk = Walk::new(&*self.objects, line, &listed)?;
        walk.seek_behind_the_catalog();
        while let Some(walked) = walk.next() {
            let walked = walked?;
            catalog.append(walked.term, walked.sum, &walked.object.piece);
        }
        Ok(self.continues(&catalog)?.then_some(catalog))
    }

    /// Returns true if the database's log has the last group that is archived, and goes on behind it.
    fn continues(&self, catalog: &Catalog) -> Result<bool> {
        if !self.source.hold(catalog.held_epoch(), self.settings.hold_bytes) {
            return Ok(false);
        }
        let Some(last) = catalog.last else {
            return Ok(self.source.first_position().sequence <= catalog.end.sequence);
        };
        if self.source.durable_epoch() < last.epoch {
            return Ok(false);
        }
        match self.source.read(last.start, 1) {
            Ok(Some(group)) => Ok(group.end == catalog.end && crc32c::crc32c(&group.bytes) == last.pages),
            Ok(None) => Ok(false),
            // Another block is there, or none, or the segment is gone.
            Err(
                heddledb::Error::MissingFile { .. }
                | heddledb::Error::Malformed { .. }
                | heddledb::Error::Damaged { .. },
            ) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Begins a timeline: with the log if its beginning is there, or else with a checkpoint.
    fn begin(&mut self, parent: Parent) -> Result<(Timeline, Catalog)> {
        let mut token = [0; 16];
        getrandom::fill(&mut token).map_err(|error| ArchiveError::Refused(error.to_string()))?;
        let beginning = Beginning { token, begun: now(), parent };
        let line = beginning.claim(&*self.objects, self.source.identity())?;
        note(&self.directory, Known::Continues(line.number, token))?;
        for _ in 0..ATTEMPTS {
            let first = self.source.first_position();
            if first.sequence == SegmentPosition::FIRST.sequence
                && self.source.hold(0, self.settings.hold_bytes)
            {
                let catalog = Catalog::begin(SegmentPosition::FIRST);
                return Ok((line, replace_catalog(&*self.objects, line, catalog)?));
            }
            let Some(copy) = self.source.newest_checkpoint()? else { continue };
            let start = copy.log_start();
            if !self.source.hold(start.epoch.saturating_sub(1), self.settings.hold_bytes) {
                continue;
            }
            let archived = self.upload_checkpoint(line, copy)?;
            self.checkpoint = Some(Instant::now());
            let mut catalog = Catalog::begin(start);
            catalog.checkpoints.push(archived);
            return Ok((line, replace_catalog(&*self.objects, line, catalog)?));
        }
        Err(ArchiveError::Refused(
            "checkpoints are replaced faster than they can be read; try again".to_owned(),
        ))
    }
}

impl Catalog {
    /// The epoch behind which the database's log is held: the last group that is archived stays, to be compared with.
    fn held_epoch(&self) -> u64 {
        self.last.map_or(self.end.epoch, |last| last.epoch).saturating_sub(1)
    }

    /// Adds an object of the log.
    fn append(&mut self, term: u64, sum: u32, piece: &LogPiece) {
        let Some(group) = piece.groups.last() else { return };
        let before = piece.groups.len().checked_sub(2).map(|at| piece.groups[at]);
        let mut head = piece.clone();
        let start = match head.truncate(piece.groups.len() - 1) {
            Ok(()) => head.end,
            Err(_) => piece.start,
        };
        let begins = before.map_or(0, |before| before.end) as usize;
        let pages = crc32c::crc32c(piece.bytes.get(begins..).unwrap_or_default());
        self.last = Some(LastGroup { start, pages, term: group.term, epoch: group.epoch, time: group.time });
        (self.next, self.end, self.term, self.sum) = (self.next + 1, piece.end, term, sum);
    }
}

/// Writes the next catalog of a timeline and removes the older ones. One that `heddle archive prune` has written meanwhile is
/// gone on from: it lists the same log, and less of what is before.
///
/// # Errors
/// [`ArchiveError::Conflict`] if another database has continued the timeline; the storage cannot be reached.
pub(crate) fn replace_catalog(
    objects: &dyn Objects,
    line: Timeline,
    mut catalog: Catalog,
) -> Result<Catalog> {
    catalog.sequence += 1;
    loop {
        let name = line.catalog(catalog.sequence);
        match put(objects, &name, &encode(&name, &catalog.encode()).bytes) {
            Ok(()) | Err(ArchiveError::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
        // Older ones are removed, so a writer that was slow may have created one that is no longer the newest.
        let listed = objects.list(&line.catalogs())?;
        let numbers: Vec<u64> = listed.iter().filter_map(|object| of_catalog(&object.name)).collect();
        let newest = numbers.iter().copied().max().unwrap_or(0);
        let found = read_catalog(objects, line, newest)?;
        if found.as_ref() == Some(&catalog) {
            for old in numbers.into_iter().filter(|number| *number < catalog.sequence) {
                objects.remove(&line.catalog(old))?;
            }
            return Ok(catalog);
        }
        let Some(found) = found.filter(|found| found.was_pruned_from(&catalog)) else {
            return Err(ArchiveError::Conflict { object: name });
        };
        catalog.forget_what_was_pruned(&found);
        catalog.sequence = found.sequence + 1;
    }
}

impl Catalog {
    /// Returns true if this catalog lists no object of the log that the other one does not list, and no other checkpoints.
    fn was_pruned_from(&self, other: &Catalog) -> bool {
        let is_known = |checkpoint| other.checkpoints.contains(checkpoint);
        self.first >= other.first
            && self.next <= other.next
            && (self.next < other.next || self.sum == other.sum)
            && self.checkpoints.iter().all(is_known)
    }

    fn forget_what_was_pruned(&mut self, pruned: &Catalog) {
        (self.first, self.start) = (pruned.first, pruned.start);
        let oldest = pruned.checkpoints.first().map_or(0, |checkpoint| checkpoint.number);
        self.checkpoints.retain(|checkpoint| checkpoint.number >= oldest);
    }
}
