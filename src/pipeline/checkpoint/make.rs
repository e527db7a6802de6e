//! One checkpoint from its first epoch to its manifest, and the removal of what it replaces.
//!
//! Copies are of different moments, because transactions run beside the copying. The log from the first epoch on makes
//! them consistent: the manifest is written only when the log is durable through every epoch that a copy can be of, and
//! only then are the older checkpoint and the log before the first epoch removed. So at each moment one whole
//! checkpoint with the log behind it, or the whole log, is on disk.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use super::copying::Job;
use super::pace::Pace;
use super::report::CheckpointReport;
use super::{Checkpointer, SHORT, broken};
use crate::base::disk::has_bug;
use crate::durability::checkpoint::{Content, Manifest, NewCheckpoint};
use crate::error::{Error, Result};
use crate::pipeline::engine::Engine;
use crate::storage::catalog::FIRST_USER_TABLE;
use crate::storage::fuzzy_scan::{Copied, first_epoch_needed};

impl Checkpointer {
    /// Makes a checkpoint, and removes what it makes useless.
    pub(super) fn make(&self, engine: &Engine, pace: &Arc<Pace>) -> Result<CheckpointReport> {
        let start = Instant::now();
        if let Some(failure) = engine.progress().failure() {
            // What is in memory only would be copied unnecessarily, again and again.
            return Err(failure);
        }
        let by_follower = self.make_elsewhere(engine)?;
        let is_by_follower = by_follower.is_some();
        let manifest = by_follower.map_or_else(|| self.make_here(engine, pace), Ok)?;
        let (removed, leftover) = self.remove_old(&manifest);
        self.state.lock().first_segment = manifest.log_start.segment;
        Ok(CheckpointReport {
            number: manifest.number,
            epoch: manifest.first_epoch,
            records: manifest.records(),
            bytes: manifest.bytes(),
            log_segments_removed: removed,
            leftover,
            by_follower: is_by_follower,
            time: start.elapsed(),
        })
    }

    /// Makes a checkpoint of the database's own records.
    fn make_here(&self, engine: &Engine, pace: &Arc<Pace>) -> Result<Manifest> {
        loop {
            let first_epoch = first_epoch_needed(engine.store(), engine.progress().durable());
            let new = Arc::new(self.begin()?);
            let copied = self.copy_all(engine, &new, pace);
            let manifest = copied.and_then(|copied| {
                copied.map(|copied| self.finish(engine, &new, first_epoch, copied)).transpose()
            });
            match manifest {
                Ok(Some(manifest)) => return Ok(manifest),
                // Columns were added meanwhile.
                Ok(None) => new.abandon(),
                Err(error) => {
                    new.abandon();
                    return Err(error);
                }
            }
        }
    }

    /// Begins a checkpoint, of a number that was never used.
    pub(super) fn begin(&self) -> Result<NewCheckpoint> {
        let used = self.state.lock().number;
        let new = NewCheckpoint::begin(&self.checkpoints, &self.settings.directories, used)?;
        self.state.lock().number = new.number();
        Ok(new)
    }

    /// Copies the catalog, then, together with the helpers, everything else. Returns `None` if columns were added to a
    /// table meanwhile, so that rows may have been copied without values that they have, and that the log will not
    /// bring.
    fn copy_all(
        &self,
        engine: &Engine,
        new: &Arc<NewCheckpoint>,
        pace: &Arc<Pace>,
    ) -> Result<Option<Copied>> {
        let _walk = engine.store().retired_tables().begin_walk();
        let (catalog, others) = engine
            .store()
            .all_tables()
            .into_iter()
            .partition::<Vec<_>, _>(|table| table.id() < FIRST_USER_TABLE);
        let catalog = Job::of_catalog(new.clone(), catalog, pace.clone());
        catalog.work(engine, self);
        let mut copied = catalog.outcome()?;
        let job = Arc::new(Job::new(new.clone(), others.clone(), pace.clone()));
        let mut state = self.state.lock();
        (state.job, state.jobs) = (Some(job.clone()), state.jobs + 1);
        self.changed.notify_all();
        drop(state);
        let own = catch_unwind(AssertUnwindSafe(|| job.work(engine, self)));
        if let Err(panic) = own {
            job.fail(broken(&*panic));
        }
        let mut state = self.state.lock();
        // From here on no helper begins; those that have are waited for.
        state.job = None;
        while state.at_work > 0 {
            self.changed.wait(&mut state);
        }
        drop(state);
        copied.add(&job.outcome()?);
        Ok((!others.iter().any(|table| table.is_extended())).then_some(copied))
    }

    fn finish(
        &self,
        engine: &Engine,
        new: &NewCheckpoint,
        first_epoch: u64,
        copied: Copied,
    ) -> Result<Manifest> {
        let last_epoch = self.wait_for_log(engine)?;
        debug_assert!(copied.highest_epoch <= last_epoch, "a copy of a later epoch than the global one");
        new.finish(Content {
            first_epoch,
            last_epoch,
            log_epoch: self.segments.last_epoch(),
            log_start: self.segments.start_before(first_epoch),
            tables: copied.tables,
        })
    }

    /// Waits until the log is durable through the present epoch, and gives that back.
    fn wait_for_log(&self, engine: &Engine) -> Result<u64> {
        let epoch = engine.store().epochs().current();
        if has_bug!(self.checkpoints.disk(), CheckpointBeforeLog) {
            return Ok(epoch);
        }
        while engine.progress().durable() < epoch {
            if self.is_stopped() {
                return Err(Error::Closed);
            }
            if let Some(failure) = engine.progress().failure() {
                return Err(failure);
            }
            // An idle log ends its epoch at once.
            engine.end_epoch(epoch);
            std::thread::sleep(SHORT);
        }
        Ok(epoch)
    }

    /// Removes the log before a checkpoint, and older checkpoints: how many segments, and what could not be removed now.
    fn remove_old(&self, manifest: &Manifest) -> (u64, Option<Error>) {
        let segments = self.segments.remove_before(manifest.log_start.segment);
        let checkpoints = self.checkpoints.remove_all_but(Some(manifest.number), &self.settings.directories);
        let removed = *segments.as_ref().unwrap_or(&0);
        (removed, segments.map(drop).and(checkpoints).err())
    }
}
