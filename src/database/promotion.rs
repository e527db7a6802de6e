//! Promotion of a standby in place: what was a copy of another process's database in memory becomes that database.
//!
//! The standby has all that was logged, in records with stamps of epochs of its own. So that these and the epochs of the log
//! never meet, the first epoch that is logged from now on is higher than all of both: recovery compares no stamp of a checkpoint
//! with one of a group that was before it.
//!
//! # Invariants
//! - The directory is locked, and the log was replayed to its end: nothing is in it that the store has not.
//! - What was replayed is durable before an update is accepted: the last groups of a process that was killed may be in the system's
//!   cache alone, and are written again, as by recovery.
//! - Updates are accepted last.
//!
//! # Concurrency
//! Readers go on. Commits do not: the one thread that commits on a standby has replayed all. The log stage that logs nothing ends, and
//! another one takes its place; what both read is changed in between, behind the closed gate.

use std::sync::Arc;

use super::log_writing::{begin_to_write, temporary_files};
use super::open::{OwnTerm, Shared, release};
use crate::durability::DatabaseDirectory;
use crate::durability::log_tail::ReplayedLog;
use crate::error::Result;
use crate::pipeline::log::LogStage;
use crate::pipeline::standby::Standby;
use crate::sequence::serve_identities;

impl Shared {
    /// Makes a standby the database in this directory, which is locked, and whose log was replayed to its end.
    ///
    /// # Errors
    /// The log or a checkpoint cannot be read or written; a thread is refused; [`Error::Closed`](crate::Error::Closed).
    pub(super) fn take_over(
        &self,
        standby: &Arc<Standby>,
        log: &ReplayedLog,
        directory: DatabaseDirectory,
    ) -> Result<()> {
        let _open = self.hold_open()?;
        let (options, engine) = (self.promoted()?, self.shared_engine());
        let checkpoints = directory.checkpoints(directory.disk().clone());
        let newest = checkpoints.newest_first()?.first().copied();
        let manifest = newest.map(|number| checkpoints.manifest(number)).transpose()?;
        let end = log.end(&directory, manifest.as_ref())?;
        let highest = end.highest_epoch_seen.max(manifest.map_or(0, |manifest| manifest.last_epoch));
        let writing = begin_to_write(&directory, options, engine.store(), (end, newest))?;
        let number = writing.log.term();
        engine.space().set_refused(writing.preparation.begin());
        let group_time = options.log.group_time(options.durability);
        let checkpointer = writing.checkpointer;
        let stage = |(log, preparation), stop| {
            let log = Some((log, preparation));
            LogStage::new(engine.clone(), log, group_time, stop, Some(checkpointer.clone()))
        };
        let switch = || {
            let store = engine.store();
            store.set_temporary_files(temporary_files(&directory));
            if let Some(transactions) = options.log.group_size {
                store.limit_epochs(transactions);
            }
            store.begin_to_log(highest + 1, |first| {
                engine.space().begin_to_log(writing.segments);
                engine.progress().begin_to_log(first - 1, release(true, options.durability));
            });
        };
        let log_and_segments = (writing.log, Some(writing.preparation));
        self.threads().begin_to_log(engine, (log_and_segments, &checkpointer), stage, switch)?;
        let behind = log.position();
        self.note_writing(OwnTerm { number, behind, through: behind.epoch() }, &checkpointer, directory);
        serve_identities(self)?;
        self.protocol_change().open_with(options.protocol.kind)?;
        standby.note_promotion();
        engine.accept_updates();
        Ok(())
    }
}
