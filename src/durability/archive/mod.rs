//! The files of a database that an archive copies, and a directory that is made of them again.
//!
//! An archive holds files and not records: pieces of the log's segments, as they are on disk, and the files of checkpoints. A
//! piece holds whole groups, read behind the durable end of the log beside its writer, so that no commit waits for it. A
//! directory that is made of them is one that a crash might have left right behind the last group of the last piece, but that
//! its last segment is short.
//!
//! Invariants:
//! - Only durable groups are given out, each whole, in the order of the log, and with the place that they have in it: a restored log
//!   has every block in the segment and at the offset that its header and the checkpoints' manifests say.
//! - What is copied of a checkpoint has correct checksums.
//! - A directory gets its manifest last: while that is missing, it is no database.
//!
//! What is read of the log here is held back from being removed by the hold [`log_holds::ARCHIVE`](super::log_holds::ARCHIVE).

mod checkpoint_copy;
mod log_piece;
mod rebuild;

pub use checkpoint_copy::{CheckpointCopy, FileChunk};
pub(crate) use log_piece::read_piece;
pub use log_piece::{ArchivedGroup, LogPiece, PieceExtent, SegmentPosition};
pub(crate) use rebuild::Rebuild;
