//! A disk in memory that keeps apart what was written and what is durable, and that fails on request.
//!
//! Exactly these faults are legal; code on top of [`Disk`](crate::testing::Disk) must survive each of them:
//!
//! - **Power loss** ([`SimulatedDisk::crash_image`]). Of the writes to a file since its last good sync, each is
//!   kept, lost, or torn: kept in some of its 512-byte sectors and not in others. A sector is never half written.
//!   Writes may be kept out of order; a file may have grown although the bytes that made it grow are lost (they
//!   read as zeros). Of the changes to a directory since its last good `sync_dir` (create, rename, remove, new
//!   directory) each is kept or lost independently, whatever was synced in the file. A rename is atomic.
//! - **A failed operation** ([`SimulatedDisk::fail_next`], [`SimulatedDisk::fail_from_now`]): reading, writing,
//!   syncing, creating, opening, renaming, removing, listing, locking fail with EIO, ENOSPC, EROFS or EACCES and
//!   change nothing, but for two. A failed sync of a file leaves some of the unsynced sectors durable and the
//!   others *stranded*: readable until the power goes, durable never, unless they are written again; through every other opening of
//!   the file the next sync reports it, as on Linux. A write that finds the disk full may have written its beginning.
//! - **A full disk** ([`SimulatedDisk::set_capacity`]).
//! - **Short and interrupted transfers** ([`SimulatedDisk::shorten_transfers`]).
//! - **Damage** done by hand ([`SimulatedDisk::put_bytes`]): it represents bit rot and careless people.
//!
//! Not legal: a sync that reports success and has made nothing durable. [`SimulatedDisk::lie_about_syncs`] does
//! just that, for one purpose: to prove that a crash test would notice.
//!
//! Every moment at which the power may go can be looked at ([`SimulatedDisk::watch`]): before each changing operation.
//!
//! Clones share one disk. A crash image is a separate disk, with no locks, no plans for faults, and everything
//! on it durable.

mod content;
mod door;
mod faults;
mod names;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

#[cfg(test)]
use crate::base::disk::Bug;
use content::Content;
use faults::{Failure, FaultPlan};
pub use faults::{Fault, Operation};
use names::Tree;

/// A disk in memory; see the [module](self) for what it does.
#[derive(Clone, Default)]
pub struct SimulatedDisk {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Signalled when a sync begins to wait, and when syncs are released.
    holding: Condvar,
}

struct State {
    tree: Tree,
    files: BTreeMap<u64, Content>,
    next_file: u64,
    locks: BTreeMap<PathBuf, Holders>,
    plan: FaultPlan,
    /// Decides what a failed sync leaves behind; seeded, so that every test can be replayed.
    random: fastrand::Rng,
    watcher: Option<Watcher>,
    #[cfg(test)]
    bug: Option<Bug>,
}

/// The holders of a lock.
#[derive(Clone, Copy)]
enum Holders {
    Writer,
    Readers(usize),
}

/// Called before each changing operation.
type Watcher = Box<dyn FnMut(&Moment<'_>) + Send>;

/// The moment before a changing operation: no other thread can do anything to the disk meanwhile.
pub struct Moment<'a> {
    state: &'a State,
    operation: Operation,
}

impl Moment<'_> {
    /// The operation that is about to be done.
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// The number of changing operations before it.
    pub fn number(&self) -> u64 {
        self.state.plan.operations
    }

    /// The disk as it may be found if the power goes now; same as [`SimulatedDisk::crash_image`].
    pub fn image(&self, seed: u64) -> SimulatedDisk {
        self.state.crash_image(seed)
    }
}

impl Default for State {
    fn default() -> Self {
        State {
            tree: Tree::default(),
            files: BTreeMap::new(),
            next_file: 0,
            locks: BTreeMap::new(),
            plan: FaultPlan::default(),
            random: fastrand::Rng::with_seed(0),
            watcher: None,
            #[cfg(test)]
            bug: None,
        }
    }
}

impl State {
    fn file(&mut self, number: u64) -> io::Result<&mut Content> {
        self.files.get_mut(&number).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Called before every operation; an error is the result of the operation.
    fn begin(&mut self, operation: Operation) -> Result<(), Failure> {
        if operation.changes_something()
            && let Some(mut watcher) = self.watcher.take()
        {
            watcher(&Moment { state: self, operation });
            self.watcher = Some(watcher);
        }
        self.plan.begin(operation)
    }

    fn crash_image(&self, seed: u64) -> SimulatedDisk {
        let mut survivors = Survivors::of_seed(seed);
        let tree = self.tree.after_crash(&mut survivors);
        // What has no name any more is lost with the process that had it open.
        let named: BTreeSet<u64> = tree.live_files().collect();
        let mut files = BTreeMap::new();
        for (&number, content) in &self.files {
            let found = content.after_crash(&mut survivors);
            if named.contains(&number) {
                files.insert(number, Content::durable(found));
            }
        }
        let random = fastrand::Rng::with_seed(seed);
        let image = State {
            tree,
            files,
            next_file: self.next_file,
            random,
            #[cfg(test)]
            bug: self.bug,
            ..State::default()
        };
        SimulatedDisk { shared: Arc::new(Shared { state: Mutex::new(image), holding: Condvar::new() }) }
    }

    /// Bytes in files that have a name.
    fn bytes_used(&self) -> u64 {
        self.tree.live_files().filter_map(|number| self.files.get(&number)).map(Content::len).sum()
    }
}

/// The fate of an unsynced change in a power loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Survival {
    Lost,
    Kept,
    Torn,
}

/// Chooses what survives: nothing unsynced for seed 0, everything for seed 1, else by chance.
struct Survivors {
    seed: u64,
    random: fastrand::Rng,
}

impl Survivors {
    fn of_seed(seed: u64) -> Self {
        Survivors { seed, random: fastrand::Rng::with_seed(seed) }
    }

    fn of_random(random: &mut fastrand::Rng) -> Self {
        Survivors { seed: 2, random: random.fork() }
    }

    fn choose(&mut self) -> Survival {
        match self.seed {
            0 => Survival::Lost,
            1 => Survival::Kept,
            _ => match self.random.u8(0..3) {
                0 => Survival::Lost,
                1 => Survival::Kept,
                _ => Survival::Torn,
            },
        }
    }

    fn coin(&mut self) -> bool {
        match self.seed {
            0 => false,
            1 => true,
            _ => self.random.bool(),
        }
    }
}

impl SimulatedDisk {
    /// An empty disk.
    pub fn new() -> Self {
        SimulatedDisk::default()
    }

    /// The disk as it may be found after the power went now. Seed 0 keeps nothing that was not synced, seed 1
    /// keeps everything, every other seed makes its own choice, and always the same one.
    pub fn crash_image(&self, seed: u64) -> SimulatedDisk {
        self.shared.state.lock().crash_image(seed)
    }

    /// Seeds this bug into the engine with files of this disk, and of its crash images.
    #[cfg(test)]
    pub(crate) fn seed_bug(&self, bug: Bug) {
        self.shared.state.lock().bug = Some(bug);
    }

    /// Has `watcher` called before each changing operation from now on, with the disk as it is: to see what a loss of power
    /// at that moment would leave. It must not touch this disk itself.
    pub fn watch(&self, watcher: impl FnMut(&Moment<'_>) + Send + 'static) {
        self.shared.state.lock().watcher = Some(Box::new(watcher));
    }

    /// Calls it no more.
    pub fn watch_no_more(&self) {
        self.shared.state.lock().watcher = None;
    }

    /// The next such operation fails.
    pub fn fail_next(&self, operation: Operation, fault: Fault) {
        self.shared.state.lock().plan.next.push((operation, fault));
    }

    /// Every such operation fails until [`heal`](Self::heal).
    pub fn fail_from_now(&self, operation: Operation, fault: Fault) {
        self.shared.state.lock().plan.always.push((operation, fault));
    }

    /// Forgets every planned fault, the capacity and the end set by [`crash_after`](Self::crash_after).
    pub fn heal(&self) {
        let mut state = self.shared.state.lock();
        state.plan.heal();
    }

    /// Every operation after the next `operations` changing ones (write, set length, sync, create, rename, remove,
    /// sync or make a directory) fails and changes nothing: the power has gone.
    pub fn crash_after(&self, operations: u64) {
        let mut state = self.shared.state.lock();
        state.plan.last_operation = Some(state.plan.operations + operations);
    }

    /// The number of changing operations so far, failed ones included.
    pub fn operations(&self) -> u64 {
        self.shared.state.lock().plan.operations
    }

    /// Files may have this many bytes together; a write beyond fails with ENOSPC.
    pub fn set_capacity(&self, bytes: u64) {
        self.shared.state.lock().plan.capacity = Some(bytes);
    }

    /// Shortens transfers from now on: a read or write transfers half of what it is asked for, and every third call is
    /// interrupted.
    pub fn shorten_transfers(&self) {
        self.shared.state.lock().plan.shorten_transfers = true;
    }

    /// Breaks syncs from now on: they report success and do nothing. No disk that we promise anything on does this.
    pub fn lie_about_syncs(&self) {
        self.shared.state.lock().plan.lie_about_syncs = true;
    }

    /// Holds syncs from now on: a sync of a file waits, before it has done anything, until
    /// [`release_syncs`](Self::release_syncs).
    pub fn hold_syncs(&self) {
        self.shared.state.lock().plan.hold_syncs = true;
    }

    /// Lets every waiting sync go on, and later ones pass.
    pub fn release_syncs(&self) {
        self.shared.state.lock().plan.hold_syncs = false;
        self.shared.holding.notify_all();
    }

    /// The number of syncs that wait.
    pub fn held_syncs(&self) -> usize {
        self.shared.state.lock().plan.held_syncs
    }

    /// Waits until this many syncs wait.
    ///
    /// # Panics
    /// If they do not come within two minutes: then a sync is missing.
    pub fn wait_for_held_syncs(&self, count: usize) {
        let deadline = Instant::now() + Duration::from_secs(120);
        let mut state = self.shared.state.lock();
        while state.plan.held_syncs < count {
            let waited = self.shared.holding.wait_until(&mut state, deadline);
            assert!(!waited.timed_out(), "{} syncs wait, not {count}", state.plan.held_syncs);
        }
    }

    /// The present content of a file, past every planned fault.
    pub fn bytes(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut state = self.shared.state.lock();
        let number = state.tree.file(path)?;
        Ok(state.file(number)?.live().to_vec())
    }

    /// Puts a file there, durably and past every planned fault; one of that name gets this content instead. The
    /// directory must exist.
    pub fn put_bytes(&self, path: &Path, bytes: Vec<u8>) -> io::Result<()> {
        let mut state = self.shared.state.lock();
        let number = match state.tree.file(path) {
            Ok(number) => number,
            Err(_) => {
                let number = state.next_file;
                state.next_file += 1;
                state.tree.link(path, number)?;
                state.tree.sync(path.parent().unwrap_or(Path::new("")))?;
                number
            }
        };
        state.files.insert(number, Content::durable(bytes));
        Ok(())
    }
}
