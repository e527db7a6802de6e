//! Durability: the database's directory and its log, from which committed transactions are recovered.
//!
//! ```text
//! bank/LOCK                held by the one process that has the database open
//! bank/MANIFEST            format version and UUID; the last file made when a database is created
//! bank/log/00000001.log    segments: a header page, then blocks; filled one after another, without gaps
//! bank/log/00000002.log
//!                          or all of them in another directory, which the manifest names: see `log_place`
//! bank/checkpoint/         copies of all records, which make the beginning of the log useless: see `checkpoint`
//! ```
//!
//! The steps of opening a database, in the order in which data flows:
//! 1. [`DatabaseDirectory::open`] creates or finds the directory, and locks it.
//! 2. [`recovery`] loads the newest whole checkpoint, if there is one. From where it says, [`LogReader`] yields every whole
//!    group of the log, and then reports the log's end: clean, a torn tail, or damage (an error).
//! 3. [`repair()`] removes the torn tail and makes durable what was read.
//! 4. [`LogWriter::open`] continues behind it. [`Segments`] prepares files ahead, from another thread if one likes.
//!
//! The log stage writes through [`log_store`], and recovery reads through it: neither knows of segments. A position in the log that does not
//! depend on segments is a [`position`].
//!
//! Beside all that, [`follower`] lets another process write the checkpoints, and [`backup`] copies a directory that may be written to meanwhile.
//! [`archive`] reads the files that an archive copies.
//!
//! Invariants:
//! - A group that was acknowledged is read again whole; of one that was not, all or nothing is read.
//! - A group says which blocks were durable when it was written: all but those of the one group that may have been in
//!   flight. So whatever is found behind a hole tells whether that is damage or a torn tail.
//! - A page (4096 bytes) that is durable is not written again with other content. Groups never share a page.
//! - A segment is filled to its end only when the next one is in place. So a full segment without a successor
//!   means that a file is missing.
//! - After a failed write or sync nothing is written any more.
//!
//! No thread is started here. `docs/formats.md` has byte pictures of all files.

pub(crate) mod archive;
pub(crate) mod backup;
mod beside_writer;
mod block;
mod block_reader;
mod chain;
pub(crate) mod checkpoint;
mod directory;
use crate::error::failure;
pub(crate) mod groups_in_flight;
mod held_files;
pub(crate) mod log_holds;
mod log_place;
mod log_reader;
pub(crate) mod log_store;
pub(crate) mod log_tail;
mod manifest;
#[cfg(test)]
pub(crate) mod memory_log;
pub(crate) mod position;
mod prepare;
pub(crate) mod progress;
pub(crate) mod recovery;
mod repair;
mod replay;
mod segment;
mod segment_sizes;
pub(crate) mod space;
mod starts;
mod tail;
pub(crate) mod watch;
mod window;
mod writer;

#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use block::checksum;
pub(crate) use block::{BlockHeader, group_bytes_max, header_checksum};
pub(crate) use block_reader::BlockReader;
pub(crate) use chain::Chain;
pub(crate) use directory::{DatabaseDirectory, checkpoints_of, identity};
#[cfg(test)]
pub(crate) use log_reader::Group;
pub(crate) use log_reader::{LogReader, TermStart};
pub(crate) use manifest::Uuid;
pub(crate) use prepare::Segments;
pub(crate) use repair::{RepairedLog, repair};
pub(crate) use segment_sizes::SegmentSizes;
pub(crate) use starts::GroupStart;
pub(crate) use tail::{Cut, LogEnd};
pub(crate) use writer::LogWriter;

/// The unit in which files are laid out: every header and every block begins at a multiple of it.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// Bound on epochs, which no database reaches: stamps have no room for more, and some is left for later versions. An
/// epoch in a file that is higher is damage.
pub(crate) const EPOCH_MAX: u64 = (1 << 40) - (1 << 20);

/// The newest format of checkpoints that this program knows, and the one that it writes. Version 2 has checkpoints; version 1 is of
/// databases that have none. The database's manifest, which every program reads first, has versions of its own: it is raised
/// when the database is opened for writing.
pub(crate) const CHECKPOINT_VERSION: u32 = 2;

/// The newest format of the log's segments that this program knows, and the one that it writes. In version 3
/// each group has a term and a time, and each block the checksum of the header before it; segments of an
/// earlier version may continue with such blocks. Version 2 has logs that need not begin with segment 1;
/// otherwise it equals version 1.
pub(crate) const LOG_VERSION: u32 = 3;
