//! A checkpointer elsewhere (TPK, 1988, configuration C): a follower process gets the log over a local socket, keeps a
//! copy of all data, and writes the parts of checkpoints from it.
//!
//! [`post`] is the database's side, with a thread of its own, `heddle-follower`; [`follow`](follow()) is the other
//! one. What goes over the line is in `durability::follower`, why it is so in `docs/decisions/2026-11-22-follower.md`.
//!
//! Invariants:
//! - The database waits for no follower: not in a commit, not in its log, not when it is closed. Only its checkpointer
//!   does, and only until the log has grown by a bound, or the follower has been silent for a while; then it writes its own
//!   checkpoint.
//! - What is not sent yet is not kept for the follower: it is read from the log's segments when there is room in the
//!   connection. A follower for which they do not last has to start over.
//! - The socket is there while the thread is, and no longer.

mod connection;
mod follow;
#[cfg(test)]
mod tests;

pub use connection::FollowerStatus;
pub(crate) use connection::{FollowerConnection, Ordered};
pub use follow::FollowerReport;
pub(crate) use follow::follow;
