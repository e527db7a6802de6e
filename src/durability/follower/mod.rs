//! A follower: another process that has a copy of all data, made of a checkpoint and the log behind it, and writes the
//! next checkpoints from that copy, so that the database need not.
//!
//! What it does with which file, in the order in which data flows:
//! 1. [`Shipper`] reads the log's blocks from the segments, once they are durable, and the database sends them.
//! 2. [`Chain`] puts the blocks that arrive together to groups; it believes nothing that a checksum does not vouch for.
//! 3. [`Replica`] is the copy: it replays the groups, as recovery does.
//! 4. [`message`] is what the two say to each other.
//!
//! Invariants:
//! - Nothing is sent that is not durable. So a copy is never ahead of what a power loss leaves.
//! - A follower's checkpoint is made between two groups: its records are through exactly one epoch, and the log is needed
//!   from the next one on.
//! - A follower only makes files that are not there. It names no checkpoint and removes nothing: the database alone does,
//!   and only when it has read every part itself, and made it durable.
//!
//! No thread is started here, and nothing is waited for; `pipeline::follower` does both.

mod chain;
pub(crate) mod message;
mod replica;
mod ship;

pub(crate) use chain::Chain;
pub(crate) use replica::Replica;
pub(crate) use ship::Shipper;
