//! Replays the log on several threads.
//!
//! Groups are read in their order by one thread at a time, a batch of them at once, and cut into shares
//! (`storage::restore::scatter`); each share of a batch waits in that share's queue. A thread takes what is next in a queue
//! that no other thread is at, and reads on when there is nothing to take. So no thread has a role, and any number of
//! threads, one too, get to the end.
//!
//! Invariants: of one share, batches are replayed one after another in the order of the log; no more than
//! [`BATCHES_AHEAD`] batches wait; no thread waits for one that has panicked. If something is wrong in several places,
//! the first one in the log is reported.

use std::collections::VecDeque;
use std::sync::Arc;

use crossbeam_epoch::pin;
use parking_lot::{Condvar, Mutex};

use crate::durability::checkpoint::Crew;
use crate::durability::log_reader::Position;
use crate::durability::log_store::LogSource;
use crate::durability::recovery::Recovery;
use crate::durability::watch::{RecoveryStep, Watch};
use crate::error::{Error, Result};
use crate::storage::restore::{Overlap, Scattered, Tools, apply_share, scatter};
use crate::storage::store::Store;

/// Number of shares: more than threads, so that a thread rarely finds all queues empty or taken.
const SHARES: usize = if cfg!(test) { 3 } else { 8 };
/// A batch ends with the group with which it has this much redo, or this many groups.
const BATCH_BYTES: usize = if cfg!(test) { 1 << 9 } else { 1 << 20 };
const BATCH_GROUPS: usize = 256;
/// Limit on batches that wait or are being replayed.
const BATCHES_AHEAD: usize = 8;

/// Groups that follow each other, cut into shares, each with its place in the log.
type Batch = Vec<(Position, Scattered)>;

/// Replays the groups from this epoch on, to the log's end.
///
/// # Errors
/// The log is damaged, or is not this database's: with file and offset.
pub(crate) fn replay(
    store: &Store,
    log: &mut dyn LogSource,
    first_epoch: u64,
    overlap: Overlap,
    (crew, watch): (Crew<'_>, &Watch),
    recovery: &mut Recovery,
) -> Result<()> {
    let shares = (0..SHARES).map(|_| Mutex::new(Tools::new(overlap.of_another_share()))).collect();
    let source = Source { log, watch, first_epoch, tools: Tools::new(overlap), groups: 0, recovery };
    let board = Board { batches: (0..SHARES).map(|_| VecDeque::new()).collect(), ..Board::default() };
    let replay = Replay {
        store,
        source: Mutex::new(source),
        shares,
        board: Mutex::new(board),
        changed: Condvar::new(),
    };
    // What one batch holds is replayed before other threads have started.
    if replay.read() {
        crew(&|| replay.work());
    } else {
        replay.work();
    }
    let Replay { source, shares, board, .. } = replay;
    let Source { log, tools, .. } = source.into_inner();
    if let Some(Failure { error, place, .. }) = board.into_inner().failure {
        return Err(place.map_or(error.clone(), |place| log.blame(place, error)));
    }
    let all = shares.into_iter().map(Mutex::into_inner).chain([tools]);
    all.into_iter()
        .try_for_each(|mut tools| tools.begin_epoch(None))
        .map_err(|error| log.blame(log.last_place(), error))
}

/// State shared by the replaying threads.
struct Replay<'r> {
    store: &'r Store,
    source: Mutex<Source<'r>>,
    /// Each share's tools, locked by the thread that replays it.
    shares: Vec<Mutex<Tools>>,
    board: Mutex<Board>,
    /// Rung when the board has changed.
    changed: Condvar,
}

/// The source of groups: the log, and the state of its reading.
struct Source<'r> {
    log: &'r mut dyn LogSource,
    watch: &'r Watch,
    first_epoch: u64,
    tools: Tools,
    /// Groups read so far.
    groups: u64,
    recovery: &'r mut Recovery,
}

/// Work that waits, and work that a thread has begun.
#[derive(Default)]
struct Board {
    /// For each share, the batches that wait for it, each with the number of its first group.
    batches: Vec<VecDeque<(u64, Arc<Batch>)>>,
    /// Bit set of the shares that are being replayed; the lowest bit is the first share's.
    busy: u64,
    /// True while a thread reads.
    reading: bool,
    /// True when everything has been read.
    ended: bool,
    failure: Option<Failure>,
}

const _: () = assert!(SHARES <= 64);

/// An error, the number of its group, and the group's position if the error does not name it yet.
struct Failure {
    group: u64,
    error: Error,
    place: Option<Position>,
}

/// The next work of a thread.
enum Job {
    Replay(usize, u64, Arc<Batch>),
    Read,
}

/// Sends the others home if its thread panics, since what it was at will never be done.
struct AtWork<'w, 'r>(&'w Replay<'r>);

impl Drop for AtWork<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut board = self.0.board.lock();
            let error = Error::Panicked { message: "while the log was replayed".to_string() };
            board.fail(Failure { group: 0, error, place: None });
            (board.busy, board.reading) = (0, false);
            self.0.changed.notify_all();
        }
    }
}

impl Replay<'_> {
    fn work(&self) {
        let _at_work = AtWork(self);
        while let Some(job) = self.next_job() {
            match job {
                Job::Replay(share, first, batch) => {
                    let replayed = self.replay_share(share, first, &batch);
                    let mut board = self.board.lock();
                    board.busy &= !(1 << share);
                    replayed.unwrap_or_else(|failure| board.fail(failure));
                }
                Job::Read => _ = self.read(),
            }
            self.changed.notify_all();
        }
    }

    /// Reads a batch and distributes it to all shares; returns true if the batch was full.
    fn read(&self) -> bool {
        let read = self.source.lock().read(self.store);
        let mut board = self.board.lock();
        board.reading = false;
        match read {
            Ok((first, batch, is_full)) => {
                board.put(first, batch);
                return is_full;
            }
            Err(failure) => board.fail(failure),
        }
        false
    }

    /// Waits for something to do; nothing: all is done, or failed.
    fn next_job(&self) -> Option<Job> {
        let mut board = self.board.lock();
        loop {
            if let Some(job) = board.take() {
                return Some(job);
            }
            if board.is_over() {
                return None;
            }
            self.changed.wait(&mut board);
        }
    }

    fn replay_share(&self, share: usize, first: u64, batch: &Batch) -> std::result::Result<(), Failure> {
        let (mut tools, guard) = (self.shares[share].lock(), pin());
        for ((place, group), number) in batch.iter().zip(first..) {
            apply_share(self.store, group, share, &mut tools, &guard).map_err(|error| Failure {
                group: number,
                error,
                place: Some(*place),
            })?;
        }
        Ok(())
    }
}

impl Board {
    /// The next work, if there is any now.
    fn take(&mut self) -> Option<Job> {
        if self.failure.is_some() {
            return None;
        }
        for (share, waiting) in self.batches.iter_mut().enumerate() {
            if self.busy >> share & 1 == 0
                && let Some((first, batch)) = waiting.pop_front()
            {
                self.busy |= 1 << share;
                return Some(Job::Replay(share, first, batch));
            }
        }
        let ahead = self.batches.iter().map(VecDeque::len).max().unwrap_or(0);
        if self.reading || self.ended || ahead >= BATCHES_AHEAD {
            return None;
        }
        self.reading = true;
        Some(Job::Read)
    }

    fn is_over(&self) -> bool {
        let idle = self.busy == 0 && !self.reading;
        idle && (self.failure.is_some() || self.ended && self.batches.iter().all(VecDeque::is_empty))
    }

    /// Hands a batch to all shares; an empty one is the last.
    fn put(&mut self, first: u64, batch: Batch) {
        if batch.is_empty() {
            self.ended = true;
            return;
        }
        let batch = Arc::new(batch);
        // A group is handed on even to a share for which it has nothing: its tools have to know the epoch.
        for waiting in &mut self.batches {
            waiting.push_back((first, batch.clone()));
        }
    }

    fn fail(&mut self, failure: Failure) {
        if self.failure.as_ref().is_none_or(|before| failure.group < before.group) {
            self.failure = Some(failure);
        }
    }
}

impl Source<'_> {
    /// Reads a batch, and cuts it into shares; with the number of its first group, and whether it is full.
    fn read(&mut self, store: &Store) -> std::result::Result<(u64, Batch, bool), Failure> {
        let (first, mut batch, mut bytes) = (self.groups, Batch::new(), 0);
        let guard = pin();
        let is_full = |bytes: usize, batch: &Batch| bytes >= BATCH_BYTES || batch.len() >= BATCH_GROUPS;
        while !is_full(bytes, &batch) {
            let group = self.groups;
            let next = self.log.next_group().map_err(|error| Failure { group, error, place: None })?;
            let Some(next) = next else { break };
            if next.epoch < self.first_epoch {
                continue;
            }
            let place = self.log.last_place();
            let length = next.payload.len();
            let scattered = scatter(store, (next.epoch, next.payload), SHARES, &mut self.tools, &guard)
                .map_err(|error| Failure { group, error, place: Some(place) })?;
            bytes += length;
            self.groups += 1;
            self.recovery.transactions += scattered.transactions;
            self.recovery.groups += 1;
            self.recovery.bytes += length as u64;
            self.recovery.durable_epoch = self.recovery.durable_epoch.max(next.epoch);
            batch.push((place, scattered));
        }
        let (done, total) = self.log.progress();
        self.watch.report(RecoveryStep::Log, done, total);
        let is_full = is_full(bytes, &batch);
        Ok((first, batch, is_full))
    }
}

#[cfg(test)]
mod tests;
