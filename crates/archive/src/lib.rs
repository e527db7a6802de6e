//! An archive of a HeddleDB database in object storage: its log and its checkpoints, and restore to a moment.
//!
//! A database that lives on one machine dies with it. Its log says everything that was ever committed, so a copy of the log that
//! is kept elsewhere, and of a checkpoint from which it is replayed, is the database once more, as of any of its groups. An
//! [`Archiver`] copies both beside execution: it reads what is durable, and no commit waits for it. What a lost machine costs is
//! what was committed since the last upload, [`ArchiveSettings::interval`] at most while the archive can be reached.
//!
//! ```text
//! UUID/00000001/timeline                       who began the timeline, and from which one it was restored
//! UUID/00000001/log/0000000000-0000000001      term and sequence number: whole groups of the log, as its segments have them
//! UUID/00000001/checkpoint/00000003/000001     a chunk of one of a checkpoint's files
//! UUID/00000001/catalog/0000000042             what of all this must be there; the newest one counts
//! ```
//!
//! Each restore, and each database whose log does not continue what its timeline has, begins a new *timeline*. So histories that
//! have the same beginning are kept apart.
//!
//! # Invariants
//!
//! - An object never changes. It is created only if there is none of its name, so that a writer cannot overwrite what another one
//!   has written; one that finds other content there begins a new timeline.
//! - An object says its own name, and ends with a checksum of all before. Each object of the log has the checksum of its
//!   predecessor. The catalog has the number of the last one, and a checksum of each checkpoint. So what is changed, cut, exchanged
//!   or missing is found, and named.
//! - The log of a timeline has no hole: a database that cannot continue it begins another one with a checkpoint.
//! - A catalog is written when all that it lists is there, and what a newer one no longer lists is removed after that.
//! - The log of the database is held until it is archived, within a limit; then it is removed, and that is an alarm. Commits go on.
//!
//! # Concurrency
//!
//! The [`Uploader`] runs an [`Archiver`] on a thread of its own. Readers take no lock: they read a catalog, and what it lists.

mod archiver;
mod catalog;

mod encoding;
mod error;
mod log_object;
mod names;
mod objects;
mod prune;
mod reader;
mod restore;
mod store;
mod timeline;
mod uploader;
mod verify;

pub use archiver::{ArchiveSettings, Archiver, Step};
pub use catalog::{ArchivedCheckpoint, Catalog};
pub use error::{ArchiveError, Result};
pub use names::Timeline;
pub use objects::{Listed, Objects};
pub use prune::{PruneReport, Retention, prune};
pub use reader::{Listing, list};
pub use restore::{RestorePoint, RestoreReport, restore};
pub use store::{Credentials, open};
pub use uploader::Uploader;
pub use verify::{VerifyReport, verify};
