//! Loading a checkpoint: its catalog first, then all other parts, by several threads.

use crossbeam_epoch::pin;
use parking_lot::Mutex;

use super::files::Checkpoints;
use super::manifest::{Manifest, Part};
use crate::Result;
use crate::base::atomics::{AtomicU64, AtomicUsize, Ordering};
use crate::durability::failure::{damaged, what_is_wrong};
use crate::durability::watch::{RecoveryStep, Watch};
use crate::error::Error;
use crate::storage::catalog::FIRST_USER_TABLE;
use crate::storage::restore::{Loaded, Loader, Overlap};
use crate::storage::store::Store;

/// Runs a job on several threads at once, of which the caller's is one, and returns when all have returned from it.
pub(crate) type Crew<'c> = &'c dyn Fn(&(dyn Fn() + Sync));

/// Bytes of a checkpoint that are loaded, and that there are.
struct Progress<'w> {
    watch: &'w Watch,
    done: AtomicU64,
    total: u64,
}

impl Progress<'_> {
    /// A block of this many bytes has been loaded, with this result.
    fn after(&self, bytes: usize, loaded: Result<u64>) -> Result<u64> {
        // Relaxed: a number for people.
        let done = self.done.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        self.watch.report(RecoveryStep::Checkpoint, done, self.total);
        loaded
    }
}

/// Loads a checkpoint into an empty store; returns what the replay of the log has to know about it.
///
/// # Errors
/// A part cannot be read, or is damaged: with file and offset.
pub(crate) fn load(
    checkpoints: &Checkpoints,
    manifest: &Manifest,
    store: &Store,
    (crew, watch): (Crew<'_>, &Watch),
) -> Result<Overlap> {
    let Some((catalog, parts)) = manifest.parts.split_first() else {
        return Ok(Overlap::default());
    };
    let reported = Progress { watch, done: AtomicU64::new(0), total: manifest.bytes() };
    let mut loaded = load_parts(checkpoints, manifest, store, std::iter::once(*catalog), &reported)?;
    add_tables(checkpoints, manifest, store)?;
    reserve(checkpoints, manifest, store)?;
    loaded.add(load_in_parallel(checkpoints, manifest, store, parts, (crew, &reported))?);
    if loaded.tables != manifest.tables {
        let detail = "the parts have not as many records of each table as it says";
        return Err(damaged(&checkpoints.manifest_path(manifest.number), 28, detail));
    }
    Ok(Overlap::new(manifest.last_epoch, loaded.split))
}

/// Makes the tables of which the copied catalog has all rows: those whose rows are older than the log that is needed,
/// and those that had records, because a table is used only when its rows in the catalog are durable. All others
/// are made when the transaction is replayed that wrote their rows.
fn add_tables(checkpoints: &Checkpoints, manifest: &Manifest, store: &Store) -> Result<()> {
    let guard = pin();
    let mut used = manifest.tables.keys().filter(|&&id| id >= FIRST_USER_TABLE);
    let added = store.add_tables_made_before(manifest.first_epoch, &guard);
    let added = added.and_then(|()| used.try_for_each(|&id| store.add_table_of_catalog(id, &guard)));
    added.map_err(|error| match error {
        error @ Error::Damaged { .. } => error,
        error => damaged(&checkpoints.manifest_path(manifest.number), 28, what_is_wrong(error)),
    })
}

/// Makes room in the tables' indexes for the records that there will be. Before, it is made sure that the parts are there and as
/// long as the manifest says, since that has no more records than fit into this many bytes.
fn reserve(checkpoints: &Checkpoints, manifest: &Manifest, store: &Store) -> Result<()> {
    checkpoints.open_parts(manifest)?;
    let guard = pin();
    for (&id, &records) in &manifest.tables {
        if let Some(table) = store.table(id) {
            table.reserve(records, &guard);
        }
    }
    Ok(())
}

fn load_in_parallel(
    checkpoints: &Checkpoints,
    manifest: &Manifest,
    store: &Store,
    parts: &[Part],
    (crew, reported): (Crew<'_>, &Progress<'_>),
) -> Result<Loaded> {
    let next = AtomicUsize::new(0);
    let all = Mutex::new(Ok(Loaded::default()));
    let work = || {
        // Relaxed: each number is given once, and nothing else hangs on it.
        let take = || parts.get(next.fetch_add(1, Ordering::Relaxed)).copied();
        let result = load_parts(checkpoints, manifest, store, std::iter::from_fn(take), reported);
        let mut all = all.lock();
        match (&mut *all, result) {
            (Ok(all), Ok(loaded)) => all.add(loaded),
            (Ok(_), Err(error)) => {
                *all = Err(error);
                // The others find nothing more to do.
                next.store(parts.len(), Ordering::Relaxed);
            }
            (Err(_), _) => {}
        }
    };
    if parts.len() > 1 {
        crew(&work)
    } else {
        work()
    }
    all.into_inner()
}

fn load_parts(
    checkpoints: &Checkpoints,
    manifest: &Manifest,
    store: &Store,
    parts: impl Iterator<Item = Part>,
    reported: &Progress<'_>,
) -> Result<Loaded> {
    let mut loader = Loader::new(store, (manifest.first_epoch, manifest.last_epoch));
    for part in parts {
        let mut reader = checkpoints.open_part(manifest, part)?;
        while reader.next_block(|block| reported.after(block.len(), loader.load(block)))? {}
    }
    Ok(loader.finish())
}
