//! The writing of a database's log behind its end, and of its checkpoints: by the process that has locked the directory, once it has
//! all that was logged in memory, by recovery or as a standby.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::base::socket::Listener;
use crate::durability::log_store::LogStore;
use crate::durability::{DatabaseDirectory, LogEnd, LogWriter, SegmentSizes, Segments, repair};
use crate::error::{Error, Result};
use crate::feed::log_holds;
use crate::options::Options;
use crate::pipeline::checkpoint::{CheckpointSettings, Checkpointer};
use crate::pipeline::follower::FollowerConnection;
use crate::pipeline::log::Preparation;
use crate::storage::redo::TemporaryFiles;
use crate::storage::store::Store;

/// The largest block of the log, in bytes.
const BLOCK_BYTES_MAX: u64 = 8 << 20;

/// What writes the log and the checkpoints.
pub(super) struct Writing {
    pub(super) log: Box<dyn LogStore>,
    pub(super) segments: Arc<Segments>,
    pub(super) preparation: Arc<Preparation>,
    pub(super) checkpointer: Arc<Checkpointer>,
}

/// Makes the log in a directory that is locked fit to be written behind its end, and removes what its newest checkpoint has replaced. The
/// store has all that was logged.
///
/// # Errors
/// A file cannot be written or removed; another database's checkpoints are where this one's are to be.
pub(super) fn begin_to_write(
    directory: &DatabaseDirectory,
    options: &Options,
    store: &Store,
    (end, newest): (LogEnd, Option<u32>),
) -> Result<Writing> {
    let checkpoints = directory.checkpoints(directory.disk().clone());
    // Before anything is changed: what a copy of a database would remove elsewhere may be the original's.
    checkpoints.claim_all(&options.checkpoints.directories)?;
    // Before anything is removed that the checkpoint replaces: a process that was killed right after naming it has left
    // its name in the system's cache only.
    checkpoints.make_names_durable()?;
    let (writer, segments) = LogWriter::open(repair(end)?, &segment_sizes(options))?;
    segments.begin_to_hold(log_holds(store)?, options.log.archive_hold_bytes)?;
    // Only now: before, what a damaged checkpoint was to replace might still have been needed.
    // What stays does no harm, and the next checkpoint tries again: no reason to refuse the database. It is reported.
    let leftover = checkpoints.remove_all_but(newest, &options.checkpoints.directories).err();
    let settings = checkpoint_settings(options);
    let follower_connection = options.checkpoints.follower_socket.as_deref().map(listen).transpose()?;
    let checkpointer =
        Checkpointer::new(settings, checkpoints, segments.clone(), leftover, follower_connection);
    let least_bytes = 2 * options.log.buffer_bytes as u64 + (1 << 16);
    let preparation = Preparation::new(segments.clone(), checkpointer.clone(), least_bytes);
    Ok(Writing { log: Box::new(writer), segments, preparation, checkpointer })
}

/// The maker of the database's temporary files.
pub(super) fn temporary_files(directory: &DatabaseDirectory) -> TemporaryFiles {
    TemporaryFiles::new(directory.disk().clone(), directory.log_path().to_path_buf())
}

pub(super) fn segment_sizes(options: &Options) -> SegmentSizes {
    SegmentSizes::new(options.log.segment_bytes, BLOCK_BYTES_MAX)
}

/// Waits for a follower at a socket.
fn listen(path: &Path) -> Result<FollowerConnection> {
    Listener::bind(path).map(FollowerConnection::new).map_err(|error| Error::InvalidOption {
        option: "checkpoints.follower_socket",
        given: path.display().to_string(),
        expected: format!(
            "a path of at most 100 bytes at which a socket can be made, and none is in use ({error})"
        ),
    })
}

fn checkpoint_settings(options: &Options) -> CheckpointSettings {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let seconds = options.checkpoints.seconds;
    let usual = if processors < 4 { 1 } else { 2 };
    CheckpointSettings {
        log_bytes: options.checkpoints.log_bytes,
        interval: (seconds > 0.0).then(|| Duration::from_secs_f64(seconds)),
        spread: options.checkpoints.spread,
        bytes_per_second: options.checkpoints.bytes_per_second,
        threads: options
            .checkpoints
            .threads
            .unwrap_or(usual.max(options.checkpoints.directories.len().min(64))),
        directories: options.checkpoints.directories.clone(),
    }
}
