//! A checkpointer elsewhere (TPK, 1988, configuration C): a follower process gets the log over a local socket, keeps a
//! copy of all data, and writes the parts of checkpoints from it.
//!
//! The entry points are [`FollowerConnection`], the database's side, with a thread of its own, `heddle-follower`; and
//! [`follow`](follow()), the follower's. Why it is so: `docs/decisions/2026-11-22-follower.md`. In the order of data flow:
//! 1. `connection` sends the log's blocks, once they are durable (`durability::BlockReader` reads them from the segments).
//! 2. `block_chain` assembles blocks to groups; it believes nothing that a checksum does not vouch for.
//! 3. `replica` is the copy of all data: it replays the groups, as recovery does.
//! 4. `message` encodes what the two sides send.
//!
//! Invariants:
//! - Only durable blocks are sent: a copy is never ahead of what a power loss leaves.
//! - A follower's checkpoint lies between two groups: its records are through exactly one epoch, and the log is needed from
//!   the next one on.
//! - A follower only creates files. The database alone names a checkpoint and removes files, after it has read every part
//!   and made it durable.
//! - The database waits for no follower: not in a commit, not in its log, not when it is closed. Only its checkpointer
//!   does, and only until the log has grown by a bound, or the follower has been silent for a while; then it writes its own
//!   checkpoint.
//! - What is not sent yet is not kept for the follower: it is read from the log's segments when there is room in the
//!   connection. A follower for which they do not last has to start over.
//! - The socket is there while the thread is, and no longer.

mod block_chain;
mod connection;
mod follow;
pub(crate) mod message;
mod replica;
#[cfg(test)]
mod tests;

pub(crate) use block_chain::BlockChain;
pub use connection::FollowerStatus;
pub(crate) use connection::{FollowerConnection, Ordered};
pub use follow::FollowerReport;
pub(crate) use follow::follow;
