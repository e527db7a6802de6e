//! A follower's copy of all data: loaded from a checkpoint, kept up to date by replaying the log as it arrives.
//!
//! Invariants: between two groups it is through exactly the last one's epoch, as a database would be that had
//! recovered then. It is one thread's alone.

use std::path::Path;
use std::sync::Arc;

use crossbeam_epoch::pin;

use super::block_chain::BlockChain;
use crate::base::disk::Disk;
use crate::durability::checkpoint::{self, Checkpoints, Crew};
use crate::durability::watch::Watch;
use crate::durability::{GroupStart, Uuid, checkpoints_of, identity};
use crate::error::{Error, Result};
use crate::storage::epoch::FIRST;
use crate::storage::reclaim::collect_all;
use crate::storage::restore::{Overlap, Tools, apply_share, scatter};
use crate::storage::store::Store;

/// Deleted records are collected, and dropped tables freed, each time this much redo was replayed.
const SWEEP_BYTES: u64 = if cfg!(test) { 1 << 10 } else { 256 << 20 };

/// See the [module](self).
pub(crate) struct Replica {
    store: Store,
    checkpoints: Checkpoints,
    chain: BlockChain,
    /// Groups before this epoch are in the checkpoint.
    first_epoch: u64,
    /// The last epoch that is in it.
    epoch: u64,
    /// Scratch memory for the changes that all shares have in common, and for the others.
    tools: [Tools; 2],
    /// Bytes of redo since deleted records were taken out.
    unswept: u64,
}

impl Replica {
    /// Loads a checkpoint of the database in a directory, behind which the log will come from `start` on; nothing, if its
    /// number is 0. `named`: how the database calls its directory. A copy of it has the same identity, and checkpoints of
    /// the same numbers.
    ///
    /// # Errors
    /// It is another database's directory; the checkpoint cannot be read, or is damaged, or there is none of that number
    /// any more.
    pub(crate) fn load(
        disk: &Arc<dyn Disk>,
        directory: &Path,
        (uuid, named): (Uuid, &str),
        (number, start): (u32, GroupStart),
        (crew, watch): (Crew<'_>, &Watch),
    ) -> Result<Replica> {
        let checkpoints = checkpoints_of(disk.clone(), directory, uuid);
        if identity(&**disk, directory)?.uuid != uuid || checkpoints.database()? != named {
            return Err(Error::ForeignFile { path: directory.display().to_string() });
        }
        let store = Store::new(FIRST, 1, false);
        let (mut first_epoch, mut epoch, mut overlap) = (0, 0, Overlap::default());
        if number > 0 {
            let manifest = checkpoints.manifest(number)?;
            (first_epoch, epoch) = (manifest.first_epoch, manifest.first_epoch.saturating_sub(1));
            overlap = checkpoint::load(&checkpoints, &manifest, &store, (crew, watch))?;
        }
        let tools = [Tools::new(overlap.of_another_share()), Tools::new(overlap)];
        let chain = BlockChain::new(uuid, start);
        Ok(Replica { store, checkpoints, chain, first_epoch, epoch, tools, unswept: 0 })
    }

    /// Replays the next block of the log; returns the bytes of redo that were replayed.
    ///
    /// # Errors
    /// It is not the next one, or makes no sense.
    pub(crate) fn take(&mut self, block: &[u8]) -> Result<u64> {
        let Some((epoch, payload)) = self.chain.take(block)? else { return Ok(0) };
        if epoch < self.first_epoch {
            return Ok(0);
        }
        let (bytes, guard) = (payload.len() as u64, pin());
        let [common, own] = &mut self.tools;
        let group = scatter(&self.store, (epoch, payload), 1, common, &guard)?;
        apply_share(&self.store, &group, 0, own, &guard)?;
        self.epoch = epoch;
        self.unswept += bytes;
        if self.unswept >= SWEEP_BYTES {
            self.sweep()?;
        }
        Ok(bytes)
    }

    /// Makes it ready to be written as it is at the end of an epoch.
    ///
    /// # Errors
    /// It is not: a group is there by half, or one of a later epoch, or what was missed in the checkpoint has not come.
    pub(crate) fn settle(&mut self, epoch: u64) -> Result<()> {
        if !self.chain.is_between_groups() || self.epoch > epoch {
            let detail = format!("a checkpoint of epoch {epoch} is asked for in epoch {}", self.epoch);
            return Err(Error::Malformed { what: "order of a database", detail });
        }
        self.tools.iter_mut().try_for_each(|tools| tools.begin_epoch(None))?;
        self.epoch = epoch;
        self.sweep()
    }

    /// Collects deleted records, and frees tables that were dropped. A record that is re-inserted has a later stamp than its deletion
    /// had, so none is missed.
    ///
    /// # Errors
    /// The catalog is damaged.
    fn sweep(&mut self) -> Result<()> {
        // In the middle of a group, the rest of it may change a table that the group drops.
        if self.chain.is_between_groups() {
            self.store.free_dropped(&pin())?;
        }
        self.store.all_tables().iter().for_each(|table| collect_all(table, &pin()));
        self.unswept = 0;
        Ok(())
    }

    /// Bytes of memory that its rows take.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.store.slabs().budget().used()
    }

    /// The data of the copy.
    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// The last epoch that is in it.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The database's checkpoints.
    pub(crate) fn checkpoints(&self) -> &Checkpoints {
        &self.checkpoints
    }
}
