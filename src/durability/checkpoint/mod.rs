//! Checkpoints on disk: copies of all records, which make the beginning of the log useless.
//!
//! ```text
//! bank/checkpoint/00000003.manifest     checkpoint 3: which parts it has, and from where on the log is needed
//! bank/checkpoint/00000003-0001.part    a part: a header, then blocks of copies; part 1 is the catalog's
//! bank/checkpoint/00000003-0002.part
//! elsewhere/00…7f-00000003-0003.part    parts in other directories have the database's UUID in front
//! ```
//!
//! A checkpoint is written by threads of the pipeline: [`NewCheckpoint::begin`], each thread's
//! [`PartWriter`]s, and, when the log is durable through everything that was copied,
//! [`NewCheckpoint::finish`], which writes the manifest. It is read by [`Checkpoints::newest_first`],
//! [`load()`].
//!
//! Invariants:
//! - A checkpoint is there when its manifest is, under its final name; by then all its parts are durable. Files without
//!   a manifest are what an interruption left; the next opening removes them.
//! - What an older checkpoint needs, its files and the log behind it, is removed only when a newer one is durable. That it
//!   was found does not say so: opening a database makes the names durable first.
//! - Every byte of every file is covered by a checksum, by a length in the manifest, or by both.
//! - In directories elsewhere a database changes only what is its own and no copy's (`claim`).
//! - No number of a checkpoint is used for another one while a file of it is there.

mod adopt;
mod checkpoint_loader;
mod checkpoint_writer;
mod claim;
mod duplicate;
mod encoding;
mod files;
mod manifest;
mod part;
#[cfg(test)]
mod tests;

pub(crate) use checkpoint_loader::{Crew, load};
pub(crate) use checkpoint_writer::{Content, NewCheckpoint};
pub(crate) use duplicate::PartCopy;
pub(crate) use encoding::Fields;
pub(crate) use files::Checkpoints;
pub(crate) use manifest::{Manifest, Written};
pub(crate) use part::PartWriter;
